//! The cluster's description: from EKS, from the API server, and from the operator.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fleetwright_core::cloud::Identity;
use fleetwright_core::model::Str;
use jiff::{SignedDuration, Timestamp};

use super::problems::Problems;
use crate::authority;
use crate::calls::{AwsApi, AwsError, ClusterInfo, ErrorClass};
use crate::recent::is_recent;
use crate::settings::Settings;

/// How often EKS is asked for the cluster.
const CLUSTER_EVERY: SignedDuration = SignedDuration::from_mins(5);
/// The action of these calls.
pub(super) const DESCRIBE: &str = "eks:DescribeCluster";

/// Whether EKS says that it has no such cluster, which is a valid answer.
fn is_unknown_to_eks(error: &AwsError) -> bool {
    error.is_not_found() || error.code == "ResourceNotFoundException"
}

/// The cluster's description. Clones of the provider share it.
pub(super) struct ClusterDescription {
    settings: Settings,
    facts: Mutex<ClusterFacts>,
}

#[derive(Default)]
struct ClusterFacts {
    eks: Option<ClusterInfo>,
    /// When EKS was last asked.
    read: Option<Timestamp>,
    /// The error of the last call to EKS, if it failed.
    eks_error: Option<AwsError>,
    dns: Option<String>,
    /// The version that the API server reports.
    server_version: Option<String>,
    /// Whether the configured cluster is the API server's, once that was compared.
    identity: Option<Identity>,
}

impl ClusterDescription {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { settings: settings.clone(), facts: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, ClusterFacts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_dns(&self, address: Option<String>) {
        self.lock().dns = address;
    }

    pub(super) fn dns(&self) -> Option<String> {
        self.lock().dns.clone()
    }

    pub(super) fn set_server_version(&self, version: &str) {
        self.lock().server_version = Some(version.to_owned());
    }

    pub(super) fn set_identity(&self, identity: Identity) {
        self.lock().identity = Some(identity);
    }

    pub(super) fn identity(&self) -> Option<Identity> {
        self.lock().identity.clone()
    }

    /// The ARN of the cluster, if EKS knows it.
    pub(super) fn arn(&self) -> Option<String> {
        self.lock().eks.as_ref().map(|cluster| cluster.arn.clone()).filter(|arn| !arn.is_empty())
    }

    /// Whether nodes of the cluster use IPv6.
    pub(super) fn is_ipv6(&self) -> bool {
        self.lock().dns.as_deref().is_some_and(|address| address.contains(':'))
    }

    /// Reads the cluster from EKS every few minutes: version and addresses may change. Without an answer only those classes wait that
    /// need it.
    pub(super) async fn refresh(&self, api: &dyn AwsApi, problems: &Problems, now: Timestamp) {
        let read = self.lock().read;
        if read.is_some_and(|read| is_recent(read, now, CLUSTER_EVERY)) {
            return;
        }
        let answer = api.cluster(&self.settings.cluster_name).await;
        let mut facts = self.lock();
        match answer {
            Ok(cluster) => {
                // A proven identity is final: a certificate authority that is replaced later is not another cluster's. An unproven one,
                // because IAM denied the call or EKS did not know the cluster yet, is compared again.
                if facts.identity.as_ref().is_some_and(|identity| *identity != Identity::Proven) {
                    facts.identity = Some(self.compare(&cluster));
                }
                facts.eks = Some(cluster);
                facts.eks_error = None;
                problems.resolved(DESCRIBE);
            }
            Err(error) if is_unknown_to_eks(&error) => {
                facts.eks_error = None;
                problems.resolved(DESCRIBE);
            }
            Err(error) => {
                match error.class() {
                    ErrorClass::Unauthorized => problems.denied(DESCRIBE, &error, now),
                    // Without any answer so far, the next round asks again.
                    _ if facts.eks.is_none() => {
                        problems.failed(DESCRIBE, &error, now);
                        facts.eks_error = Some(error);
                        return;
                    }
                    _ => problems.failed(DESCRIBE, &error, now),
                }
                facts.eks_error = Some(error);
            }
        }
        facts.read = Some(now);
    }

    /// The service CIDR. The error is the failed call to EKS; `None` if EKS has no such cluster, or returns no range.
    pub(super) fn service_cidr(&self) -> Result<String, Option<AwsError>> {
        let facts = self.lock();
        match &facts.eks {
            Some(cluster) => service_cidr(cluster).ok_or(None),
            None => Err(facts.eks_error.clone()),
        }
    }

    /// The version of the control plane, such as `1.35`: of EKS or of the API server, as the settings say, or of the other if that one
    /// is unknown.
    pub(super) fn kubernetes_version(&self) -> Option<String> {
        let facts = self.lock();
        let of_eks = facts.eks.as_ref().map(|cluster| cluster.version.clone());
        let of_eks = of_eks.filter(|version| !version.is_empty());
        let of_server = facts.server_version.clone();
        match self.settings.eks_control_plane {
            true => of_eks.or(of_server),
            false => of_server.or(of_eks),
        }
    }

    fn compare(&self, of_eks: &ClusterInfo) -> Identity {
        authority::compare(&self.settings.cluster_name, &self.settings.ca_bundle, &of_eks.ca_bundle)
    }

    /// Why nothing may be mutated, if EKS knows another cluster by the configured name.
    pub(super) fn mismatch(&self) -> Option<Str> {
        match &self.lock().identity {
            Some(Identity::Mismatch(why)) => Some(why.clone()),
            _ => None,
        }
    }

    /// Compares the cluster that EKS knows by the configured name with the API server's.
    ///
    /// # Errors
    /// If EKS does not answer.
    pub(super) async fn compare_with_eks(&self, api: &dyn AwsApi) -> Result<Identity, AwsError> {
        let name = &self.settings.cluster_name;
        match api.cluster(name).await {
            Ok(cluster) => {
                let identity = self.compare(&cluster);
                self.lock().eks = Some(cluster);
                Ok(identity)
            }
            Err(error) if is_unknown_to_eks(&error) => {
                Ok(Identity::Unproven(format!("EKS knows no cluster called {name}").into()))
            }
            Err(error) if error.class() == ErrorClass::Unauthorized => {
                Ok(Identity::Unproven("eks:DescribeCluster is not allowed".into()))
            }
            Err(error) => Err(error),
        }
    }

    /// Forgets what EKS returned.
    #[cfg(test)]
    pub(super) fn forget_eks(&self) {
        self.lock().eks = None;
    }
}

/// The service CIDR of a cluster: the IPv4 one, if there is one.
fn service_cidr(cluster: &ClusterInfo) -> Option<String> {
    let both = [&cluster.service_cidr_v4, &cluster.service_cidr_v6];
    both.into_iter().flatten().find(|range| !range.is_empty()).cloned()
}

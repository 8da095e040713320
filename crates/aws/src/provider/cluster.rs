//! What is known of the cluster itself: from EKS, from the API server, and from whoever runs the provider.

use fleetwright_core::cloud::Identity;
use fleetwright_core::model::Str;
use jiff::SignedDuration;

use super::AwsProvider;
use crate::authority;
use crate::calls::{AwsError, Class, ClusterInfo};
use crate::recent::is_recent;

/// How often EKS is asked for the cluster.
const CLUSTER_EVERY: SignedDuration = SignedDuration::from_mins(5);
/// The action behind it.
pub(super) const DESCRIBE: &str = "eks:DescribeCluster";

/// Whether EKS says that it has no such cluster, which is as good as any.
fn is_unknown_to_eks(error: &AwsError) -> bool {
    error.is_not_found() || error.code == "ResourceNotFoundException"
}

impl AwsProvider {
    /// Takes the address of the cluster's DNS, which nodes get where their class names none.
    pub fn set_cluster_dns(&self, address: Option<String>) {
        self.state().cluster_dns = address;
    }

    /// Takes the version of the control plane as the API server tells it.
    pub fn set_kubernetes_version(&self, version: &str) {
        self.state().kubernetes = Some(version.to_owned());
    }

    /// Reads what EKS knows of the cluster, every few minutes: version and addresses may change. What EKS does not tell keeps
    /// nobody but those who need it.
    pub(super) async fn know_cluster(&self) {
        let now = self.clock.now();
        let read = self.state().cluster_read;
        if read.is_some_and(|read| is_recent(read, now, CLUSTER_EVERY)) {
            return;
        }
        let answer = self.api.cluster(&self.settings.cluster_name).await;
        let mut state = self.state();
        match answer {
            Ok(cluster) => {
                // What was proven stays so: an authority that is replaced while this process runs is no other cluster's. What was
                // not, because IAM refused or EKS did not know the cluster yet, is looked at again.
                if state.identity.as_ref().is_some_and(|identity| *identity != Identity::Proven) {
                    state.identity = Some(self.compared(&cluster));
                }
                state.cluster = Some(cluster);
                state.cluster_missing = None;
                state.troubles.over(DESCRIBE);
            }
            Err(error) if is_unknown_to_eks(&error) => {
                state.cluster_missing = None;
                state.troubles.over(DESCRIBE);
            }
            Err(error) => {
                match error.class() {
                    Class::Unauthorized => state.troubles.refused(DESCRIBE, &error, now),
                    // Asked again in the next round, while nothing is known of the cluster.
                    _ if state.cluster.is_none() => {
                        state.troubles.failed(DESCRIBE, &error, now);
                        state.cluster_missing = Some(error);
                        return;
                    }
                    _ => state.troubles.failed(DESCRIBE, &error, now),
                }
                state.cluster_missing = Some(error);
            }
        }
        state.cluster_read = Some(now);
    }

    /// The services' address range, or why it is not known: `None` where EKS has no such cluster, or tells no range.
    pub(super) fn service_cidr(&self) -> Result<String, Option<AwsError>> {
        let state = self.state();
        match &state.cluster {
            Some(cluster) => service_cidr(cluster).ok_or(None),
            None => Err(state.cluster_missing.clone()),
        }
    }

    /// The version of the control plane, such as `1.35`: by the settings as EKS or as the API server tells it; where one of them
    /// tells none, the other does.
    pub(super) fn kubernetes_version(&self) -> Option<String> {
        let state = self.state();
        let of_eks = state.cluster.as_ref().map(|cluster| cluster.version.clone());
        let of_eks = of_eks.filter(|version| !version.is_empty());
        let of_server = state.kubernetes.clone();
        match self.settings.eks_control_plane {
            true => of_eks.or(of_server),
            false => of_server.or(of_eks),
        }
    }

    fn compared(&self, of_eks: &ClusterInfo) -> Identity {
        authority::compare(&self.settings.cluster_name, &self.settings.ca_bundle, &of_eks.ca_bundle)
    }

    /// Why nothing may be mutated, where EKS knows another cluster by our name.
    pub(super) fn mismatch(&self) -> Option<Str> {
        match &self.state().identity {
            Some(Identity::Mismatch(why)) => Some(why.clone()),
            _ => None,
        }
    }

    /// Whether the cluster that EKS knows by our name is the API server's.
    ///
    /// # Errors
    /// Where EKS does not answer.
    pub(super) async fn compare_with_eks(&self) -> Result<Identity, AwsError> {
        let name = &self.settings.cluster_name;
        match self.api.cluster(name).await {
            Ok(cluster) => {
                let identity = self.compared(&cluster);
                self.state().cluster = Some(cluster);
                Ok(identity)
            }
            Err(error) if is_unknown_to_eks(&error) => {
                Ok(Identity::Unproven(format!("EKS knows no cluster called {name}").into()))
            }
            Err(error) if error.class() == Class::Unauthorized => {
                Ok(Identity::Unproven("eks:DescribeCluster is not allowed".into()))
            }
            Err(error) => Err(error),
        }
    }
}

/// The services' range of a cluster: the IPv4 one, where there is one.
fn service_cidr(cluster: &ClusterInfo) -> Option<String> {
    let both = [&cluster.service_cidr_v4, &cluster.service_cidr_v6];
    both.into_iter().flatten().find(|range| !range.is_empty()).cloned()
}

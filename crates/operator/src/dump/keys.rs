//! Which label keys, values and names an anonymized dump keeps: those of Kubernetes, Karpenter and clouds.

use fleetwright_core::model::LabelSchema;

/// Domains whose keys are public.
const DOMAINS: [&str; 23] = [
    "amd.com",
    "app.kubernetes.io",
    "apps.kubernetes.io",
    "aws.amazon.com",
    "batch.kubernetes.io",
    "beta.kubernetes.io",
    "cloud.google.com",
    "eks.amazonaws.com",
    "failure-domain.beta.kubernetes.io",
    "fleetwright.dev",
    "karpenter.sh",
    "kubernetes.io",
    "kwok.x-k8s.io",
    "node.cloudprovider.kubernetes.io",
    "node.kubernetes.io",
    "nvidia.com",
    "statefulset.kubernetes.io",
    "storage.kubernetes.io",
    "topology.disk.csi.azure.com",
    "topology.ebs.csi.aws.com",
    "topology.gke.io",
    "topology.k8s.aws",
    "topology.kubernetes.io",
];
/// Keys without a domain, or of the domain of roles, that are public.
const KEYS: [&str; 8] = [
    "controller-revision-hash",
    "job-name",
    "k8s-app",
    "metadata.name",
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "pod-template-generation",
    "pod-template-hash",
];
/// Domains whose keys are restricted: a renamed key stays in its domain.
const RESTRICTED: [&str; 4] = ["kubernetes.io", "k8s.io", "karpenter.sh", "amazonaws.com"];
/// Names that every cluster has, and values that say nothing.
const NAMES: [&str; 9] = [
    "",
    "default",
    "false",
    "kube-node-lease",
    "kube-public",
    "kube-system",
    "system-cluster-critical",
    "system-node-critical",
    "true",
];
/// Keys whose values are public.
const PUBLIC_VALUES: [&str; 10] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "karpenter.sh/capacity-type",
    "karpenter.sh/do-not-sync-taints",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "node.kubernetes.io/windows-build",
    "topology.k8s.aws/network-node-layer",
    "topology.k8s.aws/zone-id",
];

/// Whether a name is kept.
pub(super) fn is_public_name(name: &str) -> bool {
    NAMES.contains(&name)
}

/// What the word for a name begins with, so that it stands where the name stood beside the namespaces that are kept.
pub(super) fn prefix(name: &str) -> &'static str {
    let before =
        [("default", "a"), ("kube-node-lease", "e"), ("kube-public", "kube-o"), ("kube-system", "kube-r")];
    before.into_iter().find(|(kept, _)| name < *kept).map_or("n", |(_, prefix)| prefix)
}

/// The domain that a renamed key keeps.
pub(super) fn kept_domain(key: &str) -> Option<&str> {
    let (domain, name) = key.split_once('/')?;
    let is_of = |restricted: &&str| {
        domain.strip_suffix(*restricted).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    (!name.contains('/') && RESTRICTED.iter().any(is_of)).then_some(domain)
}

/// The label keys that are kept: those above, and those of the registered clouds.
pub(super) struct PublicKeys {
    clouds: LabelSchema,
}

impl PublicKeys {
    /// `clouds` is what label keys mean to the registered clouds.
    pub(super) fn new(clouds: LabelSchema) -> Self {
        Self { clouds }
    }

    /// Whether a label key is kept.
    pub(super) fn is_public(&self, key: &str) -> bool {
        let domain = key.split_once('/').filter(|(_, name)| !name.contains('/')).map(|(domain, _)| domain);
        let is_public_domain =
            |domain: &str| DOMAINS.contains(&domain) || self.clouds.restricted_domains.contains(domain);
        KEYS.contains(&key) || self.clouds.is_well_known(key) || domain.is_some_and(is_public_domain)
    }

    /// Whether the values of a label key are kept: types, zones, architectures and the like. Those of a cloud's own keys are in its
    /// catalogue, but for the identities of reservations.
    pub(super) fn has_public_values(&self, key: &str) -> bool {
        let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
        let is_figure = name.starts_with("instance-") || matches!(name, "zone" | "region");
        let is_of_cloud = self.clouds.is_well_known(key) && !LabelSchema::default().is_well_known(key);
        let is_reservation = self.clouds.reservation_id.as_deref() == Some(key);
        PUBLIC_VALUES.contains(&key) || (self.is_public(key) && is_figure) || (is_of_cloud && !is_reservation)
    }
}

#[cfg(test)]
mod tests {
    //! Keys of users and of everybody.
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("topology.kubernetes.io/zone", true, true)]
    #[case("topology.ebs.csi.aws.com/zone", true, true)]
    #[case("node.kubernetes.io/instance-type", true, true)]
    #[case("pebble.example/instance-cpu", true, true)]
    #[case("pebble.example/grain", true, true)]
    #[case("pebble.example/reservation", true, false)]
    #[case("pebble.example/unknown", true, false)]
    #[case("karpenter.sh/nodepool", true, false)]
    #[case("kubernetes.io/hostname", true, false)]
    #[case("app.kubernetes.io/name", true, false)]
    #[case("team", false, false)]
    #[case("acme.example/zone", false, false)]
    #[case("kubernetes.io/cluster/prod", false, false)]
    fn public_keys_and_values(#[case] key: &str, #[case] is_public: bool, #[case] has_public: bool) {
        let mut clouds = LabelSchema::default()
            .with_well_known(["pebble.example/grain", "pebble.example/reservation"])
            .with_restricted_domain("pebble.example");
        clouds.reservation_id = Some("pebble.example/reservation".into());
        let keys = PublicKeys::new(clouds);
        assert_eq!((keys.is_public(key), keys.has_public_values(key)), (is_public, has_public));
    }

    #[rstest]
    #[case("node-role.kubernetes.io/payments", Some("node-role.kubernetes.io"))]
    #[case("readiness.k8s.io/payments", Some("readiness.k8s.io"))]
    #[case("notkubernetes.io/payments", None)]
    #[case("acme.example/payments", None)]
    #[case("payments", None)]
    fn renamed_keys_stay_in_restricted_domains(#[case] key: &str, #[case] domain: Option<&str>) {
        assert_eq!(kept_domain(key), domain);
    }
}

//! Which label keys, values and names an anonymized dump keeps: those of Kubernetes, Karpenter and clouds.

/// Domains whose keys are public.
const DOMAINS: [&str; 25] = [
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
    "karpenter.k8s.aws",
    "karpenter.kwok.sh",
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
const PUBLIC_VALUES: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "karpenter.k8s.aws/capacity-reservation-type",
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

/// Whether a label key is kept.
pub(super) fn is_public_key(key: &str) -> bool {
    let domain = key.split_once('/').filter(|(_, name)| !name.contains('/')).map(|(domain, _)| domain);
    KEYS.contains(&key) || domain.is_some_and(|domain| DOMAINS.contains(&domain))
}

/// The domain that a renamed key keeps.
pub(super) fn kept_domain(key: &str) -> Option<&str> {
    let (domain, name) = key.split_once('/')?;
    let is_of = |restricted: &&str| {
        domain.strip_suffix(*restricted).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    (!name.contains('/') && RESTRICTED.iter().any(is_of)).then_some(domain)
}

/// Whether the values of a label key are kept: types, zones, architectures and the like.
pub(super) fn has_public_values(key: &str) -> bool {
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    let is_figure = name.starts_with("instance-") || matches!(name, "zone" | "region");
    PUBLIC_VALUES.contains(&key) || (is_public_key(key) && is_figure)
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
    #[case("karpenter.k8s.aws/instance-cpu", true, true)]
    #[case("karpenter.sh/nodepool", true, false)]
    #[case("kubernetes.io/hostname", true, false)]
    #[case("app.kubernetes.io/name", true, false)]
    #[case("team", false, false)]
    #[case("acme.example/zone", false, false)]
    #[case("kubernetes.io/cluster/prod", false, false)]
    fn public_keys_and_values(#[case] key: &str, #[case] is_public: bool, #[case] has_public: bool) {
        assert_eq!((is_public_key(key), has_public_values(key)), (is_public, has_public));
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

//! Label, annotation and taint keys that decisions read, and the schema that defines the meaning of keys.
//!
//! Keys that only the shell writes (hash annotations, finalizers) live in `fleetwright-api`.

use std::collections::{BTreeMap, BTreeSet};

use super::ids::Str;

/// A label map.
pub type Labels = BTreeMap<Str, Str>;

/// The NodePool that a node belongs to.
pub const NODEPOOL: &str = "karpenter.sh/nodepool";
/// `spot`, `on-demand` or `reserved`.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// `true` once a node is registered.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// `true` once a node is initialized.
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// Annotation of a NodeClaim: drivers, separated by commas, that publish devices on the node before it is initialized.
pub const REQUESTED_DRA_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
/// Protects a pod or a node from voluntary disruption.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// The taint on nodes that are being disrupted; effect NoSchedule.
pub const DISRUPTED_TAINT: &str = "karpenter.sh/disrupted";
/// The taint on nodes that have not been registered yet; effect NoExecute.
pub const UNREGISTERED_TAINT: &str = "karpenter.sh/unregistered";
/// The taint that a cloud-controller-manager lifts; effect NoSchedule.
pub const UNINITIALIZED_TAINT: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Node readiness taint.
pub const NOT_READY_TAINT: &str = "node.kubernetes.io/not-ready";
/// Node reachability taint.
pub const UNREACHABLE_TAINT: &str = "node.kubernetes.io/unreachable";
/// Prefix of taints that readiness controllers lift.
pub const READINESS_TAINT_PREFIX: &str = "readiness.k8s.io/";
/// Annotation of a NodeClaim: what it replaced, for which disruption command, and what it recreated
/// ([`crate::disruption::lineage`]).
pub const LINEAGE: &str = "fleetwright.dev/lineage";
/// Annotation of a NodeClaim, from its launch on: the label that its provider has to report before its node may register.
pub const AWAITS_LABEL: &str = "fleetwright.dev/awaits-label";
/// The availability zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The region.
pub const REGION: &str = "topology.kubernetes.io/region";
/// The host's own name.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// The instance type.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// The CPU architecture.
pub const ARCH: &str = "kubernetes.io/arch";
/// The operating system.
pub const OS: &str = "kubernetes.io/os";
/// The Windows build.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";

/// Capacity type of spare capacity that may be taken back.
pub const SPOT: &str = "spot";
/// Capacity type of capacity at list price.
pub const ON_DEMAND: &str = "on-demand";
/// Capacity type of capacity that was reserved beforehand.
pub const RESERVED: &str = "reserved";

/// The meaning of label keys: Kubernetes' and Karpenter's, extended by each provider. A value, never a global.
///
/// ```
/// use fleetwright_core::model::LabelSchema;
///
/// let schema = LabelSchema::default().with_well_known(["acme.example/cpu-maker"]).with_restricted_domain("acme.example");
/// assert!(!schema.is_restricted("acme.example/cpu-maker") && schema.is_restricted("acme.example/other"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LabelSchema {
    /// Keys that a provider sets on its nodes: a claim need not define them to be compatible with a pod.
    pub well_known: BTreeSet<Str>,
    /// The values that exist of some well-known keys. A requirement of a NodePool without any of them is an error.
    pub known_values: BTreeMap<Str, Vec<Str>>,
    /// Domains whose keys users may not set, but for the well-known ones.
    pub restricted_domains: BTreeSet<Str>,
    /// Keys that users may not set at all.
    pub restricted_labels: BTreeSet<Str>,
    /// Old keys and what they are called today.
    pub normalized: BTreeMap<Str, Str>,
    /// The key whose value is a capacity reservation's id, if the provider has one.
    pub reservation_id: Option<Str>,
}

impl Default for LabelSchema {
    /// Karpenter's own schema, without a provider's extensions.
    fn default() -> Self {
        let set = |keys: &[&str]| keys.iter().map(|key| Str::from(*key)).collect();
        Self {
            well_known: set(&[NODEPOOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD]),
            known_values: [(CAPACITY_TYPE.into(), [SPOT, ON_DEMAND, RESERVED].map(Str::from).into())].into(),
            restricted_domains: set(&["karpenter.sh"]),
            restricted_labels: set(&[HOSTNAME]),
            normalized: [
                ("failure-domain.beta.kubernetes.io/zone", ZONE),
                ("failure-domain.beta.kubernetes.io/region", REGION),
                ("beta.kubernetes.io/arch", ARCH),
                ("beta.kubernetes.io/os", OS),
                ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
            ]
            .into_iter()
            .map(|(old, new)| (old.into(), new.into()))
            .collect(),
            reservation_id: None,
        }
    }
}

impl LabelSchema {
    /// The same schema with keys that the provider sets on its nodes.
    #[must_use]
    pub fn with_well_known<'a>(mut self, keys: impl IntoIterator<Item = &'a str>) -> Self {
        self.well_known.extend(keys.into_iter().map(Str::from));
        self
    }

    /// The same schema with a domain whose other keys users may not set.
    #[must_use]
    pub fn with_restricted_domain(mut self, domain: &str) -> Self {
        self.restricted_domains.insert(domain.into());
        self
    }

    /// Whether a claim may leave `key` undefined and still satisfy a requirement on it.
    #[must_use]
    pub fn is_well_known(&self, key: &str) -> bool {
        self.well_known.contains(key)
    }

    /// The present-day name of `key`.
    #[must_use]
    pub fn normalize<'a>(&'a self, key: &'a str) -> &'a str {
        self.normalized.get(key).map_or(key, |new| &**new)
    }

    /// Why users may not set `key`, in Karpenter's words; `None` if they may.
    #[must_use]
    pub fn restriction(&self, key: &str) -> Option<String> {
        self.is_restricted(key).then(|| {
            let list = |set: &BTreeSet<Str>| set.iter().map(|item| &**item).collect::<Vec<_>>().join(" ");
            format!(
                "label {key} is restricted; specify a well known label: [{}], or a custom label that does not use a \
                 restricted domain: [{}]",
                list(&self.well_known),
                list(&self.restricted_domains)
            )
        })
    }

    /// Whether users may not write `key` themselves: a restricted label, or a key of a restricted domain (or one of
    /// its subdomains) that is not well known.
    #[must_use]
    pub fn is_restricted(&self, key: &str) -> bool {
        if self.is_well_known(key) {
            return false;
        }
        if self.restricted_labels.contains(key) {
            return true;
        }
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        self.restricted_domains.iter().any(|restricted| {
            domain == &**restricted
                || domain.strip_suffix(&**restricted).is_some_and(|subdomain| subdomain.ends_with('.'))
        })
    }
}

#[cfg(test)]
mod tests {
    //! Which keys are restricted.
    use super::*;

    #[test]
    fn restricted_keys() {
        let schema = LabelSchema::default();
        for (key, restricted) in [
            (HOSTNAME, true),
            ("karpenter.sh/foo", true),
            ("sub.karpenter.sh/foo", true),
            ("foo-karpenter.sh/foo", false),
            (CAPACITY_TYPE, false),
            ("team", false),
            ("karpenter.sh", false),
        ] {
            assert_eq!(schema.is_restricted(key), restricted, "{key}");
        }
        assert_eq!(schema.normalize("beta.kubernetes.io/arch"), ARCH);
    }
}

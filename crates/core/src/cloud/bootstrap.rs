//! What a node is born with: the part of a NodeClaim that travels through the user data of its instance.

use crate::model::{
    Labels, NodeClaim, Taint, TaintEffect,
    labels::{NODEPOOL, UNREGISTERED_TAINT},
};

/// The labels, annotations and taints of a node at its birth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bootstrap {
    /// The labels of the NodeClaim, the values that its requirements determine and its NodePool. A kubelet may not set those of
    /// [`is_label_of_kubelet`] that it denies: they are written when the node registers.
    pub labels: Labels,
    /// The annotations of the NodeClaim, for clouds that create Nodes themselves. A kubelet sets none.
    pub annotations: Labels,
    /// The taints and startup taints of the NodeClaim, then `karpenter.sh/unregistered:NoExecute`. Without the last one, pods are bound
    /// before the node has its labels and taints.
    pub taints: Vec<Taint>,
}

/// The labels, annotations and taints that the node of a NodeClaim is born with. The instance type, the zone and the capacity type are
/// known after the launch only and are not among them, unless the NodeClaim determines them.
///
/// A provider with [`super::ProviderInfo::bootstraps_startup_taints`] passes all of them to the node.
#[must_use]
pub fn bootstrap(claim: &NodeClaim) -> Bootstrap {
    let mut labels = claim.labels.clone();
    labels.extend(claim.requirements.labels());
    if let Some(pool) = &claim.pool {
        labels.insert(NODEPOOL.into(), pool.as_str().into());
    }
    let mut taints: Vec<Taint> = claim.taints.iter().chain(&claim.startup_taints).cloned().collect();
    if !taints.iter().any(|taint| &*taint.key == UNREGISTERED_TAINT) {
        taints.push(Taint::new(UNREGISTERED_TAINT, "", TaintEffect::NoExecute));
    }
    Bootstrap { labels, annotations: claim.annotations.clone(), taints }
}

/// Domains whose labels a kubelet may not set on its own node.
const RESTRICTED_DOMAINS: [&str; 3] = ["node-restriction.kubernetes.io", "kubernetes.io", "k8s.io"];

/// Whether `--node-labels` of a kubelet may have this key. The admission plugin NodeRestriction, or the kubelet itself, refuses those of
/// Kubernetes' domains.
#[must_use]
pub fn is_label_of_kubelet(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    !RESTRICTED_DOMAINS.iter().any(|restricted| {
        domain == *restricted || domain.strip_suffix(restricted).is_some_and(|rest| rest.ends_with('.'))
    })
}

/// `key=value:effect`, the form of a kubelet's `--register-with-taints`.
#[must_use]
pub fn taint_flag(taint: &Taint) -> String {
    let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
    format!("{}{value}:{}", taint.key, taint.effect.as_str())
}

#[cfg(test)]
mod tests {
    //! What a claim gives to its node.
    use super::*;
    use crate::model::{NodeClassRef, Requirement};

    fn claim() -> NodeClaim {
        let class = NodeClassRef { group: "g".into(), kind: "K".into(), name: "n".into() };
        NodeClaim::new("a", class, jiff::Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_node_is_born_with_everything_that_is_known_of_it() {
        let requirements = [
            Requirement::is_in("example.com/tier", ["gold"]),
            Requirement::is_in("example.com/rack", ["1", "2"]),
        ];
        let claim = NodeClaim {
            pool: Some("general".into()),
            labels: [("example.com/team".into(), "a".into())].into(),
            annotations: [("example.com/note".into(), "b".into())].into(),
            taints: vec![Taint::new("example.com/dedicated", "a", TaintEffect::NoSchedule)],
            startup_taints: vec![Taint::new("example.com/agent", "", TaintEffect::NoExecute)],
            requirements: requirements.into_iter().collect(),
            ..claim()
        };
        let born = bootstrap(&claim);
        let labels: Vec<String> = born.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(labels, ["example.com/team=a", "example.com/tier=gold", "karpenter.sh/nodepool=general"]);
        assert_eq!(born.annotations, claim.annotations);
        let taints: Vec<String> = born.taints.iter().map(taint_flag).collect();
        assert_eq!(
            taints,
            [
                "example.com/dedicated=a:NoSchedule",
                "example.com/agent:NoExecute",
                "karpenter.sh/unregistered:NoExecute"
            ]
        );
    }

    #[test]
    fn the_unregistered_taint_appears_once() {
        let own = Taint::new(UNREGISTERED_TAINT, "", TaintEffect::NoExecute);
        let claim = NodeClaim { startup_taints: vec![own.clone()], ..claim() };
        assert_eq!(bootstrap(&claim).taints, [own]);
    }

    #[test]
    fn a_kubelet_sets_no_labels_of_kubernetes() {
        for (key, allowed) in [
            ("example.com/team", true),
            ("karpenter.sh/nodepool", true),
            ("team", true),
            ("notkubernetes.io/a", true),
            ("topology.kubernetes.io/zone", false),
            ("kubernetes.io/arch", false),
            ("node.k8s.io/a", false),
            ("a.node-restriction.kubernetes.io/b", false),
        ] {
            assert_eq!(is_label_of_kubelet(key), allowed, "{key}");
        }
    }
}

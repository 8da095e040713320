//! Which pods kube-scheduler is asked to bind to the node that is launched for them, by `status.nominatedNodeName`.
//!
//! kube-scheduler tries the nominated node of a pod first, and keeps its room from pods of the same or a lower priority. It clears the
//! nomination whenever an attempt fails, as each does until the node is ready; it is then written again.

use std::{collections::BTreeMap, sync::Arc};

use crate::model::{NodeClaim, NodeName, Pod, PodUid, nodeclaim::ConditionType};

/// How often one pod is nominated to one node.
const MOST: u32 = 10;

/// The node that pods of a NodeClaim are nominated to: it has joined, and is not initialized.
#[must_use]
pub fn joining_node(claim: &NodeClaim) -> Option<&NodeName> {
    let joining = claim.deleting.is_none()
        && claim.is(ConditionType::Registered)
        && !claim.is(ConditionType::Initialized);
    claim.node_name.as_ref().filter(|_| joining)
}

/// How often each pod was nominated to a node.
#[derive(Clone, Debug, Default)]
pub struct NodeNominations(BTreeMap<PodUid, u32>);

impl NodeNominations {
    /// Those of `pods`, which are expected on the node, that are to be nominated to it now.
    #[must_use]
    pub fn due(&self, pods: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
        let is_due = |pod: &Arc<Pod>| {
            pod.is_provisionable()
                && pod.nominated_node.is_none()
                && self.0.get(&pod.uid).is_none_or(|written| *written < MOST)
        };
        pods.into_iter().filter(is_due).collect()
    }

    /// Records that a pod was nominated.
    pub fn written(&mut self, pod: &PodUid) {
        let written = self.0.entry(pod.clone()).or_default();
        *written = written.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    //! When a pod is nominated, and how often.
    use crate::testing::{node, pod};

    use super::*;

    #[test]
    fn a_node_takes_nominations_from_registration_to_initialization() {
        let of = |node: crate::testing::NodeBuilder| {
            joining_node(node.build().claim.as_ref().unwrap()).map(ToString::to_string)
        };
        let with_name = |claim: &mut NodeClaim| claim.node_name = Some("n".into());
        assert_eq!(of(node("n").launched().with_claim(with_name)), None);
        assert_eq!(of(node("n").uninitialized().with_claim(with_name)).as_deref(), Some("n"));
        assert_eq!(of(node("n").with_claim(with_name)), None, "initialized");
        let deleted = |claim: &mut NodeClaim| {
            with_name(claim);
            claim.deleting = Some(crate::testing::now());
        };
        assert_eq!(of(node("n").uninitialized().with_claim(deleted)), None);
    }

    #[test]
    fn a_pod_is_nominated_again_when_kube_scheduler_cleared_it_and_not_for_ever() {
        let mut nominations = NodeNominations::default();
        let due = |nominations: &NodeNominations, pod: Arc<Pod>| nominations.due(vec![pod]).len();
        let (cleared, nominated) =
            (pod("p").build(), pod("p").with(|pod| pod.nominated_node = Some("n".into())).build());
        let bound = pod("p").bound("n");
        assert_eq!(due(&nominations, nominated), 0);
        assert_eq!(due(&nominations, bound), 0);
        for _ in 0..MOST {
            assert_eq!(due(&nominations, cleared.clone()), 1);
            nominations.written(&cleared.uid);
        }
        assert_eq!(due(&nominations, cleared), 0);
    }
}

//! The pods of a scheduling pass: pending pods, and pods of deleting nodes.

use std::sync::Arc;

use fleetwright_core::model::{Operator, Pod, Snapshot, labels};
use jiff::Timestamp;

/// The pods to schedule at `now`: pending pods, then pods of deleting nodes, each by namespace and name.
#[must_use]
pub fn pods(snapshot: &Snapshot, now: Timestamp) -> Vec<Arc<Pod>> {
    let pending = snapshot.pending.iter().filter(|pod| !opted_out(pod));
    let deleting = snapshot.nodes.iter().filter(|node| node.is_deleting());
    let displaced =
        deleting.flat_map(|node| &node.pods).filter(|pod| snapshot.is_currently_reschedulable(pod, now));
    pending.chain(displaced).cloned().collect()
}

/// Whether the node affinity of a pod excludes nodes of all NodePools.
fn opted_out(pod: &Pod) -> bool {
    let refuses = |term: &Vec<fleetwright_core::model::Requirement>| {
        term.iter()
            .any(|wanted| &**wanted.key() == labels::NODEPOOL && wanted.operator() == Operator::DoesNotExist)
    };
    let terms = &pod.spec.required_node_terms;
    !terms.is_empty() && terms.iter().all(refuses)
}

#[cfg(test)]
mod tests {
    //! Which pods are scheduled.
    use fleetwright_core::{
        model::{PodDisruptionBudget, pod::DoNotDisrupt},
        testing::{ClusterBuilder, node, now, pod},
    };

    use super::*;

    fn names(cluster: ClusterBuilder) -> Vec<String> {
        pods(&cluster.build(), now()).iter().map(|pod| pod.id.name.to_string()).collect()
    }

    #[test]
    fn pods_that_opt_out_are_ignored() {
        let cluster = ClusterBuilder::new()
            .pending(pod("a").build())
            .pending(pod("b").require(labels::NODEPOOL, Operator::DoesNotExist, &[]).build());
        assert_eq!(names(cluster), ["a"]);
    }

    #[test]
    fn pods_of_deleting_nodes_are_rescheduled_unless_they_block_the_drain() {
        let pdb = |app: &str, blocks_always| PodDisruptionBudget {
            id: fleetwright_core::model::NamespacedName::new("default", app),
            selector: Some(fleetwright_core::model::LabelSelector::of("app", app)),
            disruptions_allowed: 0,
            blocks_always,
            always_allow_unhealthy: false,
        };
        let deleting = node("n")
            .pod(pod("plain").bound("n"))
            .pod(pod("daemon").daemon().bound("n"))
            .pod(pod("protected").with(|pod| pod.do_not_disrupt = DoNotDisrupt::Always).bound("n"))
            .pod(pod("guarded").app("guarded").bound("n"))
            .pod(pod("stuck").app("stuck").bound("n"))
            .marked()
            .build();
        let remaining = node("m").pod(pod("other").bound("m")).build();
        let cluster = ClusterBuilder::new()
            .node(deleting)
            .node(remaining)
            .pdb(pdb("guarded", false))
            .pdb(pdb("stuck", true));
        assert_eq!(names(cluster), ["guarded", "plain"]);
    }
}

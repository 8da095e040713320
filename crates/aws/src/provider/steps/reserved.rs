//! Nodes in capacity reservations: nodes of an ending capacity block are drained in time, and nodes whose reservation ended become
//! on-demand.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fleetwright_aws_api::labels;
use fleetwright_core::cloud::{
    CloudError, Interruption, InterruptionKind, Object, Outlook, ProviderStep, Round, Write,
};
use fleetwright_core::model::{
    Labels, NodeClaim,
    labels::{CAPACITY_TYPE, ON_DEMAND, REGISTERED, RESERVED},
};

use super::super::{AwsProvider, instance_id};
use super::claims::instances_of_claims;

/// How often nodes are checked.
const EVERY: Duration = Duration::from_secs(60);
/// Most instances of one call.
const TOGETHER: usize = 500;

fn is_reserved(labels: &Labels) -> bool {
    labels.get(CAPACITY_TYPE).is_some_and(|own| &**own == RESERVED)
}

/// Interrupts nodes whose capacity block is about to end.
pub(super) struct Expiration(pub(super) AwsProvider);

#[async_trait]
impl ProviderStep for Expiration {
    fn name(&self) -> &'static str {
        "capacityreservation.expiration"
    }

    async fn run(&self, outlook: &Outlook) -> Result<Round, CloudError> {
        let expires = |claim: &NodeClaim| {
            let id = claim.labels.get(labels::CAPACITY_RESERVATION_ID)?;
            let known = self.0.classes.get(&claim.class.name)?;
            let status = known.class.status.as_ref()?;
            let of = status.capacity_reservations.iter().find(|reservation| reservation.id == **id)?;
            let ends = of.end_time.as_ref().map(|time| time.0);
            let kind = of.reservation_type.as_str();
            let expiring = of.state == "expiring"
                || crate::nodeclass::reservations::is_expiring(kind, ends, outlook.now);
            expiring.then(|| claim.provider_id.clone()).flatten()
        };
        let reserved = outlook.nodes.iter().map(|(claim, _)| claim);
        let ids = reserved
            .filter(|claim| claim.deleting.is_none() && is_reserved(&claim.labels))
            .filter_map(|claim| expires(claim));
        let interruptions =
            ids.map(|id| Interruption::new(id, InterruptionKind::ReservationExpiring)).collect();
        Ok(Round::quiet(EVERY).with_interruptions(interruptions))
    }
}

/// Removes all three reservation labels from nodes that EC2 no longer counts into a reservation: they are on-demand.
pub(super) struct CapacityType(pub(super) AwsProvider);

fn to_on_demand(object: Object) -> Write {
    let mut write = Write::to(object);
    write.labels.insert(CAPACITY_TYPE.into(), Some(ON_DEMAND.into()));
    for key in [
        labels::CAPACITY_RESERVATION_ID,
        labels::CAPACITY_RESERVATION_TYPE,
        labels::CAPACITY_RESERVATION_INTERRUPTIBLE,
    ] {
        write.labels.insert(key.into(), None);
    }
    write
}

#[async_trait]
impl ProviderStep for CapacityType {
    fn name(&self) -> &'static str {
        "capacityreservation.capacitytype"
    }

    async fn run(&self, outlook: &Outlook) -> Result<Round, CloudError> {
        let reserved: Vec<_> = outlook
            .nodes
            .iter()
            .filter(|(claim, node)| {
                let of_node = node.as_ref().is_some_and(|node| is_reserved(&node.labels));
                claim.deleting.is_none() && (is_reserved(&claim.labels) || of_node)
            })
            .collect();
        let mut round = Round::quiet(EVERY);
        // By id, and only reserved ones: a list of all instances is not needed.
        for chunk in reserved.chunks(TOGETHER) {
            let claims: Vec<&Arc<NodeClaim>> = chunk.iter().map(|(claim, _)| claim).collect();
            let found = instances_of_claims(&*self.0.api, &claims).await;
            let found = found.map_err(|error| error.to_cloud_error("ec2:DescribeInstances"))?;
            for (claim, node) in chunk {
                let id = claim.provider_id.as_deref().and_then(instance_id);
                let Some(info) = found.iter().find(|info| Some(info.id.as_str()) == id) else { continue };
                if info.spot || info.reservation.is_some() {
                    continue;
                }
                if is_reserved(&claim.labels) {
                    round.writes.push(to_on_demand(Object::NodeClaim(claim.name.clone())));
                }
                // A node that is not registered gets its labels from the NodeClaim.
                let registered = node.as_ref().filter(|node| {
                    node.deleting.is_none()
                        && is_reserved(&node.labels)
                        && node.labels.get(REGISTERED).is_some_and(|value| &**value == "true")
                });
                if let Some(node) = registered {
                    round.writes.push(to_on_demand(Object::Node(node.name.clone())));
                }
            }
        }
        Ok(round)
    }
}

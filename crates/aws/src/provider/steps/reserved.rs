//! Nodes in capacity reservations: nodes of an ending capacity block are drained in time, and nodes whose reservation ended become
//! on-demand.

use std::collections::{BTreeMap, BTreeSet};
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

use jiff::Timestamp;

use super::super::{AwsProvider, instance_id};
use super::claims::instances_of_claims;
use crate::nodeclass::reservations::is_expiring;

/// How often nodes are checked.
const EVERY: Duration = Duration::from_secs(60);
/// Most instances of one call.
const TOGETHER: usize = 500;
/// Most reservations that are looked up in one round, each by a call.
const UNSELECTED_MAX: usize = 20;

fn is_reserved(labels: &Labels) -> bool {
    labels.get(CAPACITY_TYPE).is_some_and(|own| &**own == RESERVED)
}

/// Interrupts nodes whose capacity block is about to end.
pub(super) struct Expiration(pub(super) AwsProvider);

impl Expiration {
    /// Whether a reservation is a capacity block about to end, by the status of the class; `None` if the class does not select it.
    fn of_class(&self, claim: &NodeClaim, id: &str, now: Timestamp) -> Option<bool> {
        let known = self.0.classes.get(&claim.class.name).ok()?;
        let status = known.class.status.as_ref()?;
        let of = status.capacity_reservations.iter().find(|reservation| reservation.id == id)?;
        let ends = of.end_time.as_ref().map(|time| time.0);
        Some(of.state == "expiring" || is_expiring(&of.reservation_type, ends, now))
    }

    /// The same by EC2. A failed call is repeated in the next round.
    async fn of_ec2(&self, id: &str, now: Timestamp) -> bool {
        let found = self.0.api.reservations(Some(id), &[]).await.unwrap_or_default();
        found.iter().any(|info| info.id == id && is_expiring(&info.kind, info.ends, now))
    }
}

#[async_trait]
impl ProviderStep for Expiration {
    fn name(&self) -> &'static str {
        "capacityreservation.expiration"
    }

    async fn run(&self, outlook: &Outlook) -> Result<Round, CloudError> {
        let claims = outlook.nodes.iter().map(|(claim, _)| claim);
        let reserved: Vec<(&Arc<NodeClaim>, &str)> = claims
            .filter(|claim| claim.deleting.is_none() && is_reserved(&claim.labels))
            .filter_map(|claim| Some((claim, &**claim.labels.get(labels::CAPACITY_RESERVATION_ID)?)))
            .collect();
        let mut ending: BTreeMap<&str, bool> = BTreeMap::new();
        for (claim, id) in &reserved {
            ending.extend(self.of_class(claim, id, outlook.now).map(|ends| (*id, ends)));
        }
        // A class may have stopped selecting a reservation that its nodes still run in.
        let unselected: BTreeSet<&str> =
            reserved.iter().map(|(_, id)| *id).filter(|id| !ending.contains_key(id)).collect();
        for id in unselected.into_iter().take(UNSELECTED_MAX) {
            ending.insert(id, self.of_ec2(id, outlook.now).await);
        }
        let ends = |id: &str| ending.get(id).copied().unwrap_or_default();
        let ids =
            reserved.iter().filter(|(_, id)| ends(id)).filter_map(|(claim, _)| claim.provider_id.clone());
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

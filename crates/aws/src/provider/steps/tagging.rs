//! Late tags and labels: node names on instances, and the partition that EC2 chose.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fleetwright_aws_api::labels;
use fleetwright_core::cloud::{CloudError, Object, Outlook, ProviderStep, Round, Write};
use fleetwright_core::model::{Labels, NodeClaim};
use jiff::SignedDuration;

use super::super::{AwsProvider, instance_id};
use super::claims::{ASKED_MAX, instances_of_claims};
use crate::calls::ErrorClass;
use crate::recent::is_recent;
use crate::tags::{Ownership, late, ownership};

/// Instances tagged per round: EC2 allows ten `CreateTags` per second in the long run.
const TAGGED_MAX: usize = 10;
/// The delay before the next round while instances remain.
const MORE: Duration = Duration::from_secs(1);
/// The interval at which new NodeClaims are looked for.
const EVERY: Duration = Duration::from_secs(10);
/// How long EC2 may take to show a new instance's partition; one without a partition by then may never get one.
const YOUNG: SignedDuration = SignedDuration::from_mins(10);
/// The interval for older instances.
const SELDOM: Duration = Duration::from_secs(60);
/// When a call that IAM denied is repeated.
const DENIED_AGAIN: Duration = Duration::from_secs(600);

/// Tags instances with the names of their nodes.
pub(super) struct Tagging(pub(super) AwsProvider);

/// NodeClaims with a node whose instance lacks late tags, oldest first.
fn untagged(outlook: &Outlook) -> Vec<&Arc<NodeClaim>> {
    let done =
        |claim: &NodeClaim, key: &str| claim.annotations.get(key).is_some_and(|value| &**value == "true");
    let all = outlook.nodes.iter().map(|(claim, _)| claim);
    let mut open: Vec<&Arc<NodeClaim>> = all
        .filter(|claim| claim.deleting.is_none() && claim.node_name.is_some() && claim.provider_id.is_some())
        .filter(|claim| !done(claim, labels::TAGGED) || !done(claim, labels::CLUSTER_NAME_TAGGED))
        .collect();
    open.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
    open
}

#[async_trait]
impl ProviderStep for Tagging {
    fn name(&self) -> &'static str {
        "nodeclaim.tagging"
    }

    async fn run(&self, outlook: &Outlook) -> Result<Round, CloudError> {
        let cluster_uid = self.0.may_mutate()?;
        let open = untagged(outlook);
        let more = open.len() > TAGGED_MAX;
        let now: Vec<&Arc<NodeClaim>> = open.into_iter().take(TAGGED_MAX).collect();
        let found = instances_of_claims(&*self.0.api, &now).await;
        let found = found.map_err(|error| error.to_cloud_error("ec2:DescribeInstances"))?;
        let mut round = Round::quiet(if more { MORE } else { EVERY });
        let cluster = self.0.settings.cluster_name.clone();
        for claim in now {
            let id = claim.provider_id.as_deref().and_then(instance_id);
            let Some(info) = found.iter().find(|info| Some(info.id.as_str()) == id) else { continue };
            // The NodeClaim names it, so an instance without a UID is ours as well.
            if ownership(&info.tags, &cluster, &cluster_uid) == Ownership::Foreign
                || self.0.not_away(&info.zone_id).is_err()
            {
                continue;
            }
            let tags =
                late(&info.tags, claim.node_name.as_deref().unwrap_or_default(), &claim.name, &cluster);
            if !tags.is_empty() {
                match self.0.api.create_tags(&info.id, &tags).await {
                    Err(error) if error.is_not_found() => continue,
                    Err(error) if error.class() == ErrorClass::Throttled => {
                        round.again = error.wait();
                        break;
                    }
                    answer => {
                        if let Err(notices) =
                            self.0.problems.permitted("ec2:CreateTags", answer, outlook.now)?
                        {
                            return Ok({
                                round.again = DENIED_AGAIN;
                                round.with_notices(notices)
                            });
                        }
                    }
                }
            }
            let done: Labels =
                [labels::TAGGED, labels::CLUSTER_NAME_TAGGED].map(|key| (key.into(), "true".into())).into();
            round.writes.push(Write::to(Object::NodeClaim(claim.name.clone())).annotate(&done));
        }
        Ok(round)
    }
}

/// Writes the partition that EC2 chose to NodeClaims and nodes without it.
pub(super) struct Partitions(pub(super) AwsProvider);

#[async_trait]
impl ProviderStep for Partitions {
    fn name(&self) -> &'static str {
        "placementgroup.partition"
    }

    async fn run(&self, outlook: &Outlook) -> Result<Round, CloudError> {
        let parted = |claim: &NodeClaim| {
            self.0.catalogs.group(&claim.class.name).is_some_and(|group| group.partitions > 0)
        };
        let missing = |labels: &Labels| !labels.contains_key(labels::PLACEMENT_GROUP_PARTITION);
        let open: Vec<_> = outlook
            .nodes
            .iter()
            .filter(|(claim, node)| {
                let unknown =
                    missing(&claim.labels) || node.as_ref().is_some_and(|node| missing(&node.labels));
                claim.deleting.is_none() && claim.provider_id.is_some() && unknown && parted(claim)
            })
            .take(ASKED_MAX)
            .collect();
        let claims: Vec<&Arc<NodeClaim>> = open.iter().map(|(claim, _)| claim).collect();
        let found = instances_of_claims(&*self.0.api, &claims).await;
        let found = found.map_err(|error| error.to_cloud_error("ec2:DescribeInstances"))?;
        let young = |claim: &NodeClaim| is_recent(claim.created, outlook.now, YOUNG);
        let soon = open.iter().any(|(claim, _)| young(claim));
        let mut round = Round::quiet(match (open.is_empty(), soon) {
            (true, _) => EVERY,
            (false, true) => MORE,
            (false, false) => SELDOM,
        });
        for (claim, node) in open {
            let id = claim.provider_id.as_deref().and_then(instance_id);
            let info = found.iter().find(|info| Some(info.id.as_str()) == id);
            let Some((_, Some(part))) = info.and_then(|info| info.placement.as_ref()) else { continue };
            let objects = [Some((Object::NodeClaim(claim.name.clone()), &claim.labels))]
                .into_iter()
                .chain([node.as_ref().map(|node| (Object::Node(node.name.clone()), &node.labels))]);
            for (object, _) in objects.flatten().filter(|(_, own)| missing(own)) {
                let mut write = Write::to(object);
                let value = Some(part.to_string().into());
                write.labels.insert(labels::PLACEMENT_GROUP_PARTITION.into(), value);
                round.writes.push(write);
            }
        }
        Ok(round)
    }
}

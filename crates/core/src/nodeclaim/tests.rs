//! Tests of the stages: a fixture, a short way to write answers, and one file of cases per part of a life.

mod ending;
mod launching;
mod leaving;
mod starting;
mod tables;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use super::*;
use crate::{
    cloud::{NodeClassKind, ProviderInfo},
    model::{
        Condition, ConditionStatus, Node, NodeClaim, NodePool, Pod, PodDisruptionBudget, StateNode, Str,
        nodeclaim::ConditionType,
    },
    testing::{self, NodeBuilder, now},
};

/// A node with its surroundings.
pub(crate) struct Fixture {
    pub(crate) claim: NodeClaim,
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) pods: Vec<Arc<Pod>>,
    pub(crate) budgets: Vec<Arc<PodDisruptionBudget>>,
    pub(crate) pool: Option<Arc<NodePool>>,
    pub(crate) drivers: Option<Vec<Str>>,
    pub(crate) provider: ProviderInfo,
}

impl Fixture {
    pub(crate) fn of(builder: NodeBuilder) -> Self {
        let built = builder.build();
        let StateNode { claim, node, pods, .. } = Arc::unwrap_or_clone(built);
        let class = NodeClassKind::new("g", "v1", "K", "ks");
        Self {
            claim: claim.map(Arc::unwrap_or_clone).expect("a managed node"),
            nodes: node.into_iter().collect(),
            pods,
            budgets: Vec::new(),
            pool: Some(testing::pool("default").build()),
            drivers: None,
            provider: ProviderInfo { bootstraps_startup_taints: false, ..ProviderInfo::new("test", [class]) },
        }
    }

    pub(crate) fn view(&self) -> ClaimView<'_> {
        ClaimView {
            claim: &self.claim,
            nodes: &self.nodes,
            pool: self.pool.as_deref(),
            pods: &self.pods,
            budgets: &self.budgets,
            published_drivers: self.drivers.as_deref(),
            provider: &self.provider,
        }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut NodeClaim)) -> Self {
        change(&mut self.claim);
        self
    }

    pub(crate) fn with_node(mut self, change: impl FnOnce(&mut Node)) -> Self {
        change(Arc::make_mut(self.nodes.first_mut().expect("a node")));
        self
    }

    pub(crate) fn with_pool(mut self, change: impl FnOnce(&mut NodePool)) -> Self {
        change(Arc::make_mut(self.pool.as_mut().expect("a pool")));
        self
    }

    pub(crate) fn condition(self, condition: ConditionType, status: ConditionStatus, reason: &str) -> Self {
        self.condition_since(condition, status, reason, now())
    }

    pub(crate) fn condition_since(
        mut self,
        condition: ConditionType,
        status: ConditionStatus,
        reason: &str,
        since: Timestamp,
    ) -> Self {
        let message = "".into();
        self.claim.conditions.insert(condition, Condition { status, reason: reason.into(), message, since });
        self
    }

    /// The result of `stage`, in short form.
    pub(crate) fn says(&self, stage: &impl Stage, at: Timestamp) -> String {
        brief(&stage.ask(&self.view(), at))
    }
}

/// A stage of any type.
pub(crate) trait Stage {
    fn ask(&self, view: &ClaimView<'_>, now: Timestamp) -> Next;
}

macro_rules! stages {
    ($($stage:ty),* $(,)?) => {$(
        impl Stage for $stage {
            fn ask(&self, view: &ClaimView<'_>, now: Timestamp) -> Next {
                self.next(view, now)
            }
        }
    )*};
}

stages! {
    conditions::Consolidatable, conditions::Drifted<'_>, consistency::Consistency, drain::Drain,
    expiration::Expiration, finalization::Finalization<'_>, initialization::Initialization,
    liveness::Liveness, registration::Registration<'_>, termination::NodeTermination<'_>,
}

/// `now` plus seconds.
pub(crate) fn after(seconds: i64) -> Timestamp {
    now() + jiff::SignedDuration::from_secs(seconds)
}

/// An answer in short: steps by `; `, then `~` and the seconds to wait.
pub(crate) fn brief(next: &Next) -> String {
    let mut parts: Vec<String> = next.steps.iter().map(step).collect();
    if let Some(again) = next.again {
        parts.push(format!("~{}", again.as_secs_f64()));
    }
    parts.join("; ")
}

fn step(step: &ClaimStep) -> String {
    match step {
        ClaimStep::Launch => "launch".to_owned(),
        ClaimStep::Adopt => "adopt".to_owned(),
        ClaimStep::Condition(change) => {
            format!("{}={:?}/{}", change.condition.as_str(), change.status, change.reason)
        }
        ClaimStep::Clear(condition) => format!("clear {}", condition.as_str()),
        ClaimStep::Delete(cause) => format!("delete {}", cause.as_str().unwrap_or("-")),
        ClaimStep::ChangeNode(change) => node_change(change),
        ClaimStep::SetNodeName(name) => format!("name {name}"),
        ClaimStep::SetRepairDeadline(at) => {
            format!("repair deadline +{}", at.duration_since(now()).as_secs())
        }
        ClaimStep::CancelRepair => "cancel repair".to_owned(),
        ClaimStep::SetDeadline(at) => format!("deadline +{}", at.duration_since(now()).as_secs()),
        ClaimStep::DeleteNodes(names) => format!("delete nodes {}", names.len()),
        ClaimStep::Evict(pod) => format!("evict {}", pod.id.name),
        ClaimStep::Force(pod, grace) => format!("force {} {}", pod.id.name, grace.as_secs()),
        ClaimStep::Terminate(id) => format!("terminate {id}"),
        ClaimStep::ReleaseNode(name) => format!("release node {name}"),
        ClaimStep::ReleaseClaim => "release".to_owned(),
        ClaimStep::Publish(notice) => format!("publish {}", notice.reason()),
        ClaimStep::CountRegistration(well) => format!("count {well}"),
    }
}

fn node_change(change: &NodeChange) -> String {
    let taints = |taints: &[crate::model::Taint], sign: char| {
        taints.iter().map(|taint| format!(" {sign}{taint}")).collect::<String>()
    };
    let labels: String = change.labels.iter().map(|(key, value)| format!(" {key}={value}")).collect();
    let annotations: String = change.annotations.keys().map(|key| format!(" @{key}")).collect();
    let owner = if change.own && change.add_finalizer { " own" } else { "" };
    let (added, removed) = (taints(&change.add_taints, '+'), taints(&change.remove_taints, '-'));
    format!("node{owner}{labels}{annotations}{added}{removed}")
}

#[test]
fn remaining_never_ends_early() {
    let minute = Duration::from_secs(60);
    for (since, expected) in [(0, Some(60)), (-59, Some(1)), (-60, None), (-1000, None), (30, Some(90))] {
        let left = remaining(after(since), minute, now()).map(|left| left.as_secs());
        assert_eq!(left, expected, "{since}");
    }
    assert!(remaining(Timestamp::MAX, minute, now()).is_some());
}

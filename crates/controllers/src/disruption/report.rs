//! The result of a pass, as metrics and events.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetwright_core::{
    disruption::{Allowance, Command, Proposal, StartedCommand},
    model::{DisruptionReason, StateNode},
};
use k8s_openapi::api::core::v1::ObjectReference;

use super::figures;
use crate::{
    events::{Event, regarding},
    metrics::Metrics,
    runtime::{Cluster, Ctx, Recorder},
};

const QUARTER_HOUR: Duration = Duration::from_secs(900);
const MINUTE: Duration = Duration::from_secs(60);
/// The largest exposed score. A move without disruption has an infinite score, which would make the sum infinite.
const LARGEST_SCORE: f64 = 1000.0;
/// The only policy with scores.
const BALANCED: &str = "Balanced";

/// Publishes what disruption finds and does.
#[derive(Clone)]
pub(super) struct Reporter {
    cluster: Cluster,
    recorder: Recorder,
    metrics: Arc<Metrics>,
}

impl Reporter {
    /// Takes what it uses from `ctx`.
    pub(super) fn new(ctx: &Ctx) -> Self {
        Self { cluster: ctx.cluster.clone(), recorder: ctx.recorder.clone(), metrics: ctx.metrics.clone() }
    }

    /// Publishes the findings of a pass.
    pub(super) fn proposal(&self, proposal: &Proposal) {
        for allowance in &proposal.allowances {
            self.budget(allowance);
        }
        self.eligible(proposal);
        for usage in &proposal.drift_caps {
            self.metrics.set(&figures::DRIFT_CAP, &[usage.pool.as_str()], as_figure(usage.left()));
            let pool = self.cluster.index().pool(&usage.pool).cloned().filter(|_| usage.left() == 0);
            if let Some(pool) = pool {
                let text = format!(
                    "Drift cap reached: {} of {} nodes were replaced within its window",
                    usage.replaced, usage.cap
                );
                self.recorder.publish(
                    Event::normal(regarding(&*pool), "DisruptionBlocked", text).with_dedupe_timeout(MINUTE),
                );
            }
        }
        for score in &proposal.scores {
            let decision = if score.approved { "approved" } else { "rejected" };
            let labels = [decision, score.pool.as_str(), BALANCED];
            self.metrics.inc(&figures::MOVES, &labels);
            self.metrics.observe(&figures::SCORE, &labels, score.score().min(LARGEST_SCORE));
        }
        self.metrics.set(&figures::UNREACHED, &[], as_figure(proposal.unreached.len()));
        if !proposal.unreached.is_empty() {
            tracing::info!(
                nodeclaims = proposal.unreached.len(),
                "disruption pass did not reach every node, the next pass starts with the rest"
            );
        }
        // Nodes that are being disrupted or deleted already have an event.
        for blocked in proposal.blocked.iter().filter(|blocked| !blocked.blocker.is_leaving()) {
            let text = capitalised(&blocked.blocker.to_string());
            for object in self.objects(&blocked.node) {
                self.recorder.publish(Event::normal(object, "DisruptionBlocked", text.clone()));
            }
        }
        for (candidate, reason) in &proposal.held {
            let text = capitalised(&reason.to_string());
            for object in self.objects(&candidate.node) {
                let same = [object.uid.clone().unwrap_or_default(), reason.kind().to_owned()];
                let event = Event::normal(object, "DisruptionBlocked", text.clone());
                self.recorder.publish(event.with_dedupe_values(same));
            }
        }
        for (candidate, reason) in &proposal.unconsolidatable {
            for object in self.objects(&candidate.node) {
                // The same reason with other figures is not published again.
                let same = [object.uid.clone().unwrap_or_default(), reason.kind().to_owned()];
                let event = Event::normal(object, "Unconsolidatable", reason.to_string());
                self.recorder.publish(event.with_dedupe_values(same).with_dedupe_timeout(QUARTER_HOUR));
            }
        }
    }

    /// Sets the number of eligible nodes by reason: the largest of all methods with that reason.
    fn eligible(&self, proposal: &Proposal) {
        let mut eligible: BTreeMap<&str, usize> = BTreeMap::new();
        for (spec, count) in &proposal.eligible {
            let largest = eligible.entry(reason_label(spec.reason)).or_default();
            *largest = (*largest).max(*count);
        }
        for (reason, count) in eligible {
            self.metrics.set(&figures::ELIGIBLE, &[reason], as_figure(count));
        }
        for consolidation_type in ["multi", "single"] {
            self.metrics.add(&figures::TIMEOUTS, &[consolidation_type], 0.0);
        }
    }

    fn budget(&self, allowance: &Allowance) {
        let labels = [allowance.pool.as_str(), allowance.reason.as_str()];
        self.metrics.set(&figures::ALLOWED, &labels, as_figure(allowance.allowed));
        self.metrics.set(&figures::CONSUMING, &labels, as_figure(allowance.disrupting));
        if allowance.allowed > 0 || allowance.total == 0 {
            return;
        }
        let Some(pool) = self.cluster.index().pool(&allowance.pool).cloned() else { return };
        let mut text = format!(
            "No allowed disruptions for disruption reason {} due to blocking budget",
            allowance.reason
        );
        if let Some(error) = &allowance.error {
            text = format!("{text}: {error}");
        }
        self.recorder
            .publish(Event::normal(regarding(&*pool), "DisruptionBlocked", text).with_dedupe_timeout(MINUTE));
    }

    /// Publishes an event on all nodes of a command, which was recorded as `decision`.
    pub(super) fn on_nodes(
        &self,
        command: &Command,
        reason: &'static str,
        text: &str,
        decision: Option<&str>,
    ) {
        for candidate in &command.candidates {
            for object in self.objects(&candidate.node) {
                self.recorder.publish(Event::normal(object, reason, text).about_decision(decision));
            }
        }
    }

    /// Publishes on a replacement that a command created it and waits for it.
    pub(super) fn waiting(&self, command: &Command, replacement: &str, decision: Option<&str>) {
        let Some(claim) = self.cluster.index().claim(replacement).cloned() else { return };
        let launching = format!("Launching NodeClaim: {}", command.method.reason);
        let text = "Waiting on readiness to continue disruption";
        for (reason, text) in [("DisruptionLaunching", &*launching), ("DisruptionWaitingReadiness", text)] {
            let event = Event::normal(regarding(&*claim), reason, text);
            self.recorder.publish(event.about_decision(decision));
        }
    }

    /// Publishes on all nodes of a command that they are terminated.
    pub(super) fn terminating(&self, command: &Command, decision: Option<&str>) {
        for object in command.candidates.iter().flat_map(|candidate| self.objects(&candidate.node)) {
            let kind = object.kind.clone().unwrap_or_default();
            let text = format!("Disrupting {kind}: {}", command.method.reason);
            let event = Event::normal(object, "DisruptionTerminating", text);
            self.recorder.publish(event.about_decision(decision));
        }
    }

    /// Publishes that the policy `Balanced` approves a command: on the node, or on the NodePool of several nodes.
    pub(super) fn approved(&self, command: &Command, decision: Option<&str>) {
        let approved =
            |object, text| Event::normal(object, "ConsolidationApproved", text).about_decision(decision);
        for score in &command.scores {
            let text = score.to_string();
            if let [one] = command.candidates.as_slice() {
                for object in self.objects(&one.node) {
                    self.recorder.publish(approved(object, text.clone()));
                }
                continue;
            }
            let pool = self.cluster.index().pool(&score.pool).cloned();
            if let Some(pool) = pool {
                self.recorder.publish(approved(regarding(&*pool), text));
            }
        }
    }

    /// Counts what a command saved whose NodeClaims are deleted.
    pub(super) fn done(&self, started: &StartedCommand) {
        if let Some(savings) = started.savings() {
            self.metrics.add(&figures::SAVINGS, &command_labels(started), savings.dollars());
        }
    }

    /// Counts a command that started.
    pub(super) fn started(&self, command: &Command) {
        let reason = reason_label(command.method.reason);
        self.metrics.inc(
            &figures::DECISIONS,
            &[command.decision().as_str(), reason, command.method.consolidation_type],
        );
        let mut pools: Vec<&str> =
            command.candidates.iter().map(|candidate| candidate.pool.name.as_str()).collect();
        pools.sort_unstable();
        pools.dedup();
        for pool in pools {
            let labels = [command.decision().as_str(), reason, command.method.consolidation_type, pool];
            self.metrics.inc(&figures::DECISIONS_BY_POOL, &labels);
        }
        let mode = if command.method.is_eventual() { "eventual" } else { "graceful" };
        for candidate in &command.candidates {
            let capacity_type =
                candidate.node.label(fleetwright_core::model::labels::CAPACITY_TYPE).unwrap_or_default();
            let policy = format!("{:?}", candidate.pool.consolidation_policy);
            let labels = [reason, candidate.pool.name.as_str(), capacity_type, &policy, mode];
            self.metrics.inc(&figures::DISRUPTED, &labels);
            self.metrics.add(&figures::PODS_DISRUPTED, &labels, as_figure(candidate.pods.len()));
        }
    }
}

/// Values of the labels `decision`, `reason` and `consolidation_type`.
pub(super) fn command_labels(started: &StartedCommand) -> [&'static str; 3] {
    let method = started.command.method;
    [started.decision().as_str(), reason_label(method.reason), method.consolidation_type]
}

/// The reason as in most of Karpenter's metrics.
pub(super) fn reason_label(reason: DisruptionReason) -> &'static str {
    match reason {
        DisruptionReason::Underutilized => "underutilized",
        DisruptionReason::Empty => "empty",
        DisruptionReason::Drifted => "drifted",
    }
}

impl Reporter {
    /// References the Node and the NodeClaim of a node, if they exist.
    fn objects(&self, node: &StateNode) -> Vec<ObjectReference> {
        let index = self.cluster.index();
        let object = node.node_name().and_then(|name| index.node(name)).map(|object| regarding(&**object));
        let claim = node.claim_name().and_then(|name| index.claim(name)).map(|claim| regarding(&**claim));
        if claim.is_none() {
            // Nodes without a NodeClaim are not managed.
            return Vec::new();
        }
        object.into_iter().chain(claim).collect()
    }
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

pub(super) fn as_figure(count: impl TryInto<i32>) -> f64 {
    f64::from(count.try_into().unwrap_or(i32::MAX))
}

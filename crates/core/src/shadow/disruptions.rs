//! Follows disruption: the nodes that the other controller disrupts beside those that we propose.
//!
//! 1 Each of our passes is recorded ([`DisruptionTracker::propose`]). 2 Nodes whose NodeClaims get the condition `DisruptionReason`
//! for one reason within [`GROUPED`] are a command of the other controller; new NodeClaims that belong to no batch are its
//! replacements ([`DisruptionTracker::observe`]). 3 The command is compared with what we proposed for its nodes shortly before.
//! A command of ours that stands for [`IGNORED`] without an answer is compared as well, once.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;

use super::claims::{ClaimGroup, LaunchedClaim};
use crate::{
    disruption::{Command, DisruptionStatus},
    model::{ClaimName, Snapshot, Str, nodeclaim::ConditionType},
};

/// Conditions of one command are written within this time.
const GROUPED: Duration = Duration::from_secs(5);
/// NodeClaims that appear within this time of a command may be its replacements.
const REPLACED: Duration = Duration::from_secs(30);
/// How recent a proposal of ours must be to count for a command; also for how long a proposal may be missing without being over.
const RECENT: Duration = Duration::from_secs(60);
/// When a command is compared at the earliest: its replacements have appeared by then.
const EARLIEST: Duration = Duration::from_secs(60);
/// When it is compared at the latest.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// After how long a proposal of ours counts as one that the other controller does not make.
const IGNORED: Duration = Duration::from_secs(10 * 60);
/// Commands that are followed at once; beyond it the oldest is compared as it is.
const MAX_OPEN: usize = 64;
/// Reasons that a comparison has at most.
const MAX_REASONS: usize = 5;

/// A command of either side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSummary {
    /// `Empty`, `Drifted`, `Underutilized`, or another reason of Karpenter's condition.
    pub reason: Str,
    /// The NodeClaims that are disrupted.
    pub claims: BTreeSet<ClaimName>,
    /// Their offerings.
    pub nodes: Vec<ClaimGroup>,
    /// Their replacements.
    pub replacements: Vec<ClaimGroup>,
}

impl CommandSummary {
    /// A command of our own.
    #[must_use]
    pub fn of(snapshot: &Snapshot, command: &Command) -> Self {
        let nodes = command.candidates.iter().map(|candidate| &candidate.node);
        let replacements = command.replacements.iter();
        Self {
            reason: command.method.reason.to_string().into(),
            claims: nodes.clone().filter_map(|node| node.claim_name()).cloned().collect(),
            nodes: ClaimGroup::join(nodes.filter_map(|node| Some(LaunchedClaim::of(snapshot, node)?.group))),
            replacements: ClaimGroup::join(
                replacements.map(|claim| ClaimGroup::planned(claim, claim.pods.len())),
            ),
        }
    }
}

/// The agreement of a command of Karpenter and our proposals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DisruptionAgreement {
    /// We proposed all of its nodes.
    AllNodes,
    /// We proposed some of its nodes.
    SomeNodes,
    /// We proposed none of its nodes.
    OnlyKarpenter,
    /// Only we propose these nodes.
    OnlyOurs,
}

impl DisruptionAgreement {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::AllNodes, Self::SomeNodes, Self::OnlyKarpenter, Self::OnlyOurs];

    /// One word, as in metrics and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllNodes => "all-nodes",
            Self::SomeNodes => "some-nodes",
            Self::OnlyKarpenter => "only-karpenter",
            Self::OnlyOurs => "only-ours",
        }
    }
}

/// A command of Karpenter and our proposals, or a command that only we propose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisruptionComparison {
    /// When the command, or our proposal, began.
    pub began: Timestamp,
    /// Karpenter's command.
    pub karpenter: Option<CommandSummary>,
    /// Our commands that include these nodes.
    pub ours: Vec<CommandSummary>,
    /// The agreement of both.
    pub agreement: DisruptionAgreement,
    /// Why we did not propose nodes: the NodeClaim and its first blocker.
    pub reasons: Vec<(ClaimName, Str)>,
}

/// Our proposal for a node.
#[derive(Debug)]
struct Proposed {
    since: Timestamp,
    last: Timestamp,
    command: Arc<CommandSummary>,
    /// Whether it was compared already.
    compared: bool,
}

/// A command of Karpenter.
#[derive(Debug)]
struct OpenCommand {
    began: Timestamp,
    reason: Str,
    nodes: BTreeMap<ClaimName, ClaimGroup>,
    replacements: BTreeMap<ClaimName, Option<ClaimGroup>>,
    ours: Vec<Arc<CommandSummary>>,
    reasons: Vec<(ClaimName, Str)>,
}

/// Follows disruption.
#[derive(Debug, Default)]
pub struct DisruptionTracker {
    proposed: BTreeMap<ClaimName, Proposed>,
    /// The first blocker of every other node in our last pass.
    blockers: BTreeMap<ClaimName, Str>,
    /// The disrupted NodeClaims of the last observation; `None` before the first.
    disrupted: Option<BTreeSet<ClaimName>>,
    open: VecDeque<OpenCommand>,
}

impl DisruptionTracker {
    /// Whether a command of the other controller began shortly before.
    #[must_use]
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.open.iter().any(|command| !is_over(command.began, REPLACED, now))
    }

    /// The commands that we propose at present.
    #[must_use]
    pub fn standing(&self) -> Vec<Arc<CommandSummary>> {
        let mut all: Vec<Arc<CommandSummary>> = Vec::new();
        for proposed in self.proposed.values() {
            if !all.contains(&proposed.command) {
                all.push(proposed.command.clone());
            }
        }
        all
    }

    /// Records a pass of ours. Returns the commands that have stood for so long that the other controller does not make them.
    pub fn propose(
        &mut self,
        snapshot: &Snapshot,
        now: Timestamp,
        commands: &[Command],
        statuses: &[DisruptionStatus],
    ) -> Vec<DisruptionComparison> {
        for command in commands {
            let command = Arc::new(CommandSummary::of(snapshot, command));
            for name in &command.claims {
                let (since, compared) =
                    self.proposed.get(name).map_or((now, false), |known| (known.since, known.compared));
                let proposed = Proposed { since, last: now, command: command.clone(), compared };
                self.proposed.insert(name.clone(), proposed);
            }
        }
        self.proposed.retain(|_, proposed| !is_over(proposed.last, RECENT, now));
        let blocker = |status: &DisruptionStatus| {
            Some((status.node.claim_name()?.clone(), status.blockers.first()?.to_string().into()))
        };
        self.blockers = statuses.iter().filter_map(blocker).collect();
        self.ignored(now)
    }

    fn ignored(&mut self, now: Timestamp) -> Vec<DisruptionComparison> {
        let mut comparisons: Vec<DisruptionComparison> = Vec::new();
        for proposed in self.proposed.values_mut() {
            if proposed.compared || !is_over(proposed.since, IGNORED, now) {
                continue;
            }
            proposed.compared = true;
            let ours = (*proposed.command).clone();
            if comparisons.iter().all(|comparison| comparison.ours != [ours.clone()]) {
                comparisons.push(DisruptionComparison {
                    began: proposed.since,
                    karpenter: None,
                    ours: vec![ours],
                    agreement: DisruptionAgreement::OnlyOurs,
                    reasons: Vec::new(),
                });
            }
        }
        comparisons
    }

    /// Observes a snapshot, and the new NodeClaims that belong to no batch. Returns the commands of the other controller that are
    /// complete.
    pub fn observe(
        &mut self,
        snapshot: &Snapshot,
        now: Timestamp,
        appeared: Vec<ClaimName>,
    ) -> Vec<DisruptionComparison> {
        self.begin(snapshot, now);
        if let Some(command) = self.open.back_mut().filter(|command| !is_over(command.began, REPLACED, now)) {
            command.replacements.extend(appeared.into_iter().map(|name| (name, None)));
        }
        for node in &snapshot.nodes {
            let Some(name) = node.claim_name() else { continue };
            for command in &mut self.open {
                if let Some(group) = command.replacements.get_mut(name) {
                    let launched = LaunchedClaim::of(snapshot, node).filter(LaunchedClaim::is_launched);
                    *group = launched.map(|claim| claim.group);
                }
            }
        }
        let excess = self.open.len().saturating_sub(MAX_OPEN);
        let mut done = Vec::new();
        for (position, command) in std::mem::take(&mut self.open).into_iter().enumerate() {
            let launched = command.replacements.values().all(Option::is_some);
            let complete = is_over(command.began, EARLIEST, now) && launched;
            if position < excess || complete || is_over(command.began, TIMEOUT, now) {
                done.push(command.compare());
            } else {
                self.open.push_back(command);
            }
        }
        done
    }

    /// Begins commands with the nodes that are newly disrupted.
    fn begin(&mut self, snapshot: &Snapshot, now: Timestamp) {
        let mut disrupted = BTreeSet::new();
        let known = self.disrupted.take();
        for node in &snapshot.nodes {
            let Some(claim) = node.claim.as_ref().filter(|claim| claim.is(ConditionType::DisruptionReason))
            else {
                continue;
            };
            disrupted.insert(claim.name.clone());
            // A node that was disrupted before the first observation has no proposal to compare with.
            if known.as_ref().is_none_or(|known| known.contains(&claim.name)) {
                continue;
            }
            let condition = claim.conditions.get(&ConditionType::DisruptionReason);
            let reason = condition.map(|condition| condition.reason.clone()).unwrap_or_default();
            let Some(launched) = LaunchedClaim::of(snapshot, node) else { continue };
            let command = self.command(&reason, now);
            command.nodes.insert(claim.name.clone(), launched.group);
            let name = &claim.name;
            match self.proposed.remove(name).filter(|known| !is_over(known.last, RECENT, now)) {
                Some(proposed) => {
                    let command = self.command(&reason, now);
                    if !command.ours.contains(&proposed.command) {
                        command.ours.push(proposed.command);
                    }
                }
                None => {
                    let why = self.blockers.get(name).cloned().unwrap_or_else(|| "not proposed".into());
                    self.command(&reason, now).reasons.push((name.clone(), why));
                }
            }
        }
        self.disrupted = Some(disrupted);
    }

    /// The command that nodes of this reason belong to now.
    fn command(&mut self, reason: &Str, now: Timestamp) -> &mut OpenCommand {
        let fits = |command: &OpenCommand| command.reason == *reason && !is_over(command.began, GROUPED, now);
        let position = self.open.iter().position(fits).unwrap_or_else(|| {
            self.open.push_back(OpenCommand {
                began: now,
                reason: reason.clone(),
                nodes: BTreeMap::new(),
                replacements: BTreeMap::new(),
                ours: Vec::new(),
                reasons: Vec::new(),
            });
            self.open.len() - 1
        });
        &mut self.open[position]
    }
}

impl OpenCommand {
    fn compare(self) -> DisruptionComparison {
        let Self { began, reason, nodes, replacements, ours, mut reasons } = self;
        let agreement = match (&ours[..], &reasons[..]) {
            ([], _) => DisruptionAgreement::OnlyKarpenter,
            (_, []) => DisruptionAgreement::AllNodes,
            _ => DisruptionAgreement::SomeNodes,
        };
        reasons.truncate(MAX_REASONS);
        let karpenter = CommandSummary {
            reason,
            claims: nodes.keys().cloned().collect(),
            nodes: ClaimGroup::join(nodes.into_values()),
            replacements: ClaimGroup::join(replacements.into_values().flatten()),
        };
        let ours = ours.iter().map(|command| (**command).clone()).collect();
        DisruptionComparison { began, karpenter: Some(karpenter), ours, agreement, reasons }
    }
}

/// Whether more than `wait` has passed since then.
fn is_over(since: Timestamp, wait: Duration, now: Timestamp) -> bool {
    since.checked_add(wait).is_ok_and(|end| end < now)
}

//! The disruption status of every node: whether it is a candidate, and all of its blockers.
//!
//! Shown by `fleetwright disrupt` and `fleetwright explain node`; the controller runs the same code.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;

use super::{
    Allowance, Blocker, Candidate, Command, Context, DriftCapUsage, METHODS, Method, Proposal, Rules,
    SimulationSolver, Unconsolidatable, budget, candidate, candidate::blockers, candidate::price,
    candidate::unblocked_candidate, cluster_blockers::ClusterBlockers, consolidation, drift_cap_usage,
    hints::Hints, method, propose_with,
};
use crate::model::{
    DisruptionReason, NamespacedName, PodUid, Price, Snapshot, StateNode, Str, labels,
    nodeclaim::ConditionType,
};

/// The disruption status of one node.
#[derive(Clone, Debug)]
pub struct DisruptionStatus {
    /// The node.
    pub node: Arc<StateNode>,
    /// Whether one of the methods considers it, regardless of budgets and outcome.
    pub candidate: bool,
    /// Its price per hour, if known.
    pub price: Option<Price>,
    /// All of its disruption blockers, in the order of evaluation; empty for a candidate of a command.
    pub blockers: Vec<Blocker>,
}

/// The result of a disruption pass, and the status of every node.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Survey {
    /// Name of the method that found commands; `None` if none did.
    pub method: Option<&'static str>,
    /// The commands that one pass would start, in order, as many as the budgets allow.
    pub commands: Vec<Command>,
    /// All nodes, by name.
    pub nodes: Vec<DisruptionStatus>,
    /// The budgets by NodePool and reason; `allowed` is at most the number of nodes.
    pub budgets: Vec<Allowance>,
    /// How many simulations the pass ran.
    pub simulations: u32,
    /// NodeClaims that the pass did not reach; the next pass starts with them.
    pub unreached: Vec<Str>,
}

/// Runs one pass of `methods` on `snapshot`, before the validation delay.
pub fn survey(snapshot: &Snapshot, rules: &Rules, now: Timestamp, methods: &[&dyn Method]) -> Survey {
    let proposal = propose_with(snapshot, rules, now, methods);
    let nodes = statuses(snapshot, rules, now, methods, &proposal);
    let budgets = proposal.allowances.iter().cloned().map(|mut allowance| {
        allowance.allowed = allowance.allowed.min(allowance.total);
        allowance
    });
    Survey {
        method: proposal.method,
        budgets: budgets.collect(),
        simulations: proposal.simulations,
        unreached: proposal.unreached,
        nodes,
        commands: proposal.commands,
    }
}

/// The status of every node after a pass with this proposal, by name.
#[must_use]
pub fn statuses(
    snapshot: &Snapshot,
    rules: &Rules,
    now: Timestamp,
    methods: &[&dyn Method],
    proposal: &Proposal,
) -> Vec<DisruptionStatus> {
    let context = Context::new(snapshot, rules, now);
    let findings = Findings::of(&context, proposal);
    let cluster_blockers = ClusterBlockers::of(snapshot);
    (0..snapshot.nodes.len())
        .map(|index| findings.status(&context, &cluster_blockers, index, methods))
        .collect()
}

/// The status of the node with Node or NodeClaim `name`, with all methods; `None` if it does not exist. Runs two
/// simulations.
#[must_use]
pub fn status(snapshot: &Snapshot, rules: &Rules, now: Timestamp, name: &str) -> Option<DisruptionStatus> {
    let has_name = |node: &Arc<StateNode>| {
        node.node_name().is_some_and(|own| &**own == name)
            || node.claim_name().is_some_and(|own| &**own == name)
    };
    let index = snapshot.nodes.iter().position(has_name)?;
    let mut solver = SimulationSolver::new(snapshot, &rules.scheduling);
    let context = Context::new(snapshot, rules, now);
    let mut proposal = Proposal { allowances: budget::allowances(snapshot, now), ..Proposal::default() };
    if let (Ok(candidate), Some(single)) =
        (candidate(snapshot, index, now, false), method("single-node-consolidation"))
    {
        let refused = match single.should_disrupt(&context, &candidate) {
            Ok(true) => {
                consolidation::compute_consolidation(&context, &mut solver, single.spec(), &[&candidate])
                    .err()
                    .map(|refusal| refusal.reason)
            }
            Ok(false) => None,
            Err(reason) => Some(reason),
        };
        proposal.unconsolidatable.extend(refused.map(|reason| (candidate, reason)));
    }
    // Drift: a node that it would replace has no reason.
    for method in METHODS.iter().filter(|method| method.spec().is_eventual()) {
        if let Ok(candidate) = candidate(snapshot, index, now, true)
            && method.should_disrupt(&context, &candidate) == Ok(true)
        {
            let mut budgets = budget::left_of(&proposal.allowances, method.spec().reason);
            let hints = Hints::default();
            let verdict = method.propose(&context, &mut solver, &[&candidate], hints, &mut budgets);
            proposal.held.extend(verdict.refusals);
        }
    }
    Some(Findings::of(&context, &proposal).status(&context, &ClusterBlockers::of(snapshot), index, METHODS))
}

/// The findings of a pass, by node.
struct Findings<'a> {
    in_commands: BTreeSet<Str>,
    reasons: BTreeMap<Str, Vec<&'a Unconsolidatable>>,
    /// Budgets by NodePool and reason, and the number of nodes of the NodePool in commands.
    budgets: BTreeMap<(Str, DisruptionReason), (&'a Allowance, i64)>,
    pods: BTreeMap<&'a PodUid, &'a NamespacedName>,
    /// The number of nodes of each NodePool in commands.
    started: BTreeMap<Str, i64>,
}

impl<'a> Findings<'a> {
    fn of(context: &Context<'a>, proposal: &'a Proposal) -> Self {
        let claim = |candidate: &Candidate| candidate.node.claim_name().map(|name| Str::from(name.as_str()));
        let mut started: BTreeMap<Str, i64> = BTreeMap::new();
        let mut in_commands = BTreeSet::new();
        for candidate in proposal.commands.iter().flat_map(|command| &command.candidates) {
            in_commands.extend(claim(candidate));
            *started.entry(candidate.pool.name.as_str().into()).or_default() += 1;
        }
        let mut reasons: BTreeMap<Str, Vec<&Unconsolidatable>> = BTreeMap::new();
        for (candidate, why) in proposal.unconsolidatable.iter().chain(&proposal.held) {
            let known = reasons.entry(claim(candidate).unwrap_or_else(|| "".into())).or_default();
            if !known.contains(&why) {
                known.push(why);
            }
        }
        let budgets = proposal.allowances.iter().map(|allowance| {
            let pool: Str = allowance.pool.as_str().into();
            let started = started.get(&pool).copied().unwrap_or_default();
            ((pool, allowance.reason), (allowance, started))
        });
        let snapshot = context.snapshot;
        // Pods of nodes that are deleted are nominated before they are evicted.
        let leaving = snapshot.nodes.iter().filter(|node| node.is_deleting()).flat_map(|node| &node.pods);
        let pods = snapshot.pending.iter().chain(&snapshot.unscheduled).chain(leaving);
        let pods = pods.map(|pod| (&pod.uid, &pod.id));
        let budgets = budgets.collect();
        Self { in_commands, reasons, budgets, pods: pods.collect(), started }
    }

    fn status<'s>(
        &self,
        context: &Context<'s>,
        cluster_blockers: &ClusterBlockers<'s>,
        index: usize,
        methods: &[&dyn Method],
    ) -> DisruptionStatus {
        let node = context.snapshot.nodes[index].clone();
        let price = price(context.snapshot, &node);
        let claim = node.claim_name().map(|name| Str::from(name.as_str())).unwrap_or_else(|| "".into());
        let in_command = self.in_commands.contains(&claim);
        let as_candidate = |eventual| {
            unblocked_candidate(context.snapshot, cluster_blockers, index, context.now, eventual).ok()
        };
        let (graceful, eventual) = (as_candidate(false), as_candidate(true));
        let should_disrupt = |method: &&&dyn Method| {
            let candidate = if method.spec().is_eventual() { &eventual } else { &graceful };
            candidate.as_ref().is_some_and(|candidate| method.should_disrupt(context, candidate) == Ok(true))
        };
        let considered: Vec<&dyn Method> = methods.iter().filter(should_disrupt).copied().collect();
        let mut all = Vec::new();
        if !in_command {
            let lenient = methods.iter().all(|method| method.spec().is_eventual());
            all = blockers(context.snapshot, cluster_blockers, index, context.now, lenient);
            self.name_pods(&node, &mut all);
            if methods.iter().any(|method| !method.spec().is_eventual()) {
                all.extend(self.consolidate_after_blocker(context, index));
            }
            let mut reasons: Vec<Unconsolidatable> =
                self.reasons.get(&claim).into_iter().flatten().map(|why| (*why).clone()).collect();
            // Methods after the one that found commands did not run; whether they consider the node is known without a run.
            for method in methods {
                let candidate = if method.spec().is_eventual() { &eventual } else { &graceful };
                let considers = candidate.as_ref().map(|candidate| method.should_disrupt(context, candidate));
                if let Some(Err(why)) = considers
                    && !reasons.contains(&why)
                {
                    reasons.push(why);
                }
            }
            all.extend(reasons.into_iter().map(Blocker::Unconsolidatable));
            all.extend(self.budget_blockers(&node, &considered));
            all.extend(self.drift_cap_blocker(context, &node, &considered));
            let pool = node.label(labels::NODEPOOL).and_then(|pool| context.snapshot.pool(pool));
            if let Some(pool) =
                pool.filter(|pool| pool.is_static() && considered.is_empty() && all.is_empty())
            {
                all.push(Blocker::StaticPool(pool.name.as_str().into()));
            }
        }
        DisruptionStatus { candidate: !considered.is_empty(), node, price, blockers: all }
    }

    /// Names the pods of nominations: those that wait, and those that run on the node by now.
    fn name_pods(&self, node: &StateNode, blockers: &mut [Blocker]) {
        for blocker in blockers {
            if let Blocker::Nominated { pod, name, .. } = blocker {
                let bound = || node.pods.iter().find(|other| other.uid == *pod).map(|other| &other.id);
                *name = self.pods.get(pod).copied().or_else(bound).cloned();
            }
        }
    }

    /// The blocker of consolidateAfter, if it is not over.
    fn consolidate_after_blocker(&self, context: &Context<'_>, index: usize) -> Option<Blocker> {
        let node = &context.snapshot.nodes[index];
        let pool = context.snapshot.pool(node.label(labels::NODEPOOL)?)?;
        let claim = node.claim.as_ref().filter(|_| !pool.is_static() && !node.is_deleting())?;
        let after = pool.consolidate_after?;
        let since = claim.last_pod_event.or_else(|| claim.true_since(ConditionType::Initialized));
        let until = since.map(|since| since.checked_add(after).unwrap_or(Timestamp::MAX));
        let left = until.map(|until| until.duration_since(context.now));
        let left = left.and_then(|left| Duration::try_from(left).ok()).unwrap_or_default();
        if let Some(until) = until.filter(|_| !left.is_zero()) {
            let pod = claim.last_pod_event.and_then(|at| arrived_pod(node, at));
            return Some(Blocker::ConsolidateAfter { after, until, left, pod });
        }
        let is_current = claim.is(ConditionType::Consolidatable) || !node.is_initialized();
        (!is_current).then_some(Blocker::NotConsolidatable)
    }

    /// The drift cap that blocks a drifted node.
    fn drift_cap_blocker(
        &self,
        context: &Context<'_>,
        node: &StateNode,
        methods: &[&dyn Method],
    ) -> Option<Blocker> {
        let drifts = methods.iter().any(|method| method.spec().reason == DisruptionReason::Drifted);
        let pool = context.snapshot.pool(&node.pool().filter(|_| drifts)?)?;
        let DriftCapUsage { pool, cap, replaced, until, .. } =
            drift_cap_usage(context.snapshot, pool, context.now)?;
        let started = self.started.get(&*pool).copied().unwrap_or_default();
        let replaced = replaced + started;
        (replaced >= cap).then(|| Blocker::DriftCap { pool: pool.as_str().into(), cap, replaced, until })
    }

    /// The budgets that block a node that `methods` consider.
    fn budget_blockers(&self, node: &StateNode, methods: &[&dyn Method]) -> Vec<Blocker> {
        let Some(pool) = node.pool() else { return Vec::new() };
        let pool: Str = pool.as_str().into();
        let reasons: BTreeSet<DisruptionReason> = methods.iter().map(|method| method.spec().reason).collect();
        let full = reasons.into_iter().filter_map(|reason| {
            let (allowance, started) = self.budgets.get(&(pool.clone(), reason))?;
            (allowance.left() <= *started).then(|| Blocker::Budget {
                pool: pool.clone(),
                reason,
                allowed: allowance.allowed.min(allowance.total),
                disrupting: allowance.disrupting,
                started: *started,
                until: allowance.until,
                error: allowance.error.clone(),
            })
        });
        full.collect()
    }
}

/// Maximum time between the start of a pod and its pod event, which is recorded every ten seconds at
/// most.
const TOLERANCE: jiff::SignedDuration = jiff::SignedDuration::from_secs(15);

/// The pod that caused the pod event at that time, if it is still on the node.
fn arrived_pod(node: &StateNode, at: Timestamp) -> Option<NamespacedName> {
    let near = |started: &Timestamp| started.duration_since(at).abs() <= TOLERANCE;
    let pods = node.pods.iter().filter(|pod| !pod.is_daemon() && pod.started.as_ref().is_some_and(near));
    pods.max_by(|a, b| a.started.cmp(&b.started).then_with(|| b.id.cmp(&a.id))).map(|pod| pod.id.clone())
}

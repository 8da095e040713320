//! How every node stands with disruption: a candidate or not, and everything that keeps it.
//!
//! What `fleetwright disrupt` and `fleetwright explain node` show, by the code that the controller runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;

use super::{
    Allowance, Bench, Blocker, Brake, Candidate, Command, Context, METHODS, Method, Proposal, Rules,
    Unconsolidatable, brake, budget, candidate, candidate::blockers, candidate::guarded, candidate::price,
    consolidation, guards::Guards, propose_with,
};
use crate::model::{
    DisruptionReason, NamespacedName, PodUid, Price, Snapshot, StateNode, Str, labels,
    nodeclaim::ConditionType,
};

/// How one node stands with disruption.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The node.
    pub node: Arc<StateNode>,
    /// Whether one of the methods takes it as a case, budgets and outcome aside.
    pub candidate: bool,
    /// What it costs per hour, where that is known.
    pub price: Option<Price>,
    /// Everything that keeps it now, in the order in which it is looked at; empty for a node that a command takes.
    pub blockers: Vec<Blocker>,
}

/// What disruption would do now, and how every node stands with it.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Survey {
    /// Name of the method that acts; `None` where none does.
    pub method: Option<&'static str>,
    /// What one pass would carry out, in order, as far as the budgets allow.
    pub commands: Vec<Command>,
    /// All nodes, by name.
    pub nodes: Vec<Standing>,
    /// What the budgets say, by pool (as pools are tried) and reason; `allowed` is not more than there is.
    pub budgets: Vec<Allowance>,
    /// How many simulations were run.
    pub what_ifs: u32,
    /// NodeClaims that the pass did not reach; the next one begins with them.
    pub unreached: Vec<Str>,
}

/// What one pass of `methods` would do on `snapshot`, before the validation delay.
pub fn survey(snapshot: &Snapshot, rules: &Rules, now: Timestamp, methods: &[&dyn Method]) -> Survey {
    let proposal = propose_with(snapshot, rules, now, methods);
    let nodes = standings(snapshot, rules, now, methods, &proposal);
    let budgets = proposal.allowances.iter().cloned().map(|mut allowance| {
        allowance.allowed = allowance.allowed.min(allowance.total);
        allowance
    });
    Survey {
        method: proposal.method,
        budgets: budgets.collect(),
        what_ifs: proposal.what_ifs,
        unreached: proposal.unreached,
        nodes,
        commands: proposal.commands,
    }
}

/// How every node stands after a pass that came to `proposal`, by name.
#[must_use]
pub fn standings(
    snapshot: &Snapshot,
    rules: &Rules,
    now: Timestamp,
    methods: &[&dyn Method],
    proposal: &Proposal,
) -> Vec<Standing> {
    let bench = Bench::new(snapshot, &rules.scheduling);
    let context = Context { snapshot, rules, now, solver: &bench };
    let known = Known::of(&context, proposal);
    let guards = Guards::of(snapshot);
    (0..snapshot.nodes.len()).map(|index| known.standing(&context, &guards, index, methods)).collect()
}

/// How the node whose Node or NodeClaim is called `name` stands with all methods; `None` where there is none. Costs
/// two simulations.
#[must_use]
pub fn standing(snapshot: &Snapshot, rules: &Rules, now: Timestamp, name: &str) -> Option<Standing> {
    let called = |node: &Arc<StateNode>| {
        node.node_name().is_some_and(|own| &**own == name)
            || node.claim_name().is_some_and(|own| &**own == name)
    };
    let index = snapshot.nodes.iter().position(called)?;
    let bench = Bench::new(snapshot, &rules.scheduling);
    let context = Context { snapshot, rules, now, solver: &bench };
    let mut proposal = Proposal { allowances: budget::allowances(snapshot, now), ..Proposal::default() };
    if let (Ok(candidate), Some(single)) =
        (candidate(snapshot, index, now, false), super::method("single-node-consolidation"))
    {
        let looked = match single.is_case(&context, &candidate) {
            Ok(true) => consolidation::compute(&context, single, &[&candidate]).map(|_| ()),
            Ok(false) => Ok(()),
            Err(why) => Err(why),
        };
        if let Err(why) = looked {
            proposal.unconsolidatable.push((candidate, why));
        }
    }
    // What drift would come to, which says nothing to one that it would take.
    for method in METHODS.iter().filter(|method| method.is_eventual()) {
        if let Ok(candidate) = candidate(snapshot, index, now, true)
            && method.is_case(&context, &candidate) == Ok(true)
        {
            let mut budgets = budget::left_of(&proposal.allowances, method.reason());
            let verdict = method.propose(&context, &[&candidate], &mut budgets);
            proposal.held.extend(verdict.unconsolidatable);
        }
    }
    Some(Known::of(&context, &proposal).standing(&context, &Guards::of(snapshot), index, &METHODS))
}

/// What a pass found out, by node.
struct Known<'a> {
    taken: BTreeSet<Str>,
    reasons: BTreeMap<Str, Vec<&'a Unconsolidatable>>,
    /// What budgets say by pool and reason, and how many nodes of the pool the commands take.
    budgets: BTreeMap<(Str, DisruptionReason), (&'a Allowance, i64)>,
    pods: BTreeMap<&'a PodUid, &'a NamespacedName>,
    /// How many nodes of each pool the commands take.
    started: BTreeMap<Str, i64>,
}

impl<'a> Known<'a> {
    fn of(context: &Context<'a>, proposal: &'a Proposal) -> Self {
        let claim = |candidate: &Candidate| candidate.node.claim_name().map(|name| Str::from(name.as_str()));
        let mut started: BTreeMap<Str, i64> = BTreeMap::new();
        let mut taken = BTreeSet::new();
        for candidate in proposal.commands.iter().flat_map(|command| &command.candidates) {
            taken.extend(claim(candidate));
            *started.entry(candidate.pool.name.as_str().into()).or_default() += 1;
        }
        let mut reasons: BTreeMap<Str, Vec<&Unconsolidatable>> = BTreeMap::new();
        for (candidate, why) in proposal.unconsolidatable.iter().chain(&proposal.held) {
            let told = reasons.entry(claim(candidate).unwrap_or_else(|| "".into())).or_default();
            if !told.contains(&why) {
                told.push(why);
            }
        }
        let budgets = proposal.allowances.iter().map(|allowance| {
            let pool: Str = allowance.pool.as_str().into();
            let started = started.get(&pool).copied().unwrap_or_default();
            ((pool, allowance.reason), (allowance, started))
        });
        let snapshot = context.snapshot;
        let pods = snapshot.pending.iter().chain(&snapshot.unscheduled).map(|pod| (&pod.uid, &pod.id));
        let budgets = budgets.collect();
        Self { taken, reasons, budgets, pods: pods.collect(), started }
    }

    fn standing<'s>(
        &self,
        context: &Context<'s>,
        guards: &Guards<'s>,
        index: usize,
        methods: &[&dyn Method],
    ) -> Standing {
        let node = context.snapshot.nodes[index].clone();
        let price = price(context.snapshot, &node);
        let claim = node.claim_name().map(|name| Str::from(name.as_str())).unwrap_or_else(|| "".into());
        let is_taken = self.taken.contains(&claim);
        let as_candidate = |eventual| guarded(context.snapshot, guards, index, context.now, eventual).ok();
        let (graceful, eventual) = (as_candidate(false), as_candidate(true));
        let is_case = |method: &&&dyn Method| {
            let candidate = if method.is_eventual() { &eventual } else { &graceful };
            candidate.as_ref().is_some_and(|candidate| method.is_case(context, candidate) == Ok(true))
        };
        let cases: Vec<&dyn Method> = methods.iter().filter(is_case).copied().collect();
        let mut all = Vec::new();
        if !is_taken {
            let lenient = methods.iter().all(|method| method.is_eventual());
            all = blockers(context.snapshot, guards, index, context.now, lenient);
            self.name_pods(&mut all);
            if methods.iter().any(|method| !method.is_eventual()) {
                all.extend(self.waits(context, index));
            }
            let mut told: Vec<Unconsolidatable> =
                self.reasons.get(&claim).into_iter().flatten().map(|why| (*why).clone()).collect();
            // Methods that come after the one that acts were not asked; why they would leave it is known all the same.
            for method in methods {
                let candidate = if method.is_eventual() { &eventual } else { &graceful };
                let case = candidate.as_ref().map(|candidate| method.is_case(context, candidate));
                if let Some(Err(why)) = case
                    && !told.contains(&why)
                {
                    told.push(why);
                }
            }
            all.extend(told.into_iter().map(Blocker::Unconsolidatable));
            all.extend(self.over_budget(&node, &cases));
            all.extend(self.over_brake(context, &node, &cases));
            let pool = node.label(labels::NODEPOOL).and_then(|pool| context.snapshot.pool(pool));
            if let Some(pool) = pool.filter(|pool| pool.is_static() && cases.is_empty() && all.is_empty()) {
                all.push(Blocker::StaticPool(pool.name.as_str().into()));
            }
        }
        Standing { candidate: !cases.is_empty(), node, price, blockers: all }
    }

    fn name_pods(&self, blockers: &mut [Blocker]) {
        for blocker in blockers {
            if let Blocker::Nominated { pod, name, .. } = blocker {
                *name = self.pods.get(pod).map(|id| (*id).clone());
            }
        }
    }

    /// Whether consolidateAfter keeps the node.
    fn waits(&self, context: &Context<'_>, index: usize) -> Option<Blocker> {
        let node = &context.snapshot.nodes[index];
        let pool = context.snapshot.pool(node.label(labels::NODEPOOL)?)?;
        let claim = node.claim.as_ref().filter(|_| !pool.is_static() && !node.is_deleting())?;
        let after = pool.consolidate_after?;
        let since = claim.last_pod_event.or_else(|| claim.true_since(ConditionType::Initialized));
        let until = since.map(|since| since.checked_add(after).unwrap_or(Timestamp::MAX));
        let left = until.map(|until| until.duration_since(context.now));
        let left = left.and_then(|left| Duration::try_from(left).ok()).unwrap_or_default();
        if let Some(until) = until.filter(|_| !left.is_zero()) {
            let pod = claim.last_pod_event.and_then(|at| arrived(node, at));
            return Some(Blocker::ConsolidateAfter { after, until, left, pod });
        }
        let settled = claim.is(ConditionType::Consolidatable) || !node.is_initialized();
        (!settled).then_some(Blocker::NotConsolidatable)
    }

    /// The brake that leaves no room for a node that has drifted.
    fn over_brake(
        &self,
        context: &Context<'_>,
        node: &StateNode,
        methods: &[&dyn Method],
    ) -> Option<Blocker> {
        let drifts = methods.iter().any(|method| method.reason() == DisruptionReason::Drifted);
        let pool = context.snapshot.pool(&node.pool().filter(|_| drifts)?)?;
        let Brake { pool, cap, replaced, until } = brake(context.snapshot, pool, context.now)?;
        let started = self.started.get(&*pool).copied().unwrap_or_default();
        let replaced = replaced + started;
        (replaced >= cap).then(|| Blocker::Brake { pool: pool.as_str().into(), cap, replaced, until })
    }

    /// The budgets that leave no room for a node that is a case for `methods`.
    fn over_budget(&self, node: &StateNode, methods: &[&dyn Method]) -> Vec<Blocker> {
        let Some(pool) = node.pool() else { return Vec::new() };
        let pool: Str = pool.as_str().into();
        let reasons: BTreeSet<DisruptionReason> = methods.iter().map(|method| method.reason()).collect();
        let full = reasons.into_iter().filter_map(|reason| {
            let (allowance, started) = self.budgets.get(&(pool.clone(), reason))?;
            (allowance.left() <= *started).then(|| Blocker::Budget {
                pool: pool.clone(),
                reason,
                allowed: allowance.allowed.min(allowance.total),
                disrupting: allowance.disrupting + started,
                until: allowance.until,
                error: allowance.error.clone(),
            })
        });
        full.collect()
    }
}

/// How far apart the event and the start of the pod that caused it may be: events are noted every ten seconds at most.
const NEAR: jiff::SignedDuration = jiff::SignedDuration::from_secs(15);

/// The pod whose arrival is the pod event of that moment, if it is still on the node.
fn arrived(node: &StateNode, at: Timestamp) -> Option<NamespacedName> {
    let near = |started: &Timestamp| started.duration_since(at).abs() <= NEAR;
    let pods = node.pods.iter().filter(|pod| !pod.is_daemon() && pod.started.as_ref().is_some_and(near));
    pods.max_by(|a, b| a.started.cmp(&b.started).then_with(|| b.id.cmp(&a.id))).map(|pod| pod.id.clone())
}

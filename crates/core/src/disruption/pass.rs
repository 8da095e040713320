//! One pass: the methods in order until one finds commands, and that one again as long as the budgets allow.
//!
//! The commands of a pass start one after another, so each is computed on a snapshot with the effects of the earlier ones:
//! no two use the same capacity. The solver is updated from one to the next.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use hashbrown::HashSet;
use jiff::Timestamp;

use super::{
    Allowance, BalancedScore, Blocked, Budgets, Candidate, Command, Context, DriftCapUsage, METHODS, Method,
    MethodSpec, Rules, SimulationSolver, Unconsolidatable, Verdict, budget, candidates,
    drift_cap::{apply_drift_caps, drift_cap_usage},
    gates::RefusedSets,
    hints::Hints,
    overlay,
    simulation::removal,
};
use crate::model::{DisruptionReason, PoolName, Snapshot, Str};

/// Maximum number of commands of a pass. The next pass follows at once.
const MAX_COMMANDS: usize = 64;

/// The state that one pass carries over to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CarryOver {
    /// NodeClaims that it did not reach: they come first in the next one.
    pub first: BTreeSet<Str>,
    /// Sets that packing by price refused.
    pub refused: RefusedSets,
}

/// The result of a pass.
#[derive(Debug, Default)]
#[must_use = "a proposal that is neither executed nor reported is lost"]
pub struct Proposal {
    /// Commands of the first method that found any, in order.
    pub commands: Vec<Command>,
    /// Name of that method.
    pub method: Option<&'static str>,
    /// Nodes that may not be disrupted at all now, by name.
    pub blocked: Vec<Blocked>,
    /// Candidates that consolidation does not disrupt, with the reason.
    pub unconsolidatable: Vec<(Candidate, Unconsolidatable)>,
    /// Drifted nodes that are not replaced, with the reason.
    pub held: Vec<(Candidate, Unconsolidatable)>,
    /// The budgets per pool and reason.
    pub allowances: Vec<Allowance>,
    /// How many nodes each method considered.
    pub eligible: Vec<(&'static MethodSpec, usize)>,
    /// How many simulations the pass ran.
    pub simulations: u32,
    /// Whether a budget excluded a candidate.
    pub constrained: bool,
    /// NodeClaims that the pass did not reach: they come first in the next one.
    pub unreached: Vec<Str>,
    /// Sets that packing by price refused. They are not tried again until they change.
    pub refused: RefusedSets,
    /// Scores of moves under the policy `Balanced`.
    pub scores: Vec<BalancedScore>,
    /// Usage of the drift caps, by NodePool with a cap.
    pub drift_caps: Vec<DriftCapUsage>,
}

impl Proposal {
    /// The state for the next pass.
    #[must_use]
    pub fn carry_over(&self) -> CarryOver {
        CarryOver { first: self.unreached.iter().cloned().collect(), refused: self.refused.clone() }
    }
}

/// Computes the commands that disruption would start now. Deterministic.
pub fn propose(snapshot: &Snapshot, rules: &Rules, now: Timestamp) -> Proposal {
    propose_with(snapshot, rules, now, METHODS)
}

/// [`propose`] with a choice of methods.
pub fn propose_with(snapshot: &Snapshot, rules: &Rules, now: Timestamp, methods: &[&dyn Method]) -> Proposal {
    let mut solver = SimulationSolver::new(snapshot, &rules.scheduling);
    propose_after(&mut solver, rules, now, methods, CarryOver::default())
}

/// [`propose_with`] by an existing solver, which is restored afterwards. `carry_over` is the state of the previous pass
/// ([`Proposal::carry_over`]).
pub fn propose_after(
    solver: &mut SimulationSolver<'_>,
    rules: &Rules,
    now: Timestamp,
    methods: &[&dyn Method],
    carry_over: CarryOver,
) -> Proposal {
    solver.begin(rules.simulations_max);
    let snapshot = solver.snapshot();
    let context = Context { snapshot, rules, now, first: &carry_over.first };
    let mut pass = Pass { hints: Hints::new(carry_over.refused), ..Pass::default() };
    pass.proposal.allowances = budget::allowances(snapshot, now);
    let eligible = Eligible::default();
    for (position, method) in methods.iter().enumerate() {
        let (all, blocked) = eligible.get(&context, *method);
        if position == 0 {
            pass.proposal.blocked.clone_from(blocked);
        }
        let mut considered = pass.considered(&context, *method, all);
        method.sort_candidates(&mut considered);
        let budgets = pass.budgets(&context, *method, &pass.proposal.allowances);
        // A node that one method refuses may be a candidate of the next.
        pass.finished.clear();
        let commands = pass.run(&context, solver, *method, &considered, budgets);
        if commands.is_empty() {
            continue;
        }
        pass.proposal.method = Some(method.spec().name);
        pass.proposal.commands = commands;
        pass.repeat(&context, solver, *method, considered);
        break;
    }
    let usages = snapshot.pools.iter().filter_map(|pool| drift_cap_usage(snapshot, pool, now));
    pass.proposal.drift_caps = usages.collect();
    pass.proposal.refused = pass.hints.into_refused(now);
    pass.proposal.simulations = solver.simulations();
    pass.proposal
}

/// The candidates and the blocked nodes of a pass, computed on first use.
#[derive(Default)]
struct Eligible {
    graceful: OnceCell<(Vec<Candidate>, Vec<Blocked>)>,
    eventual: OnceCell<(Vec<Candidate>, Vec<Blocked>)>,
}

impl Eligible {
    fn get(&self, context: &Context<'_>, method: &dyn Method) -> &(Vec<Candidate>, Vec<Blocked>) {
        let is_eventual = method.spec().is_eventual();
        let list = if is_eventual { &self.eventual } else { &self.graceful };
        list.get_or_init(|| candidates(context.snapshot, context.now, is_eventual))
    }
}

/// The findings of a pass so far.
#[derive(Default)]
struct Pass {
    proposal: Proposal,
    /// The hints of the methods for later ones.
    hints: Hints,
    /// The budgets after the commands so far.
    started: Vec<Allowance>,
    /// Nodes that the method does not consider again in this pass, by index.
    finished: HashSet<usize>,
    /// The reasons that the pass has reported: index of the node, whether of drift, and kind of reason.
    reported: HashSet<(usize, bool, &'static str)>,
}

impl Pass {
    /// The candidates that a method considers.
    fn considered<'c>(
        &mut self,
        context: &Context<'_>,
        method: &dyn Method,
        all: &'c [Candidate],
    ) -> Vec<&'c Candidate> {
        let mut considered = Vec::new();
        for candidate in all {
            match method.should_disrupt(context, candidate) {
                Ok(true) => considered.push(candidate),
                Ok(false) => {}
                Err(reason) => self.report(method, candidate.clone(), reason),
            }
        }
        self.proposal.eligible.push((method.spec(), considered.len()));
        considered
    }

    /// The remaining budgets for a method; for drift, the drift caps apply too.
    fn budgets(&self, context: &Context<'_>, method: &dyn Method, allowances: &[Allowance]) -> Budgets {
        let reason = method.spec().reason;
        let mut budgets = budget::left_of(allowances, reason);
        if reason == DisruptionReason::Drifted {
            let mut started_by_pool: BTreeMap<PoolName, i64> = BTreeMap::new();
            for candidate in self.proposal.commands.iter().flat_map(|command| &command.candidates) {
                *started_by_pool.entry(candidate.pool.name.clone()).or_default() += 1;
            }
            apply_drift_caps(context.snapshot, context.now, &started_by_pool, &mut budgets);
        }
        budgets
    }

    /// Reports why a node is not disrupted, once for each kind of reason.
    fn report(&mut self, method: &dyn Method, candidate: Candidate, reason: Unconsolidatable) {
        let drifted = method.spec().reason == DisruptionReason::Drifted;
        if self.reported.insert((candidate.index, drifted, reason.kind())) {
            let proposal = &mut self.proposal;
            let list = if drifted { &mut proposal.held } else { &mut proposal.unconsolidatable };
            list.push((candidate, reason));
        }
    }

    /// Runs a method once, and records its findings. Returns the commands.
    fn run(
        &mut self,
        context: &Context<'_>,
        solver: &mut SimulationSolver<'_>,
        method: &dyn Method,
        considered: &[&Candidate],
        mut budgets: Budgets,
    ) -> Vec<Command> {
        let hints = std::mem::take(&mut self.hints);
        let Verdict { commands, refusals, hints, unreached, scores } =
            method.propose(context, solver, considered, hints, &mut budgets);
        self.hints = hints;
        self.proposal.constrained |= budgets.constrained;
        self.proposal.scores.extend(scores);
        for (candidate, reason) in refusals {
            self.finished.insert(candidate.index);
            self.report(method, candidate, reason);
        }
        let names = unreached.iter().filter_map(Candidate::claim);
        self.proposal.unreached.extend(names);
        commands
    }

    /// Repeats a method that found commands, on a snapshot with their effects, while the budgets allow more.
    fn repeat(
        &mut self,
        context: &Context<'_>,
        solver: &mut SimulationSolver<'_>,
        method: &dyn Method,
        mut considered: Vec<&Candidate>,
    ) {
        let base = solver.base();
        let mut snapshot = Arc::clone(&base);
        let mut applied = 0;
        self.started.clone_from(&self.proposal.allowances);
        loop {
            let mut is_base_updated = true;
            for command in &self.proposal.commands[applied..] {
                is_base_updated &= keep_placements(solver, command);
                overlay::start(Arc::make_mut(&mut snapshot), command, applied);
                count(&mut self.started, command);
                self.finished.extend(command.candidates.iter().map(|candidate| candidate.index));
                applied += 1;
            }
            // Deletions reduce the capacity: what was refused before is refused again.
            considered.retain(|candidate| !self.finished.contains(&candidate.index));
            let budgets = self.budgets(context, method, &self.started);
            if !considered.iter().any(|candidate| budgets.left(&candidate.pool.name) > 0) {
                self.proposal.constrained |= !considered.is_empty();
                break;
            }
            if self.proposal.commands.len() >= MAX_COMMANDS {
                self.proposal.unreached.extend(considered.iter().filter_map(|candidate| candidate.claim()));
                break;
            }
            if !is_base_updated {
                solver.follow(&snapshot);
            }
            let next = Context { snapshot: &snapshot, ..*context };
            let commands = self.run(&next, solver, method, &considered, budgets);
            if commands.is_empty() {
                break;
            }
            self.proposal.commands.extend(commands);
        }
        solver.follow(&base);
    }
}

/// Keeps the placements of a command without replacements for the rest of the pass.
fn keep_placements(solver: &mut SimulationSolver<'_>, command: &Command) -> bool {
    let (moved, without) = removal(&command.candidates);
    command.replacements.is_empty() && solver.keep(&moved, &without, command.method.purpose())
}

/// Counts the nodes of a command against the budgets, except those that count already.
fn count(allowances: &mut [Allowance], command: &Command) {
    for candidate in command.candidates.iter().filter(|candidate| !budget::is_disrupting(&candidate.node)) {
        for allowance in allowances.iter_mut().filter(|allowance| allowance.pool == candidate.pool.name) {
            allowance.disrupting += 1;
        }
    }
}

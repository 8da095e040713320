//! One pass: the methods in order until one finds commands, and that one again as long as the budgets allow.
//!
//! The commands of a pass start one after another, so each is found on the snapshot that the earlier ones leave behind:
//! no two rely on the same room. The solver follows from one to the next.

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
    gates::Refused,
    leads::Leads,
    overlay,
    simulation::removal,
};
use crate::model::{DisruptionReason, PoolName, Snapshot, Str};

/// The most commands of a pass. The next pass follows at once.
const MAX_COMMANDS: usize = 64;

/// What one pass leaves for the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recall {
    /// NodeClaims that it did not reach: they come first.
    pub first: BTreeSet<Str>,
    /// Sets that it packed by price in vain.
    pub refused: Refused,
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
    /// Nodes that consolidation considered and that stay, with the reason.
    pub unconsolidatable: Vec<(Candidate, Unconsolidatable)>,
    /// Drifted nodes that are not replaced, with the reason.
    pub held: Vec<(Candidate, Unconsolidatable)>,
    /// The budgets per pool and reason.
    pub allowances: Vec<Allowance>,
    /// How many nodes each method considered.
    pub eligible: Vec<(&'static MethodSpec, usize)>,
    /// How many simulations the pass ran.
    pub simulations: u32,
    /// Whether a budget held back a candidate.
    pub constrained: bool,
    /// NodeClaims that the pass did not reach: they come first in the next one.
    pub unreached: Vec<Str>,
    /// Sets that were packed by price in vain. They are not tried again while they do not change.
    pub refused: Refused,
    /// Scores of moves under the policy `Balanced`.
    pub scores: Vec<BalancedScore>,
    /// Usage of the drift caps, of pools that have one.
    pub drift_caps: Vec<DriftCapUsage>,
}

impl Proposal {
    /// What the pass leaves for the next.
    #[must_use]
    pub fn recall(&self) -> Recall {
        Recall { first: self.unreached.iter().cloned().collect(), refused: self.refused.clone() }
    }
}

/// The commands that disruption would start now. Deterministic.
pub fn propose(snapshot: &Snapshot, rules: &Rules, now: Timestamp) -> Proposal {
    propose_with(snapshot, rules, now, METHODS)
}

/// [`propose`] with a choice of methods.
pub fn propose_with(snapshot: &Snapshot, rules: &Rules, now: Timestamp, methods: &[&dyn Method]) -> Proposal {
    let mut solver = SimulationSolver::new(snapshot, &rules.scheduling);
    propose_after(&mut solver, rules, now, methods, Recall::default())
}

/// [`propose_with`] by a solver that exists already, which is the same afterwards. `recall` is what the previous pass left
/// ([`Proposal::recall`]).
pub fn propose_after(
    solver: &mut SimulationSolver<'_>,
    rules: &Rules,
    now: Timestamp,
    methods: &[&dyn Method],
    recall: Recall,
) -> Proposal {
    solver.begin(rules.simulations_max);
    let snapshot = solver.snapshot();
    let context = Context { snapshot, rules, now, first: &recall.first };
    let mut pass = Pass { leads: Leads::new(recall.refused), ..Pass::default() };
    pass.proposal.allowances = budget::allowances(snapshot, now);
    let eligible = Eligible::default();
    for (position, method) in methods.iter().enumerate() {
        let (all, blocked) = eligible.get(&context, *method);
        if position == 0 {
            pass.proposal.blocked.clone_from(blocked);
        }
        let mut cases = pass.cases(&context, *method, all);
        method.arrange(&mut cases);
        let budgets = pass.budgets(&context, *method, &pass.proposal.allowances);
        // A node that one method refuses may be a case for the next.
        pass.done.clear();
        let commands = pass.run(&context, solver, *method, &cases, budgets);
        if commands.is_empty() {
            continue;
        }
        pass.proposal.method = Some(method.spec().name);
        pass.proposal.commands = commands;
        pass.repeat(&context, solver, *method, cases);
        break;
    }
    let usages = snapshot.pools.iter().filter_map(|pool| drift_cap_usage(snapshot, pool, now));
    pass.proposal.drift_caps = usages.collect();
    pass.proposal.refused = pass.leads.into_refused(now);
    pass.proposal.simulations = solver.simulations();
    pass.proposal
}

/// Nodes of a pass that may be disrupted, and blocked nodes, each list on first use.
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
    /// What the methods found for each other.
    leads: Leads,
    /// The budgets with the commands so far.
    started: Vec<Allowance>,
    /// Nodes that the method does not consider again in this pass, by index.
    done: HashSet<usize>,
    /// Which reasons the pass has reported, by index of the node: whether of drift, and the type of reason.
    reported: HashSet<(usize, bool, &'static str)>,
}

impl Pass {
    /// The candidates that a method considers.
    fn cases<'c>(
        &mut self,
        context: &Context<'_>,
        method: &dyn Method,
        all: &'c [Candidate],
    ) -> Vec<&'c Candidate> {
        let mut cases = Vec::new();
        for candidate in all {
            match method.is_case(context, candidate) {
                Ok(true) => cases.push(candidate),
                Ok(false) => {}
                Err(reason) => self.report(method, candidate.clone(), reason),
            }
        }
        self.proposal.eligible.push((method.spec(), cases.len()));
        cases
    }

    /// What the budgets leave for a method, and for drift the drift caps too.
    fn budgets(&self, context: &Context<'_>, method: &dyn Method, allowances: &[Allowance]) -> Budgets {
        let reason = method.spec().reason;
        let mut budgets = budget::left_of(allowances, reason);
        if reason == DisruptionReason::Drifted {
            let mut begun: BTreeMap<PoolName, i64> = BTreeMap::new();
            for candidate in self.proposal.commands.iter().flat_map(|command| &command.candidates) {
                *begun.entry(candidate.pool.name.clone()).or_default() += 1;
            }
            apply_drift_caps(context.snapshot, context.now, &begun, &mut budgets);
        }
        budgets
    }

    /// Reports why a node stays, once for each type of reason.
    fn report(&mut self, method: &dyn Method, candidate: Candidate, reason: Unconsolidatable) {
        let drifted = method.spec().reason == DisruptionReason::Drifted;
        if self.reported.insert((candidate.index, drifted, reason.kind())) {
            let proposal = &mut self.proposal;
            let list = if drifted { &mut proposal.held } else { &mut proposal.unconsolidatable };
            list.push((candidate, reason));
        }
    }

    /// Runs a method once, and takes in all that it found. Returns the commands.
    fn run(
        &mut self,
        context: &Context<'_>,
        solver: &mut SimulationSolver<'_>,
        method: &dyn Method,
        cases: &[&Candidate],
        mut budgets: Budgets,
    ) -> Vec<Command> {
        let leads = std::mem::take(&mut self.leads);
        let Verdict { commands, refusals, leads, unreached, scores } =
            method.propose(context, solver, cases, leads, &mut budgets);
        self.leads = leads;
        self.proposal.constrained |= budgets.constrained;
        self.proposal.scores.extend(scores);
        for (candidate, reason) in refusals {
            self.done.insert(candidate.index);
            self.report(method, candidate, reason);
        }
        let names = unreached.iter().filter_map(Candidate::claim);
        self.proposal.unreached.extend(names);
        commands
    }

    /// Runs a method that found commands again, on the snapshot that they leave behind, while the budgets have room.
    fn repeat(
        &mut self,
        context: &Context<'_>,
        solver: &mut SimulationSolver<'_>,
        method: &dyn Method,
        mut cases: Vec<&Candidate>,
    ) {
        let base = solver.base();
        let mut snapshot = Arc::clone(&base);
        let mut applied = 0;
        self.started.clone_from(&self.proposal.allowances);
        loop {
            let mut is_kept = true;
            for command in &self.proposal.commands[applied..] {
                is_kept &= keep(solver, command);
                overlay::start(Arc::make_mut(&mut snapshot), command, applied);
                count(&mut self.started, command);
                self.done.extend(command.candidates.iter().map(|candidate| candidate.index));
                applied += 1;
            }
            // Without the room of these candidates there is less of it: what was refused before is refused again.
            cases.retain(|candidate| !self.done.contains(&candidate.index));
            let budgets = self.budgets(context, method, &self.started);
            if !cases.iter().any(|candidate| budgets.left(&candidate.pool.name) > 0) {
                self.proposal.constrained |= !cases.is_empty();
                break;
            }
            if self.proposal.commands.len() >= MAX_COMMANDS {
                self.proposal.unreached.extend(cases.iter().filter_map(|candidate| candidate.claim()));
                break;
            }
            if !is_kept {
                solver.follow(&snapshot);
            }
            let next = Context { snapshot: &snapshot, ..*context };
            let commands = self.run(&next, solver, method, &cases, budgets);
            if commands.is_empty() {
                break;
            }
            self.proposal.commands.extend(commands);
        }
        solver.follow(&base);
    }
}

/// Keeps the placements of a command that creates nothing, for the rest of the pass.
fn keep(solver: &mut SimulationSolver<'_>, command: &Command) -> bool {
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

//! One pass: the methods in order until one acts, and that one as often as the budgets allow.
//!
//! Commands of one pass are carried out one after another, so each is found on the snapshot that the earlier ones leave
//! behind: none counts on room that another one uses. The solver follows from one to the next.

use std::{cell::OnceCell, collections::BTreeMap, sync::Arc};

use hashbrown::HashSet;
use jiff::Timestamp;

use super::{
    Allowance, Bench, Blocked, Budgets, Candidate, Command, Context, METHODS, Method, Proposal, Recall,
    Rules, Unconsolidatable, Verdict, brake, brake::cap_by_brakes, budget, candidates, overlay,
};
use crate::model::{DisruptionReason, Pod, PoolName, Snapshot};

/// Commands of one pass at most; what is left is for the next one, which follows at once.
const MAX_COMMANDS: usize = 64;

/// What disruption would do now. Deterministic.
pub fn propose(snapshot: &Snapshot, rules: &Rules, now: Timestamp) -> Proposal {
    propose_with(snapshot, rules, now, &METHODS)
}

/// [`propose`] with a choice of methods.
pub fn propose_with(snapshot: &Snapshot, rules: &Rules, now: Timestamp, methods: &[&dyn Method]) -> Proposal {
    propose_after(Bench::new(snapshot, &rules.scheduling), rules, now, methods, Recall::default()).0
}

/// [`propose_with`] on a bench that is there already, which is given back as it was. `recall` is what the last pass left
/// ([`Proposal::recall`]).
pub fn propose_after<'a>(
    mut bench: Bench<'a>,
    rules: &Rules,
    now: Timestamp,
    methods: &[&dyn Method],
    recall: Recall,
) -> (Proposal, Bench<'a>) {
    bench.begin(rules.what_ifs, recall);
    let proposal = propose_on(&bench, rules, now, methods);
    (proposal, bench)
}

/// One pass on a bench that was begun. Its solver is the same afterwards.
fn propose_on(bench: &Bench<'_>, rules: &Rules, now: Timestamp, methods: &[&dyn Method]) -> Proposal {
    let snapshot = bench.snapshot();
    let context = Context { snapshot, rules, now, solver: bench };
    let mut pass = Pass::default();
    pass.proposal.allowances = budget::allowances(snapshot, now);
    let eligible = Eligible::default();
    for (at, method) in methods.iter().enumerate() {
        let (all, blocked) = eligible.get(&context, method.is_eventual());
        if at == 0 {
            pass.proposal.blocked.clone_from(blocked);
        }
        let mut cases = pass.cases(&context, *method, all);
        method.arrange(&mut cases);
        let budgets = pass.budgets(&context, *method, &pass.proposal.allowances);
        // What one method leaves may be a case for the next.
        pass.settled.clear();
        let commands = pass.ask(&context, *method, &cases, budgets);
        if commands.is_empty() {
            continue;
        }
        pass.proposal.method = Some(method.name());
        pass.proposal.commands = commands;
        pass.repeat(&context, *method, cases);
        break;
    }
    let brakes = snapshot.pools.iter().filter_map(|pool| brake(snapshot, pool, now));
    pass.proposal.brakes = brakes.collect();
    pass.proposal.judged = bench.take_judged();
    pass.proposal.refused = bench.suspects().refused(now);
    pass.proposal.what_ifs = bench.what_ifs();
    pass.proposal
}

/// Candidates of a pass, for methods that look past pods that object and for those that do not.
#[derive(Default)]
struct Eligible([OnceCell<(Vec<Candidate>, Vec<Blocked>)>; 2]);

impl Eligible {
    fn get(&self, context: &Context<'_>, eventual: bool) -> &(Vec<Candidate>, Vec<Blocked>) {
        self.0[usize::from(eventual)].get_or_init(|| candidates(context.snapshot, context.now, eventual))
    }
}

/// What one pass has found out so far.
#[derive(Default)]
struct Pass {
    proposal: Proposal,
    /// What the budgets say once the commands so far are under way.
    under_way: Vec<Allowance>,
    /// Nodes that need not be looked at again by the method that acts, by index.
    settled: HashSet<usize>,
    /// What was told of nodes, by index: whether drift says so, and what kind of reason it is.
    told: HashSet<(usize, bool, &'static str)>,
}

impl Pass {
    /// The candidates that are cases for a method.
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
                Err(reason) => self.tell(method, candidate.clone(), reason),
            }
        }
        self.proposal.eligible.push((method.name(), cases.len()));
        cases
    }

    /// What is left of budgets for a method, and where that is drift of brakes.
    fn budgets(&self, context: &Context<'_>, method: &dyn Method, allowances: &[Allowance]) -> Budgets {
        let mut budgets = budget::left_of(allowances, method.reason());
        if method.reason() == DisruptionReason::Drifted {
            let mut begun: BTreeMap<PoolName, i64> = BTreeMap::new();
            for candidate in self.proposal.commands.iter().flat_map(|command| &command.candidates) {
                *begun.entry(candidate.pool.name.clone()).or_default() += 1;
            }
            cap_by_brakes(context.snapshot, context.now, &begun, &mut budgets);
        }
        budgets
    }

    /// One reason of a kind for each node is enough.
    fn tell(&mut self, method: &dyn Method, candidate: Candidate, reason: Unconsolidatable) {
        let drifted = method.reason() == DisruptionReason::Drifted;
        if self.told.insert((candidate.index, drifted, reason.kind())) {
            let proposal = &mut self.proposal;
            let list = if drifted { &mut proposal.held } else { &mut proposal.unconsolidatable };
            list.push((candidate, reason));
        }
    }

    /// Asks a method once, and takes note of all that it says but the commands.
    fn ask(
        &mut self,
        context: &Context<'_>,
        method: &dyn Method,
        cases: &[&Candidate],
        mut budgets: Budgets,
    ) -> Vec<Command> {
        let Verdict { commands, unconsolidatable, unreached } = method.propose(context, cases, &mut budgets);
        self.proposal.constrained |= budgets.constrained;
        for (candidate, reason) in unconsolidatable {
            self.settled.insert(candidate.index);
            self.tell(method, candidate, reason);
        }
        let names = unreached.iter().filter_map(Candidate::claim);
        self.proposal.unreached.extend(names);
        commands
    }

    /// Asks the method that acts again, on what its commands leave behind, while the budgets have room.
    fn repeat(&mut self, context: &Context<'_>, method: &dyn Method, mut cases: Vec<&Candidate>) {
        let base = context.solver.base();
        let mut snapshot = Arc::clone(&base);
        let mut applied = 0;
        self.under_way.clone_from(&self.proposal.allowances);
        loop {
            let mut settled = true;
            for command in &self.proposal.commands[applied..] {
                settled &= settle(context, command);
                overlay::carry_out(Arc::make_mut(&mut snapshot), command, applied);
                take_up(&mut self.under_way, command);
                self.settled.extend(command.candidates.iter().map(|candidate| candidate.index));
                applied += 1;
            }
            // Without the candidates' room there is less of it: what could not go before cannot go now.
            cases.retain(|candidate| !self.settled.contains(&candidate.index));
            let budgets = self.budgets(context, method, &self.under_way);
            if !cases.iter().any(|candidate| budgets.left(&candidate.pool.name) > 0) {
                self.proposal.constrained |= !cases.is_empty();
                break;
            }
            if self.proposal.commands.len() >= MAX_COMMANDS {
                self.proposal.unreached.extend(cases.iter().filter_map(|candidate| candidate.claim()));
                break;
            }
            let bench = if settled { context.solver.along(&snapshot) } else { context.solver.on(&snapshot) };
            let next = Context { snapshot: &snapshot, solver: &bench, ..*context };
            let commands = self.ask(&next, method, &cases, budgets);
            if commands.is_empty() {
                break;
            }
            self.proposal.commands.extend(commands);
        }
        context.solver.resume(&base);
    }
}

/// Lets the pods of a command that creates nothing stay where it has them go, as far as the rest of the pass is concerned.
fn settle(context: &Context<'_>, command: &Command) -> bool {
    let moved = command.candidates.iter().flat_map(|candidate| &candidate.pods);
    let moved: Vec<Arc<Pod>> = moved.cloned().collect();
    let without: Vec<usize> = command.candidates.iter().map(|candidate| candidate.index).collect();
    command.replacements.is_empty() && context.solver.settle(&moved, &without)
}

/// Counts the nodes of a command against the budgets, but those that take them up already.
fn take_up(allowances: &mut [Allowance], command: &Command) {
    for candidate in command.candidates.iter().filter(|candidate| !budget::is_disrupting(&candidate.node)) {
        for allowance in allowances.iter_mut().filter(|allowance| allowance.pool == candidate.pool.name) {
            allowance.disrupting += 1;
        }
    }
}

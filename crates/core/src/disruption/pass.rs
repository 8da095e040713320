//! One pass: the methods in order until one acts, and that one as often as the budgets allow.
//!
//! Commands of one pass are carried out one after another, so each is found on the snapshot that the earlier ones leave
//! behind: none counts on room that another one uses.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{
    Bench, Command, Context, METHODS, Method, Proposal, Rules, Unconsolidatable, budget, candidates, overlay,
};
use crate::model::{Snapshot, Str};

/// Commands of one pass at most; each of them prepares the solver anew.
const MAX_COMMANDS: usize = 64;

/// What disruption would do now. Deterministic.
pub fn propose(snapshot: &Snapshot, rules: &Rules, now: Timestamp) -> Proposal {
    propose_with(snapshot, rules, now, &METHODS)
}

/// [`propose`] with a choice of methods.
pub fn propose_with(snapshot: &Snapshot, rules: &Rules, now: Timestamp, methods: &[&dyn Method]) -> Proposal {
    propose_on(&Bench::new(snapshot, &rules.scheduling), rules, now, methods)
}

/// [`propose_with`] on a bench that is there already. Its solver is the same afterwards.
pub fn propose_on(bench: &Bench<'_>, rules: &Rules, now: Timestamp, methods: &[&dyn Method]) -> Proposal {
    let snapshot = bench.snapshot();
    let context = Context { snapshot, rules, now, solver: bench };
    let mut proposal = Proposal { allowances: budget::allowances(snapshot, now), ..Proposal::default() };
    let mut settled = BTreeSet::new();
    for (at, method) in methods.iter().enumerate() {
        let first = round(&context, *method, &mut settled, &mut proposal, at == 0);
        if first.is_empty() {
            continue;
        }
        proposal.method = Some(method.name());
        proposal.commands = first;
        repeat(&context, *method, settled, &mut proposal);
        break;
    }
    proposal
}

/// Asks one method once. `settled` has the claims that need not be looked at again, with those that this round adds.
fn round(
    context: &Context<'_>,
    method: &dyn Method,
    settled: &mut BTreeSet<Str>,
    proposal: &mut Proposal,
    tell_blocked: bool,
) -> Vec<Command> {
    let (eligible, blocked) = candidates(context.snapshot, context.now, method.is_eventual());
    if tell_blocked {
        proposal.blocked = blocked;
    }
    let mut cases = Vec::new();
    for candidate in eligible {
        match method.is_case(context, &candidate) {
            Ok(true) => cases.push(candidate),
            Ok(false) => {}
            Err(reason) => tell(proposal, candidate, reason),
        }
    }
    proposal.eligible.push((method.name(), cases.len()));
    let mut budgets = budget::budgets(context.snapshot, method.reason(), context.now);
    let verdict = method.propose(context, &cases, &mut budgets);
    proposal.what_ifs += verdict.what_ifs;
    proposal.constrained |= budgets.constrained;
    for (candidate, reason) in verdict.unconsolidatable {
        settled.extend(candidate.node.claim_name().map(|name| Str::from(name.as_str())));
        tell(proposal, candidate, reason);
    }
    verdict.commands
}

/// One reason for each machine and kind of method is enough.
fn tell(proposal: &mut Proposal, candidate: super::Candidate, reason: Unconsolidatable) {
    let known = |(told, why): &(super::Candidate, Unconsolidatable)| {
        *why == reason && told.node.claim_name() == candidate.node.claim_name()
    };
    if !proposal.unconsolidatable.iter().rev().take(candidate.index + 1).any(known) {
        proposal.unconsolidatable.push((candidate, reason));
    }
}

/// Asks the method that acts again, on what its commands leave behind, while the budgets have room.
fn repeat(context: &Context<'_>, method: &dyn Method, mut settled: BTreeSet<Str>, proposal: &mut Proposal) {
    let mut snapshot = context.snapshot.clone();
    let mut applied = 0;
    while proposal.commands.len() < MAX_COMMANDS {
        for command in &proposal.commands[applied..] {
            overlay::carry_out(&mut snapshot, command, &format!("{applied}"));
            applied += 1;
        }
        let bench = Bench::new(&snapshot, &context.rules.scheduling);
        let next = Context { snapshot: &snapshot, solver: &bench, ..*context };
        let (eligible, _) = candidates(&snapshot, context.now, method.is_eventual());
        // Without the candidates' room there is less of it: what could not go before cannot go now.
        let fresh = eligible.into_iter().filter(|candidate| {
            !candidate.node.claim_name().is_some_and(|name| settled.contains(name.as_str()))
                && method.is_case(&next, candidate) == Ok(true)
        });
        let fresh: Vec<_> = fresh.collect();
        let mut budgets = budget::budgets(&snapshot, method.reason(), context.now);
        if fresh.is_empty() || fresh.iter().all(|candidate| budgets.left(&candidate.pool.name) <= 0) {
            proposal.constrained |= !fresh.is_empty();
            return;
        }
        let verdict = method.propose(&next, &fresh, &mut budgets);
        proposal.what_ifs += verdict.what_ifs;
        proposal.constrained |= budgets.constrained;
        for (candidate, reason) in verdict.unconsolidatable {
            settled.extend(candidate.node.claim_name().map(|name| Str::from(name.as_str())));
            proposal.unconsolidatable.push((candidate, reason));
        }
        if verdict.commands.is_empty() {
            return;
        }
        proposal.commands.extend(verdict.commands);
    }
}

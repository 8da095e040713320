//! `fleetwright plan`, a dry run: the NodeClaims that the controller would create for pending pods.

mod deletions;
mod fail_if;
mod fixpoint;
mod fleet;
mod report;
mod table;
#[cfg(test)]
mod tests;
mod what_if;

use std::{io::Write as _, sync::Arc};

use fleetwright_controllers::{
    provisioning::eligible,
    runtime::later,
    settings::{Packing, SolveEffort},
};
use fleetwright_core::{
    clock::Clock as _,
    model::{NamespacedName, Pod, PodUid, Snapshot, StateNode},
    scheduling::{Effort, Plan, PreparedSnapshot, Purpose, Request, Rules},
};
use jiff::Timestamp;

pub(crate) use self::{
    fail_if::FailIf,
    fixpoint::passes,
    report::{Timing, raised},
    table::grid,
};
use self::{
    fleet::{Fleet, Leaving},
    report::{Context, PlanReport},
};
use crate::{
    catalogue::Catalogues,
    cli::PlanOptions,
    clock::SystemClock,
    figures,
    input::{
        self, Item, evaluate, lacking,
        load::{self, Loaded, SetAside},
        static_pools, validation,
        workloads::{self, Replicas},
    },
    outcome::Outcome,
    settings::{self, Values},
    sheet,
};

/// Plans and prints.
///
/// # Errors
/// If the input is invalid. Unschedulable pods are a result, not an error.
pub(crate) fn run(
    options: &PlanOptions,
    catalogues: &Catalogues,
    values: &Values,
) -> anyhow::Result<Outcome> {
    let started = SystemClock.now();
    let (items, lacking) = input::read_noted(&options.input)?;
    let mut report = plan(items, options, catalogues, values, started)?;
    report.notes.splice(0..0, lacking);
    show_notes(&report.notes, &report.incomplete)?;
    sheet::print(options.output, &report, |wide| table::page(&report, wide))?;
    if let Some(condition) = &options.fail_if {
        let (now, then) = report.figures();
        if let Some(why) = condition.holds(now, then, report.currency)? {
            writeln!(anstream::stderr(), "--fail-if holds: {why}")?;
            return Ok(Outcome::FailIf);
        }
    }
    Ok(Outcome::of(&report.incomplete))
}

/// Prints the assumptions of a tool, and the gaps of its catalogues.
pub(crate) fn show_notes(notes: &[String], gaps: &[String]) -> anyhow::Result<()> {
    for note in notes {
        writeln!(anstream::stderr(), "note: {}", sheet::plain(note))?;
    }
    for gap in gaps {
        writeln!(anstream::stderr(), "incomplete: {}", sheet::plain(gap))?;
    }
    Ok(())
}

/// Loads the input with its instance types, and chooses the packer: one that reads no prices if some are unknown.
pub(crate) fn prepare(
    items: Vec<Item>,
    options: &PlanOptions,
    catalogues: &Catalogues,
    values: &Values,
) -> anyhow::Result<(Loaded, Packing)> {
    let mut offer = catalogues.offer(&items, &options.catalogue, values)?;
    let packer = if offer.priced { values.packing() } else { Packing::Compatible };
    if !offer.priced {
        offer.pools = offer.for_packing_without_prices();
    }
    Ok((load::load(items, offer, values)?, packer))
}

/// Adds the pods of workloads, then loads as [`prepare`].
pub(crate) fn prepare_workloads(
    mut items: Vec<Item>,
    replicas: &[Replicas],
    options: &PlanOptions,
    catalogues: &Catalogues,
    values: &Values,
) -> anyhow::Result<(Loaded, Packing)> {
    let mut ignored = validation::ignored_fields(&items);
    ignored.extend(validation::rounded_up(&items));
    let mut notes = workloads::expand(&mut items, replicas)?;
    notes.extend(ignored);
    notes.extend(lacking::lacking(&items));
    let (mut loaded, packing) = prepare(items, options, catalogues, values)?;
    loaded.notes.splice(0..0, notes);
    Ok((loaded, packing))
}

/// The tools of one run.
struct Session<'a> {
    options: &'a PlanOptions,
    catalogues: &'a Catalogues,
    values: &'a Values,
    started: Timestamp,
}

/// A solved input.
struct Solved {
    loaded: Loaded,
    plan: Plan,
    /// What it was solved on.
    snapshot: Arc<Snapshot>,
    now: Fleet,
    then: Fleet,
    /// Running pods of nodes that drift.
    moved: usize,
    leaving: Leaving,
    /// The selected pods that are not scheduled.
    set_aside: Vec<(NamespacedName, SetAside)>,
    timing: Timing,
}

pub(crate) fn plan(
    items: Vec<Item>,
    options: &PlanOptions,
    catalogues: &Catalogues,
    values: &Values,
    started: Timestamp,
) -> anyhow::Result<PlanReport> {
    options.select.check(&items)?;
    let session = Session { options, catalogues, values, started };
    if options.what_if.is_empty() {
        let solved = session.solve(items, &options.replicas, Drift::Ignored)?;
        return Ok(PlanReport::new(&solved.plan, &session.context(&solved)));
    }
    let now = session.solve(items.clone(), &[], Drift::Stays)?;
    let mut replicas = options.replicas.clone();
    let changed = what_if::apply(items, input::read(&options.what_if)?, &mut replicas, catalogues)?;
    let before = what_if::drifted(&now.snapshot);
    let mut then = session.solve(changed.items.clone(), &replicas, Drift::Leaves { beyond: &before })?;
    then.loaded.notes.extend(changed.notes.iter().cloned());
    let mut report = PlanReport::new(&then.plan, &session.context(&then));
    report.compare(&now, &then, &changed);
    Ok(report)
}

/// What happens to nodes that drift.
#[derive(Clone, Copy)]
enum Drift<'a> {
    /// Their drift is that of the input.
    Ignored,
    /// It is evaluated, and they stay: the plan of a fleet as it is.
    Stays,
    /// It is evaluated, and those that had not drifted before are replaced.
    Leaves { beyond: &'a Leaving },
}

impl Session<'_> {
    fn context<'a>(&self, solved: &'a Solved) -> Context<'a> {
        Context {
            loaded: &solved.loaded,
            set_aside: &solved.set_aside,
            seed: self.options.seed,
            timing: solved.timing,
            now: &solved.now,
            then: &solved.then,
            snapshot: &solved.snapshot,
            rules: rules(self.values),
        }
    }

    /// Plans an input.
    fn solve(&self, items: Vec<Item>, replicas: &[Replicas], drift: Drift<'_>) -> anyhow::Result<Solved> {
        let Self { options, catalogues, values, started } = *self;
        let live = options.input.files.is_empty();
        let (mut loaded, packing) = prepare_workloads(items, replicas, options, catalogues, values)?;
        let read = SystemClock.now();
        if !matches!(drift, Drift::Ignored) {
            evaluate::conditions(&mut loaded.index, read);
        }
        let snapshot = loaded.index.snapshot(read);
        if values.gate("StaticCapacity") {
            loaded.notes.extend(static_pools::notes(&snapshot));
        }
        let leaving: Leaving = match drift {
            Drift::Leaves { beyond } => what_if::drifted(&snapshot).difference(beyond).cloned().collect(),
            Drift::Ignored | Drift::Stays => Leaving::new(),
        };
        let is_leaving =
            |node: &StateNode| node.claim_name().is_some_and(|claim| leaving.contains(claim.as_str()));
        let rules = rules(values);
        let mut ready = None;
        let mut moved = 0;
        loaded.notes.extend(selects_none(options, &pods(&snapshot, live)));
        let plan = passes(&mut loaded, read, |snapshot| {
            let mut prepared = PreparedSnapshot::on(snapshot.clone(), &rules);
            ready.get_or_insert_with(|| SystemClock.now());
            let without: Vec<usize> = snapshot
                .nodes
                .iter()
                .enumerate()
                .filter(|(_, node)| is_leaving(node))
                .map(|(at, _)| at)
                .collect();
            let of_leaving = without.iter().flat_map(|at| &snapshot.nodes[*at].pods);
            let displaced: Vec<Arc<Pod>> = of_leaving.filter(|pod| pod.is_reschedulable()).cloned().collect();
            moved = displaced.len();
            let mut pods = pods(snapshot, live);
            pods.retain(|pod| is_selected(options, pod));
            pods.extend(displaced);
            solve_without(&mut prepared, (&pods, &without), packing, options.budget)
        });
        let done = SystemClock.now();
        let timing = Timing::new(started, read, ready.unwrap_or(read), done);
        let set_aside: Vec<_> = set_aside(&loaded)
            .filter(|(id, pod)| {
                options.select.takes(&id.namespace, |key| pod.labels.get(key).map(String::as_str))
            })
            .map(|(id, pod)| (id.clone(), pod.clone()))
            .collect();
        let (mut now, mut then) = fleets(&snapshot, &plan, loaded.priced, is_leaving);
        // Pods that are left out count as well: nothing runs them.
        let pending = snapshot.pending.iter().filter(|pod| is_selected(options, pod)).count();
        now.unschedulable = pending + set_aside.len();
        then.unschedulable = plan.unplaced.len() + set_aside.len();
        Ok(Solved { plan, snapshot, now, then, moved, leaving, set_aside, timing, loaded })
    }
}

/// Whether the options select a pod.
fn is_selected(options: &PlanOptions, pod: &Pod) -> bool {
    options.select.takes(&pod.id.namespace, |key| pod.labels.get(key).map(|value| &**value))
}

/// A note if the options select none of the pending pods: a mistyped label must not look as if no pod waited.
fn selects_none(options: &PlanOptions, pods: &[Arc<Pod>]) -> Option<String> {
    let asks = options.select.selector.is_some() || options.select.namespace.is_some();
    let none = asks && !pods.is_empty() && !pods.iter().any(|pod| is_selected(options, pod));
    none.then(|| format!("-n and -l select none of {}", figures::count(pods.len(), "pending pod")))
}

/// The fleet before and after a plan.
fn fleets(
    snapshot: &Snapshot,
    plan: &Plan,
    priced: bool,
    is_leaving: impl Fn(&StateNode) -> bool,
) -> (Fleet, Fleet) {
    let stays = |node: &StateNode| !is_leaving(node);
    let then = Fleet::of(snapshot, priced, stays).with(fleet::cost(snapshot, stays), plan, priced);
    (Fleet::of(snapshot, priced, |_| true), then)
}

/// The settings of scheduling.
pub(crate) fn rules(values: &Values) -> Rules {
    settings::controllers(values).rules()
}

/// The pods to place: those that the controller would schedule; from files, all pending pods, so that each gets a result.
pub(crate) fn pods(snapshot: &Snapshot, live: bool) -> Vec<Arc<Pod>> {
    let mut pods = eligible::pods(snapshot, snapshot.taken_at);
    if !live {
        let known: std::collections::BTreeSet<PodUid> = pods.iter().map(|pod| pod.uid.clone()).collect();
        pods.extend(snapshot.pending.iter().filter(|pod| !known.contains(&pod.uid)).cloned());
    }
    pods
}

/// Places pods with all nodes.
pub(crate) fn solve(
    prepared: &mut PreparedSnapshot,
    pods: &[Arc<Pod>],
    packing: Packing,
    budget: SolveEffort,
) -> Plan {
    solve_without(prepared, (pods, &[]), packing, budget)
}

/// Places pods, with the nodes at some positions of the snapshot excluded.
pub(crate) fn solve_without(
    prepared: &mut PreparedSnapshot,
    (pods, without): (&[Arc<Pod>], &[usize]),
    packing: Packing,
    budget: SolveEffort,
) -> Plan {
    let deadline = match budget {
        SolveEffort::Time(time) if !time.is_zero() => Some(later(SystemClock.now(), time)),
        _ => None,
    };
    let go_on = || deadline.is_some_and(|deadline| SystemClock.now() < deadline);
    let effort = match (budget, deadline) {
        (SolveEffort::Iterations(rounds), _) => Effort::Iterations(rounds),
        (SolveEffort::Time(_), Some(_)) => Effort::While(&go_on),
        (SolveEffort::Time(_), None) => Effort::First,
    };
    let request = Request { pods, without, purpose: Purpose::Provisioning, effort };
    let mut plan = packing.packer().pack(prepared, &request);
    if !matches!(effort, Effort::First) {
        prepared.tighten_bound(&request, &mut plan);
    }
    plan
}

/// Pods of the input that are not scheduled, with the reason.
pub(crate) fn set_aside(loaded: &Loaded) -> impl Iterator<Item = (&NamespacedName, &SetAside)> {
    loaded.broken_pods.iter().chain(&loaded.held_pods)
}

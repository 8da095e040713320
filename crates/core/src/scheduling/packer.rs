//! How a batch becomes openings: a trait with two implementations.

use std::collections::{BTreeMap, BTreeSet};

use super::{Effort, Plan, Purpose, Request, Solver, solver::Strategy};
use crate::model::Price;

/// Turns a request into a plan.
///
/// Contract: every pod of the request gets exactly one verdict; what is placed obeys every rule of Kubernetes and of
/// the pools; machines that exist come before openings, and pools of higher weight before those of lower weight, for
/// each pod. `scheduling::validator` judges plans by it.
pub trait Packer {
    /// Name for settings and reports.
    fn name(&self) -> &'static str;

    /// Packs. The solver is the same before and after.
    fn pack(&self, solver: &mut Solver, request: &Request<'_>) -> Plan;
}

/// Karpenter's placement order, and nothing else: the reference.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compatible;

impl Packer for Compatible {
    fn name(&self) -> &'static str {
        "compatible"
    }

    fn pack(&self, solver: &mut Solver, request: &Request<'_>) -> Plan {
        solver.pass(request, Strategy::KARPENTER)
    }
}

/// The cheapest of several passes, the first of which is [`Compatible`]: never dearer than that, never with another
/// pod left out, and never with a pod in a pool of lower weight.
///
/// The other passes fill openings in the order of their age instead of levelling them, and prefer machines up to a
/// size, which keeps them off the largest sizes of a catalogue that few families have and whose price per CPU is higher.
/// A claim still names every type that holds its pods. Since more and smaller machines have a price of their own (API
/// objects, addresses, images to pull), another plan has to save at least one percent.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastCost;

/// What another plan saves at least, of the reference's price.
const MIN_SAVING_PERCENT: i64 = 1;

/// What is tried after the reference, the most promising first. [`Effort::First`] tries one.
const VARIANTS: [Strategy; 6] = [
    Strategy::first_fit(Some(32_000)),
    Strategy::first_fit(None),
    Strategy::first_fit(Some(16_000)),
    Strategy::first_fit(Some(64_000)),
    Strategy::first_fit(Some(8_000)),
    Strategy::first_fit(Some(96_000)),
];

impl Packer for LeastCost {
    fn name(&self) -> &'static str {
        "least-cost"
    }

    fn pack(&self, solver: &mut Solver, request: &Request<'_>) -> Plan {
        let reference = Compatible.pack(solver, request);
        // A what-if asks what would happen, often and fast; and what costs the bound cannot cost less.
        if request.purpose == Purpose::Simulation || reference.partial || is_tight(&reference) {
            return reference;
        }
        let weights = weights(&reference);
        let left: BTreeSet<&str> = reference.unplaced.iter().map(|(pod, _)| &*pod.uid).collect();
        let bar = Price::from_nanos(reference.cost.hourly.nanos() / 100 * (100 - MIN_SAVING_PERCENT));
        let mut best: Option<Plan> = None;
        for (tried, strategy) in VARIANTS.into_iter().enumerate() {
            let go_on = match request.effort {
                Effort::First => tried < 1,
                Effort::Iterations(rounds) => u32::try_from(tried).is_ok_and(|tried| tried < rounds),
                Effort::While(go_on) => go_on(),
            };
            if !go_on {
                break;
            }
            let plan = solver.pass(request, strategy);
            let bar = best.as_ref().map_or(bar, |best| best.cost.hourly);
            let sound = !plan.partial
                && plan.unplaced.iter().all(|(pod, _)| left.contains(&*pod.uid))
                && self::weights(&plan)
                    .iter()
                    .all(|(uid, weight)| weights.get(uid).is_none_or(|w| weight >= w));
            if sound && plan.cost.hourly < bar {
                best = Some(plan);
            }
        }
        best.unwrap_or(reference)
    }
}

/// The weight of the pool that each pod's opening is of; a machine that exists is better than any.
fn weights(plan: &Plan) -> BTreeMap<String, i64> {
    let openings = plan.openings.iter().flat_map(|opening| {
        opening.pods.iter().map(move |pod| (pod.uid.as_str().to_owned(), i64::from(opening.pool.weight)))
    });
    let existing = plan
        .existing
        .iter()
        .flat_map(|placement| placement.pods.iter().map(|pod| (pod.uid.as_str().to_owned(), i64::MAX)));
    openings.chain(existing).collect()
}

/// Whether a plan costs what any plan must.
fn is_tight(plan: &Plan) -> bool {
    plan.cost.hourly == Price::ZERO || plan.cost.hourly == plan.cost.lower_bound
}

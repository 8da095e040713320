//! How a batch becomes new NodeClaims: a trait with two implementations.

use hashbrown::{HashMap, HashSet};

use crate::{
    model::{Pod, Price},
    scheduling::{
        greedy::pass::Strategy,
        ids::{PodClassId, TopologyGroupId},
        improve::{NODE_OVERHEAD, improver::Saving},
        plan::Plan,
        prepared::{Improved, PreparedSnapshot},
        request::{Effort, Purpose, Request},
        tables::{Tables, shared::Shared, topology::GroupKind},
    },
};

/// Turns a request into a plan.
///
/// Contract: every pod of the request gets exactly one verdict; what is placed obeys every rule of Kubernetes and of
/// the pools; nodes that exist come before new NodeClaims, and pools of higher weight before those of lower weight, for
/// each pod. `scheduling::validator` judges plans by it.
pub trait Packer {
    /// Name for settings and reports.
    fn name(&self) -> &'static str;

    /// Packs. Leaves `prepared` unchanged.
    fn pack(&self, prepared: &mut PreparedSnapshot, request: &Request<'_>) -> Plan;
}

/// Karpenter's placement order, and nothing else: the reference.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compatible;

impl Packer for Compatible {
    fn name(&self) -> &'static str {
        "compatible"
    }

    fn pack(&self, prepared: &mut PreparedSnapshot, request: &Request<'_>) -> Plan {
        prepared.in_karpenters_order(request)
    }
}

/// Karpenter's order, its new NodeClaims then packed again by price: never dearer than [`Compatible`] unless it places more pods,
/// never with another pod left out, and never with a pod in a pool of lower weight.
///
/// A plan with more nodes than the reference has to save their overhead ([`NODE_OVERHEAD`]), and of plans that are nearly tied the one
/// with the fewest nodes is taken. The improvement lasts as long as the effort; a plan of more effort costs at most half a percent more
/// than that of the first. A claim still names every type that holds its pods.
///
/// If the reference leaves pods unschedulable and some have zone anti-affinity, another pass has each of those pick a zone.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastCost;

/// The strategies for batches in which some new NodeClaims cannot be packed again: smaller nodes, of which the largest sizes of a catalogue are not
/// part. Few families have those, and their price per CPU is higher.
const FIRST_FIT: [Strategy; 2] = [Strategy::first_fit(32_000), Strategy::first_fit(8_000)];
/// Plans whose prices differ by no more than half a percent are tied: fewer nodes win.
const NEAR_TIE_DIVISOR: i64 = 200;
/// With as many pods, or fewer, both are always tried.
const FEW_PODS: usize = 100;

impl Packer for LeastCost {
    fn name(&self) -> &'static str {
        "least-cost"
    }

    fn pack(&self, prepared: &mut PreparedSnapshot, request: &Request<'_>) -> Plan {
        // Simulations are many and have to be fast.
        if request.purpose != Purpose::Provisioning {
            return Compatible.pack(prepared, request);
        }
        let queue = prepared.queue(request.pods);
        let effort = Some(request.effort);
        let (reference, improved) = prepared.place(request, &queue, Strategy::KARPENTER, effort);
        let crowded =
            !reference.unplaced.is_empty() && has_zone_anti_affinity(&prepared.tables, &queue.distinct);
        // A plan at the lower bound cannot be cheaper.
        if reference.partial || (is_optimal(&reference) && !crowded) {
            return reference;
        }
        // Which strategies are tried follows from the first effort: with more of it none is left out.
        let saving = improved.saving;
        let mut contest = Contest::new(reference);
        contest.enter_improved(improved);
        let mut strategies = Vec::new();
        if crowded {
            strategies.push(Strategy::PINNED);
        }
        let more = match request.effort {
            Effort::First => false,
            Effort::Iterations(_) => true,
            Effort::While(go_on) => go_on(),
        };
        // A NodePool is charged with the largest instance type of a NodeClaim, so that its limits hold more small ones.
        let limited = !contest.unplaced_by_reference.is_empty()
            && prepared.tables.pools.iter().any(|pool| pool.is_limited());
        let few = request.pods.len() <= FEW_PODS;
        let tried = match saving {
            _ if few => 2,
            Saving::None | Saving::Part if more => 2,
            Saving::None => 1,
            _ => usize::from(limited),
        };
        strategies.extend(&FIRST_FIT[..tried]);
        for strategy in strategies {
            // The first plan of many pods waits for another improvement only where that may place more of them.
            if few || more || limited || strategy == Strategy::PINNED {
                let (plan, improved) = prepared.place(request, &queue, strategy, effort);
                contest.enter(plan);
                contest.enter_improved(improved);
            } else {
                contest.enter(prepared.place(request, &queue, strategy, None).0);
            }
        }
        contest.decide()
    }
}

/// Whether pods of some classes have anti-affinity by another key than the hostname.
fn has_zone_anti_affinity(tables: &Tables, classes: &[PodClassId]) -> bool {
    let away = |group: TopologyGroupId| {
        let group = &tables.topology.groups[group];
        group.spec.kind == GroupKind::Anti && !group.by_hostname
    };
    classes.iter().any(|class| {
        let levels = tables.classes[*class].levels.iter();
        levels.flat_map(|level| &level.groups).any(|owned| away(owned.group))
    })
}

/// Plans that compete with a reference.
struct Contest {
    reference: Plan,
    /// The weight of each pod's place in the reference.
    weights: HashMap<Identity, i64>,
    /// Pods that the reference leaves unschedulable.
    unplaced_by_reference: HashSet<Identity>,
    /// Sound plans that are better than the reference.
    entered: Vec<Plan>,
}

impl Contest {
    fn new(reference: Plan) -> Self {
        let unplaced = reference.unplaced.iter().map(|(pod, _)| Shared::new(pod)).collect();
        Self {
            weights: weights(&reference).collect(),
            unplaced_by_reference: unplaced,
            reference,
            entered: Vec::new(),
        }
    }

    /// Keeps the plan if it is as good as the reference for every pod, and places more or is cheaper than all before.
    fn enter(&mut self, mut plan: Plan) {
        let sound = !plan.partial
            && plan.unplaced.iter().all(|(pod, _)| self.unplaced_by_reference.contains(&Shared::new(pod)))
            && weights(&plan).all(|(pod, weight)| self.weights.get(&pod).is_none_or(|w| weight >= *w));
        if !sound {
            return;
        }
        let reference = &self.reference;
        // A plan that places more pods may cost more.
        let pays = plan.unplaced.len() < reference.unplaced.len()
            || (plan.cost.effective <= reference.cost.effective
                && price_with_overhead(&plan) < price_with_overhead(reference));
        if pays {
            // The bound is the same for all plans that place the same pods; another that placed more would cost more.
            plan.cost.lower_bound = reference.cost.lower_bound.min(plan.cost.effective);
            self.entered.push(plan);
        }
    }

    fn enter_improved(&mut self, improved: Improved) {
        improved.plans.into_iter().for_each(|plan| self.enter(plan));
    }

    /// The plan that leaves the fewest pods out, of those the cheapest; of near ties the one with the fewest nodes.
    fn decide(self) -> Plan {
        let Self { reference, mut entered, .. } = self;
        let fewest = entered.iter().map(|plan| plan.unplaced.len()).min();
        entered.retain(|plan| Some(plan.unplaced.len()) == fewest);
        let Some(cheapest) = entered.iter().map(|plan| plan.cost.effective).min() else { return reference };
        let tie = cheapest + Price::from_nanos(cheapest.nanos() / NEAR_TIE_DIVISOR);
        let is_tied = |plan: &Plan| plan.cost.effective <= tie;
        if Some(reference.unplaced.len()) == fewest && is_tied(&reference) {
            entered.push(reference.clone());
        }
        let tied = entered.into_iter().filter(is_tied);
        tied.min_by_key(|plan| (plan.new_claims.len(), plan.cost.effective)).unwrap_or(reference)
    }
}

/// The price of a plan with the weight of its nodes.
fn price_with_overhead(plan: &Plan) -> Price {
    let nodes = i64::try_from(plan.new_claims.len()).unwrap_or(i64::MAX);
    plan.cost.effective + Price::from_nanos(NODE_OVERHEAD).times(nodes)
}

/// Plans for one request share its pods.
type Identity = Shared<Pod>;

/// The weight of the pool that each pod's new NodeClaim is of; a node that exists is better than any.
fn weights(plan: &Plan) -> impl Iterator<Item = (Identity, i64)> {
    let new_claims = plan.new_claims.iter().flat_map(|new_claim| {
        new_claim.pods.iter().map(|pod| (Shared::new(pod), i64::from(new_claim.pool.weight)))
    });
    let existing = plan.existing.iter().flat_map(|placement| &placement.pods);
    new_claims.chain(existing.map(|pod| (Shared::new(pod), i64::MAX)))
}

/// Whether no other plan can be better: it places all pods at the lower bound, or it creates one node for one pod, or none.
fn is_optimal(plan: &Plan) -> bool {
    let single = plan.new_claims.len() == 1 && plan.new_claims[0].pods.len() == 1;
    let cheapest = plan.unplaced.is_empty() && plan.cost.effective == plan.cost.lower_bound;
    plan.cost.effective == Price::ZERO || cheapest || single
}

#[cfg(test)]
mod tests {
    //! Which plan wins.
    use super::*;
    use crate::{
        scheduling::{Unplaced, plan::Cost},
        testing::pod,
    };

    /// A plan without these pods, at this price in thousandths of a dollar.
    fn plan(unplaced: &[&str], price: i64) -> Plan {
        let unplaced = unplaced.iter().map(|name| (pod(name).build(), Unplaced::NotReached));
        let effective = Price::from_nanos(1_000_000).times(price);
        Plan { unplaced: unplaced.collect(), cost: Cost { effective, ..Cost::default() }, ..Plan::default() }
    }

    #[test]
    fn the_plan_of_most_placed_pods_wins_then_the_cheapest() {
        let decided = |reference: Plan, entered: Vec<Plan>| {
            let plan = Contest { entered, ..Contest::new(reference) }.decide();
            (plan.unplaced.len(), plan.cost.effective.nanos() / 1_000_000)
        };
        let (none, one, two): (&[&str], &[&str], &[&str]) = (&[], &["a"], &["a", "b"]);
        assert_eq!(decided(plan(two, 900), vec![plan(two, 100), plan(one, 500)]), (1, 500));
        assert_eq!(decided(plan(two, 900), vec![plan(none, 800), plan(one, 500), plan(none, 700)]), (0, 700));
        assert_eq!(decided(plan(one, 900), Vec::new()), (1, 900));
    }
}

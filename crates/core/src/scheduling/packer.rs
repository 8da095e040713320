//! How a batch becomes new NodeClaims: a trait with two implementations.

pub(super) mod run;

use hashbrown::{HashMap, HashSet};

use crate::{
    model::{Pod, Price},
    scheduling::{
        greedy::{
            deferral::{Share, keeps_domains, share},
            pass::Strategy,
        },
        improve::{NODE_OVERHEAD, rearrange::Start},
        plan::Plan,
        prepared::PreparedSnapshot,
        request::{Effort, Purpose, Request},
        tables::shared::Shared,
    },
};
use run::{pass, pass_and_rearrange};

/// Turns a request into a plan.
///
/// Contract: every pod of the request gets exactly one verdict; what is placed obeys every rule of Kubernetes and of
/// the pools; nodes that exist come before new NodeClaims, and pools of higher weight before those of lower weight, for
/// each pod. `scheduling::validator` judges plans by it.
pub trait Packer {
    /// Name for settings and reports.
    fn name(&self) -> &'static str;

    /// Packs. What is prepared is the same before and after.
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
        pass(prepared, request, Strategy::KARPENTER)
    }
}

/// The cheapest of several plans, the first of which is [`Compatible`]'s: never dearer than that unless it places more pods,
/// never with another pod left out, and never with a pod in a pool of lower weight.
///
/// Pods that topology says nothing about are packed by patterns (`improve::patterns`). Where others are among them, the
/// reference's new NodeClaims are packed again by price (`improve::rearrange`), which keeps every pod in its zone. Both are improved
/// as long as the effort lasts. What neither can touch (limits, ports, volumes, reservations) is packed one by one into the
/// oldest new NodeClaim that takes it, with a preference for nodes up to a size, which keeps it off the largest sizes of a
/// catalogue: few families have those, and their price per CPU is higher. A claim still names every type that holds its pods.
/// A plan with more nodes than the reference has to save what they weigh ([`NODE_OVERHEAD`]).
///
/// Where the reference leaves pods out and some keep apart by zone, another pass has each of those pick a zone.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastCost;

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

    fn pack(&self, prepared: &mut PreparedSnapshot, request: &Request<'_>) -> Plan {
        // Simulations are many and have to be fast.
        if request.purpose != Purpose::Provisioning {
            return Compatible.pack(prepared, request);
        }
        let first = Request { effort: Effort::First, ..request.clone() };
        let PreparedSnapshot { tables, placement, asked, .. } = prepared;
        let classes = asked.counted_classes(tables, placement, request.pods);
        let share = share(tables, placement, &classes);
        let (reference, afresh) = match share {
            Share::All => (Compatible.pack(prepared, request), None),
            _ => pass_and_rearrange(prepared, &first, Strategy::KARPENTER, Start::Afresh),
        };
        let crowded = !reference.unplaced.is_empty() && keeps_domains(&prepared.tables, &classes);
        // What costs the bound cannot cost less.
        if reference.partial || (is_settled(&reference) && !crowded) {
            return reference;
        }
        let mut contest = Contest::new(reference);
        if crowded {
            let pinned = Strategy::KARPENTER.pinned();
            let (plan, cheaper) = pass_and_rearrange(prepared, request, pinned, Start::Afresh);
            contest.enter(plan, 0);
            cheaper.into_iter().for_each(|plan| contest.enter(plan, 0));
        }
        match (share, afresh) {
            (Share::All, _) => {
                // Topology has no say: patterns are all that matters. Under limits what is improved may fare worse.
                contest.enter(pass(prepared, &first, VARIANTS[0].patterns()), 0);
                if goes_on(request.effort, 1) {
                    contest.enter(pass(prepared, request, VARIANTS[0].patterns()), 0);
                }
            }
            (_, Some(afresh)) => rearrange(prepared, request, share, afresh, &mut contest),
            (_, None) => vary(prepared, request, share, &mut contest),
        }
        contest.decide()
    }
}

/// Tries new NodeClaims that are packed again, from two starts, and improves the better one.
fn rearrange(
    prepared: &mut PreparedSnapshot,
    request: &Request<'_>,
    share: Share,
    afresh: Plan,
    contest: &mut Contest,
) {
    let first = Request { effort: Effort::First, ..request.clone() };
    let price = afresh.cost.hourly;
    contest.enter(afresh, 0);
    let mut start = (Strategy::KARPENTER, Start::Afresh);
    if share == Share::Most || goes_on(request.effort, 1) {
        let packed = pass(prepared, &first, VARIANTS[0].patterns());
        if packed.cost.hourly < price {
            start = (VARIANTS[0].patterns(), Start::NewClaims);
        }
        contest.enter(packed, 0);
    }
    if goes_on(request.effort, 1) {
        let (_, improved) = pass_and_rearrange(prepared, request, start.0, start.1);
        if let Some(improved) = improved {
            contest.enter(improved, 0);
        }
    }
}

/// Tries one strategy after the other, and improves the best.
fn vary(prepared: &mut PreparedSnapshot, request: &Request<'_>, share: Share, contest: &mut Contest) {
    let first = Request { effort: Effort::First, ..request.clone() };
    for (tried, strategy) in VARIANTS.into_iter().enumerate() {
        if tried > 0 && !goes_on(request.effort, tried) {
            break;
        }
        contest.enter(pass(prepared, &first, strategy.patterns()), tried);
    }
    if share != Share::None && goes_on(request.effort, 1) {
        let variant = contest.leader.unwrap_or(0);
        contest.enter(pass(prepared, request, VARIANTS[variant].patterns()), variant);
    }
}

/// Whether the effort allows for one more attempt.
fn goes_on(effort: Effort<'_>, tried: usize) -> bool {
    match effort {
        Effort::First => false,
        Effort::Iterations(rounds) => u32::try_from(tried).is_ok_and(|tried| tried <= rounds),
        Effort::While(go_on) => go_on(),
    }
}

/// Plans that compete with a reference.
struct Contest {
    reference: Plan,
    /// The weight of each pod's place in the reference.
    weights: HashMap<Identity, i64>,
    /// Pods that the reference leaves out.
    left: HashSet<Identity>,
    best: Option<Plan>,
    /// The strategy of the cheapest plan, whether or not it wins.
    leader: Option<usize>,
    cheapest: Price,
}

impl Contest {
    fn new(reference: Plan) -> Self {
        let left = reference.unplaced.iter().map(|(pod, _)| Shared::new(pod)).collect();
        Self {
            weights: weights(&reference).collect(),
            left,
            reference,
            best: None,
            leader: None,
            cheapest: Price::MAX,
        }
    }

    /// Keeps the plan if it is as good as the reference for every pod, and places more or is cheaper than all before.
    fn enter(&mut self, mut plan: Plan, strategy: usize) {
        let sound = !plan.partial
            && plan.unplaced.iter().all(|(pod, _)| self.left.contains(&Shared::new(pod)))
            && weights(&plan).all(|(pod, weight)| self.weights.get(&pod).is_none_or(|w| weight >= *w));
        if !sound {
            return;
        }
        let key = |plan: &Plan| (plan.unplaced.len(), plan.cost.hourly, plan.new_claims.len());
        if plan.cost.hourly < self.cheapest {
            (self.cheapest, self.leader) = (plan.cost.hourly, Some(strategy));
        }
        let reference = &self.reference;
        // Who helps another pod may cost more.
        let pays = plan.unplaced.len() < reference.unplaced.len()
            || (plan.cost.hourly <= reference.cost.hourly && weighed(&plan) < weighed(reference));
        if pays && self.best.as_ref().is_none_or(|best| key(&plan) < key(best)) {
            // The bound is the same for all plans that place the same pods; another that placed more would cost more.
            plan.cost.lower_bound = reference.cost.lower_bound.min(plan.cost.hourly);
            self.best = Some(plan);
        }
    }

    fn decide(self) -> Plan {
        self.best.unwrap_or(self.reference)
    }
}

/// The price of a plan with the weight of its nodes.
fn weighed(plan: &Plan) -> Price {
    let nodes = i64::try_from(plan.new_claims.len()).unwrap_or(i64::MAX);
    plan.cost.hourly + Price::from_nanos(NODE_OVERHEAD).times(nodes)
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

/// Whether no other plan can be better: it costs what any plan must, or it opens one node for one pod.
fn is_settled(plan: &Plan) -> bool {
    let single = plan.new_claims.len() == 1 && plan.new_claims[0].pods.len() == 1;
    plan.cost.hourly == Price::ZERO || plan.cost.hourly == plan.cost.lower_bound || single
}

//! Drifted nodes of static NodePools: one for one and without a simulation, because such a NodePool has a fixed number of nodes.

use std::collections::BTreeMap;

use crate::{
    disruption::{
        Budgets, Candidate, Command, Context, DisruptionClass, Method, MethodSpec, SimulationSolver,
        StaticDriftBlocked, Unconsolidatable, Verdict,
        hints::Hints,
        static_pool::{NodeCounts, new_claim},
    },
    model::{DisruptionReason, NodePool, PoolName},
};

const SPEC: MethodSpec = MethodSpec {
    name: "static-drift",
    consolidation_type: "",
    reason: DisruptionReason::Drifted,
    class: DisruptionClass::Eventual,
    validated: false,
};

/// Replaces drifted nodes of static NodePools, as many at once as budgets and limits allow.
pub(super) struct StaticDrift;

impl Method for StaticDrift {
    fn spec(&self) -> &'static MethodSpec {
        &SPEC
    }

    fn should_disrupt(&self, context: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable> {
        let is_due = candidate.is_drifted() || candidate.expired_since(context.now).is_some();
        Ok(is_due && candidate.pool.is_static())
    }

    fn propose(
        &self,
        context: &Context<'_>,
        _: &mut SimulationSolver<'_>,
        candidates: &[&Candidate],
        hints: Hints,
        budgets: &mut Budgets,
    ) -> Verdict {
        let mut verdict = Verdict::new(hints);
        // By NodePool: how many more nodes its limit allows, or why no node is replaced.
        let mut room: BTreeMap<PoolName, Result<i64, Unconsolidatable>> = BTreeMap::new();
        let mut ordered = candidates.to_vec();
        let since = |candidate: &Candidate| {
            candidate.drifted_since().or_else(|| candidate.expired_since(context.now))
        };
        ordered.sort_by_key(|candidate| (since(candidate), candidate.name()));
        for candidate in ordered {
            let pool = &candidate.pool;
            let name = || pool.name.as_str().into();
            let room = room.entry(pool.name.clone()).or_insert_with(|| room_for_one_more(context, pool));
            let blocked = |why| Unconsolidatable::Static(name(), why);
            let replacement = match &*room {
                Ok(0) => Err(blocked(StaticDriftBlocked::NodeLimit)),
                Ok(_) => new_claim(context.snapshot, pool)
                    .ok_or_else(|| blocked(StaticDriftBlocked::NothingOffered)),
                Err(why) => Err(why.clone()),
            };
            match (replacement, room) {
                (Err(why), _) => verdict.refusals.push((candidate.clone(), why)),
                (Ok(replacement), Ok(left)) if budgets.take(&pool.name) => {
                    *left -= 1;
                    verdict.accept(Command::new(&SPEC, vec![candidate.clone()], vec![replacement]));
                }
                _ => {}
            }
        }
        verdict
    }
}

/// The number of nodes that the limit of `pool` still allows.
///
/// # Errors
/// If nothing can be launched for the NodePool: its nodes would be tainted in vain again and again. If it has surplus nodes:
/// these are deleted first, so that no node is created in vain.
fn room_for_one_more(context: &Context<'_>, pool: &NodePool) -> Result<i64, Unconsolidatable> {
    if !pool.ready || pool.deleting {
        return Err(Unconsolidatable::Static(pool.name.as_str().into(), StaticDriftBlocked::NotReady));
    }
    let node_counts = NodeCounts::of(context.snapshot, &pool.name);
    let nodes = node_counts.active + node_counts.replaced;
    if let Some(replicas) = pool.replicas.filter(|replicas| nodes > *replicas) {
        let surplus = StaticDriftBlocked::Surplus { nodes, replicas };
        return Err(Unconsolidatable::Static(pool.name.as_str().into(), surplus));
    }
    Ok(node_counts.room(pool))
}

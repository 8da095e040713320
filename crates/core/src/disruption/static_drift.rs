//! Drifted nodes of static pools: one for one, without a simulation, because such a pool keeps a number and not a load.

use std::collections::BTreeMap;

use super::{
    Budgets, Candidate, Command, Context, Method, StaticDriftHeld, Unconsolidatable, Verdict,
    expiry::expired_since,
    static_pool::{Census, new_claim},
};
use crate::model::{DisruptionReason, NodePool, PoolName};

/// Replaces drifted nodes of static pools, as many at once as budgets and limits allow.
pub(super) struct StaticDrift;

impl Method for StaticDrift {
    fn name(&self) -> &'static str {
        "static-drift"
    }

    fn consolidation_type(&self) -> &'static str {
        ""
    }

    fn reason(&self) -> DisruptionReason {
        DisruptionReason::Drifted
    }

    fn is_eventual(&self) -> bool {
        true
    }

    fn is_validated(&self) -> bool {
        false
    }

    fn is_case(&self, context: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable> {
        let goes = candidate.is_drifted() || expired_since(context, candidate).is_some();
        Ok(goes && candidate.pool.is_static())
    }

    fn propose(&self, context: &Context<'_>, candidates: &[&Candidate], budgets: &mut Budgets) -> Verdict {
        let mut verdict = Verdict::default();
        // By pool: how many nodes its limit still allows beside those that there are, or why there is no asking.
        let mut room: BTreeMap<PoolName, Result<i64, Unconsolidatable>> = BTreeMap::new();
        let mut ordered = candidates.to_vec();
        let since =
            |candidate: &Candidate| candidate.drifted_since().or_else(|| expired_since(context, candidate));
        ordered.sort_by_key(|candidate| (since(candidate), candidate.name()));
        for candidate in ordered {
            let pool = &candidate.pool;
            let name = || pool.name.as_str().into();
            let room = room.entry(pool.name.clone()).or_insert_with(|| room_for_one_more(context, pool));
            let stuck = |why| Unconsolidatable::Static(name(), why);
            let replacement = match &*room {
                Ok(0) => Err(stuck(StaticDriftHeld::NodeLimit)),
                Ok(_) => {
                    new_claim(context.snapshot, pool).ok_or_else(|| stuck(StaticDriftHeld::NothingOffered))
                }
                Err(why) => Err(why.clone()),
            };
            match (replacement, room) {
                (Err(why), _) => verdict.unconsolidatable.push((candidate.clone(), why)),
                (Ok(replacement), Ok(left)) if budgets.take(&pool.name) => {
                    *left -= 1;
                    verdict.commands.push(Command::of(self, vec![candidate.clone()], vec![replacement]));
                }
                _ => {}
            }
        }
        verdict
    }
}

/// How many nodes the limit of `pool` still allows.
///
/// # Errors
/// Where nothing is launched for it: its nodes would be tainted for nothing, again and again. Where it has one too many: the
/// surplus goes first, so that nothing is made that is not kept.
fn room_for_one_more(context: &Context<'_>, pool: &NodePool) -> Result<i64, Unconsolidatable> {
    if !pool.ready || pool.deleting {
        return Err(Unconsolidatable::Static(pool.name.as_str().into(), StaticDriftHeld::NotReady));
    }
    let census = Census::of(context.snapshot, &pool.name);
    let (nodes, replicas) = (census.active + census.replaced, pool.replicas.unwrap_or(0));
    if nodes > replicas {
        let surplus = StaticDriftHeld::Surplus { nodes, replicas };
        return Err(Unconsolidatable::Static(pool.name.as_str().into(), surplus));
    }
    Ok(census.room(pool))
}

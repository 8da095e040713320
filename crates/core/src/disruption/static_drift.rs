//! Drifted machines of static pools: one for one, without a simulation, because such a pool keeps a number and not a load.

use std::collections::BTreeMap;

use super::{
    Budgets, Candidate, Command, Context, Method, Unconsolidatable, Verdict,
    static_pool::{Census, opening},
};
use crate::model::{DisruptionReason, NodePool, PoolName};

/// Replaces drifted machines of static pools, as many at once as budgets and limits allow.
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

    fn is_case(&self, _: &Context<'_>, candidate: &Candidate) -> Result<bool, Unconsolidatable> {
        Ok(candidate.is_drifted() && candidate.pool.is_static())
    }

    fn propose(&self, context: &Context<'_>, candidates: &[&Candidate], budgets: &mut Budgets) -> Verdict {
        let mut verdict = Verdict::default();
        // By pool: how many machines its limit still allows beside those that there are, or why there is no asking.
        let mut room: BTreeMap<PoolName, Result<i64, Unconsolidatable>> = BTreeMap::new();
        let mut ordered = candidates.to_vec();
        ordered.sort_by_key(|candidate| (candidate.drifted_since(), candidate.name()));
        for candidate in ordered {
            let pool = &candidate.pool;
            let name = || pool.name.as_str().into();
            let room = room.entry(pool.name.clone()).or_insert_with(|| room_for_one_more(context, pool));
            let left = match room {
                Ok(left) if *left > 0 => left,
                Ok(_) => {
                    verdict.unconsolidatable.push((candidate.clone(), Unconsolidatable::NodeLimit(name())));
                    continue;
                }
                Err(why) => {
                    verdict.unconsolidatable.push((candidate.clone(), why.clone()));
                    continue;
                }
            };
            let Some(replacement) = opening(context.snapshot, pool) else {
                verdict.unconsolidatable.push((candidate.clone(), Unconsolidatable::NothingOffered(name())));
                continue;
            };
            if budgets.take(&pool.name) {
                *left -= 1;
                verdict.commands.push(Command::of(self, vec![candidate.clone()], vec![replacement]));
            }
        }
        verdict
    }
}

/// How many machines the limit of `pool` still allows.
///
/// # Errors
/// Where it has one too many: the surplus goes first, so that nothing is made that is not kept.
fn room_for_one_more(context: &Context<'_>, pool: &NodePool) -> Result<i64, Unconsolidatable> {
    let census = Census::of(context.snapshot, &pool.name);
    let (nodes, replicas) = (census.active + census.replaced, pool.replicas.unwrap_or(0));
    if nodes > replicas {
        return Err(Unconsolidatable::Surplus { pool: pool.name.as_str().into(), nodes, replicas });
    }
    Ok(census.room(pool))
}

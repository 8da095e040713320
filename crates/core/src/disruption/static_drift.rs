//! Drifted machines of static pools: one for one, without a simulation, because such a pool keeps a number and not a load.

use std::collections::BTreeMap;

use super::{
    Budgets, Candidate, Command, Context, Method, Unconsolidatable, Verdict,
    static_pool::{Census, opening},
};
use crate::model::{DisruptionReason, PoolName};

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
        // By pool: how many machines its limit still allows beside those that there are.
        let mut room: BTreeMap<PoolName, i64> = BTreeMap::new();
        let mut ordered = candidates.to_vec();
        ordered.sort_by_key(|candidate| (candidate.drifted_since(), candidate.name()));
        for candidate in ordered {
            let pool = &candidate.pool;
            let room = room.entry(pool.name.clone()).or_insert_with(|| {
                let census = Census::of(context.snapshot, &pool.name);
                // One too many: the surplus goes first, so that nothing is made that is not kept.
                if census.active + census.replaced > pool.replicas.unwrap_or(0) {
                    0
                } else {
                    census.room(pool)
                }
            });
            if *room <= 0 || !budgets.take(&pool.name) {
                continue;
            }
            let Some(replacement) = opening(context.snapshot, pool) else { continue };
            *room -= 1;
            verdict.commands.push(Command::of(self, vec![candidate.clone()], vec![replacement]));
        }
        verdict
    }
}

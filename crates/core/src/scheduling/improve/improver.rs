//! The entry: what may be packed again, the search, and its result as new NodeClaims.

use crate::scheduling::{
    greedy::pass::Pass,
    ids::{IdVec, PodClassId, PodId},
    improve::{
        bins::{Bin, cost},
        commit::commit,
        members::{Members, Scope, members},
        search::Search,
    },
    placement::Placement,
    request::Effort,
    tables::Tables,
};

/// What packing again saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Saving {
    /// Nothing, and nothing was changed.
    #[default]
    None,
    /// Something, although some new NodeClaims could not take part.
    Part,
    /// Something, of all new NodeClaims.
    CompleteSimulation,
}

/// Packs the new NodeClaims of a pass again for as long as `effort` lasts.
pub(crate) fn improve(
    pass: &mut Pass,
    tables: &Tables,
    placement: &Placement,
    classes: &IdVec<PodId, PodClassId>,
    scope: Scope,
    effort: Effort<'_>,
) -> Saving {
    let mut attempts = vec![(scope, effort)];
    if scope.paid.is_none() && tables.pools.iter().any(|pool| pool.is_limited()) {
        // What is cheaper as a whole may be more than the limits of a NodePool allow.
        attempts.push((Scope { raised: false, ..scope }, Effort::First));
        attempts.push((Scope { limited: false, ..scope }, effort));
    }
    for (scope, effort) in attempts {
        let thorough = scope.paid.is_none() && !matches!(effort, Effort::First);
        let Some(members) = members(pass, tables, placement, classes, (scope, thorough)) else { continue };
        let saving = if members.whole { Saving::CompleteSimulation } else { Saving::Part };
        let mut bins = Vec::new();
        match scope.paid {
            Some(paid) => bins.push(members.problem.pile(paid)),
            None => {
                let known =
                    members.claims.iter().map(|(claim_id, items)| members.problem.bin(items, *claim_id));
                let Some(known) = known.collect() else { continue };
                bins = known;
            }
        }
        if search(pass, tables, classes, members, bins, effort) {
            return saving;
        }
    }
    Saving::None
}

fn search(
    pass: &mut Pass,
    tables: &Tables,
    classes: &IdVec<PodId, PodClassId>,
    members: Members,
    bins: Vec<Bin>,
    effort: Effort<'_>,
) -> bool {
    let price = |bins: &[Bin]| bins.iter().fold(0_i64, |sum, bin| sum.saturating_add(bin.price));
    let paid = (price(&bins), cost(&bins));
    let mut search = Search::new(&members.problem, bins);
    search.restart();
    search.round_patterns(effort);
    search.improve(effort);
    let bins = search.into_bins();
    let cheaper = price(&bins) <= paid.0 && cost(&bins) < paid.1;
    cheaper && commit(pass, tables, classes, members, bins)
}

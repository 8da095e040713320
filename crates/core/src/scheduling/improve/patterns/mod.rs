//! Packing by patterns: pods that topology says nothing about wait until the others have their places, and are then
//! packed together at the least price.
//!
//! - `build`: the waiting pods as a [`problem`].
//! - `table`, `fill`, `search`, `exact`: the problem's solution, free of Kubernetes.
//! - `commit`: the solution as claims of the pass.

mod build;
mod commit;
mod exact;
mod fill;
mod problem;
mod search;
mod table;

use self::{
    build::{Built, build},
    commit::{Packing, commit},
    search::Search,
};
use crate::scheduling::{
    greedy::{deferral::Deferral, pass::Pass},
    ids::{IdVec, PodClassId, PodId},
    improve::improve,
    request::Effort,
    tables::{Tables, bits::Bits},
};

pub(crate) use self::{
    build::{Builder, State, dims},
    problem::{Content, Problem as Patterns},
    search::Dice,
    table::{Room, Table},
};

/// Rounds without a saving after which the search ends: so many per node, and at most.
const BARREN_PER_NODE: usize = 500;
const MAX_BARREN: usize = 20_000;

/// Packs the pods that wait, improving as long as `effort` lasts. Returns those that found no place, which wait no longer.
pub(crate) fn pack(
    pass: &mut Pass,
    tables: &mut Tables,
    classes: &IdVec<PodId, PodClassId>,
    effort: Effort<'_>,
) -> Bits<PodId> {
    let waiting = pass.deferral.take().map(Deferral::into_waiting).unwrap_or_default();
    if waiting.is_empty() {
        return Bits::default();
    }
    let Built { problem, states, pods, mut leftover, claims } = build(pass, tables, waiting);
    let mut search = Search::new(&problem);
    let (mut bins, _) = search.first();
    let most = if search.is_exact() { 0 } else { MAX_BARREN.min(BARREN_PER_NODE * bins.len()) };
    improve(effort, most, || search.improve(&mut bins));
    let opened = pass.claims.next_id();
    leftover.extend(commit(pass, tables, classes, Packing { problem: &problem, states, pods, claims, bins }));
    pass.packed = opened..pass.claims.next_id();
    leftover.into_iter().collect()
}

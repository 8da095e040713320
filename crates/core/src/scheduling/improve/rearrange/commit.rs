//! What the search found, as new NodeClaims of the pass.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::scheduling::{
    greedy::pass::Pass,
    ids::{Id, IdVec, NewClaimId, PodClassId, PodId},
    improve::{
        patterns::State,
        rearrange::hosts::{Host, Problem},
    },
    placement::claim::Claim,
    tables::{
        Tables,
        amounts::{Amounts, update},
        bits::Bits,
    },
};

/// Nodes, and what their parts stand for.
pub(super) struct Found<'a> {
    pub(super) problem: &'a Problem,
    pub(super) states: &'a [State],
    pub(super) hosts: Vec<Host>,
    /// By kind: its pods, as indices into the request.
    pub(super) pods: Vec<Vec<PodId>>,
    /// By node as it was: the new NodeClaim.
    pub(super) claims: Vec<NewClaimId>,
}

/// Replaces the new NodeClaims that were packed again; those that were not, or not changed, stay as they are.
pub(super) fn rebuild(
    pass: &mut Pass,
    tables: &Tables,
    classes: &IdVec<PodId, PodClassId>,
    found: Found<'_>,
) {
    let Found { problem, states, hosts, pods, claims } = found;
    let unchanged: Bits<NewClaimId> =
        hosts.iter().filter_map(|host| host.origin).map(|at| claims[at]).collect();
    let taken: Bits<NewClaimId> = claims.iter().copied().filter(|at| !unchanged.has(*at)).collect();
    let moving: Bits<PodId> = taken.iter().flat_map(|at| pass.claims[at].pods.iter().copied()).collect();
    let mut waiting: Vec<VecDeque<PodId>> =
        pods.into_iter().map(|pods| pods.into_iter().filter(|pod| moving.has(*pod)).collect()).collect();
    let mut at = 0;
    pass.claims.items_mut().retain(|_| {
        at += 1;
        !taken.has(Id::new(at - 1))
    });
    for host in hosts.into_iter().filter(|host| host.origin.is_none()) {
        let mut own: SmallVec<[PodId; 8]> = SmallVec::new();
        for (kind, count) in &host.content {
            own.extend((0..*count).filter_map(|_| waiting[*kind].pop_front()));
        }
        // The same sum that taking the pods one by one would give.
        let mut used = Amounts::new();
        for pod in &own {
            update(&mut used, &tables.classes[classes[*pod]].requests, i64::saturating_add);
        }
        let (pool, req) = states[host.state];
        pass.claims.push(Claim {
            pool,
            req,
            used,
            rows: problem.tables[host.state].rows(&host.used).collect(),
            envelope: Amounts::new(),
            floor: Amounts::new(),
            pods: own,
            label_sets: SmallVec::new(),
            ports: Vec::new(),
            min_values: tables.pools[pool].min_values.clone().into(),
            relaxed: false,
            reserved: SmallVec::new(),
        });
    }
}

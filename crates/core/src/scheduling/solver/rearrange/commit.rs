//! What the search found, as new NodeClaims of the pass.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::hosts::{Host, Problem};
use crate::scheduling::ids::{Id, IdVec, NewClaimId, PodClassId, PodId};
use crate::scheduling::solver::{
    Solver,
    amounts::{Amounts, update},
    bits::Bits,
    claim::Claim,
    pass::Pass,
    patterns::State,
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

impl Pass {
    /// Replaces the new NodeClaims that were packed again; those that were not, or not changed, stay as they are.
    pub(super) fn rebuild(&mut self, solver: &Solver, classes: &IdVec<PodId, PodClassId>, found: Found<'_>) {
        let Found { problem, states, hosts, pods, claims } = found;
        let unchanged: Bits<NewClaimId> =
            hosts.iter().filter_map(|host| host.origin).map(|at| claims[at]).collect();
        let taken: Bits<NewClaimId> = claims.iter().copied().filter(|at| !unchanged.has(*at)).collect();
        let moving: Bits<PodId> = taken.iter().flat_map(|at| self.claims[at].pods.iter().copied()).collect();
        let mut waiting: Vec<VecDeque<PodId>> =
            pods.into_iter().map(|pods| pods.into_iter().filter(|pod| moving.has(*pod)).collect()).collect();
        let mut at = 0;
        self.claims.items_mut().retain(|_| {
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
                update(&mut used, &solver.tables.classes[classes[*pod]].requests, i64::saturating_add);
            }
            let (pool, req) = states[host.state];
            self.claims.push(Claim {
                pool,
                req,
                used,
                rows: problem.tables[host.state].rows(&host.used).collect(),
                envelope: Amounts::new(),
                floor: Amounts::new(),
                pods: own,
                label_sets: SmallVec::new(),
                ports: Vec::new(),
                min_values: solver.tables.pools[pool].min_values.clone().into(),
                relaxed: false,
                reserved: SmallVec::new(),
            });
        }
    }
}

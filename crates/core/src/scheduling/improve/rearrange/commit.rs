//! What the search found, as new NodeClaims of the pass.

use crate::scheduling::{
    greedy::pass::Pass,
    ids::{Id, IdVec, NewClaimId, PodClassId, PodId},
    improve::{
        commit::{Stock, new_claim, requests},
        patterns::State,
        rearrange::hosts::{Host, Problem},
    },
    tables::{Tables, bits::Bits},
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
    let pods = pods.into_iter().map(|pods| pods.into_iter().filter(|pod| moving.has(*pod)).collect());
    let mut stock = Stock::new(pods);
    let mut at = 0;
    pass.claims.items_mut().retain(|_| {
        at += 1;
        !taken.has(Id::new(at - 1))
    });
    for host in hosts.into_iter().filter(|host| host.origin.is_none()) {
        let own = stock.take(&host.content);
        let used = requests(tables, classes, &own);
        let rows = problem.tables[host.state].rows(&host.used).collect();
        pass.claims.push(new_claim(tables, states[host.state], own, used, rows));
    }
}

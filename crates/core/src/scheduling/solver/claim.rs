//! A new NodeClaim under construction: what it may still become, and whether another pod fits.

use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::{
    amounts::{Amounts, fits},
    bits::Bits,
    devices::Grant,
    intern::{Key, Req, Value},
    pools::{Row, agrees},
    tables::Tables,
};
use crate::scheduling::ids::{IdVec, InstanceTypeId, LabelSetId, NodePoolId, PodId, ReservationId};
use crate::{
    model::pod::HostPort,
    scheduling::{MinValuesPolicy, Purpose},
};

/// A NodeClaim that the pass is going to create.
#[derive(Clone, Debug)]
pub(in crate::scheduling) struct Claim {
    pub(super) pool: NodePoolId,
    pub(super) req: Req,
    /// Sum of its pods' requests.
    pub(super) used: Amounts,
    /// Rows that can hold the pods.
    pub(super) rows: Bits<InstanceTypeId>,
    /// The largest amount of each resource over the rows: what exceeds it fits nowhere.
    pub(super) envelope: Amounts,
    /// The smallest amounts: what fits into them fits every row.
    pub(super) floor: Amounts,
    /// Indices into the request.
    pub(super) pods: SmallVec<[PodId; 8]>,
    pub(super) label_sets: SmallVec<[(LabelSetId, u32); 8]>,
    pub(super) ports: Vec<HostPort>,
    pub(super) min_values: SmallVec<[(Key, u32); 1]>,
    /// Whether minValues were lowered.
    pub(super) relaxed: bool,
    /// Reservations that it holds a place in.
    pub(super) reserved: SmallVec<[ReservationId; 1]>,
}

/// Why a claim cannot be what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No row is left, whatever topology says.
    Rows,
    /// Too few distinct values of a key.
    MinValues { key: Key, wanted: u32, found: u32 },
    /// Compatible reservations are full.
    Reserved,
    /// Resource claims get no devices.
    Devices,
}

/// What a claim becomes with another pod.
#[derive(Debug)]
pub(super) struct Fit {
    pub(super) req: Req,
    /// The rows that are left; `None` where none is lost.
    pub(super) rows: Option<Bits<InstanceTypeId>>,
    pub(super) min_values: SmallVec<[(Key, u32); 1]>,
    pub(super) relaxed: bool,
    pub(super) reserved: SmallVec<[ReservationId; 1]>,
    /// Devices for the resource claims of the pod.
    pub(super) grant: Option<Box<Grant>>,
}

/// What is asked of a claim.
pub(super) struct Ask<'a> {
    pub(super) pool: NodePoolId,
    pub(super) req: Req,
    pub(super) rows: &'a Bits<InstanceTypeId>,
    pub(super) used: &'a Amounts,
    pub(super) more: &'a Amounts,
    pub(super) ports: &'a [HostPort],
    pub(super) min_values: &'a [(Key, u32)],
    /// The requirements and the smallest amounts of the claim, where it exists.
    pub(super) now: Option<(Req, &'a Amounts)>,
    /// Reservations that it holds already.
    pub(super) held: &'a [ReservationId],
    /// What is left of each reservation.
    pub(super) left: &'a IdVec<ReservationId, u32>,
    pub(super) purpose: Purpose,
}

impl Tables {
    /// Whether a claim can hold what is asked, and what it becomes.
    pub(super) fn fit(&mut self, ask: &Ask<'_>) -> Result<Fit, Refusal> {
        if let Some((req, floor)) = ask.now
            && req == ask.req
            && ask.ports.is_empty()
            && self.reservations.names.is_empty()
            && fits(ask.used, ask.more, floor)
        {
            // Nothing is lost: the claim stays what it is.
            let min_values = ask.min_values.into();
            return Ok(Fit {
                req,
                rows: None,
                min_values,
                relaxed: false,
                reserved: SmallVec::new(),
                grant: None,
            });
        }
        let mut rows = ask.rows.clone();
        if ask.now.is_none_or(|(req, _)| req != ask.req) {
            rows.intersect(&self.pools[ask.pool].mask(&self.universe, ask.req));
        }
        let pool = &self.pools[ask.pool];
        pool.ranks.keep(ask.used, ask.more, &mut rows);
        if !ask.ports.is_empty() {
            for at in rows.clone().iter().filter(|at| clash(ask.ports, &pool.rows[*at].ports)) {
                rows.remove(at);
            }
        }
        let reserved = self.reserve(ask, &mut rows)?;
        if rows.is_empty() {
            return Err(Refusal::Rows);
        }
        let mut min_values: SmallVec<[(Key, u32); 1]> = ask.min_values.into();
        let mut relaxed = false;
        for (key, wanted) in &mut min_values {
            let found = self.distinct(ask.pool, rows.iter(), *key, ask.req);
            if found < *wanted {
                if ask.now.is_some() || self.rules.min_values == MinValuesPolicy::Strict {
                    return Err(Refusal::MinValues { key: *key, wanted: *wanted, found });
                }
                (*wanted, relaxed) = (found, true);
            }
        }
        Ok(Fit { req: ask.req, rows: Some(rows), min_values, relaxed, reserved, grant: None })
    }

    /// The reservations that the claim would hold; takes out the rows that could not be bought without one.
    fn reserve(
        &self,
        ask: &Ask<'_>,
        rows: &mut Bits<InstanceTypeId>,
    ) -> Result<SmallVec<[ReservationId; 1]>, Refusal> {
        let mut reserved = SmallVec::new();
        if self.reservations.names.is_empty() {
            return Ok(reserved);
        }
        let mut taken = false;
        for at in rows.clone().iter() {
            let row = &self.pools[ask.pool].rows[at];
            let mut bought = false;
            for offer in row.offers.iter().filter(|offer| agrees(&self.universe, offer.req, ask.req)) {
                let Some(id) = offer.reservation else {
                    bought = true;
                    continue;
                };
                if ask.held.contains(&id) || ask.left.get(id).is_some_and(|left| *left > 0) {
                    bought = true;
                    if !reserved.contains(&id) {
                        reserved.push(id);
                    }
                } else {
                    taken = true;
                }
            }
            if !bought {
                rows.remove(at);
            }
        }
        let strict = ask.purpose == Purpose::Provisioning;
        if strict && reserved.is_empty() && (taken || !ask.held.is_empty()) {
            return Err(Refusal::Reserved);
        }
        reserved.sort_unstable();
        Ok(reserved)
    }

    /// How many distinct values of a key the types of some rows have, of those that `req` allows: a claim that names
    /// fewer values than its minValues is refused by the API server.
    pub(super) fn distinct(
        &self,
        pool: NodePoolId,
        rows: impl Iterator<Item = InstanceTypeId>,
        key: Key,
        req: Req,
    ) -> u32 {
        let sets = rows.filter_map(|at| self.universe.get(self.pools[pool].rows[at].req, key));
        let mut values: BTreeSet<Value> =
            sets.filter(|set| !set.complement).flat_map(|set| set.values.iter().copied()).collect();
        if let Some(allowed) = self.universe.get(req, key) {
            values.retain(|value| self.universe.has(key, allowed, *value));
        }
        super::intern::id(values.len())
    }

    /// A row of a pool.
    pub(super) fn row(&self, pool: NodePoolId, at: InstanceTypeId) -> &Row {
        &self.pools[pool].rows[at]
    }
}

/// Whether any two ports cannot be on one host.
pub(super) fn clash(a: &[HostPort], b: &[HostPort]) -> bool {
    a.iter().any(|port| b.iter().any(|other| port.conflicts(other)))
}

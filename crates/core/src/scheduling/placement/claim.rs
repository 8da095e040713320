//! A new NodeClaim under construction: what it may still become, and whether another pod fits.

use smallvec::SmallVec;

use crate::{
    model::pod::HostPort,
    scheduling::{
        dra::ledger::Grant,
        ids::{IdVec, InstanceTypeId, LabelSetId, NodePoolId, PodId, ReservationId},
        request::{MinValuesPolicy, Purpose},
        tables::{
            Tables,
            amounts::{Amounts, fits},
            bits::Bits,
            intern::{ANY, Key, Req},
            pools::agrees,
        },
    },
};

/// A NodeClaim that the pass is going to create.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) pool: NodePoolId,
    pub(crate) req: Req,
    /// Sum of its pods' requests.
    pub(crate) used: Amounts,
    /// Rows that can hold the pods.
    pub(crate) rows: Bits<InstanceTypeId>,
    /// The largest amount of each resource over the rows: what exceeds it fits nowhere.
    pub(crate) envelope: Amounts,
    /// The smallest amounts: what fits into them fits every row.
    pub(crate) floor: Amounts,
    /// Indices into the request.
    pub(crate) pods: SmallVec<[PodId; 8]>,
    pub(crate) label_sets: SmallVec<[(LabelSetId, u32); 8]>,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) min_values: SmallVec<[(Key, u32); 1]>,
    /// Whether minValues were lowered.
    pub(crate) relaxed: bool,
    /// Reservations that it holds a place in.
    pub(crate) reserved: SmallVec<[ReservationId; 1]>,
    /// What the limits of its NodePool were charged with, by limit.
    pub(crate) charged: SmallVec<[i64; 2]>,
}

impl Claim {
    /// A NodeClaim of a NodePool without pods.
    pub(crate) fn new(pool: NodePoolId) -> Self {
        Self {
            pool,
            req: ANY,
            used: Amounts::new(),
            rows: Bits::default(),
            envelope: Amounts::new(),
            floor: Amounts::new(),
            pods: SmallVec::new(),
            label_sets: SmallVec::new(),
            ports: Vec::new(),
            min_values: SmallVec::new(),
            relaxed: false,
            reserved: SmallVec::new(),
            charged: SmallVec::new(),
        }
    }
}

/// Why a claim cannot be what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
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
pub(crate) struct Fit {
    pub(crate) req: Req,
    /// The rows that are left; `None` where none is lost.
    pub(crate) rows: Option<Bits<InstanceTypeId>>,
    pub(crate) min_values: SmallVec<[(Key, u32); 1]>,
    pub(crate) relaxed: bool,
    pub(crate) reserved: SmallVec<[ReservationId; 1]>,
    /// Devices for the resource claims of the pod.
    pub(crate) grant: Option<Box<Grant<Req>>>,
}

/// What is asked of a claim.
pub(crate) struct Ask<'a> {
    pub(crate) pool: NodePoolId,
    pub(crate) req: Req,
    pub(crate) rows: &'a Bits<InstanceTypeId>,
    pub(crate) used: &'a Amounts,
    pub(crate) more: &'a Amounts,
    pub(crate) ports: &'a [HostPort],
    pub(crate) min_values: &'a [(Key, u32)],
    /// The requirements and the smallest amounts of the claim, where it exists.
    pub(crate) now: Option<(Req, &'a Amounts)>,
    /// Reservations that it holds already.
    pub(crate) held: &'a [ReservationId],
    /// What is left of each reservation.
    pub(crate) left: &'a IdVec<ReservationId, u32>,
    pub(crate) purpose: Purpose,
}

/// Whether a claim can hold what is asked, and what it becomes.
pub(crate) fn fit(tables: &mut Tables, ask: &Ask<'_>) -> Result<Fit, Refusal> {
    if let Some((req, floor)) = ask.now
        && req == ask.req
        && ask.ports.is_empty()
        && tables.reservations.names.is_empty()
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
        rows.intersect(&tables.pools[ask.pool].mask(&tables.universe, ask.req));
    }
    let pool = &tables.pools[ask.pool];
    pool.ranks.keep(ask.used, ask.more, &mut rows);
    if !ask.ports.is_empty() {
        for at in rows.clone().iter().filter(|at| clash(ask.ports, &pool.rows[*at].ports)) {
            rows.remove(at);
        }
    }
    let reserved = reserve(tables, ask, &mut rows)?;
    if rows.is_empty() {
        return Err(Refusal::Rows);
    }
    let mut min_values: SmallVec<[(Key, u32); 1]> = ask.min_values.into();
    let mut relaxed = false;
    for (key, wanted) in &mut min_values {
        let found = tables.distinct(ask.pool, rows.iter(), *key, ask.req);
        if found < *wanted {
            if ask.now.is_some() || tables.rules.min_values == MinValuesPolicy::Strict {
                return Err(Refusal::MinValues { key: *key, wanted: *wanted, found });
            }
            (*wanted, relaxed) = (found, true);
        }
    }
    Ok(Fit { req: ask.req, rows: Some(rows), min_values, relaxed, reserved, grant: None })
}

/// The reservations that the claim would hold; takes out the rows that could not be bought without one.
fn reserve(
    tables: &Tables,
    ask: &Ask<'_>,
    rows: &mut Bits<InstanceTypeId>,
) -> Result<SmallVec<[ReservationId; 1]>, Refusal> {
    let mut reserved = SmallVec::new();
    if tables.reservations.names.is_empty() {
        return Ok(reserved);
    }
    let mut taken = false;
    for at in rows.clone().iter() {
        let row = &tables.pools[ask.pool].rows[at];
        let mut bought = false;
        for offer in row.offers.iter().filter(|offer| agrees(&tables.universe, offer.req, ask.req)) {
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

/// Whether any two ports cannot be on one host.
pub(crate) fn clash(a: &[HostPort], b: &[HostPort]) -> bool {
    a.iter().any(|port| b.iter().any(|other| port.conflicts(other)))
}

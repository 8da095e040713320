//! A new NodeClaim under construction, and whether another pod fits it.

use smallvec::SmallVec;

use crate::{
    model::pod::HostPort,
    scheduling::{
        ids::{IdVec, InstanceTypeId, LabelSetId, NodePoolId, PodId, ReservationId},
        request::{MinValuesPolicy, Purpose},
        tables::{
            Tables,
            amounts::{Amounts, fits},
            bits::Bits,
            devices::DeviceGrant,
            intern::{ANY, Key, Req},
            pools::agrees,
        },
    },
};

/// A NodeClaim that the pass creates.
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

/// Why a claim cannot take a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No row is left, whatever topology says.
    Rows,
    /// Too few distinct values of a key.
    MinValues { key: Key, wanted: u32, distinct: u32 },
    /// Compatible reservations are full.
    Reserved,
    /// Resource claims get no devices.
    Devices,
}

/// A claim with another pod.
#[derive(Debug)]
pub(crate) struct Fit {
    pub(crate) req: Req,
    /// The rows that are left; `None` where none is lost.
    pub(crate) rows: Option<Bits<InstanceTypeId>>,
    pub(crate) min_values: SmallVec<[(Key, u32); 1]>,
    pub(crate) relaxed: bool,
    pub(crate) reserved: SmallVec<[ReservationId; 1]>,
    /// Devices for the resource claims of the pod.
    pub(crate) grant: Option<Box<DeviceGrant>>,
}

/// The claim and the pod of a fit.
pub(crate) struct FitRequest<'a> {
    pub(crate) pool: NodePoolId,
    pub(crate) req: Req,
    pub(crate) rows: &'a Bits<InstanceTypeId>,
    pub(crate) used: &'a Amounts,
    pub(crate) requests: &'a Amounts,
    pub(crate) ports: &'a [HostPort],
    pub(crate) min_values: &'a [(Key, u32)],
    /// The requirements and the smallest amounts of the claim, where it exists.
    pub(crate) current: Option<(Req, &'a Amounts)>,
    /// Reservations that it holds already.
    pub(crate) held: &'a [ReservationId],
    /// What is left of each reservation.
    pub(crate) remaining: &'a IdVec<ReservationId, u32>,
    pub(crate) purpose: Purpose,
}

/// Fits a pod into a claim.
pub(crate) fn fit(tables: &Tables, request: &FitRequest<'_>) -> Result<Fit, Refusal> {
    if let Some((req, floor)) = request.current
        && req == request.req
        && request.ports.is_empty()
        && tables.reservations.names.is_empty()
        && fits(request.used, request.requests, floor)
    {
        // No row is lost: the claim stays unchanged.
        let min_values = request.min_values.into();
        return Ok(Fit {
            req,
            rows: None,
            min_values,
            relaxed: false,
            reserved: SmallVec::new(),
            grant: None,
        });
    }
    let mut rows = request.rows.clone();
    if request.current.is_none_or(|(req, _)| req != request.req) {
        rows.intersect(&tables.pools[request.pool].mask(&tables.universe, request.req));
    }
    let pool = &tables.pools[request.pool];
    pool.ranks.keep(request.used, request.requests, &mut rows);
    if !request.ports.is_empty() {
        for row_id in rows.clone().iter().filter(|row_id| clash(request.ports, &pool.rows[*row_id].ports)) {
            rows.remove(row_id);
        }
    }
    let reserved = reserve(tables, request, &mut rows)?;
    if rows.is_empty() {
        return Err(Refusal::Rows);
    }
    let mut min_values: SmallVec<[(Key, u32); 1]> = request.min_values.into();
    let mut relaxed = false;
    for (key, wanted) in &mut min_values {
        let distinct = tables.distinct(request.pool, rows.iter(), *key, request.req);
        if distinct < *wanted {
            if request.current.is_some() || tables.rules.min_values == MinValuesPolicy::Strict {
                return Err(Refusal::MinValues { key: *key, wanted: *wanted, distinct });
            }
            (*wanted, relaxed) = (distinct, true);
        }
    }
    Ok(Fit { req: request.req, rows: Some(rows), min_values, relaxed, reserved, grant: None })
}

/// The reservations that the claim would hold; takes out the rows that could not be bought without one.
fn reserve(
    tables: &Tables,
    request: &FitRequest<'_>,
    rows: &mut Bits<InstanceTypeId>,
) -> Result<SmallVec<[ReservationId; 1]>, Refusal> {
    let mut reserved = SmallVec::new();
    if tables.reservations.names.is_empty() {
        return Ok(reserved);
    }
    let mut taken = false;
    for row_id in rows.clone().iter() {
        let row = &tables.pools[request.pool].rows[row_id];
        let mut bought = false;
        for offer in row.offers.iter().filter(|offer| agrees(&tables.universe, offer.req, request.req)) {
            let Some(id) = offer.reservation else {
                bought = true;
                continue;
            };
            if request.held.contains(&id) || request.remaining.get(id).is_some_and(|left| *left > 0) {
                bought = true;
                if !reserved.contains(&id) {
                    reserved.push(id);
                }
            } else {
                taken = true;
            }
        }
        if !bought {
            rows.remove(row_id);
        }
    }
    let strict = request.purpose == Purpose::Provisioning;
    if strict && reserved.is_empty() && (taken || !request.held.is_empty()) {
        return Err(Refusal::Reserved);
    }
    reserved.sort_unstable();
    Ok(reserved)
}

/// Whether any two ports cannot be on one host.
pub(crate) fn clash(a: &[HostPort], b: &[HostPort]) -> bool {
    a.iter().any(|port| b.iter().any(|other| port.conflicts(other)))
}

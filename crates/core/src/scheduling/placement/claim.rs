//! A new NodeClaim under construction, and whether another pod fits it.

use smallvec::SmallVec;

use crate::{
    model::pod::HostPort,
    scheduling::{
        dra::problem::DeviceShortage,
        ids::{DomainId, IdVec, InstanceTypeId, LabelSetId, NodePoolId, PodId, ReservationId},
        request::{MinValuesPolicy, Purpose},
        tables::{
            Tables,
            amounts::{Amounts, fits},
            bits::Bits,
            devices::DeviceGrant,
            intern::{ANY, Key, Req},
            pod_classes::Class,
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
    /// Whether it holds devices: it can only become what it was tried as.
    pub(crate) holds_devices: bool,
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
            holds_devices: false,
        }
    }
}

/// Why a claim cannot take a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No row is left, whatever topology says.
    Rows,
    /// Too few distinct values of a key.
    MinValues { key: Key, wanted: u32, distinct: u32 },
    /// Compatible reservations are full.
    Reserved,
    /// What is left of the capacity that offerings share is taken by other NodeClaims.
    SharedCapacity,
    /// Resource claims get no devices.
    Devices(Box<DeviceShortage>),
    /// Resource claims get devices where topology allows no pod.
    DeviceDomains,
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

/// A new NodeClaim that a pod is tried on: one of the pass, or another one of a pool.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    /// The node that it is to groups by hostname.
    pub(crate) host: DomainId,
    pub(crate) pool: NodePoolId,
    pub(crate) rows: &'a Bits<InstanceTypeId>,
    pub(crate) used: &'a Amounts,
    pub(crate) min_values: &'a [(Key, u32)],
    /// Reservations that it holds already.
    pub(crate) held: &'a [ReservationId],
    /// Requirements and smallest amounts of a claim that exists.
    pub(crate) current: Option<(Req, &'a Amounts)>,
}

/// A pod of a class on a new NodeClaim that gets some requirements.
#[derive(Clone, Copy)]
pub(crate) struct FitRequest<'a> {
    pub(crate) target: Target<'a>,
    pub(crate) req: Req,
    pub(crate) class: &'a Class,
    /// What is left of each reservation.
    pub(crate) remaining: &'a IdVec<ReservationId, u32>,
    pub(crate) purpose: Purpose,
}

/// Fits a pod into a claim.
pub(crate) fn fit(tables: &Tables, request: &FitRequest<'_>) -> Result<Fit, Refusal> {
    let FitRequest { target, class, .. } = *request;
    let (requests, ports) = (&class.requests, &class.pod.spec.host_ports);
    if let Some((req, floor)) = target.current
        && req == request.req
        && ports.is_empty()
        && tables.reservations.is_empty()
        && fits(target.used, requests, floor)
    {
        // No row is lost: the claim stays unchanged.
        let min_values = target.min_values.into();
        return Ok(Fit {
            req,
            rows: None,
            min_values,
            relaxed: false,
            reserved: SmallVec::new(),
            grant: None,
        });
    }
    let pool = &tables.pools[target.pool];
    let mut rows = target.rows.clone();
    if target.current.is_none_or(|(req, _)| req != request.req) {
        rows.intersect(&pool.mask(&tables.universe, request.req));
    }
    pool.ranks.keep(target.used, requests, &mut rows);
    if !ports.is_empty() {
        for row_id in rows.clone().iter().filter(|row_id| clash(ports, &pool.rows[*row_id].ports)) {
            rows.remove(row_id);
        }
    }
    let had_rows = !rows.is_empty();
    let reserved = reserve(tables, request, &mut rows)?;
    if rows.is_empty() {
        return Err(if had_rows { Refusal::SharedCapacity } else { Refusal::Rows });
    }
    let mut min_values: SmallVec<[(Key, u32); 1]> = target.min_values.into();
    let mut relaxed = false;
    for (key, wanted) in &mut min_values {
        let distinct = tables.distinct(target.pool, rows.iter(), *key, request.req);
        if distinct < *wanted {
            if target.current.is_some() || tables.rules.min_values == MinValuesPolicy::Strict {
                return Err(Refusal::MinValues { key: *key, wanted: *wanted, distinct });
            }
            (*wanted, relaxed) = (distinct, true);
        }
    }
    Ok(Fit { req: request.req, rows: Some(rows), min_values, relaxed, reserved, grant: None })
}

/// The reservations and shared capacities that the claim would hold; takes out the rows that could not be bought without one.
fn reserve(
    tables: &Tables,
    request: &FitRequest<'_>,
    rows: &mut Bits<InstanceTypeId>,
) -> Result<SmallVec<[ReservationId; 1]>, Refusal> {
    let target = request.target;
    let mut reserved = SmallVec::new();
    if tables.reservations.is_empty() {
        return Ok(reserved);
    }
    let mut taken = false;
    for row_id in rows.clone().iter() {
        let row = &tables.pools[target.pool].rows[row_id];
        let mut bought = false;
        for offer in row.offers.iter().filter(|offer| agrees(&tables.universe, offer.req, request.req)) {
            let Some(id) = offer.reservation else {
                bought = true;
                continue;
            };
            if target.held.contains(&id) || request.remaining.get(id).is_some_and(|left| *left > 0) {
                bought = true;
                if !reserved.contains(&id) {
                    reserved.push(id);
                }
            } else {
                taken |= tables.is_reservation(id);
            }
        }
        if !bought {
            rows.remove(row_id);
        }
    }
    let strict = request.purpose == Purpose::Provisioning;
    let none = |ids: &[ReservationId]| !ids.iter().any(|id| tables.is_reservation(*id));
    if strict && none(&reserved) && (taken || !none(target.held)) {
        return Err(Refusal::Reserved);
    }
    reserved.sort_unstable();
    Ok(reserved)
}

/// Whether any two ports cannot be on one host.
pub(crate) fn clash(a: &[HostPort], b: &[HostPort]) -> bool {
    a.iter().any(|port| b.iter().any(|other| port.conflicts(other)))
}

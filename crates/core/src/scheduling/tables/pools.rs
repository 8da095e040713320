//! Pools as columns: one row per instance type and distinct allocatable, with its offerings and daemon overhead.

use std::{cell::RefCell, sync::Arc};

use hashbrown::HashMap;
use indexmap::IndexMap;

use crate::{
    model::{
        Catalog, InstanceType, LabelSchema, Labels, NodePool, Offering, Pod, Price, Requirement,
        Requirements, Resources, Snapshot, Str, Taint, labels, pod::HostPort,
    },
    scheduling::{
        ids::{Id, IdVec, InstanceTypeId, ReservationId},
        tables::{
            amounts::{Amounts, ResourceIndex, get, update},
            bits::Bits,
            contradiction,
            intern::{ANY, Key, Req, Side, Universe, Value},
            ranks::Ranks,
            relaxation::tolerated,
            topology::Alternatives,
        },
    },
};

/// The number of requirement sets whose offerings are cached.
const MAX_MEMO: usize = 256;

/// A pool that takes part in scheduling.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) model: Arc<NodePool>,
    /// Template requirements, labels and pool name.
    pub(crate) req: Req,
    pub(crate) taints: Arc<[Taint]>,
    pub(crate) rows: IdVec<InstanceTypeId, Row>,
    pub(crate) ranks: Ranks,
    /// minValues: the keys of which a number of distinct values must stay possible.
    pub(crate) min_values: Vec<(Key, u32)>,
    /// Limits by resource index.
    pub(crate) limits: Vec<Limit>,
    /// The offerings that are not available, with the requirements of their instance types.
    unavailable: Vec<(Req, Req)>,
    /// Rows by requirement: those that may be bought under it.
    masks: RefCell<HashMap<Req, Arc<Bits<InstanceTypeId>>>>,
    /// Offerings by requirement, cheapest first.
    buys: RefCell<HashMap<Req, Arc<[PricedOffer]>>>,
    /// The requirements of each instance type of the catalogue, in its order.
    pub(crate) type_reqs: Vec<Req>,
}

/// One way to buy a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PricedOffer {
    /// List price.
    pub(crate) price: Price,
    /// What it counts as ([`Objective`](crate::model::Objective)).
    pub(crate) effective: Price,
    pub(crate) row: InstanceTypeId,
    /// Index into the row's offers.
    pub(crate) offer: usize,
}

/// A limit of a pool.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) name: Str,
    pub(crate) resource: usize,
    pub(crate) limit: i64,
}

/// An instance type with one of its allocatables.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) instance_type: Arc<InstanceType>,
    /// The first row of its instance type: tells types apart.
    pub(crate) first: InstanceTypeId,
    pub(crate) req: Req,
    pub(crate) offers: Vec<Offer>,
    /// What pods can have: allocatable less daemons.
    pub(crate) free: Amounts,
    pub(crate) daemons: Amounts,
    pub(crate) capacity: Amounts,
    /// Ports that daemons take.
    pub(crate) ports: Vec<HostPort>,
}

impl Row {
    /// Whether it is one of an instance type.
    pub(crate) fn is_of(&self, instance_type: &InstanceType) -> bool {
        self.instance_type.name == instance_type.name
    }

    /// The first resource of which its daemons request more than there is.
    pub(crate) fn short_for_daemons(&self) -> Option<usize> {
        self.free.iter().position(|free| *free < 0)
    }
}

/// An offering that can be bought now.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) req: Req,
    /// List price.
    pub(crate) price: Price,
    /// What it counts as in the pool.
    pub(crate) effective: Price,
    pub(crate) zone: Str,
    pub(crate) capacity_type: Str,
    /// Whether a NodeOverlay set the price.
    pub(crate) overlaid: bool,
    /// Index of the reservation or shared capacity that it draws on.
    pub(crate) reservation: Option<ReservationId>,
}

/// Capacity of which a number of instances is left.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FiniteCapacity {
    /// A capacity reservation, by its id. Where one is compatible, it is taken first.
    Reservation(Str),
    /// What offerings share, by its name.
    Shared(Str),
}

/// Finite capacities: what each can still hold, the least over all pools that know it.
pub(crate) type Reservations = IndexMap<FiniteCapacity, u32>;

/// The tables that building a NodePool needs.
pub(crate) struct PoolContext<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) universe: &'a mut Universe,
    pub(crate) resources: &'a mut ResourceIndex,
    pub(crate) reservations: &'a mut Reservations,
    pub(crate) daemons: &'a [Daemon],
    pub(crate) reserved_capacity: bool,
}

/// A DaemonSet: what each of its pods takes, and where they can run.
#[derive(Debug)]
pub(crate) struct Daemon {
    pub(crate) pod: Arc<Pod>,
    pub(crate) requests: Amounts,
    /// One of these must hold.
    pub(crate) alternatives: Alternatives,
}

impl Daemon {
    pub(crate) fn new(pod: &Arc<Pod>, universe: &mut Universe, resources: &mut ResourceIndex) -> Self {
        Self {
            pod: Arc::clone(pod),
            requests: resources.amounts(pod.requests()),
            alternatives: required_alternatives(pod, universe),
        }
    }

    /// Whether its pods run where these taints are, PreferNoSchedule aside.
    pub(crate) fn tolerates(&self, taints: &[Taint]) -> bool {
        tolerated(taints, &self.pod, true)
    }
}

/// nodeSelector and each of the required terms in turn: what a pod demands of a node, as alternatives.
pub(crate) fn required_alternatives(pod: &Pod, universe: &mut Universe) -> Alternatives {
    let selector = contradiction::selector(pod);
    let mut with = |term: &[Requirement]| universe.req(selector.iter().chain(term));
    if pod.spec.required_node_terms.is_empty() {
        return smallvec::smallvec![with(&[])];
    }
    pod.spec.required_node_terms.iter().map(|term| with(term)).collect()
}

impl Pool {
    /// Whether a pool takes part in scheduling at all.
    pub(crate) fn is_usable(pool: &NodePool) -> bool {
        pool.ready && !pool.deleting && !pool.is_static()
    }

    pub(crate) fn new(model: &Arc<NodePool>, context: &mut PoolContext<'_>) -> Self {
        let requirements = &model.template.requirements;
        let labels = Requirements::from_labels(&template_labels(model));
        let req = context.universe.req(requirements.iter().chain(labels.iter()));
        let min_values = requirements
            .iter()
            .filter_map(|requirement| {
                Some((context.universe.key(requirement.key()), requirement.min_values()?))
            })
            .collect();
        // Observed taints count like those of the template.
        let observed = model.observed.taints.iter().map(|observed| &observed.taint);
        let taints: Arc<[Taint]> = model.template.taints.iter().chain(observed).cloned().collect();
        let nothing = Arc::new(Catalog::default());
        let catalog = context.snapshot.catalog(&model.name).unwrap_or(&nothing);
        let ready = [labels::REGISTERED, labels::INITIALIZED].map(|key| Requirement::is_in(key, ["true"]));
        let ready = context.universe.req(&ready);
        let template = context.universe.meet(req, ready, Side::Plain).unwrap_or(req);
        let tolerant: Vec<&Daemon> =
            context.daemons.iter().filter(|daemon| daemon.tolerates(&taints)).collect();
        let mut rows = IdVec::default();
        for instance_type in &catalog.instance_types {
            let first = rows.next_id();
            rows.items_mut().extend(rows_of((&**model, instance_type), first, template, &tolerant, context));
        }
        let limits = model
            .limits
            .resources
            .iter()
            .map(|(name, limit)| Limit {
                name: name.as_str().into(),
                resource: context.resources.index(name),
                limit: *limit,
            })
            .collect();
        let types = catalog.instance_types.iter();
        let type_reqs: Vec<Req> =
            types.map(|known| context.universe.req(known.requirements.iter())).collect();
        let unavailable = unavailable_offerings(catalog, &type_reqs, req, context.universe);
        Self {
            model: Arc::clone(model),
            req,
            taints,
            ranks: Ranks::new(&rows.iter().map(|row| &row.free).collect::<Vec<_>>()),
            rows,
            unavailable,
            min_values,
            limits,
            masks: RefCell::default(),
            buys: RefCell::default(),
            type_reqs,
        }
    }

    /// Whether anything limits it.
    pub(crate) fn is_limited(&self) -> bool {
        !self.limits.is_empty() || self.model.limits.nodes.is_some()
    }

    /// The rows that can be bought under `req`: type and an available offering agree with it. Those that their daemons do not fit
    /// are not for sale, also for pods that do not request what is short.
    pub(crate) fn mask(&self, universe: &Universe, req: Req) -> Arc<Bits<InstanceTypeId>> {
        if let Some(mask) = self.masks.borrow().get(&req) {
            return Arc::clone(mask);
        }
        let bought = |row: &Row| {
            row.short_for_daemons().is_none()
                && agrees(universe, row.req, req)
                && row.offers.iter().any(|offer| agrees(universe, offer.req, req))
        };
        let rows = self.rows.entries().filter(|(_, row)| bought(row));
        let mask = Arc::new(rows.map(|(row_id, _)| row_id).collect::<Bits<InstanceTypeId>>());
        self.masks.borrow_mut().insert(req, Arc::clone(&mask));
        mask
    }

    /// Whether there is an offering under `req`, available or not.
    pub(crate) fn offers(&self, universe: &Universe, req: Req) -> bool {
        let agree = |(instance_type, offering): &(Req, Req)| {
            agrees(universe, *instance_type, req) && agrees(universe, *offering, req)
        };
        self.unavailable.iter().any(agree) || !self.mask(universe, req).is_empty()
    }

    /// Whether there is an offering under `req` with a value of a key. One that is out of capacity for minutes counts.
    pub(crate) fn offers_value(&self, universe: &Universe, req: Req, key: Key, value: Value) -> bool {
        let with = universe.meet(req, universe.only(key, value), Side::Plain);
        with.is_some_and(|req| self.offers(universe, req))
    }

    /// The values of a key that the template, an instance type or an offering names.
    pub(crate) fn named_values(&self, universe: &Universe, key: Key) -> Vec<Value> {
        let of_rows = self.rows.iter().flat_map(|row| {
            let offers = row.offers.iter().map(|offer| offer.req);
            offers.chain([row.req])
        });
        let absent = self.unavailable.iter().flat_map(|(described, offering)| [*described, *offering]);
        let sets = of_rows.chain(absent).chain([self.req]).filter_map(|req| universe.get(req, key));
        let named = sets.filter(|set| !set.complement);
        let mut values: Vec<Value> = named.flat_map(|set| set.values.iter().copied()).collect();
        values.sort_unstable();
        values.dedup();
        values
    }

    /// The offerings that `req` allows, cheapest first by effective price; equal ones by type, zone and capacity type.
    pub(crate) fn buys(&self, universe: &Universe, req: Req) -> Arc<[PricedOffer]> {
        if let Some(buys) = self.buys.borrow().get(&req) {
            return Arc::clone(buys);
        }
        let mask = self.mask(universe, req);
        let mut buys: Vec<PricedOffer> = Vec::new();
        for row_id in mask.iter() {
            let offers = self.rows[row_id].offers.iter().enumerate();
            let allowed = offers.filter(|(_, offer)| agrees(universe, offer.req, req));
            buys.extend(allowed.map(|(index, offer)| PricedOffer {
                price: offer.price,
                effective: offer.effective,
                row: row_id,
                offer: index,
            }));
        }
        let place = |buy: &PricedOffer| {
            let offer = &self.rows[buy.row].offers[buy.offer];
            (&offer.zone, &offer.capacity_type)
        };
        buys.sort_by(|a, b| {
            (a.effective, a.row).cmp(&(b.effective, b.row)).then_with(|| place(a).cmp(&place(b)))
        });
        let buys: Arc<[PricedOffer]> = buys.into();
        let mut known = self.buys.borrow_mut();
        if known.len() >= MAX_MEMO {
            known.clear();
        }
        known.insert(req, Arc::clone(&buys));
        buys
    }
}

/// Labels that every node of the pool carries.
pub(crate) fn template_labels(pool: &NodePool) -> Labels {
    let mut all = pool.template.labels.clone();
    all.insert(labels::NODEPOOL.into(), pool.name.as_str().into());
    all.insert(pool.template.class.label_key().into(), pool.template.class.name.clone());
    all
}

/// Whether two requirement sets share a value for every key that both constrain.
pub(crate) fn agrees(universe: &Universe, a: Req, b: Req) -> bool {
    if a == ANY || b == ANY {
        return true;
    }
    let (small, large) = if universe.sets(a).len() <= universe.sets(b).len() { (a, b) } else { (b, a) };
    universe
        .sets(small)
        .iter()
        .all(|(key, set)| universe.get(large, *key).is_none_or(|other| universe.agree(*key, set, other)))
}

/// The offerings of a catalogue that are not available, of those whose instance type and whose own requirements `req` allows.
fn unavailable_offerings(
    catalog: &Catalog,
    type_reqs: &[Req],
    req: Req,
    universe: &mut Universe,
) -> Vec<(Req, Req)> {
    let mut unavailable = Vec::new();
    for (instance_type, described) in catalog.instance_types.iter().zip(type_reqs) {
        if !agrees(universe, *described, req) {
            continue;
        }
        for offering in instance_type.offerings.iter().filter(|offering| !offering.available) {
            let offered = universe.req(offering.requirements.iter());
            if agrees(universe, offered, req) {
                unavailable.push((*described, offered));
            }
        }
    }
    unavailable.sort_unstable();
    unavailable.dedup();
    unavailable
}

/// Requests and host ports of the daemons that run on nodes as `described`. A resource of which the type has nothing keeps a daemon
/// away that requests it, and nothing waits for it.
fn daemon_overhead(
    universe: &Universe,
    described: Option<Req>,
    daemons: &[&Daemon],
    capacity: &Amounts,
) -> (Amounts, Vec<HostPort>) {
    let (mut overhead, mut ports) = (Amounts::new(), Vec::new());
    for daemon in daemons {
        let runs = described.is_some_and(|node| {
            daemon.alternatives.iter().any(|wanted| universe.meet(node, *wanted, Side::Claim).is_some())
        });
        if runs {
            update(&mut overhead, &daemon.requests, i64::saturating_add);
            ports.extend(daemon.pod.spec.host_ports.iter().cloned());
        }
    }
    for (resource, amount) in overhead.iter_mut().enumerate() {
        if get(capacity, resource) <= 0 {
            *amount = 0;
        }
    }
    (overhead, ports)
}

/// The finite capacity that an offering draws on, and what is left of it. A reservation that no id tells apart is counted by its type and
/// place.
fn finite(
    instance_type: &InstanceType,
    offering: &Offering,
    schema: &LabelSchema,
) -> Option<(FiniteCapacity, u32)> {
    if offering.is_reserved() {
        let unnamed = || Str::from(format!("{}/{}", instance_type.name, offering.requirements));
        let name = offering.reservation_id(schema).cloned().unwrap_or_else(unnamed);
        return Some((FiniteCapacity::Reservation(name), offering.reservation_capacity.unwrap_or(0)));
    }
    let shared = offering.shared_capacity.as_ref()?;
    Some((FiniteCapacity::Shared(shared.name.clone()), shared.instances))
}

/// The rows of one instance type: one per distinct allocatable of its available offerings.
fn rows_of(
    (pool, instance_type): (&NodePool, &Arc<InstanceType>),
    first: InstanceTypeId,
    template: Req,
    daemons: &[&Daemon],
    context: &mut PoolContext<'_>,
) -> Vec<Row> {
    let universe = &mut *context.universe;
    let req = universe.req(instance_type.requirements.iter());
    let described = universe.meet(template, req, Side::Plain);
    let capacity = context.resources.amounts(&instance_type.capacity);
    let (overhead, ports) = daemon_overhead(universe, described, daemons, &capacity);
    let mut rows: Vec<Row> = Vec::new();
    let mut known_allocatables: Vec<Resources> = Vec::new();
    for offering in instance_type.offerings.iter().filter(|offering| offering.available) {
        let finite = finite(instance_type, offering, universe.schema());
        if finite.as_ref().is_some_and(|(_, left)| *left == 0)
            || offering.is_reserved() && !context.reserved_capacity
        {
            continue;
        }
        let allocatable = instance_type.allocatable_of(offering);
        let index = known_allocatables.iter().position(|known| *known == allocatable).unwrap_or_else(|| {
            let mut free = context.resources.amounts(&allocatable);
            update(&mut free, &overhead, i64::saturating_sub);
            known_allocatables.push(allocatable);
            rows.push(Row {
                instance_type: Arc::clone(instance_type),
                first,
                req,
                offers: Vec::new(),
                free,
                daemons: overhead.clone(),
                capacity: capacity.clone(),
                ports: ports.clone(),
            });
            rows.len() - 1
        });
        let reservation = finite.map(|(capacity, left)| {
            let entry = context.reservations.entry(capacity);
            let id = ReservationId::new(entry.index());
            entry.and_modify(|known| *known = left.min(*known)).or_insert(left);
            id
        });
        rows[index].offers.push(Offer {
            req: universe.req(offering.requirements.iter()),
            price: offering.price,
            effective: context.snapshot.objective.effective(pool, instance_type, offering.price),
            overlaid: offering.overlaid,
            zone: offering.zone().cloned().unwrap_or_else(|| "".into()),
            capacity_type: offering.capacity_type().cloned().unwrap_or_else(|| "".into()),
            reservation,
        });
    }
    rows
}

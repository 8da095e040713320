//! Pods with resource claims: the slow path beside all others.
//!
//! A pass keeps its own ledger of devices. What the solver calls here returns at once for pods without claims, and for
//! new NodeClaims that hold no devices.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    sync::Arc,
};

use hashbrown::{HashMap, HashSet};
use indexmap::IndexSet;

use crate::{
    model::{
        NamespacedName, Pod, PodUid, Str,
        device::Nodes,
        resource_claim::{ClaimSource, ResourceClaim},
    },
    scheduling::{
        dra::{
            given::Given,
            ledger::{Grant, Held, Host, Kind, Ledger},
            search::{Failure, Field, Ground, search},
            want::Want,
            why::{ClaimProblem, DeviceShortage},
        },
        ids::{
            DomainId, Id as _, IdVec, InstanceTypeId, NewClaimId, NodeId, PodClassId, ResourceClaimId, WantId,
        },
        placement::{
            allowed_domains::{Demand, obeys_by_key},
            claim::{self, Ask, Claim, Fit, Refusal},
        },
        plan::{PlannedClaim, PlannedDevice},
        request::Request,
        tables::{
            Tables,
            bits::Bits,
            devices::{DeviceTables, Place, Terrain},
            intern::{ANY, Req},
        },
    },
};

/// A claim can serve so many pods (`ResourceClaimReservedForMaxSize`).
const MAX_CONSUMERS: usize = 256;
/// A pod can have devices through so many claims.
const MAX_CLAIMS: usize = 64;

/// Devices in a pass.
#[derive(Debug)]
pub(crate) struct Grants {
    ledger: Ledger,
    /// Claims that get devices.
    ids: IndexSet<NamespacedName>,
    /// By class.
    asked: HashMap<PodClassId, Result<Asked, ClaimProblem>>,
    /// Steps that searches have taken and nobody has counted.
    steps: Cell<u64>,
    /// Why the last search found nothing.
    shortage: RefCell<Option<DeviceShortage>>,
}

/// What a pod asks for.
#[derive(Debug, Default)]
struct Asked {
    /// Claims that have their devices, and where those can be used.
    held: Vec<(NamespacedName, Nodes)>,
    /// Claims that get them in this pass, by number.
    wanted: Vec<(ResourceClaimId, Arc<Want>)>,
}

/// The ResourceClaim behind a claim of a pod; `None` where it needs none.
fn claim_of(pod: &Pod, name: &Str, source: &ClaimSource) -> Option<NamespacedName> {
    let of = |claim: &Str| NamespacedName::new(pod.id.namespace.clone(), claim.clone());
    match source {
        ClaimSource::Claim(claim) => Some(of(claim)),
        ClaimSource::Template(_) => match pod.generated_claims.iter().find(|made| made.name == *name) {
            Some(made) => made.claim.as_ref().map(of),
            // As the cluster will call it, but for a suffix.
            None => Some(of(&format!("{}-{name}", pod.id.name).into())),
        },
    }
}

impl Grants {
    /// The ledger of a pass; `None` where no pod has claims.
    pub(crate) fn new(
        compiled: &mut Tables,
        request: &Request<'_>,
        classes: &[PodClassId],
    ) -> Option<Box<Self>> {
        let claiming: Vec<PodClassId> =
            classes.iter().copied().filter(|class| compiled.classes[*class].claims_devices()).collect();
        if claiming.is_empty() || compiled.rules.ignore_dra {
            return None;
        }
        let tables = compiled.devices.take().filter(|tables| tables.is_current(compiled));
        let mut tables = tables.unwrap_or_else(|| Box::new(DeviceTables::new(compiled)));
        let bound = request.pods.iter().filter(|pod| pod.node.is_some());
        let moving: HashSet<&PodUid> = bound.map(|pod| &pod.uid).collect();
        // What only pods hold that are to move is given again.
        let is_redone = |claim: &ResourceClaim| {
            !claim.reserved_for.is_empty() && claim.reserved_for.iter().all(|pod| moving.contains(pod))
        };
        let mut ledger = Ledger::default();
        let claims = &compiled.snapshot.devices.claims;
        for claim in claims.values().filter(|claim| !is_redone(claim)) {
            let devices = claim.allocation.iter().flat_map(|allocation| &allocation.devices);
            devices.for_each(|device| ledger.hold(device, &tables.cluster));
        }
        let mut this = Self {
            ledger,
            ids: IndexSet::new(),
            asked: HashMap::new(),
            steps: Cell::new(0),
            shortage: RefCell::new(None),
        };
        for class in claiming {
            let pod = Arc::clone(&compiled.classes[class].pod);
            let asked = this.ask(compiled, &mut tables, &pod, &is_redone);
            this.asked.insert(class, asked);
        }
        compiled.devices = Some(tables);
        Some(Box::new(this))
    }

    fn ask(
        &mut self,
        compiled: &Tables,
        tables: &mut DeviceTables,
        pod: &Pod,
        is_redone: &impl Fn(&ResourceClaim) -> bool,
    ) -> Result<Asked, ClaimProblem> {
        let devices = &compiled.snapshot.devices;
        let mut asked = Asked::default();
        for claim in pod.spec.resource_claims.iter().take(MAX_CLAIMS) {
            let Some(id) = claim_of(pod, &claim.name, &claim.source) else { continue };
            let spec = match (devices.claims.get(&id), &claim.source) {
                (Some(known), _) if known.deleting => return Err(ClaimProblem::Deleting(id)),
                (Some(known), _) => {
                    if let Some(allocation) = known.allocation.as_ref().filter(|_| !is_redone(known)) {
                        let others = known.reserved_for.iter().filter(|other| **other != pod.uid);
                        let full = others.count() >= MAX_CONSUMERS;
                        let nodes = if full { Nodes::None } else { allocation.nodes.clone() };
                        asked.held.push((id, nodes));
                        continue;
                    }
                    &known.spec
                }
                (None, ClaimSource::Claim(_)) => return Err(ClaimProblem::NotFound(id)),
                (None, ClaimSource::Template(template)) => {
                    let template = NamespacedName::new(pod.id.namespace.clone(), template.clone());
                    match devices.templates.get(&template) {
                        Some(spec) => spec,
                        None => return Err(ClaimProblem::TemplateNotFound(template)),
                    }
                }
            };
            let want = tables.want(&id, spec)?;
            let number = ResourceClaimId::new(self.ids.insert_full(id).0);
            if !asked.wanted.iter().any(|(known, _)| *known == number) {
                asked.wanted.push((number, want));
            }
        }
        Ok(asked)
    }

    /// Whether a new NodeClaim holds devices: it can only become what it was tried as.
    pub(crate) fn holds(&self, new_claim: NewClaimId) -> bool {
        self.ledger.holds(Host::NewClaim(new_claim))
    }

    /// What is wrong with the claims of a class.
    pub(crate) fn problem(&self, class: PodClassId) -> Option<&ClaimProblem> {
        self.asked.get(&class)?.as_ref().err()
    }

    /// Looks for devices for a pod on a node as any of `kinds` or, where `every`, as all of them.
    fn allocate(
        &self,
        tables: &mut DeviceTables,
        terrain: &mut Terrain<'_>,
        class: PodClassId,
        host: Host,
        (kinds, every): (&[Kind], bool),
        at: Req,
    ) -> Result<Grant<Req>, DeviceShortage> {
        let none = Asked::default();
        let asked = self.asked.get(&class).and_then(|asked| asked.as_ref().ok()).unwrap_or(&none);
        let mut at = at;
        for (claim, nodes) in &asked.held {
            let place = Place::new(nodes, terrain.universe);
            let elsewhere = || DeviceShortage::Elsewhere { claim: claim.clone() };
            at = terrain.at(at, &place).first().copied().ok_or_else(elsewhere)?;
        }
        let mut open: IdVec<WantId, (ResourceClaimId, Arc<Want>)> = IdVec::default();
        for (number, want) in &asked.wanted {
            match self.ledger.host_of(*number) {
                None => {
                    open.push((*number, Arc::clone(want)));
                }
                Some(other) if other == host => {}
                Some(other) => at = self.follow(tables, terrain, *number, other, at)?,
            }
        }
        let mut grant =
            Grant { claims: open.iter().map(|(number, _)| *number).collect(), by_kind: Vec::new(), at };
        if open.is_empty() {
            grant.by_kind = kinds.iter().map(|kind| (*kind, Vec::new())).collect();
            return Ok(grant);
        }
        let wants: IdVec<WantId, Arc<Want>> = open.iter().map(|(_, want)| Arc::clone(want)).collect();
        let mut first = None;
        for kind in kinds.iter().copied() {
            let found = self.search_as(tables, terrain, host, kind, &wants, grant.at);
            match found {
                Ok((at, given)) => {
                    grant.at = at;
                    let held = given.into_iter().map(|given| Held {
                        claim: open[given.claim].0,
                        request: wants[given.claim].requests[given.request].options[given.option]
                            .name
                            .clone(),
                        given,
                    });
                    grant.by_kind.push((kind, held.collect()));
                }
                Err(failure) => {
                    let shortage = self.shortage(&open, failure);
                    if every {
                        return Err(shortage);
                    }
                    first.get_or_insert(shortage);
                }
            }
        }
        match first {
            Some(shortage) if grant.by_kind.is_empty() => Err(shortage),
            _ => Ok(grant),
        }
    }

    /// Looks for devices on a node as one of its kinds, with the templates that the kind brings.
    fn search_as(
        &self,
        tables: &mut DeviceTables,
        terrain: &mut Terrain<'_>,
        host: Host,
        kind: Kind,
        wants: &IdVec<WantId, Arc<Want>>,
        at: Req,
    ) -> Result<(Req, Vec<Given>), Failure> {
        let seen = tables.seen_by(terrain.node);
        let mut template = std::mem::take(&mut tables.kinds[kind]);
        let mut cluster = std::mem::take(&mut tables.cluster);
        let lens = self.ledger.lens(host, kind, &cluster, &template);
        let mut field = Field {
            cluster: &mut cluster,
            visible: &seen.items,
            pools: &seen.pools,
            template: &mut template,
            lens: &lens,
        };
        let (found, steps) = search(&mut field, terrain, wants, at);
        self.steps.set(self.steps.get().saturating_add(steps));
        (tables.cluster, tables.kinds[kind]) = (cluster, template);
        found
    }

    /// What is left of a node's choice where it uses the devices that a claim got on another node.
    fn follow(
        &self,
        tables: &DeviceTables,
        terrain: &mut Terrain<'_>,
        number: ResourceClaimId,
        other: Host,
        mut at: Req,
    ) -> Result<Req, DeviceShortage> {
        let bound = || DeviceShortage::Shared { claim: self.ids[number.position()].clone() };
        for held in self.ledger.on(other).flat_map(|(_, held)| held).filter(|held| held.claim == number) {
            let device = held.given.device;
            if device.template {
                return Err(bound());
            }
            let item = &tables.cluster.items[device.at];
            if item.device.binds_to_node {
                return Err(bound());
            }
            at = terrain.reach(at, item.place, &item.id.driver).first().copied().ok_or_else(bound)?;
        }
        Ok(at)
    }

    fn shortage(
        &self,
        open: &IdVec<WantId, (ResourceClaimId, Arc<Want>)>,
        failure: Failure,
    ) -> DeviceShortage {
        let name = |claim: WantId| self.ids[open[claim].0.position()].clone();
        match failure {
            Failure::TooWide { claim } => DeviceShortage::TooWide { claim: name(claim) },
            Failure::Pool { claim, request, driver, pool, invalid } => {
                let request = open[claim].1.requests[request].name.clone();
                DeviceShortage::Pool { claim: name(claim), request, driver, pool, invalid }
            }
            Failure::Devices { claim, request, option, wanted, found } => {
                let option = &open[claim].1.requests[request].options[option];
                let (request, class) = (option.name.clone(), option.class.clone());
                DeviceShortage::Devices { claim: name(claim), request, class, wanted, found }
            }
        }
    }

    /// Why the last pod that asked got no devices.
    pub(crate) fn last_shortage(&self) -> Option<DeviceShortage> {
        self.shortage.borrow().clone()
    }

    /// Forgets why; says whether there was a reason, and how many steps the searches took.
    pub(crate) fn take_shortage(&mut self) -> (bool, u64) {
        (self.shortage.take().is_some(), self.steps.take())
    }

    fn grant(
        &self,
        compiled: &mut Tables,
        class: PodClassId,
        host: Host,
        kinds: (&[Kind], bool),
        at: Req,
    ) -> Option<Grant<Req>> {
        let mut tables = compiled.devices.take()?;
        let places = tables.take_places();
        let node = match host {
            Host::Node(at) => Some(&compiled.nodes[at]),
            Host::NewClaim(_) => None,
        };
        let mut terrain = Terrain::new(&tables, &places, &mut compiled.universe, node);
        let granted = self.allocate(&mut tables, &mut terrain, class, host, kinds, at);
        tables.put_places(places);
        compiled.devices = Some(tables);
        match granted {
            Ok(grant) => Some(grant),
            Err(shortage) => {
                self.shortage.replace(Some(shortage));
                None
            }
        }
    }

    /// Gives a pod its devices on a node and returns what is left of the node's choice; `None` where it gets none.
    fn on_node(
        &mut self,
        compiled: &mut Tables,
        class: PodClassId,
        at: NodeId,
        open: Option<Req>,
    ) -> Option<Option<Req>> {
        let mut tables = compiled.devices.take()?;
        let kinds = tables.of_node(compiled, at, open);
        compiled.devices = Some(tables);
        let host = Host::Node(at);
        let grant = self.grant(compiled, class, host, (&kinds, true), open.unwrap_or(ANY))?;
        let left = open.map(|_| grant.at);
        self.give(compiled, host, grant);
        Some(left)
    }

    /// Narrows what a new NodeClaim becomes with a pod to what has devices for it.
    fn on_claim(
        &self,
        compiled: &mut Tables,
        (demand, host): (&Demand, DomainId),
        ask: &Ask<'_>,
        fit: Fit,
    ) -> Result<Fit, Refusal> {
        let rows = fit.rows.unwrap_or_else(|| ask.rows.clone());
        let Some(tables) = &compiled.devices else { return Err(Refusal::Devices) };
        let mut kinds: Vec<Kind> = Vec::new();
        for row in rows.iter() {
            let kind = tables.of_row(ask.pool, row);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let host = host.host();
        let grant = self.grant(compiled, demand.class, host, (&kinds, false), ask.req);
        let mut grant = grant.ok_or(Refusal::Devices)?;
        if grant.at != ask.req && obeys_by_key(compiled, demand, grant.at).is_err() {
            return Err(Refusal::Devices);
        }
        let Some(tables) = &compiled.devices else { return Err(Refusal::Devices) };
        let has = |row: &InstanceTypeId| {
            let kind = tables.of_row(ask.pool, *row);
            grant.by_kind.iter().any(|(known, _)| *known == kind)
        };
        let kept: Bits<InstanceTypeId> = rows.iter().filter(has).collect();
        let again = Ask { req: grant.at, rows: &kept, ..*ask };
        let mut fit = claim::fit(compiled, &again)?;
        let rows = fit.rows.unwrap_or(kept);
        let Some(tables) = &compiled.devices else { return Err(Refusal::Devices) };
        let kinds: Vec<Kind> = rows.iter().map(|row| tables.of_row(ask.pool, row)).collect();
        grant.by_kind.retain(|(kind, _)| kinds.contains(kind));
        (fit.rows, fit.grant) = (Some(rows), Some(Box::new(grant)));
        Ok(fit)
    }

    fn give(&mut self, compiled: &Tables, host: Host, grant: Grant<Req>) {
        if let Some(tables) = &compiled.devices {
            self.ledger.give(host, grant, &tables.cluster);
        }
    }

    /// Notes the devices that a new NodeClaim gets, and lets go of those that it would only have had as what it cannot become
    /// any more.
    pub(crate) fn note_claim(
        &mut self,
        compiled: &Tables,
        at: NewClaimId,
        claim: &Claim,
        grant: Option<Box<Grant<Req>>>,
    ) {
        let host = Host::NewClaim(at);
        if let Some(grant) = grant {
            self.give(compiled, host, *grant);
        }
        let Some(tables) = &compiled.devices else { return };
        if self.ledger.holds(host) {
            let rows = claim.rows.iter().map(|row| tables.of_row(claim.pool, row));
            let kinds: HashSet<Kind> = rows.collect();
            self.ledger.keep(host, |kind| kinds.contains(&kind));
        }
    }

    /// The devices of claims on a node.
    pub(crate) fn planned_on_node(&self, compiled: &Tables, at: NodeId) -> Vec<PlannedClaim> {
        self.planned(compiled, Host::Node(at), |_| Vec::new())
    }

    /// The devices of claims on a new NodeClaim, by what it may become.
    pub(crate) fn planned_on_claim(
        &self,
        compiled: &Tables,
        at: NewClaimId,
        claim: &Claim,
    ) -> Vec<PlannedClaim> {
        let Some(tables) = &compiled.devices else { return Vec::new() };
        self.planned(compiled, Host::NewClaim(at), |kind| {
            let rows = claim.rows.iter().filter(|row| tables.of_row(claim.pool, *row) == kind);
            let mut names: Vec<Str> =
                rows.map(|row| compiled.row(claim.pool, row).instance_type.name.clone()).collect();
            names.dedup();
            names
        })
    }

    fn planned(&self, compiled: &Tables, host: Host, types: impl Fn(Kind) -> Vec<Str>) -> Vec<PlannedClaim> {
        let Some(tables) = &compiled.devices else { return Vec::new() };
        let mut planned: BTreeMap<(&NamespacedName, Kind), Vec<PlannedDevice>> = BTreeMap::new();
        for (kind, held) in self.ledger.on(host) {
            for held in held {
                let template = held.given.device.template;
                let inventory = if template { &tables.kinds[kind] } else { &tables.cluster };
                let device = PlannedDevice {
                    request: held.request.clone(),
                    id: inventory.items[held.given.device.at].id.clone(),
                    template,
                };
                planned.entry((&self.ids[held.claim.position()], kind)).or_default().push(device);
            }
        }
        let planned = planned.into_iter();
        planned
            .map(|((claim, kind), devices)| PlannedClaim {
                claim: claim.clone(),
                instance_types: types(kind),
                devices,
            })
            .collect()
    }
}

/// Gives a pod its devices on a node and returns what is left of the node's choice; `None` where it gets none.
pub(crate) fn devices_on_node(
    grants: Option<&mut Grants>,
    compiled: &mut Tables,
    class: PodClassId,
    at: NodeId,
    open: Option<Req>,
) -> Option<Option<Req>> {
    if !compiled.classes[class].claims_devices() {
        return Some(open);
    }
    grants?.on_node(compiled, class, at, open)
}

/// Narrows what a new NodeClaim becomes with a pod to what has devices for it.
pub(crate) fn devices_on_claim(
    grants: Option<&Grants>,
    compiled: &mut Tables,
    topology: (&Demand, DomainId),
    ask: &Ask<'_>,
    fit: Fit,
) -> Result<Fit, Refusal> {
    if !compiled.classes[topology.0.class].claims_devices() {
        return Ok(fit);
    }
    grants.ok_or(Refusal::Devices)?.on_claim(compiled, topology, ask, fit)
}

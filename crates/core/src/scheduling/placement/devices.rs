//! Devices of pods with resource claims: a slow path of its own.
//!
//! A pass keeps its own ledger of devices. The stages see three calls: [`DeviceGrants::fit_node`] and
//! [`DeviceGrants::fit_claim`] look for devices, [`DeviceGrants::take`] records what was found, and
//! [`DeviceGrants::planned`] is the result. A pass without resource claims has no ledger.

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
            allocated::AllocatedDevice,
            compiled_claim::CompiledClaim,
            ledger::{Grant, HeldDevice, Ledger, TemplateId},
            problem::{ClaimProblem, DeviceShortage},
            search::{Failure, NodeReach, SearchSpace, search},
        },
        ids::{
            CompiledClaimId, Host, Id as _, IdVec, InstanceTypeId, NodeId, NodePoolId, PodClassId,
            ResourceClaimId,
        },
        placement::{
            allowed_domains::{TopologyDemand, obeys_by_key},
            claim::{self, Claim, Fit, FitRequest, Refusal, Target},
        },
        plan::{PlannedClaim, PlannedDevice},
        request::Request,
        tables::{
            Tables,
            bits::Bits,
            devices::{DeviceGrant, DeviceTables, NodeSelection, NodeTerrain},
            intern::{ANY, Req},
        },
    },
};

/// The maximum number of pods of a claim (`ResourceClaimReservedForMaxSize`).
const MAX_CONSUMERS: usize = 256;
/// The maximum number of claims of a pod.
const MAX_CLAIMS: usize = 64;

/// Devices in a pass.
#[derive(Debug)]
pub(crate) struct DeviceGrants {
    tables: RefCell<Box<DeviceTables>>,
    ledger: Ledger,
    /// Claims that get devices.
    ids: IndexSet<NamespacedName>,
    /// By class.
    asked: HashMap<PodClassId, PodClaims>,
    /// Steps of all searches.
    steps: Cell<u64>,
}

/// The resource claims of a pod.
#[derive(Debug, Default)]
struct PodClaims {
    /// Claims that have their devices, and the nodes that can use them.
    held: Vec<(NamespacedName, NodeSelection)>,
    /// Claims that get them in this pass, by number.
    wanted: Vec<(ResourceClaimId, Arc<CompiledClaim>)>,
}

/// The ResourceClaim behind a claim of a pod; `None` where it needs none.
fn claim_of(pod: &Pod, name: &Str, source: &ClaimSource) -> Option<NamespacedName> {
    let named = |claim: &Str| NamespacedName::new(pod.id.namespace.clone(), claim.clone());
    match source {
        ClaimSource::Claim(claim) => Some(named(claim)),
        ClaimSource::Template(_) => match pod.generated_claims.iter().find(|made| made.name == *name) {
            Some(made) => made.claim.as_ref().map(named),
            // As the cluster will call it, but for a suffix.
            None => Some(named(&format!("{}-{name}", pod.id.name).into())),
        },
    }
}

impl DeviceGrants {
    /// The ledger of a pass, `None` where no pod has claims, and the classes whose claims are satisfied on no node.
    pub(crate) fn new(
        tables: &mut Tables,
        request: &Request<'_>,
        classes: &[PodClassId],
    ) -> (Option<Box<Self>>, HashMap<PodClassId, ClaimProblem>) {
        let mut problems = HashMap::new();
        let claiming: Vec<PodClassId> =
            classes.iter().copied().filter(|class| tables.classes[*class].claims_devices()).collect();
        if claiming.is_empty() || tables.rules.ignore_dra {
            return (None, problems);
        }
        let device_tables = tables.devices.take().filter(|device_tables| device_tables.is_current(tables));
        let device_tables = device_tables.unwrap_or_else(|| Box::new(DeviceTables::new(tables)));
        let bound = request.pods.iter().filter(|pod| pod.node.is_some());
        let moving: HashSet<&PodUid> = bound.map(|pod| &pod.uid).collect();
        // Devices that only moving pods hold are allocated again.
        let is_redone = |claim: &ResourceClaim| {
            !claim.reserved_for.is_empty() && claim.reserved_for.iter().all(|pod| moving.contains(pod))
        };
        let mut ledger = Ledger::default();
        let claims = &tables.snapshot.devices.claims;
        for claim in claims.values().filter(|claim| !is_redone(claim)) {
            let devices = claim.allocation.iter().flat_map(|allocation| &allocation.devices);
            devices.for_each(|device| ledger.hold(device, &device_tables.cluster));
        }
        let (ids, asked, steps) = (IndexSet::new(), HashMap::new(), Cell::new(0));
        let mut this = Self { tables: RefCell::new(device_tables), ledger, ids, asked, steps };
        for class in claiming {
            let pod = Arc::clone(&tables.classes[class].pod);
            match this.ask(tables, &pod, &is_redone) {
                Ok(asked) => drop(this.asked.insert(class, asked)),
                Err(problem) => drop(problems.insert(class, problem)),
            }
        }
        (Some(Box::new(this)), problems)
    }

    /// The tables, for the next pass.
    pub(crate) fn into_tables(self) -> Box<DeviceTables> {
        self.tables.into_inner()
    }

    fn ask(
        &mut self,
        tables: &mut Tables,
        pod: &Pod,
        is_redone: &impl Fn(&ResourceClaim) -> bool,
    ) -> Result<PodClaims, ClaimProblem> {
        let devices = Arc::clone(&tables.snapshot.devices);
        let mut asked = PodClaims::default();
        for claim in pod.spec.resource_claims.iter().take(MAX_CLAIMS) {
            let Some(id) = claim_of(pod, &claim.name, &claim.source) else { continue };
            if let Some(refused) = &devices.refused {
                return Err(ClaimProblem::Refused(refused.clone()));
            }
            let spec = match (devices.claims.get(&id), &claim.source) {
                (Some(known), _) if known.deleting => return Err(ClaimProblem::Deleting(id)),
                (Some(known), _) => {
                    if let Some(allocation) = known.allocation.as_ref().filter(|_| !is_redone(known)) {
                        let others = known.reserved_for.iter().filter(|other| **other != pod.uid);
                        let full = others.count() >= MAX_CONSUMERS;
                        let nodes = if full { &Nodes::None } else { &allocation.nodes };
                        asked.held.push((id, NodeSelection::new(nodes, &mut tables.universe)));
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
            let want = self.tables.get_mut().want(&id, spec)?;
            let number = ResourceClaimId::new(self.ids.insert_full(id).0);
            if !asked.wanted.iter().any(|(known, _)| *known == number) {
                asked.wanted.push((number, want));
            }
        }
        Ok(asked)
    }

    /// Looks for devices for a pod on a node as any of `template_ids` or, where `every`, as all of them.
    fn allocate(
        &self,
        device_tables: &mut DeviceTables,
        terrain: &mut NodeTerrain<'_>,
        class: PodClassId,
        host: Host,
        (template_ids, every): (&[TemplateId], bool),
        req: Req,
    ) -> Result<DeviceGrant, DeviceShortage> {
        let none = PodClaims::default();
        let asked = self.asked.get(&class).unwrap_or(&none);
        let mut req = req;
        for (claim, nodes) in &asked.held {
            let elsewhere = || DeviceShortage::Elsewhere { claim: claim.clone() };
            req = terrain.narrow(req, nodes).first().copied().ok_or_else(elsewhere)?;
        }
        let mut open: IdVec<CompiledClaimId, (ResourceClaimId, Arc<CompiledClaim>)> = IdVec::default();
        for (number, want) in &asked.wanted {
            match self.ledger.host_of(*number) {
                None => {
                    open.push((*number, Arc::clone(want)));
                }
                Some(other) if other == host => {}
                Some(other) => req = self.follow(device_tables, terrain, *number, other, req)?,
            }
        }
        let mut grant =
            Grant { claims: open.iter().map(|(number, _)| *number).collect(), by_kind: Vec::new(), at: req };
        if open.is_empty() {
            grant.by_kind = template_ids.iter().map(|template_id| (*template_id, Vec::new())).collect();
            return Ok(grant);
        }
        let wants: IdVec<CompiledClaimId, Arc<CompiledClaim>> =
            open.iter().map(|(_, want)| Arc::clone(want)).collect();
        let mut first = None;
        for template_id in template_ids.iter().copied() {
            let result = self.search_as(device_tables, terrain, host, template_id, &wants, grant.at);
            match result {
                Ok((req, given)) => {
                    grant.at = req;
                    let held = given.into_iter().map(|given| HeldDevice {
                        claim: open[given.claim].0,
                        request: wants[given.claim].requests[given.request].options[given.option]
                            .name
                            .clone(),
                        given,
                    });
                    grant.by_kind.push((template_id, held.collect()));
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
        device_tables: &mut DeviceTables,
        terrain: &mut NodeTerrain<'_>,
        host: Host,
        template_id: TemplateId,
        wants: &IdVec<CompiledClaimId, Arc<CompiledClaim>>,
        req: Req,
    ) -> Result<(Req, Vec<AllocatedDevice>), Failure> {
        let seen = device_tables.seen_by(terrain.node);
        let DeviceTables { cluster, kinds, .. } = device_tables;
        let template = &mut kinds[template_id];
        let lens = self.ledger.lens(host, template_id, cluster, template);
        let mut field =
            SearchSpace { cluster, visible: &seen.items, pools: &seen.pools, template, lens: &lens };
        let (result, steps) = search(&mut field, terrain, wants, req);
        self.steps.set(self.steps.get().saturating_add(steps));
        result
    }

    /// What is left of a node's choice where it uses the devices that a claim got on another node.
    fn follow(
        &self,
        device_tables: &DeviceTables,
        terrain: &mut NodeTerrain<'_>,
        number: ResourceClaimId,
        other: Host,
        mut req: Req,
    ) -> Result<Req, DeviceShortage> {
        let bound = || DeviceShortage::Shared { claim: self.ids[number.position()].clone() };
        for held in self.ledger.on(other).flat_map(|(_, held)| held).filter(|held| held.claim == number) {
            let device = held.given.device;
            if device.template {
                return Err(bound());
            }
            let item = &device_tables.cluster.items[device.at];
            if item.device.binds_to_node {
                return Err(bound());
            }
            req = terrain.reach(req, item.place, &item.id.driver).first().copied().ok_or_else(bound)?;
        }
        Ok(req)
    }

    fn shortage(
        &self,
        open: &IdVec<CompiledClaimId, (ResourceClaimId, Arc<CompiledClaim>)>,
        failure: Failure,
    ) -> DeviceShortage {
        let name = |claim: CompiledClaimId| self.ids[open[claim].0.position()].clone();
        match failure {
            Failure::TooWide { claim } => DeviceShortage::TooWide { claim: name(claim) },
            Failure::Pool { claim, request, driver, pool, invalid } => {
                let request = open[claim].1.requests[request].name.clone();
                DeviceShortage::Pool { claim: name(claim), request, driver, pool, invalid }
            }
            Failure::Devices { claim, request, option, wanted, tally } => {
                let option = &open[claim].1.requests[request].options[option];
                let (request, class) = (option.name.clone(), option.class.clone());
                DeviceShortage::Devices { claim: name(claim), request, class, wanted, tally }
            }
        }
    }

    /// How much work the searches were.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.get()
    }

    fn grant(
        &self,
        tables: &Tables,
        class: PodClassId,
        host: Host,
        template_ids: (&[TemplateId], bool),
        req: Req,
    ) -> Result<DeviceGrant, DeviceShortage> {
        let device_tables = &mut *self.tables.borrow_mut();
        let places = Arc::clone(&device_tables.places);
        let node = match host {
            Host::Node(node) => Some(&tables.nodes[node]),
            Host::NewClaim(_) => None,
        };
        let mut terrain = NodeTerrain::new(device_tables, &places, &tables.universe, node);
        self.allocate(device_tables, &mut terrain, class, host, template_ids, req)
    }

    /// Devices for a pod on a node, whose requirements are `open` before launch.
    pub(crate) fn fit_node(
        &self,
        tables: &Tables,
        class: PodClassId,
        node_id: NodeId,
        open: Option<Req>,
    ) -> Result<DeviceGrant, DeviceShortage> {
        let template_ids = self.tables.borrow_mut().of_node(tables, node_id, open);
        self.grant(tables, class, Host::Node(node_id), (&template_ids, true), open.unwrap_or(ANY))
    }

    /// Narrows a new NodeClaim to the rows that have devices for a pod.
    pub(crate) fn fit_claim(
        &self,
        tables: &Tables,
        demand: &TopologyDemand,
        ask: &FitRequest<'_>,
        fit: Fit,
    ) -> Result<Fit, Refusal> {
        let Target { pool, host, rows, .. } = ask.target;
        let rows = fit.rows.unwrap_or_else(|| rows.clone());
        let template_ids = template_ids(&self.tables.borrow(), pool, &rows);
        let grant = self.grant(tables, demand.class, host.host(), (&template_ids, false), ask.req);
        let mut grant = grant.map_err(|shortage| Refusal::Devices(Box::new(shortage)))?;
        if grant.at != ask.req && obeys_by_key(tables, demand, grant.at).is_err() {
            return Err(Refusal::DeviceDomains);
        }
        let device_tables = self.tables.borrow();
        let has = |row: &InstanceTypeId| {
            let template_id = device_tables.of_row(pool, *row);
            grant.by_kind.iter().any(|(known, _)| *known == template_id)
        };
        let kept: Bits<InstanceTypeId> = rows.iter().filter(has).collect();
        let target = Target { rows: &kept, ..ask.target };
        let again = FitRequest { target, req: grant.at, ..*ask };
        let mut fit = claim::fit(tables, &again)?;
        let rows = fit.rows.unwrap_or(kept);
        let template_ids: Vec<TemplateId> = rows.iter().map(|row| device_tables.of_row(pool, row)).collect();
        grant.by_kind.retain(|(template_id, _)| template_ids.contains(template_id));
        (fit.rows, fit.grant) = (Some(rows), Some(Box::new(grant)));
        Ok(fit)
    }

    /// Records the devices that a node or new NodeClaim gets, and lets go of those that a new NodeClaim would only have had as
    /// what it cannot become any more.
    pub(crate) fn take(&mut self, host: Host, grant: Option<Box<DeviceGrant>>, claim: Option<&Claim>) {
        let device_tables = self.tables.get_mut();
        if let Some(grant) = grant {
            self.ledger.give(host, *grant, &device_tables.cluster);
        }
        if let Some(claim) = claim.filter(|_| self.ledger.holds(host)) {
            let template_ids = template_ids(device_tables, claim.pool, &claim.rows);
            self.ledger.keep(host, |template_id| template_ids.contains(&template_id));
        }
    }

    /// The devices of claims on a node, or on a new NodeClaim by what that may become.
    pub(crate) fn planned(&self, tables: &Tables, host: Host, claim: Option<&Claim>) -> Vec<PlannedClaim> {
        let device_tables = self.tables.borrow();
        let types = |template_id: TemplateId| {
            let of_claim = claim.into_iter().flat_map(|claim| claim.rows.iter().map(|row| (claim.pool, row)));
            let rows = of_claim.filter(|(pool, row)| device_tables.of_row(*pool, *row) == template_id);
            let mut names: Vec<Str> =
                rows.map(|(pool, row)| tables.row(pool, row).instance_type.name.clone()).collect();
            names.dedup();
            names
        };
        let mut planned: BTreeMap<(&NamespacedName, TemplateId), Vec<PlannedDevice>> = BTreeMap::new();
        for (template_id, held) in self.ledger.on(host) {
            for held in held {
                let template = held.given.device.template;
                let inventory =
                    if template { &device_tables.kinds[template_id] } else { &device_tables.cluster };
                let device = PlannedDevice {
                    request: held.request.clone(),
                    id: inventory.items[held.given.device.at].id.clone(),
                    template,
                };
                planned.entry((&self.ids[held.claim.position()], template_id)).or_default().push(device);
            }
        }
        let planned = planned.into_iter();
        planned
            .map(|((claim, template_id), devices)| PlannedClaim {
                claim: claim.clone(),
                instance_types: types(template_id),
                devices,
            })
            .collect()
    }
}

/// The distinct template sets of some rows.
fn template_ids(
    device_tables: &DeviceTables,
    pool: NodePoolId,
    rows: &Bits<InstanceTypeId>,
) -> Vec<TemplateId> {
    let mut template_ids: Vec<TemplateId> = Vec::new();
    for template_id in rows.iter().map(|row| device_tables.of_row(pool, row)) {
        if !template_ids.contains(&template_id) {
            template_ids.push(template_id);
        }
    }
    template_ids
}

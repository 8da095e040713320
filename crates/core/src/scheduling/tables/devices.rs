//! The devices of a snapshot, prepared for passes: built with the first request that has claims, and kept until the
//! devices change.

use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::{
    model::{
        DeviceTemplates, Devices, NamespacedName, Requirement, Str, device::Nodes, labels::INSTANCE_TYPE,
        resource_claim::ClaimSpec,
    },
    scheduling::{
        dra::{
            compiled_claim::{CompiledClaim, Expressions},
            inventory::Inventory,
            ledger::{Grant, TemplateId},
            problem::ClaimProblem,
            search::NodeReach,
        },
        ids::{IdVec, InstanceTypeId, NodeId, NodePoolId},
        tables::{
            Tables,
            intern::{Req, Side, Universe},
            nodes::NodeRow,
            pools::agrees,
            shared::Shared,
        },
    },
};

/// Devices for a pod on a new NodeClaim.
pub(crate) type DeviceGrant = Grant<Req>;

/// The template set without devices.
pub(crate) const BARE: TemplateId = 0;

/// Devices of the cluster and of the templates of instance types.
#[derive(Debug)]
pub(crate) struct DeviceTables {
    source: Arc<Devices>,
    pub(crate) cluster: Inventory,
    /// By place of the cluster's inventory.
    pub(crate) places: Arc<[NodeSelection]>,
    /// By template set.
    pub(crate) kinds: Vec<Inventory>,
    templates: Vec<Arc<DeviceTemplates>>,
    /// By pool and row.
    rows: IdVec<NodePoolId, IdVec<InstanceTypeId, TemplateId>>,
    /// Devices and pools that are not one node's.
    wide: VisibleDevices,
    /// Those that are, by the node's name.
    by_node: HashMap<Str, VisibleDevices>,
    expressions: Expressions,
    wants: HashMap<Shared<ClaimSpec>, Arc<CompiledClaim>>,
}

/// Indices into an inventory, ascending.
#[derive(Clone, Debug, Default)]
pub(crate) struct VisibleDevices {
    pub(crate) items: Vec<usize>,
    pub(crate) pools: Vec<usize>,
}

/// Which nodes a place is.
#[derive(Clone, Debug)]
pub(crate) enum NodeSelection {
    /// All.
    All,
    /// The one that is called so.
    Named(Str),
    /// One of these terms holds: for the labels, and for the name.
    Selected(Vec<(Req, Vec<Requirement>)>),
}

impl NodeSelection {
    pub(crate) fn new(nodes: &Nodes, universe: &mut Universe) -> Self {
        match nodes {
            Nodes::All => Self::All,
            Nodes::None => Self::Selected(Vec::new()),
            Nodes::Named(name) => Self::Named(name.clone()),
            Nodes::Selected(terms) => Self::Selected(
                terms.iter().map(|term| (universe.req(&term.labels), term.names.clone())).collect(),
            ),
        }
    }
}

impl DeviceTables {
    pub(crate) fn new(tables: &mut Tables) -> Self {
        let source = Arc::clone(&tables.snapshot.devices);
        let cluster = Inventory::of_cluster(source.slices.values().map(|slice| &**slice));
        let places =
            cluster.places.iter().map(|nodes| NodeSelection::new(nodes, &mut tables.universe)).collect();
        let (mut wide, mut by_node) = (VisibleDevices::default(), HashMap::<Str, VisibleDevices>::new());
        for (index, item) in cluster.items.iter().enumerate() {
            match &cluster.places[item.place] {
                Nodes::Named(name) => by_node.entry(name.clone()).or_default().items.push(index),
                _ => wide.items.push(index),
            }
        }
        for (index, pool) in cluster.pools.iter().enumerate() {
            let places: SmallVec<[&Nodes; 4]> =
                pool.places.iter().map(|place| &cluster.places[*place]).collect();
            match places[..] {
                [Nodes::Named(name)] => by_node.entry(name.clone()).or_default().pools.push(index),
                _ => wide.pools.push(index),
            }
        }
        let mut this = Self {
            source,
            cluster,
            places,
            kinds: vec![Inventory::default()],
            templates: vec![Arc::default()],
            rows: IdVec::default(),
            wide,
            by_node,
            expressions: Expressions::default(),
            wants: HashMap::new(),
        };
        this.rows = tables
            .pools
            .iter()
            .map(|pool| pool.rows.iter().map(|row| this.kind(&row.instance_type.devices)).collect())
            .collect();
        this
    }

    /// Whether they are those of the solver's snapshot.
    pub(crate) fn is_current(&self, tables: &Tables) -> bool {
        Arc::ptr_eq(&self.source, &tables.snapshot.devices) && self.rows.len() == tables.pools.len()
    }

    /// The id of a set of device templates.
    fn kind(&mut self, templates: &Arc<DeviceTemplates>) -> TemplateId {
        let same = |known: &Arc<DeviceTemplates>| Arc::ptr_eq(known, templates) || known == templates;
        self.templates.iter().position(same).unwrap_or_else(|| {
            self.templates.push(Arc::clone(templates));
            self.kinds.push(Inventory::of_templates(templates));
            self.kinds.len() - 1
        })
    }

    /// The template set of a row.
    pub(crate) fn of_row(&self, pool: NodePoolId, row: InstanceTypeId) -> TemplateId {
        self.rows[pool][row]
    }

    /// A claim ready for the search.
    pub(crate) fn want(
        &mut self,
        id: &NamespacedName,
        spec: &Arc<ClaimSpec>,
    ) -> Result<Arc<CompiledClaim>, ClaimProblem> {
        let key = Shared::new(spec);
        if let Some(want) = self.wants.get(&key) {
            return Ok(Arc::clone(want));
        }
        let want = Arc::new(CompiledClaim::new(id, spec, &self.source.classes, &mut self.expressions)?);
        self.wants.insert(key, Arc::clone(&want));
        Ok(want)
    }

    /// What a node might see of the cluster's devices.
    pub(crate) fn seen_by(&self, node: Option<&NodeRow>) -> VisibleDevices {
        let name = node.and_then(|node| node.state.node_name());
        let Some(own) = name.and_then(|name| self.by_node.get(&**name)) else { return self.wide.clone() };
        let merge = |a: &[usize], b: &[usize]| {
            let mut all = [a, b].concat();
            all.sort_unstable();
            all
        };
        VisibleDevices {
            items: merge(&own.items, &self.wide.items),
            pools: merge(&own.pools, &self.wide.pools),
        }
    }

    /// Drivers that have published a whole pool for a node alone.
    pub(crate) fn published(&self, node: &str) -> Vec<Str> {
        let pools = self.by_node.get(node).map_or(&[][..], |seen| &seen.pools);
        let mut drivers: Vec<Str> = Vec::new();
        for driver in pools.iter().map(|pool| &self.cluster.pools[*pool].driver) {
            let mut all =
                pools.iter().map(|pool| &self.cluster.pools[*pool]).filter(|pool| pool.driver == *driver);
            if !drivers.contains(driver) && all.all(|pool| !pool.incomplete && !pool.invalid) {
                drivers.push(driver.clone());
            }
        }
        drivers
    }

    /// The template sets that a node may have: one, or before launch those of all instance types that its claim allows.
    pub(crate) fn of_node(
        &mut self,
        tables: &Tables,
        node_id: NodeId,
        choice: Option<Req>,
    ) -> Vec<TemplateId> {
        let node = &tables.nodes[node_id];
        if let (Some(choice), Some(pool)) = (choice, node.pool) {
            let rows = tables.pools[pool].rows.entries();
            let allowed = rows.filter(|(_, row)| agrees(&tables.universe, row.req, choice));
            let mut template_ids: Vec<TemplateId> = allowed.map(|(row, _)| self.rows[pool][row]).collect();
            template_ids.sort_unstable();
            template_ids.dedup();
            return if template_ids.is_empty() { vec![BARE] } else { template_ids };
        }
        if node.initialized {
            return vec![BARE];
        }
        let catalog = node.state.pool().and_then(|pool| tables.snapshot.catalog(&pool));
        let found = catalog.zip(node.state.label(INSTANCE_TYPE));
        let Some(instance_type) = found.and_then(|(catalog, name)| catalog.get(name)) else {
            return vec![BARE];
        };
        let published = node.state.node_name().map(|name| self.published(name)).unwrap_or_default();
        if published.is_empty() {
            return vec![self.kind(&instance_type.devices)];
        }
        // Published devices are in the cluster; the template does not add them again.
        let mut rest = (*instance_type.devices).clone();
        rest.slices.retain(|slice| !published.contains(&slice.driver));
        vec![self.kind(&Arc::new(rest))]
    }
}

/// One node, or one that does not exist yet.
pub(crate) struct NodeTerrain<'a> {
    pub(crate) universe: &'a Universe,
    pub(crate) places: &'a [NodeSelection],
    pub(crate) node: Option<&'a NodeRow>,
    /// Drivers whose devices on the node can be relied on, where it is not initialized.
    pub(crate) published: Vec<Str>,
}

impl<'a> NodeTerrain<'a> {
    pub(crate) fn new(
        device_tables: &DeviceTables,
        places: &'a [NodeSelection],
        universe: &'a Universe,
        node: Option<&'a NodeRow>,
    ) -> Self {
        let unready = node.filter(|node| !node.initialized);
        let name = unready.and_then(|node| node.state.node_name());
        let published = name.map(|name| device_tables.published(name)).unwrap_or_default();
        Self { universe, places, node, published }
    }

    /// What is remaining of the node's choice req a place.
    pub(crate) fn narrow(&mut self, req: Req, place: &NodeSelection) -> SmallVec<[Req; 2]> {
        match place {
            NodeSelection::All => smallvec::smallvec![req],
            NodeSelection::Named(name) => {
                let is = |node: &NodeRow| node.state.node_name().is_some_and(|node| **node == **name);
                self.node.is_some_and(is).then_some(req).into_iter().collect()
            }
            NodeSelection::Selected(terms) => {
                let mut remaining: SmallVec<[Req; 2]> = SmallVec::new();
                for (selected, names) in terms {
                    remaining.extend(self.term(req, *selected, names).filter(|req| !remaining.contains(req)));
                }
                remaining
            }
        }
    }

    fn term(&mut self, node_req: Req, req: Req, names: &[Requirement]) -> Option<Req> {
        let node = self.node.and_then(|node| node.state.node_name());
        let is_called = |name: &str| names.iter().all(|wanted| wanted.has(name));
        if !names.is_empty() && !node.is_some_and(|name| is_called(name)) {
            return None;
        }
        match self.node {
            Some(node) if node.choice.is_none() => {
                node.satisfies(None, self.universe, req).then_some(node_req)
            }
            _ => self.universe.meet(node_req, req, Side::Claim),
        }
    }
}

impl NodeReach for NodeTerrain<'_> {
    type At = Req;

    fn reach(&mut self, req: Req, place: usize, driver: &Str) -> SmallVec<[Req; 2]> {
        let places = self.places;
        let place = &places[place];
        let ready = self.node.is_none_or(|node| node.initialized);
        if matches!(place, NodeSelection::Named(_)) && !ready && !self.published.contains(driver) {
            return SmallVec::new();
        }
        self.narrow(req, place)
    }
}

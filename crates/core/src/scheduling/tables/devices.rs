//! What a snapshot has in devices, ready for passes: built with the first request that has claims, and kept until the
//! snapshot has other devices.

use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::{
    model::{
        DeviceTemplates, Devices, NamespacedName, Requirement, Str, device::Nodes, labels::INSTANCE_TYPE,
        requirements::Requirements, resource_claim::ClaimSpec,
    },
    scheduling::{
        dra::{
            inventory::Inventory,
            ledger::Kind,
            search::Ground,
            want::{Expressions, Want},
            why::ClaimProblem,
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

/// The kind without templates.
pub(crate) const BARE: Kind = 0;

/// Devices of the cluster and of the templates of instance types.
#[derive(Debug)]
pub(crate) struct DeviceTables {
    source: Arc<Devices>,
    pub(crate) cluster: Inventory,
    /// By place of the cluster's inventory.
    places: Vec<Place>,
    /// By kind.
    pub(crate) kinds: Vec<Inventory>,
    templates: Vec<Arc<DeviceTemplates>>,
    /// By pool and row.
    rows: IdVec<NodePoolId, IdVec<InstanceTypeId, Kind>>,
    /// Devices and pools that are not one node's.
    wide: Seen,
    /// Those that are, by the node's name.
    by_node: HashMap<Str, Seen>,
    expressions: Expressions,
    wants: HashMap<Shared<ClaimSpec>, Arc<Want>>,
}

/// Indices into an inventory, ascending.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) items: Vec<usize>,
    pub(crate) pools: Vec<usize>,
}

/// Which nodes a place is.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// All.
    All,
    /// The one that is called so.
    Named(Str),
    /// One of these terms holds: for the labels, and for the name.
    Selected(Vec<(Req, Vec<Requirement>)>),
}

impl Place {
    pub(crate) fn new(nodes: &Nodes, universe: &mut Universe) -> Self {
        match nodes {
            Nodes::All => Self::All,
            Nodes::None => Self::Selected(Vec::new()),
            Nodes::Named(name) => Self::Named(name.clone()),
            Nodes::Selected(terms) => Self::Selected(
                terms
                    .iter()
                    .map(|term| {
                        let labels: Requirements = term.labels.iter().cloned().collect();
                        (universe.req(&labels), term.names.clone())
                    })
                    .collect(),
            ),
        }
    }
}

impl DeviceTables {
    pub(crate) fn new(compiled: &mut Tables) -> Self {
        let source = Arc::clone(&compiled.snapshot.devices);
        let cluster = Inventory::of_cluster(source.slices.values().map(|slice| &**slice));
        let places = cluster.places.iter().map(|nodes| Place::new(nodes, &mut compiled.universe)).collect();
        let (mut wide, mut by_node) = (Seen::default(), HashMap::<Str, Seen>::new());
        for (at, item) in cluster.items.iter().enumerate() {
            match &cluster.places[item.place] {
                Nodes::Named(name) => by_node.entry(name.clone()).or_default().items.push(at),
                _ => wide.items.push(at),
            }
        }
        for (at, pool) in cluster.pools.iter().enumerate() {
            let places: SmallVec<[&Nodes; 4]> =
                pool.places.iter().map(|place| &cluster.places[*place]).collect();
            match places[..] {
                [Nodes::Named(name)] => by_node.entry(name.clone()).or_default().pools.push(at),
                _ => wide.pools.push(at),
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
        this.rows = compiled
            .pools
            .iter()
            .map(|pool| pool.rows.iter().map(|row| this.kind(&row.instance_type.devices)).collect())
            .collect();
        this
    }

    /// Whether they are those of the solver's snapshot.
    pub(crate) fn is_current(&self, compiled: &Tables) -> bool {
        Arc::ptr_eq(&self.source, &compiled.snapshot.devices) && self.rows.len() == compiled.pools.len()
    }

    /// The kind of nodes with these devices.
    fn kind(&mut self, templates: &Arc<DeviceTemplates>) -> Kind {
        let same = |known: &Arc<DeviceTemplates>| Arc::ptr_eq(known, templates) || known == templates;
        self.templates.iter().position(same).unwrap_or_else(|| {
            self.templates.push(Arc::clone(templates));
            self.kinds.push(Inventory::of_templates(templates));
            self.kinds.len() - 1
        })
    }

    /// The kind of a row.
    pub(crate) fn of_row(&self, pool: NodePoolId, row: InstanceTypeId) -> Kind {
        self.rows[pool][row]
    }

    /// A claim ready for the search.
    pub(crate) fn want(
        &mut self,
        id: &NamespacedName,
        spec: &Arc<ClaimSpec>,
    ) -> Result<Arc<Want>, ClaimProblem> {
        let key = Shared::new(spec);
        if let Some(want) = self.wants.get(&key) {
            return Ok(Arc::clone(want));
        }
        let want = Arc::new(Want::new(id, spec, &self.source.classes, &mut self.expressions)?);
        self.wants.insert(key, Arc::clone(&want));
        Ok(want)
    }

    /// What a node might see of the cluster's devices.
    pub(crate) fn seen_by(&self, node: Option<&NodeRow>) -> Seen {
        let name = node.and_then(|node| node.state.node_name());
        let Some(own) = name.and_then(|name| self.by_node.get(&**name)) else { return self.wide.clone() };
        let merge = |a: &[usize], b: &[usize]| {
            let mut all = [a, b].concat();
            all.sort_unstable();
            all
        };
        Seen { items: merge(&own.items, &self.wide.items), pools: merge(&own.pools, &self.wide.pools) }
    }

    /// Drivers that have published a whole pool for a node alone.
    pub(crate) fn published(&self, node: &str) -> Vec<Str> {
        let pools = self.by_node.get(node).map_or(&[][..], |seen| &seen.pools);
        let mut drivers: Vec<Str> = Vec::new();
        for of in pools.iter().map(|at| &self.cluster.pools[*at].driver) {
            let mut all = pools.iter().map(|at| &self.cluster.pools[*at]).filter(|pool| pool.driver == *of);
            if !drivers.contains(of) && all.all(|pool| !pool.incomplete && !pool.invalid) {
                drivers.push(of.clone());
            }
        }
        drivers
    }

    /// The kinds that a node may be: one, or while it is not launched all that its claim allows.
    pub(crate) fn of_node(&mut self, compiled: &Tables, at: NodeId, open: Option<Req>) -> Vec<Kind> {
        let node = &compiled.nodes[at];
        if let (Some(open), Some(pool)) = (open, node.pool) {
            let rows = compiled.pools[pool].rows.entries();
            let allowed = rows.filter(|(_, row)| agrees(&compiled.universe, row.req, open));
            let mut kinds: Vec<Kind> = allowed.map(|(row, _)| self.rows[pool][row]).collect();
            kinds.sort_unstable();
            kinds.dedup();
            return if kinds.is_empty() { vec![BARE] } else { kinds };
        }
        if node.initialized {
            return vec![BARE];
        }
        let catalog = node.state.pool().and_then(|pool| compiled.snapshot.catalog(&pool));
        let found = catalog.zip(node.state.label(INSTANCE_TYPE));
        let Some(instance_type) = found.and_then(|(catalog, name)| catalog.get(name)) else {
            return vec![BARE];
        };
        let published = node.state.node_name().map(|name| self.published(name)).unwrap_or_default();
        if published.is_empty() {
            return vec![self.kind(&instance_type.devices)];
        }
        // What is published is there, and will not be again.
        let mut rest = (*instance_type.devices).clone();
        rest.slices.retain(|slice| !published.contains(&slice.driver));
        vec![self.kind(&Arc::new(rest))]
    }
}

/// One node, or one that does not exist yet.
pub(crate) struct Terrain<'a> {
    pub(crate) universe: &'a mut Universe,
    pub(crate) places: &'a [Place],
    pub(crate) node: Option<&'a NodeRow>,
    /// Drivers whose devices on the node can be relied on, where it is not initialized.
    pub(crate) published: Vec<Str>,
}

impl<'a> Terrain<'a> {
    pub(crate) fn new(
        tables: &DeviceTables,
        places: &'a [Place],
        universe: &'a mut Universe,
        node: Option<&'a NodeRow>,
    ) -> Self {
        let unready = node.filter(|node| !node.initialized);
        let name = unready.and_then(|node| node.state.node_name());
        let published = name.map(|name| tables.published(name)).unwrap_or_default();
        Self { universe, places, node, published }
    }

    /// What is left of the node's choice at a place.
    pub(crate) fn at(&mut self, at: Req, place: &Place) -> SmallVec<[Req; 2]> {
        match place {
            Place::All => smallvec::smallvec![at],
            Place::Named(name) => {
                let is = |node: &NodeRow| node.state.node_name().is_some_and(|node| **node == **name);
                self.node.is_some_and(is).then_some(at).into_iter().collect()
            }
            Place::Selected(terms) => {
                let mut left: SmallVec<[Req; 2]> = SmallVec::new();
                for (req, names) in terms {
                    left.extend(self.term(at, *req, names).filter(|req| !left.contains(req)));
                }
                left
            }
        }
    }

    fn term(&mut self, at: Req, req: Req, names: &[Requirement]) -> Option<Req> {
        let node = self.node.and_then(|node| node.state.node_name());
        let is_called = |name: &str| names.iter().all(|wanted| wanted.has(name));
        if !names.is_empty() && !node.is_some_and(|name| is_called(name)) {
            return None;
        }
        match self.node {
            Some(node) if node.choice.is_none() => node.could_satisfy(self.universe, req).then_some(at),
            _ => self.universe.meet(at, req, Side::Claim),
        }
    }
}

impl Ground for Terrain<'_> {
    type At = Req;

    fn reach(&mut self, at: Req, place: usize, driver: &Str) -> SmallVec<[Req; 2]> {
        let places = self.places;
        let place = &places[place];
        let ready = self.node.is_none_or(|node| node.initialized);
        if matches!(place, Place::Named(_)) && !ready && !self.published.contains(driver) {
            return SmallVec::new();
        }
        self.at(at, place)
    }
}

impl DeviceTables {
    /// The places, out of the tables while those are searched.
    pub(crate) fn take_places(&mut self) -> Vec<Place> {
        std::mem::take(&mut self.places)
    }

    /// Puts them back.
    pub(crate) fn put_places(&mut self, places: Vec<Place>) {
        self.places = places;
    }
}

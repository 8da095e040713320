//! What there is to give: devices in pools, with the counters that they share.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use hashbrown::HashMap;

use crate::model::{
    Quantity, Selector, Str,
    device::{CounterSet, Device, DeviceId, DeviceTemplates, Nodes, ResourceSlice},
};

/// Devices, pools and counters.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    /// By driver, pool and slice, in the driver's order.
    pub(crate) items: Vec<Item>,
    pub(crate) pools: Vec<Pool>,
    /// What each counter has in all, in nano units.
    pub(crate) counters: Vec<i128>,
    /// Which nodes can use what: told apart by index.
    pub(crate) places: Vec<Nodes>,
    /// Whether a device matches an expression.
    matches: HashMap<(u32, usize), bool>,
    /// Groups of devices that will share an attribute whose value nobody knows yet.
    bindings: HashMap<(Str, usize), usize>,
}

/// A device in its pool.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) id: DeviceId,
    pub(crate) device: Arc<Device>,
    /// Index of its place.
    pub(crate) place: usize,
    /// What it takes of counters: index and nano units.
    pub(crate) uses: Vec<(usize, i128)>,
    /// The first device that differs from it in nothing but the name.
    pub(crate) alike: usize,
    /// Whether nodes may compete for it, or for a counter that it uses.
    pub(crate) wide: bool,
}

/// Slices with one driver and name.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) driver: Str,
    pub(crate) name: Str,
    /// Slices of its generation are missing.
    pub(crate) incomplete: bool,
    /// It contradicts itself: names occur twice, or counters are used that it does not have.
    pub(crate) invalid: bool,
    /// Places from where it can be seen.
    pub(crate) places: BTreeSet<usize>,
}

/// What makes up a pool.
#[derive(Default)]
struct PoolParts<'a> {
    generation: i64,
    slices: i64,
    seen: i64,
    devices: Vec<(&'a Arc<Device>, Nodes)>,
    counters: Vec<&'a CounterSet>,
    nodes: Vec<Nodes>,
}

impl Inventory {
    /// What drivers have published.
    pub(crate) fn of_cluster<'a>(slices: impl Iterator<Item = &'a ResourceSlice>) -> Self {
        let mut pools: BTreeMap<(&Str, &Str), PoolParts<'a>> = BTreeMap::new();
        for slice in slices {
            let parts = pools.entry((&slice.driver, &slice.pool)).or_default();
            if parts.seen == 0 || slice.generation > parts.generation {
                *parts =
                    PoolParts { generation: slice.generation, slices: slice.slices, ..PoolParts::default() };
            } else if slice.generation < parts.generation {
                continue;
            }
            parts.seen += 1;
            parts.nodes.push(slice.nodes.clone());
            parts.counters.extend(&slice.counters);
            let nodes_of = |device: &Arc<Device>| device.nodes.clone().unwrap_or_else(|| slice.nodes.clone());
            parts.devices.extend(slice.devices.iter().map(|device| (device, nodes_of(device))));
        }
        let mut this = Self::default();
        for ((driver, pool), parts) in pools {
            this.add_pool(driver, pool, &parts);
        }
        this.settle();
        this
    }

    /// What a node will have.
    pub(crate) fn of_templates(templates: &DeviceTemplates) -> Self {
        let mut pools: BTreeMap<(&Str, &Str), PoolParts<'_>> = BTreeMap::new();
        for slice in &templates.slices {
            let parts = pools.entry((&slice.driver, &slice.pool)).or_default();
            parts.devices.extend(slice.devices.iter().map(|device| (device, Nodes::All)));
            parts.counters.extend(&slice.counters);
        }
        let mut this = Self::default();
        for ((driver, pool), parts) in pools {
            this.add_pool(driver, pool, &parts);
        }
        this.bind(templates);
        this.settle();
        this
    }

    fn add_pool(&mut self, driver: &Str, name: &Str, parts: &PoolParts<'_>) {
        let mut counters: BTreeMap<(&Str, &Str), usize> = BTreeMap::new();
        let mut sets: BTreeSet<&Str> = BTreeSet::new();
        let mut invalid = false;
        for set in &parts.counters {
            invalid |= !sets.insert(&set.name);
            for (counter, amount) in &set.counters {
                counters.insert((&set.name, counter), self.counters.len());
                self.counters.push(amount.nanos());
            }
        }
        let mut names: BTreeSet<&Str> = BTreeSet::new();
        let first = self.items.len();
        let mut places: BTreeSet<usize> = parts.nodes.iter().map(|nodes| self.place(nodes)).collect();
        for (device, nodes) in &parts.devices {
            let place = self.place(nodes);
            places.insert(place);
            invalid |= !names.insert(&device.name);
            let uses = device.consumes.iter().flat_map(|used| {
                used.counters.iter().map(move |(counter, amount)| ((&used.set, counter), amount))
            });
            let known =
                |(key, amount): ((&Str, &Str), &Quantity)| Some((*counters.get(&key)?, amount.nanos()));
            let uses: Option<Vec<(usize, i128)>> = uses.map(known).collect();
            invalid |= uses.is_none();
            self.items.push(Item {
                id: DeviceId { driver: driver.clone(), pool: name.clone(), device: device.name.clone() },
                device: Arc::clone(device),
                place,
                uses: uses.unwrap_or_default(),
                alike: self.items.len(),
                wide: !matches!(nodes, Nodes::Named(_)),
            });
        }
        if invalid {
            self.items.truncate(first);
        }
        if places.len() > 1 {
            self.items[first..].iter_mut().filter(|item| !item.uses.is_empty()).for_each(|i| i.wide = true);
        }
        self.pools.push(Pool {
            driver: driver.clone(),
            name: name.clone(),
            incomplete: parts.seen != parts.slices,
            invalid,
            places,
        });
    }

    /// The index of a place.
    pub(crate) fn place(&mut self, nodes: &Nodes) -> usize {
        self.places.iter().position(|known| known == nodes).unwrap_or_else(|| {
            self.places.push(nodes.clone());
            self.places.len() - 1
        })
    }

    /// Joins the devices of each binding; what shares a device with another binding of the attribute is one group.
    fn bind(&mut self, templates: &DeviceTemplates) {
        for binding in templates.bindings.iter().filter(|binding| binding.devices.len() > 1) {
            let among = |item: &Item| binding.devices.contains(&item.id);
            let members: Vec<usize> = self
                .items
                .iter()
                .enumerate()
                .filter(|(_, item)| among(item))
                .map(|(index, _)| index)
                .collect();
            let Some(first) = members.first().copied() else { continue };
            let key = |index: usize| (binding.attribute.clone(), index);
            let joined: Vec<usize> =
                members.iter().filter_map(|index| self.bindings.get(&key(*index)).copied()).collect();
            for ((attribute, _), group) in &mut self.bindings {
                if *attribute == binding.attribute && joined.contains(group) {
                    *group = first;
                }
            }
            for index in members {
                self.bindings.insert(key(index), first);
            }
        }
    }

    /// Notes which devices are alike.
    fn settle(&mut self) {
        let groups: Vec<BTreeSet<(&Str, usize)>> = (0..self.items.len())
            .map(|index| {
                let own_bindings = self.bindings.iter().filter(|((_, item), _)| *item == index);
                own_bindings.map(|((attribute, _), group)| (attribute, *group)).collect()
            })
            .collect();
        let mut first: BTreeMap<(&Str, usize, usize), Vec<usize>> = BTreeMap::new();
        let mut alike: Vec<usize> = Vec::with_capacity(self.items.len());
        for (index, item) in self.items.iter().enumerate() {
            let key = (&item.id.driver, item.place, item.device.attributes.len());
            let known = first.entry(key).or_default();
            let same = |other: &&usize| {
                let (a, b) = (&*self.items[**other].device, &*item.device);
                self.items[**other].uses == item.uses
                    && groups[**other] == groups[index]
                    && (&a.attributes, &a.capacity, &a.taints) == (&b.attributes, &b.capacity, &b.taints)
                    && (a.shared, a.binds_to_node) == (b.shared, b.binds_to_node)
            };
            // Few devices of a driver differ on one node; where they do, telling them apart is all that is lost.
            let equal = known.iter().take(8).find(same).copied();
            if equal.is_none() {
                known.push(index);
            }
            alike.push(equal.unwrap_or(index));
        }
        for (item, alike) in self.items.iter_mut().zip(alike) {
            item.alike = alike;
        }
    }

    /// Whether a device matches expressions, each with its number. One that cannot be evaluated on it does not match.
    pub(crate) fn matches(&mut self, selectors: &[(u32, Selector)], index: usize) -> bool {
        let item = &self.items[index];
        selectors.iter().all(|(id, selector)| {
            *self.matches.entry((*id, index)).or_insert_with(|| {
                let verdict = selector.predicate.as_ref().map(|is| is.matches(&item.id.driver, &item.device));
                matches!(verdict, Ok(Ok(true)))
            })
        })
    }

    /// The group of devices that will share an attribute with this one.
    pub(crate) fn group(&self, attribute: &Str, index: usize) -> Option<usize> {
        if self.bindings.is_empty() {
            return None;
        }
        self.bindings.get(&(attribute.clone(), index)).copied()
    }

    /// A device by its name.
    pub(crate) fn find(&self, id: &DeviceId) -> Option<usize> {
        // Pools are sorted by driver and name, and devices stand in their pools.
        let key = |item: &Item| (item.id.driver.clone(), item.id.pool.clone());
        let wanted = (id.driver.clone(), id.pool.clone());
        let first = self.items.partition_point(|item| key(item) < wanted);
        let rest = self.items[first..].iter().take_while(|item| key(item) == wanted);
        rest.into_iter().position(|item| item.id.device == id.device).map(|index| first + index)
    }
}

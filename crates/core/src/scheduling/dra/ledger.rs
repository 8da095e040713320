//! The holders of devices: allocations of the cluster, and those of the pass.
//!
//! A node that does not exist yet may still become one of several kinds, and holds devices as each of them. Only one
//! will come true: to others a device of the cluster is taken if it is by any kind, and of counters and capacities the
//! most that any kind takes.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::{HashMap, HashSet};

use crate::{
    model::{Str, resource_claim::GivenDevice},
    scheduling::{
        dra::{Ref, allocated::AllocatedDevice, inventory::Inventory},
        ids::{CompiledClaimId, Host, ResourceClaimId},
    },
};

/// A set of device templates, by index.
pub(crate) type TemplateId = usize;

/// A device that a claim holds on a node.
#[derive(Clone, Debug)]
pub(crate) struct HeldDevice {
    /// The claim.
    pub(crate) claim: ResourceClaimId,
    /// `request` or `request/subrequest`.
    pub(crate) request: Str,
    pub(crate) given: AllocatedDevice,
}

/// Devices for a pod on one node.
#[derive(Debug)]
pub(crate) struct Grant<At> {
    /// The claims that get devices.
    pub(crate) claims: Vec<ResourceClaimId>,
    pub(crate) by_kind: Vec<(TemplateId, Vec<HeldDevice>)>,
    /// The remaining requirements of the node.
    pub(crate) at: At,
}

/// All that is held.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// What allocations of the cluster hold.
    before: Sums,
    hosts: BTreeMap<Host, BTreeMap<TemplateId, Vec<HeldDevice>>>,
    /// Nodes that hold what others might want.
    wide: BTreeSet<Host>,
    /// Claims that got their devices in this pass, and where.
    claims: HashMap<ResourceClaimId, Host>,
}

/// The held devices, from the view of one node with one template set.
#[derive(Debug)]
pub(crate) struct HeldDevices<'a> {
    before: &'a Sums,
    pass: Sums,
}

/// Sums of held devices, capacities and counters.
#[derive(Debug, Default)]
struct Sums {
    in_use: HashSet<Ref>,
    /// Of capacities of shared devices.
    consumed: HashMap<(Ref, Str), i128>,
    /// Of counters.
    charged: HashMap<Ref, i128>,
}

impl HeldDevices<'_> {
    /// Whether a device is given to anyone.
    pub(crate) fn is_in_use(&self, device: Ref) -> bool {
        self.before.in_use.contains(&device) || self.pass.in_use.contains(&device)
    }

    /// What is taken of a capacity of a shared device.
    pub(crate) fn consumed(&self, device: Ref, name: &Str) -> i128 {
        let amount_of = |sums: &Sums| sums.consumed.get(&(device, name.clone())).copied().unwrap_or(0);
        amount_of(self.before).saturating_add(amount_of(&self.pass))
    }

    /// What is taken of a counter.
    pub(crate) fn charged(&self, counter: Ref) -> i128 {
        let amount_of = |sums: &Sums| sums.charged.get(&counter).copied().unwrap_or(0);
        amount_of(self.before).saturating_add(amount_of(&self.pass))
    }
}

impl Sums {
    fn hold(&mut self, given: &AllocatedDevice, inventory: &Inventory) {
        if given.admin {
            return;
        }
        self.in_use.insert(given.device);
        for (name, amount) in &given.consumed {
            let sum = self.consumed.entry((given.device, name.clone())).or_default();
            *sum = sum.saturating_add(*amount);
        }
        if given.charged {
            for (counter, amount) in &inventory.items[given.device.at].uses {
                let sum = self.charged.entry(Ref { at: *counter, ..given.device }).or_default();
                *sum = sum.saturating_add(*amount);
            }
        }
    }

    /// Adds what another node takes.
    fn add(&mut self, other: &Self) {
        self.in_use.extend(&other.in_use);
        for (key, amount) in &other.consumed {
            let sum = self.consumed.entry(key.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
        for (key, amount) in &other.charged {
            let sum = self.charged.entry(*key).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }

    /// Takes the maximum of this and another template set of the same node.
    fn most(&mut self, other: &Self) {
        self.in_use.extend(&other.in_use);
        for (key, amount) in &other.consumed {
            let most = self.consumed.entry(key.clone()).or_default();
            *most = (*most).max(*amount);
        }
        for (key, amount) in &other.charged {
            let most = self.charged.entry(*key).or_default();
            *most = (*most).max(*amount);
        }
    }
}

impl Ledger {
    /// Notes a device that an allocation of the cluster holds.
    pub(crate) fn hold(&mut self, held: &GivenDevice, cluster: &Inventory) {
        let Some(index) = cluster.find(&held.id) else { return };
        let device = Ref { template: false, at: index };
        let given = AllocatedDevice {
            claim: CompiledClaimId::FIRST,
            request: 0,
            option: 0,
            device,
            admin: held.admin,
            consumed: held.consumed.iter().map(|(name, amount)| (name.clone(), amount.nanos())).collect(),
            charged: !self.before.in_use.contains(&device),
        };
        self.before.hold(&given, cluster);
    }

    /// The held devices, from the view of a node with one template set.
    pub(crate) fn lens(
        &self,
        host: Host,
        kind: TemplateId,
        cluster: &Inventory,
        template: &Inventory,
    ) -> HeldDevices<'_> {
        let mut lens = HeldDevices { before: &self.before, pass: Sums::default() };
        for other in self.wide.iter().filter(|other| **other != host) {
            let mut most = Sums::default();
            for held in self.hosts.get(other).into_iter().flat_map(BTreeMap::values) {
                let mut of_kind = Sums::default();
                let held = held.iter().filter(|held| !held.given.device.template);
                held.for_each(|held| of_kind.hold(&held.given, cluster));
                most.most(&of_kind);
            }
            lens.pass.add(&most);
        }
        for held in self.of(host, kind) {
            lens.pass.hold(&held.given, if held.given.device.template { template } else { cluster });
        }
        lens
    }

    /// The devices of a node with one template set.
    pub(crate) fn of(&self, host: Host, kind: TemplateId) -> &[HeldDevice] {
        self.hosts.get(&host).and_then(|kinds| kinds.get(&kind)).map_or(&[], Vec::as_slice)
    }

    /// The devices of a node, by template set.
    pub(crate) fn on(&self, host: Host) -> impl Iterator<Item = (TemplateId, &[HeldDevice])> {
        self.hosts.get(&host).into_iter().flatten().map(|(kind, held)| (*kind, held.as_slice()))
    }

    /// Whether a node holds anything.
    pub(crate) fn holds(&self, host: Host) -> bool {
        self.hosts.contains_key(&host)
    }

    /// The node on which a claim got its devices in this pass.
    pub(crate) fn host_of(&self, claim: ResourceClaimId) -> Option<Host> {
        self.claims.get(&claim).copied()
    }

    /// Records the devices of claims on a node, by template set.
    pub(crate) fn give<At>(&mut self, host: Host, grant: Grant<At>, cluster: &Inventory) {
        self.claims.extend(grant.claims.iter().map(|claim| (*claim, host)));
        let kinds = self.hosts.entry(host).or_default();
        for (kind, held) in grant.by_kind {
            let wide =
                |held: &HeldDevice| !held.given.device.template && cluster.items[held.given.device.at].wide;
            if held.iter().any(wide) {
                self.wide.insert(host);
            }
            kinds.entry(kind).or_default().extend(held);
        }
    }

    /// Releases the devices of template sets that a node can no longer have.
    pub(crate) fn keep(&mut self, host: Host, is_left: impl Fn(TemplateId) -> bool) {
        if let Some(kinds) = self.hosts.get_mut(&host) {
            kinds.retain(|kind, _| is_left(*kind));
        }
    }
}

//! The search for an allocation: depth-first over claims, requests and devices, bounded by a count of steps.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{
    model::{Str, device::Attribute, resource_claim::DeviceCount},
    scheduling::{
        dra::{
            MAX_DEVICES, Ref,
            allocated::AllocatedDevice,
            capacity::{self, Consumed},
            compiled_claim::{CompiledClaim, CompiledOption},
            inventory::{Inventory, Item, Pool},
            ledger::HeldDevices,
            problem::Tally,
        },
        ids::{CompiledClaimId, IdVec},
    },
};

/// Maximum number of devices that are tried for one node as one kind. A search that is not contrived needs as many as there are
/// devices, a few times over.
pub(crate) const MAX_STEPS: u64 = 20_000;

/// Decides whether a node reaches the devices of a node selection.
pub(crate) trait NodeReach {
    /// The requirements of the node.
    type At: Copy;

    /// The requirements under which the node reaches a driver's devices: alternatives, the best first.
    fn reach(&mut self, choice: Self::At, place: usize, driver: &Str) -> SmallVec<[Self::At; 2]>;
}

/// The devices of a search.
pub(crate) struct SearchSpace<'a> {
    /// The devices of the cluster.
    pub(crate) cluster: &'a mut Inventory,
    /// Of that, the devices that the node might see, ascending.
    pub(crate) visible: &'a [usize],
    /// Of that, the pools that it might see.
    pub(crate) pools: &'a [usize],
    /// The devices of the node's template set.
    pub(crate) template: &'a mut Inventory,
    /// The held devices.
    pub(crate) lens: &'a HeldDevices<'a>,
}

/// Why there is no allocation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Failure {
    /// The deepest request that failed, and the number of devices that it lacked.
    Devices { claim: CompiledClaimId, request: usize, option: usize, wanted: Option<u32>, tally: Tally },
    /// All devices are asked for, and this pool of a driver cannot be relied on: it contradicts itself, or slices are
    /// missing.
    Pool { claim: CompiledClaimId, request: usize, driver: Str, pool: Str, invalid: bool },
    /// The bound on the work was reached.
    TooWide { claim: CompiledClaimId },
}

/// The remaining requirements of the node, and the devices.
pub(crate) type Found<At> = Result<(At, Vec<AllocatedDevice>), Failure>;

struct Search<'a, 'f, G: NodeReach> {
    field: &'a mut SearchSpace<'f>,
    ground: &'a mut G,
    wants: &'a IdVec<CompiledClaimId, Arc<CompiledClaim>>,
    given: Vec<AllocatedDevice>,
    steps: u64,
    failure: Option<(usize, Failure)>,
}

/// The position of a search.
#[derive(Clone, Copy)]
struct SearchPosition {
    claim: CompiledClaimId,
    request: usize,
    option: usize,
}

/// The devices to take after one device.
#[derive(Clone, Copy)]
enum Next<'a> {
    /// This many more, none before an index.
    Slots { left: u32, from: usize },
    /// All of these.
    All(&'a [usize]),
}

/// Looks for devices for all of `wants`. Returns what is left of the node's choice, the devices, and the steps taken.
pub(crate) fn search<G: NodeReach>(
    field: &mut SearchSpace<'_>,
    ground: &mut G,
    wants: &IdVec<CompiledClaimId, Arc<CompiledClaim>>,
    choice: G::At,
) -> (Found<G::At>, u64) {
    let mut search = Search { field, ground, wants, given: Vec::new(), steps: 0, failure: None };
    let choice = search.request(CompiledClaimId::FIRST, 0, choice);
    let steps = search.steps;
    let result = match (choice, search.failure) {
        (Some(choice), _) => Ok((choice, search.given)),
        (None, Some((_, failure))) => Err(failure),
        (None, None) => Err(Failure::TooWide { claim: CompiledClaimId::FIRST }),
    };
    (result, steps)
}

impl<G: NodeReach> Search<'_, '_, G> {
    fn request(&mut self, claim: CompiledClaimId, request: usize, choice: G::At) -> Option<G::At> {
        let Some(want) = self.wants.get(claim) else { return Some(choice) };
        let Some(wanted) = want.requests.get(request) else { return self.request(claim.next(), 0, choice) };
        for (option, wanted) in wanted.options.iter().enumerate() {
            let spot = SearchPosition { claim, request, option };
            let result = match wanted.count {
                DeviceCount::Exactly(count) => self.slots(spot, wanted, count, 0, choice),
                DeviceCount::All => self.all(spot, wanted, choice),
            };
            if result.is_some() {
                return result;
            }
        }
        None
    }

    /// The device at a position: those of the cluster come first.
    fn device(&self, position: usize) -> Option<Ref> {
        let cluster = self.field.visible.len();
        if let Some(index) = self.field.visible.get(position) {
            return Some(Ref { template: false, at: *index });
        }
        let index = position - cluster;
        (index < self.field.template.items.len()).then_some(Ref { template: true, at: index })
    }

    fn inventory(&self, device: Ref) -> &Inventory {
        if device.template { self.field.template } else { self.field.cluster }
    }

    fn item(&self, device: Ref) -> &Item {
        &self.inventory(device).items[device.at]
    }

    fn slots(
        &mut self,
        spot: SearchPosition,
        wanted: &CompiledOption,
        left: u32,
        from: usize,
        choice: G::At,
    ) -> Option<G::At> {
        if left == 0 {
            return self.request(spot.claim, spot.request + 1, choice);
        }
        let mut tally = Tally::default();
        // What has failed fails again in the shape of another.
        let mut failed: SmallVec<[Ref; 8]> = SmallVec::new();
        let mut index = from;
        while let Some(device) = self.device(index) {
            index += 1;
            let alike = Ref { at: self.item(device).alike, ..device };
            if failed.contains(&alike) {
                continue;
            }
            let shared = self.item(device).device.shared;
            let next = Next::Slots { left: left - 1, from: if shared { index - 1 } else { index } };
            let (found, tried) = self.take(spot, wanted, device, choice, next, &mut tally);
            if found.is_some() {
                return found;
            }
            if self.is_spent(spot) {
                return None;
            }
            if tried && !shared {
                failed.push(alike);
            }
        }
        self.note(spot, Some(left), tally);
        None
    }

    /// All devices that match and can be reached, of which there must be one.
    fn all(&mut self, spot: SearchPosition, wanted: &CompiledOption, choice: G::At) -> Option<G::At> {
        if let Some(failure) = self.broken(spot, choice) {
            let depth = self.given.len();
            self.failure.get_or_insert((depth, failure));
            return None;
        }
        let mut tally = Tally::default();
        let mut all: Vec<usize> = Vec::new();
        let mut index = 0;
        while let Some(device) = self.device(index) {
            self.steps += 1;
            tally.seen += 1;
            if self.matches(wanted, device) && self.reaches(device, choice) {
                tally.matching += 1;
                all.push(index);
            }
            index += 1;
        }
        if all.is_empty() {
            self.note(spot, None, tally);
            return None;
        }
        self.rest(spot, wanted, &all, choice)
    }

    fn rest(
        &mut self,
        spot: SearchPosition,
        wanted: &CompiledOption,
        all: &[usize],
        choice: G::At,
    ) -> Option<G::At> {
        let Some((first, rest)) = all.split_first() else {
            return self.request(spot.claim, spot.request + 1, choice);
        };
        let device = self.device(*first)?;
        // What the devices before it have put out of reach is not there.
        if !self.reaches(device, choice) {
            return self.rest(spot, wanted, rest, choice);
        }
        let mut tally = Tally::default();
        let (found, _) = self.take(spot, wanted, device, choice, Next::All(rest), &mut tally);
        if found.is_none() && !self.is_spent(spot) {
            self.note(spot, None, tally);
        }
        found
    }

    fn reaches(&mut self, device: Ref, choice: G::At) -> bool {
        if device.template {
            return true;
        }
        let item = &self.field.cluster.items[device.at];
        !self.ground.reach(choice, item.place, &item.id.driver).is_empty()
    }

    fn matches(&mut self, wanted: &CompiledOption, device: Ref) -> bool {
        let inventory = if device.template { &mut *self.field.template } else { &mut *self.field.cluster };
        inventory.matches(&wanted.selectors, device.at)
    }

    /// A pool that is seen and cannot be relied on.
    fn broken(&mut self, spot: SearchPosition, choice: G::At) -> Option<Failure> {
        let SearchPosition { claim, request, .. } = spot;
        let broken = |pool: &Pool| Failure::Pool {
            claim,
            request,
            driver: pool.driver.clone(),
            pool: pool.name.clone(),
            invalid: pool.invalid,
        };
        for index in self.field.pools {
            let pool = &self.field.cluster.pools[*index];
            if !pool.incomplete && !pool.invalid {
                continue;
            }
            let seen =
                pool.places.iter().any(|place| !self.ground.reach(choice, *place, &pool.driver).is_empty());
            if seen {
                return Some(broken(pool));
            }
        }
        self.field.template.pools.iter().find(|pool| pool.invalid).map(broken)
    }

    /// Gives a device to a request and goes on; also says whether nothing spoke against the device itself.
    fn take(
        &mut self,
        spot: SearchPosition,
        wanted: &CompiledOption,
        device: Ref,
        choice: G::At,
        next: Next<'_>,
        tally: &mut Tally,
    ) -> (Option<G::At>, bool) {
        self.steps += 1;
        tally.seen += 1;
        if self.is_spent(spot) || !self.matches(wanted, device) {
            return (None, false);
        }
        tally.matching += 1;
        if !self.item(device).device.is_tolerated(&wanted.tolerations) {
            return (None, false);
        }
        tally.tolerated += 1;
        let Some((consumed, charged)) = self.free(spot, wanted, device) else { return (None, false) };
        tally.free += 1;
        let of_claim = self.given.iter().filter(|given| given.claim == spot.claim).count();
        if of_claim == MAX_DEVICES || !self.agrees(spot, wanted, device) {
            return (None, false);
        }
        tally.matched += 1;
        let options = if device.template {
            smallvec::smallvec![choice]
        } else {
            let item = &self.field.cluster.items[device.at];
            self.ground.reach(choice, item.place, &item.id.driver)
        };
        let reached = !options.is_empty();
        tally.reached += u32::from(reached);
        let SearchPosition { claim, request, option } = spot;
        for choice in options {
            let (admin, consumed) = (wanted.admin, consumed.clone());
            self.given.push(AllocatedDevice { claim, request, option, device, admin, consumed, charged });
            let result = match next {
                Next::Slots { left, from } => self.slots(spot, wanted, left, from, choice),
                Next::All(rest) => self.rest(spot, wanted, rest, choice),
            };
            if result.is_some() {
                return (result, true);
            }
            self.given.pop();
        }
        (None, reached)
    }

    /// What is taken of a device, and whether its counters are charged; `None` where it is not free.
    fn free(&self, spot: SearchPosition, wanted: &CompiledOption, device: Ref) -> Option<(Consumed, bool)> {
        let item = self.item(device);
        if !capacity::has(&item.device, &wanted.capacity) {
            return None;
        }
        let mut holders = self.given.iter().filter(|given| given.device == device);
        if wanted.admin {
            return (!holders.any(|given| given.claim == spot.claim)).then(|| (Consumed::new(), false));
        }
        let lens = self.field.lens;
        let mut charged = true;
        let mut consumed = Consumed::new();
        if item.device.shared {
            consumed = capacity::consumed(&item.device, &wanted.capacity)?;
            for (name, amount) in &consumed {
                let own = self.given.iter().filter(|given| given.device == device);
                let own = own.flat_map(|given| &given.consumed).filter(|(other, _)| other == name);
                let used = own.fold(lens.consumed(device, name), |sum, (_, more)| sum.saturating_add(*more));
                let total = item.device.capacity.get(name).map_or(0, |capacity| capacity.value.nanos());
                if used.saturating_add(*amount) > total {
                    return None;
                }
            }
            charged = !lens.is_in_use(device) && !holders.any(|given| given.charged);
        } else if lens.is_in_use(device) || holders.any(|given| !given.admin || given.claim == spot.claim) {
            return None;
        }
        (!charged || self.has_counters(item, device)).then_some((consumed, charged))
    }

    fn has_counters(&self, item: &Item, device: Ref) -> bool {
        let inventory = self.inventory(device);
        item.uses.iter().all(|(counter, amount)| {
            let own =
                self.given.iter().filter(|given| given.charged && given.device.template == device.template);
            let own =
                own.flat_map(|given| &self.item(given.device).uses).filter(|(other, _)| other == counter);
            let before = self.field.lens.charged(Ref { at: *counter, ..device });
            let used = own.fold(before, |sum, (_, more)| sum.saturating_add(*more));
            used.saturating_add(*amount) <= inventory.counters[*counter]
        })
    }

    /// Whether a device has the attributes of those that the claim has already, where they have to be the same.
    fn agrees(&self, spot: SearchPosition, wanted: &CompiledOption, device: Ref) -> bool {
        let want = &self.wants[spot.claim];
        want.matches.iter().all(|constraint| {
            if !constraint.applies(&want.requests[spot.request].name, &wanted.name) {
                return true;
            }
            let earlier = self.given.iter().filter(|given| given.claim == spot.claim).find(|given| {
                let request = &want.requests[given.request];
                constraint.applies(&request.name, &request.options[given.option].name)
            });
            let own = self.value(&constraint.attribute, device);
            own.is_some()
                && earlier.is_none_or(|given| self.value(&constraint.attribute, given.device) == own)
        })
    }

    /// The value of an attribute or, where nobody knows it yet, the group of devices that will share it.
    fn value(&self, attribute: &Str, device: Ref) -> Option<Result<&Attribute, usize>> {
        let item = self.item(device);
        let known = item.device.attribute(&item.id.driver, attribute).map(Ok);
        known.or_else(|| self.inventory(device).group(attribute, device.at).map(Err))
    }

    /// Whether the bound on the work is reached.
    fn is_spent(&mut self, spot: SearchPosition) -> bool {
        let spent = self.steps > MAX_STEPS;
        if spent {
            self.failure = Some((usize::MAX, Failure::TooWide { claim: spot.claim }));
        }
        spent
    }

    /// Notes why a request could not be satisfied, where the search had not come so far before.
    fn note(&mut self, spot: SearchPosition, wanted: Option<u32>, tally: Tally) {
        let depth = self.given.len();
        if self.failure.as_ref().is_none_or(|(known, _)| depth > *known) {
            let SearchPosition { claim, request, option } = spot;
            self.failure = Some((depth, Failure::Devices { claim, request, option, wanted, tally }));
        }
    }
}

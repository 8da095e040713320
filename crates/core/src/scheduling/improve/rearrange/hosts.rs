//! Nodes that pods are put on and taken off one by one: what each can become, what it costs, and how many pods that
//! groups by hostname count it has.

use smallvec::SmallVec;

use crate::scheduling::{
    ids::TopologyGroupId,
    improve::{
        float,
        patterns::{Content, Patterns, Room, Table},
    },
};

/// What groups by hostname see in a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Marks {
    /// Groups that count it.
    pub(super) counted: SmallVec<[TopologyGroupId; 4]>,
    /// Groups that it obeys, with the most that they may count on its node, itself included.
    pub(super) caps: SmallVec<[(TopologyGroupId, u32); 2]>,
}

/// Pods that are alike to the search.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// By dimension.
    pub(super) requests: Room,
    /// What they ask of labels and pools.
    pub(super) eligibility: usize,
    /// By pool: how many types a claim that holds one of them must keep.
    pub(super) types: SmallVec<[usize; 2]>,
    pub(super) marks: Marks,
}

impl Kind {
    /// Whether no two of them share a node.
    pub(super) fn is_exclusive(&self) -> bool {
        self.marks.caps.iter().any(|(group, most)| *most <= 1 && self.marks.counted.contains(group))
    }
}

/// What a group by hostname counts on a node, and the most that its pods allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tally {
    group: TopologyGroupId,
    count: u32,
    most: u32,
}

/// A node with the pods that it holds. One without pods costs nothing and is not opened.
#[derive(Clone, Debug, Default)]
pub(super) struct Host {
    pub(super) state: usize,
    pub(super) content: Content,
    pub(super) used: Room,
    /// In nano-dollars per hour.
    pub(super) price: i64,
    /// How many types it must keep.
    types: usize,
    /// What fits without another type having to be the cheapest.
    room: Room,
    tallies: SmallVec<[Tally; 6]>,
    /// Which node it was, as long as nothing about it has changed.
    pub(super) origin: Option<usize>,
}

/// What a node would become with another pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) state: usize,
    pub(super) types: usize,
    pub(super) price: i64,
}

/// See the module. A *state* is a pool under a set of requirements; it has a table.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) kinds: Vec<Kind>,
    /// By eligibility: the states of a new claim for such a pod.
    templates: Vec<Vec<usize>>,
    pub(super) tables: Vec<Table>,
    /// By state: which of the pools that take part it is of.
    pool: Vec<usize>,
    /// By state and eligibility: the state of a claim that such a pod joins.
    join: Vec<Vec<Option<usize>>>,
    pub(super) dims: usize,
}

impl Problem {
    pub(super) fn new(kinds: Vec<Kind>, templates: Vec<Vec<usize>>, patterns: Patterns) -> Self {
        let Patterns { dims, tables, pool, join, .. } = patterns;
        Self { kinds, templates, tables, pool, join, dims }
    }

    /// A node that holds one pod of each of some kinds, at what it costs; `None` where it cannot be bought.
    pub(super) fn host(&self, of: &[usize], origin: usize) -> Option<Host> {
        let template = *self.templates[self.kinds[*of.first()?].eligibility].first()?;
        let mut host = Host { state: template, types: usize::MAX, ..self.empty() };
        for kind in of {
            let this = &self.kinds[*kind];
            host.state = self.join[host.state][this.eligibility]?;
            host.types = host.types.min(this.types[self.pool[host.state]]);
            host.add(*kind, this);
        }
        let table = &self.tables[host.state];
        // What was opened with less choice than it should have is not made to pay for more.
        host.price = table.price(&host.used, host.types).or_else(|| table.price(&host.used, 0))?;
        self.note_room(&mut host);
        host.origin = Some(origin);
        Some(host)
    }

    /// Some pods that are on no node yet, at what they may cost, less the weight of one node.
    pub(super) fn heap(&self, of: impl Iterator<Item = usize>, price: i64) -> Host {
        let mut heap = Host { price, origin: Some(0), ..self.empty() };
        of.for_each(|kind| heap.add(kind, &self.kinds[kind]));
        heap
    }

    /// The cheapest way to open a node for a pod.
    pub(super) fn new_claim(&self, kind: usize) -> Option<Offer> {
        let this = &self.kinds[kind];
        let offers = self.templates[this.eligibility].iter().filter_map(|state| {
            let types = this.types[self.pool[*state]];
            let price = self.tables[*state].price(&this.requests, types)?;
            Some(Offer { state: *state, types, price })
        });
        offers.min_by_key(|offer| offer.price)
    }

    /// What a node becomes with another pod; `None` where it cannot take it.
    pub(super) fn offer(&self, host: &Host, kind: usize) -> Option<Offer> {
        let this = &self.kinds[kind];
        let state = self.join[host.state][this.eligibility]?;
        if !host.allows(this) {
            return None;
        }
        let types = host.types.min(this.types[self.pool[state]]);
        let mut used = host.used.clone();
        let mut fits = true;
        for ((used, more), room) in used.iter_mut().zip(&this.requests).zip(&host.room) {
            *used = used.saturating_add(*more);
            fits &= *used <= *room;
        }
        if fits && state == host.state && types == host.types {
            return Some(Offer { state, types, price: host.price });
        }
        let price = self.tables[state].price(&used, types)?;
        Some(Offer { state, types, price })
    }

    /// Puts a pod on a node.
    pub(super) fn put(&self, host: &mut Host, kind: usize, offer: Offer) {
        let same = (host.state, host.types, host.price) == (offer.state, offer.types, offer.price);
        (host.state, host.types, host.price) = (offer.state, offer.types, offer.price);
        host.add(kind, &self.kinds[kind]);
        host.origin = None;
        if !same || host.used.iter().zip(&host.room).any(|(used, room)| used > room) {
            self.note_room(host);
        }
    }

    /// A node without pods.
    pub(super) fn empty(&self) -> Host {
        let none: Room = SmallVec::from_elem(0, self.dims);
        Host { used: none.clone(), room: none, ..Host::default() }
    }

    /// Whether a pod may join a node of a state, as far as labels say.
    pub(super) fn joins(&self, state: usize, kind: usize) -> bool {
        self.join[state][self.kinds[kind].eligibility].is_some()
    }

    fn note_room(&self, host: &mut Host) {
        let table = &self.tables[host.state];
        // Which values the types have is another question than how much room.
        let room = if table.asks_for_values() { None } else { table.room_at_price(&host.used, host.types) };
        host.room = room.unwrap_or_else(|| host.used.clone());
    }
}

impl Host {
    fn add(&mut self, kind: usize, this: &Kind) {
        match self.content.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => self.content.push((kind, 1)),
        }
        for (used, more) in self.used.iter_mut().zip(&this.requests) {
            *used = used.saturating_add(*more);
        }
        for group in &this.marks.counted {
            self.tally(*group).count += 1;
        }
        for (group, most) in &this.marks.caps {
            let tally = self.tally(*group);
            tally.most = tally.most.min(*most);
        }
    }

    fn tally(&mut self, group: TopologyGroupId) -> &mut Tally {
        let at = self.tallies.iter().position(|tally| tally.group == group).unwrap_or_else(|| {
            self.tallies.push(Tally { group, count: 0, most: u32::MAX });
            self.tallies.len() - 1
        });
        &mut self.tallies[at]
    }

    /// Whether groups by hostname let another pod in: none may count more than any of its pods allows, in whatever order
    /// they came.
    fn allows(&self, kind: &Kind) -> bool {
        let Marks { counted, caps } = &kind.marks;
        let find = |group: TopologyGroupId| self.tallies.iter().find(|tally| tally.group == group);
        let more = |group: TopologyGroupId| u32::from(counted.contains(&group));
        counted.iter().all(|group| find(*group).is_none_or(|tally| tally.count < tally.most))
            && caps
                .iter()
                .all(|(group, most)| find(*group).map_or(0, |tally| tally.count) + more(*group) <= *most)
    }

    /// How many pods it has.
    pub(super) fn len(&self) -> usize {
        self.content.iter().map(|(_, count)| usize::try_from(*count).unwrap_or(usize::MAX)).sum()
    }

    /// What is left of what costs nothing more, each dimension weighted.
    pub(super) fn slack(&self, weights: &[f64]) -> f64 {
        let left = self.room.iter().zip(&self.used).zip(weights);
        left.map(|((room, used), weight)| float((*room - *used).max(0)) * weight).sum()
    }
}

//! The nodes of a packing: pods are put on them one by one or as a pattern, and each knows what it costs and how many pods that
//! topology groups by hostname count it has.

use smallvec::SmallVec;

use crate::scheduling::{
    ids::{ItemId, NewClaimId, TemplateId, TopologyGroupId},
    improve::{
        NODE_OVERHEAD, float,
        problem::{Content, HostnameRules, Item, Problem},
        table::Room,
    },
};

/// What a topology group by hostname counts on a node, and the most that its pods allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tally {
    group: TopologyGroupId,
    count: u32,
    most: u32,
}

/// A node with the pods that it holds.
#[derive(Clone, Debug)]
pub(super) struct Bin {
    pub(super) template: TemplateId,
    pub(super) content: Content,
    pub(super) used: Room,
    /// In nano-dollars per hour.
    pub(super) price: i64,
    /// How many types it must keep.
    types: usize,
    /// What fits without another type having to be the cheapest.
    room: Room,
    tallies: SmallVec<[Tally; 6]>,
    /// The new NodeClaim that it was, as long as nothing about it has changed.
    pub(super) origin: Option<NewClaimId>,
}

/// What a node would become with another pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    template: TemplateId,
    types: usize,
    pub(super) price: i64,
}

impl Problem {
    /// A node that holds some pods, one of each entry; `None` where it cannot be bought.
    pub(super) fn bin(&self, pods: &[ItemId], origin: NewClaimId) -> Option<Bin> {
        let first = *self.eligibilities[self.items[*pods.first()?].eligibility].first()?;
        let mut bin = Bin { template: first, types: usize::MAX, ..self.empty() };
        for equal in pods.chunk_by(|a, b| a == b) {
            let item = *equal.first()?;
            bin.template = self.join(bin.template, item)?;
            bin.types = bin.types.min(self.items[item].types[self.templates[bin.template].pool]);
            bin.add(item, u32::try_from(equal.len()).ok()?, &self.items[item]);
        }
        // What was created with less choice than it should have does not pay for more.
        let price = self.price(bin.template, &bin.used, bin.types);
        bin.price = price.or_else(|| self.price(bin.template, &bin.used, 0))?;
        self.note_room(&mut bin);
        bin.origin = Some(origin);
        Some(bin)
    }

    /// A node that holds a pattern.
    pub(super) fn filled(&self, template: TemplateId, content: &[(ItemId, u32)], price: i64) -> Bin {
        let types = self.types(template, content);
        let mut bin = Bin { template, types, price, ..self.empty() };
        content.iter().for_each(|(item, count)| bin.add(*item, *count, &self.items[*item]));
        bin
    }

    /// A node of a template that holds some pods; `None` where it cannot be had.
    pub(super) fn loaded(&self, template: TemplateId, content: &[(ItemId, u32)]) -> Option<Bin> {
        let mut bin = Bin { template, types: usize::MAX, ..self.empty() };
        for (item, count) in content {
            bin.template = self.join(bin.template, *item)?;
            bin.types = bin.types.min(self.items[*item].types[self.templates[bin.template].pool]);
            bin.add(*item, *count, &self.items[*item]);
        }
        if bin.types == 0 || bin.tallies.iter().any(|tally| tally.count > tally.most) {
            return None;
        }
        bin.price = self.price(bin.template, &bin.used, bin.types)?;
        Some(bin)
    }

    /// All pods, which are on no node yet, as what may be spent for them.
    pub(super) fn pile(&self, paid: i64) -> Bin {
        let mut pile = Bin { price: paid.saturating_sub(NODE_OVERHEAD), ..self.empty() };
        self.items.entries().for_each(|(id, item)| pile.add(id, item.count, item));
        pile
    }

    /// The cheapest way to create a node for a pod.
    pub(super) fn new_bin(&self, item: ItemId) -> Option<Offer> {
        let this = &self.items[item];
        let offers = self.eligibilities[this.eligibility].iter().filter_map(|template| {
            let types = this.types[self.templates[*template].pool];
            let price = self.price(*template, &this.requests, types)?;
            Some(Offer { template: *template, types, price })
        });
        offers.min_by_key(|offer| offer.price)
    }

    /// What a node becomes with another pod; `None` where it cannot take it.
    pub(super) fn offer(&self, bin: &Bin, item: ItemId) -> Option<Offer> {
        let template = self.join(bin.template, item)?;
        let this = &self.items[item];
        if !bin.allows(&this.hostname) {
            return None;
        }
        let types = bin.types.min(this.types[self.templates[template].pool]);
        let mut used = bin.used.clone();
        let mut fits = true;
        for ((used, more), room) in used.iter_mut().zip(&this.requests).zip(&bin.room) {
            *used = used.saturating_add(*more);
            fits &= *used <= *room;
        }
        if fits && template == bin.template && types == bin.types {
            return Some(Offer { template, types, price: bin.price });
        }
        let price = self.price(template, &used, types)?;
        Some(Offer { template, types, price })
    }

    /// Puts a pod on a node.
    pub(super) fn put(&self, bin: &mut Bin, item: ItemId, offer: Offer) {
        let same = (bin.template, bin.types, bin.price) == (offer.template, offer.types, offer.price);
        (bin.template, bin.types, bin.price) = (offer.template, offer.types, offer.price);
        bin.add(item, 1, &self.items[item]);
        bin.origin = None;
        if !same || bin.used.iter().zip(&bin.room).any(|(used, room)| used > room) {
            self.note_room(bin);
        }
    }

    /// A node without pods.
    pub(super) fn empty(&self) -> Bin {
        let none: Room = SmallVec::from_elem(0, self.dims);
        Bin {
            template: TemplateId::FIRST,
            content: Content::new(),
            used: none.clone(),
            price: 0,
            types: 0,
            room: none,
            tallies: SmallVec::new(),
            origin: None,
        }
    }

    /// Notes what fits without a higher price.
    pub(super) fn note_room(&self, bin: &mut Bin) {
        let table = &self.templates[bin.template].table;
        // Which values the types have is another question than how much room.
        let room = if table.asks_for_values() { None } else { table.room_at_price(&bin.used, bin.types) };
        bin.room = room.unwrap_or_else(|| bin.used.clone());
    }
}

impl Bin {
    /// What it costs, with the overhead of a node.
    pub(super) fn cost(&self) -> i64 {
        self.price.saturating_add(NODE_OVERHEAD)
    }

    fn add(&mut self, item: ItemId, pods: u32, this: &Item) {
        match self.content.iter_mut().find(|(known, _)| *known == item) {
            Some((_, count)) => *count += pods,
            None => self.content.push((item, pods)),
        }
        for (used, more) in self.used.iter_mut().zip(&this.requests) {
            *used = used.saturating_add(more.saturating_mul(i64::from(pods)));
        }
        for group in &this.hostname.counted {
            self.tally(*group).count += pods;
        }
        for (group, most) in &this.hostname.caps {
            let tally = self.tally(*group);
            tally.most = tally.most.min(*most);
        }
    }

    fn tally(&mut self, group: TopologyGroupId) -> &mut Tally {
        let known = self.tallies.iter().position(|tally| tally.group == group).unwrap_or_else(|| {
            self.tallies.push(Tally { group, count: 0, most: u32::MAX });
            self.tallies.len() - 1
        });
        &mut self.tallies[known]
    }

    /// Whether topology groups by hostname allow another pod: none may count more than any of its pods allows, in whatever order
    /// they were placed.
    fn allows(&self, rules: &HostnameRules) -> bool {
        let HostnameRules { counted, caps } = rules;
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
        let amounts = self.room.iter().zip(&self.used).zip(weights);
        amounts.map(|((room, used), weight)| float((*room - *used).max(0)) * weight).sum()
    }
}

/// The items of nodes, one entry for each pod.
pub(super) fn unpack<'a>(bins: impl Iterator<Item = &'a Bin>) -> Vec<ItemId> {
    let mut pods = Vec::new();
    for (item, count) in bins.flat_map(|bin| &bin.content) {
        pods.extend((0..*count).map(|_| *item));
    }
    pods
}

/// What some nodes cost, with the overhead of each.
pub(super) fn cost(bins: &[Bin]) -> i64 {
    bins.iter().fold(0, |sum, bin| sum.saturating_add(bin.cost()))
}

//! What a plan must cost at least: a covering program over resources, with a row for nodes where pods keep apart by
//! host. See [`bound`] for the program; what it leaves out (zones, weights, whole nodes) only makes the bound weaker.
//! Where no node that exists has room, one node must also hold the most demanding pod whole. Whoever has half a second learns
//! what pods cost that are all whole ([`bound::Program`]).

use hashbrown::HashMap;

use crate::{
    model::Price,
    scheduling::{
        bound::{self, Columns, PodKind},
        ids::{InstanceTypeId, NodeId, NodePoolId, PodClassId, TopologyGroupId},
        placement::Placement,
        tables::{
            Tables,
            amounts::{Amounts, fits_free, get, update},
            bits::Bits,
            intern::Req,
            topology::GroupKind,
        },
    },
};

/// Pods that topology separates by hostname: at most `per_node` of them share a node.
struct SeparatedPods {
    members: i64,
    per_node: i64,
}

/// Pods on new NodeClaims by class, ascending, and the nodes that another plan could put pods of the request on.
pub(crate) struct Bought {
    placed: Vec<(PodClassId, i64)>,
    usable: Bits<NodeId>,
}

impl Bought {
    /// Some pods on new NodeClaims, beside nodes that are not excluded; `request` has the classes of all pods.
    pub(crate) fn new(
        tables: &Tables,
        placed: impl IntoIterator<Item = PodClassId>,
        excluded: &Bits<NodeId>,
        request: impl IntoIterator<Item = PodClassId>,
    ) -> Self {
        let mut counts: HashMap<PodClassId, i64> = HashMap::new();
        placed.into_iter().for_each(|class| *counts.entry(class).or_insert(0) += 1);
        let mut placed: Vec<(PodClassId, i64)> = counts.into_iter().collect();
        placed.sort_unstable();
        Self { placed, usable: usable(tables, excluded, request) }
    }

    /// No plan for these pods can cost less, by what resources cost, less what the usable nodes have room for.
    pub(crate) fn lower_bound(&self, tables: &Tables, placement: &Placement) -> Price {
        if self.placed.is_empty() {
            return Price::ZERO;
        }
        let mut demand = self.demand(tables);
        for node_id in self.usable.iter() {
            let free = &placement.room(node_id).free;
            for (slot, amount) in demand.iter_mut().enumerate() {
                *amount = amount.saturating_sub(get(free, slot).max(0));
            }
        }
        let apart = apart(tables, placement, &self.placed, &self.usable);
        let columns = columns(tables, &offers(tables, &self.placed), demand.len(), Some(apart.per_node));
        demand.push(apart.members);
        let sum = bound::lower_bound(&demand, &columns);
        // Where nothing else has room, the pod that is dearest by itself needs a node that holds it whole.
        if self.usable.is_empty() { sum.max(dearest(tables, &self.placed)) } else { sum }
    }

    /// What the pods request together.
    fn demand(&self, tables: &Tables) -> Vec<i64> {
        let mut demand = Amounts::new();
        for (class, count) in &self.placed {
            let add = |sum: i64, amount: i64| sum.saturating_add(amount.saturating_mul(*count));
            update(&mut demand, &tables.classes[*class].requests, add);
        }
        demand.to_vec()
    }

    /// No plan for these pods can cost less, since each is whole; zero where nodes that exist may have room for some.
    pub(crate) fn whole_pods_bound(&self, tables: &Tables) -> Price {
        if self.placed.is_empty() || !self.usable.is_empty() {
            return Price::ZERO;
        }
        let offers = offers(tables, &self.placed);
        let rows = self.demand(tables).len();
        let kinds = kinds(tables, &self.placed, &offers, rows);
        kinds.map_or(Price::ZERO, |kinds| bound::whole_pods(&kinds, &columns(tables, &offers, rows, None)))
    }
}

/// The offers, with a row for each resource and, given `per_node`, one for pods that keep apart: at most `per_node` share a node.
fn columns(tables: &Tables, offers: &[Offered], resources: usize, per_node: Option<i64>) -> Columns {
    let mut columns = Columns::new(resources + usize::from(per_node.is_some()));
    for ((pool, row), price) in offers {
        let free = &tables.row(*pool, *row).free;
        columns.push(*price, (0..resources).map(|at| get(free, at)).chain(per_node));
    }
    columns
}

/// What decides which offers hold a pod: its requests, and what it asks of each NodePool.
type KindKey = (Vec<i64>, Vec<(NodePoolId, Req)>);

/// Pods that are equal to the bound by whole pods: those that differ neither in requests nor in what may be bought for them nor in how
/// many may share a node; `None` where there are too many kinds. What keeps pods of several kinds apart is left out.
fn kinds(
    tables: &Tables,
    placed: &[(PodClassId, i64)],
    offers: &[Offered],
    rows: usize,
) -> Option<Vec<PodKind>> {
    let mut bought: HashMap<(NodePoolId, Req), Bits<InstanceTypeId>> = HashMap::new();
    let mut known: HashMap<KindKey, Vec<bool>> = HashMap::new();
    let mut kinds: Vec<(PodKind, Vec<TopologyGroupId>)> = Vec::new();
    for (class, count) in placed {
        let requests = &tables.classes[*class].requests;
        let amounts: Vec<i64> = (0..rows).map(|at| get(requests, at)).collect();
        let asked = asked(tables, [*class]);
        let allowed = known.entry((amounts.clone(), asked)).or_insert_with_key(|(_, asked)| {
            for (pool, req) in asked {
                let buys = tables.pools[*pool].buys(&tables.universe, *req);
                bought.entry((*pool, *req)).or_insert_with(|| buys.iter().map(|buy| buy.row).collect());
            }
            let may = |(pool, row): &(NodePoolId, InstanceTypeId)| {
                let mut own = asked.iter().filter(|(asked, _)| asked == pool);
                own.any(|asked| bought[asked].has(*row)) && fits_free(requests, &tables.row(*pool, *row).free)
            };
            offers.iter().map(|(row, _)| may(row)).collect()
        });
        let mut groups = always_obeys(tables, *class);
        groups.sort_unstable();
        let per_node = groups.iter().map(|group| per_node(tables, *group)).min().unwrap_or(i64::MAX);
        kinds.push((PodKind { amounts, allowed: allowed.clone(), per_node, count: *count }, groups));
        if known.len() > bound::KINDS_MAX {
            return None;
        }
    }
    let mut merged = merge(&kinds);
    if merged.len() > bound::KINDS_MAX {
        for (kind, groups) in &mut kinds {
            kind.per_node = i64::MAX;
            groups.clear();
        }
        merged = merge(&kinds);
    }
    Some(merged)
}

/// One of each kind, with how many there are. Pods of other groups may share a node.
fn merge(kinds: &[(PodKind, Vec<TopologyGroupId>)]) -> Vec<PodKind> {
    let mut counts: HashMap<(PodKind, &[TopologyGroupId]), i64> = HashMap::new();
    for (kind, groups) in kinds {
        *counts.entry((PodKind { count: 0, ..kind.clone() }, groups)).or_insert(0) += kind.count;
    }
    let merged = counts.into_iter().map(|((kind, _), count)| PodKind { count, ..kind });
    let mut merged: Vec<PodKind> = merged.collect();
    merged.sort_unstable();
    merged
}

/// A row, and the least effective price at which some class can buy it.
type Offered = ((NodePoolId, InstanceTypeId), Price);

/// The NodePools that classes may use at some level, each with what is required of its nodes.
fn asked(tables: &Tables, classes: impl IntoIterator<Item = PodClassId> + Clone) -> Vec<(NodePoolId, Req)> {
    let mut asked: Vec<(NodePoolId, Req)> = Vec::new();
    for pool in tables.pools.ids() {
        for class in classes.clone() {
            for level in tables.classes[class].levels.ids() {
                asked.extend(tables.template_for(class, level, pool).map(|req| (pool, req)));
            }
        }
    }
    asked.sort_unstable();
    asked.dedup();
    asked
}

/// The price of the cheapest node for the most expensive of the pods.
fn dearest(tables: &Tables, placed: &[(PodClassId, i64)]) -> Price {
    let mut dearest = Price::ZERO;
    for (class, _) in placed {
        let mut cheapest: Option<Price> = None;
        for pool in tables.pools.ids() {
            for level in tables.classes[*class].levels.ids() {
                let Some(req) = tables.template_for(*class, level, pool) else { continue };
                let buys = tables.pools[pool].buys(&tables.universe, req);
                let requests = &tables.classes[*class].requests;
                let found = buys.iter().find(|buy| fits_free(requests, &tables.row(pool, buy.row).free));
                let price = found.map(|buy| buy.effective);
                cheapest = [cheapest, price].into_iter().flatten().min();
            }
        }
        dearest = dearest.max(cheapest.unwrap_or(Price::ZERO));
    }
    dearest
}

/// Nodes that another plan could put pods of these classes on: what is left there counts as free of charge.
fn usable(
    tables: &Tables,
    excluded: &Bits<NodeId>,
    classes: impl IntoIterator<Item = PodClassId>,
) -> Bits<NodeId> {
    let mut distinct: Vec<PodClassId> = classes.into_iter().collect();
    distinct.sort_unstable();
    distinct.dedup();
    let mut usable = Bits::default();
    for class in distinct {
        for level in tables.classes[class].levels.ids() {
            for node_id in tables.fitting(class, level).iter().filter(|node_id| !excluded.has(*node_id)) {
                usable.insert(node_id);
            }
        }
    }
    usable
}

/// The cheapest way to buy each row that some class may use, at some level, and that holds a pod of one.
fn offers(tables: &Tables, placed: &[(PodClassId, i64)]) -> Vec<Offered> {
    let asked = asked(tables, placed.iter().map(|(class, _)| *class));
    let mut cheapest: HashMap<(NodePoolId, InstanceTypeId), Price> = HashMap::new();
    for (pool, req) in asked {
        for buy in tables.pools[pool].buys(&tables.universe, req).iter() {
            let price = cheapest.entry((pool, buy.row)).or_insert(buy.effective);
            *price = buy.effective.min(*price);
        }
    }
    let mut cheapest: Vec<_> = cheapest.into_iter().collect();
    cheapest.sort_unstable();
    let holds = |class: PodClassId, (pool, row): (NodePoolId, InstanceTypeId)| {
        fits_free(&tables.classes[class].requests, &tables.row(pool, row).free)
    };
    cheapest.retain(|(row, _)| placed.iter().any(|(class, _)| holds(*class, *row)));
    cheapest
}

/// The pods on new NodeClaims that need the most nodes by keeping apart, less what the usable nodes can take of them.
fn apart(
    tables: &Tables,
    placement: &Placement,
    placed: &[(PodClassId, i64)],
    usable: &Bits<NodeId>,
) -> SeparatedPods {
    let mut most = SeparatedPods { members: 0, per_node: 1 };
    let mut members: HashMap<TopologyGroupId, i64> = HashMap::new();
    for (class, count) in placed {
        for group in always_obeys(tables, *class) {
            *members.entry(group).or_insert(0) += count;
        }
    }
    let mut members: Vec<(TopologyGroupId, i64)> = members.into_iter().collect();
    members.sort_unstable();
    for (group_id, members) in members {
        let group = placement.counted(&tables.topology, group_id);
        let per_node = per_node(tables, group_id);
        let room = usable.iter().map(|node| (per_node - i64::from(group.count(node.into()))).max(0));
        let members = members.saturating_sub(room.sum());
        if members.saturating_mul(most.per_node) > most.members.saturating_mul(per_node) {
            most = SeparatedPods { members, per_node };
        }
    }
    most
}

/// How many of its pods a topology group by hostname allows on a node.
fn per_node(tables: &Tables, group: TopologyGroupId) -> i64 {
    match tables.topology.groups[group].spec.kind {
        GroupKind::Spread { max_skew, .. } => max_skew.max(1),
        GroupKind::Anti | GroupKind::Affinity => 1,
    }
}

/// Groups by host that hold pods of a class apart from each other whatever is relaxed.
fn always_obeys(tables: &Tables, class: PodClassId) -> Vec<TopologyGroupId> {
    let class = &tables.classes[class];
    let own = &tables.topology.label_sets[class.label_set].groups;
    let mut groups: Vec<TopologyGroupId> = Vec::new();
    let Some(last) = class.levels.last() else { return groups };
    let spreads = last.groups.iter().map(|owned| owned.group);
    let spreads =
        spreads.filter(|group| matches!(tables.topology.groups[*group].spec.kind, GroupKind::Spread { .. }));
    let everywhere =
        |group: &TopologyGroupId| class.levels.iter().all(|l| l.groups.iter().any(|o| o.group == *group));
    for group in class.keeps_away.iter().copied().chain(spreads.filter(everywhere)) {
        if tables.topology.groups[group].by_hostname && own.contains(&group) && !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

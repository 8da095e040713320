//! What a plan must cost at least: a covering program over resources, with a row for nodes where pods keep apart by
//! host. See [`bound`] for the program; what it leaves out (zones, weights, whole nodes) only makes the bound weaker.
//! Where no node that exists has room, one node must also hold the most demanding pod whole, and with time for more than a first plan,
//! all pods are whole ([`bound::whole_pods_bound`]).

use hashbrown::HashMap;

use crate::{
    model::Price,
    scheduling::{
        bound::{self, Columns, PodKind},
        greedy::pass::Pass,
        ids::{IdVec, InstanceTypeId, NodeId, NodePoolId, PodClassId, PodId, TopologyGroupId},
        placement::Placement,
        request::{Effort, Request},
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
    /// The topology groups that keep as many apart.
    groups: Vec<TopologyGroupId>,
}

/// The lower bound on the price of the placed pods, less what the usable nodes have room for.
pub(crate) fn lower_bound(
    tables: &Tables,
    placement: &Placement,
    pass: &Pass,
    request: &Request<'_>,
    classes: &IdVec<PodId, PodClassId>,
) -> Price {
    if pass.claims.is_empty() {
        return Price::ZERO;
    }
    let mut demand = Amounts::new();
    let mut placed: HashMap<PodClassId, i64> = HashMap::new();
    for class in pass.claims.iter().flat_map(|claim| &claim.pods).map(|node_id| classes[*node_id]) {
        update(&mut demand, &tables.classes[class].requests, i64::saturating_add);
        *placed.entry(class).or_insert(0) += 1;
    }
    let usable = usable(tables, pass, request, classes);
    for node_id in usable.iter() {
        let free = &placement.room(node_id).free;
        for (slot, amount) in demand.iter_mut().enumerate() {
            *amount = amount.saturating_sub(get(free, slot).max(0));
        }
    }
    let mut placed: Vec<(PodClassId, i64)> = placed.into_iter().collect();
    placed.sort_unstable();
    let apart = apart(tables, placement, &placed, &usable);
    let mut demand: Vec<i64> = demand.to_vec();
    let rows = demand.len();
    demand.push(apart.members);
    let offers = offers(tables, &placed);
    let mut columns = Columns::new(rows + 1);
    for ((pool, row), price) in &offers {
        let free = &tables.row(*pool, *row).free;
        columns.push(*price, (0..rows).map(|at| get(free, at)).chain([apart.per_node]));
    }
    let sum = bound::lower_bound(&demand, &columns);
    if !usable.is_empty() {
        return sum;
    }
    // Where nothing else has room, the pod that is dearest by itself needs a node that holds it whole.
    let sum = sum.max(dearest(tables, &placed));
    match request.effort {
        Effort::First => sum,
        _ => sum.max(whole_pods(tables, &placed, &apart, (&offers, &columns), rows)),
    }
}

/// What decides which offers hold a pod: its requests, and what it asks of each NodePool.
type KindKey = (Vec<i64>, Vec<(NodePoolId, Req)>);

/// What new nodes must cost that hold whole pods, of which no node that exists takes any.
fn whole_pods(
    tables: &Tables,
    placed: &[(PodClassId, i64)],
    apart: &SeparatedPods,
    (offers, columns): (&[Offered], &Columns),
    rows: usize,
) -> Price {
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
        let kind = PodKind { amounts, allowed: allowed.clone(), count: *count };
        kinds.push((kind, always_obeys(tables, *class)));
        if known.len() > bound::KINDS_MAX {
            return Price::ZERO;
        }
    }
    // The result must not depend on the order of ids, which are given as pods come and go.
    let members = |group: &TopologyGroupId| {
        let own = kinds.iter().filter(|(_, groups)| groups.contains(group)).map(|(kind, _)| kind);
        let mut own: Vec<&PodKind> = own.collect();
        own.sort_unstable();
        own
    };
    let group = match &*apart.groups {
        [] => None,
        [only] => Some(*only),
        several => several.iter().min_by_key(|group| members(group)).copied(),
    };
    let with_row = kinds.into_iter().map(|(mut kind, groups)| {
        kind.amounts.push(i64::from(group.is_some_and(|group| groups.contains(&group))));
        kind
    });
    let mut kinds: Vec<PodKind> = with_row.collect();
    kinds.sort_unstable();
    // Classes that differ neither in requests nor in what may be bought for them are one kind.
    kinds.dedup_by(|next, kind| {
        let alike = next.amounts == kind.amounts && next.allowed == kind.allowed;
        kind.count += if alike { next.count } else { 0 };
        alike
    });
    bound::whole_pods_bound(&kinds, columns)
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

/// Nodes that another plan could put pods of the request on: what is left there counts as free of charge.
fn usable(
    tables: &Tables,
    pass: &Pass,
    request: &Request<'_>,
    classes: &IdVec<PodId, PodClassId>,
) -> Bits<NodeId> {
    let mut distinct: Vec<PodClassId> = classes.iter().take(request.pods.len()).copied().collect();
    distinct.sort_unstable();
    distinct.dedup();
    let mut usable = Bits::default();
    for class in distinct {
        for level in tables.classes[class].levels.ids() {
            for node_id in tables.fitting(class, level).iter().filter(|node_id| pass.is_there(*node_id)) {
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
    let mut most = SeparatedPods { members: 0, per_node: 1, groups: Vec::new() };
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
        let per_node = match group.spec.kind {
            GroupKind::Spread { max_skew, .. } => max_skew.max(1),
            GroupKind::Anti | GroupKind::Affinity => 1,
        };
        let room = usable.iter().map(|node| (per_node - i64::from(group.count(node.into()))).max(0));
        let members = members.saturating_sub(room.sum());
        if members.saturating_mul(most.per_node) > most.members.saturating_mul(per_node) {
            most = SeparatedPods { members, per_node, groups: vec![group_id] };
        } else if (members, per_node) == (most.members, most.per_node) {
            most.groups.push(group_id);
        }
    }
    most
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

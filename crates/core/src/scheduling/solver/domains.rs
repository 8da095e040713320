//! Which domains a topology group has, and which of them nodes and new NodeClaims are in.

use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::{
    bits::Bits,
    intern::{ANY, Key, Req, Side, Value},
    placement::GroupCounts,
    placement::Placement,
    tables::Tables,
    topology::{GroupKey, GroupKind, NodeFilter, Wanted},
};
use crate::model::{Taint, taint::first_untolerated};
use crate::scheduling::ids::{DomainId, LabelSetId, NodeId, NodePoolId, TopologyGroupId};

/// Nodes by the value of some label.
pub(super) type ByValue = HashMap<Value, Bits<NodeId>>;

impl Tables {
    /// Usable nodes by each value of a key that they have for certain.
    pub(super) fn nodes_by(&mut self, key: Key) -> &ByValue {
        if !self.by_value.contains_key(&key) {
            let mut found = ByValue::new();
            for (at, node) in self.nodes.entries().filter(|(_, node)| node.usable) {
                if let Some(value) = node.domain(&self.universe, key, node.choice) {
                    found.entry(value).or_default().insert(at);
                }
            }
            self.by_value.insert(key, found);
        }
        &self.by_value[&key]
    }

    /// Notes that a usable node has come or is leaving.
    pub(super) fn note_values(&mut self, at: NodeId, is_in: bool) {
        let node = &self.nodes[at];
        if !node.usable {
            return;
        }
        for (key, by_value) in &mut self.by_value {
            let Some(value) = node.domain(&self.universe, *key, node.choice) else { continue };
            let members = by_value.entry(value).or_default();
            members.set(at, is_in);
            if !is_in && members.is_empty() {
                by_value.remove(&value);
            }
        }
    }

    /// Those of `domains` that a requirement set allows.
    pub(super) fn possible(&self, req: Req, key: Key, domains: &[Value]) -> SmallVec<[DomainId; 2]> {
        let set = self.universe.get(req, key);
        let allowed = |value: &&Value| set.is_none_or(|set| self.universe.has(key, set, **value));
        domains.iter().filter(allowed).map(|value| DomainId::of_value(*value)).collect()
    }

    /// Whether pods on a claim of a pool with these requirements count for a group.
    pub(super) fn counts_in(&mut self, group: TopologyGroupId, pool: NodePoolId, req: Req) -> bool {
        let Some(filter) = &self.topology.groups[group].is.filter else { return true };
        if filter.counts_all() {
            return true;
        }
        let filter = filter.clone();
        filter.alternatives.iter().any(|wanted| self.universe.meet(req, *wanted, Side::Claim).is_some())
            && tolerates(&filter, &self.pools[pool].taints)
    }

    /// The values of a key that pools can create whose nodes the filter lets through: what no such pool has is no domain
    /// to kube-scheduler either, and would hold the minimum at zero.
    fn offered(&mut self, key: Key, filter: Option<&NodeFilter>) -> Vec<Value> {
        let all = self.pool_domains(key);
        let passes = |(pool, value): &&(NodePoolId, Value)| {
            filter.is_none_or(|filter| self.lets(filter, *pool, key, *value))
        };
        all.iter().filter(passes).map(|(_, value)| *value).collect()
    }

    /// Whether a filter lets nodes through that a pool can have with a value of a key.
    fn lets(&mut self, filter: &NodeFilter, pool: NodePoolId, key: Key, value: Value) -> bool {
        let Self { universe, pools, .. } = self;
        let pool = &mut pools[pool];
        if !tolerates(filter, &pool.taints) {
            return false;
        }
        if filter.alternatives[..] == [ANY] {
            return true;
        }
        let only = universe.only(key, value);
        filter.alternatives.iter().any(|wanted| {
            let met = universe.meet(pool.req, *wanted, Side::Claim);
            let there = met.and_then(|met| universe.meet(met, only, Side::Plain));
            there.is_some_and(|req| !pool.mask(universe, req).is_empty())
        })
    }

    /// Values of a key that each pool can create.
    fn pool_domains(&mut self, key: Key) -> Arc<[(NodePoolId, Value)]> {
        if let Some(known) = self.domains.get(&key) {
            return Arc::clone(known);
        }
        let mut found = Vec::new();
        for (at, pool) in self.pools.entries() {
            let template = self.universe.get(pool.req, key);
            let of_rows = pool.rows.iter().filter_map(|row| self.universe.get(row.req, key));
            let sets = of_rows.chain(template).filter(|set| !set.complement);
            let values = sets.flat_map(|set| set.values.iter().copied());
            let allowed = |value: &Value| template.is_none_or(|set| self.universe.has(key, set, *value));
            found.extend(values.filter(allowed).map(|value| (at, value)));
        }
        found.sort_unstable();
        found.dedup();
        let found: Arc<[(NodePoolId, Value)]> = found.into();
        self.domains.insert(key, Arc::clone(&found));
        found
    }
}

/// The group that is wanted, with the pods that run counted.
pub(super) fn group(tables: &mut Tables, placement: &mut Placement, wanted: Wanted<'_>) -> TopologyGroupId {
    if let Some(known) = tables.topology.find(&wanted) {
        return known;
    }
    let key = GroupKey::from(wanted);
    let by_hostname = key.key == tables.hostname;
    let domains: Arc<[Value]> = if by_hostname {
        Arc::new([])
    } else {
        registered_domains(tables, placement, key.key, key.filter.as_ref())
    };
    let of_pools = if by_hostname {
        Bits::default()
    } else {
        tables.offered(key.key, key.filter.as_ref()).into_iter().map(DomainId::of_value).collect()
    };
    placement.add_group(GroupCounts::new(key.kind, by_hostname));
    let group = tables.topology.add(key, by_hostname, domains, of_pools);
    count_everywhere(tables, placement, group);
    group
}

/// Counts the pods of all nodes that a group selects.
pub(super) fn count_everywhere(tables: &mut Tables, placement: &mut Placement, group: TopologyGroupId) {
    for kind in tables.topology.label_sets.ids() {
        if !tables.topology.label_sets[kind].groups.contains(&group) {
            continue;
        }
        for position in 0..tables.topology.label_sets[kind].nodes.len() {
            let at = tables.topology.label_sets[kind].nodes[position];
            count_kind_for(tables, placement, group, kind, at);
        }
    }
}

/// Counts the pods of one kind on a node for a group that selects them.
fn count_kind_for(
    tables: &mut Tables,
    placement: &mut Placement,
    group: TopologyGroupId,
    kind: LabelSetId,
    at: NodeId,
) {
    let counted = tables.nodes[at].label_sets.iter().find(|(known, _)| *known == kind);
    let Some(count) = counted.map(|(_, count)| i64::from(*count)) else { return };
    if counts_on(tables, placement, group, at) {
        for domain in node_domains(tables, placement, group, at) {
            placement.count_base(group, domain, false, count);
        }
    }
}

/// The domains of a group that a node may be in: one, unless its choice is open.
pub(super) fn node_domains(
    tables: &Tables,
    placement: &Placement,
    group: TopologyGroupId,
    at: NodeId,
) -> SmallVec<[DomainId; 2]> {
    let group = &tables.topology.groups[group];
    if group.by_hostname {
        return smallvec::smallvec![at.into()];
    }
    let (node, open) = (&tables.nodes[at], placement.room(at).open);
    match (node.domain(&tables.universe, group.is.key, open), open, group.is.kind) {
        (Some(value), _, _) => smallvec::smallvec![DomainId::of_value(value)],
        (None, Some(open), GroupKind::Anti) => tables.possible(open, group.is.key, &group.domains),
        _ => SmallVec::new(),
    }
}

/// Whether pods on a node count for a group.
pub(super) fn counts_on(
    tables: &mut Tables,
    placement: &Placement,
    group: TopologyGroupId,
    at: NodeId,
) -> bool {
    let Some(filter) = &tables.topology.groups[group].is.filter else { return true };
    if filter.counts_all() {
        return true;
    }
    let filter = filter.clone();
    let (node, open) = (&tables.nodes[at], placement.room(at).open);
    filter.alternatives.iter().any(|req| node.satisfies(open, &mut tables.universe, *req))
        && tolerates(&filter, &node.taints)
}

/// The domains of a key that are known, by text: those that pools can create where the filter tolerates their
/// taints, and those of nodes that it lets through.
pub(super) fn registered_domains(
    tables: &mut Tables,
    placement: &Placement,
    key: Key,
    filter: Option<&NodeFilter>,
) -> Arc<[Value]> {
    let mut found: Vec<Value> = tables.offered(key, filter);
    if filter.is_none_or(NodeFilter::counts_all) {
        found.extend(tables.nodes_by(key).keys());
    }
    let filtered = filter.filter(|filter| !filter.counts_all());
    // A node that is leaving is a node still to kube-scheduler; those that take pods are known by value.
    let nodes = tables.nodes.entries();
    let nodes = nodes.filter(|(_, node)| node.is_there() && (filtered.is_some() || node.deleting));
    for (at, node) in nodes {
        let open = placement.room(at).open;
        let Some(value) = node.domain(&tables.universe, key, open) else { continue };
        let counted = filtered.is_none_or(|filter| {
            filter.alternatives.iter().any(|req| node.satisfies(open, &mut tables.universe, *req))
                && tolerates(filter, &node.taints)
        });
        if counted {
            found.push(value);
        }
    }
    found.sort_unstable();
    found.dedup();
    found.sort_by(|a, b| tables.universe.text(key, *a).cmp(tables.universe.text(key, *b)));
    found.into()
}

/// Whether the tolerations of a filter, where it has any, cover all taints.
fn tolerates(filter: &NodeFilter, taints: &[Taint]) -> bool {
    filter.tolerations.as_ref().is_none_or(|tolerations| first_untolerated(taints, tolerations).is_none())
}

//! Topology groups and the domains that they have.

use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::{
    model::{Taint, labels, taint::first_untolerated},
    scheduling::{
        ids::{DomainId, NodeId, NodePoolId, TopologyGroupId},
        tables::{
            Tables,
            bits::Bits,
            intern::{ANY, Key, Req, Side, Value},
            topology::{GroupKey, NodeFilter, Wanted},
        },
    },
};

/// Nodes by the value of some label.
pub(crate) type ByValue = HashMap<Value, Bits<NodeId>>;

impl Tables {
    /// Usable nodes by each value of a key that they have for certain.
    pub(crate) fn nodes_by(&mut self, key: Key) -> &ByValue {
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
    pub(crate) fn note_values(&mut self, at: NodeId, is_in: bool) {
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
    pub(crate) fn possible(&self, req: Req, key: Key, domains: &[Value]) -> SmallVec<[DomainId; 2]> {
        let set = self.universe.get(req, key);
        let allowed = |value: &&Value| set.is_none_or(|set| self.universe.has(key, set, **value));
        domains.iter().filter(allowed).map(|value| DomainId::of_value(*value)).collect()
    }

    /// Whether pods on a claim of a pool with these requirements count for a group.
    pub(crate) fn counts_in(&mut self, group: TopologyGroupId, pool: NodePoolId, req: Req) -> bool {
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
        let zone = self.universe.key(labels::ZONE);
        for (at, pool) in self.pools.entries() {
            if key == zone {
                // A zone that a NodePool names and that offers nothing never has a node.
                found.extend(pool.zones.iter().map(|value| (at, *value)));
                continue;
            }
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

/// The group that is wanted. A new one has yet to be counted: a placement does so before it is asked about it.
pub(crate) fn group(tables: &mut Tables, wanted: Wanted<'_>) -> TopologyGroupId {
    if let Some(known) = tables.topology.find(&wanted) {
        return known;
    }
    let key = GroupKey::from(wanted);
    let by_hostname = key.key == tables.hostname;
    let domains: Arc<[Value]> =
        if by_hostname { Arc::new([]) } else { registered_domains(tables, key.key, key.filter.as_ref()) };
    let of_pools = if by_hostname {
        Bits::default()
    } else {
        tables.offered(key.key, key.filter.as_ref()).into_iter().map(DomainId::of_value).collect()
    };
    tables.topology.add(key, by_hostname, domains, of_pools)
}

/// The domains of a key that are known, by text: those that pools can create where the filter tolerates their
/// taints, and those of nodes that it lets through.
pub(crate) fn registered_domains(tables: &mut Tables, key: Key, filter: Option<&NodeFilter>) -> Arc<[Value]> {
    let mut found: Vec<Value> = tables.offered(key, filter);
    if filter.is_none_or(NodeFilter::counts_all) {
        found.extend(tables.nodes_by(key).keys());
    }
    let filtered = filter.filter(|filter| !filter.counts_all());
    // A node that is leaving is a node still to kube-scheduler; those that take pods are known by value.
    let nodes = tables.nodes.entries();
    let nodes = nodes.filter(|(_, node)| node.is_there() && (filtered.is_some() || node.deleting));
    for (_, node) in nodes {
        let open = node.choice;
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
pub(crate) fn tolerates(filter: &NodeFilter, taints: &[Taint]) -> bool {
    filter.tolerations.as_ref().is_none_or(|tolerations| first_untolerated(taints, tolerations).is_none())
}

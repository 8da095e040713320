//! Topology groups and the domains that they have.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::{
    model::{
        LabelSelector, Operator, Pod, PodAffinityTerm, Str, Taint, Toleration, TopologySpread,
        pod::SelectorTerm, taint::first_untolerated,
    },
    scheduling::{
        ids::{DomainId, LevelId, NodeId, NodePoolId, PodClassId, TopologyGroupId},
        tables::{
            Tables,
            bits::Bits,
            intern::{ANY, Key, Req, Side, Value},
            pools::required_alternatives,
            topology::{GroupKey, GroupKind, Namespaces, NodeFilter, Wanted},
        },
    },
};

/// Nodes by the value of some label.
pub(crate) type ByValue = HashMap<Value, Bits<NodeId>>;

impl Tables {
    /// Groups usable nodes by the values of a key that they have for certain.
    fn group_nodes(&mut self, key: Key) {
        if !self.by_value.contains_key(&key) {
            let mut by_value = ByValue::new();
            for (node_id, node) in self.nodes.entries().filter(|(_, node)| node.usable) {
                if let Some(value) = node.domain(&self.universe, key, node.choice) {
                    by_value.entry(value).or_default().insert(node_id);
                }
            }
            self.by_value.insert(key, by_value);
        }
    }

    /// Records that a usable node was added or is removed.
    pub(crate) fn note_values(&mut self, node_id: NodeId, is_in: bool) {
        let node = &self.nodes[node_id];
        if !node.usable {
            return;
        }
        for (key, by_value) in &mut self.by_value {
            let Some(value) = node.domain(&self.universe, *key, node.choice) else { continue };
            let members = by_value.entry(value).or_default();
            members.set(node_id, is_in);
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
    pub(crate) fn counts_in(&self, group: TopologyGroupId, pool: NodePoolId, req: Req) -> bool {
        let Some(filter) = &self.topology.groups[group].spec.filter else { return true };
        if filter.counts_all() {
            return true;
        }
        filter.alternatives.iter().any(|wanted| self.universe.meet(req, *wanted, Side::Claim).is_some())
            && tolerates(filter, &self.pools[pool].taints)
    }

    /// Whether pods of a class at a level count where a filter applies, whatever node they are on: each node that they may be on
    /// is one that the filter lets through.
    pub(crate) fn always_counts(&self, filter: &NodeFilter, (class, level): (PodClassId, LevelId)) -> bool {
        let class = &self.classes[class];
        let req = class.levels[level].req;
        let implied = |wanted: &Req| self.universe.meet(req, *wanted, Side::Claim) == Some(req);
        let tolerated = |tolerations: &Vec<Toleration>| {
            class.pod.spec.tolerations.iter().all(|toleration| tolerations.contains(toleration))
        };
        filter.alternatives.iter().any(implied) && filter.tolerations.as_ref().is_none_or(tolerated)
    }

    /// Whether pods on a node count where a filter applies, the node's requirements being `open`.
    pub(crate) fn lets_through(&self, filter: &NodeFilter, node_id: NodeId, open: Option<Req>) -> bool {
        let node = &self.nodes[node_id];
        let satisfies = |req: &Req| node.satisfies(open, &self.universe, *req);
        filter.counts_all() || (filter.alternatives.iter().any(satisfies) && tolerates(filter, &node.taints))
    }

    /// The values of a key that pools can create whose nodes the filter lets through: what no such pool has is no domain
    /// to kube-scheduler either, and would hold the minimum at zero.
    fn offered(&mut self, key: Key, filter: Option<&NodeFilter>) -> Vec<Value> {
        let all = self.pool_domains(key);
        let passes = |(pool, value): &&(NodePoolId, Value)| {
            filter.is_none_or(|filter| self.admits(filter, *pool, key, *value))
        };
        all.iter().filter(passes).map(|(_, value)| *value).collect()
    }

    /// Whether a filter lets nodes through that a pool can have with a value of a key.
    fn admits(&self, filter: &NodeFilter, pool: NodePoolId, key: Key, value: Value) -> bool {
        let Self { universe, pools, .. } = self;
        let pool = &pools[pool];
        if !tolerates(filter, &pool.taints) {
            return false;
        }
        if filter.alternatives[..] == [ANY] {
            return true;
        }
        filter.alternatives.iter().any(|wanted| {
            let met = universe.meet(pool.req, *wanted, Side::Claim);
            met.is_some_and(|met| pool.offers_value(universe, met, key, value))
        })
    }

    /// Values of a key that each pool can create.
    fn pool_domains(&mut self, key: Key) -> Arc<[(NodePoolId, Value)]> {
        if let Some(known) = self.domains.get(&key) {
            return Arc::clone(known);
        }
        let mut domains = Vec::new();
        for (pool_id, pool) in self.pools.entries() {
            let values = pool.named_values(&self.universe, key);
            // A value that a NodePool names and that nothing offers never has a node.
            let offered = |value: &Value| pool.offers_value(&self.universe, pool.req, key, *value);
            domains.extend(values.into_iter().filter(offered).map(|value| (pool_id, value)));
        }
        domains.sort_unstable();
        domains.dedup();
        let domains: Arc<[(NodePoolId, Value)]> = domains.into();
        self.domains.insert(key, Arc::clone(&domains));
        domains
    }
}

/// The group of a spread constraint of a pod.
pub(crate) fn spread_group(tables: &mut Tables, pod: &Pod, spread: &TopologySpread) -> TopologyGroupId {
    let alternatives = if spread.honor_node_affinity {
        required_alternatives(pod, &mut tables.universe)
    } else {
        smallvec::smallvec![ANY]
    };
    let wanted = Wanted {
        kind: GroupKind::Spread {
            max_skew: i64::from(spread.max_skew),
            min_domains: i64::from(spread.min_domains.unwrap_or(0)),
        },
        key: tables.universe.key(&spread.key),
        namespaces: Namespaces::One(pod.id.namespace.clone()),
        selector: narrowed(spread.selector.as_ref(), pod, &spread.match_label_keys, &[]),
        filter: Some(NodeFilter {
            alternatives,
            tolerations: spread.honor_node_taints.then(|| pod.spec.tolerations.clone()),
        }),
    };
    group(tables, wanted)
}

/// The group of a term of (anti-)affinity of a pod.
pub(crate) fn term_group(
    tables: &mut Tables,
    pod: &Pod,
    term: &PodAffinityTerm,
    kind: GroupKind,
) -> TopologyGroupId {
    let namespaces = match &term.namespace_selector {
        Some(selector) if selector.terms.is_empty() => Namespaces::All,
        Some(selector) => {
            let mut names = tables.snapshot.namespaces_matching(selector);
            names.extend(term.namespaces.iter().cloned());
            names.into()
        }
        None if term.namespaces.is_empty() => Namespaces::One(pod.id.namespace.clone()),
        None => term.namespaces.iter().cloned().collect::<BTreeSet<_>>().into(),
    };
    let wanted = Wanted {
        kind,
        key: tables.universe.key(&term.key),
        namespaces,
        selector: narrowed(term.selector.as_ref(), pod, &term.match_label_keys, &term.mismatch_label_keys),
        filter: None,
    };
    group(tables, wanted)
}

/// The group of a key. A placement counts a new group before it is used.
fn group(tables: &mut Tables, wanted: Wanted<'_>) -> TopologyGroupId {
    if let Some(known) = tables.topology.find(&wanted) {
        return known;
    }
    let key = GroupKey::from(wanted);
    if key.key == tables.universe.hostname() {
        return tables.topology.add(key, true, Arc::new([]), Bits::default());
    }
    tables.group_nodes(key.key);
    let domains = registered_domains(tables, key.key, key.filter.as_ref());
    let of_pools = tables.offered(key.key, key.filter.as_ref()).into_iter().map(DomainId::of_value);
    let of_pools = of_pools.collect();
    tables.topology.add(key, false, domains, of_pools)
}

/// The domains of a key that are known, by text: those that pools can create where the filter tolerates their
/// taints, and those of nodes that it lets through.
pub(crate) fn registered_domains(tables: &mut Tables, key: Key, filter: Option<&NodeFilter>) -> Arc<[Value]> {
    let mut domains: Vec<Value> = tables.offered(key, filter);
    if filter.is_none_or(NodeFilter::counts_all) {
        domains.extend(tables.by_value.get(&key).into_iter().flat_map(ByValue::keys));
    }
    let filtered = filter.filter(|filter| !filter.counts_all());
    // A node that is leaving is a node still to kube-scheduler; those that take pods are known by value.
    let nodes = tables.nodes.entries();
    let nodes = nodes.filter(|(_, node)| node.is_there() && (filtered.is_some() || node.deleting));
    for (node_id, node) in nodes {
        let choice = node.choice;
        let Some(value) = node.domain(&tables.universe, key, choice) else { continue };
        if filtered.is_none_or(|filter| tables.lets_through(filter, node_id, choice)) {
            domains.push(value);
        }
    }
    domains.sort_unstable();
    domains.dedup();
    domains.sort_by(|a, b| tables.universe.text(key, *a).cmp(tables.universe.text(key, *b)));
    domains.into()
}

/// Whether the tolerations of a filter, where it has any, cover all taints.
fn tolerates(filter: &NodeFilter, taints: &[Taint]) -> bool {
    filter.tolerations.as_ref().is_none_or(|tolerations| first_untolerated(taints, tolerations).is_none())
}

/// A selector with the pod's own values of further keys; the same where there are none, as mostly.
fn narrowed<'a>(
    selector: Option<&'a LabelSelector>,
    pod: &Pod,
    matching: &[Str],
    mismatching: &[Str],
) -> Option<Cow<'a, LabelSelector>> {
    let selector = selector?;
    if matching.is_empty() && mismatching.is_empty() && selector.terms.is_sorted_by(|a, b| a < b) {
        return Some(Cow::Borrowed(selector));
    }
    let mut selector = selector.clone();
    for (keys, operator) in [(matching, Operator::In), (mismatching, Operator::NotIn)] {
        for key in keys {
            if let Some(value) = pod.labels.get(key) {
                selector.terms.push(SelectorTerm { key: key.clone(), operator, values: vec![value.clone()] });
            }
        }
    }
    selector.terms.sort();
    selector.terms.dedup();
    Some(Cow::Owned(selector))
}

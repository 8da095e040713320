//! Nodes that exist or are on their way, as rows.

use std::sync::Arc;

use jiff::Timestamp;
use smallvec::SmallVec;

use crate::{
    model::{
        Requirement, Snapshot, StateNode, Str, Taint, TaintEffect, labels, nodeclaim::ConditionType,
        pod::HostPort,
    },
    scheduling::{
        ids::{IdVec, LabelSetId, NodePoolId, TopologyGroupId},
        tables::{
            Tables,
            amounts::{Amounts, ResourceIndex, get, update},
            domains::term_group,
            intern::{ANY, Key, Req, Set, Side, Universe, Value},
            pools::{Daemon, Pool, agrees},
            topology::GroupKind,
        },
    },
};

/// The taint of a cordoned node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// A node.
#[derive(Debug)]
pub(crate) struct NodeRow {
    pub(crate) state: Arc<StateNode>,
    /// Labels but the hostname, sorted by key.
    labels: Vec<(Key, Value)>,
    pub(crate) host: Value,
    pub(crate) taints: Arc<[Taint]>,
    /// Resources that are free for pods before any pass, less those reserved for daemons that do not run yet.
    pub(crate) spare: Amounts,
    pub(crate) capacity: Amounts,
    /// Its requirements before any pass, while it is not launched: verdicts that outlive a pass rest on them.
    pub(crate) choice: Option<Req>,
    /// Whether it takes pods: not a deleting node.
    pub(crate) usable: bool,
    pub(crate) deleting: bool,
    /// Whether it counts against limits: until it is deleted; where they are hard, until it is gone.
    pub(crate) counts_toward_limits: bool,
    pub(crate) initialized: bool,
    /// The end of its consolidateAfter window.
    pub(crate) consolidatable_at: Option<Timestamp>,
    pub(crate) ports: Vec<HostPort>,
    /// Active pods by label set.
    pub(crate) label_sets: Vec<(LabelSetId, u32)>,
    /// The group of each term of required anti-affinity that its active pods have.
    pub(crate) keeps_away: Vec<TopologyGroupId>,
    pub(crate) pool: Option<NodePoolId>,
}

impl NodeRow {
    /// The row of a node, which is not among the tables' nodes yet.
    pub(crate) fn new(state: &Arc<StateNode>, tables: &mut Tables) -> Self {
        let mut keeps_away = Vec::new();
        for pod in state.pods.iter().filter(|pod| pod.is_active()) {
            let terms = pod.spec.pod_anti_affinity.iter();
            keeps_away.extend(terms.map(|term| term_group(tables, pod, term, GroupKind::Anti)));
        }
        let Tables { snapshot, pools, daemons, universe, resources, topology, .. } = tables;
        let hostname = universe.hostname();
        let host = universe.value(hostname, &state.hostname().into());
        let awaited = awaited_labels(state);
        let mut node_labels: Vec<(Key, Value)> = Vec::with_capacity(state.labels().len());
        for (key, value) in state.labels().iter().chain(awaited.iter().map(|(key, value)| (key, value))) {
            let key = universe.key(key);
            if key != hostname {
                node_labels.push((key, universe.value(key, value)));
            }
        }
        node_labels.sort_unstable();
        node_labels.dedup_by_key(|(key, _)| *key);
        let choice = (!state.is_launched()).then(|| open_choice(state, &awaited, universe));
        let pool_name = state.label(labels::NODEPOOL);
        let pool = pools.entries().find(|(_, pool)| Some(&*pool.model.name) == pool_name).map(|(id, _)| id);
        let mut taints = state.taints();
        if state.node.as_ref().is_some_and(|node| node.cordoned) {
            let cordon = Taint::new(UNSCHEDULABLE, "", TaintEffect::NoSchedule);
            if !taints.iter().any(|taint| taint.matches(&cordon)) {
                taints.push(cordon);
            }
        }
        let mut label_sets: Vec<(LabelSetId, u32)> = Vec::new();
        let mut ports = Vec::new();
        for pod in &state.pods {
            ports.extend(pod.spec.host_ports.iter().cloned());
            if pod.is_terminating() {
                continue;
            }
            let label_set = topology.label_set(&pod.id.namespace, &pod.labels);
            match label_sets.iter_mut().find(|(known, _)| *known == label_set) {
                Some((_, count)) => *count += 1,
                None => label_sets.push((label_set, 1)),
            }
        }
        let mut row = Self {
            state: Arc::clone(state),
            labels: node_labels,
            host,
            taints: taints.into(),
            spare: resources.amounts(&state.allocatable()),
            capacity: resources.amounts(&state.charge()),
            choice,
            usable: !state.is_deleting(),
            deleting: state.is_deleting(),
            counts_toward_limits: !state.is_deleting()
                || pool.is_some_and(|pool| pools[pool].model.limits.hard),
            initialized: state.is_initialized(),
            consolidatable_at: settles(state, snapshot),
            ports,
            label_sets,
            keeps_away,
            pool,
        };
        row.size_by_types(universe, pools);
        update(&mut row.spare, &resources.amounts(&state.requested), i64::saturating_sub);
        row.reserve_daemons(universe, resources, daemons);
        row
    }

    /// Sizes a node that is not launched by what the allowed instance types have in common.
    fn size_by_types(&mut self, universe: &Universe, pools: &IdVec<NodePoolId, Pool>) {
        let (Some(choice), Some(pool)) = (self.choice, self.pool) else { return };
        if self.state.claim.as_ref().is_none_or(|claim| !claim.allocatable.is_zero()) {
            return;
        }
        let rows: Vec<_> = pools[pool].rows.iter().filter(|row| agrees(universe, row.req, choice)).collect();
        if let Some((first, rest)) = rows.split_first() {
            let mut room = first.free.clone();
            update(&mut room, &first.daemons, i64::saturating_add);
            for row in rest {
                let whole = |resource| get(&row.free, resource).saturating_add(get(&row.daemons, resource));
                for (resource, amount) in room.iter_mut().enumerate() {
                    *amount = (*amount).min(whole(resource));
                }
            }
            self.spare = room;
        }
        // Against limits it counts as the largest that it may become.
        for row in rows {
            update(&mut self.capacity, &row.capacity, i64::max);
        }
    }

    /// Reserves resources for daemons that do not run yet.
    fn reserve_daemons(&mut self, universe: &Universe, resources: &mut ResourceIndex, daemons: &[Daemon]) {
        let mut expected = Amounts::new();
        for daemon in daemons {
            let fits = daemon.alternatives.iter().any(|req| self.satisfies(self.choice, universe, *req));
            if fits && daemon.tolerates(&self.taints) {
                update(&mut expected, &daemon.requests, i64::saturating_add);
            }
        }
        update(&mut expected, &resources.amounts(&self.state.requested_by_daemons), i64::saturating_sub);
        for amount in &mut expected {
            *amount = (*amount).max(0);
        }
        update(&mut self.spare, &expected, i64::saturating_sub);
    }

    /// Whether the node can be what `req` asks for, the hostname included, where its choice is `open`.
    pub(crate) fn satisfies(&self, open: Option<Req>, universe: &Universe, req: Req) -> bool {
        if req == ANY {
            return true;
        }
        let hostname = universe.hostname();
        if let Some(open) = open {
            let named = universe.get(req, hostname).is_none_or(|set| universe.has(hostname, set, self.host));
            return named && universe.meet(open, without(universe, req, hostname), Side::Claim).is_some();
        }
        universe.sets(req).iter().all(|(key, set)| {
            let value = if *key == hostname { Some(self.host) } else { self.label(*key) };
            value.map_or_else(|| set.allows_missing(), |value| universe.has(*key, set, value))
        })
    }

    /// The value of a label other than the hostname.
    pub(crate) fn label(&self, key: Key) -> Option<Value> {
        self.labels.binary_search_by_key(&key, |(index, _)| *index).ok().map(|index| self.labels[index].1)
    }

    /// The domain of a key: the label, or the only value that the requirements allow.
    pub(crate) fn domain(&self, universe: &Universe, key: Key, open: Option<Req>) -> Option<Value> {
        match open {
            Some(open) => universe.get(open, key).and_then(Set::single),
            None => self.label(key),
        }
    }

    /// Whether the slot has a node: one that takes pods, or a deleting one.
    pub(crate) fn is_there(&self) -> bool {
        self.usable || self.deleting
    }

    /// Empties the slot of a removed node: it takes no pods and counts for no group.
    pub(crate) fn vacate(&mut self) {
        (self.usable, self.deleting, self.counts_toward_limits, self.pool) = (false, false, false, None);
        self.label_sets.clear();
        self.keeps_away.clear();
        self.taints = Arc::default();
    }

    /// Whether it has a `PreferNoSchedule` taint.
    pub(crate) fn has_preference_taint(&self) -> bool {
        self.taints.iter().any(|taint| taint.effect == TaintEffect::PreferNoSchedule)
    }
}

/// `req` without the requirement of one key.
pub(crate) fn without(universe: &Universe, req: Req, key: Key) -> Req {
    if universe.get(req, key).is_none() {
        return req;
    }
    let sets: SmallVec<[_; 4]> =
        universe.sets(req).iter().filter(|(set_key, _)| *set_key != key).cloned().collect();
    universe.conjunction(sets)
}

/// The labels that a node gets when it is initialized, which daemons may wait for.
fn awaited_labels(state: &StateNode) -> Vec<(Str, Str)> {
    if state.is_initialized() {
        return Vec::new();
    }
    let keys = [labels::REGISTERED, labels::INITIALIZED].into_iter();
    let absent = keys.filter(|key| !state.labels().contains_key(*key));
    absent.map(|key| (key.into(), "true".into())).collect()
}

/// What a NodeClaim that is not launched can become, the hostname aside.
fn open_choice(state: &StateNode, awaited: &[(Str, Str)], universe: &mut Universe) -> Req {
    let mut requirements = state.requirements();
    requirements.remove(labels::HOSTNAME);
    for (key, value) in awaited {
        requirements.add(Requirement::is_in(key.clone(), [value.clone()]));
    }
    universe.req(requirements.iter())
}

/// The end of the node's consolidateAfter window.
fn settles(state: &StateNode, snapshot: &Snapshot) -> Option<Timestamp> {
    let pool = snapshot.pool(state.label(labels::NODEPOOL)?)?;
    let claim = state.claim.as_ref()?;
    let since = claim.last_pod_event.or_else(|| claim.true_since(ConditionType::Initialized))?;
    since.checked_add(pool.consolidate_after?).ok()
}

//! Nodes that exist or are on their way, as rows.

use std::sync::Arc;

use jiff::Timestamp;
use smallvec::SmallVec;

use crate::{
    model::{
        Pod, Snapshot, StateNode, Taint, TaintEffect, labels, nodeclaim::ConditionType, pod::HostPort,
        taint::first_untolerated,
    },
    scheduling::{
        ids::{IdVec, LabelSetId, NodeId, NodePoolId, TopologyGroupId},
        tables::{
            amounts::{Amounts, ResourceIndex, get, update},
            bits::Bits,
            intern::{ANY, Key, Req, Set, Side, Universe, Value},
            pools::{Daemon, Pool, agrees},
            topology::Topology,
        },
    },
};

/// The taint that a cordon amounts to.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// A node.
#[derive(Debug)]
pub(crate) struct NodeRow {
    pub(crate) state: Arc<StateNode>,
    /// Labels but the hostname, sorted by key.
    labels: Vec<(Key, Value)>,
    pub(crate) host: Value,
    pub(crate) taints: Arc<[Taint]>,
    /// What is left for pods before any pass, once the daemons that are to come are there.
    pub(crate) spare: Amounts,
    pub(crate) capacity: Amounts,
    /// What it may become before any pass, where it is not launched: verdicts that outlive a pass rest on this.
    pub(crate) choice: Option<Req>,
    /// Whether it takes pods at all: not one that is going away.
    pub(crate) usable: bool,
    pub(crate) deleting: bool,
    /// Whether it counts against limits: where they are hard, to the end.
    pub(crate) counts: bool,
    pub(crate) initialized: bool,
    /// Until when it is inside its consolidateAfter window.
    pub(crate) settles: Option<Timestamp>,
    pub(crate) ports: Vec<HostPort>,
    /// Active pods by label set.
    pub(crate) label_sets: Vec<(LabelSetId, u32)>,
    /// The group of each term of required anti-affinity that its active pods have.
    pub(crate) keeps_away: Vec<TopologyGroupId>,
    pub(crate) pool: Option<NodePoolId>,
}

/// What building nodes needs of the solver.
pub(crate) struct Building<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) pools: &'a IdVec<NodePoolId, Pool>,
    pub(crate) daemons: &'a [Daemon],
    pub(crate) universe: &'a mut Universe,
    pub(crate) resources: &'a mut ResourceIndex,
    pub(crate) topology: &'a mut Topology,
}

impl NodeRow {
    pub(crate) fn new(state: &Arc<StateNode>, building: &mut Building<'_>) -> Self {
        let Building { snapshot, pools, daemons, universe, resources, topology } = building;
        let hostname = universe.key(labels::HOSTNAME);
        let host = universe.value(hostname, &state.hostname().into());
        let mut own: Vec<(Key, Value)> = Vec::with_capacity(state.labels().len());
        for (key, value) in state.labels() {
            let key = universe.key(key);
            if key != hostname {
                own.push((key, universe.value(key, value)));
            }
        }
        own.sort_unstable();
        own.dedup_by_key(|(key, _)| *key);
        let choice = (!state.is_launched()).then(|| {
            let mut requirements = state.requirements();
            requirements.remove(labels::HOSTNAME);
            universe.req(&requirements)
        });
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
        let mut this = Self {
            state: Arc::clone(state),
            labels: own,
            host,
            taints: taints.into(),
            spare: resources.amounts(&state.allocatable()),
            capacity: resources.amounts(&state.charge()),
            choice,
            usable: !state.is_deleting(),
            deleting: state.is_deleting(),
            counts: !state.is_deleting() || pool.is_some_and(|pool| pools[pool].model.limits.hard),
            initialized: state.is_initialized(),
            settles: settles(state, snapshot),
            ports,
            label_sets,
            keeps_away: Vec::new(),
            pool,
        };
        this.size_by_types(universe, pools);
        update(&mut this.spare, &resources.amounts(&state.requested), i64::saturating_sub);
        this.reserve_daemons(universe, resources, daemons);
        this
    }

    /// Before launch nothing is known of the size but what the allowed types have in common.
    fn size_by_types(&mut self, universe: &Universe, pools: &IdVec<NodePoolId, Pool>) {
        let (Some(open), Some(pool)) = (self.choice, self.pool) else { return };
        if self.state.claim.as_ref().is_none_or(|claim| !claim.allocatable.is_zero()) {
            return;
        }
        let rows: Vec<_> = pools[pool].rows.iter().filter(|row| agrees(universe, row.req, open)).collect();
        if let Some((first, rest)) = rows.split_first() {
            let mut room = first.free.clone();
            update(&mut room, &first.daemons, i64::saturating_add);
            for row in rest {
                let whole = |at| get(&row.free, at).saturating_add(get(&row.daemons, at));
                for (at, amount) in room.iter_mut().enumerate() {
                    *amount = (*amount).min(whole(at));
                }
            }
            self.spare = room;
        }
        // Against limits it counts as the largest that it may become.
        for row in rows {
            update(&mut self.capacity, &row.capacity, i64::max);
        }
    }

    /// Holds room for the daemons that will come, less those that are there.
    fn reserve_daemons(
        &mut self,
        universe: &mut Universe,
        resources: &mut ResourceIndex,
        daemons: &[Daemon],
    ) {
        let mut expected = Amounts::new();
        for daemon in daemons {
            let fits = daemon.alternatives.iter().any(|req| self.could_satisfy(universe, *req));
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

    /// Whether it could before any pass.
    pub(crate) fn could_satisfy(&self, universe: &mut Universe, req: Req) -> bool {
        self.satisfies(self.choice, universe, req)
    }

    /// Whether the node can be what `req` asks for, the hostname included, where its choice is `open`.
    pub(crate) fn satisfies(&self, open: Option<Req>, universe: &mut Universe, req: Req) -> bool {
        if req == ANY {
            return true;
        }
        let hostname = universe.key(labels::HOSTNAME);
        if let Some(open) = open {
            let rest = without(universe, req, hostname);
            return self.is_named(universe, hostname, req)
                && universe.meet(open, rest, Side::Claim).is_some();
        }
        let sets = Arc::clone(universe.sets(req));
        sets.iter().all(|(key, set)| {
            let value = if *key == hostname { Some(self.host) } else { self.label(*key) };
            self.allows(universe, *key, set, value)
        })
    }

    fn is_named(&self, universe: &Universe, hostname: Key, req: Req) -> bool {
        universe.get(req, hostname).is_none_or(|set| universe.has(hostname, set, self.host))
    }

    #[expect(clippy::unused_self, reason = "reads as a question to the node")]
    fn allows(&self, universe: &Universe, key: Key, set: &Set, value: Option<Value>) -> bool {
        value.map_or_else(|| set.allows_missing(), |value| universe.has(key, set, value))
    }

    /// The value of a label other than the hostname.
    pub(crate) fn label(&self, key: Key) -> Option<Value> {
        self.labels.binary_search_by_key(&key, |(at, _)| *at).ok().map(|at| self.labels[at].1)
    }

    /// The domain of a key: the label, or the only value that an open choice leaves.
    pub(crate) fn domain(&self, universe: &Universe, key: Key, open: Option<Req>) -> Option<Value> {
        match open {
            Some(open) => universe.get(open, key).and_then(Set::single),
            None => self.label(key),
        }
    }

    /// Whether the place holds a node: one that takes pods, or one that is leaving.
    pub(crate) fn is_there(&self) -> bool {
        self.usable || self.deleting
    }

    /// Makes the place of a node that is gone one that nothing can be put on and nothing is counted of.
    pub(crate) fn vacate(&mut self) {
        (self.usable, self.deleting, self.counts, self.pool) = (false, false, false, None);
        self.label_sets.clear();
        self.keeps_away.clear();
        self.taints = Arc::default();
    }

    /// Whether a taint merely prefers to keep pods away.
    pub(crate) fn prefers_to_be_left(&self) -> bool {
        self.taints.iter().any(|taint| taint.effect == TaintEffect::PreferNoSchedule)
    }
}

/// Whether a pod may go where these taints are.
pub(crate) fn tolerated(taints: &[Taint], pod: &Pod, look_past_preferences: bool) -> bool {
    first_obstacle(taints, pod, look_past_preferences).is_none()
}

/// The first taint that keeps a pod away.
pub(crate) fn first_obstacle<'a>(
    taints: &'a [Taint],
    pod: &Pod,
    look_past_preferences: bool,
) -> Option<&'a Taint> {
    let mut rest = taints;
    loop {
        let taint = first_untolerated(rest, &pod.spec.tolerations)?;
        if !(look_past_preferences && taint.effect == TaintEffect::PreferNoSchedule) {
            return Some(taint);
        }
        let at = rest.iter().position(|other| std::ptr::eq(other, taint))?;
        rest = &rest[at + 1..];
    }
}

/// `req` without what it says of one key.
pub(crate) fn without(universe: &mut Universe, req: Req, key: Key) -> Req {
    if universe.get(req, key).is_none() {
        return req;
    }
    let sets: SmallVec<[_; 4]> = universe.sets(req).iter().filter(|(at, _)| *at != key).cloned().collect();
    universe.conjunction(sets)
}

/// Until when the node's pods came or went so recently that its pool does not consolidate it yet.
fn settles(state: &StateNode, snapshot: &Snapshot) -> Option<Timestamp> {
    let pool = snapshot.pool(state.label(labels::NODEPOOL)?)?;
    let claim = state.claim.as_ref()?;
    let since = claim.last_pod_event.or_else(|| claim.true_since(ConditionType::Initialized))?;
    since.checked_add(pool.consolidate_after?).ok()
}

/// Nodes that fit one compatibility whatever happens in a pass: taints and requirements agree.
pub(crate) type Fitting = Arc<Bits<NodeId>>;

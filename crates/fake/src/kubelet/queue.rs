//! The state of all kubelets and the queue of due work. It has no client: it returns calls and takes their results.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;

use super::{
    KubeletConfig,
    decide::{self, NextAction, NodeAct, NodeMemory, PodAct, PodMemory, PodNode},
    view::{NodeView, PodView},
};
use crate::api::{CloudInstance, Lifecycle};
use crate::time::later;

/// A node by name, or a pod by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Node(String),
    Pod(String, String),
}

/// A call to the API server.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Node { act: NodeAct, instance: Arc<CloudInstance>, node: Option<NodeView> },
    Pod { act: PodAct, pod: PodView, host_ip: String },
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It succeeded, or its object no longer exists.
    Done,
    /// The object already exists.
    Exists,
    /// It failed and is retried.
    Failed,
}

/// The maximum backoff.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// The state of all kubelets.
pub(super) struct KubeletQueue {
    config: KubeletConfig,
    instances: BTreeMap<String, Arc<CloudInstance>>,
    nodes: BTreeMap<String, NodeView>,
    node_memory: BTreeMap<String, NodeMemory>,
    pods: BTreeMap<Key, (PodView, PodMemory)>,
    pods_of: BTreeMap<String, BTreeSet<Key>>,
    /// Due work by time; each key at most once.
    queue: BTreeSet<(Timestamp, Key)>,
    queued: BTreeMap<Key, Timestamp>,
    in_flight: BTreeSet<Key>,
    failures: BTreeMap<Key, u32>,
    /// Whether all Nodes have been listed, so that a missing one is known to be absent.
    nodes_listed: bool,
}

impl KubeletQueue {
    pub(super) fn new(config: KubeletConfig) -> Self {
        Self {
            config,
            instances: BTreeMap::new(),
            nodes: BTreeMap::new(),
            node_memory: BTreeMap::new(),
            pods: BTreeMap::new(),
            pods_of: BTreeMap::new(),
            queue: BTreeSet::new(),
            queued: BTreeMap::new(),
            in_flight: BTreeSet::new(),
            failures: BTreeMap::new(),
            nodes_listed: false,
        }
    }

    // === what is seen ===

    pub(super) fn on_instance(&mut self, instance: Arc<CloudInstance>, now: Timestamp) {
        let name = instance.node_name.clone();
        if instance.state >= Lifecycle::Terminating {
            self.node_memory.entry(name.clone()).or_default().silent_since.get_or_insert(now);
        }
        let newer = self
            .instances
            .get(&name)
            .is_none_or(|known| known.id == instance.id || known.state == Lifecycle::Terminated);
        if newer {
            self.instances.insert(name.clone(), instance);
        }
        self.enqueue_node(&name, now);
    }

    pub(super) fn on_node(&mut self, name: &str, node: Option<NodeView>, now: Timestamp) {
        match node {
            Some(node) => {
                self.node_memory.entry(name.to_owned()).or_default().seen_at.get_or_insert(now);
                self.nodes.insert(name.to_owned(), node);
            }
            None => {
                self.nodes.remove(name);
                if let Some(memory) = self.node_memory.get_mut(name) {
                    memory.renewed_at = None;
                }
            }
        }
        self.enqueue_node(name, now);
    }

    /// All Nodes were listed: those not in `names` are gone.
    pub(super) fn nodes_complete(&mut self, names: &BTreeSet<String>, now: Timestamp) {
        self.nodes_listed = true;
        let gone: Vec<String> = self.nodes.keys().filter(|name| !names.contains(*name)).cloned().collect();
        for name in gone {
            self.on_node(&name, None, now);
        }
        let all: Vec<String> = self.instances.keys().cloned().collect();
        for name in all {
            self.enqueue_node(&name, now);
        }
    }

    pub(super) fn on_pod(&mut self, key: Key, pod: Option<PodView>, now: Timestamp) {
        let known = self.pods.get(&key);
        let same = known.filter(|(old, _)| pod.as_ref().is_some_and(|pod| pod.uid == old.uid));
        let memory = same.map(|(_, memory)| *memory);
        if let Some((old, _)) = self.pods.remove(&key)
            && let Some(keys) = self.pods_of.get_mut(&old.node)
        {
            keys.remove(&key);
            if keys.is_empty() {
                self.pods_of.remove(&old.node);
                self.enqueue(Key::Node(old.node), now);
            }
        }
        let Some(pod) = pod else {
            self.failures.remove(&key);
            self.unqueue(&key);
            return;
        };
        let fresh = PodMemory { bound_at: now, deleting_at: None, orphaned_at: None, finished_at: None };
        let mut memory = memory.unwrap_or(fresh);
        if pod.deleting {
            memory.deleting_at.get_or_insert(now);
        }
        self.pods_of.entry(pod.node.clone()).or_default().insert(key.clone());
        self.pods.insert(key.clone(), (pod, memory));
        self.enqueue(key, now);
    }

    /// All Pods were listed: those not in `keys` are gone.
    pub(super) fn pods_complete(&mut self, keys: &BTreeSet<Key>, now: Timestamp) {
        let gone: Vec<Key> = self.pods.keys().filter(|key| !keys.contains(*key)).cloned().collect();
        for key in gone {
            self.on_pod(key, None, now);
        }
    }

    fn enqueue_node(&mut self, name: &str, now: Timestamp) {
        self.enqueue(Key::Node(name.to_owned()), now);
        let pods: Vec<Key> = self.pods_of.get(name).into_iter().flatten().cloned().collect();
        for key in pods {
            self.enqueue(key, now);
        }
    }

    // === the queue ===

    fn enqueue(&mut self, key: Key, at: Timestamp) {
        // A failed key waits for its backoff, whatever events arrive.
        if self.failures.contains_key(&key) && self.queued.contains_key(&key) {
            return;
        }
        if let Some(earlier) = self.queued.get(&key) {
            if *earlier <= at {
                return;
            }
            self.queue.remove(&(*earlier, key.clone()));
        }
        self.queued.insert(key.clone(), at);
        self.queue.insert((at, key));
    }

    fn unqueue(&mut self, key: &Key) {
        if let Some(at) = self.queued.remove(key) {
            self.queue.remove(&(at, key.clone()));
        }
    }

    /// When something is next due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// The number of calls in flight.
    pub(super) fn calls(&self) -> usize {
        self.in_flight.len()
    }

    /// The next call that is due.
    pub(super) fn next_call(&mut self, now: Timestamp) -> Option<(Key, Call)> {
        while let Some((at, key)) = self.queue.first().cloned() {
            if at > now {
                return None;
            }
            self.unqueue(&key);
            if self.in_flight.contains(&key) {
                continue; // It is processed again when its call has completed.
            }
            match self.decide(&key, now) {
                NextAction::Act(call) => {
                    self.in_flight.insert(key.clone());
                    return Some((key, call));
                }
                NextAction::At(later) => {
                    self.failures.remove(&key);
                    self.enqueue(key, later);
                }
                NextAction::Rest => {
                    self.failures.remove(&key);
                    if let Key::Node(name) = &key {
                        self.forget(name);
                    }
                }
            }
        }
        None
    }

    /// Forgets an instance without a Node and Pods.
    fn forget(&mut self, name: &str) {
        let gone = self.instances.get(name).is_some_and(|instance| instance.state == Lifecycle::Terminated);
        if gone && self.nodes_listed && !self.nodes.contains_key(name) && !self.pods_of.contains_key(name) {
            self.instances.remove(name);
        }
        if !self.instances.contains_key(name) && !self.nodes.contains_key(name) {
            self.node_memory.remove(name);
        }
    }

    fn decide(&mut self, key: &Key, now: Timestamp) -> NextAction<Call> {
        match key {
            Key::Node(name) => self.decide_node(name, now),
            Key::Pod(..) => self.decide_pod(key, now),
        }
    }

    fn decide_node(&self, name: &str, now: Timestamp) -> NextAction<Call> {
        let Some(instance) = self.instances.get(name).filter(|_| self.nodes_listed) else {
            return NextAction::Rest;
        };
        // A Node of that name that belongs to another instance is ignored.
        let node = self.nodes.get(name);
        if node.is_some_and(|node| node.provider_id != instance.id) {
            return NextAction::Rest;
        }
        let fallback = NodeMemory::default();
        let memory = self.node_memory.get(name).unwrap_or(&fallback);
        match decide::node(&self.config, instance, node, memory, now) {
            NextAction::Act(act) => {
                NextAction::Act(Call::Node { act, instance: instance.clone(), node: node.cloned() })
            }
            NextAction::At(at) => NextAction::At(at),
            NextAction::Rest => NextAction::Rest,
        }
    }

    fn decide_pod(&mut self, key: &Key, now: Timestamp) -> NextAction<Call> {
        let Some((pod, memory)) = self.pods.get_mut(key) else { return NextAction::Rest };
        let Some(instance) = self.instances.get(&pod.node).filter(|_| self.nodes_listed) else {
            return NextAction::Rest;
        };
        let node = self.nodes.get(&pod.node);
        let host = match node {
            _ if instance.state == Lifecycle::Terminated => PodNode::Gone,
            None if instance.joined => PodNode::Gone,
            Some(node) if node.is_ready() && instance.state < Lifecycle::Terminated => PodNode::Ready,
            _ => PodNode::NotReady,
        };
        if host == PodNode::Gone {
            memory.orphaned_at.get_or_insert(now);
        }
        match decide::pod(&self.config, pod, host, memory, now) {
            NextAction::Act(act) => {
                NextAction::Act(Call::Pod { act, pod: pod.clone(), host_ip: instance.address.clone() })
            }
            NextAction::At(at) => NextAction::At(at),
            NextAction::Rest => NextAction::Rest,
        }
    }

    /// Records the result of a call. Returns the instance whose node has joined.
    pub(super) fn on_outcome(
        &mut self,
        key: &Key,
        call: &Call,
        outcome: Outcome,
        now: Timestamp,
    ) -> Option<String> {
        self.in_flight.remove(key);
        if outcome == Outcome::Failed {
            let failures = self.failures.entry(key.clone()).or_insert(0);
            let pause = self.config.backoff.saturating_mul(1 << (*failures).min(10)).min(MAX_BACKOFF);
            *failures = failures.saturating_add(1);
            self.unqueue(key);
            self.queued.insert(key.clone(), later(now, pause));
            self.queue.insert((later(now, pause), key.clone()));
            return None;
        }
        self.failures.remove(key);
        let mut joined = None;
        match (key, call) {
            (Key::Node(name), Call::Node { act, instance, .. }) => {
                let memory = self.node_memory.entry(name.clone()).or_default();
                match act {
                    NodeAct::Join => joined = Some(instance.id.clone()),
                    NodeAct::Renew => memory.renewed_at = Some(now),
                    NodeAct::LateTaint(_) => memory.late_tainted = true,
                    _ => {}
                }
            }
            (_, Call::Pod { act: PodAct::Finish, pod, .. }) => {
                if let Some((known, memory)) = self.pods.get_mut(key)
                    && known.uid == pod.uid
                {
                    memory.finished_at = Some(now);
                }
            }
            _ => {}
        }
        // The change arrives by watch; until then, retry after a pause.
        self.enqueue(key.clone(), later(now, self.config.backoff));
        joined
    }
}

//! Pods.

use std::sync::Arc;

use jiff::Timestamp;

use super::{GIB, MIB, labels_of, now, uid_of};
use crate::model::{
    LabelSelector, Labels, NamespacedName, Operator, Pod, PodAffinityTerm, PodPhase, Requirement, Resources,
    TaintEffect, Toleration, TopologySpread,
    pod::{DoNotDisrupt, HostPort, Owner, PodSpec},
    taint::TolerationOperator,
    volume::VolumeRef,
};

/// A pod under construction; see [`pod`].
#[derive(Clone, Debug)]
pub struct PodBuilder {
    pod: Pod,
    spec: PodSpec,
    labels: Labels,
}

/// A pod of namespace `default` that kube-scheduler has refused, owned by a ReplicaSet: 1 CPU, 1 GiB.
#[must_use]
pub fn pod(name: &str) -> PodBuilder {
    let spec = PodSpec { requests: Resources::of(1000, GIB).with("pods", 1), ..PodSpec::default() };
    let owner = Owner { kind: "ReplicaSet".into(), name: "rs".into(), uid: "uid-rs".into() };
    let pod = Pod {
        uid: uid_of("default", name).into(),
        id: NamespacedName::new("default", name),
        labels: Arc::default(),
        spec: Arc::default(),
        created: now(),
        deleting: None,
        started: None,
        node: None,
        phase: PodPhase::Pending,
        ready: false,
        ready_since: None,
        bound_since: None,
        unschedulable: true,
        refusal: None,
        nominated_node: None,
        owner: Some(owner),
        do_not_disrupt: DoNotDisrupt::No,
        deletion_cost: 0,
        generated_claims: Vec::new(),
        is_virtual: false,
        unreadable: None,
    };
    PodBuilder { pod, spec, labels: Labels::new() }
}

/// A hard spread of the pods labelled `app=<app>` over `key`.
#[must_use]
pub fn spread_over(key: &str, max_skew: i32, app: &str) -> TopologySpread {
    TopologySpread {
        max_skew,
        key: key.into(),
        hard: true,
        selector: Some(LabelSelector::of("app", app)),
        min_domains: None,
        honor_node_affinity: true,
        honor_node_taints: false,
        match_label_keys: Vec::new(),
    }
}

/// A term that names the pods labelled `app=<app>` within a domain of `key`.
#[must_use]
pub fn affinity_to(key: &str, app: &str) -> PodAffinityTerm {
    PodAffinityTerm {
        key: key.into(),
        selector: Some(LabelSelector::of("app", app)),
        namespaces: Vec::new(),
        namespace_selector: None,
        match_label_keys: Vec::new(),
        mismatch_label_keys: Vec::new(),
    }
}

impl PodBuilder {
    /// Changes anything of the pod but its spec and labels.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Pod)) -> Self {
        change(&mut self.pod);
        self
    }

    /// Changes anything of the spec.
    #[must_use]
    pub fn with_spec(mut self, change: impl FnOnce(&mut PodSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    /// Puts it into another namespace.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        self.with(|pod| {
            pod.uid = uid_of(namespace, &pod.id.name).into();
            pod.id.namespace = namespace.into();
        })
    }

    /// Requests of CPU in milli-CPUs.
    #[must_use]
    pub fn cpu(self, milli: i64) -> Self {
        self.request("cpu", milli)
    }

    /// Requests of memory in MiB.
    #[must_use]
    pub fn memory(self, mib: i64) -> Self {
        self.request("memory", mib * MIB)
    }

    /// Requests of any resource in its own unit.
    #[must_use]
    pub fn request(self, resource: &str, amount: i64) -> Self {
        self.with_spec(|spec| spec.requests.set(&resource.into(), amount))
    }

    /// Sets a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.append(&mut labels_of(&[(key, value)]));
        self
    }

    /// Sets the label `app`.
    #[must_use]
    pub fn app(self, app: &str) -> Self {
        self.label("app", app)
    }

    /// Adds to `nodeSelector`.
    #[must_use]
    pub fn selector(self, key: &str, value: &str) -> Self {
        self.with_spec(|spec| spec.node_selector.push((key.into(), value.into())))
    }

    /// Adds an alternative of one requirement to the required node affinity.
    #[must_use]
    pub fn require(self, key: &str, operator: Operator, values: &[&str]) -> Self {
        let term = Requirement::new(key, operator, values.iter().copied());
        self.with_spec(|spec| spec.required_node_terms.push(term.into_iter().collect()))
    }

    /// Adds a preference of one requirement.
    #[must_use]
    pub fn prefer(self, weight: i32, key: &str, operator: Operator, values: &[&str]) -> Self {
        let term = Requirement::new(key, operator, values.iter().copied());
        self.with_spec(|spec| spec.preferred_node_terms.push((weight, term.into_iter().collect())))
    }

    /// Tolerates a taint key with any value and effect.
    #[must_use]
    pub fn tolerate(self, key: &str) -> Self {
        self.tolerate_effect(key, None)
    }

    /// Tolerates a taint key with any value.
    #[must_use]
    pub fn tolerate_effect(self, key: &str, effect: Option<TaintEffect>) -> Self {
        let toleration = Toleration {
            key: key.into(),
            operator: TolerationOperator::Exists,
            value: "".into(),
            effect,
            seconds: None,
        };
        self.with_spec(|spec| spec.tolerations.push(toleration))
    }

    /// Adds a spread constraint.
    #[must_use]
    pub fn spread(self, constraint: TopologySpread) -> Self {
        self.with_spec(|spec| spec.topology_spread.push(constraint))
    }

    /// Requires to be near pods.
    #[must_use]
    pub fn affinity(self, term: PodAffinityTerm) -> Self {
        self.with_spec(|spec| spec.pod_affinity.push(term))
    }

    /// Requires to be away from pods.
    #[must_use]
    pub fn anti_affinity(self, term: PodAffinityTerm) -> Self {
        self.with_spec(|spec| spec.pod_anti_affinity.push(term))
    }

    /// Takes a TCP port on all addresses of the host.
    #[must_use]
    pub fn host_port(self, port: u16) -> Self {
        self.with_spec(|spec| spec.host_ports.push(HostPort { ip: "".into(), port, protocol: "TCP".into() }))
    }

    /// Uses a volume claim of its namespace.
    #[must_use]
    pub fn volume(self, claim: &str) -> Self {
        self.with_spec(|spec| spec.volumes.push(VolumeRef::Claim(claim.into())))
    }

    /// Sets who owns it.
    #[must_use]
    pub fn owner(self, kind: &str, name: &str) -> Self {
        let owner = Owner { kind: kind.into(), name: name.into(), uid: format!("uid-{kind}-{name}").into() };
        self.with(|pod| pod.owner = Some(owner))
    }

    /// Makes it a daemon.
    #[must_use]
    pub fn daemon(self) -> Self {
        self.owner("DaemonSet", "ds")
    }

    /// Sets when it was created.
    #[must_use]
    pub fn created(self, created: Timestamp) -> Self {
        self.with(|pod| pod.created = created)
    }

    /// The pod, waiting for capacity.
    #[must_use]
    pub fn build(self) -> Arc<Pod> {
        Arc::new(Pod { labels: Arc::new(self.labels), spec: Arc::new(self.spec), ..self.pod })
    }

    /// The pod, running on a node.
    #[must_use]
    pub fn bound(self, node: &str) -> Arc<Pod> {
        self.with(|pod| {
            pod.node = Some(node.into());
            pod.phase = PodPhase::Running;
            pod.unschedulable = false;
            pod.started = Some(pod.created);
        })
        .build()
    }

    /// `count` pods called `<name>-0…` that share labels and spec.
    #[must_use]
    pub fn replicas(&self, count: usize) -> Vec<Arc<Pod>> {
        let (labels, spec) = (Arc::new(self.labels.clone()), Arc::new(self.spec.clone()));
        let make = |at: usize| {
            let id = NamespacedName::new(self.pod.id.namespace.clone(), format!("{}-{at}", self.pod.id.name));
            let uid = uid_of(&id.namespace, &id.name).into();
            Arc::new(Pod {
                uid,
                id,
                labels: Arc::clone(&labels),
                spec: Arc::clone(&spec),
                ..self.pod.clone()
            })
        };
        (0..count).map(make).collect()
    }
}

impl From<PodBuilder> for Arc<Pod> {
    fn from(builder: PodBuilder) -> Self {
        builder.build()
    }
}

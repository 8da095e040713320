//! Pods.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Weak},
    time::Duration,
};

use fleetwright_api::duration;
use fleetwright_core::model::{
    ClaimSource, LabelSchema, Labels, NamespacedName, Pod, PodClaim, PodPhase, ResourceName, Resources, Str,
    TaintEffect, Toleration,
    pod::{DoNotDisrupt, HostPort, Owner, PodSpec},
    resource_claim::GeneratedClaim,
    taint::TolerationOperator,
    volume::VolumeRef,
};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1 as k8s,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};

use super::{Invalid, affinity, filled, labels, limit_range::ContainerDefaults, requests, text, time};

/// `controller.kubernetes.io/pod-deletion-cost`.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Shares equal specs and label sets between pods.
#[derive(Debug, Default)]
pub struct Interner {
    specs: Shelf<PodSpec>,
    labels: Shelf<Labels>,
}

/// Values that are alive somewhere, by hash.
#[derive(Debug)]
struct Shelf<T> {
    by_hash: BTreeMap<u64, Vec<Weak<T>>>,
    /// When to remove unused values.
    sweep_at: usize,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { by_hash: BTreeMap::new(), sweep_at: 1024 }
    }
}

impl<T: PartialEq> Shelf<T> {
    fn share(&mut self, hash: u64, value: T) -> Arc<T> {
        if self.by_hash.len() >= self.sweep_at {
            self.by_hash.retain(|_, held| held.iter().any(|weak| weak.strong_count() > 0));
            self.sweep_at = self.by_hash.len().saturating_mul(2).max(1024);
        }
        let held = self.by_hash.entry(hash).or_default();
        held.retain(|weak| weak.strong_count() > 0);
        if let Some(equal) = held.iter().filter_map(Weak::upgrade).find(|known| **known == value) {
            return equal;
        }
        let shared = Arc::new(value);
        held.push(Arc::downgrade(&shared));
        shared
    }
}

impl Interner {
    fn spec(&mut self, spec: PodSpec) -> Arc<PodSpec> {
        // Cheap to hash and telling; equality decides.
        let mut hasher = DefaultHasher::new();
        (&spec.requests, &spec.node_selector, &spec.tolerations, &spec.topology_spread).hash(&mut hasher);
        (&spec.required_node_terms, &spec.pod_anti_affinity, &spec.pod_affinity, &spec.volumes)
            .hash(&mut hasher);
        self.specs.share(hasher.finish(), spec)
    }

    fn labels(&mut self, labels: Labels) -> Arc<Labels> {
        let mut hasher = DefaultHasher::new();
        labels.hash(&mut hasher);
        self.labels.share(hasher.finish(), labels)
    }
}

/// A pod.
///
/// # Errors
/// If a quantity or a constraint is invalid.
pub fn pod(pod: &k8s::Pod, schema: &LabelSchema, interner: &mut Interner) -> Result<Pod, Invalid> {
    let spec = pod.spec.as_ref().ok_or(Invalid::Missing("spec"))?;
    let lowered = interner.spec(pod_spec(spec, pod.status.as_ref(), schema)?);
    Ok(with_spec(pod, spec, lowered, interner))
}

/// The readable fields of an invalid pod on a node, without constraints: otherwise its node would look empty. `None` for pods without a
/// node.
pub fn unreadable(pod: &k8s::Pod, why: &Invalid, interner: &mut Interner) -> Option<Pod> {
    let spec = pod.spec.as_ref().filter(|spec| filled(spec.node_name.as_ref()).is_some())?;
    let requests = requests::of_spec(spec, pod.status.as_ref()).unwrap_or_else(|_| {
        let mut least = Resources::new();
        least.set(&ResourceName::Pods, 1);
        least
    });
    let lowered = interner.spec(PodSpec { requests, ..unconstrained(spec) });
    Some(Pod { unreadable: Some(text(&why.to_string())), ..with_spec(pod, spec, lowered, interner) })
}

fn with_spec(pod: &k8s::Pod, spec: &k8s::PodSpec, lowered: Arc<PodSpec>, interner: &mut Interner) -> Pod {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let of = |type_: &str| conditions.iter().find(|condition| condition.type_ == type_);
    let refused = |condition: &k8s::PodCondition| {
        condition.status == "False" && condition.reason.as_deref() == Some("Unschedulable")
    };
    let since = |type_: &str| {
        let holds = of(type_).filter(|condition| condition.status == "True");
        holds.and_then(|condition| time(condition.last_transition_time.as_ref()))
    };
    Pod {
        uid: pod.metadata.uid.clone().unwrap_or_default().into(),
        id: id(&pod.metadata),
        labels: interner.labels(labels(pod.metadata.labels.as_ref())),
        spec: lowered,
        created: time(pod.metadata.creation_timestamp.as_ref()).unwrap_or(Timestamp::UNIX_EPOCH),
        deleting: time(pod.metadata.deletion_timestamp.as_ref()),
        started: status.and_then(|status| time(status.start_time.as_ref())),
        node: filled(spec.node_name.as_ref()).map(Into::into),
        phase: phase(status.and_then(|status| status.phase.as_deref())),
        ready: of("Ready").is_some_and(|condition| condition.status == "True"),
        ready_since: since("Ready"),
        bound_since: since("PodScheduled"),
        unschedulable: of("PodScheduled").is_some_and(refused),
        refusal: of("PodScheduled")
            .filter(|known| refused(known))
            .and_then(|known| filled(known.message.as_ref())),
        nominated_node: status.and_then(|status| filled(status.nominated_node_name.as_ref())).map(Into::into),
        owner: owner(&pod.metadata),
        do_not_disrupt: do_not_disrupt(annotation(&pod.metadata, "karpenter.sh/do-not-disrupt")),
        deletion_cost: annotation(&pod.metadata, DELETION_COST)
            .and_then(|cost| cost.parse().ok())
            .unwrap_or(0),
        generated_claims: generated_claims(status),
        is_virtual: false,
        unreadable: None,
    }
}

/// The pod that a template makes, as a DaemonSet's controller would, and `defaults` of its namespace are added to.
///
/// # Errors
/// If a quantity or a constraint is invalid.
pub fn of_template(
    meta: &ObjectMeta,
    owner_kind: &str,
    template: &k8s::PodTemplateSpec,
    defaults: &ContainerDefaults,
    schema: &LabelSchema,
    interner: &mut Interner,
) -> Result<Pod, Invalid> {
    let spec = template.spec.as_ref().ok_or(Invalid::Missing("spec.template.spec"))?;
    let mut spec = requests::defaulted(spec);
    defaults.apply(&mut spec);
    let owned = template.metadata.as_ref();
    let uid = meta.uid.clone().unwrap_or_default();
    Ok(Pod {
        uid: uid.clone().into(),
        id: id(meta),
        labels: interner.labels(labels(owned.and_then(|meta| meta.labels.as_ref()))),
        spec: interner.spec(pod_spec(&spec, None, schema)?),
        created: time(meta.creation_timestamp.as_ref()).unwrap_or(Timestamp::UNIX_EPOCH),
        deleting: None,
        started: None,
        node: None,
        phase: PodPhase::Pending,
        ready: false,
        ready_since: None,
        bound_since: None,
        unschedulable: false,
        refusal: None,
        nominated_node: None,
        owner: Some(Owner {
            kind: text(owner_kind),
            name: text(meta.name.as_deref().unwrap_or_default()),
            uid: uid.into(),
        }),
        do_not_disrupt: DoNotDisrupt::No,
        deletion_cost: 0,
        generated_claims: Vec::new(),
        is_virtual: false,
        unreadable: None,
    })
}

fn id(meta: &ObjectMeta) -> NamespacedName {
    NamespacedName::new(
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

fn phase(phase: Option<&str>) -> PodPhase {
    match phase {
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        Some("Unknown") => PodPhase::Unknown,
        _ => PodPhase::Pending,
    }
}

/// The controller of a pod. Karpenter takes any owner for it that ties pods to nodes or names, so one that does not say that it controls the
/// pod is the next best.
fn owner(meta: &ObjectMeta) -> Option<Owner> {
    let controls = |owner: &&OwnerReference| owner.controller == Some(true);
    let ties = |owner: &&OwnerReference| {
        let kind = (&*owner.api_version, &*owner.kind);
        matches!(kind, ("apps/v1", "DaemonSet" | "StatefulSet") | ("v1", "Node"))
    };
    let owners = || meta.owner_references.iter().flatten();
    let owner = owners().find(controls).or_else(|| owners().find(ties))?;
    Some(Owner { kind: owner_kind(owner), name: text(&owner.name), uid: text(&owner.uid) })
}

/// The kind of an owner, as kubectl writes it: `ReplicaSet`, but `StatefulSet.apps.kruise.io`. Of two groups with a kind of one name, only
/// that of Kubernetes means what rules say of it.
fn owner_kind(owner: &OwnerReference) -> Str {
    match owner.api_version.split_once('/') {
        None | Some(("apps" | "batch", _)) => text(&owner.kind),
        Some((group, _)) => text(&format!("{}.{group}", owner.kind)),
    }
}

/// Values of `karpenter.sh/do-not-disrupt` that do not protect, in any case; neither does a duration of zero.
const NO: [&str; 4] = ["", "false", "no", "0"];

/// Parses `karpenter.sh/do-not-disrupt` of a pod: `true`, `false` or a positive Go duration. Other words for false do not protect; an
/// invalid value does.
#[must_use]
pub fn do_not_disrupt(value: Option<&str>) -> DoNotDisrupt {
    let Some(value) = value else { return DoNotDisrupt::No };
    let plain = value.trim();
    if NO.iter().any(|no| plain.eq_ignore_ascii_case(no)) {
        return DoNotDisrupt::No;
    }
    if value == "true" {
        return DoNotDisrupt::Always;
    }
    let lowercase = plain.to_ascii_lowercase();
    match duration::parse(&lowercase).ok().and_then(|time| Duration::try_from(time).ok()) {
        Some(time) if time.is_zero() => DoNotDisrupt::No,
        // Go's durations are lower case.
        Some(time) if lowercase == value => DoNotDisrupt::For(time),
        _ => DoNotDisrupt::Invalid(text(value)),
    }
}

/// The part that pods of one template share.
fn pod_spec(
    spec: &k8s::PodSpec,
    status: Option<&k8s::PodStatus>,
    schema: &LabelSchema,
) -> Result<PodSpec, Invalid> {
    let rules = spec.affinity.as_ref();
    let pod_affinity = rules.and_then(|rules| rules.pod_affinity.as_ref());
    let anti = rules.and_then(|rules| rules.pod_anti_affinity.as_ref());
    let (required_node_terms, preferred_node_terms) =
        affinity::node_terms(rules.and_then(|rules| rules.node_affinity.as_ref()), schema)?;
    let selector = spec.node_selector.iter().flatten();
    Ok(PodSpec {
        requests: requests::of_spec(spec, status)?,
        node_selector: selector.map(|(key, value)| (text(schema.normalize(key)), text(value))).collect(),
        required_node_terms,
        preferred_node_terms,
        topology_spread: spec
            .topology_spread_constraints
            .iter()
            .flatten()
            .map(affinity::spread)
            .collect::<Result<_, _>>()?,
        pod_affinity: affinity::pod_terms(
            pod_affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref()),
        )?,
        preferred_pod_affinity: affinity::weighted(
            pod_affinity
                .and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_deref())
                .unwrap_or_default(),
        )?,
        pod_anti_affinity: affinity::pod_terms(
            anti.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref()),
        )?,
        preferred_pod_anti_affinity: affinity::weighted(
            anti.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_deref())
                .unwrap_or_default(),
        )?,
        ..unconstrained(spec)
    })
}

/// What can be read of any spec: all but requests and what limits the choice of nodes.
fn unconstrained(spec: &k8s::PodSpec) -> PodSpec {
    let grace =
        spec.termination_grace_period_seconds.and_then(|grace| u64::try_from(grace).ok()).unwrap_or(30);
    PodSpec {
        limits: requests::limits_of_spec(spec),
        tolerations: spec.tolerations.iter().flatten().filter_map(toleration).collect(),
        host_ports: host_ports(spec),
        volumes: volumes(spec),
        resource_claims: spec.resource_claims.iter().flatten().filter_map(claim).collect(),
        priority: spec.priority.unwrap_or(0),
        priority_class: filled(spec.priority_class_name.as_ref()),
        termination_grace_period: Duration::from_secs(grace),
        scheduler: filled(spec.scheduler_name.as_ref()),
        gated: spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()),
        ..PodSpec::default()
    }
}

/// A resource claim. One that names neither a claim nor a template cannot be created.
fn claim(claim: &k8s::PodResourceClaim) -> Option<PodClaim> {
    let of = |name: &Option<String>, source: fn(Str) -> ClaimSource| filled(name.as_ref()).map(source);
    let source = of(&claim.resource_claim_name, ClaimSource::Claim)
        .or_else(|| of(&claim.resource_claim_template_name, ClaimSource::Template))?;
    Some(PodClaim { name: text(&claim.name), source })
}

/// The claims that the cluster has made for a pod.
fn generated_claims(status: Option<&k8s::PodStatus>) -> Vec<GeneratedClaim> {
    let made = status.into_iter().flat_map(|status| status.resource_claim_statuses.iter().flatten());
    made.map(|made| GeneratedClaim {
        name: text(&made.name),
        claim: filled(made.resource_claim_name.as_ref()),
    })
    .collect()
}

fn toleration(toleration: &k8s::Toleration) -> Option<Toleration> {
    let operator = match toleration.operator.as_deref() {
        None | Some("" | "Equal") => TolerationOperator::Equal,
        Some("Exists") => TolerationOperator::Exists,
        Some("Lt") => TolerationOperator::Lt,
        Some("Gt") => TolerationOperator::Gt,
        // An operator that we do not know tolerates nothing.
        Some(_) => return None,
    };
    let effect = match toleration.effect.as_deref() {
        None | Some("") => None,
        Some(effect) => Some(TaintEffect::parse(effect)?),
    };
    Some(Toleration {
        key: text(toleration.key.as_deref().unwrap_or_default()),
        operator,
        value: text(toleration.value.as_deref().unwrap_or_default()),
        effect,
        seconds: toleration.toleration_seconds,
    })
}

/// Host ports of containers and of sidecars, which run as long as the pod does.
fn host_ports(spec: &k8s::PodSpec) -> Vec<HostPort> {
    let sidecars =
        spec.init_containers.iter().flatten().filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    let mut all: Vec<HostPort> = ports
        .filter_map(|port| {
            Some(HostPort {
                ip: text(port.host_ip.as_deref().unwrap_or_default()),
                port: port.host_port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)?,
                protocol: text(port.protocol.as_deref().filter(|p| !p.is_empty()).unwrap_or("TCP")),
            })
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

fn volumes(spec: &k8s::PodSpec) -> Vec<VolumeRef> {
    let volumes = spec.volumes.iter().flatten();
    volumes
        .filter_map(|volume| {
            if let Some(claim) = &volume.persistent_volume_claim {
                return Some(VolumeRef::Claim(text(&claim.claim_name)));
            }
            let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref();
            let class = template.and_then(|template| template.spec.storage_class_name.as_deref());
            Some(VolumeRef::Ephemeral { volume: text(&volume.name), storage_class: class.map(Str::from) })
        })
        .collect()
}

#[cfg(test)]
mod tests;

//! Pod classes: pods with equal constraints, compiled for each level of relaxation.

use std::{
    cell::OnceCell,
    hash::{Hash, Hasher},
    sync::Arc,
};

use smallvec::SmallVec;

use crate::{
    model::{
        NamespacedName, Operator, Pod, Requirement, StorageClass, Str, VolumeState, labels,
        pod::PodSpec,
        volume::{VolumeRef, default_class},
    },
    scheduling::{
        Unplaced,
        ids::{CompatibilityId, IdVec, LabelSetId, LevelId, NodeId, NodePoolId, PodClassId, TopologyGroupId},
        tables::{
            Tables,
            amounts::{Amounts, fits_free},
            bits::Bits,
            contradiction::{self, NOWHERE},
            defaults,
            domains::{spread_group, term_group},
            intern::{ANY, Req, Set, Side},
            nodes::without,
            pools::Pool,
            relaxation::{Relaxation, tolerated},
            topology::{Alternatives, GroupKind},
        },
    },
};

/// More relaxations than this are taken in one step: work per pod stays bounded.
const MAX_LEVELS: usize = 64;
/// More alternatives of where volumes can be are not looked at.
const MAX_ALTERNATIVES: usize = 64;

/// The alternative topologies of a volume, and driver and handle of its attachment.
type Places = (Vec<Vec<Requirement>>, Option<(Str, Str)>);

/// Pods that scheduling cannot tell apart.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) pod: Arc<Pod>,
    pub(crate) label_set: LabelSetId,
    pub(crate) requests: Amounts,
    pub(crate) levels: IdVec<LevelId, Level>,
    /// The constraints that can still be relaxed; `None` once all levels are compiled.
    rest: Option<Relaxation>,
    /// Alternatives of where its volumes can be; without volumes the one that allows everything.
    pub(crate) alternatives: Alternatives,
    /// Driver and handle of each volume that is attached.
    pub(crate) attachments: Vec<(Str, Str)>,
    /// Groups of its required anti-affinity.
    pub(crate) keeps_away: Vec<TopologyGroupId>,
    /// Why it is not scheduled at all.
    pub(crate) refused: Option<Unplaced>,
}

/// The identity of a class: a pod of it, of which spec and label set count. A pod with volumes or resource claims is a class of
/// its own.
#[derive(Debug)]
pub(crate) struct ClassKey {
    pod: Arc<Pod>,
    label_set: LabelSetId,
}

impl ClassKey {
    /// Whether the class is of one pod.
    pub(crate) fn is_individual(&self) -> bool {
        !self.pod.spec.volumes.is_empty() || !self.pod.spec.resource_claims.is_empty()
    }
}

impl PartialEq for ClassKey {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (&self.pod, &other.pod);
        self.label_set == other.label_set
            // Most pods share the spec of their template.
            && (Arc::ptr_eq(&a.spec, &b.spec) || a.spec == b.spec)
            && (!self.is_individual() || (a.uid == b.uid && a.generated_claims == b.generated_claims))
    }
}

impl Eq for ClassKey {}

impl Hash for ClassKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let PodSpec { requests, node_selector, required_node_terms, .. } = &*self.pod.spec;
        (self.label_set, requests, node_selector, required_node_terms).hash(state);
        self.is_individual().then_some(&self.pod.uid).hash(state);
    }
}

impl Class {
    /// Whether devices have to be found for its pods.
    pub(crate) fn claims_devices(&self) -> bool {
        !self.pod.spec.resource_claims.is_empty()
    }

    /// Whether neither ports nor volumes matter on a node that does not exist yet.
    pub(crate) fn wants_room_only(&self) -> bool {
        self.alternatives[..] == [ANY] && self.pod.spec.host_ports.is_empty() && !self.claims_devices()
    }
}

/// The constraints of a class at one level of relaxation.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    /// On labels but the hostname, the heaviest preference included.
    pub(crate) req: Req,
    /// Whether a new node can have the required hostname.
    pub(crate) any_host: bool,
    /// Without preferences.
    strict: Req,
    pub(crate) groups: SmallVec<[Owned; 2]>,
    pub(crate) look_past_preferences: bool,
    /// Whether the preference that it includes contradicts the other requirements.
    pub(crate) contradicts: bool,
    /// Index of what decides which nodes and pools fit at all.
    pub(crate) compatibility: CompatibilityId,
}

/// A topology group that a pod obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) group: TopologyGroupId,
    /// Whether the group counts the pod itself.
    pub(crate) selects_itself: bool,
}

/// Everything but topology and free resources that decides where a pod fits; verdicts on it are kept.
#[derive(Debug)]
pub(crate) struct Compatibility {
    /// A class and a level that has it.
    pub(crate) representative: (PodClassId, LevelId),
    /// The required hostname.
    pub(crate) host: Option<Set>,
    /// Nodes whose taints and requirements agree, and that have room before anything is placed.
    pub(crate) nodes: OnceCell<Bits<NodeId>>,
    /// The same in the order in which they are tried, once computed.
    pub(crate) in_order: OnceCell<Arc<[NodeId]>>,
    /// By pool: the requirements of a new claim, where taints and requirements agree.
    pub(crate) pools: IdVec<NodePoolId, OnceCell<Option<Req>>>,
}

/// The identity of a compatibility.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CompatibilityKey {
    req: Req,
    host: Option<Set>,
    requests: Amounts,
    tolerations: usize,
    look_past_preferences: bool,
    /// Classes with ports or volumes have compatibilities of their own.
    class: Option<PodClassId>,
}

impl Tables {
    fn compatibility(
        &mut self,
        key: CompatibilityKey,
        representative: (PodClassId, LevelId),
    ) -> CompatibilityId {
        if let Some(id) = self.compatibility_ids.get(&key) {
            return *id;
        }
        let pools = self.pools.iter().map(|_| OnceCell::new()).collect();
        let id = self.compatibilities.push(Compatibility {
            representative,
            host: key.host.clone(),
            nodes: OnceCell::new(),
            in_order: OnceCell::new(),
            pools,
        });
        self.compatibility_ids.insert(key, id);
        id
    }

    /// Whether a node can take a pod of a level, topology aside, before anything is placed.
    pub(crate) fn node_fits(&self, class: PodClassId, level: LevelId, node_id: NodeId) -> bool {
        let node = &self.nodes[node_id];
        if !node.usable || !fits_free(&self.classes[class].requests, &node.spare) {
            return false;
        }
        let pod = &self.classes[class].pod;
        let level = &self.classes[class].levels[level];
        let host = self.compatibilities[level.compatibility].host.as_ref();
        host.is_none_or(|set| self.universe.has(self.universe.hostname(), set, node.host))
            && tolerated(&node.taints, pod, level.look_past_preferences)
            && node.satisfies(node.choice, &self.universe, level.req)
    }

    /// Nodes that fit a level before anything is placed: no other will.
    pub(crate) fn fitting(&self, class: PodClassId, level: LevelId) -> &Bits<NodeId> {
        let compatibility = self.classes[class].levels[level].compatibility;
        let fitting = || self.nodes.ids().filter(|node| self.node_fits(class, level, *node)).collect();
        self.compatibilities[compatibility].nodes.get_or_init(fitting)
    }

    /// Nodes that fit a level before anything is placed, in the order in which they are tried.
    pub(crate) fn fitting_in_order(&self, class: PodClassId, level: LevelId) -> &[NodeId] {
        let compatibility = self.classes[class].levels[level].compatibility;
        self.compatibilities[compatibility].in_order.get_or_init(|| {
            let fitting = self.fitting(class, level);
            self.order.iter().copied().filter(|node| fitting.has(*node)).collect()
        })
    }

    /// The requirements of a new claim of a pool for a level; `None` where taints or requirements keep it away.
    pub(crate) fn template_for(&self, class: PodClassId, level: LevelId, pool: NodePoolId) -> Option<Req> {
        let Level { req, compatibility, look_past_preferences, any_host, .. } =
            self.classes[class].levels[level];
        *self.compatibilities[compatibility].pools[pool].get_or_init(|| {
            let Pool { taints, req: offered, .. } = &self.pools[pool];
            let tolerated = tolerated(taints, &self.classes[class].pod, look_past_preferences);
            if tolerated && any_host { self.universe.meet(*offered, req, Side::Claim) } else { None }
        })
    }

    /// The reason in the pod itself why it is not scheduled.
    fn refusal(&self, pod: &Pod) -> Option<Unplaced> {
        let invalid = |text: String| Some(Unplaced::Invalid(text.into()));
        if let Some(name) = pod.requests().first_negative() {
            let amount = name.quantity(pod.requests().get(&name));
            return invalid(format!("request of {name} is negative ({amount}): set it to zero or more"));
        }
        if self.rules.ignore_dra && !pod.spec.resource_claims.is_empty() {
            let claims: Vec<&str> = pod.spec.resource_claims.iter().map(|claim| &*claim.name).collect();
            return invalid(format!(
                "pod uses resource claims ({}), which are ignored (IGNORE_DRA_REQUESTS): ask for the devices as extended \
                 resources, or set it to false",
                claims.join(", ")
            ));
        }
        let refuses_pools =
            |r: &Requirement| &**r.key() == labels::NODEPOOL && r.operator() == Operator::DoesNotExist;
        if !pod.spec.required_node_terms.is_empty()
            && pod.spec.required_node_terms.iter().all(|term| term.iter().any(refuses_pools))
        {
            return invalid(format!("pod refuses nodes of a NodePool ({} DoesNotExist)", labels::NODEPOOL));
        }
        if let Some(why) = contradiction::of_pod(self.universe.schema(), pod) {
            return invalid(why);
        }
        pod.spec.volumes.iter().find_map(|volume| self.volume_refusal(pod, volume))
    }

    /// Why a volume keeps its pod from being scheduled.
    fn volume_refusal(&self, pod: &Pod, volume: &VolumeRef) -> Option<Unplaced> {
        let id = volume_name(pod, volume);
        let invalid = |text: String| Some(Unplaced::Invalid(text.into()));
        let waits = || Some(Unplaced::Waiting(format!("persistentvolumeclaim {id} to be bound").into()));
        match (self.snapshot.volumes.get(&id).map(|claim| &claim.state), volume) {
            (Some(VolumeState::UnboundImmediate), _) => waits(),
            (Some(VolumeState::Broken(why)), _) => Some(Unplaced::Invalid(why.clone())),
            (Some(_), _) => None,
            (None, VolumeRef::Claim(_)) => {
                invalid(format!("persistentvolumeclaim {id} not found: create it"))
            }
            (None, VolumeRef::Ephemeral { storage_class, .. }) => {
                match (self.class_of_volume(volume), storage_class) {
                    (Some(class), _) if class.immediate => waits(),
                    (Some(_), _) => None,
                    (None, Some(name)) => invalid(format!(
                        "storageclass {name} of ephemeral volume {id} does not exist: create it"
                    )),
                    (None, None) => invalid(format!(
                        "ephemeral volume {id} names no storage class, and none is the default: name one"
                    )),
                }
            }
        }
    }

    /// The StorageClass that the claim of an ephemeral volume will have.
    fn class_of_volume(&self, volume: &VolumeRef) -> Option<&StorageClass> {
        match volume {
            VolumeRef::Claim(_) => None,
            VolumeRef::Ephemeral { storage_class: Some(name), .. } => self.snapshot.storage_classes.get(name),
            VolumeRef::Ephemeral { storage_class: None, .. } => default_class(&self.snapshot.storage_classes),
        }
    }

    /// The topology and attachment of a volume: those of its claim or, before that exists, those of its StorageClass.
    fn places(&self, pod: &Pod, volume: &VolumeRef) -> Option<Places> {
        let id = volume_name(pod, volume);
        if let Some(claim) = self.snapshot.volumes.get(&id) {
            let attached = claim.driver.clone().map(|driver| (driver, claim.handle.clone()));
            return Some((claim.topology.clone(), attached));
        }
        let class = self.class_of_volume(volume)?;
        Some((class.topology.clone(), Some((class.driver.clone(), id.to_string().into()))))
    }

    /// The alternative topologies of all volumes of a pod, and their attachments.
    fn volumes(&mut self, pod: &Pod) -> (Alternatives, Vec<(Str, Str)>) {
        let (mut alternatives, mut attachments): (Alternatives, _) = (smallvec::smallvec![ANY], Vec::new());
        for volume in &pod.spec.volumes {
            let Some((topology, attached)) = self.places(pod, volume) else { continue };
            attachments.extend(attached);
            if topology.is_empty() {
                continue;
            }
            let terms: Vec<Req> = topology.iter().map(|term| self.universe.req(term)).collect();
            let mut crossed = Alternatives::new();
            for (known, term) in alternatives.iter().flat_map(|a| terms.iter().map(move |t| (*a, *t))) {
                if let Some(both) = self.universe.meet(known, term, Side::Plain)
                    && crossed.len() < MAX_ALTERNATIVES
                    && !crossed.contains(&both)
                {
                    crossed.push(both);
                }
            }
            alternatives = crossed;
        }
        attachments.sort();
        attachments.dedup();
        (alternatives, attachments)
    }

    /// The number of domains that the constraints and volumes of a class leave it, where required affinity ties its pods to one another
    /// in one domain; `None` where they name none.
    pub(crate) fn tied_domains(&self, class: PodClassId) -> Option<usize> {
        let class = &self.classes[class];
        if class.pod.spec.pod_affinity.is_empty() {
            return None;
        }
        let level = class.levels.first()?;
        let named = |req: Req, key| self.universe.get(req, key).filter(|set| !set.complement);
        let tied = level.groups.iter().filter(|owned| owned.selects_itself);
        let keys = tied.map(|owned| &self.topology.groups[owned.group]).filter_map(|group| {
            (group.spec.kind == GroupKind::Affinity && !group.by_hostname).then_some(group.spec.key)
        });
        let domains = keys.flat_map(|key| {
            let volumes: Option<Vec<&Set>> = class.alternatives.iter().map(|req| named(*req, key)).collect();
            let of_volumes = volumes.map(|sets| sets.iter().map(|set| set.values.len()).sum());
            [named(level.strict, key).map(|set| set.values.len()), of_volumes]
        });
        domains.flatten().min()
    }
}

/// The class of a pod.
pub(crate) fn class_of(tables: &mut Tables, pod: &Arc<Pod>) -> PodClassId {
    let label_set = tables.topology.label_set(&pod.id.namespace, &pod.labels);
    match defaults::default_spec(tables, pod, label_set) {
        Some(spec) => class_in_label_set(tables, &Arc::new(Pod { spec, ..(**pod).clone() }), label_set),
        None => class_in_label_set(tables, pod, label_set),
    }
}

fn class_in_label_set(tables: &mut Tables, pod: &Arc<Pod>, label_set: LabelSetId) -> PodClassId {
    let key = ClassKey { pod: Arc::clone(pod), label_set };
    if let Some(class) = tables.class_ids.get(&key) {
        return *class;
    }
    let class = tables.classes.next_id();
    compile(tables, pod, label_set);
    tables.class_ids.insert(key, class);
    class
}

fn compile(tables: &mut Tables, pod: &Arc<Pod>, label_set: LabelSetId) {
    let mut refused = tables.refusal(pod);
    let keeps_away =
        pod.spec.pod_anti_affinity.iter().map(|term| term_group(tables, pod, term, GroupKind::Anti));
    let keeps_away = keeps_away.collect();
    let rest = Relaxation::new(pod, tables.rules.preferences);
    let requests = tables.resources.amounts(pod.requests());
    let (alternatives, attachments) = tables.volumes(pod);
    if alternatives.is_empty() && refused.is_none() {
        let text = "volumes of the pod cannot be reached from one place: give them a common zone";
        refused = Some(Unplaced::Invalid(text.into()));
    }
    let class = tables.classes.next_id();
    tables.classes.push(Class {
        pod: Arc::clone(pod),
        label_set,
        requests,
        levels: IdVec::default(),
        rest: None,
        alternatives,
        attachments,
        keeps_away,
        refused,
    });
    let first = level(tables, class, &rest);
    tables.classes[class].levels.push(first);
    tables.classes[class].rest = Some(rest);
}

/// Compiles the next level of a class; `false` where there is none.
fn compile_next_level(tables: &mut Tables, class: PodClassId) -> bool {
    let Some(mut rest) = tables.classes[class].rest.take() else { return false };
    if tables.classes[class].levels.len() >= MAX_LEVELS {
        rest.give_up();
    }
    let pod = Arc::clone(&tables.classes[class].pod);
    if !rest.step(&pod, tables.preference_taints > 0) {
        return false;
    }
    let compiled = level(tables, class, &rest);
    tables.classes[class].levels.push(compiled);
    tables.classes[class].rest = Some(rest);
    true
}

fn level(tables: &mut Tables, class: PodClassId, relaxed: &Relaxation) -> Level {
    let pod = Arc::clone(&tables.classes[class].pod);
    let spec = &pod.spec;
    let selector = contradiction::selector(&pod);
    let term = spec.required_node_terms.get(relaxed.required).map_or(&[][..], Vec::as_slice);
    let strict = tables.universe.req(selector.iter().chain(term));
    let preferred = relaxed.nodes.first().map_or(&[][..], |(_, term)| term.as_slice());
    let all = selector.iter().chain(term).chain(preferred);
    let contradicts = contradiction::first(tables.universe.schema(), all).is_some();
    let nowhere = contradicts.then(|| Requirement::exists(NOWHERE));
    let preferred = tables.universe.req(preferred.iter().chain(&nowhere));
    let whole: SmallVec<[_; 4]> =
        tables.universe.sets(strict).iter().chain(tables.universe.sets(preferred).iter()).cloned().collect();
    let whole = tables.universe.conjunction(whole);
    let hostname = tables.universe.hostname();
    let host = tables.universe.get(whole, hostname).cloned();
    let req = without(&tables.universe, whole, hostname);
    let mut groups: SmallVec<[Owned; 2]> = SmallVec::new();
    let mut own = |tables: &Tables, group: TopologyGroupId| {
        let selects_itself =
            tables.topology.label_sets[tables.classes[class].label_set].groups.contains(&group);
        let owned = Owned { group, selects_itself };
        if !groups.contains(&owned) {
            groups.push(owned);
        }
    };
    for spread in &relaxed.spread {
        let group = spread_group(tables, &pod, spread);
        own(tables, group);
    }
    for term in spec.pod_affinity.iter().chain(relaxed.near.iter().map(|(_, term)| term)) {
        let group = term_group(tables, &pod, term, GroupKind::Affinity);
        own(tables, group);
    }
    for term in spec.pod_anti_affinity.iter().chain(relaxed.away.iter().map(|(_, term)| term)) {
        let group = term_group(tables, &pod, term, GroupKind::Anti);
        own(tables, group);
    }
    let row = &tables.classes[class];
    let special = !spec.host_ports.is_empty() || !spec.volumes.is_empty() || !spec.resource_claims.is_empty();
    let key = CompatibilityKey {
        req: whole,
        host: host.clone(),
        requests: row.requests.clone(),
        tolerations: tables.toleration_sets.insert_full(spec.tolerations.clone()).0,
        look_past_preferences: relaxed.look_past_preferences,
        class: special.then_some(class),
    };
    let representative = (class, tables.classes[class].levels.next_id());
    let compatibility = tables.compatibility(key, representative);
    Level {
        req,
        any_host: host.is_none_or(|set| set.allows_unnamed()),
        strict,
        groups,
        look_past_preferences: relaxed.look_past_preferences,
        contradicts,
        compatibility,
    }
}

/// The distinct ones of some classes, ascending.
pub(crate) fn distinct(mut classes: Vec<PodClassId>) -> Vec<PodClassId> {
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// Compiles all levels of some classes; returns the distinct ones, ascending.
pub(crate) fn all_levels(tables: &mut Tables, classes: &[PodClassId]) -> Vec<PodClassId> {
    let distinct = distinct(classes.to_vec());
    for class in distinct.iter().copied() {
        while compile_next_level(tables, class) {}
    }
    distinct
}

/// Namespace and name of the claim behind a volume.
pub(crate) fn volume_name(pod: &Pod, volume: &VolumeRef) -> NamespacedName {
    match volume {
        VolumeRef::Claim(name) => NamespacedName::new(pod.id.namespace.clone(), name.clone()),
        VolumeRef::Ephemeral { volume, .. } => {
            NamespacedName::new(pod.id.namespace.clone(), format!("{}-{volume}", pod.id.name))
        }
    }
}

//! Workloads of the input become the pods that their controllers would create: those that the input does not have.
//!
//! A Deployment in a pull request has no pods yet; one of a dump has them. So a workload gets as many pods as it wants beyond those
//! that its selector finds. `--replicas` replaces the number that it wants, in the input and in a live cluster.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{bail, ensure};
use fleetwright_core::suggest::did_you_mean;
use serde_json::{Map, Value};

use super::{
    Item, Source, admission,
    autoscalers::Minimums,
    object::{id_of, namespace_of},
    template,
    template::Owner,
    validation,
};

/// The most pods that workloads may expand to: a cluster of Kubernetes has 150,000 at most.
pub(crate) const MAX_PODS: i64 = 150_000;
/// Kinds that expand. A DaemonSet counts as overhead of each node instead.
const KINDS: [(&str, &str); 7] = [
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("", "ReplicationController"),
    ("batch", "Job"),
    ("batch", "CronJob"),
    ("apps", "DaemonSet"),
];

/// `[NAMESPACE/]NAME=COUNT` of `--replicas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replicas {
    namespace: Option<String>,
    name: String,
    count: i64,
}

impl Replicas {
    /// Reads the text of the option.
    ///
    /// # Errors
    /// If it has another form; says which is expected.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let expected = || "it takes [NAMESPACE/]NAME=COUNT such as web=40".to_owned();
        let (workload, count) = text.split_once('=').ok_or_else(expected)?;
        let count = count.parse().ok().filter(|count| (0..=MAX_PODS).contains(count));
        let count = count.ok_or_else(|| format!("the count is a number from 0 to {MAX_PODS}"))?;
        let (namespace, name) = match workload.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, workload),
        };
        if name.is_empty() {
            return Err(expected());
        }
        Ok(Self { namespace, name: name.to_owned(), count })
    }

    fn is_for(&self, workload: &Workload) -> bool {
        self.name == workload.name && self.namespace.as_ref().is_none_or(|name| *name == workload.namespace)
    }
}

/// A workload of the input.
struct Workload {
    group: String,
    kind: String,
    namespace: String,
    name: String,
    /// Its position in the input.
    at: usize,
}

impl Workload {
    fn of_value(value: &Value, at: usize) -> Option<Self> {
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
        let group = text("/apiVersion")?.rsplit_once('/').map_or("", |(group, _)| group);
        let kind = text("/kind")?;
        KINDS.contains(&(group, kind)).then(|| Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace_of(value),
            name: text("/metadata/name").unwrap_or_default().to_owned(),
            at,
        })
    }

    fn id(&self) -> String {
        format!("{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// The pods of the input, by namespace.
struct Pods<'a> {
    of_namespace: BTreeMap<String, Vec<(usize, &'a Value)>>,
}

impl<'a> Pods<'a> {
    fn new(items: &'a [Item]) -> Self {
        let mut of_namespace: BTreeMap<String, Vec<(usize, &Value)>> = BTreeMap::new();
        let pods = items.iter().enumerate().filter(|(_, item)| item.value["kind"] == "Pod");
        for (at, Item { value, .. }) in pods {
            let phase = value.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
            let ended = matches!(phase, "Succeeded" | "Failed");
            if !ended && value.pointer("/metadata/deletionTimestamp").is_none_or(Value::is_null) {
                of_namespace.entry(namespace_of(value)).or_default().push((at, value));
            }
        }
        Self { of_namespace }
    }

    /// The pods that a workload has, those without a node first: the order in which a controller removes them.
    fn of(&self, namespace: &str, selected: impl Fn(&Value) -> bool) -> Vec<(usize, &'a Value)> {
        let all = self.of_namespace.get(namespace).into_iter().flatten();
        let mut pods: Vec<_> = all.filter(|(_, pod)| selected(pod)).copied().collect();
        pods.sort_by_key(|(at, pod)| {
            let bound =
                pod.pointer("/spec/nodeName").and_then(Value::as_str).is_some_and(|node| !node.is_empty());
            (bound, std::cmp::Reverse(*at))
        });
        pods
    }
}

/// The pods to add and to remove.
#[derive(Default)]
struct Changes {
    added: Vec<Item>,
    removed: BTreeSet<usize>,
    notes: Vec<String>,
    /// Pods added by workload, for one note.
    counts: Vec<String>,
}

/// Adds the pods that workloads lack, admits new pods, and returns notes about them. With `replicas`, workloads have that many pods.
///
/// # Errors
/// If `replicas` names a workload that the input does not have, or the sum is above [`MAX_PODS`].
pub(crate) fn expand(items: &mut Vec<Item>, replicas: &[Replicas]) -> anyhow::Result<Vec<String>> {
    let refused = validation::drop_refused(items);
    let workloads = workloads(items);
    check(&workloads, replicas)?;
    let pods = Pods::new(items);
    let claims = template::claims_of(items);
    let names: BTreeSet<(String, String)> =
        items.iter().filter(|item| item.value["kind"] == "Pod").map(|item| id_of(&item.value)).collect();
    let mut changes = Changes { notes: refused, ..Changes::default() };
    let minimums = Minimums::of(items);
    for workload in &workloads {
        let item = &items[workload.at];
        let asked = replicas.iter().rev().find(|asked| asked.is_for(workload)).map(|asked| asked.count);
        if is_owned(workload, item, &workloads) || workload.kind == "DaemonSet" {
            continue;
        }
        // The controllers of a live cluster have created what they want.
        if asked.is_none() && matches!(item.source, Source::Cluster) {
            continue;
        }
        let Some((wanted, template)) = wanted(workload, &item.value, asked, &mut changes.notes) else {
            continue;
        };
        let selected = template::selects(&item.value, template);
        let present = pods.of(&workload.namespace, selected);
        let count = i64::try_from(present.len()).unwrap_or(i64::MAX);
        if count > wanted && asked.is_some() {
            let surplus = usize::try_from(count.saturating_sub(wanted)).unwrap_or(0);
            changes.removed.extend(present.iter().take(surplus).map(|(at, _)| *at));
        }
        if asked.is_none() {
            let key = (&*workload.kind, &*workload.namespace, &*workload.name);
            changes.notes.extend(minimums.note(key, wanted.max(count)));
        }
        let missing = wanted.saturating_sub(count).max(0);
        let all = i64::try_from(changes.added.len()).unwrap_or(i64::MAX).saturating_add(missing);
        ensure!(
            all <= MAX_PODS,
            "{}: {}: workloads have more than {MAX_PODS} pods in sum",
            item.source,
            workload.id()
        );
        if missing > 0 {
            changes.counts.push(format!("{} ({missing})", workload.id()));
        }
        let owner = Owner { workload: &item.value, kind: &workload.kind, group: &workload.group };
        let like = present.first().map(|(_, pod)| *pod);
        let made = template::Made { template, like, source: &item.source, names: &names, claims: &claims };
        changes.added.extend(template::pods(&owner, &made, usize::try_from(missing).unwrap_or(0)));
    }
    let mut notes = apply(items, changes);
    notes.extend(admission::admit(items));
    Ok(notes)
}

fn apply(items: &mut Vec<Item>, changes: Changes) -> Vec<String> {
    let Changes { added, removed, mut notes, counts } = changes;
    let mut at = 0;
    items.retain(|_| {
        at += 1;
        !removed.contains(&(at - 1))
    });
    if !counts.is_empty() {
        notes
            .push(format!("pods of workloads that the input does not have are added: {}", counts.join(", ")));
    }
    items.extend(added);
    notes
}

/// The workloads of the input; of two with one name the last.
fn workloads(items: &[Item]) -> Vec<Workload> {
    let mut found: BTreeMap<(String, String, String), Workload> = BTreeMap::new();
    for (at, item) in items.iter().enumerate() {
        if let Some(workload) =
            Workload::of_value(&item.value, at).filter(|workload| !workload.name.is_empty())
        {
            let key = (workload.kind.clone(), workload.namespace.clone(), workload.name.clone());
            found.insert(key, workload);
        }
    }
    let mut all: Vec<Workload> = found.into_values().collect();
    all.sort_by_key(|workload| workload.at);
    all
}

fn check(workloads: &[Workload], replicas: &[Replicas]) -> anyhow::Result<()> {
    for asked in replicas {
        let named: Vec<&Workload> = workloads.iter().filter(|workload| asked.is_for(workload)).collect();
        if let Some(daemon) = named.iter().find(|workload| workload.kind == "DaemonSet") {
            bail!("--replicas {}: {} has one pod on each node", asked.name, daemon.id());
        }
        if named.is_empty() {
            let known: Vec<&str> = workloads.iter().map(|workload| workload.name.as_str()).collect();
            let meant = did_you_mean(&asked.name, known.iter().copied());
            bail!("--replicas {}: the input has no workload of this name{meant}", asked.name);
        }
    }
    Ok(())
}

/// Whether another workload of the input creates the pods: a ReplicaSet of a Deployment, a Job of a CronJob.
fn is_owned(workload: &Workload, item: &Item, all: &[Workload]) -> bool {
    let owners = item.value.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let is_owner = |owner: &Value| {
        owner["controller"] == true
            && all.iter().any(|known| {
                owner["kind"] == *known.kind
                    && owner["name"] == *known.name
                    && known.namespace == workload.namespace
            })
    };
    // Without its owner in the input, a ReplicaSet stands for it.
    owners.into_iter().flatten().any(is_owner)
}

/// How many pods a workload wants, and their template. `None` without a template, and where it creates none.
fn wanted<'a>(
    workload: &Workload,
    value: &'a Value,
    asked: Option<i64>,
    notes: &mut Vec<String>,
) -> Option<(i64, &'a Map<String, Value>)> {
    let spec = &value["spec"];
    let number = |spec: &Value, field: &str| spec[field].as_i64();
    let (count, template) = match workload.kind.as_str() {
        "Job" => {
            let succeeded = value["status"]["succeeded"].as_i64().unwrap_or(0);
            (of_job(spec, succeeded), &spec["template"])
        }
        "CronJob" => (of_job(&spec["jobTemplate"]["spec"], 0), &spec["jobTemplate"]["spec"]["template"]),
        // Unset means one to Kubernetes.
        _ => (number(spec, "replicas").unwrap_or(1), &spec["template"]),
    };
    let suspended =
        spec["suspend"] == true || value.pointer("/metadata/deletionTimestamp").is_some_and(|t| !t.is_null());
    if suspended && asked.is_none() {
        return None;
    }
    if workload.kind == "CronJob" && asked.is_none() {
        // The Jobs of a dump are its runs.
        if super::prepare::is_dump(value) {
            return None;
        }
        notes.push(format!("{} counts as one run", workload.id()));
    }
    let conditions = value.pointer("/status/conditions").and_then(Value::as_array);
    let is_end = |condition: &Value| {
        condition["status"] == "True" && matches!(condition["type"].as_str(), Some("Complete" | "Failed"))
    };
    let is_finished = workload.kind == "Job" && conditions.is_some_and(|all| all.iter().any(is_end));
    if is_finished && asked.is_none() {
        return None;
    }
    Some((asked.unwrap_or(count).clamp(0, MAX_PODS + 1), template.as_object()?))
}

/// How many pods of a Job run at once, after some have succeeded.
fn of_job(spec: &Value, succeeded: i64) -> i64 {
    let parallelism = spec["parallelism"].as_i64().unwrap_or(1);
    let left = |completions: i64| completions.saturating_sub(succeeded).max(0);
    spec["completions"].as_i64().map_or(parallelism, |completions| parallelism.min(left(completions)))
}

/// The pod template of a workload.
pub(crate) fn pod_template(value: &Value) -> Option<&Value> {
    Workload::of_value(value, 0)?;
    let at = if value["kind"] == "CronJob" { "/spec/jobTemplate/spec/template" } else { "/spec/template" };
    value.pointer(at)
}

/// The positions of the pods that the workload at a position of the input has.
pub(crate) fn pods_of(items: &[Item], at: usize) -> Vec<usize> {
    let workload = &items[at].value;
    let Some(of) = pod_template(workload).and_then(Value::as_object) else { return Vec::new() };
    let pods = Pods::new(items);
    pods.of(&namespace_of(workload), template::selects(workload, of)).into_iter().map(|(at, _)| at).collect()
}

/// The replicas of a workload, as if `--replicas` named them. A DaemonSet has none.
pub(crate) fn wanted_replicas(value: &Value) -> Option<Replicas> {
    let workload = Workload::of_value(value, 0).filter(|workload| workload.kind != "DaemonSet")?;
    let (count, _) = wanted(&workload, value, None, &mut Vec::new())?;
    Some(Replicas { namespace: Some(workload.namespace), name: workload.name, count })
}

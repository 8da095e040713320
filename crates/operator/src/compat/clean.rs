//! `fleetwright compat clean`: lists and removes what Fleetwright left on objects after a cluster went back to Karpenter.
//!
//! Only the finalizer of delete protection affects Karpenter. Fleetwright's own fields are known by the prefix of their
//! keys ([`labels::PREFIX`]) and from the lists of conditions beside their names.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
};

use anyhow::{Context as _, bail};
use fleetwright_api::labels::{self, condition};
use fleetwright_core::clock::Clock as _;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    cloud::CloudCompat,
    deployment,
    objects::{ClusterObjects, count, display, group_of, list, name, text},
};
use crate::{
    cli::{CleanOptions, TableOrJson},
    clock::SystemClock,
    input,
    outcome::Outcome,
    plan::grid,
};

/// What Fleetwright left on an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Leftover {
    pub(super) object: String,
    pub(super) annotations: Vec<String>,
    pub(super) conditions: Vec<String>,
    pub(super) finalizers: Vec<String>,
    /// Annotations that users set, which are kept without `--all`.
    pub(super) kept: Vec<String>,
    /// Why the finalizers are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) held: Option<String>,
}

/// A merge patch of an object, and of its status.
#[derive(Debug, PartialEq)]
pub(super) struct Removal {
    pub(super) object: Option<Value>,
    pub(super) status: Option<Value>,
}

/// Prints the leftovers, and removes them with `--apply`.
///
/// # Errors
/// If the input cannot be read, Fleetwright still runs, or the API server refuses a change.
pub(crate) fn run(options: &CleanOptions, clouds: &[Box<dyn CloudCompat>]) -> anyhow::Result<Outcome> {
    let items = input::read_from(&options.input)?;
    let is_live = options.input.files.is_empty();
    if options.apply && !is_live {
        bail!("--apply changes the cluster: leave out -f");
    }
    let cluster = ClusterObjects::new(&items, Vec::new(), is_live, SystemClock.now());
    let conditions = own_conditions(clouds);
    let found: Vec<(&Value, Leftover)> = cluster
        .all()
        .iter()
        .filter_map(|object| Some((object, leftover(object, &conditions, options.all)?)))
        .collect();
    show(&found, options.output)?;
    if !options.apply || found.is_empty() {
        return Ok(Outcome::Complete);
    }
    let active = deployment::running(&cluster)
        .into_iter()
        .find(|running| running.is_fleetwright() && running.replicas() > 0);
    if let Some(running) = active {
        bail!(
            "{} still runs Fleetwright, which would write all of it again: go back to Karpenter first",
            running.object()
        );
    }
    let removals: Vec<(&Value, Removal)> =
        found.iter().map(|(object, leftover)| (*object, removal(object, leftover))).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = input::connect(&options.input).await?;
        let failed = apply(&client, &removals).await?;
        let done = removals.len().saturating_sub(failed.len());
        writeln!(anstream::stdout(), "cleaned {}", count(done, "object"))?;
        if failed.is_empty() {
            return Ok(Outcome::Complete);
        }
        bail!("{} not cleaned: {}", count(failed.len(), "object"), failed.join("; "))
    })
}

/// The conditions that Karpenter does not have: those of its kinds, and those of NodeClasses by API group.
pub(super) fn own_conditions(clouds: &[Box<dyn CloudCompat>]) -> BTreeSet<(String, &'static str)> {
    let of_core = condition::OWN.iter().map(|condition| (labels::GROUP.to_owned(), *condition));
    let of_clouds = clouds.iter().flat_map(|cloud| {
        cloud.own_conditions().iter().map(|condition| (cloud.group().to_owned(), *condition))
    });
    of_core.chain(of_clouds).collect()
}

/// The leftover on an object, if any.
pub(super) fn leftover(
    object: &Value,
    own: &BTreeSet<(String, &'static str)>,
    all: bool,
) -> Option<Leftover> {
    let keys = object.pointer("/metadata/annotations").and_then(Value::as_object);
    let keys = keys.into_iter().flat_map(|all| all.keys()).filter(|key| key.starts_with(labels::PREFIX));
    let (kept, annotations): (Vec<String>, Vec<String>) =
        keys.cloned().partition(|key| !all && labels::SET_BY_USERS.contains(&key.as_str()));
    let group = group_of(object);
    let is_own = |kind: &&str| own.iter().any(|(of, condition)| of == group && condition == kind);
    let conditions = list(object, "/status/conditions").map(|condition| text(condition, "/type"));
    let finalizers: Vec<String> = list(object, "/metadata/finalizers")
        .filter_map(Value::as_str)
        .filter(|finalizer| finalizer.starts_with(labels::PREFIX))
        .map(str::to_owned)
        .collect();
    let is_held = !finalizers.is_empty() && !text(object, "/metadata/deletionTimestamp").is_empty();
    let held = is_held.then(|| {
        "the object is being deleted: without the finalizer it goes at once, and its NodeClaims with it; remove it by hand".to_owned()
    });
    let leftover = Leftover {
        object: display(object),
        annotations,
        conditions: conditions.filter(is_own).map(str::to_owned).collect(),
        finalizers,
        kept,
        held,
    };
    let is_any = [&leftover.annotations, &leftover.conditions, &leftover.finalizers, &leftover.kept]
        .iter()
        .any(|part| !part.is_empty());
    is_any.then_some(leftover)
}

/// The patches that remove a leftover. They name the version that was read: a list that changed since is not overwritten.
pub(super) fn removal(object: &Value, leftover: &Leftover) -> Removal {
    let version = text(object, "/metadata/resourceVersion");
    let mut metadata = json!({});
    if !leftover.annotations.is_empty() {
        let gone = leftover.annotations.iter().map(|key| (key.clone(), Value::Null));
        metadata["annotations"] = Value::Object(gone.collect());
    }
    if !leftover.finalizers.is_empty() && leftover.held.is_none() {
        let rest = list(object, "/metadata/finalizers")
            .filter(|finalizer| !leftover.finalizers.iter().any(|gone| *finalizer == gone.as_str()));
        metadata["finalizers"] = rest.cloned().collect();
        metadata["resourceVersion"] = version.into();
    }
    let status = (!leftover.conditions.is_empty()).then(|| {
        let rest = list(object, "/status/conditions")
            .filter(|condition| !leftover.conditions.iter().any(|gone| condition["type"] == gone.as_str()));
        let conditions: Value = rest.cloned().collect();
        json!({"metadata": {"resourceVersion": version}, "status": {"conditions": conditions}})
    });
    let is_empty = metadata.as_object().is_none_or(serde_json::Map::is_empty);
    Removal { object: (!is_empty).then(|| json!({"metadata": metadata})), status }
}

/// Applies the patches, conditions first: their patch names the version that was read. Returns what was refused, with the object.
///
/// # Errors
/// If an object has no kind.
pub(super) async fn apply(client: &Client, removals: &[(&Value, Removal)]) -> anyhow::Result<Vec<String>> {
    let mut failed = Vec::new();
    let mut kinds: BTreeMap<(&str, &str), ApiResource> = BTreeMap::new();
    for (object, removal) in removals {
        let kind = (text(object, "/apiVersion"), text(object, "/kind"));
        let resource = match kinds.get(&kind) {
            Some(known) => known.clone(),
            None => resource(client, object).await.with_context(|| display(object))?,
        };
        let api = api(client, object, &resource);
        kinds.insert(kind, resource);
        if let Err(error) = one(&api, name(object), removal).await {
            failed.push(format!("{}: {error}", display(object)));
        }
    }
    Ok(failed)
}

async fn one(api: &Api<DynamicObject>, name: &str, removal: &Removal) -> kube::Result<()> {
    let params = PatchParams::default();
    let mut version = None;
    if let Some(status) = &removal.status {
        let patched = api.patch_status(name, &params, &Patch::Merge(status)).await?;
        version = patched.metadata.resource_version;
    }
    if let Some(object) = &removal.object {
        let mut patch = object.clone();
        // Our own change of the status was the last one.
        if let (Some(version), true) = (version, patch.pointer("/metadata/resourceVersion").is_some()) {
            patch["metadata"]["resourceVersion"] = version.into();
        }
        api.patch(name, &params, &Patch::Merge(&patch)).await?;
    }
    Ok(())
}

/// The API resource of an object.
async fn resource(client: &Client, object: &Value) -> anyhow::Result<ApiResource> {
    let (group, kind) = (group_of(object), text(object, "/kind"));
    let version = text(object, "/apiVersion").rsplit('/').next().unwrap_or_default();
    let gvk = GroupVersionKind::gvk(group, version, kind);
    let found = kube::discovery::pinned_kind(client, &gvk).await;
    Ok(found.context("the API server does not serve its kind")?.0)
}

fn api(client: &Client, object: &Value, resource: &ApiResource) -> Api<DynamicObject> {
    match text(object, "/metadata/namespace") {
        "" => Api::all_with(client.clone(), resource),
        namespace => Api::namespaced_with(client.clone(), namespace, resource),
    }
}

fn show(found: &[(&Value, Leftover)], output: TableOrJson) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    let leftovers: Vec<&Leftover> = found.iter().map(|(_, leftover)| leftover).collect();
    match output {
        TableOrJson::Json => writeln!(out, "{}", serde_json::to_string_pretty(&leftovers)?)?,
        TableOrJson::Table => write!(out, "{}", table(&leftovers))?,
    }
    Ok(())
}

/// The leftovers as a table.
pub(super) fn table(leftovers: &[&Leftover]) -> String {
    if leftovers.is_empty() {
        return "nothing of Fleetwright is left on any object\n".to_owned();
    }
    let mut rows = grid(&["OBJECT", "ANNOTATIONS", "CONDITIONS", "FINALIZERS", "KEPT (SET BY USERS)"]);
    let short = |keys: &[String]| {
        let keys = keys.iter().map(|key| key.strip_prefix(labels::PREFIX).unwrap_or(key));
        keys.collect::<Vec<_>>().join(", ")
    };
    for leftover in leftovers {
        rows.add_row([
            leftover.object.clone(),
            short(&leftover.annotations),
            short(&leftover.conditions),
            short(&leftover.finalizers),
            short(&leftover.kept),
        ]);
    }
    let held = leftovers.iter().filter_map(|leftover| Some((leftover, leftover.held.as_ref()?)));
    let held: String = held.map(|(leftover, why)| format!("{}: {why}\n", leftover.object)).collect();
    let total = count(leftovers.len(), "object");
    format!(
        "{}\n\n{held}{total}; instances keep their tags of fleetwright.dev, which nothing else reads\n",
        rows.trim_fmt()
    )
}

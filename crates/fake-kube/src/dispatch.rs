//! Dispatches a resource request to its verb.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::cluster::{ClusterState, Target};
use crate::faults::Fault;
use crate::request::ResourceRequest;
use crate::server::Server;
use crate::status::{self, ApiError};
use crate::subresource::{binding, eviction, review, scale, token};
use crate::verbs::delete::{DeleteOptions, Deleted};
use crate::verbs::{create, delete, list, patch, update};
use crate::watch::Watch;
use crate::{gc, view_of};

/// An answer before its conversion to HTTP.
pub(crate) enum Reply {
    /// JSON with a status code.
    Json(u16, Bytes),
    /// JSON of a special media type.
    Typed(&'static str, Vec<u8>),
    /// Plain text.
    Text(u16, String),
    /// A stream of events.
    Watch(Box<Watch>),
}

impl Reply {
    /// A value with a status code.
    pub(crate) fn value(code: u16, value: &Value) -> Self {
        Self::Json(code, view_of::bytes(value).into())
    }
}

/// The result of a verb, in stored form.
enum Outcome {
    Object(u16, Arc<Value>),
    Raw(u16, Value),
    Page(list::Page),
    Watch(Box<Watch>),
}

/// Serves a request; its chores are completed before the answer.
///
/// # Errors
/// Any error of the API server.
pub(crate) fn serve(server: &Server, request: &ResourceRequest, fault: &Fault) -> Result<Reply, ApiError> {
    let mut cluster = server.lock();
    let target = find(&cluster, request)?;
    let outcome = run(server, &mut cluster, &target, request, fault);
    gc::run_chores(&mut cluster);
    drop(cluster);
    let resource = &target.resource;
    Ok(match outcome? {
        Outcome::Object(code, value) => {
            let shown = request.view.one(server, resource, &value);
            Reply::Json(code, server.body(code, &shown))
        }
        Outcome::Raw(code, value) => Reply::value(code, &value),
        Outcome::Page(page) => Reply::Json(200, request.view.page(server, resource, &page).into()),
        Outcome::Watch(watch) => Reply::Watch(watch),
    })
}

fn find(cluster: &ClusterState, request: &ResourceRequest) -> Result<Target, ApiError> {
    let path = &request.path;
    let resource = cluster
        .registry
        .find(&path.group, &path.version, &path.plural)
        .ok_or_else(ApiError::no_such_route)?;
    let scoped = !path.namespace.is_empty();
    let single = !path.name.is_empty() || request.verb == "create";
    // Lists and watches of namespaced resources may span all namespaces, and reviews need none.
    let lacks_namespace = !scoped && resource.info.namespaced && single && !review::is(&resource);
    if lacks_namespace || scoped && !resource.info.namespaced {
        return Err(ApiError::no_such_route());
    }
    let known = path.subresource.is_empty() || resource.info.has(&path.subresource);
    if !known {
        return Err(ApiError::no_such_route());
    }
    if path.subresource.is_empty() && !resource.info.allows(request.verb) {
        return Err(ApiError::method_not_allowed());
    }
    Ok(Target { resource, namespace: path.namespace.clone(), name: path.name.clone() })
}

fn run(
    server: &Server,
    cluster: &mut ClusterState,
    target: &Target,
    request: &ResourceRequest,
    fault: &Fault,
) -> Result<Outcome, ApiError> {
    let query = &request.query;
    if !matches!(request.path.subresource.as_str(), "" | "status" | "finalize") {
        return subresource(cluster, target, request);
    }
    match request.verb {
        "get" => get(cluster, target, fault.stale).map(|value| Outcome::Object(200, value)),
        "list" => list::list(cluster, target, query, fault.stale).map(Outcome::Page),
        "watch" => Watch::start(server, cluster, target, query, request.view, fault)
            .map(|watch| Outcome::Watch(Box::new(watch))),
        "create" => create(cluster, target, request),
        "update" => {
            let write = request.write()?;
            update::update(cluster, target, Value::clone(&request.body), &write)
                .map(|value| Outcome::Object(200, value))
        }
        "patch" => {
            let kind = request.patch.ok_or_else(ApiError::method_not_allowed)?;
            let (value, created) = patch::patch(cluster, target, kind, &request.body, &request.write()?)?;
            Ok(Outcome::Object(if created { 201 } else { 200 }, value))
        }
        "delete" => delete(cluster, target, request),
        "deletecollection" => {
            let options = delete_options(request)?;
            let selector = list::selector(target, query)?;
            let items = delete::delete_collection(cluster, target, &selector, &options)?;
            let revision = cluster.revision;
            Ok(Outcome::Page(list::Page { items, revision, more: String::new(), remaining: None }))
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn get(cluster: &ClusterState, target: &Target, stale: u64) -> Result<Arc<Value>, ApiError> {
    if stale == 0 {
        return cluster.find(target);
    }
    let store = cluster.store(&target.resource.storage).ok_or_else(|| target.not_found())?;
    let objects = store.as_of(cluster.revision.saturating_sub(stale))?;
    objects.get(&target.place().key).cloned().ok_or_else(|| target.not_found())
}

fn create(
    cluster: &mut ClusterState,
    target: &Target,
    request: &ResourceRequest,
) -> Result<Outcome, ApiError> {
    if review::is(&target.resource) {
        return Ok(Outcome::Raw(201, review::answer(&target.resource, &request.body)));
    }
    if target.resource.is("", "Binding") {
        let name = crate::object::name(&request.body).to_owned();
        let pods = cluster.registry.find("", "v1", "pods").ok_or_else(ApiError::no_such_route)?;
        let pod = Target { resource: pods, namespace: target.namespace.clone(), name };
        binding::bind(cluster, &pod, &request.body, &request.write()?)?;
        return Ok(Outcome::Raw(201, status::success(201, None)));
    }
    if !target.name.is_empty() {
        return Err(ApiError::method_not_allowed());
    }
    create::create(cluster, target, Value::clone(&request.body), &request.write()?)
        .map(|value| Outcome::Object(201, value))
}

fn delete_options(request: &ResourceRequest) -> Result<DeleteOptions, ApiError> {
    let query = &request.query;
    let mut options = DeleteOptions {
        dry_run: query.text("dryRun") == "All",
        grace: query.number("gracePeriodSeconds")?.and_then(|seconds| i64::try_from(seconds).ok()),
        ..DeleteOptions::default()
    };
    if query.has("propagationPolicy") {
        options.set_policy(query.text("propagationPolicy"))?;
    }
    options.read(&request.body)?;
    Ok(options)
}

fn delete(
    cluster: &mut ClusterState,
    target: &Target,
    request: &ResourceRequest,
) -> Result<Outcome, ApiError> {
    /// Kinds whose deletion answers with the object.
    const SHOWN: &[&str] = &["Pod", "Service", "ServiceAccount", "PersistentVolume", "PersistentVolumeClaim"];
    let info = &target.resource.info;
    match delete::delete(cluster, target, &delete_options(request)?)? {
        Deleted::Pending(value) => Ok(Outcome::Object(200, value)),
        Deleted::Gone(value) if info.group.is_empty() && SHOWN.contains(&info.kind.as_str()) => {
            Ok(Outcome::Object(200, value))
        }
        Deleted::Gone(value) => {
            let mut details =
                json!({ "name": target.name, "kind": info.plural, "uid": crate::object::uid(&value) });
            if !info.group.is_empty() {
                details["group"] = info.group.as_str().into();
            }
            Ok(Outcome::Raw(200, status::success(200, Some(details))))
        }
    }
}

fn subresource(
    cluster: &mut ClusterState,
    target: &Target,
    request: &ResourceRequest,
) -> Result<Outcome, ApiError> {
    match (request.path.subresource.as_str(), request.verb) {
        ("scale", "get") => {
            let value = cluster.find(target)?;
            scale::of(&target.resource, &value).map(|scale| Outcome::Raw(200, scale))
        }
        ("scale", "update" | "patch") => {
            let write = request.write()?;
            let scale = scale::set_scale(cluster, target, request.patch, &request.body, &write)?;
            Ok(Outcome::Raw(200, Value::clone(&scale)))
        }
        ("eviction", "create") => {
            eviction::evict(cluster, target, &request.body, &request.write()?)?;
            Ok(Outcome::Raw(201, status::success(201, None)))
        }
        ("binding", "create") => {
            binding::bind(cluster, target, &request.body, &request.write()?)?;
            Ok(Outcome::Raw(201, status::success(201, None)))
        }
        ("token", "create") => {
            token::issue(cluster, target, &request.body).map(|answer| Outcome::Raw(201, answer))
        }
        ("log", "get") => {
            cluster.find(target)?;
            let message = format!("the server keeps no logs of pod {:?}: nothing runs in it", target.name);
            Err(ApiError::new(404, "NotFound", message).about("", "pods", &target.name))
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

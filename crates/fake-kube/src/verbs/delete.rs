//! Deletion: preconditions, grace, finalizers and propagation.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cluster::{Chore, ClusterState, Place, Target};
use crate::object;
use crate::propagation::{self, FOREGROUND, ORPHAN, Propagation};
use crate::selector::Selector;
use crate::status::ApiError;

/// `DeleteOptions`.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    /// Grace period in seconds; the object's own if absent.
    pub(crate) grace: Option<i64>,
    /// UID that the object must have.
    pub(crate) uid: Option<String>,
    /// resourceVersion that the object must have.
    pub(crate) revision: Option<String>,
    /// The handling of dependents; the resource's default if absent.
    pub(crate) policy: Option<Propagation>,
    /// Validate only.
    pub(crate) dry_run: bool,
}

/// The result of a deletion.
#[derive(Clone, Debug)]
pub(crate) enum Deleted {
    /// The object is gone; this was its last version.
    Gone(Arc<Value>),
    /// The object waits for finalizers, dependents or its kubelet.
    Pending(Arc<Value>),
}

impl DeleteOptions {
    /// Options of the server's own deletions.
    pub(crate) fn policy(policy: Propagation) -> Self {
        Self { policy: Some(policy), ..Self::default() }
    }

    /// Parses `DeleteOptions` from a body; null is the default.
    ///
    /// # Errors
    /// 422 for an unknown policy.
    pub(crate) fn read(&mut self, body: &Value) -> Result<(), ApiError> {
        let texts = |path: &[&str]| object::at(body, path).and_then(Value::as_str).map(str::to_owned);
        self.grace = object::integer(body, &["gracePeriodSeconds"]).or(self.grace);
        self.uid = texts(&["preconditions", "uid"]).or_else(|| self.uid.take());
        self.revision = texts(&["preconditions", "resourceVersion"]).or_else(|| self.revision.take());
        if let Some(policy) = texts(&["propagationPolicy"]) {
            self.set_policy(&policy)?;
        }
        if body["orphanDependents"] == json!(true) {
            self.policy = Some(Propagation::Orphan);
        }
        self.dry_run |= object::list(body, &["dryRun"]).iter().any(|value| value == "All");
        Ok(())
    }

    /// Sets the policy from its name.
    ///
    /// # Errors
    /// 422 for an unknown policy.
    pub(crate) fn set_policy(&mut self, policy: &str) -> Result<(), ApiError> {
        self.policy = Some(match policy {
            "Background" => Propagation::Background,
            "Foreground" => Propagation::Foreground,
            "Orphan" => Propagation::Orphan,
            other => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                let cause =
                    crate::status::Cause::not_supported("propagationPolicy", &json!(other), &supported);
                return Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &[cause]));
            }
        });
        Ok(())
    }
}

/// Deletes an object, or starts its termination.
///
/// # Errors
/// 403, 404 or 409.
pub(crate) fn delete(
    cluster: &mut ClusterState,
    target: &Target,
    options: &DeleteOptions,
) -> Result<Deleted, ApiError> {
    let old = cluster.find(target)?;
    check_preconditions(target, &old, options)?;
    let resource = &target.resource;
    if resource.is("", "Namespace") && ["default", "kube-system", "kube-public"].contains(&&*target.name) {
        let why = "this namespace may not be deleted";
        return Err(ApiError::forbidden("", "namespaces", &target.name, why));
    }
    let policy = options.policy.or_else(|| propagation::default_of(resource));
    let mut new = Value::clone(&old);
    set_policy_finalizer(&mut new, policy);
    let grace = grace(target, &old, options);
    let waits = object::finalizers(&new).next().is_some()
        || grace > 0
        || !object::list(&new, &["spec", "finalizers"]).is_empty() && resource.is("", "Namespace");
    if options.dry_run {
        return Ok(if waits { Deleted::Pending(old) } else { Deleted::Gone(old) });
    }
    let place = target.place();
    if !waits {
        return Ok(Deleted::Gone(cluster.erase(&place).unwrap_or(old)));
    }
    mark_deleted(cluster, &mut new, &old, grace);
    if resource.is("", "Namespace") {
        object::put(&mut new, &["status", "phase"], "Terminating");
    }
    let stored = if new == *old { old } else { cluster.put(&place, new) };
    cluster.chores.push_back(Chore::Deleting(place));
    Ok(Deleted::Pending(stored))
}

/// Sets or shortens the deletion time.
fn mark_deleted(cluster: &ClusterState, new: &mut Value, old: &Value, grace: i64) {
    let already = object::deleting(old);
    let known = object::integer(old, &["metadata", "deletionGracePeriodSeconds"]);
    if already && known.is_some_and(|known| grace >= known) {
        return;
    }
    let now = (cluster.config.now)();
    let since = if already {
        let planned = object::text(old, &["metadata", "deletionTimestamp"]).parse().unwrap_or(now);
        planned - jiff::SignedDuration::from_secs(known.unwrap_or(0))
    } else {
        now
    };
    let until = since + jiff::SignedDuration::from_secs(grace.min(i64::from(i32::MAX)));
    object::put(new, &["metadata", "deletionTimestamp"], object::time(until));
    object::put(new, &["metadata", "deletionGracePeriodSeconds"], grace);
    if let Some(generation) = object::integer(old, &["metadata", "generation"]).filter(|_| !already) {
        object::put(new, &["metadata", "generation"], generation.saturating_add(1));
    }
}

/// Deletes all selected objects and returns their last versions.
///
/// # Errors
/// The first error of a deletion other than 404.
pub(crate) fn delete_collection(
    cluster: &mut ClusterState,
    target: &Target,
    selector: &Selector,
    options: &DeleteOptions,
) -> Result<Vec<Arc<Value>>, ApiError> {
    let found: Vec<Arc<Value>> = cluster
        .scan(&target.resource.storage, &target.namespace)
        .filter(|value| selector.matches(value))
        .cloned()
        .collect();
    let mut deleted = Vec::with_capacity(found.len());
    for value in found {
        match delete(cluster, &Target::of(&target.resource, &value), options) {
            Ok(Deleted::Gone(value) | Deleted::Pending(value)) => deleted.push(value),
            Err(error) if error.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(deleted)
}

/// Deletes the object at a place, for the server's own controllers; a missing object is no error.
pub(crate) fn delete_place(cluster: &mut ClusterState, place: &Place, policy: Propagation) {
    let (Some(resource), Some(value)) = (cluster.registry.of_storage(&place.storage), cluster.get(place))
    else {
        return;
    };
    let target = Target::of(&resource, value);
    let already = object::deleting(value);
    if already && policy == Propagation::Background {
        return;
    }
    // Only 403 for system namespaces is possible, and those have no owner.
    let _ = delete(cluster, &target, &DeleteOptions::policy(policy));
}

fn check_preconditions(target: &Target, old: &Value, options: &DeleteOptions) -> Result<(), ApiError> {
    let info = &target.resource.info;
    let fail = |why: String| Err(ApiError::conflict(&info.group, &info.kind, &target.name, &why));
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != object::uid(old)) {
        return fail(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            object::uid(old)
        ));
    }
    let current = object::text(old, &["metadata", "resourceVersion"]);
    if let Some(revision) = options.revision.as_deref().filter(|revision| *revision != current) {
        return fail(format!(
            "the ResourceVersion in the precondition ({revision}) does not match the ResourceVersion in record ({current}). The object might have been modified"
        ));
    }
    Ok(())
}

/// The grace period: only pods on a node have one.
fn grace(target: &Target, old: &Value, options: &DeleteOptions) -> i64 {
    if !target.resource.is("", "Pod") {
        return 0;
    }
    let ended = matches!(object::text(old, &["status", "phase"]), "Succeeded" | "Failed");
    if ended || object::text(old, &["spec", "nodeName"]).is_empty() {
        return 0;
    }
    let own = || object::integer(old, &["spec", "terminationGracePeriodSeconds"]).unwrap_or(30);
    match options.grace.unwrap_or_else(own) {
        negative if negative < 0 => 1,
        given => given,
    }
}

fn set_policy_finalizer(value: &mut Value, policy: Option<Propagation>) {
    let Some(policy) = policy else { return };
    let mut finalizers: Vec<Value> = object::list(value, &["metadata", "finalizers"]).to_vec();
    finalizers.retain(|name| name != FOREGROUND && name != ORPHAN);
    match policy {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(FOREGROUND.into()),
        Propagation::Orphan => finalizers.push(ORPHAN.into()),
    }
    if finalizers.is_empty() {
        object::remove(value, &["metadata", "finalizers"]);
    } else {
        object::put(value, &["metadata", "finalizers"], finalizers);
    }
}

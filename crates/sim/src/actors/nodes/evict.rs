//! Taint eviction: pods leave nodes whose `NoExecute` taints they do not tolerate, or no longer tolerate.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};

use crate::actors::{
    actor::{Actor, Requeue},
    binder::tolerates,
    cache::{Change, Key, Object, Tables},
    ctx::{CallError, Ctx},
};

/// The actor. Its keys are pods.
#[derive(Debug, Default)]
pub(super) struct TaintEviction {
    /// Since when a pod's node has taints that it tolerates for a limited time; by UID of the pod.
    since: Mutex<BTreeMap<String, Timestamp>>,
}

impl Actor for TaintEviction {
    fn name(&self) -> &'static str {
        "taint-eviction"
    }

    fn interested(&self, change: &Change, tables: &Tables) -> Vec<Key> {
        match (&change.old, &change.new) {
            (old, Some(Object::Node(node))) => {
                let before = match old {
                    Some(Object::Node(old)) => taints(old),
                    _ => Vec::new(),
                };
                if before == taints(node) {
                    return Vec::new();
                }
                tables.pods_on(&change.key.name).iter().map(|pod| Key::of(&pod.metadata)).collect()
            }
            (old, Some(Object::Pod(pod))) => {
                let bound = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
                let before = match old {
                    Some(Object::Pod(old)) => bound(old),
                    _ => None,
                };
                if before == bound(pod) { Vec::new() } else { vec![change.key.clone()] }
            }
            (Some(Object::Pod(pod)), None) => {
                let uid = pod.metadata.uid.clone().unwrap_or_default();
                self.since.lock().unwrap_or_else(PoisonError::into_inner).remove(&uid);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn reconcile<'a>(&'a self, ctx: &'a Ctx, key: &'a Key) -> BoxFuture<'a, Result<Requeue, CallError>> {
        Box::pin(async move {
            let (pod, taints) = {
                let tables = ctx.cache.tables();
                let Some(pod) = tables.get::<Pod>(key) else { return Ok(Requeue::No) };
                let name = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
                let node = tables.get::<Node>(&Key::new("", &name));
                (pod, node.map(|node| taints(&node)).unwrap_or_default())
            };
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.clone()).unwrap_or_default();
            let allowed = toleration_period(&taints, &tolerations);
            let now = ctx.clock.now();
            let since = {
                let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
                if allowed.is_none() {
                    since.remove(&uid);
                    return Ok(Requeue::No);
                }
                *since.entry(uid).or_insert(now)
            };
            let passed: Duration = now.duration_since(since).try_into().unwrap_or_default();
            let left = allowed.unwrap_or_default().saturating_sub(passed);
            if !left.is_zero() {
                return Ok(Requeue::After(left));
            }
            if pod.metadata.deletion_timestamp.is_none() {
                ctx.delete(pod.as_ref(), None).await?;
            }
            Ok(Requeue::No)
        })
    }
}

fn taints(node: &Node) -> Vec<Taint> {
    let all = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    all.into_iter().filter(|taint| taint.effect == "NoExecute").collect()
}

/// How long a pod may stay with these taints; `None` means forever.
fn toleration_period(taints: &[Taint], tolerations: &[Toleration]) -> Option<Duration> {
    let mut least = None;
    for taint in taints {
        let covering: Vec<&Toleration> =
            tolerations.iter().filter(|toleration| tolerates(toleration, taint)).collect();
        if covering.is_empty() {
            return Some(Duration::ZERO);
        }
        let bound = covering.iter().filter_map(|toleration| toleration.toleration_seconds).min();
        let bound = bound.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
        least = match (least, bound) {
            (Some(one), Some(two)) => Some(std::cmp::min::<Duration>(one, two)),
            (one, two) => one.or(two),
        };
    }
    least
}

#[cfg(test)]
mod tests {
    //! Toleration periods of pods.
    use super::*;

    #[test]
    fn the_shortest_toleration_applies() {
        let taint = |key: &str| Taint { key: key.into(), effect: "NoExecute".into(), ..Taint::default() };
        let toleration = |key: &str, seconds: Option<i64>| Toleration {
            key: Some(key.into()),
            operator: Some("Exists".into()),
            toleration_seconds: seconds,
            ..Toleration::default()
        };
        let seconds = |count| Some(Duration::from_secs(count));
        assert_eq!(toleration_period(&[], &[]), None);
        assert_eq!(toleration_period(&[taint("a")], &[]), seconds(0));
        assert_eq!(toleration_period(&[taint("a")], &[toleration("a", None)]), None);
        assert_eq!(toleration_period(&[taint("a")], &[toleration("a", Some(-5))]), seconds(0));
        let twice = [toleration("a", Some(300)), toleration("a", Some(60)), toleration("a", None)];
        assert_eq!(toleration_period(&[taint("a")], &twice), seconds(60));
        let both = [toleration("a", Some(300)), toleration("b", Some(60))];
        assert_eq!(toleration_period(&[taint("a"), taint("b")], &both), seconds(60));
        assert_eq!(toleration_period(&[taint("a"), taint("c")], &both), seconds(0));
    }
}

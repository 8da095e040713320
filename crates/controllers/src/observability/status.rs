//! `operatorpkg.<kind>.status`: the conditions of objects, their durations and transitions.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_api::condition::Condition;
use fleetwright_core::model::NodeClassRef;
use fleetwright_state::{Change, Index, Key, Kind};
use jiff::Timestamp;

use crate::{
    metrics::{
        Family, Metrics,
        status::{ALL_KINDS, EC2_NODE_CLASS, Families, KWOK_NODE_CLASS, NODE, NODE_CLAIM, NODE_POOL},
    },
    runtime::{Clocks, Cluster, Controller, Ctx, ReconcileError, Requeue},
    settings::Settings,
};

/// Update interval of durations.
const INTERVAL: Duration = Duration::from_secs(30);

/// One controller per kind.
pub(super) fn controllers(ctx: &Ctx) -> Vec<Arc<dyn Controller>> {
    let of = |about| Status {
        about,
        known: Mutex::default(),
        cluster: ctx.cluster.clone(),
        clocks: ctx.clocks.clone(),
        metrics: ctx.metrics.clone(),
    };
    KINDS.iter().map(|about| Arc::new(of(about)) as Arc<dyn Controller>).collect()
}

/// The metrics of a kind.
struct About {
    name: &'static str,
    kind: Kind,
    group: &'static str,
    /// The kind name.
    object: &'static str,
    families: Families,
    /// The object of this name, if it exists.
    look: fn(&Index, &str) -> Option<Object>,
}

const KINDS: [About; 5] = [
    About {
        name: "operatorpkg.nodepool.status",
        kind: Kind::NodePool,
        group: "karpenter.sh",
        object: "NodePool",
        families: NODE_POOL,
        look: |index, name| {
            let pool = index.pool(name)?;
            let conditions = pool.status.as_ref().map_or(&[][..], |status| &status.conditions);
            Some(Object::new(conditions, pool.metadata.deletion_timestamp.as_ref().map(|time| time.0)))
        },
    },
    About {
        name: "operatorpkg.nodeclaim.status",
        kind: Kind::NodeClaim,
        group: "karpenter.sh",
        object: "NodeClaim",
        families: NODE_CLAIM,
        look: |index, name| {
            let claim = index.claim(name)?;
            let conditions = claim.status.as_ref().map_or(&[][..], |status| &status.conditions);
            Some(Object::new(conditions, claim.metadata.deletion_timestamp.as_ref().map(|time| time.0)))
        },
    },
    About {
        name: "operatorpkg.node.status",
        kind: Kind::Node,
        group: "",
        object: "Node",
        families: NODE,
        look: |index, name| {
            let node = index.node(name)?;
            let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let conditions = conditions.map(|condition| {
                let shown = Shown {
                    status: condition.status.clone(),
                    reason: condition.reason.clone().unwrap_or_default(),
                    since: condition.last_transition_time.as_ref().map(|time| time.0),
                };
                (condition.type_.clone(), shown)
            });
            let deleting = node.metadata.deletion_timestamp.as_ref().map(|time| time.0);
            Some(Object { conditions: conditions.collect(), deleting })
        },
    },
    About {
        name: "operatorpkg.kwoknodeclass.status",
        kind: Kind::NodeClass,
        group: "karpenter.kwok.sh",
        object: "KWOKNodeClass",
        families: KWOK_NODE_CLASS,
        look: |index, name| class(index, "karpenter.kwok.sh", "KWOKNodeClass", name),
    },
    About {
        name: "operatorpkg.ec2nodeclass.status",
        kind: Kind::NodeClass,
        group: "karpenter.k8s.aws",
        object: "EC2NodeClass",
        families: EC2_NODE_CLASS,
        look: |index, name| class(index, "karpenter.k8s.aws", "EC2NodeClass", name),
    },
];

fn class(index: &Index, group: &str, kind: &str, name: &str) -> Option<Object> {
    let id = NodeClassRef { group: group.into(), kind: kind.into(), name: name.into() };
    let class = index.node_class(&id)?;
    Some(Object::new(&class.conditions, class.deleting))
}

/// The exposed series of an object.
#[derive(Clone, Debug, Default, PartialEq)]
struct Object {
    conditions: BTreeMap<String, Shown>,
    deleting: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq)]
struct Shown {
    status: String,
    reason: String,
    since: Option<Timestamp>,
}

impl Object {
    fn new(conditions: &[Condition], deleting: Option<Timestamp>) -> Self {
        let of = |condition: &Condition| {
            let shown = Shown {
                status: condition.status.as_str().to_owned(),
                reason: condition.reason.clone(),
                since: condition.last_transition_time.as_ref().map(|time| time.0),
            };
            (condition.type_.clone(), shown)
        };
        Self { conditions: conditions.iter().map(of).collect(), deleting }
    }
}

/// The conditions of one kind of object.
struct Status {
    cluster: Cluster,
    clocks: Clocks,
    metrics: Arc<Metrics>,
    about: &'static About,
    known: Mutex<BTreeMap<Key, Object>>,
}

#[async_trait]
impl Controller for Status {
    fn name(&self) -> &'static str {
        self.about.name
    }

    fn concurrency(&self, _: &Settings) -> usize {
        10
    }

    fn is_singleton(&self) -> bool {
        true
    }

    fn interested(&self, change: &Change, _: &Index) -> Vec<Key> {
        if change.kind == self.about.kind { vec![change.key.clone()] } else { Vec::new() }
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        if *key == Key::singleton() {
            for (key, object) in self.lock().iter() {
                self.durations(key, object);
            }
            return Ok(Requeue::After(INTERVAL));
        }
        let now = (self.about.look)(&self.cluster.index(), &key.name);
        let mut known = self.lock();
        let before = known.remove(key).unwrap_or_default();
        let after = now.clone().unwrap_or_default();
        for (type_, was) in &before.conditions {
            let is = after.conditions.get(type_);
            if is.is_none_or(|is| (&is.status, &is.reason) != (&was.status, &was.reason)) {
                let labels = self.labels(key, type_, was);
                self.both(&labels, |family, labels| self.metrics.remove(family, labels), |f| &f.count);
                self.both(&labels, |family, labels| self.metrics.remove(family, labels), |f| &f.current);
            }
        }
        for (type_, is) in &after.conditions {
            let labels = self.labels(key, type_, is);
            self.both(&labels, |family, labels| self.metrics.set(family, labels, 1.0), |f| &f.count);
            self.changed(type_, before.conditions.get(type_), is);
        }
        match now {
            Some(object) => {
                self.durations(key, &object);
                known.insert(key.clone(), object);
            }
            None => self.gone(key, &before),
        }
        Ok(Requeue::No)
    }
}

impl Status {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Object>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn labels<'a>(&self, key: &'a Key, type_: &'a str, shown: &'a Shown) -> Vec<&'a str> {
        vec![&key.namespace, &key.name, type_, &shown.status, &shown.reason]
    }

    /// Updates the kind's own family and the one of all kinds.
    fn both(&self, labels: &[&str], act: impl Fn(&Family, &[&str]), of: fn(&Families) -> &Family) {
        act(of(&self.about.families), labels);
        let with_kind = [labels, &[self.about.group, self.about.object]].concat();
        act(of(&ALL_KINDS), &with_kind);
    }

    /// Records a transition and the duration of the previous status.
    fn changed(&self, type_: &str, was: Option<&Shown>, is: &Shown) {
        if was.is_some_and(|was| was.status == is.status) {
            return;
        }
        let labels = [type_, &is.status, &is.reason];
        self.both(&labels, |family, labels| self.metrics.inc(family, labels), |f| &f.transitions);
        let Some(was) = was else { return };
        if let (Some(from), Some(to)) = (was.since, is.since) {
            let seconds = to.duration_since(from).as_secs_f64().max(0.0);
            let observe = |family: &Family, labels: &[&str]| self.metrics.observe(family, labels, seconds);
            self.both(&[type_, &was.status], observe, |f| &f.transition);
        }
    }

    /// Updates the durations of an object.
    fn durations(&self, key: &Key, object: &Object) {
        let now = self.clocks.now();
        let since = |from: Timestamp| now.duration_since(from).as_secs_f64().max(0.0);
        for (type_, shown) in &object.conditions {
            if let Some(from) = shown.since {
                let set = |family: &Family, labels: &[&str]| self.metrics.set(family, labels, since(from));
                self.both(&self.labels(key, type_, shown), set, |f| &f.current);
            }
        }
        if let Some(deleting) = object.deleting {
            let set = |family: &Family, labels: &[&str]| self.metrics.set(family, labels, since(deleting));
            self.both(&[&key.namespace, &key.name], set, |f| &f.terminating);
        }
    }

    /// Records how long the termination of an object took.
    fn gone(&self, key: &Key, before: &Object) {
        let Some(deleting) = before.deleting else { return };
        let remove = |family: &Family, labels: &[&str]| self.metrics.remove(family, labels);
        self.both(&[&key.namespace, &key.name], remove, |f| &f.terminating);
        let seconds = self.clocks.now().duration_since(deleting).as_secs_f64().max(0.0);
        let observe = |family: &Family, labels: &[&str]| self.metrics.observe(family, labels, seconds);
        self.both(&[], observe, |f| &f.termination);
    }
}

#[cfg(test)]
mod tests {
    //! Transitions of conditions, and deletion of objects.
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::World;

    fn claim(status: &str, at: &str) -> Value {
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "c"},
            "spec": {"requirements": [], "nodeClassRef":
                {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}},
            "status": {"conditions": [{"type": "Launched", "status": status, "reason": "R", "message": "",
                "lastTransitionTime": at}]}})
    }

    #[tokio::test(start_paused = true)]
    async fn transitions_are_counted_and_series_go_with_their_object() {
        let world = World::new();
        world.server.apply(claim("Unknown", "2025-06-15T15:06:40Z")).unwrap();
        let (_trigger, _task) = world.run(controllers(&world.ctx));
        world.pass(60).await;
        let text = world.ctx.metrics.encode().unwrap();
        let series = "operator_nodeclaim_status_condition_count{name=\"c\",namespace=\"\",reason=\"R\",status=\"Unknown\",type=\"Launched\"} 1\n";
        assert!(text.contains(series), "{text}");
        world.server.apply(claim("True", "2025-06-15T15:07:10Z")).unwrap();
        world.pass(60).await;
        let text = world.ctx.metrics.encode().unwrap();
        assert!(!text.contains("status=\"Unknown\",type=\"Launched\"} 1\n\n"), "{text}");
        for expected in [
            "operator_nodeclaim_status_condition_transition_seconds_sum{status=\"Unknown\",type=\"Launched\"} 30\n",
            "operator_status_condition_transitions_total{group=\"karpenter.sh\",kind=\"NodeClaim\",reason=\"R\",status=\"True\",type=\"Launched\"} 1\n",
            "operator_nodeclaim_status_condition_count{name=\"c\",namespace=\"\",reason=\"R\",status=\"True\",type=\"Launched\"} 1\n",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        assert!(!text.contains(series), "{text}");
        world.server.delete("karpenter.sh/v1", "NodeClaim", "", "c").unwrap();
        world.pass(60).await;
        let text = world.ctx.metrics.encode().unwrap();
        assert!(!text.contains("name=\"c\""), "{text}");
    }
}

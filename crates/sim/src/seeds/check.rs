//! The checks: what the API server and the cloud hold, compared by code that shares nothing with what is checked.
//!
//! Names are those of the invariants: S2 one machine per claim, S3 finalizer before machine and until its end, S5 limits,
//! S6 one answer per pod, S7 budgets, S8 protected pods, L a state of rest.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fleetwright_fake::api::Lifecycle;
use fleetwright_fake_kube::{Audit, Request};
use serde_json::Value;

use crate::world::{Settled, World};

/// So many violations end a run.
const ENOUGH: usize = 5;
/// Budgets are not judged so soon after somebody deleted or changed something: what was decided before still counts.
const GRACE: Duration = Duration::from_secs(8);
/// The script's budget in percent, and its limit of nodes.
const BUDGET_PERCENT: usize = 34;
const NODES_MAX: usize = 12;

/// Requests since the last look.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<Request>>>);

impl Log {
    /// Notes requests that were accepted, of the kinds that matter here.
    pub(super) fn audit(&self) -> Audit {
        let log = self.0.clone();
        Arc::new(move |request, code| {
            let matters = (request.resource == "nodeclaims" && request.verb == "create")
                || request.subresource == "eviction";
            if matters && (200..300).contains(&code) {
                log.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
            }
        })
    }

    fn take(&self) -> Vec<Request> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Remembers what it takes to judge the next step.
pub(super) struct Checker {
    log: Log,
    violations: Vec<String>,
    /// By claim: the pods that it was created for, as `namespace/name:uid`.
    created_for: BTreeMap<String, Vec<String>>,
    /// Claims that a command had taken at the last look.
    taken: BTreeSet<String>,
    /// Pods that nobody may evict, at the last look.
    guarded: BTreeSet<String>,
}

fn text<'a>(value: &'a Value, at: &str) -> &'a str {
    value.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

fn is(object: &Value, condition: &str) -> bool {
    let all = object.pointer("/status/conditions").and_then(Value::as_array);
    all.is_some_and(|all| all.iter().any(|c| text(c, "/type") == condition && text(c, "/status") == "True"))
}

fn is_deleting(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

impl Checker {
    pub(super) fn new(log: Log) -> Self {
        Self {
            log,
            violations: Vec::new(),
            created_for: BTreeMap::new(),
            taken: BTreeSet::new(),
            guarded: BTreeSet::new(),
        }
    }

    /// Whether there is nothing more to learn.
    pub(super) fn is_full(&self) -> bool {
        self.violations.len() >= ENOUGH
    }

    pub(super) fn into_violations(self) -> Vec<String> {
        self.violations
    }

    fn violated(&mut self, world: &World, what: String) {
        if !self.is_full() && !self.violations.iter().any(|known| known.ends_with(&what)) {
            self.violations.push(format!("{}s {what}", world.elapsed().as_secs()));
        }
    }

    /// Judges the state as it is now. `last_action` is when somebody last changed something by hand.
    pub(super) fn step(&mut self, world: &World, last_action: Duration) {
        let claims = world.server().list("karpenter.sh/v1", "NodeClaim", "");
        let nodes = world.server().list("v1", "Node", "");
        self.requests(world);
        self.machines(world, &claims);
        self.answers(world, &claims);
        let quiet = world.elapsed().saturating_sub(last_action) > GRACE;
        self.budgets(world, &claims, &nodes, quiet);
        self.limits(world, &claims);
        self.protected(world, &claims);
    }

    fn requests(&mut self, world: &World) {
        for request in self.log.take() {
            if request.resource == "nodeclaims" {
                let name = text(&request.body, "/metadata/name").to_owned();
                let pods = text(&request.body, "/metadata/annotations/fleetwright.dev~1nominated-pods");
                let pods = pods.split(',').filter(|pod| !pod.is_empty()).map(str::to_owned);
                self.created_for.insert(name, pods.collect());
            } else if self.guarded.contains(&format!("{}/{}", request.namespace, request.name)) {
                let what = format!("S8: evicted protected pod {}/{}", request.namespace, request.name);
                self.violated(world, what);
            }
        }
    }

    fn machines(&mut self, world: &World, claims: &[Arc<Value>]) {
        let mut of_claim: BTreeMap<String, usize> = BTreeMap::new();
        for machine in world.cloud().machines() {
            let Some(claim) = machine.tags.claim.clone() else { continue };
            if machine.state == Lifecycle::Gone {
                continue;
            }
            if matches!(machine.state, Lifecycle::Pending | Lifecycle::Running) {
                *of_claim.entry(claim.clone()).or_default() += 1;
            }
            let object = claims.iter().find(|object| text(object, "/metadata/name") == claim);
            let finalizers = object.and_then(|object| object.pointer("/metadata/finalizers")?.as_array());
            let held = finalizers.is_some_and(|all| all.iter().any(|f| f == "karpenter.sh/termination"));
            if !held {
                let what = format!("S3: machine {} lives, and nothing holds its claim {claim}", machine.id);
                self.violated(world, what);
            }
        }
        for (claim, count) in of_claim.into_iter().filter(|(_, count)| *count > 1) {
            self.violated(world, format!("S2: {count} machines for claim {claim}"));
        }
    }

    fn answers(&mut self, world: &World, claims: &[Arc<Value>]) {
        let mut answered: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut twice = Vec::new();
        for claim in claims.iter().filter(|claim| !is_deleting(claim) && !is(claim, "Initialized")) {
            let name = text(claim, "/metadata/name");
            for pod in self.created_for.get(name).into_iter().flatten() {
                answered.entry(pod).or_default().push(name);
            }
        }
        for (pod, by) in answered.into_iter().filter(|(_, by)| by.len() > 1) {
            twice.push(format!("S6: pod {pod} is answered by {}", by.join(" and ")));
        }
        for what in twice {
            self.violated(world, what);
        }
    }

    fn budgets(&mut self, world: &World, claims: &[Arc<Value>], nodes: &[Arc<Value>], quiet: bool) {
        let ready: BTreeSet<&str> =
            nodes.iter().filter(|node| is(node, "Ready")).map(|node| text(node, "/metadata/name")).collect();
        let counted: Vec<&Arc<Value>> = claims
            .iter()
            .filter(|claim| is(claim, "Initialized") && !is(claim, "InstanceTerminating"))
            .collect();
        let taken: BTreeSet<String> = claims
            .iter()
            .filter(|claim| is(claim, "DisruptionReason"))
            .map(|claim| text(claim, "/metadata/name").to_owned())
            .collect();
        let started = taken.difference(&self.taken).count();
        let down = counted
            .iter()
            .filter(|claim| {
                is(claim, "DisruptionReason")
                    || is_deleting(claim)
                    || !ready.contains(text(claim, "/status/nodeName"))
            })
            .count();
        let allowed = counted.len().saturating_mul(BUDGET_PERCENT).div_ceil(100);
        self.taken = taken;
        if started > 0 && quiet && down > allowed {
            let what = format!("S7: {down} of {} nodes are down where {allowed} may be", counted.len());
            self.violated(world, what);
        }
    }

    fn limits(&mut self, world: &World, claims: &[Arc<Value>]) {
        let staying = claims.iter().filter(|claim| !is_deleting(claim) && !is(claim, "DisruptionReason"));
        let count = staying.count();
        if count > NODES_MAX {
            self.violated(world, format!("S5: {count} claims where limits.nodes is {NODES_MAX}"));
        }
    }

    /// Pods that say do-not-disrupt on nodes that have no deadline, for the next look; and claims of a command that go
    /// from under one that was there before the command.
    fn protected(&mut self, world: &World, claims: &[Arc<Value>]) {
        let pods = world.server().list("v1", "Pod", "");
        let guarded = pods.iter().filter(|pod| {
            text(pod, "/metadata/annotations/karpenter.sh~1do-not-disrupt") == "true"
                && !text(pod, "/spec/nodeName").is_empty()
                && !is_deleting(pod)
        });
        let mut holding: BTreeMap<&str, &str> = BTreeMap::new();
        let mut names = BTreeSet::new();
        for pod in guarded {
            holding.insert(text(pod, "/spec/nodeName"), text(pod, "/metadata/name"));
            names.insert(format!("{}/{}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name")));
        }
        let mut broken = Vec::new();
        for claim in claims.iter().filter(|claim| is_deleting(claim) && is(claim, "DisruptionReason")) {
            if let Some(pod) = holding.get(text(claim, "/status/nodeName")) {
                let name = text(claim, "/metadata/name");
                broken.push(format!("S8: claim {name} was disrupted under protected pod {pod}"));
            }
        }
        for what in broken {
            self.violated(world, what);
        }
        self.guarded = names;
    }

    /// Judges the end, when all should be at rest.
    pub(super) fn end(&mut self, world: &World, settled: Settled) {
        if self.is_full() {
            return;
        }
        if settled == Settled::OutOfTime {
            let seen = world.observe();
            self.violated(world, format!("L: no rest: {:?} {:?}", seen.claims, seen.pods));
            return;
        }
        let claims = world.server().list("karpenter.sh/v1", "NodeClaim", "");
        let ids: BTreeSet<&str> = claims.iter().map(|claim| text(claim, "/status/providerID")).collect();
        let leaked: Vec<String> = world
            .cloud()
            .machines()
            .iter()
            .filter(|machine| matches!(machine.state, Lifecycle::Pending | Lifecycle::Running))
            .filter(|machine| !ids.contains(machine.id.as_str()))
            .map(|machine| format!("L: machine {} belongs to nobody", machine.id))
            .collect();
        let marked: Vec<String> = claims
            .iter()
            .filter(|claim| is(claim, "DisruptionReason"))
            .map(|claim| format!("L: claim {} keeps the mark of a command", text(claim, "/metadata/name")))
            .collect();
        for what in leaked.into_iter().chain(marked) {
            self.violated(world, what);
        }
    }
}

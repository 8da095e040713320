//! C9xx: what happens soon after the switch: disruption commands, drift, expiration.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_api::{self as api, duration, labels};
use fleetwright_core::{
    disruption::{Blocker, Candidate, Command, Survey},
    model::{Currency, Price, labels::NODEPOOL},
};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize as _;
use serde_json::Value;

use super::{
    finding::Finding,
    objects::{ClusterObjects, annotation, count, display, label, name, some, text},
};
use crate::{
    disrupt::{self, Forecast, STEP},
    planned,
};

/// What `compat` looks ahead.
pub(super) const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// The annotations that carry a drift hash, and the version that Fleetwright computes.
#[derive(Clone, Copy, Debug)]
pub struct DriftHash<'a> {
    /// The annotation with the hash.
    pub hash: &'a str,
    /// The annotation with the version of the hash.
    pub version: &'a str,
    /// The version that Fleetwright computes.
    pub current: &'a str,
}

const NODE_POOL: DriftHash<'_> = DriftHash {
    hash: labels::NODEPOOL_HASH,
    version: labels::NODEPOOL_HASH_VERSION,
    current: labels::CURRENT_NODEPOOL_HASH_VERSION,
};

impl DriftHash<'_> {
    /// Findings on `owner` (a NodePool or NodeClass) and on its NodeClaims. `ours` computes its hash under a version as Fleetwright does
    /// (`None`: that version cannot be computed here).
    #[must_use]
    pub fn check(
        &self,
        owner: &Value,
        ours: impl Fn(&str) -> Option<String>,
        claims: &[&Value],
    ) -> Vec<Finding> {
        let (hash, version) = (annotation(owner, self.hash), annotation(owner, self.version));
        if hash.is_empty() {
            return Vec::new();
        }
        let older = (version != self.current).then(|| self.migrated(owner, claims));
        let changed = ours(version).and_then(|ours| self.changed(owner, &ours, claims));
        older.into_iter().chain(changed).collect()
    }

    /// The finding on an older version of the hash.
    fn migrated(&self, owner: &Value, claims: &[&Value]) -> Finding {
        let (hash, version) = (annotation(owner, self.hash), annotation(owner, self.version));
        let is_drifted = |claim: &&&Value| {
            annotation(claim, self.version) == version && annotation(claim, self.hash) != hash
        };
        let drifted = claims.iter().filter(is_drifted).count();
        let what = format!(
            "its hash is of version {version}, Fleetwright's of {}: its {} get the new version, those that have not drifted with the \
             new hash ({drifted} drifted)",
            self.current,
            count(claims.len(), "NodeClaim"),
        );
        let object = display(owner);
        if drifted > 0 {
            let fix = "drifted NodeClaims are replaced within the budgets, as by Karpenter";
            Finding::warning("C903", object, what).fix(fix)
        } else {
            Finding::note("C903", object, what)
        }
    }

    /// The finding on NodeClaims that have the hash of `owner`, where Fleetwright computes another one under the same version.
    fn changed(&self, owner: &Value, ours: &str, claims: &[&Value]) -> Option<Finding> {
        let (hash, version) = (annotation(owner, self.hash), annotation(owner, self.version));
        let would_drift = |claim: &&&Value| {
            annotation(claim, self.version) == version && annotation(claim, self.hash) == hash && hash != ours
        };
        let drifting: Vec<&str> = claims.iter().filter(would_drift).map(|claim| name(claim)).collect();
        let what = format!(
            "its hash is {hash}, Fleetwright computes {ours} as version {version}: {} of {} would drift ({})",
            drifting.len(),
            count(claims.len(), "NodeClaim"),
            some(&drifting)
        );
        let fix = "if the object was changed just now, wait until Karpenter has written its hash; else do not switch, and report it";
        (!drifting.is_empty()).then(|| Finding::blocker("C902", display(owner), what).fix(fix))
    }
}

/// Drift by the hashes of NodePools.
pub(super) fn drift(cluster: &ClusterObjects) -> Vec<Finding> {
    let mut found = Vec::new();
    for pool in cluster.of(labels::GROUP, "NodePool") {
        let claims: Vec<&Value> = cluster
            .of(labels::GROUP, "NodeClaim")
            .filter(|claim| label(claim, NODEPOOL) == name(pool))
            .collect();
        let read = api::NodePool::deserialize(pool).ok();
        let ours = |version: &str| {
            read.as_ref().filter(|_| version == NODE_POOL.current).map(api::NodePool::drift_hash)
        };
        found.extend(NODE_POOL.check(pool, ours, &claims));
    }
    found
}

/// NodeClaims that reach `expireAfter` within an hour.
pub(super) fn expiration(cluster: &ClusterObjects) -> Option<Finding> {
    let ends_soon = |claim: &&Value| {
        let created: Option<Timestamp> = text(claim, "/metadata/creationTimestamp").parse().ok();
        let after = duration::parse(text(claim, "/spec/expireAfter")).ok();
        let until = created.zip(after).and_then(|(created, after)| created.checked_add(after).ok());
        until.is_some_and(|until| until <= cluster.now.saturating_add(HOUR).unwrap_or(cluster.now))
    };
    let claims: Vec<&str> = cluster.of(labels::GROUP, "NodeClaim").filter(ends_soon).map(name).collect();
    (!claims.is_empty()).then(|| {
        let what = format!(
            "expireAfter ends within an hour for {} ({}): they are deleted, as by Karpenter",
            count(claims.len(), "NodeClaim"),
            some(&claims)
        );
        Finding::note("C904", "NodeClaim", what)
    })
}

/// Nodes and their cost today, by NodePool; the cost only where the price of each node is known.
pub(super) fn today(survey: &Survey) -> BTreeMap<String, (usize, Option<Price>)> {
    let mut pools: BTreeMap<String, (usize, Option<Price>)> = BTreeMap::new();
    for status in &survey.nodes {
        let Some(pool) = status.node.label(NODEPOOL) else { continue };
        let (nodes, cost) = pools.entry(pool.to_owned()).or_insert((0, Some(Price::ZERO)));
        *nodes = nodes.saturating_add(1);
        *cost = cost.zip(status.price).map(|(sum, price)| [sum, price].into_iter().sum());
    }
    pools
}

/// The commands of the first disruption pass.
pub(super) fn commands(survey: &Survey, priced: bool, currency: Currency) -> Vec<Finding> {
    let command = |command: &Command| {
        let nodes: Vec<String> =
            command.candidates.iter().map(|candidate| candidate.name().to_string()).collect();
        let pods: usize = command.candidates.iter().map(|candidate| candidate.pods.len()).sum();
        let saves = saves([command], priced.then_some(currency));
        let what = format!(
            "the first disruption pass removes {} ({}) by {}, launches {} and moves {}{saves}",
            count(nodes.len(), "node"),
            some(&nodes),
            command.method.name,
            count(command.replacements.len(), "replacement"),
            count(pods, "pod"),
        );
        let fix = "for a quiet start, give the NodePool the budget {nodes: \"0\"} before the switch, and remove it afterwards";
        Finding::note("C901", format!("NodePool {}", pools(command)), what).fix(fix)
    };
    survey.commands.iter().map(command).collect()
}

/// What the passes after the first do within the hour, by NodePool and method.
pub(super) fn later(forecast: &Forecast, currency: Option<Currency>) -> Vec<Finding> {
    let mut found: BTreeMap<(String, &str), Later<'_>> = BTreeMap::new();
    for (_, command) in &forecast.commands {
        found.entry((pools(command), command.method.name)).or_default().0.push(command);
    }
    let finding = |((pools, method), later): ((String, &str), Later<'_>)| {
        let fix = "nothing, or fewer with the budgets of the NodePool";
        Finding::note("C907", format!("NodePool {pools}"), later.text(method, currency)).fix(fix)
    };
    found.into_iter().map(finding).collect()
}

/// Commands of later passes by one method.
#[derive(Default)]
struct Later<'a>(Vec<&'a Command>);

impl Later<'_> {
    fn text(&self, method: &str, currency: Option<Currency>) -> String {
        let candidates = || self.0.iter().flat_map(|command| &command.candidates);
        let (new, old): (Vec<_>, Vec<_>) =
            candidates().partition(|candidate| planned::is_planned(&candidate.node));
        let mut nodes: Vec<&str> = old.into_iter().map(Candidate::name).collect();
        let launched = format!("{} of this hour", count(new.len(), "replacement"));
        if !new.is_empty() {
            nodes.push(&launched);
        }
        let saves = saves(self.0.iter().copied(), currency);
        let sum = |of: fn(&Command) -> usize| self.0.iter().map(|command| of(command)).sum::<usize>();
        format!(
            "within the hour, later passes remove {} ({}) by {method}, launch {} and move {}{saves}, if each command is done in {} minutes \
             and the load stays",
            count(candidates().count(), "node"),
            some(&nodes),
            count(sum(|command| command.replacements.len()), "replacement"),
            count(sum(Command::pods), "pod"),
            STEP.as_mins(),
        )
    }
}

/// What commands save, as the end of a clause; empty without a `currency`, or if the price of a node is unknown.
fn saves<'c>(commands: impl IntoIterator<Item = &'c Command>, currency: Option<Currency>) -> String {
    match currency.zip(disrupt::savings(commands)) {
        None => String::new(),
        Some((currency, saves)) => match saves.strip_prefix('-') {
            Some(more) => format!("; costs {} more per hour", currency.amount(more)),
            None => format!("; saves {} per hour", currency.amount(saves)),
        },
    }
}

/// The NodePools of the nodes that a command removes.
fn pools(command: &Command) -> String {
    let pools: BTreeSet<&str> =
        command.candidates.iter().filter_map(|candidate| candidate.node.label(NODEPOOL)).collect();
    some(&pools.into_iter().collect::<Vec<_>>())
}

/// The nodes that still wait for budgets after the hour, by NodePool.
pub(super) fn waiting(last: &Survey) -> Vec<Finding> {
    let mut pools: BTreeMap<&str, WaitingNodes> = BTreeMap::new();
    for status in &last.nodes {
        let mut of_node = None;
        for blocker in &status.blockers {
            let Blocker::Budget { pool, reason, allowed, .. } = blocker else { continue };
            let waiting = pools.entry(pool).or_default();
            let (nodes, at_once) = waiting.reasons.entry(reason.as_str()).or_default();
            *nodes = nodes.saturating_add(1);
            *at_once = *allowed;
            of_node = Some(&**pool);
        }
        if let Some(waiting) = of_node.and_then(|pool| pools.get_mut(pool)) {
            waiting.nodes = waiting.nodes.saturating_add(1);
        }
    }
    pools.into_iter().map(|(pool, waiting)| waiting.finding(pool)).collect()
}

/// The nodes of a NodePool that wait for its budgets.
#[derive(Default)]
struct WaitingNodes {
    nodes: usize,
    /// By reason: how many, and how many may be disrupted at a time.
    reasons: BTreeMap<&'static str, (usize, i64)>,
}

impl WaitingNodes {
    fn finding(&self, pool: &str) -> Finding {
        let reasons = self.reasons.iter().map(|(reason, (nodes, at_once))| match at_once {
            0 => format!("{nodes} {reason}, none of which the budgets allow now"),
            _ => format!("{nodes} {reason}, at most {at_once} at a time"),
        });
        let verb = if self.nodes == 1 { "waits" } else { "wait" };
        let what = format!(
            "{} still {verb} for the budgets after an hour ({}): drifted ones are disrupted later, others if a pass finds a command",
            count(self.nodes, "node"),
            reasons.collect::<Vec<_>>().join("; "),
        );
        Finding::note("C906", format!("NodePool {pool}"), what)
    }
}

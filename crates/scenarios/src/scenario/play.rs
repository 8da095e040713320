//! Plays a scenario in a world of its own, and writes down what happened.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc, time::Duration};

use fleetwright_api::NillableDuration;
use fleetwright_controllers::settings::FeatureGates;
use fleetwright_fake::{CloudConfig, catalogue, kubelet::BROKEN};
use fleetwright_sim::{
    clock::TokioClock,
    overview::Overview,
    world::{Settled, World, WorldConfig, WorldError},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    CatalogueName, CloudMood, Expect, PodsShort, PoolShort, RegionStep, Scenario, Step, expand,
    history::History, region, told,
};
use crate::region::Region;

/// The most virtual time that settling may take.
const PATIENCE: Duration = Duration::from_secs(2 * 3600);
/// The moment at which every scenario starts: 2026-01-01T00:00:00Z.
const START: i64 = 1_767_225_600;

/// What happened.
#[derive(Clone, Debug, Default)]
#[must_use = "a report that nobody reads proves nothing"]
pub struct Report {
    /// The story, line by line; the same for the same scenario.
    pub text: String,
    /// What was expected and did not come true.
    pub failures: Vec<String>,
}

struct Stage {
    /// The cluster, and a second one where there is a neighbour.
    worlds: Vec<World>,
    /// The region of AWS of each cluster, where it has one.
    regions: Vec<Option<Region>>,
    /// The one that steps are about.
    at: usize,
    zones: Vec<String>,
    report: Report,
    /// What happens to objects, once it is to be told.
    history: Option<History>,
}

/// Plays a scenario. Must run on a [`fleetwright_sim::world::virtual_runtime`].
///
/// # Errors
/// Where the world cannot be made, or refuses an object.
pub async fn play(scenario: &Scenario) -> Result<Report, WorldError> {
    let (config, region) = config(scenario)?;
    let zones = config.zones();
    let mut stage = Stage {
        worlds: Vec::new(),
        regions: Vec::new(),
        at: 0,
        zones,
        report: Report::default(),
        history: None,
    };
    let next_door = match (&scenario.neighbour, &region) {
        (None, _) => None,
        (Some(neighbour), Some(region)) => {
            // Another seed: objects of another cluster have other UIDs.
            let mut own = WorldConfig { seed: config.seed.wrapping_add(1), ..config.clone() };
            let region = region.neighbour();
            own.cloud_setup = Some(Arc::new(region.clone()));
            Some((neighbour, own, region))
        }
        (Some(_), None) => return Err(WorldError::Cloud("a neighbour needs a region: say aws".to_owned())),
    };
    stage.say(&scenario.about);
    stage.regions.push(region);
    stage.enter(config, scenario, (&scenario.pools, &scenario.pods)).await?;
    stage.apply(scenario.apply.clone())?;
    if let Some((neighbour, config, region)) = next_door {
        stage.regions.push(Some(region));
        stage.enter(config, scenario, (&neighbour.pools, &neighbour.pods)).await?;
        stage.at = 0;
    }
    for step in &scenario.steps {
        stage.step(step).await?;
    }
    Ok(stage.report)
}

/// The configuration of the scenario's world, and its region of AWS.
pub(super) fn config(scenario: &Scenario) -> Result<(WorldConfig, Option<Region>), WorldError> {
    let seed = scenario.seed;
    let start = Timestamp::from_second(START).unwrap_or_default();
    let mut config = WorldConfig::new(seed, start);
    open_gates(&mut config.settings.gates, &scenario.gates);
    config.settings.ignore_dra_requests = !scenario.gates.iter().any(|gate| gate == "DynamicResources");
    config.cloud = match scenario.cloud {
        CloudMood::Instant => CloudConfig::instant(seed),
        CloudMood::Good => CloudConfig { seed, ..CloudConfig::default() },
        CloudMood::Stormy => CloudConfig::stormy(seed),
    };
    if scenario.catalogue == CatalogueName::Kwok {
        config.catalogue = catalogue::kwok();
    }
    let mut furnished = None;
    if let Some(aws) = &scenario.aws {
        let mut region = Region::new(Arc::new(TokioClock::new(start, config.speed)?), aws.eks);
        region::furnish(&mut region, aws, start);
        config.catalogue = region.catalogue();
        config.cloud_setup = Some(Arc::new(region.clone()));
        furnished = Some(region);
    }
    Ok((config, furnished))
}

/// Opens the gates that a scenario names, by Karpenter's names.
fn open_gates(gates: &mut FeatureGates, names: &[String]) {
    for name in names {
        match name.as_str() {
            "NodeRepair" => gates.node_repair = true,
            "SpotToSpotConsolidation" => gates.spot_to_spot = true,
            "NodeOverlay" => gates.node_overlay = true,
            "StaticCapacity" => gates.static_capacity = true,
            "CapacityBuffer" => gates.capacity_buffer = true,
            _ => {}
        }
    }
}

impl Stage {
    /// The cluster that steps are about.
    fn world(&self) -> &World {
        &self.worlds[self.at]
    }

    /// Its region of AWS, where it has one.
    fn region(&self) -> Option<&Region> {
        self.regions[self.at].as_ref()
    }

    /// Makes a cluster, with what stands in it from the start.
    async fn enter(
        &mut self,
        config: WorldConfig,
        scenario: &Scenario,
        (pools, pods): (&[PoolShort], &[PodsShort]),
    ) -> Result<(), WorldError> {
        let aws = scenario.aws.as_ref();
        self.worlds.push(World::new(config).await?);
        self.at = self.worlds.len() - 1;
        let mut objects = vec![expand::class(aws)];
        objects.extend(pools.iter().map(|pool| expand::pool(pool, &self.zones, aws.is_some())));
        objects.extend(pods.iter().flat_map(expand::pods));
        self.apply(objects)
    }

    /// Takes taints off all nodes.
    fn untaint(&mut self, keys: &[String]) -> Result<(), WorldError> {
        for node in self.world().server().list("v1", "Node", "") {
            let taints = node.pointer("/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default();
            let is_named = |taint: &Value| keys.iter().any(|key| taint["key"] == key.as_str());
            let left: Vec<&Value> = taints.iter().filter(|taint| !is_named(taint)).collect();
            if left.len() < taints.len() {
                self.world().apply_object(json!({
                    "apiVersion": "v1", "kind": "Node", "metadata": { "name": node["metadata"]["name"] },
                    "spec": { "taints": left },
                }))?;
            }
        }
        self.say_when(&format!("untaint {}", keys.join(", ")));
        Ok(())
    }

    /// Sets conditions of nodes that the autoscaler launched, so many at the most.
    fn set_conditions(
        &mut self,
        wanted: &BTreeMap<String, String>,
        most: usize,
        reason: &str,
    ) -> Result<(), WorldError> {
        let now = self.world().clock().now().to_string();
        let mut names: Vec<_> = self.world().observe().nodes.into_iter().map(|node| node.name).collect();
        names.sort();
        for name in names.into_iter().take(most) {
            let node = self.world().server().get("v1", "Node", "", &name);
            let known =
                node.as_ref().and_then(|node| node.pointer("/status/conditions")).and_then(Value::as_array);
            let stays =
                |condition: &&Value| !wanted.contains_key(condition["type"].as_str().unwrap_or_default());
            let mut conditions: Vec<Value> = known.into_iter().flatten().filter(stays).cloned().collect();
            conditions.extend(wanted.iter().map(|(condition, status)| {
                json!({ "type": condition, "status": status, "reason": reason, "lastTransitionTime": now })
            }));
            self.world().apply_object(json!({
                "apiVersion": "v1", "kind": "Node", "metadata": { "name": name }, "status": { "conditions": conditions },
            }))?;
        }
        self.say_when(&format!("conditions {wanted:?}"));
        Ok(())
    }

    fn say(&mut self, line: &str) {
        self.report.text.push_str(line);
        self.report.text.push('\n');
    }

    /// What lines about the second cluster begin with.
    fn place(&self) -> &'static str {
        if self.at == 0 { "" } else { "neighbour: " }
    }

    fn say_when(&mut self, line: &str) {
        let time = format!("+{}", clock(self.world().elapsed()));
        let place = self.place();
        self.say(&format!("{time:<9} {place}{line}"));
    }

    fn apply(&mut self, objects: Vec<Value>) -> Result<(), WorldError> {
        for object in objects {
            let object = match &self.history {
                Some(history) => history.real(object),
                None => object,
            };
            let name = self.world().apply_object(object)?;
            self.say_when(&format!("apply {}", self.told(name)));
        }
        Ok(())
    }

    fn delete(&mut self, names: &[String]) -> Result<(), WorldError> {
        for name in names {
            let real = self.history.as_ref().map_or_else(|| name.clone(), |history| history.real_name(name));
            self.world().delete_object(&real)?;
            self.say_when(&format!("delete {name}"));
        }
        Ok(())
    }

    /// A text with the names that the report has.
    fn told(&self, text: String) -> String {
        self.history.as_ref().map_or_else(|| text.clone(), |history| history.told(&text))
    }

    /// Tells of these kinds from now on.
    fn tell(&mut self, wanted: &[String]) {
        if self.history.is_none() {
            self.history = Some(History::begin(self.world()));
        }
        let refused = self.history.as_mut().and_then(|history| history.want(wanted).err());
        refused.iter().for_each(|why| self.fail(why));
    }

    /// Tells what happened since the last step.
    fn recount(&mut self) {
        let told = self.history.as_mut().map(History::take).unwrap_or_default();
        for (at, line) in told {
            let since = at.duration_since(Timestamp::from_second(START).unwrap_or_default());
            let time = format!("+{}", clock(Duration::try_from(since).unwrap_or_default()));
            self.say(&format!("{time:<9} | {line}"));
        }
    }

    async fn step(&mut self, step: &Step) -> Result<(), WorldError> {
        self.recount();
        match step {
            Step::Settle => self.settle().await,
            Step::Wait(text) => self.wait(text).await,
            Step::Apply(objects) => self.apply(objects.clone())?,
            Step::Pods(shorts) => self.apply(shorts.iter().flat_map(expand::pods).collect())?,
            Step::Pools(shorts) => {
                let aws = self.region().is_some();
                let pools = shorts.iter().map(|short| expand::pool(short, &self.zones, aws)).collect();
                self.apply(pools)?;
            }
            Step::Scale(sizes) => {
                let scaled = sizes.iter().map(|(name, size)| {
                    json!({
                        "apiVersion": "apps/v1", "kind": "Deployment",
                        "metadata": { "name": name, "namespace": "default" }, "spec": { "replicas": size },
                    })
                });
                self.apply(scaled.collect())?;
            }
            Step::Delete(names) => self.delete(names)?,
            Step::Inject(faults) => {
                for fault in faults {
                    self.world().cloud().inject(fault.clone());
                    self.say_when(&format!("inject {}", serde_json::to_string(fault).unwrap_or_default()));
                }
            }
            Step::Heal => {
                self.world().cloud().heal();
                self.say_when("heal");
            }
            Step::Interrupt(count) => self.interrupt(*count),
            Step::Lose(count) => self.lose(*count),
            Step::Untaint(keys) => self.untaint(keys)?,
            Step::Conditions(wanted) => self.set_conditions(wanted, usize::MAX, "Scenario")?,
            Step::Sicken(some) => self.set_conditions(&some.conditions, some.nodes, BROKEN)?,
            Step::Restart(text) => self.restart(text).await?,
            Step::Abandon(count) => self.abandon(*count)?,
            Step::Region(step) => self.in_region(step),
            Step::Neighbour(steps) if self.worlds.len() > 1 => {
                self.at = 1;
                for step in steps {
                    Box::pin(self.step(step)).await?;
                }
                self.at = 0;
            }
            Step::Neighbour(_) => self.fail("neighbour: there is none"),
            Step::Tell(wanted) => self.tell(wanted),
            Step::Expect(expect) => self.expect(expect),
        }
        Ok(())
    }

    /// Lets something happen in the region of AWS.
    fn in_region(&mut self, step: &RegionStep) {
        let now = self.world().clock().now();
        let told = match self.region() {
            Some(region) => region::happen(region, step, now),
            None => Err("region: there is none".to_owned()),
        };
        match told {
            Ok(lines) => lines.iter().for_each(|line| self.say_when(line)),
            Err(why) => self.fail(&why),
        }
    }

    /// Kills the operator, and lets time pass until another one has started.
    async fn restart(&mut self, text: &str) -> Result<(), WorldError> {
        let Some(duration) = duration(text) else {
            self.fail(&format!("restart: {text:?} is not a duration such as 90s or 2h30m"));
            return Ok(());
        };
        self.say_when("the operator is killed");
        let at = self.at;
        self.worlds[at].kill(0, duration);
        self.worlds[at].run_for(duration).await;
        self.worlds[at].tend().await?;
        self.say_when("another one starts");
        Ok(())
    }

    /// Takes the first NodeClaims and their Nodes away, as somebody does who has no patience with finalizers.
    fn abandon(&mut self, count: usize) -> Result<(), WorldError> {
        let mut claims = self.world().server().list("karpenter.sh/v1", "NodeClaim", "");
        claims.sort_by_key(|claim| claim["metadata"]["name"].as_str().map(str::to_owned));
        let mut abandoned = 0;
        for claim in claims.iter().take(count) {
            let text = |at: &str| claim.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
            let both = [
                ("v1", "Node", text("/status/nodeName")),
                ("karpenter.sh/v1", "NodeClaim", text("/metadata/name")),
            ];
            for (version, kind, name) in both.into_iter().filter(|(.., name)| !name.is_empty()) {
                self.world().apply_object(json!({
                    "apiVersion": version, "kind": kind, "metadata": { "name": name, "finalizers": [] },
                }))?;
                self.world().delete_object(&format!("{kind} {name}"))?;
            }
            abandoned += 1;
        }
        self.say_when(&format!("{abandoned} NodeClaims are gone by force"));
        if abandoned < count {
            self.fail(&format!("abandon: {count} NodeClaims were to go"));
        }
        Ok(())
    }

    fn interrupt(&mut self, count: usize) {
        let instances = self.world().cloud().instances();
        let spot = instances.iter().filter(|instance| {
            instance.offering.as_ref().is_some_and(|offering| &*offering.capacity_type == "spot")
        });
        let announced =
            spot.filter(|instance| self.world().cloud().interrupt(&instance.id)).take(count).count();
        self.say_when(&format!("{announced} spot instances will be taken back"));
        if announced < count {
            self.fail(&format!("interrupt: {count} spot instances were to be taken back"));
        }
    }

    fn lose(&mut self, count: usize) {
        let instances = self.world().cloud().instances();
        let lost =
            instances.iter().filter(|instance| self.world().cloud().lose(&instance.id)).take(count).count();
        self.say_when(&format!("{lost} instances are gone"));
        if lost < count {
            self.fail(&format!("lose: {count} instances were to be lost"));
        }
    }

    async fn settle(&mut self) {
        let settled = self.world().run_until_settled(PATIENCE).await;
        self.recount();
        match settled {
            Settled::Since(_) => self.say_when("settled"),
            Settled::OutOfTime => self.fail("not settled within two hours"),
        }
        self.describe();
    }

    async fn wait(&mut self, text: &str) {
        match duration(text) {
            Some(duration) => {
                self.world().run_for(duration).await;
                self.recount();
                self.say_when(&format!("waited {text}"));
                self.describe();
            }
            None => self.fail(&format!("wait: {text:?} is not a duration such as 90s or 2h30m")),
        }
    }

    fn fail(&mut self, line: &str) {
        self.report.failures.push(line.to_owned());
        self.say_when(&format!("FAILED: {line}"));
    }

    fn describe(&mut self) {
        let seen = self.world().observe();
        let pods = seen.pods;
        let mut text = String::new();
        let indent = " ".repeat(10);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{indent}{} nodes at ${:.4}/h, {} pods running, {} pending; NodeClaims created: {}, removed: {}",
            seen.nodes.len(),
            seen.hourly.dollars(),
            pods.running,
            pods.pending,
            seen.claims_created,
            removed(&seen),
        );
        for node in &seen.nodes {
            let _ = writeln!(
                text,
                "{indent}- {} {} {} {} {:?}: {} pods, {}m of {}m CPU",
                node.pool,
                node.instance_type,
                node.zone,
                node.capacity_type,
                node.phase,
                node.pods,
                node.requested.cpu(),
                node.allocatable.cpu(),
            );
        }
        self.report.text.push_str(&text);
        if let Some(region) = self.region() {
            let (own, all) = (region.guests().len(), region.aws.guests().len());
            self.say(&format!("{indent}region: {own} instances of this cluster, {} of others", all - own));
        }
        let refused =
            self.world().refused().map(|why| format!("the operator ends as soon as it starts: {why}"));
        for trouble in refused.into_iter().chain(told::troubles(self.world().server())) {
            let trouble = self.told(trouble);
            self.say(&format!("{indent}! {trouble}"));
        }
    }

    fn expect(&mut self, expect: &Expect) {
        let seen = self.world().observe();
        let mut failures = compare(expect, &seen);
        failures.extend(told::missing(self.world().server(), expect));
        failures.extend(region::missing(self.world(), self.region(), expect));
        if failures.is_empty() {
            self.say_when("as expected");
        }
        for failure in failures {
            self.fail(&failure);
        }
    }
}

fn removed(seen: &Overview) -> String {
    let parts: Vec<String> = seen.removed.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

fn compare(expect: &Expect, seen: &Overview) -> Vec<String> {
    let mut failures = Vec::new();
    let mut check = |what: &str, expected: Option<String>, found: String| {
        if let Some(expected) = expected.filter(|expected| *expected != found) {
            failures.push(format!("{what}: expected {expected}, found {found}"));
        }
    };
    let sorted = |of: &dyn Fn(&fleetwright_sim::overview::NodeOverview) -> String| {
        let mut all: Vec<String> = seen.nodes.iter().map(of).collect();
        all.sort();
        format!("{all:?}")
    };
    let given = |list: &Option<Vec<String>>| {
        list.clone().map(|mut list| {
            list.sort();
            format!("{list:?}")
        })
    };
    let letter = |zone: &str| zone.chars().last().map(String::from).unwrap_or_default();
    check("nodes", expect.nodes.map(|count| count.to_string()), seen.nodes.len().to_string());
    check("zones", given(&expect.zones), sorted(&|node| letter(&node.zone)));
    check("types", given(&expect.types), sorted(&|node| node.instance_type.clone()));
    check("capacity", given(&expect.capacity), sorted(&|node| node.capacity_type.clone()));
    check("running", expect.running.map(|count| count.to_string()), seen.pods.running.to_string());
    check("pending", expect.pending.map(|count| count.to_string()), seen.pods.pending.to_string());
    check("created", expect.created.map(|count| count.to_string()), seen.claims_created.to_string());
    check("removed", expect.removed.as_ref().map(|map| format!("{map:?}")), format!("{:?}", seen.removed));
    if let Some(most) = expect.cost_at_most.filter(|most| seen.hourly.dollars() > *most) {
        failures.push(format!("cost: expected at most ${most}/h, found ${:.4}/h", seen.hourly.dollars()));
    }
    failures
}

pub(super) fn duration(text: &str) -> Option<Duration> {
    NillableDuration::new(text).finite().and_then(|duration| duration.try_into().ok())
}

/// `1h2m3s`, without what is zero.
fn clock(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    let parts = [(seconds / 3600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let text: String =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

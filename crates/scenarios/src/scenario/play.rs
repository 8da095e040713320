//! Runs a scenario in its own simulator and writes the report.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc, time::Duration};

use fleetwright_controllers::settings::{FeatureGates, Packing};
use fleetwright_core::model::Currency;
use fleetwright_fake::{CloudConfig, catalogue, kubelet::BROKEN};
use fleetwright_sim::{
    clock::TokioClock,
    overview::Overview,
    simulator::{CloudSetup, FakeSetup, Simulator, SimulatorConfig, SimulatorError, Stability},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    CatalogueName, CloudMood, Expect, PackerShort, PodsShort, PoolShort, RegionStep, Scenario, ScenarioStep,
    duration, expand, expectations, history::History, region,
};
use crate::region::Region;

/// The maximum virtual time until a cluster is stable.
const STABLE_WITHIN_MAX: Duration = Duration::from_secs(2 * 3600);
/// The start time of every scenario: 2026-01-01T00:00:00Z.
const START: i64 = 1_767_225_600;

/// Seed of the realistic catalogue's spot prices, as in every simulator.
const MARKET: u64 = 1;

/// The report of a scenario.
#[derive(Clone, Debug, Default)]
#[must_use = "failures are only in the report"]
pub struct ScenarioReport {
    /// The text, equal for every run of the scenario.
    pub text: String,
    /// Expectations that were not met.
    pub failures: Vec<String>,
}

struct Stage {
    /// The cluster, and the second one if there is one.
    simulators: Vec<Simulator>,
    /// The AWS region of each cluster, if it has one.
    regions: Vec<Option<Region>>,
    /// The index of the cluster that steps refer to.
    at: usize,
    zones: Vec<String>,
    report: ScenarioReport,
    /// The changes of objects, once requested.
    history: Option<History>,
}

/// Runs a scenario. Must run on a [`fleetwright_sim::simulator::virtual_runtime`].
///
/// # Errors
/// If the simulator cannot be created, or rejects an object.
pub async fn play(scenario: &Scenario) -> Result<ScenarioReport, SimulatorError> {
    let (config, region) = config(scenario)?;
    let zones = config.cloud.zones();
    let mut stage = Stage {
        simulators: Vec::new(),
        regions: Vec::new(),
        at: 0,
        zones,
        report: ScenarioReport::default(),
        history: None,
    };
    let second_cluster = match (&scenario.second_cluster, &region) {
        (None, _) => None,
        (Some(second), Some(region)) => {
            // With another seed, the objects of the other cluster have other UIDs.
            let mut own = SimulatorConfig { seed: config.seed.wrapping_add(1), ..config.clone() };
            let region = region.of_second_cluster();
            own.cloud = Arc::new(region.clone());
            Some((second, own, region))
        }
        (Some(_), None) => {
            return Err(SimulatorError::Cloud("a second cluster needs a region: set aws".to_owned()));
        }
    };
    stage.say(&scenario.about);
    stage.regions.push(region);
    stage.start_cluster(config, scenario, (&scenario.pools, &scenario.pods)).await?;
    stage.apply(scenario.apply.clone())?;
    if let Some((second, config, region)) = second_cluster {
        stage.regions.push(Some(region));
        stage.start_cluster(config, scenario, (&second.pools, &second.pods)).await?;
        stage.at = 0;
    }
    for step in &scenario.steps {
        stage.step(step).await?;
    }
    Ok(stage.report)
}

/// The configuration of the scenario's simulator, and its AWS region.
pub(super) fn config(scenario: &Scenario) -> Result<(SimulatorConfig, Option<Region>), SimulatorError> {
    let seed = scenario.seed;
    let start = Timestamp::from_second(START).unwrap_or_default();
    let (cloud, region) = cloud(scenario, start)?;
    let mut config = SimulatorConfig::over(seed, start, cloud);
    open_gates(&mut config.settings.gates, &scenario.gates);
    config.settings.ignore_dra_requests = !scenario.gates.iter().any(|gate| gate == "DynamicResources");
    if scenario.settings.packer == PackerShort::Compatible {
        config.settings.packing = Packing::Compatible;
    }
    config.settings.n_to_m = scenario.settings.n_to_m_consolidation.unwrap_or(true);
    config.settings.limit_range_defaults = scenario.settings.limit_range_defaults;
    config.settings.disruption.startup_delay = scenario.settings.startup_disruption_delay;
    Ok((config, region))
}

/// The cloud of a scenario; an AWS region also as itself.
fn cloud(
    scenario: &Scenario,
    start: Timestamp,
) -> Result<(Arc<dyn CloudSetup>, Option<Region>), SimulatorError> {
    if let Some(aws) = &scenario.aws {
        let mut region = Region::new(Arc::new(TokioClock::new(start)), aws.eks);
        region::set_up(&mut region, aws, start);
        return Ok((Arc::new(region.clone()), Some(region)));
    }
    let seed = scenario.seed;
    let config = match scenario.cloud {
        CloudMood::Instant => CloudConfig::instant(seed),
        CloudMood::Good => CloudConfig { seed, ..CloudConfig::default() },
        CloudMood::Stormy => CloudConfig::stormy(seed),
        CloudMood::Fleets => CloudConfig { seed, tags_node_claims: false, ..CloudConfig::default() },
    };
    let catalogue = match scenario.catalogue {
        CatalogueName::Kwok => catalogue::kwok(),
        CatalogueName::Realistic => catalogue::realistic(MARKET),
    };
    Ok((Arc::new(FakeSetup { catalogue, config }), None))
}

/// Enables the feature gates of a scenario, by Karpenter's names.
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
    /// The cluster that steps refer to.
    fn simulator(&self) -> &Simulator {
        &self.simulators[self.at]
    }

    /// Its AWS region, if it has one.
    fn region(&self) -> Option<&Region> {
        self.regions[self.at].as_ref()
    }

    /// Creates a cluster with its initial objects.
    async fn start_cluster(
        &mut self,
        config: SimulatorConfig,
        scenario: &Scenario,
        (pools, pods): (&[PoolShort], &[PodsShort]),
    ) -> Result<(), SimulatorError> {
        let aws = scenario.aws.as_ref();
        self.simulators.push(Simulator::new(config).await?);
        self.at = self.simulators.len() - 1;
        let mut objects = vec![expand::class(aws)];
        objects.extend(pools.iter().map(|pool| expand::pool(pool, &self.zones, aws.is_some())));
        objects.extend(pods.iter().flat_map(expand::pods));
        self.apply(objects)
    }

    /// Removes taints from all nodes.
    fn untaint(&mut self, keys: &[String]) -> Result<(), SimulatorError> {
        for node in self.simulator().server().list("v1", "Node", "") {
            let taints = node.pointer("/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default();
            let is_named = |taint: &Value| keys.iter().any(|key| taint["key"] == key.as_str());
            let left: Vec<&Value> = taints.iter().filter(|taint| !is_named(taint)).collect();
            if left.len() < taints.len() {
                self.simulator().apply_object(json!({
                    "apiVersion": "v1", "kind": "Node", "metadata": { "name": node["metadata"]["name"] },
                    "spec": { "taints": left },
                }))?;
            }
        }
        self.say_when(&format!("untaint {}", keys.join(", ")));
        Ok(())
    }

    /// Sets conditions of nodes that the autoscaler launched, at most this many.
    fn set_conditions(
        &mut self,
        wanted: &BTreeMap<String, String>,
        most: usize,
        reason: &str,
    ) -> Result<(), SimulatorError> {
        let now = self.simulator().clock().now().to_string();
        let mut names: Vec<_> = self.simulator().observe().nodes.into_iter().map(|node| node.name).collect();
        names.sort();
        for name in names.into_iter().take(most) {
            let node = self.simulator().server().get("v1", "Node", "", &name);
            let known =
                node.as_ref().and_then(|node| node.pointer("/status/conditions")).and_then(Value::as_array);
            let stays =
                |condition: &&Value| !wanted.contains_key(condition["type"].as_str().unwrap_or_default());
            let mut conditions: Vec<Value> = known.into_iter().flatten().filter(stays).cloned().collect();
            conditions.extend(wanted.iter().map(|(condition, status)| {
                json!({ "type": condition, "status": status, "reason": reason, "lastTransitionTime": now })
            }));
            self.simulator().apply_object(json!({
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

    /// The prefix of lines about the second cluster.
    fn place(&self) -> &'static str {
        if self.at == 0 { "" } else { "second cluster: " }
    }

    fn say_when(&mut self, line: &str) {
        let time = format!("+{}", clock(self.simulator().elapsed()));
        let place = self.place();
        self.say(&format!("{time:<9} {place}{line}"));
    }

    fn apply(&mut self, objects: Vec<Value>) -> Result<(), SimulatorError> {
        for object in objects {
            let object = match &self.history {
                Some(history) => history.real(object),
                None => object,
            };
            let name = self.simulator().apply_object(object)?;
            self.say_when(&format!("apply {}", self.with_report_names(name)));
        }
        Ok(())
    }

    fn delete(&mut self, names: &[String]) -> Result<(), SimulatorError> {
        for name in names {
            let real = self.history.as_ref().map_or_else(|| name.clone(), |history| history.real_name(name));
            self.simulator().delete_object(&real)?;
            self.say_when(&format!("delete {name}"));
        }
        Ok(())
    }

    /// A text with the names of the report.
    fn with_report_names(&self, text: String) -> String {
        self.history.as_ref().map_or_else(|| text.clone(), |history| history.with_report_names(&text))
    }

    /// Reports these kinds from now on.
    fn report_changes(&mut self, wanted: &[String]) {
        if self.history.is_none() {
            self.history = Some(History::begin(self.simulator()));
        }
        let refused = self.history.as_mut().and_then(|history| history.select(wanted).err());
        refused.iter().for_each(|why| self.fail(why));
    }

    /// Reports the changes since the last step.
    fn report_history(&mut self) {
        let changes = self.history.as_mut().map(History::take).unwrap_or_default();
        for (at, line) in changes {
            let since = at.duration_since(Timestamp::from_second(START).unwrap_or_default());
            let time = format!("+{}", clock(Duration::try_from(since).unwrap_or_default()));
            self.say(&format!("{time:<9} | {line}"));
        }
    }

    async fn step(&mut self, step: &ScenarioStep) -> Result<(), SimulatorError> {
        self.report_history();
        match step {
            ScenarioStep::UntilStable => self.run_until_stable().await,
            ScenarioStep::Wait(text) => self.wait(text).await,
            ScenarioStep::Apply(objects) => self.apply(objects.clone())?,
            ScenarioStep::Pods(shorts) => self.apply(shorts.iter().flat_map(expand::pods).collect())?,
            ScenarioStep::Pools(shorts) => {
                let aws = self.region().is_some();
                let pools = shorts.iter().map(|short| expand::pool(short, &self.zones, aws)).collect();
                self.apply(pools)?;
            }
            ScenarioStep::Scale(sizes) => {
                let scaled = sizes.iter().map(|(name, size)| {
                    json!({
                        "apiVersion": "apps/v1", "kind": "Deployment",
                        "metadata": { "name": name, "namespace": "default" }, "spec": { "replicas": size },
                    })
                });
                self.apply(scaled.collect())?;
            }
            ScenarioStep::Delete(names) => self.delete(names)?,
            ScenarioStep::Inject(faults) => {
                for fault in faults {
                    self.simulator().cloud().inject(fault.clone());
                    self.say_when(&format!("inject {}", serde_json::to_string(fault).unwrap_or_default()));
                }
            }
            ScenarioStep::Heal => {
                self.simulator().cloud().heal();
                self.say_when("heal");
            }
            ScenarioStep::Interrupt(count) => self.interrupt(*count),
            ScenarioStep::Lose(count) => self.lose(*count),
            ScenarioStep::Untaint(keys) => self.untaint(keys)?,
            ScenarioStep::Conditions(wanted) => self.set_conditions(wanted, usize::MAX, "Scenario")?,
            ScenarioStep::Sicken(some) => self.set_conditions(&some.conditions, some.nodes, BROKEN)?,
            ScenarioStep::Restart(text) => self.restart(text).await?,
            ScenarioStep::Abandon(count) => self.abandon(*count)?,
            ScenarioStep::Region(step) => self.change_region(step),
            ScenarioStep::SecondCluster(steps) if self.simulators.len() > 1 => {
                self.at = 1;
                for step in steps {
                    Box::pin(self.step(step)).await?;
                }
                self.at = 0;
            }
            ScenarioStep::SecondCluster(_) => self.fail("second-cluster: there is no second cluster"),
            ScenarioStep::ReportChanges(wanted) => self.report_changes(wanted),
            ScenarioStep::Expect(expect) => self.expect(expect),
        }
        Ok(())
    }

    /// Changes the AWS region.
    fn change_region(&mut self, step: &RegionStep) {
        let now = self.simulator().clock().now();
        let lines = match self.region() {
            Some(region) => region::change(region, step, now),
            None => Err("region: the scenario has no region".to_owned()),
        };
        match lines {
            Ok(lines) => lines.iter().for_each(|line| self.say_when(line)),
            Err(why) => self.fail(&why),
        }
    }

    /// Kills the operator and waits until another one has started.
    async fn restart(&mut self, text: &str) -> Result<(), SimulatorError> {
        let Some(duration) = duration(text) else {
            self.fail(&format!("restart: {text:?} is not a duration such as 90s or 2h30m"));
            return Ok(());
        };
        self.say_when("operator killed");
        let at = self.at;
        self.simulators[at].kill(0, duration);
        self.simulators[at].run_for(duration).await;
        self.simulators[at].start_due().await?;
        self.say_when("operator started");
        Ok(())
    }

    /// Force-deletes the first NodeClaims and their Nodes, ignoring finalizers.
    fn abandon(&mut self, count: usize) -> Result<(), SimulatorError> {
        let mut claims = self.simulator().server().list("karpenter.sh/v1", "NodeClaim", "");
        claims.sort_by_key(|claim| claim["metadata"]["name"].as_str().map(str::to_owned));
        let mut abandoned = 0;
        for claim in claims.iter().take(count) {
            let text = |at: &str| claim.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
            let both = [
                ("v1", "Node", text("/status/nodeName")),
                ("karpenter.sh/v1", "NodeClaim", text("/metadata/name")),
            ];
            for (version, kind, name) in both.into_iter().filter(|(.., name)| !name.is_empty()) {
                self.simulator().apply_object(json!({
                    "apiVersion": version, "kind": kind, "metadata": { "name": name, "finalizers": [] },
                }))?;
                self.simulator().delete_object(&format!("{kind} {name}"))?;
            }
            abandoned += 1;
        }
        self.say_when(&format!("{abandoned} NodeClaims force-deleted"));
        if abandoned < count {
            self.fail(&format!("abandon: there are fewer than {count} NodeClaims"));
        }
        Ok(())
    }

    fn interrupt(&mut self, count: usize) {
        let instances = self.simulator().cloud().instances();
        let spot = instances.iter().filter(|instance| {
            instance.offering.as_ref().is_some_and(|offering| &*offering.capacity_type == "spot")
        });
        let announced =
            spot.filter(|instance| self.simulator().cloud().interrupt(&instance.id)).take(count).count();
        self.say_when(&format!("{announced} spot interruption notices sent"));
        if announced < count {
            self.fail(&format!("interrupt: there are fewer than {count} spot instances"));
        }
    }

    fn lose(&mut self, count: usize) {
        let instances = self.simulator().cloud().instances();
        let lost = instances
            .iter()
            .filter(|instance| self.simulator().cloud().lose(&instance.id))
            .take(count)
            .count();
        self.say_when(&format!("{lost} instances terminated without notice"));
        if lost < count {
            self.fail(&format!("lose: there are fewer than {count} instances"));
        }
    }

    async fn run_until_stable(&mut self) {
        let stability = self.simulator().run_until_stable(STABLE_WITHIN_MAX).await;
        self.report_history();
        match stability {
            Stability::Since(_) => self.say_when("stable"),
            Stability::OutOfTime => self.fail("not stable within 2h"),
        }
        self.describe();
    }

    async fn wait(&mut self, text: &str) {
        match duration(text) {
            Some(duration) => {
                self.simulator().run_for(duration).await;
                self.report_history();
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
        let seen = self.simulator().observe();
        let pods = seen.pods;
        let mut text = String::new();
        let indent = " ".repeat(10);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{indent}{} nodes at {}/h, {} pods running, {} pending; NodeClaims created: {}, removed: {}",
            seen.nodes.len(),
            hourly(&seen),
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
            let (own, all) = (region.booted().len(), region.aws.booted().len());
            self.say(&format!("{indent}region: {own} instances of this cluster, {} of others", all - own));
        }
        let refused = self.simulator().refused().map(|why| format!("the operator exits at startup: {why}"));
        for trouble in refused.into_iter().chain(expectations::troubles(self.simulator().server())) {
            let trouble = self.with_report_names(trouble);
            self.say(&format!("{indent}! {trouble}"));
        }
    }

    fn expect(&mut self, expect: &Expect) {
        let seen = self.simulator().observe();
        let mut failures = compare(expect, &seen);
        failures.extend(expectations::missing(self.simulator().server(), expect));
        failures.extend(region::missing(self.simulator(), self.region(), expect));
        if failures.is_empty() {
            self.say_when("as expected");
        }
        for failure in failures {
            self.fail(&failure);
        }
    }
}

/// The price of the nodes per hour, without its unit.
fn hourly(seen: &Overview) -> String {
    Currency::USD.amount(format_args!("{:.4}", seen.hourly))
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
        let most = Currency::USD.amount(most);
        failures.push(format!("cost: expected at most {most}/h, found {}/h", hourly(seen)));
    }
    failures
}

/// `1h2m3s`, without zero parts.
fn clock(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    let parts = [(seconds / 3600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let text: String =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

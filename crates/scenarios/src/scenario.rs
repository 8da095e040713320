//! Scenarios: documents with objects, steps and expectations, run in the simulator and written down as a report.
//!
//! ```yaml
//! about: A spread of maxSkew 1 over three zones opens one node per zone, not three in the cheapest.
//! pools: [{name: default, zones: [a, b, c]}]
//! pods: [{name: web, count: 3, cpu: 1, spread: zone}]
//! steps: [until-stable, {expect: {nodes: 3, zones: [a, b, c]}}]
//! ```

#[cfg(test)]
mod calls;
#[cfg(test)]
mod decisions;
mod expand;
mod expectations;
mod history;
mod play;
mod region;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use fleetwright_api::NillableDuration;
use fleetwright_fake::cloud::Fault;
use serde::{Deserialize, de::Error as _};
use serde_json::Value;

pub use play::{ScenarioReport, play};

/// A scenario as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// The situation and the expected outcome, in a sentence or two.
    pub about: String,
    /// The seed of all random draws.
    #[serde(default = "one")]
    pub seed: u64,
    /// The behavior of the cloud.
    #[serde(default)]
    pub cloud: CloudMood,
    /// The instance types of the cloud.
    #[serde(default)]
    pub catalogue: CatalogueName,
    /// AWS as the cloud: the provider over an in-memory region; `cloud` and `catalogue` are then ignored.
    pub aws: Option<AwsShort>,
    /// A second cluster with the same name in the same account and region.
    pub second_cluster: Option<SecondCluster>,
    /// NodePools, in short form; a node class named `default` exists.
    #[serde(default)]
    pub pools: Vec<PoolShort>,
    /// Deployments, in short form.
    #[serde(default)]
    pub pods: Vec<PodsShort>,
    /// Enabled feature gates; `DynamicResources` stands for `IGNORE_DRA_REQUESTS=false`.
    #[serde(default)]
    pub gates: Vec<String>,
    /// Settings of the controller, by their names.
    #[serde(default)]
    pub settings: SettingsShort,
    /// Complete objects.
    #[serde(default)]
    pub apply: Vec<Value>,
    /// The steps, in order.
    pub steps: Vec<ScenarioStep>,
}

fn one() -> u64 {
    1
}

/// Settings of the controller that scenarios change.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", deny_unknown_fields)]
pub struct SettingsShort {
    /// How pods are packed on new NodeClaims.
    #[serde(default)]
    pub packer: PackerShort,
    /// Whether consolidation may replace nodes by several.
    pub n_to_m_consolidation: Option<bool>,
    /// Whether LimitRanges are read.
    #[serde(default)]
    pub limit_range_defaults: bool,
    /// How long no node is disrupted or expires after each start.
    #[serde(default, deserialize_with = "go_duration")]
    pub startup_disruption_delay: Duration,
}

fn go_duration<'de, D: serde::Deserializer<'de>>(text: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(text)?;
    duration(&text)
        .ok_or_else(|| D::Error::custom(format!("{text:?} is not a duration such as 90s or 2h30m")))
}

/// The values of `PACKER`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackerShort {
    /// The cheapest plan.
    #[default]
    LeastCost,
    /// Karpenter's order.
    Compatible,
}

/// The behavior of the cloud.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CloudMood {
    /// No latencies.
    Instant,
    /// Realistic latencies, unlimited capacity.
    #[default]
    Good,
    /// Limited pools, spot interruptions, throttling.
    Stormy,
    /// As `good`, but instances carry no NodeClaim from launch, as those of an EC2 fleet.
    Fleets,
}

/// The instance types of the cloud.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CatalogueName {
    /// Modeled on EC2.
    #[default]
    Realistic,
    /// The generic types of Karpenter's kwok provider.
    Kwok,
}

/// An AWS region in short form.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AwsShort {
    /// Whether EKS has the cluster; false for self-managed clusters.
    #[serde(default = "yes")]
    pub eks: bool,
    /// The image alias of the node class.
    #[serde(default = "al2023")]
    pub alias: String,
    /// Actual memory of instances by image, in percent of the advertised memory.
    #[serde(default)]
    pub memory: BTreeMap<String, i64>,
    /// Whether there is an interruption queue.
    #[serde(default)]
    pub queue: bool,
    /// Whether zones with a zonal shift are avoided.
    #[serde(default)]
    pub zonal_shift: bool,
    /// Capacity reservations of the account; the node class selects them all.
    #[serde(default)]
    pub reservations: Vec<ReservationShort>,
    /// The placement group of the node class.
    pub placement_group: Option<PlacementGroupShort>,
}

/// A capacity reservation in short form.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReservationShort {
    /// Its id.
    pub id: String,
    /// Its instance type.
    #[serde(rename = "type")]
    pub instance_type: String,
    /// Its full zone name.
    pub zone: String,
    /// How many instances it holds.
    pub count: u32,
    /// The time until it starts, from the start of the scenario; at once if absent.
    pub starts_in: Option<String>,
    /// The time until it ends, from the start of the scenario; set for a capacity block.
    pub block_for: Option<String>,
}

/// A placement group in short form.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlacementGroupShort {
    /// Its name.
    pub name: String,
    /// `cluster`, `partition` or `spread`.
    pub strategy: String,
    /// How many partitions it has.
    #[serde(default)]
    pub partitions: u32,
}

fn yes() -> bool {
    true
}
fn al2023() -> String {
    "al2023@latest".to_owned()
}

/// The second cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecondCluster {
    /// Its NodePools, in short form.
    #[serde(default)]
    pub pools: Vec<PoolShort>,
    /// Its Deployments, in short form.
    #[serde(default)]
    pub pods: Vec<PodsShort>,
}

/// A NodePool in short form.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolShort {
    /// Name.
    pub name: String,
    /// Zones, by last letter or full name; empty means any.
    #[serde(default)]
    pub zones: Vec<String>,
    /// `spot`, `on-demand`; empty means any.
    #[serde(default)]
    pub capacity: Vec<String>,
    /// Architectures.
    #[serde(default = "amd64")]
    pub arch: Vec<String>,
    /// Instance types; empty means any.
    #[serde(default)]
    pub types: Vec<String>,
    /// Weight.
    pub weight: Option<i32>,
    /// `replicas` of a static NodePool.
    pub replicas: Option<u32>,
    /// `limits`, as in the NodePool.
    #[serde(default)]
    pub limits: BTreeMap<String, String>,
    /// `consolidateAfter`.
    #[serde(default = "half_minute")]
    pub consolidate_after: String,
    /// `consolidationPolicy`.
    #[serde(default = "underutilized")]
    pub consolidation_policy: String,
    /// The `nodes` of its only budget.
    #[serde(default = "all")]
    pub budget: String,
    /// `expireAfter`.
    #[serde(default = "never")]
    pub expire_after: String,
    /// Taints as `key=value:Effect`.
    #[serde(default)]
    pub taints: Vec<String>,
    /// `startupTaints`, in the same form.
    #[serde(default)]
    pub startup_taints: Vec<String>,
    /// `terminationGracePeriod`.
    pub termination_grace_period: Option<String>,
    /// Annotations of the NodePool.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

fn amd64() -> Vec<String> {
    vec!["amd64".to_owned()]
}
fn half_minute() -> String {
    "30s".to_owned()
}
fn underutilized() -> String {
    "WhenEmptyOrUnderutilized".to_owned()
}
fn all() -> String {
    "100%".to_owned()
}
fn never() -> String {
    "Never".to_owned()
}

/// A Deployment in short form.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodsShort {
    /// Name, and the value of the label `app`.
    pub name: String,
    /// Replicas.
    #[serde(default = "one_pod")]
    pub count: u32,
    /// CPU of each, as a quantity.
    pub cpu: Option<Value>,
    /// Memory of each, as a quantity.
    pub memory: Option<Value>,
    /// Spread evenly (maxSkew 1, hard) over `zone` or `host`.
    pub spread: Option<Domain>,
    /// No two in one `zone` or on one `host`.
    pub apart: Option<Domain>,
    /// `nodeSelector`.
    #[serde(default)]
    pub selector: BTreeMap<String, String>,
    /// `key=value:Effect` of tolerated taints; a key alone tolerates any value.
    #[serde(default)]
    pub tolerates: Vec<String>,
    /// Annotations of the pods.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// `priorityClassName`.
    pub priority: Option<String>,
    /// A PodDisruptionBudget with this `maxUnavailable`.
    pub max_unavailable: Option<Value>,
}

fn one_pod() -> u32 {
    1
}

/// A topology domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Domain {
    /// `topology.kubernetes.io/zone`.
    Zone,
    /// `kubernetes.io/hostname`.
    Host,
}

/// One step.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScenarioStep {
    /// Runs until the cluster is stable, at most two hours of virtual time; otherwise the scenario fails.
    UntilStable,
    /// Runs for a duration: `90s`, `2h30m`.
    Wait(String),
    /// Creates or replaces objects.
    Apply(Vec<Value>),
    /// Creates or replaces Deployments, in short form.
    Pods(Vec<PodsShort>),
    /// Creates or replaces NodePools, in short form.
    Pools(Vec<PoolShort>),
    /// Sets the replicas of Deployments of the namespace `default`.
    Scale(BTreeMap<String, u32>),
    /// Deletes objects: `Pod default/web-1`, `NodePool default`.
    Delete(Vec<String>),
    /// Adds faults to the cloud's script.
    Inject(Vec<Fault>),
    /// Removes the cloud's faults.
    Heal,
    /// Sends interruption notices for this many spot instances, the first by id.
    Interrupt(usize),
    /// Terminates this many instances without notice, the first by id.
    Lose(usize),
    /// Removes taints from all nodes, by key, in place of their owner.
    Untaint(Vec<String>),
    /// Sets conditions of all nodes of the autoscaler: `Ready: "False"`.
    Conditions(BTreeMap<String, String>),
    /// Sets conditions of some of these nodes and breaks their kubelets permanently.
    Sicken(Sicken),
    /// Kills the operator; another one starts after this duration.
    Restart(String),
    /// Force-deletes this many NodeClaims, the first by name, and their Nodes: no object refers to their instances any more.
    Abandon(usize),
    /// On AWS: changes the region.
    Region(RegionStep),
    /// Runs these steps in the second cluster.
    SecondCluster(Vec<Self>),
    /// Reports changes to objects of these kinds from here on, in order: `NodeClaim`, or one kind of change, `NodeClaim Drained`, `Event
    /// Evicted`. Generated names are replaced by `claim-1`, `instance-1`, `node-1` (of `claim-1`), `web-1` (of the app `web`),
    /// `attachment-1`; later steps may use these names in `apply` and `delete`.
    ReportChanges(Vec<String>),
    /// Compares the state with expectations.
    Expect(Box<Expect>),
}

/// A change of an AWS region.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegionStep {
    /// Messages to send to the queue, with the number of instances, the first of the cluster by id to which they apply.
    #[serde(default)]
    pub announce: BTreeMap<Announcement, usize>,
    /// The active zonal shifts by the zone's last letter, with their durations; earlier shifts end.
    pub shift: Option<BTreeMap<String, String>>,
}

/// A message of EventBridge about an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Announcement {
    /// A spot interruption in two minutes.
    Spot,
    /// A rebalance recommendation; no interruption follows.
    Rebalance,
    /// An interruption of reserved capacity in two minutes.
    Reservation,
    /// A scheduled retirement of the host.
    Retirement,
    /// The instance was stopped.
    Stopped,
    /// The instance was terminated from outside.
    Terminated,
}

/// Nodes that become unhealthy.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sicken {
    /// The number of nodes, the first by name.
    pub nodes: usize,
    /// Their conditions.
    pub conditions: BTreeMap<String, String>,
}

/// Expectations; absent fields are not checked.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expect {
    /// The number of nodes.
    pub nodes: Option<usize>,
    /// The zone of each node, by its last letter, sorted.
    pub zones: Option<Vec<String>>,
    /// The instance type of each node, sorted.
    pub types: Option<Vec<String>>,
    /// The capacity type of each node, sorted.
    pub capacity: Option<Vec<String>>,
    /// The number of running pods.
    pub running: Option<usize>,
    /// The number of pods without a node.
    pub pending: Option<usize>,
    /// NodeClaims created since the start.
    pub created: Option<u64>,
    /// NodeClaims deleted since the start, by reason; complete.
    pub removed: Option<BTreeMap<String, u64>>,
    /// Events that were published: reasons, or `Reason: part of the message`.
    #[serde(default)]
    pub events: Vec<String>,
    /// Reasons of events that nobody told so far.
    #[serde(default)]
    pub no_events: Vec<String>,
    /// Conditions that some object has: `NodePool Ready=True`, `NodeClaim Launched=Unknown/LaunchFailed`.
    #[serde(default)]
    pub conditions: Vec<String>,
    /// On AWS: the image of each NodeClaim, sorted.
    pub images: Option<Vec<String>>,
    /// Instances that run; on AWS, by the address that their user data name.
    pub instances: Option<usize>,
    /// On AWS: running instances in the region, of any owner.
    pub all_instances: Option<usize>,
    /// Part of the message with which the operator exits at startup.
    pub refused: Option<String>,
    /// The maximum cost of the nodes, in dollars per hour.
    pub cost_at_most: Option<f64>,
}

impl Scenario {
    /// Parses a scenario.
    ///
    /// # Errors
    /// The error in the text, with line and column.
    pub fn parse(yaml: &str) -> Result<Self, String> {
        serde_saphyr::from_str(yaml).map_err(|error| error.to_string())
    }
}

/// A finite duration such as `90s`.
fn duration(text: &str) -> Option<Duration> {
    NillableDuration::new(text).finite().and_then(|duration| duration.try_into().ok())
}

//! Scenarios: a document that says what a world holds and what happens to it, played into a report for people.
//!
//! ```yaml
//! about: A spread of maxSkew 1 over three zones opens one node per zone, not three in the cheapest.
//! pools: [{name: default, zones: [a, b, c]}]
//! pods: [{name: web, count: 3, cpu: 1, spread: zone}]
//! steps: [settle, {expect: {nodes: 3, zones: [a, b, c]}}]
//! ```

#[cfg(test)]
mod calls;
mod expand;
mod history;
mod play;
mod region;
#[cfg(test)]
mod tests;
mod told;

use std::collections::BTreeMap;

use fleetwright_fake::cloud::Fault;
use serde::Deserialize;
use serde_json::Value;

pub use play::{Report, play};

/// A scenario, as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// What it shows, in a sentence or two.
    pub about: String,
    /// Everything that is left to chance follows from it.
    #[serde(default = "one")]
    pub seed: u64,
    /// How the cloud behaves.
    #[serde(default)]
    pub cloud: CloudMood,
    /// What the cloud sells.
    #[serde(default)]
    pub catalogue: CatalogueName,
    /// AWS in the cloud's place: the provider over a region in memory; `cloud` and `catalogue` then say nothing.
    pub aws: Option<AwsShort>,
    /// A second cluster of the same name in the same account and region.
    pub neighbour: Option<Neighbour>,
    /// NodePools, in short; a node class of the name `default` is there.
    #[serde(default)]
    pub pools: Vec<PoolShort>,
    /// Deployments, in short.
    #[serde(default)]
    pub pods: Vec<PodsShort>,
    /// Feature gates that are open; `DynamicResources` stands for `IGNORE_DRA_REQUESTS=false`.
    #[serde(default)]
    pub gates: Vec<String>,
    /// Objects in full.
    #[serde(default)]
    pub apply: Vec<Value>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

fn one() -> u64 {
    1
}

/// How the cloud behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CloudMood {
    /// Everything at once.
    Instant,
    /// Real latencies, capacity for everybody.
    #[default]
    Good,
    /// Pools run dry, spot instances are taken back, calls are throttled.
    Stormy,
}

/// What the cloud sells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CatalogueName {
    /// In the shape of EC2.
    #[default]
    Realistic,
    /// The generic types of Karpenter's kwok provider.
    Kwok,
}

/// A region of AWS in short.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AwsShort {
    /// Whether EKS knows the cluster; clusters that people run themselves it does not.
    #[serde(default = "yes")]
    pub eks: bool,
    /// The alias that the node class selects its images by.
    #[serde(default = "al2023")]
    pub alias: String,
    /// How much of the memory that it is sold with an instance has with an image, in per cent.
    #[serde(default)]
    pub memory: BTreeMap<String, i64>,
    /// Whether there is an interruption queue.
    #[serde(default)]
    pub queue: bool,
    /// Whether zones that traffic is shifted away from are avoided.
    #[serde(default)]
    pub zonal_shift: bool,
    /// Capacity reservations of the account; the node class selects them all.
    #[serde(default)]
    pub reservations: Vec<ReservationShort>,
    /// The placement group that the node class launches into.
    pub placement_group: Option<PlacementGroupShort>,
}

/// A capacity reservation in short.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReservationShort {
    /// Its id.
    pub id: String,
    /// Its instance type.
    #[serde(rename = "type")]
    pub instance_type: String,
    /// Its zone, in full.
    pub zone: String,
    /// How many instances it holds.
    pub count: u32,
    /// When it ends, counted from the start: then it is a capacity block.
    pub block_for: Option<String>,
}

/// A placement group in short.
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
pub struct Neighbour {
    /// Its NodePools, in short.
    #[serde(default)]
    pub pools: Vec<PoolShort>,
    /// Its Deployments, in short.
    #[serde(default)]
    pub pods: Vec<PodsShort>,
}

/// A NodePool in short.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolShort {
    /// Name.
    pub name: String,
    /// Zones, by the last letter or in full; any where empty.
    #[serde(default)]
    pub zones: Vec<String>,
    /// `spot`, `on-demand`; any where empty.
    #[serde(default)]
    pub capacity: Vec<String>,
    /// Architectures.
    #[serde(default = "amd64")]
    pub arch: Vec<String>,
    /// Instance types; any where empty.
    #[serde(default)]
    pub types: Vec<String>,
    /// Weight.
    pub weight: Option<i32>,
    /// `replicas`, of a static pool.
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
    /// `key=value:Effect`.
    #[serde(default)]
    pub taints: Vec<String>,
    /// `startupTaints`, written as `taints`.
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

/// A Deployment in short.
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
    /// `key=value:Effect` of taints that are tolerated; a key alone tolerates any value.
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
pub enum Step {
    /// Lets time pass until nothing is left to do, two hours at most; not to settle is a failure.
    Settle,
    /// Lets so much time pass: `90s`, `2h30m`.
    Wait(String),
    /// Creates or replaces objects.
    Apply(Vec<Value>),
    /// Creates Deployments, in short, or replaces them.
    Pods(Vec<PodsShort>),
    /// Creates NodePools, in short, or replaces them.
    Pools(Vec<PoolShort>),
    /// Sets the replicas of Deployments of the namespace `default`.
    Scale(BTreeMap<String, u32>),
    /// Deletes objects: `Pod default/web-1`, `NodePool default`.
    Delete(Vec<String>),
    /// Adds faults to the cloud's script.
    Inject(Vec<Fault>),
    /// Ends the cloud's faults.
    Heal,
    /// Announces of so many spot instances, the first by id, that the cloud takes them back.
    Interrupt(usize),
    /// So many instances, the first by id, are gone at once, and nobody says so.
    Lose(usize),
    /// Takes taints off all nodes, by key, as whoever looks after them would.
    Untaint(Vec<String>),
    /// Sets conditions of all nodes of the autoscaler: `Ready: "False"`.
    Conditions(BTreeMap<String, String>),
    /// Sets conditions of some of these nodes, whose kubelets do not come to themselves again.
    Sicken(Sicken),
    /// Kills the operator where it stands; another one starts after so much time.
    Restart(String),
    /// Deletes so many NodeClaims, the first by name, with their Nodes and by force: nothing in the cluster tells of their
    /// instances any more.
    Abandon(usize),
    /// On AWS: what happens in the region.
    Region(RegionStep),
    /// Does these steps in the second cluster.
    Neighbour(Vec<Self>),
    /// Tells in the report, from here on, what happens to objects of these kinds, in the order in which it happens:
    /// `NodeClaim`, or certain words only, `NodeClaim Drained`, `Event Evicted`. Names that are drawn by lot are told as
    /// `claim-1`, `instance-1`, `node-1` (of `claim-1`), `web-1` (of the app `web`), `attachment-1`; steps that follow may use them
    /// in `apply` and `delete`.
    Tell(Vec<String>),
    /// Compares.
    Expect(Box<Expect>),
}

/// What happens in a region of AWS.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegionStep {
    /// What the queue says of so many of the cluster's instances, the first by id that it can be said of.
    #[serde(default)]
    pub announce: BTreeMap<Announcement, usize>,
    /// The zones by their last letter that traffic is shifted away from now, each for so long; those before are over.
    pub shift: Option<BTreeMap<String, String>>,
}

/// What EventBridge says of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Announcement {
    /// Spot capacity is taken back, two minutes later.
    Spot,
    /// Spot capacity may be taken back; it is not.
    Rebalance,
    /// A reservation's capacity is taken back, two minutes later.
    Reservation,
    /// The host is retired, some day.
    Retirement,
    /// Somebody has stopped it.
    Stopped,
}

/// Nodes that fall ill.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sicken {
    /// How many, the first by name.
    pub nodes: usize,
    /// Their conditions.
    pub conditions: BTreeMap<String, String>,
}

/// What is expected; what is not named is not looked at.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expect {
    /// Nodes.
    pub nodes: Option<usize>,
    /// The zone of each node, by its last letter, sorted.
    pub zones: Option<Vec<String>>,
    /// The instance type of each node, sorted.
    pub types: Option<Vec<String>>,
    /// The capacity type of each node, sorted.
    pub capacity: Option<Vec<String>>,
    /// Pods that run.
    pub running: Option<usize>,
    /// Pods without a node.
    pub pending: Option<usize>,
    /// NodeClaims created since the start.
    pub created: Option<u64>,
    /// NodeClaims removed since the start, by reason; complete.
    pub removed: Option<BTreeMap<String, u64>>,
    /// Events that were told so far: reasons, or `Reason: words of the message`.
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
    /// On AWS: instances that run, by the address that their user data name.
    pub instances: Option<usize>,
    /// On AWS: instances that run in the region, whoever they belong to.
    pub all_instances: Option<usize>,
    /// Why the operator ends as soon as it starts, in some of its words.
    pub refused: Option<String>,
    /// The most that the fleet may cost, in dollars per hour.
    pub cost_at_most: Option<f64>,
}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// What is wrong with the text, with line and column.
    pub fn parse(yaml: &str) -> Result<Self, String> {
        serde_saphyr::from_str(yaml).map_err(|error| error.to_string())
    }
}

//! Fleetwright's property runs over the cloud in memory: small clusters with faults in virtual time, whose invariants are checked every
//! second.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc, time::Duration};

use fleetwright_core::{
    clock::SharedClock,
    cloud::{CloudError, CloudProvider, GroundTruth, async_trait},
    model::ProviderId,
};
use fleetwright_scenarios::seeds::{
    BoxFuture, Client, CloudFault, CloudSetup, RunError, SeedReport, SimulatedCloud, run_many_over,
};
use fleetwright_operator::follow;
use pebble_autoscaler::{Classes, PebbleApi, PebbleProvider, api::Server, definitions, node_classes};
use serde_json::{Value, json};

use crate::stub::Stub;

/// How many seeds run. `PEBBLE_SEEDS=500 cargo test --release properties` runs more.
const SEEDS: u64 = 10;
/// How many seeds may be needed to find a planted bug.
const PLANTED: u64 = 20;

/// The cloud of a run.
struct Pebble {
    forgets_names: bool,
}

impl CloudSetup for Pebble {
    fn definitions(&self) -> Vec<Value> {
        definitions().iter().map(|definition| serde_json::to_value(definition).unwrap()).collect()
    }

    fn zones(&self) -> Vec<String> {
        ["north", "south", "west"].map(str::to_owned).into()
    }

    fn node_class(&self, revision: u32) -> Value {
        json!({"apiVersion": "pebble.example/v1", "kind": "PebbleNodeClass", "metadata": {"name": "default"},
            "spec": {"image": format!("debian-{}", 13 + revision)}})
    }

    fn start(&self, clock: SharedClock) -> Arc<dyn SimulatedCloud> {
        let cloud = InMemory { stub: Stub::at(clock), classes: node_classes() };
        cloud.stub.inner().forgets_names = self.forgets_names;
        Arc::new(cloud)
    }
}

struct InMemory {
    stub: Stub,
    classes: Classes,
}

#[async_trait]
impl SimulatedCloud for InMemory {
    fn tasks(&self, client: Client, clock: SharedClock) -> Vec<BoxFuture<'static, ()>> {
        vec![Box::pin(follow(client, self.classes.clone(), clock))]
    }

    async fn provider(&self, clock: SharedClock) -> Result<Arc<dyn CloudProvider>, CloudError> {
        let mut api = PebbleApi::new("http://pebble", "token")?;
        api.transport = self.stub.transport();
        Ok(Arc::new(PebbleProvider::connect(api, self.classes.clone(), clock).await?))
    }

    fn ground_truth(&self) -> Vec<Arc<GroundTruth>> {
        self.stub.ground_truth().into_iter().map(Arc::new).collect()
    }

    fn inject(&self, fault: &CloudFault) -> bool {
        match *fault {
            CloudFault::Calls(operation, fault, count) => {
                (0..count).for_each(|_| self.stub.break_call(operation, fault));
            }
            CloudFault::SlowLaunches { count, by_ms } => {
                let delays = (0..count).map(|_| Duration::from_millis(by_ms));
                self.stub.inner().delays.extend(delays);
            }
            // Pebble has neither spot capacity nor fleets; faults of nodes need nothing of it.
            _ => return false,
        }
        true
    }

    fn heal(&self) {
        let mut inner = self.stub.inner();
        inner.faults.clear();
        inner.delays.clear();
    }

    fn lose(&self, id: &ProviderId) -> bool {
        let id = id.as_str().rsplit('/').next().unwrap_or_default();
        self.stub.inner().servers.remove(id).is_some()
    }

    fn adopt(&self, instance: GroundTruth) -> Option<ProviderId> {
        let mut inner = self.stub.inner();
        let label = |key: &str, value: String| (key.to_owned(), value);
        let cluster = instance.cluster_uid.map(|uid| label("fleetwright-cluster", uid.to_string()));
        let claim = instance.claim.map(|claim| label("fleetwright-nodeclaim", claim.to_string()));
        let (name, zone) = (instance.provider_id.to_string(), instance.zone.to_string());
        let labels = cluster.into_iter().chain(claim).collect();
        let server_type = instance.instance_type.to_string();
        let server = inner.add(Server { name, zone, server_type, labels, ..Server::default() });
        Some(format!("pebble:///{}/{}", server.zone, server.id).into())
    }
}

fn run(count: u64, forgets_names: bool, stop: fn(&SeedReport) -> bool) -> Vec<SeedReport> {
    let cloud: Arc<dyn CloudSetup> = Arc::new(Pebble { forgets_names });
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let stop = |report: &Result<SeedReport, RunError>| report.as_ref().is_ok_and(stop);
    run_many_over(0, count, &cloud, threads, &stop).into_iter().map(Result::unwrap).collect()
}

#[test]
fn seeds_have_no_violations() {
    let count = std::env::var("PEBBLE_SEEDS").map_or(SEEDS, |count| count.parse().unwrap());
    let reports = run(count, false, |_| false);
    let mut happened: BTreeMap<&str, u32> = BTreeMap::new();
    let all = reports.iter().flat_map(|report| &report.happened);
    all.for_each(|(what, times)| *happened.entry(what).or_default() += times);
    println!("{} seeds: {happened:?}", reports.len());
    let mut broken = String::new();
    for report in reports.iter().filter(|report| !report.violations.is_empty()) {
        write!(broken, "{report}").unwrap();
    }
    assert!(broken.is_empty(), "{broken}");
}

/// Two servers of a NodeClaim.
fn launched_twice(report: &SeedReport) -> bool {
    report.violations.iter().any(|violation| violation.invariant == "S2")
}

#[test]
fn a_cloud_that_launches_twice_is_caught() {
    let reports = run(PLANTED, true, launched_twice);
    let caught = reports.iter().find(|report| launched_twice(report));
    println!("{}", caught.expect("a seed shows it"));
}

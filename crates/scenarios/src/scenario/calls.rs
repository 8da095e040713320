//! The number of AWS calls of the whole operator: controllers and provider steps over an in-memory region.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetwright_aws::testing::FakeAws;

use super::{Scenario, expand, play};
use fleetwright_sim::simulator::{Simulator, virtual_runtime};

/// The number of claims created at once; twice as many instances are then observed. Apart from the number of fleets, the measured calls
/// do not depend on it; a simulation of a thousand instances takes minutes.
const BURST: u32 = 8;
/// The maximum number of claims per fleet.
const FLEET: u32 = 100;
/// Longer than unused launch templates are kept and their collector's interval.
const CLEARED: Duration = Duration::from_secs(60 * 60);
/// How long the stable cluster is observed: the class is validated again within it.
const WATCHED: Duration = Duration::from_secs(42 * 60);

const SCENARIO: &str = "
about: Instances of one shape, one for each pod.
aws: {queue: true, zonalShift: true}
pools: [{name: default, capacity: [on-demand], types: [m5.large], consolidateAfter: Never}]
pods: [{name: web, count: 0, cpu: 1500m}]
steps: []
";

/// Mutating calls of AWS.
const CHANGES: [&str; 10] = [
    "CreateFleet",
    "TerminateInstances",
    "CreateTags",
    "CreateLaunchTemplate",
    "DeleteLaunchTemplate",
    "DeleteMessageBatch",
    "CreateInstanceProfile",
    "AddRoleToInstanceProfile",
    "RemoveRoleFromInstanceProfile",
    "DeleteInstanceProfile",
];

fn counts(aws: &FakeAws) -> BTreeMap<&'static str, u64> {
    let looks = ["full list", "DescribeInstances"];
    CHANGES.into_iter().chain(looks).map(|call| (call, aws.count(call))).collect()
}

async fn begin(scenario: &Scenario) -> (Simulator, Arc<FakeAws>) {
    let (config, region) = play::config(scenario).unwrap();
    let (zones, aws) = (config.cloud.zones(), region.unwrap().aws);
    let simulator = Simulator::new(config).await.unwrap();
    simulator.apply_object(expand::class(scenario.aws.as_ref())).unwrap();
    for pool in &scenario.pools {
        simulator.apply_object(expand::pool(pool, &zones, true)).unwrap();
    }
    (simulator, aws)
}

/// Runs until this many nodes are ready.
async fn grow(simulator: &Simulator, scenario: &Scenario, count: u32) {
    let mut pods = scenario.pods[0].clone();
    pods.count = count;
    for object in expand::pods(&pods) {
        simulator.apply_object(object).unwrap();
    }
    for _ in 0..120 {
        simulator.run_for(Duration::from_secs(10)).await;
        if simulator.is_stable() {
            break;
        }
    }
    assert_eq!(simulator.observe().nodes.len(), usize::try_from(count).unwrap());
}

/// A burst of equal claims needs the minimum number of fleets. Stable nodes are listed at most every two minutes, and nothing is changed.
#[test]
fn many_nodes_cost_few_calls() {
    let scenario = Scenario::parse(SCENARIO).unwrap();
    virtual_runtime().unwrap().block_on(async {
        let (simulator, aws) = begin(&scenario).await;
        for count in [BURST, 2 * BURST] {
            let before = aws.count("CreateFleet");
            grow(&simulator, &scenario, count).await;
            let fleets = aws.count("CreateFleet") - before;
            assert!(
                (1..=u64::from(BURST.div_ceil(FLEET))).contains(&fleets),
                "{fleets} fleets for {BURST} claims"
            );
        }
        simulator.run_for(CLEARED).await;
        let before = counts(&aws);
        simulator.run_for(WATCHED).await;
        let after = counts(&aws);
        let made = |call: &str| after[call] - before[call];
        let changes: Vec<&str> = CHANGES.into_iter().filter(|call| made(call) > 0).collect();
        assert!(changes.is_empty(), "a stable cluster causes no mutating calls: {changes:?}");
        let lists = made("full list");
        assert!((1..=WATCHED.as_secs() / 120).contains(&lists), "{lists} full lists");
        // Drift describes instances too, all of an EC2NodeClass at once.
        let looks = made("DescribeInstances");
        assert!(looks <= lists + WATCHED.as_secs() / 60, "{looks} calls of DescribeInstances");
    });
}

//! How few calls the whole operator makes at AWS: controllers and the provider's loops over a region in memory.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetwright_aws::testing::FakeAws;

use super::{Scenario, expand, play};
use fleetwright_sim::world::{World, virtual_runtime};

/// How many claims come at once; twice as many instances are then watched. What is measured does not depend on it, but for the number of
/// fleets; a world of a thousand instances takes minutes.
const BURST: u32 = 15;
/// Claims of one fleet, where there are enough of them.
const FLEET: u32 = 100;
/// Longer than a launch template that nothing uses is kept, and its collector sleeps.
const CLEARED: Duration = Duration::from_secs(60 * 60);
/// How long the steady cluster is watched: the class is tried again within it.
const WATCHED: Duration = Duration::from_secs(42 * 60);

const SCENARIO: &str = "
about: Instances of one shape, one for each pod.
aws: {queue: true, zonalShift: true}
pools: [{name: default, capacity: [on-demand], types: [m5.large], consolidateAfter: Never}]
pods: [{name: web, count: 0, cpu: 1500m}]
steps: []
";

/// Calls that change something at AWS.
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

async fn begin(scenario: &Scenario) -> (World, Arc<FakeAws>) {
    let (config, region) = play::config(scenario).unwrap();
    let (zones, aws) = (config.zones(), region.unwrap().aws);
    let world = World::new(config).await.unwrap();
    world.apply_object(expand::class(scenario.aws.as_ref())).unwrap();
    for pool in &scenario.pools {
        world.apply_object(expand::pool(pool, &zones, true)).unwrap();
    }
    (world, aws)
}

/// Lets time pass until so many nodes are ready.
async fn grow(world: &World, scenario: &Scenario, count: u32) {
    let mut pods = scenario.pods[0].clone();
    pods.count = count;
    for object in expand::pods(&pods) {
        world.apply_object(object).unwrap();
    }
    for _ in 0..120 {
        world.run_for(Duration::from_secs(10)).await;
        if world.is_settled() {
            break;
        }
    }
    assert_eq!(world.observe().nodes.len(), usize::try_from(count).unwrap());
}

/// A burst of claims of one shape is as few fleets as it can be. Nodes at rest are listed every two minutes at the most, and nothing is
/// changed.
#[test]
fn many_nodes_cost_few_calls() {
    let scenario = Scenario::parse(SCENARIO).unwrap();
    virtual_runtime().unwrap().block_on(async {
        let (world, aws) = begin(&scenario).await;
        for count in [BURST, 2 * BURST] {
            let before = aws.count("CreateFleet");
            grow(&world, &scenario, count).await;
            let fleets = aws.count("CreateFleet") - before;
            assert!(
                (1..=u64::from(BURST.div_ceil(FLEET))).contains(&fleets),
                "{fleets} fleets for {BURST} claims"
            );
        }
        world.run_for(CLEARED).await;
        let before = counts(&aws);
        world.run_for(WATCHED).await;
        let after = counts(&aws);
        let made = |call: &str| after[call] - before[call];
        let changes: Vec<&str> = CHANGES.into_iter().filter(|call| made(call) > 0).collect();
        assert!(changes.is_empty(), "nothing is to be changed: {changes:?}");
        let lists = made("full list");
        assert!((1..=WATCHED.as_secs() / 120).contains(&lists), "{lists} full lists");
        // Drift looks at instances as well, all of a kind at once.
        let looks = made("DescribeInstances");
        assert!(looks <= lists + WATCHED.as_secs() / 60, "{looks} calls of DescribeInstances");
    });
}

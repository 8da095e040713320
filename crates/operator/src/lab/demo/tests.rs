//! What the shipped demo shows: consolidation is worth it.

use super::*;
use crate::cli::{Interface, Invocation, Tool, parse};

/// A run in virtual time, without the comparison.
fn played(seed: u64) -> DemoReport {
    let args =
        ["fleetwright", "demo", "--until-stable", "-o", "json", "--seed", &seed.to_string()].map(Into::into);
    let Invocation::Tool(Tool::Demo(options), _) = parse(args, &Interface::plain()).unwrap() else {
        panic!("not the demo")
    };
    let manifests = manifests(&options.files).unwrap();
    virtual_runtime().unwrap().block_on(play(&options, &manifests, None, None)).unwrap()
}

/// The load ends with the replicas that it began with.
#[test]
fn the_fleet_costs_no_more_after_the_load_than_before_it() {
    check(1);
}

/// What happens in the first minutes of virtual time, which begin at `origin`: nodes for the batch, with spot prices, are among it.
fn story(pace: Pace, origin: Timestamp) -> Vec<String> {
    let args = ["fleetwright", "demo", "--seed", "7"].map(Into::into);
    let Invocation::Tool(Tool::Demo(options), _) = parse(args, &Interface::plain()).unwrap() else {
        panic!("not the demo")
    };
    let manifests = manifests(&options.files).unwrap();
    pace.runtime().unwrap().block_on(async {
        let simulator = Simulator::new(config(&options, origin).unwrap()).await.unwrap();
        let mut session = Session::new(&simulator, load::apply(&simulator, &manifests).unwrap());
        let mut story = Vec::new();
        while session.elapsed < Duration::from_secs(330) {
            let never = std::pin::pin!(std::future::pending());
            pace.run_for(&simulator, session::STEP, never, async || Ok(true)).await.unwrap();
            for news in session.step(&simulator).await.unwrap() {
                story.push(format!("{:?} {news}", session.elapsed));
            }
        }
        story
    })
}

#[test]
fn a_seed_plays_the_same_story_at_any_pace_and_hour() {
    let origin = |seconds| Timestamp::from_second(EPOCH + seconds).unwrap();
    let first = story(Pace::Fastest, origin(0));
    assert!(first.len() > 20, "{first:?}");
    assert_eq!(first, story(Pace::Times(5_000.0), origin(1_000_003)));
}

#[test]
#[ignore = "half an hour; `cargo test --release -p fleetwright-operator fifty -- --ignored --nocapture`"]
fn fifty_seeds() {
    (1..=50).for_each(check);
}

fn check(seed: u64) {
    let cost = serde_json::to_value(played(seed)).unwrap()["cost"].clone();
    let of = |field: &str| cost[field].as_str().unwrap().parse::<f64>().unwrap();
    let (before, peak, after) = (of("beforeHourly"), of("peakHourly"), of("afterHourly"));
    println!("seed {seed}: {before} {peak} {after}");
    assert!(after > 0.0 && after <= before && before < peak, "seed {seed}: {cost}");
}

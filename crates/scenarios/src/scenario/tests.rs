//! The example of the module's documentation, and failing scenarios.

use super::*;
use fleetwright_sim::simulator::virtual_runtime;

fn run(yaml: &str) -> ScenarioReport {
    let scenario = Scenario::parse(yaml).unwrap();
    virtual_runtime().unwrap().block_on(async { play(&scenario).await }).unwrap()
}

#[test]
fn the_example_meets_its_expectations() {
    let report = run("
about: A spread of maxSkew 1 over three zones opens one node per zone, not three in the cheapest.
pools: [{name: default, zones: [a, b, c]}]
pods: [{name: web, count: 3, cpu: 1, spread: zone}]
steps: [until-stable, {expect: {nodes: 3, zones: [a, b, c], running: 3}}]
");
    assert!(report.failures.is_empty(), "{}", report.text);
    assert!(report.text.contains("3 nodes at $"), "{}", report.text);
}

#[test]
fn unmet_expectations_are_reported() {
    let report = run("
about: Nobody provides.
pods: [{name: web, count: 2, cpu: 1}]
steps: [{wait: 2m}, {expect: {running: 2, pending: 2}}]
");
    assert_eq!(report.failures, ["running: expected 2, found 0"]);
}

#[test]
fn unknown_words_are_refused() {
    assert!(Scenario::parse("{about: x, steps: [], pool: []}").is_err());
    assert!(Scenario::parse("{about: x, steps: [dance]}").is_err());
}

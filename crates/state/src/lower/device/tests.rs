//! Conditions in CEL, and objects as they come from the API server.

use std::sync::Arc;

use fleetwright_core::{
    model::{
        Device, DeviceId, LabelSchema, Requirement,
        device::{AllowedAmounts, Attribute, NodeTerm, Nodes},
        resource_claim::{DeviceConstraint, DeviceCount},
    },
    testing::device,
};
use rstest::rstest;

use super::*;

fn yaml<T: serde::de::DeserializeOwned>(text: &str) -> T {
    serde_saphyr::from_str(text).expect("a sound object")
}

fn gpu() -> Arc<Device> {
    let version = Attribute::Version("12.4.1".into());
    device("gpu-0")
        .attribute("model", "A100")
        .attribute("numa.example.com/node", "1")
        .capacity("memory", "40Gi")
        .with(|device| {
            device.attributes.insert("cores".into(), Attribute::Int(108));
            device.attributes.insert("mig".into(), Attribute::Bool(true));
            device.attributes.insert("cuda".into(), version);
        })
        .build()
}

#[rstest]
#[case::driver(r#"device.driver == "gpu.example.com""#, Some(true))]
#[case::other_driver(r#"device.driver == "other""#, Some(false))]
#[case::own_domain(r#"device.attributes["gpu.example.com"].model == "A100""#, Some(true))]
#[case::other_domain(r#"device.attributes["numa.example.com"].node == "1""#, Some(true))]
#[case::number(r#"device.attributes["gpu.example.com"].cores > 100"#, Some(true))]
#[case::bool(r#"device.attributes["gpu.example.com"].mig"#, Some(true))]
#[case::version(r#"device.attributes["gpu.example.com"].cuda.isGreaterThan(semver("12.0.0"))"#, Some(true))]
#[case::quantity(
    r#"device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0"#,
    Some(false)
)]
#[case::enough(r#"device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0"#, Some(true))]
#[case::is_there(r#""model" in device.attributes["gpu.example.com"]"#, Some(true))]
#[case::domain_is_not_there(r#"has(device.attributes["other.example.com"].model)"#, Some(false))]
#[case::guarded(
    r#"has(device.attributes["o.example.com"].x) && device.attributes["o.example.com"].x == 1"#,
    Some(false)
)]
#[case::shared("device.allowMultipleAllocations", Some(false))]
#[case::one_of(r#"["H100", "A100"].exists(m, m == device.attributes["gpu.example.com"].model)"#, Some(true))]
#[case::missing(r#"device.attributes["gpu.example.com"].other == "x""#, None)]
#[case::no_truth("device.driver", None)]
fn conditions_on_a_device(#[case] expression: &str, #[case] expected: Option<bool>) {
    let selector = Selectors::default().compile(expression);
    let predicate = selector.predicate.expect("it compiles");
    assert_eq!(predicate.matches("gpu.example.com", &gpu()).ok(), expected);
}

#[rstest]
#[case::syntax("device.driver ==", "parse")]
#[case::other_variable("node.name == 'x'", "refers to node")]
#[case::long(&format!("device.driver == '{}'", "x".repeat(11_000)), "bytes")]
#[case::nested(&format!("{}true{}", "(".repeat(5_000), ")".repeat(5_000)), "levels")]
#[case::lists(&format!("{}1{}", "[".repeat(49), "]".repeat(49)), "levels")]
#[case::chained(&format!("true{}", "&&true".repeat(1_600)), "operators")]
#[case::ternary(&format!("{}true", "true?true:".repeat(900)), "operators")]
#[case::members(&format!("device{}", ".a".repeat(4_000)), "operators")]
#[case::work(
    "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, true))))",
    "steps"
)]
fn expressions_that_are_refused(#[case] expression: &str, #[case] why: &str) {
    let mut selectors = Selectors::default();
    for _ in 0..2 {
        let refused = selectors.compile(expression).predicate.err().expect("it is refused");
        assert!(refused.contains(why), "{refused}");
    }
}

/// What is let through neither overflows a small stack nor takes long.
#[rstest]
#[case::chained(format!("true{}", "&&true".repeat(250)))]
#[case::sum(format!("1{} > 0", "+1".repeat(39)))]
#[case::negated(format!("{}true", "!".repeat(40)))]
#[case::members(format!("has(device{})", ".a".repeat(40)))]
#[case::ternary(format!("{}true", "true?true:".repeat(40)))]
#[case::nested(format!("{}true{}", "(".repeat(7), ")".repeat(7)))]
fn the_largest_expressions_run(#[case] expression: String) {
    // Tests run on threads with 2 MiB of stack, as the solver's thread does. An overflow ends the process.
    if let Ok(predicate) = Selectors::default().compile(&expression).predicate {
        let _ = predicate.matches("gpu.example.com", &gpu());
    }
}

#[test]
fn equal_expressions_are_compiled_once() {
    let mut selectors = Selectors::default();
    let [a, b] = [(); 2].map(|()| selectors.compile("true").predicate.expect("it compiles"));
    assert!(Arc::ptr_eq(&a, &b));
}

#[test]
fn slices() {
    let slice = slice(
        &yaml(
            "
            metadata: {name: s}
            spec:
              driver: gpu.example.com
              pool: {name: p, generation: 3, resourceSliceCount: 2}
              perDeviceNodeSelection: true
              sharedCounters: [{name: card, counters: {memory: {value: 80Gi}}}]
              devices:
              - name: a
                nodeName: n1
                allowMultipleAllocations: true
                attributes: {model: {string: A100}, numa.example.com/node: {int: 1}}
                capacity: {memory: {value: 40Gi, requestPolicy: {default: 1Gi, validValues: [4Gi, 1Gi]}}}
                consumesCounters: [{counterSet: card, counters: {memory: {value: 40Gi}}}]
                taints: [{key: broken, effect: NoExecute}]
              - name: b
                nodeSelector:
                  nodeSelectorTerms:
                  - matchExpressions: [{key: zone, operator: In, values: [z]}]
                    matchFields: [{key: metadata.name, operator: In, values: [n2]}]
            ",
        ),
        &LabelSchema::default(),
    )
    .expect("a sound slice");
    assert_eq!((slice.generation, slice.slices, &slice.nodes), (3, 2, &Nodes::None));
    assert_eq!(slice.counters.len(), 1);
    let [a, b] = &slice.devices[..] else { panic!("two devices") };
    assert_eq!(a.nodes, Some(Nodes::Named("n1".into())));
    assert!(a.shared && a.taints[0].repels && a.consumes.len() == 1);
    let policy = a.capacity["memory"].policy.as_ref().expect("a policy");
    let Some(AllowedAmounts::Values(values)) = &policy.allowed else { panic!("{policy:?}") };
    assert!(values[0] < values[1], "ascending");
    let term = NodeTerm {
        labels: vec![Requirement::is_in("zone", ["z"])],
        names: vec![Requirement::is_in("metadata.name", ["n2"])],
    };
    assert_eq!(b.nodes, Some(Nodes::Selected(vec![term])));
}

#[test]
fn claims() {
    let claim = claim(
        &yaml(
            "
            metadata: {name: c, namespace: default}
            spec:
              devices:
                constraints: [{matchAttribute: gpu.example.com/numa}, {distinctAttribute: gpu.example.com/x}]
                requests:
                - name: one
                  exactly: {deviceClassName: gpu, count: 2, selectors: [{cel: {expression: 'true'}}]}
                - name: any
                  firstAvailable:
                  - {name: large, deviceClassName: gpu, allocationMode: All}
                  - {name: small, deviceClassName: gpu, capacity: {requests: {memory: 1Gi}}}
            status:
              reservedFor: [{resource: pods, name: p, uid: u}]
              allocation:
                devices:
                  results: [{request: one, driver: gpu.example.com, pool: p, device: a, adminAccess: true}]
            ",
        ),
        &LabelSchema::default(),
        &mut Selectors::default(),
    )
    .expect("a sound claim");
    let [one, any] = &claim.spec.requests[..] else { panic!("two requests") };
    assert_eq!(one.options[0].count, DeviceCount::Exactly(2));
    assert_eq!(any.options[0].count, DeviceCount::All);
    assert_eq!((&*any.options[1].name, any.options[1].capacity.len()), ("small", 1));
    assert!(
        matches!(&claim.spec.constraints[1], DeviceConstraint::Unsupported(f) if &**f == "distinctAttribute")
    );
    let allocation = claim.allocation.expect("an allocation");
    let id = DeviceId { driver: "gpu.example.com".into(), pool: "p".into(), device: "a".into() };
    assert_eq!((&allocation.devices[0].id, allocation.devices[0].admin), (&id, true));
    assert_eq!((allocation.nodes, claim.reserved_for), (Nodes::All, vec!["u".into()]));
}

#[test]
fn a_broken_quantity_is_named() {
    let broken = yaml(
        "{metadata: {name: s}, spec: {driver: d, pool: {name: p, generation: 1, resourceSliceCount: 1}, \
         devices: [{name: a, capacity: {memory: {value: 1Zi}}}]}}",
    );
    let error = slice(&broken, &LabelSchema::default()).expect_err("it is broken").to_string();
    assert!(error.starts_with("spec.devices[a].capacity[memory]: "), "{error}");
}

#[test]
fn a_request_is_for_one_device_unless_it_says_more() {
    assert_eq!(count(None, None), DeviceCount::Exactly(1));
    assert_eq!(count(Some("ExactCount"), Some(0)), DeviceCount::Exactly(1));
    assert_eq!(count(Some("ExactCount"), Some(3)), DeviceCount::Exactly(3));
    assert_eq!(count(Some("All"), None), DeviceCount::All);
}

/// Expressions come from users: a cluster that always has new ones uses no more memory than for those that exist.
#[test]
fn selectors_that_no_request_has_any_more_are_dropped() {
    let mut selectors = Selectors::default();
    let kept = selectors.compile("true");
    for number in 0..2 * MAX_SELECTORS {
        drop(selectors.compile(&format!("{number} == {number}")));
    }
    assert!(selectors.known.len() <= MAX_SELECTORS, "{}", selectors.known.len());
    let (before, again) = (kept.predicate.expect("it compiles"), selectors.compile("true").predicate);
    assert!(Arc::ptr_eq(&before, &again.expect("it compiles")));
}

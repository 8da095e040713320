//! Manifests that no API server would store.
use std::path::Path;

use rstest::rstest;

use super::*;
use crate::input::files;

fn items(text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    files::parse(Path::new("in.yaml"), text, &mut items).unwrap();
    items
}

fn web(spec: &str, template: &str) -> String {
    format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{{spec}, template: {{metadata: {{labels: {{app: web}}}}, spec: {{{template}}}}}}}}}"
    )
}

const SELECTOR: &str = "selector: {matchLabels: {app: web}}";
const CONTAINER: &str = "containers: [{name: c}]";

fn job(policy: &str) -> String {
    format!("{{apiVersion: batch/v1, kind: Job, spec: {{template: {{spec: {{{policy}{CONTAINER}}}}}}}}}")
}

fn pod(containers: &str) -> String {
    format!("{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: [{containers}]}}}}")
}

fn with(resources: &str) -> String {
    pod(&format!("{{name: c, resources: {{{resources}}}}}"))
}

fn of_pod(spec: &str) -> String {
    format!("{{apiVersion: v1, kind: Pod, spec: {{{spec}, {CONTAINER}}}}}")
}

fn node_affinity(expression: &str) -> String {
    of_pod(&format!(
        "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{{matchExpressions: [{expression}]}}]}}}}}}"
    ))
}

#[rstest]
#[case::valid(web(SELECTOR, CONTAINER), None)]
#[case::no_selector(web("replicas: 2", CONTAINER), Some("spec.selector: Required value"))]
#[case::an_empty_selector(
    web("selector: {}", CONTAINER),
    Some("spec.selector: Invalid value: an empty selector")
)]
#[case::another_selector(
    web("selector: {matchLabels: {app: wbe}}", CONTAINER),
    Some("spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match")
)]
#[case::an_expression(
    web("selector: {matchExpressions: [{key: app, operator: In, values: [web]}]}", CONTAINER),
    None
)]
#[case::an_expression_of_another(
    web(
        "selector: {matchLabels: {app: web}, matchExpressions: [{key: app, operator: DoesNotExist}]}",
        CONTAINER
    ),
    Some("spec.template.metadata.labels: Invalid value")
)]
#[case::that_ends(
    web(SELECTOR, &format!("restartPolicy: Never, {CONTAINER}")),
    Some("spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"")
)]
#[case::a_job(job("restartPolicy: Never, "), None)]
#[case::a_job_that_never_ends(
    job(""),
    Some(
        "spec.template.spec.restartPolicy: Unsupported value: \"Always\": supported values: \"OnFailure\", \"Never\""
    )
)]
#[case::no_containers(pod(""), Some("spec.containers: Required value"))]
#[case::one_name_twice(pod("{name: c}, {name: c}"), Some("spec.containers[1].name: Duplicate value: \"c\""))]
#[case::a_request_above_the_limit(
    with("requests: {cpu: 3}, limits: {cpu: 1500m}"),
    Some(
        "spec.containers[0].resources.requests[cpu]: Invalid value: \"3\": must be less than or equal to cpu limit of 1500m"
    )
)]
#[case::a_request_at_the_limit(with("requests: {cpu: 1500m}, limits: {cpu: 1.5}"), None)]
#[case::a_device(with("limits: {nvidia.com/gpu: 1}"), None)]
#[case::half_a_device(
    with("limits: {nvidia.com/gpu: 0.5}"),
    Some("spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: \"0.5\": must be an integer")
)]
#[case::a_device_without_limit(
    with("requests: {nvidia.com/gpu: 1}"),
    Some("spec.containers[0].resources.limits: Required value: Limit must be set")
)]
#[case::fewer_devices_than_the_limit(
    with("requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}"),
    Some(
        "spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: \"1\": must be equal to nvidia.com/gpu limit of 2"
    )
)]
#[case::huge_pages(
    with("limits: {hugepages-2Mi: 2Mi}"),
    Some("spec.containers[0].resources: Forbidden: HugePages")
)]
#[case::huge_pages_with_memory(with("requests: {memory: 1Gi}, limits: {hugepages-2Mi: 2Mi}"), None)]
#[case::no_resource(
    with("requests: {cpus: 1}"),
    Some(
        "spec.containers[0].resources.requests[cpus]: Invalid value: \"cpus\": must be a standard resource for containers: write cpu"
    )
)]
#[case::a_word_as_unit(
    with("requests: {cpu: 1 core}"),
    Some("spec.containers[0].resources.requests[cpu]: Invalid value: \"1 core\": not a quantity: write 1")
)]
#[case::a_limit_of_megabytes(
    with("limits: {memory: 512MB}"),
    Some(
        "spec.containers[0].resources.limits[memory]: Invalid value: \"512MB\": not a quantity: write 512Mi"
    )
)]
#[case::less_than_nothing(
    with("requests: {cpu: -1}"),
    Some(
        "spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"
    )
)]
#[case::of_the_whole_pod(
    "{apiVersion: v1, kind: Pod, spec: {resources: {requests: {memory: 8Gib}}, containers: [{name: c}]}}".to_owned(),
    Some("spec.resources.requests[memory]: Invalid value: \"8Gib\": not a quantity: write 8Gi")
)]
#[case::an_operator_of_no_node_affinity(
    node_affinity("{key: a, operator: Equals, values: [b]}"),
    Some(
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: Invalid value: \"Equals\": not a valid selector operator: write In"
    )
)]
#[case::an_operator_in_small_letters(
    node_affinity("{key: a, operator: in, values: [b]}"),
    Some(
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: Invalid value: \"in\": not a valid selector operator: write In"
    )
)]
#[case::an_operator_of_nodepools(
    node_affinity("{key: a, operator: Gte, values: ['1']}"),
    Some(
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: Invalid value: \"Gte\": not a valid selector operator: write Gt"
    )
)]
#[case::values_that_exist(
    node_affinity("{key: a, operator: Exists, values: [b]}"),
    Some(
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Forbidden: may not"
    )
)]
#[case::no_term(
    "{apiVersion: v1, kind: Pod, spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}, containers: [{name: c}]}}".to_owned(),
    Some("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value")
)]
#[case::another_spread(
    of_pod("topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotScheduled}]"),
    Some(
        "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"DoNotScheduled\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\": write DoNotSchedule"
    )
)]
#[case::an_anti_affinity_without_key(
    of_pod(
        "affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {}}]}}"
    ),
    Some(
        "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey: Required value"
    )
)]
#[case::a_toleration_of_another_effect(
    of_pod("tolerations: [{key: a, operator: Exists, effect: Noschedule}]"),
    Some(
        "spec.tolerations[0].effect: Unsupported value: \"Noschedule\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\": write NoSchedule"
    )
)]
#[case::a_toleration_of_any_value_of_one(
    of_pod("tolerations: [{key: a, operator: Exists, value: b}]"),
    Some("spec.tolerations[0].value: Invalid value: \"b\": value must be empty")
)]
#[case::a_toleration_for_a_time(
    of_pod("tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 60}]"),
    None
)]
#[case::a_range(
    "{apiVersion: v1, kind: LimitRange, spec: {limits: [{type: Container, default: {memory: 512MB}}]}}".to_owned(),
    Some("spec.limits[0].default[memory]: Invalid value: \"512MB\": not a quantity: write 512Mi")
)]
#[case::a_range_upside_down(
    "{apiVersion: v1, kind: LimitRange, spec: {limits: [{type: Container, defaultRequest: {cpu: 2}, max: {cpu: 1}}]}}".to_owned(),
    Some("spec.limits[0].defaultRequest[cpu]: Invalid value: \"2\": defaultRequest value 2 is greater than max value 1")
)]
#[case::a_quota(
    "{apiVersion: v1, kind: ResourceQuota, spec: {hard: {requests.memory: 10 GB}}}".to_owned(),
    Some("spec.hard[requests.memory]: Invalid value: \"10 GB\": not a quantity: write 10Gi")
)]
#[case::a_claim(
    "{apiVersion: v1, kind: PersistentVolumeClaim, spec: {resources: {requests: {storage: 100GB}}}}".to_owned(),
    Some("spec.resources.requests[storage]: Invalid value: \"100GB\": not a quantity: write 100Gi")
)]
#[case::a_number_in_quotes(
    "{apiVersion: policy/v1, kind: PodDisruptionBudget, spec: {minAvailable: '1'}}".to_owned(),
    Some("spec.minAvailable: Invalid value: \"1\": a valid percent string")
)]
#[case::both(
    "{apiVersion: policy/v1, kind: PodDisruptionBudget, spec: {minAvailable: 1, maxUnavailable: 1}}".to_owned(),
    Some("spec: Invalid value: minAvailable and maxUnavailable")
)]
fn what_is_refused(#[case] text: String, #[case] expected: Option<&str>) {
    let value = &items(&text)[0].value;
    let found = invalid(value).into_iter().chain(invalid_names(value));
    let found: Vec<String> = found.map(|invalid| invalid.to_string()).collect();
    assert_eq!(found.len(), usize::from(expected.is_some()), "{found:?}");
    assert!(found.iter().zip(expected).all(|(found, expected)| found.starts_with(expected)), "{found:?}");
}

#[test]
fn fields_that_a_type_does_not_have() {
    let pod = "spec: {toleration: [], tolerations: [{key: a, opertor: Exists}], nodeSelector: {opertor: a}, containers: [{name: c, resource: {}}]}";
    let text = format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{replica: 3, {SELECTOR}, template: {{{pod}}}}}}}\n---\n{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: other}}, spec: {{replica: 3, {SELECTOR}, template: {{}}}}}}\n---\n{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: stored, uid: u}}, spec: {{replica: 3}}}}"
    );
    assert_eq!(
        ignored_fields(&items(&text)),
        [
            "in.yaml:1: Deployment has an unknown field spec.replica, which is ignored, in 2 objects: did you mean \"replicas\"?",
            "in.yaml:1: Deployment has an unknown field spec.template.spec.containers[0].resource, which is ignored: did you mean \"resources\"?",
            "in.yaml:1: Deployment has an unknown field spec.template.spec.toleration, which is ignored: did you mean \"tolerations\"?",
            "in.yaml:1: Deployment has an unknown field spec.template.spec.tolerations[0].opertor, which is ignored: did you mean \"operator\"?",
        ]
    );
}

#[test]
fn parts_of_bytes_are_noted_once() {
    let pod = |name: &str, memory: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: c, resources: {{requests: {{cpu: 500m, memory: {memory}}}}}}}]}}}}"
        )
    };
    let text = [pod("a", "512m"), pod("b", "512m"), pod("c", "1500m"), pod("d", "512Mi")].join("\n---\n");
    assert_eq!(
        rounded_up(&items(&text)),
        [
            "in.yaml:1: Pod: spec.containers[0].resources.requests.memory: memory: 512m is 1 byte, rounded up: m is a thousandth: write 512Mi or 512M (in 2 objects)",
            "in.yaml:5: Pod: spec.containers[0].resources.requests.memory: memory: 1500m is 2 bytes, rounded up: m is a thousandth: write 1500Mi or 1500M",
        ]
    );
}

#[test]
fn a_value_of_another_type_is_named() {
    let text = "{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {a: true}}, spec: {containers: []}}";
    let reading = read(&items(text)[0].value).unwrap();
    let [(path, why)] = reading.errors.as_slice() else { panic!("{:?}", reading.errors) };
    assert_eq!(path, "metadata.labels.a");
    assert!(why.contains("expected a string"), "{why}");
}

#[test]
fn values_of_another_type_hide_nothing_behind_them() {
    let text = "{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {a: true, b.c/d: 1}}, spec: {hostNetwork: 'yes', priority: high, tolerations: [{key: 1}, {opertor: Exists}, 5], containers: [{name: c, resource: {}}, {name: 7}], toleration: []}}";
    let reading = read(&items(text)[0].value).unwrap();
    let errors: Vec<&str> = reading.errors.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(
        errors,
        [
            "metadata.labels.a",
            "metadata.labels[b.c/d]",
            "spec.containers[1].name",
            "spec.hostNetwork",
            "spec.priority",
            "spec.tolerations[0].key",
            "spec.tolerations[2]",
        ]
    );
    let unknown: Vec<&str> = reading.unknown.iter().map(|field| field.path.as_str()).collect();
    assert_eq!(unknown, ["spec.containers[0].resource", "spec.toleration", "spec.tolerations[1].opertor"]);
}

//! The generated definitions as an API server applies them: committed file, defaults, constraints and CEL rules.

use std::path::Path;
use std::sync::Arc;

use fleetwright_aws_api::crd::{crds, node_class};
use fleetwright_fake_kube::{Config, Server};
use serde_json::{Value, json};

/// One edit of an otherwise valid object, and what must be in the answer; an empty answer means that it is accepted.
type Row = (&'static str, Value, &'static str);

/// An API server that knows the definitions.
fn server() -> Server {
    let server = Server::new(Config::new(Arc::new(|| jiff::Timestamp::UNIX_EPOCH), 7));
    for definition in crds() {
        let mut value = serde_json::to_value(&definition).expect("definitions are JSON");
        value["apiVersion"] = json!("apiextensions.k8s.io/v1");
        value["kind"] = json!("CustomResourceDefinition");
        server.apply(value).expect("a valid definition");
    }
    server
}

/// Applies each row to the base by itself and compares the answer.
fn check(base: &Value, rows: &[Row]) {
    let server = server();
    server.apply(named(base, 0)).expect("the base is valid");
    for (number, (at, value, refusal)) in rows.iter().enumerate() {
        let mut object = named(base, number + 1);
        put(&mut object, at, value.clone());
        match server.apply(object) {
            Ok(_) => assert!(refusal.is_empty(), "{at} = {value} must be refused: {refusal}"),
            Err(error) => {
                let error = error.to_string();
                assert!(!refusal.is_empty(), "{at} = {value} must be accepted: {error}");
                assert!(error.contains(refusal), "{at} = {value} is refused for another reason: {error}");
            }
        }
    }
}

fn named(base: &Value, number: usize) -> Value {
    let mut object = base.clone();
    object["metadata"]["name"] = json!(format!("row-{number}"));
    object
}

/// Sets the value at a JSON pointer; null takes it away.
fn put(object: &mut Value, at: &str, value: Value) {
    let (parent, key) = at.rsplit_once('/').expect("a JSON pointer");
    let parent = object.pointer_mut(parent).expect("a parent").as_object_mut().expect("an object");
    if value.is_null() {
        parent.remove(key);
    } else {
        parent.insert(key.to_owned(), value);
    }
}

fn class() -> Value {
    json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {},
        "spec": {
            "role": "node",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"team": "*"}}],
            "securityGroupSelectorTerms": [{"name": "nodes"}],
        },
    })
}

/// The files under `deploy/crds` say what the types say.
#[test]
fn the_committed_files_are_current() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let drifts = fleetwright_api::crd::generate(&crds(), &dir, true).unwrap();
    assert!(drifts.is_empty(), "run `cargo xtask generate`: {drifts:?}");
}

#[test]
fn names_columns_and_subresources() {
    let definition = node_class();
    let names = &definition.spec.names;
    assert_eq!(definition.metadata.name.as_deref(), Some("ec2nodeclasses.karpenter.k8s.aws"));
    assert_eq!((definition.spec.scope.as_str(), names.kind.as_str()), ("Cluster", "EC2NodeClass"));
    assert_eq!(names.short_names.as_deref(), Some(["ec2nc".to_owned(), "ec2ncs".to_owned()].as_slice()));
    assert_eq!(names.categories.as_deref(), Some(["karpenter".to_owned()].as_slice()));
    let version = &definition.spec.versions[0];
    assert!(
        version.name == "v1" && version.storage && version.subresources.as_ref().unwrap().status.is_some()
    );
    let columns: Vec<String> = version
        .additional_printer_columns
        .iter()
        .flatten()
        .map(|column| format!("{} {} {} {:?}", column.name, column.type_, column.json_path, column.priority))
        .collect();
    assert_eq!(
        columns,
        [
            "Ready string .status.conditions[?(@.type==\"Ready\")].status None",
            "Age date .metadata.creationTimestamp None",
            "Role string .spec.role Some(1)",
        ]
    );
}

#[test]
fn defaults() {
    let server = server();
    let stored = server.apply(named(&class(), 0)).unwrap();
    let full = json!({
        "httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1,
        "httpTokens": "required",
    });
    assert_eq!(stored["spec"]["metadataOptions"], full);
    let mut partial = named(&class(), 1);
    partial["spec"]["metadataOptions"] = json!({"httpPutResponseHopLimit": 2});
    let stored = server.apply(partial).unwrap();
    assert_eq!(stored["spec"]["metadataOptions"]["httpPutResponseHopLimit"], 2);
    assert_eq!(stored["spec"]["metadataOptions"]["httpTokens"], "required");
}

#[test]
fn identity_and_tags() {
    let neither = "must specify exactly one of ['role', 'instanceProfile']";
    let rows: Vec<Row> = vec![
        ("/spec/role", Value::Null, neither),
        ("/spec/role", json!(""), "role cannot be empty"),
        ("/spec/instanceProfile", json!("profile"), neither),
        ("/spec/tags", json!({"team": "a", "empty": ""}), ""),
        ("/spec/tags", json!({"": "a"}), "empty tag keys aren't supported"),
        ("/spec/tags", json!({"eks:eks-cluster-name": "a"}), "matching eks:eks-cluster-name"),
        ("/spec/tags", json!({"kubernetes.io/cluster/x": "owned"}), "matching kubernetes.io/cluster/"),
        ("/spec/tags", json!({"karpenter.sh/nodepool": "a"}), "matching karpenter.sh/nodepool"),
        ("/spec/tags", json!({"karpenter.sh/nodeclaim": "a"}), "matching karpenter.sh/nodeclaim"),
        (
            "/spec/tags",
            json!({"karpenter.k8s.aws/ec2nodeclass": "a"}),
            "matching karpenter.k8s.aws/ec2nodeclass",
        ),
        ("/spec/kubelet", json!({"maxPods": "vcpus * 2", "anything": {"goes": [1]}}), ""),
        ("/spec/kubelet", json!([]), "must be of type object"),
        ("/spec/unknown", json!(1), ""),
    ];
    check(&class(), &rows);
    let mut profile = class();
    put(&mut profile, "/spec/role", Value::Null);
    put(&mut profile, "/spec/instanceProfile", json!("profile"));
    check(&profile, &[("/spec/instanceProfile", json!(""), "instanceProfile cannot be empty")]);
}

#[test]
fn subnets_and_security_groups() {
    let tags: serde_json::Map<String, Value> = (0..21).map(|n| (format!("k{n}"), json!("v"))).collect();
    let subnets = "/spec/subnetSelectorTerms";
    let groups = "/spec/securityGroupSelectorTerms";
    let rows: Vec<Row> = vec![
        (subnets, Value::Null, "Required value"),
        (subnets, json!([]), "subnetSelectorTerms cannot be empty"),
        (subnets, json!([{}]), "expected at least one, got none, ['tags', 'id']"),
        (subnets, json!([{"id": "subnet-1", "tags": {"a": "b"}}]), "'id' is mutually exclusive"),
        (subnets, json!([{"id": "net-1"}]), "subnet-[0-9a-z]+"),
        (subnets, json!([{"id": "subnet-0a"}]), ""),
        (subnets, json!(vec![json!({"id": "subnet-1"}); 31]), "must have at most 30 items"),
        (subnets, json!([{"tags": {"a": ""}}]), "empty tag keys or values aren't supported"),
        (subnets, json!([{"tags": {"": "b"}}]), "empty tag keys or values aren't supported"),
        (subnets, json!([{"tags": tags}]), "Too many"),
        (groups, Value::Null, "Required value"),
        (groups, json!([]), "securityGroupSelectorTerms cannot be empty"),
        (groups, json!([{}]), "expected at least one, got none, ['tags', 'id', 'name']"),
        (groups, json!([{"id": "sg-1", "name": "x"}]), "'id' is mutually exclusive"),
        (groups, json!([{"name": "x", "tags": {"a": "b"}}]), "'name' is mutually exclusive"),
        (groups, json!([{"id": "group"}]), "sg-[0-9a-z]+"),
        (groups, json!(vec![json!({"name": "x"}); 31]), "must have at most 30 items"),
        (groups, json!([{"tags": {"a": ""}}]), "empty tag keys or values aren't supported"),
    ];
    check(&class(), &rows);
}

#[test]
fn images() {
    let terms = "/spec/amiSelectorTerms";
    let family = "must specify amiFamily if amiSelectorTerms does not contain an alias";
    let rows: Vec<Row> = vec![
        (terms, Value::Null, "Required value"),
        (terms, json!([]), "should have at least 1 items"),
        (terms, json!([{"alias": "al2023"}]), "improperly formatted"),
        (terms, json!([{"alias": "al2023@"}]), "improperly formatted"),
        (terms, json!([{"alias": "ubuntu@latest"}]), "family is not supported"),
        (terms, json!([{"alias": "windows2022@v1"}]), "windows families may only specify version 'latest'"),
        (terms, json!([{"alias": "al2023@v20240807000000000000000"}]), "Too long"),
        (
            terms,
            json!([{"alias": "al2023@latest", "name": "x"}]),
            "'alias' is mutually exclusive, cannot be set with a combination of other fields",
        ),
        (
            terms,
            json!([{"alias": "al2023@latest"}, {"id": "ami-1"}]),
            "'alias' is mutually exclusive, cannot be set with a combination of other amiSelectorTerms",
        ),
        (terms, json!([{"id": "ami-1"}]), family),
        (terms, json!([{"owner": "self"}]), "expected at least one, got none"),
        ("/spec/amiFamily", json!("AL2023"), ""),
        ("/spec/amiFamily", json!("Custom"), ""),
        (
            "/spec/amiFamily",
            json!("AL2"),
            "amiFamily must be 'AL2023' or 'Custom' when using an AL2023 alias",
        ),
        ("/spec/amiFamily", json!("Ubuntu"), "Unsupported value"),
    ];
    check(&class(), &rows);
    let aliases = [
        ("al2", "AL2", "an"),
        ("bottlerocket", "Bottlerocket", "a"),
        ("windows2019", "Windows2019", "a"),
        ("windows2022", "Windows2022", "a"),
        ("windows2025", "Windows2025", "a"),
    ];
    for (alias, name, article) in aliases {
        let mut base = class();
        base["spec"]["amiSelectorTerms"] = json!([{"alias": format!("{alias}@latest")}]);
        let message: &'static str =
            format!("if set, amiFamily must be '{name}' or 'Custom' when using {article} {name} alias")
                .leak();
        let rows: Vec<Row> = vec![
            ("/spec/amiFamily", json!(name), ""),
            ("/spec/amiFamily", json!("Custom"), ""),
            ("/spec/amiFamily", json!("AL2023"), message),
        ];
        check(&base, &rows);
    }
    let mut by_id = class();
    by_id["spec"]["amiFamily"] = json!("Custom");
    by_id["spec"]["amiSelectorTerms"] = json!([{"id": "ami-1"}]);
    let rows: Vec<Row> = vec![
        (terms, json!([{"id": "image-1"}]), "ami-[0-9a-z]+"),
        (terms, json!([{"id": "ami-1", "owner": "self"}]), "'id' is mutually exclusive"),
        (terms, json!([{"name": "x*", "owner": "self", "tags": {"a": "*"}}, {"ssmParameter": "/p"}]), ""),
        (terms, json!(vec![json!({"id": "ami-1"}); 31]), "must have at most 30 items"),
        (terms, json!([{"tags": {"a": ""}}]), "empty tag keys or values aren't supported"),
    ];
    check(&by_id, &rows);
}

#[test]
fn volumes() {
    let at = "/spec/blockDeviceMappings";
    let ebs = |ebs: Value| json!([{"deviceName": "/dev/xvda", "ebs": ebs}]);
    let size = |size: &str| ebs(json!({"volumeSize": size}));
    let mut rows: Vec<Row> = vec![
        (at, json!([{"rootVolume": true}, {"rootVolume": false}]), ""),
        (
            at,
            json!([{"rootVolume": true}, {"rootVolume": true}]),
            "must have only one blockDeviceMappings with rootVolume",
        ),
        (at, json!(vec![json!({}); 51]), "must have at most 50 items"),
        (at, ebs(json!({})), "snapshotID or volumeSize must be defined"),
        (at, ebs(json!({"snapshotID": "s"})), ""),
        (at, ebs(json!({"volumeSize": "1Gi", "volumeInitializationRate": 100})), "snapshotID must be set"),
        (at, ebs(json!({"snapshotID": "s", "volumeInitializationRate": 300})), ""),
        (at, ebs(json!({"snapshotID": "s", "volumeInitializationRate": 99})), "greater than or equal to 100"),
        (at, ebs(json!({"snapshotID": "s", "volumeInitializationRate": 301})), "less than or equal to 300"),
        (at, ebs(json!({"snapshotID": "s", "volumeType": "gp4"})), "Unsupported value"),
    ];
    for volume_type in ["standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"] {
        rows.push((at, ebs(json!({"snapshotID": "s", "volumeType": volume_type})), ""));
    }
    for good in ["1Gi", "59000Gi", "64000G", "58Ti", "64T", "100Gi"] {
        rows.push((at, size(good), ""));
    }
    for bad in ["59001Gi", "64001G", "59Ti", "65T", "1", "1Mi", "0Gi"] {
        rows.push((at, size(bad), "should match"));
    }
    rows.push(("/spec/instanceStorePolicy", json!("RAID0"), ""));
    rows.push(("/spec/instanceStorePolicy", json!("RAID1"), "Unsupported value"));
    check(&class(), &rows);
}

#[test]
fn network_and_instance_options() {
    let at = "/spec/networkInterfaces";
    let interface = |card: i64, device: i64, kind: &str| json!({"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind});
    let primary = interface(0, 0, "interface");
    let tracking = "/spec/connectionTracking";
    let metadata = "/spec/metadataOptions";
    let group = "/spec/placementGroupSelector";
    let rows: Vec<Row> = vec![
        (at, json!([]), ""),
        (at, json!([primary, interface(0, 1, "efa-only"), interface(1, 1, "efa-only")]), ""),
        (at, json!([interface(0, 1, "interface")]), "must include a primary interface"),
        (at, json!([interface(0, 0, "efa-only")]), "must include a primary interface"),
        (at, json!([primary, primary]), "must not have duplicate"),
        (
            at,
            json!([primary, interface(0, 1, "efa-only"), interface(0, 2, "efa-only")]),
            "at most one efa device",
        ),
        (at, json!([interface(0, 0, "efa")]), "Unsupported value"),
        (at, json!([primary, interface(-1, 0, "interface")]), "greater than or equal to 0"),
        (at, json!([{"deviceIndex": 0, "interfaceType": "interface"}]), "Required value"),
        (tracking, json!({}), "at least one of tcpEstablishedTimeout"),
        (tracking, json!({"tcpEstablishedTimeout": 432_000, "udpStreamTimeout": 180, "udpTimeout": 60}), ""),
        (tracking, json!({"tcpEstablishedTimeout": 59}), "greater than or equal to 60"),
        (tracking, json!({"tcpEstablishedTimeout": 432_001}), "less than or equal to 432000"),
        (tracking, json!({"udpStreamTimeout": 181}), "less than or equal to 180"),
        (tracking, json!({"udpStreamTimeout": 59}), "greater than or equal to 60"),
        (tracking, json!({"udpTimeout": 29}), "greater than or equal to 30"),
        (tracking, json!({"udpTimeout": 61}), "less than or equal to 60"),
        (metadata, json!({"httpEndpoint": "on"}), "Unsupported value"),
        (metadata, json!({"httpProtocolIPv6": "on"}), "Unsupported value"),
        (metadata, json!({"httpTokens": "maybe"}), "Unsupported value"),
        (metadata, json!({"httpPutResponseHopLimit": 64}), ""),
        (metadata, json!({"httpPutResponseHopLimit": 65}), "less than or equal to 64"),
        (metadata, json!({"httpPutResponseHopLimit": 0}), "greater than or equal to 1"),
        ("/spec/cpuOptions", json!({"nestedVirtualization": "enabled"}), ""),
        ("/spec/cpuOptions", json!({"nestedVirtualization": "yes"}), "Unsupported value"),
        ("/spec/enclaveOptions", json!({"enabled": true}), ""),
        ("/spec/enclaveOptions", json!({}), "Required value"),
        ("/spec/ipPrefixCount", json!(0), ""),
        ("/spec/ipPrefixCount", json!(-1), "greater than or equal to 0"),
        (group, json!({}), "expected at least one, got none, ['name', 'id']"),
        (group, json!({"name": "a", "id": "pg-1"}), "mutually exclusive"),
        (group, json!({"name": ""}), "at least 1 chars"),
        (group, json!({"id": "group"}), "^pg-[0-9a-z]+$"),
        (group, json!({"id": "pg-1"}), ""),
    ];
    check(&class(), &rows);
}

#[test]
fn capacity_reservations() {
    let at = "/spec/capacityReservationSelectorTerms";
    let rows: Vec<Row> = vec![
        (at, json!([]), "'id' is mutually exclusive"), // As in Karpenter: all terms of an empty list break the rule.
        (
            at,
            json!([{"id": "cr-1"}, {"tags": {"a": "*"}, "ownerID": "123456789012"}, {"instanceMatchCriteria": "open"}]),
            "",
        ),
        (at, json!([{"ownerID": "123456789012"}]), "expected at least one, got none"),
        (at, json!([{"id": "cr-1", "ownerID": "123456789012"}]), "'id' is mutually exclusive"),
        (at, json!([{"id": "cr-1", "instanceMatchCriteria": "open"}]), "'id' is mutually exclusive"),
        (at, json!([{"id": "reservation"}]), "^cr-[0-9a-z]+$"),
        (at, json!([{"instanceMatchCriteria": "any"}]), "Unsupported value"),
        (at, json!([{"tags": {"a": "b"}, "ownerID": "1"}]), "^[0-9]{12}$"),
        (at, json!(vec![json!({"id": "cr-1"}); 31]), "must have at most 30 items"),
    ];
    check(&class(), &rows);
}

/// The domain of the provider's labels is closed but for those that mean something.
#[test]
fn labels_of_the_provider() {
    let restricted = "label domain \"karpenter.k8s.aws\" is restricted";
    let reference = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    let key = |key: &str| json!([{"key": key, "operator": "Exists"}]);
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {},
        "spec": {"template": {"metadata": {}, "spec": {"nodeClassRef": reference, "requirements": []}}},
    });
    let requirements = "/spec/template/spec/requirements";
    let labels = "/spec/template/metadata/labels";
    check(
        &pool,
        &[
            (requirements, key("karpenter.k8s.aws/instance-family"), ""),
            (requirements, key("karpenter.k8s.aws/instance-tenancy"), ""),
            (requirements, key("karpenter.k8s.aws/ec2nodeclass"), ""),
            (requirements, key("karpenter.k8s.aws/instance-colour"), restricted),
            (requirements, key("sub.karpenter.k8s.aws/any"), restricted),
            (requirements, key("topology.k8s.aws/zone-id"), ""),
            (labels, json!({"karpenter.k8s.aws/instance-family": "m5"}), ""),
            (labels, json!({"karpenter.k8s.aws/any": "m5"}), restricted),
        ],
    );
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {},
        "spec": {"nodeClassRef": reference, "requirements": []},
    });
    check(
        &claim,
        &[
            ("/spec/requirements", key("karpenter.k8s.aws/placement-group-id"), ""),
            ("/spec/requirements", key("karpenter.k8s.aws/any"), restricted),
        ],
    );
    let overlay = json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {}, "spec": {"requirements": []},
    });
    check(
        &overlay,
        &[
            ("/spec/requirements", key("karpenter.k8s.aws/instance-family"), ""),
            ("/spec/requirements", key("karpenter.k8s.aws/capacity-reservation-id"), restricted),
            ("/spec/requirements", key("karpenter.k8s.aws/instance-tenancy"), restricted),
        ],
    );
}

/// What an object says survives being read and written by the types.
#[test]
fn objects_survive_the_types() {
    let spec = json!({
        "amiFamily": "AL2023", "amiSelectorTerms": [{"name": "a", "owner": "self", "tags": {"a": "b"}}, {"ssmParameter": "/p"}],
        "associatePublicIPAddress": true, "context": "c", "cpuOptions": {"nestedVirtualization": "enabled"},
        "blockDeviceMappings": [{"deviceName": "d", "rootVolume": true, "ebs": {
            "deleteOnTermination": true, "encrypted": true, "iops": 1, "kmsKeyID": "k", "snapshotID": "s",
            "throughput": 2, "volumeInitializationRate": 100, "volumeSize": "1Gi", "volumeType": "gp3",
        }}],
        "capacityReservationSelectorTerms": [{"id": "cr-1"}, {"ownerID": "123456789012", "tags": {"a": "b"}}, {"instanceMatchCriteria": "open"}],
        "connectionTracking": {"tcpEstablishedTimeout": 60}, "detailedMonitoring": true,
        "enclaveOptions": {"enabled": false}, "instanceProfile": "p", "instanceStorePolicy": "RAID0", "ipPrefixCount": 1,
        "kubelet": {"maxPods": 10, "featureGates": {"A": true}},
        "metadataOptions": {"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1, "httpTokens": "required"},
        "networkInterfaces": [{"deviceIndex": 0, "interfaceType": "interface", "networkCardIndex": 0}],
        "placementGroupSelector": {"name": "g"}, "securityGroupSelectorTerms": [{"id": "sg-1"}],
        "subnetSelectorTerms": [{"id": "subnet-1"}], "tags": {}, "userData": "u",
    });
    let status = json!({
        "amis": [{"deprecated": true, "id": "ami-1", "name": "n", "requirements": [{"key": "k", "operator": "In", "values": ["v"]}]}],
        "capacityReservations": [{
            "availabilityZone": "z", "endTime": "2026-01-01T00:00:00Z", "id": "cr-1", "instanceMatchCriteria": "open",
            "instanceType": "m5.large", "interruptible": false, "ownerID": "123456789012",
            "reservationType": "default", "state": "active",
        }],
        "conditions": [{"lastTransitionTime": "2026-01-01T00:00:00Z", "message": "", "reason": "Ready", "status": "True", "type": "Ready"}],
        "instanceProfile": "p", "securityGroups": [{"id": "sg-1", "name": "n"}],
        "subnets": [{"id": "subnet-1", "zone": "z", "zoneID": "i"}],
    });
    let object = json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "full"}, "spec": spec, "status": status});
    let read: fleetwright_aws_api::Ec2NodeClass = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), object);
    let stored = server().apply(object.clone()).unwrap();
    assert_eq!((&stored["spec"], &stored["status"]), (&object["spec"], &object["status"]));
}

//! Scenarios: `tests/scenarios/compat/*.yaml` is the dump of a cluster, the file beside it with `.txt` the report.
//!
//! A first line `# compat: --flag …` adds to the command line, in which `{crds}` stands for the definitions of this release. All decide at
//! noon of the first day of 2026.

use std::{ffi::OsString, path::PathBuf};

use fleetwright_api::labels::condition;
use fleetwright_fake_kube::{Config as ServerConfig, Server};
use serde_json::{Value, json};

use super::*;
use crate::{
    Operator,
    cli::{Interface, Invocation, Tool, parse},
    dump,
    ec2::{Ec2Catalogue, Ec2Compat},
    lab::FakeCatalogue,
    scenarios,
};

/// The operator of the binary, without clouds to connect to.
fn operator() -> Operator {
    Operator::new("fleetwright", "0.1.0")
        .catalogue(FakeCatalogue)
        .definitions("aws", fleetwright_aws_api::crds)
        .catalogue(Ec2Catalogue::default())
        .compat(Ec2Compat)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The report on the files and flags of a command line.
fn checked(args: &[&str]) -> anyhow::Result<CompatReport> {
    let words = ["fleetwright", "compat", "--budget=50it", "--at=2026-01-01T12:00:00Z"];
    let args = words.iter().chain(args).map(OsString::from);
    let (options, flags) = match parse(args, &Interface::plain()).unwrap() {
        Invocation::Tool(Tool::Compat(options), flags) => (options, flags),
        other => panic!("{other:?}"),
    };
    let items = input::read_from(&options.input).unwrap();
    let denied = Vec::new();
    check(items, denied, &options, &operator().build(&flags).unwrap(), &flags)
}

fn of_file(path: &Path) -> CompatReport {
    let text = std::fs::read_to_string(path).unwrap();
    let extra = text.lines().next().and_then(|line| line.strip_prefix("# compat:")).unwrap_or_default();
    let crds = root().join("deploy/crds").display().to_string();
    let extra = extra.replace("{crds}", &crds);
    let path = path.display().to_string();
    let args: Vec<&str> = ["-f", &path].into_iter().chain(extra.split_whitespace()).collect();
    checked(&args).unwrap()
}

#[test]
fn scenario_files() {
    scenarios::check("compat", |path| {
        let report = of_file(path);
        let folder = format!("{}/", path.parent().unwrap().display());
        let shown = scenarios::shown(&report.notes, &[], Table(&report)).replace(&folder, "");
        format!("{shown}outcome: {:?}\n", report.outcome())
    });
}

/// `dump --compat` leaves out no definition, permission, webhook, lease or setting that a finding depends on.
#[test]
fn findings_on_a_dump_are_those_on_the_cluster() {
    let mut compared = 0;
    for path in scenarios::paths("compat") {
        // Config maps, unknown arguments and unknown or malformed fields are not part of a dump.
        if path.ends_with("settings-from-objects.yaml") || path.ends_with("contradictory-settings.yaml") {
            continue;
        }
        let findings = |path: &Path| -> Vec<String> {
            let of_areas = |finding: &&Finding| finding.id.as_str() < "C8";
            of_file(path).findings.iter().filter(of_areas).map(|finding| format!("{finding:?}")).collect()
        };
        let text = std::fs::read_to_string(&path).unwrap();
        let first = text.lines().next().unwrap_or_default();
        let items = input::read(std::slice::from_ref(&path)).unwrap();
        let (objects, _) =
            dump::projected(&items, &scenarios::catalogues(), Some(&crate::settings::tests::all()));
        let dumped = dump::written(&objects, Timestamp::UNIX_EPOCH).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("dump.yaml");
        std::fs::write(&file, format!("{first}\n{dumped}")).unwrap();
        assert_eq!(findings(&file), findings(&path), "{}", path.display());
        compared += 1;
    }
    assert!(compared > 5);
}

#[test]
fn the_schema_in_docs_is_that_of_the_report() {
    scenarios::check_schema::<CompatReport>("compat.schema.json");
}

/// Objects of each kind with each value replaced in turn: findings, no panic.
#[test]
fn malformed_objects_are_findings() {
    let items = input::read(&[root().join("tests/scenarios/compat")]).unwrap();
    let mut of_kind: BTreeMap<String, Item> = BTreeMap::new();
    for item in items {
        of_kind.entry(objects::text(&item.value, "/kind").to_owned()).or_insert(item);
    }
    let items: Vec<Item> = of_kind.into_values().collect();
    let operator = operator();
    let build = operator.build(&BTreeMap::new()).unwrap();
    let own = clean::own_conditions(build.clouds);
    let shell = Values::resolve(&BTreeMap::new(), |_| None).unwrap();
    let wrong = [Value::Null, json!(7), json!("x"), json!([{}]), json!({"a": 1})];
    let mut wrong = wrong.iter().cycle();
    for index in 0..items.len() {
        for pointer in pointers(&items[index].value, "") {
            let mut changed = items.clone();
            *changed[index].value.pointer_mut(&pointer).unwrap() = wrong.next().unwrap().clone();
            let now = "2026-01-01T12:00:00Z".parse().unwrap();
            let cluster = ClusterObjects::new(&changed, Vec::new(), true, now);
            let running = deployment::running(&cluster);
            let configured =
                running.first().map(|running| Configuration::of(running, &cluster)).unwrap_or_default();
            let values = configured.values(&[], &BTreeMap::new(), &shell).unwrap();
            let clouds = Clouds::new(&build, &cluster);
            let mut found = facts(&cluster, &running, &clouds, &build, (&values, &BTreeMap::new()));
            found.extend(clouds.findings(&build, &cluster, &values));
            for object in &changed {
                clean::leftover(&object.value, &own, true);
            }
            assert!(!found.is_empty());
        }
    }
}

#[test]
fn another_hash_of_the_same_version_is_a_blocker() {
    let pool = |hash: &str, version: &str| {
        json!({"kind": "NodePool", "metadata": {"name": "p", "annotations": {
            "karpenter.sh/nodepool-hash": hash, "karpenter.sh/nodepool-hash-version": version,
        }}})
    };
    let drift = DriftHash {
        hash: "karpenter.sh/nodepool-hash",
        version: "karpenter.sh/nodepool-hash-version",
        current: "v3",
    };
    for (version, ours, claim, expected) in [
        ("v3", Some("1"), "1", &[][..]),
        ("v3", Some("2"), "1", &[("C902", Severity::Blocker)]),
        // Already drifted with Karpenter.
        ("v3", Some("2"), "0", &[]),
        ("v3", None, "1", &[]),
        ("v2", None, "1", &[("C903", Severity::Note)]),
        ("v2", Some("1"), "1", &[("C903", Severity::Note)]),
        ("v2", None, "0", &[("C903", Severity::Warning)]),
        // Changed since Karpenter wrote the hash.
        ("v2", Some("2"), "1", &[("C903", Severity::Note), ("C902", Severity::Blocker)]),
    ] {
        let claim = pool(claim, version);
        let ours_of = |of: &str| ours.filter(|_| of == version).map(str::to_owned);
        let found = drift.check(&pool("1", version), ours_of, &[&claim]);
        let found: Vec<_> = found.iter().map(|finding| (&*finding.id, finding.severity)).collect();
        assert_eq!(found, expected, "{version} {ours:?}");
    }
}

/// Pointers to some of the values of an object: all of a small one.
fn pointers(value: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    let key = |key: &str| format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (key(name), value)).collect(),
        Value::Array(members) => members.iter().take(1).map(|value| (format!("{at}/0"), value)).collect(),
        _ => Vec::new(),
    };
    for (at, value) in inner {
        found.push(at.clone());
        found.extend(pointers(value, &at));
    }
    found
}

#[test]
fn a_cluster_of_another_cloud_needs_no_code_of_compat() {
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("pool.json");
    let text = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [],
        }}},
    });
    std::fs::write(&pool, text.to_string()).unwrap();
    let report = checked(&["-f", &pool.display().to_string()]).unwrap();
    let ids: Vec<&str> = report.findings.iter().map(|finding| &*finding.id).collect();
    // Of the clouds of this operator only AWS has definitions.
    assert_eq!(ids, ["C100", "C204", "C500"], "{:?}", report.findings);
    let error = checked(&["-f", &pool.display().to_string(), "--iam-policy", "/dev/null"]).unwrap_err();
    assert!(error.to_string().contains("--iam-policy"), "{error:#}");
}

#[test]
fn clean_lists_every_condition_and_keeps_user_annotations() {
    let own = clean::own_conditions(operator().compats());
    assert_eq!(own.len(), condition::OWN.len() + 2);
    let object = pool_with_leftovers();
    let leftover = clean::leftover(&object, &own, false).unwrap();
    assert_eq!(leftover.annotations, ["fleetwright.dev/observed"]);
    assert_eq!(leftover.kept, ["fleetwright.dev/delete-protection"]);
    assert_eq!(leftover.conditions, ["NodesAsExpected"]);
    assert_eq!(leftover.finalizers, ["fleetwright.dev/delete-protection"]);
    assert_eq!(clean::leftover(&object, &own, true).unwrap().kept, [""; 0]);
    assert_eq!(clean::leftover(&json!({"kind": "Pod", "metadata": {"name": "p"}}), &own, true), None);
}

#[test]
fn clean_leaves_the_finalizer_of_an_object_that_is_being_deleted() {
    let own = clean::own_conditions(operator().compats());
    let mut object = pool_with_leftovers();
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
    let leftover = clean::leftover(&object, &own, false).unwrap();
    let removal = clean::removal(&object, &leftover);
    assert!(removal.object.unwrap().pointer("/metadata/finalizers").is_none());
    assert!(clean::table(&[&leftover]).contains("remove it by hand"));
}

fn pool_with_leftovers() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {
            "name": "p",
            "annotations": {
                "fleetwright.dev/observed": "{}", "fleetwright.dev/delete-protection": "true",
                "karpenter.sh/nodepool-hash": "1",
            },
            "finalizers": ["fleetwright.dev/delete-protection", "other.io/finalizer"],
        },
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
        }}},
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T11:00:00Z"},
            {"type": "NodesAsExpected", "status": "False", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T11:00:00Z"},
        ]},
    })
}

#[tokio::test]
async fn clean_removes_only_fields_of_fleetwright() {
    let server = Server::new(ServerConfig::new(std::sync::Arc::new(|| Timestamp::UNIX_EPOCH), 7));
    for crd in fleetwright_api::crd::kwok() {
        server.apply(serde_json::to_value(crd).unwrap()).unwrap();
    }
    server.apply(pool_with_leftovers()).unwrap();
    let stored = || (*server.get("karpenter.sh/v1", "NodePool", "", "p").unwrap()).clone();
    let object = stored();
    let client = kube::Client::new(server.service(), "default");
    let leftover = clean::leftover(&object, &clean::own_conditions(operator().compats()), false).unwrap();
    assert_eq!(leftover.conditions, ["NodesAsExpected"], "{object}");
    let removals = [(&object, clean::removal(&object, &leftover))];
    assert_eq!(clean::apply(&client, &removals).await.unwrap(), [""; 0]);
    let after = stored();
    assert_eq!(after["metadata"]["finalizers"], json!(["other.io/finalizer"]));
    let annotations = json!({"fleetwright.dev/delete-protection": "true", "karpenter.sh/nodepool-hash": "1"});
    assert_eq!(after["metadata"]["annotations"], annotations);
    let types: Vec<&Value> = objects::list(&after, "/status/conditions").map(|of| &of["type"]).collect();
    assert_eq!(types, ["Ready"]);
    // An object that changed since it was read is not overwritten.
    let refused = clean::apply(&client, &removals).await.unwrap();
    assert_eq!(refused.len(), 1, "{refused:?}");
}

/// The Deployment of docs/shadow.md runs beside Karpenter's: it is no second controller, and its settings are not those of the cluster.
#[test]
fn a_shadow_is_no_controller() {
    let deployment = |name: &str, image: &str, container: Value| {
        let mut container = container;
        container["image"] = json!(image);
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {"template": {"spec": {"containers": [container]}}}})
    };
    let karpenter = deployment("karpenter", "public.ecr.aws/karpenter/controller:1.14.1", json!({}));
    let cases = [
        (json!({"env": [{"name": "SHADOW", "value": "true"}]}), 1),
        (json!({"args": ["--shadow"]}), 1),
        (json!({"args": ["-shadow=true"]}), 1),
        (json!({"env": [{"name": "SHADOW", "value": "false"}], "args": ["shadow"]}), 2),
        (json!({}), 2),
    ];
    for (container, controllers) in cases {
        let beside = deployment("a", "registry.example.com/fleetwright:0.1.0", container.clone());
        let items: Vec<Item> = [&karpenter, &beside]
            .map(|value| Item { value: value.clone(), source: input::Source::Cluster })
            .into();
        let cluster = ClusterObjects::new(&items, Vec::new(), true, Timestamp::UNIX_EPOCH);
        let running = deployment::running(&cluster);
        assert_eq!(running.len(), controllers, "{container}");
        let is_blocked = deployment::check(&running).iter().any(|finding| finding.id == "C501");
        assert_eq!(is_blocked, controllers == 2, "{container}");
    }
}

#[test]
fn bad_input_is_named() {
    scenarios::check_bad_input("compat", &["objects"], |files| {
        let args = scenarios::command_line("compat --budget=2it --at=2026-01-01T12:00:00Z", files);
        let (options, flags) = match parse(args, &Interface::plain()).unwrap() {
            Invocation::Tool(Tool::Compat(options), flags) => (options, flags),
            other => panic!("{other:?}"),
        };
        let items = input::read_from(&options.input)?;
        let report = check(items, Vec::new(), &options, &operator().build(&flags)?, &flags)?;
        Table(&report).to_string();
        let findings = report.findings.iter();
        let findings = findings.map(|found| format!("{} {}: {}", found.id, found.object, found.message));
        Ok(findings.chain(report.notes.clone()).collect())
    });
}

//! Names, columns and subresources as a table; complete schemas; deterministic files.

use std::fs;

use super::*;

/// One line per definition: what kubectl and clients see of it.
fn summary(crd: &CustomResourceDefinition) -> String {
    let names = &crd.spec.names;
    let [version] = crd.spec.versions.as_slice() else { return "one version".to_owned() };
    let list = |words: &Option<Vec<String>>| words.clone().unwrap_or_default().join(",");
    let sub = version.subresources.as_ref();
    let scale = sub.and_then(|sub| sub.scale.as_ref());
    let scale = scale.map_or(String::new(), |scale| {
        format!(" scale={}:{}", scale.spec_replicas_path, scale.status_replicas_path)
    });
    format!(
        "{} {} {} {}/{} {} short={} in={} served={} storage={} status={}{scale}",
        crd.metadata.name.clone().unwrap_or_default(),
        crd.spec.scope,
        names.kind,
        version.name,
        names.list_kind.clone().unwrap_or_default(),
        names.singular.clone().unwrap_or_default(),
        list(&names.short_names),
        list(&names.categories),
        version.served,
        version.storage,
        sub.is_some_and(|sub| sub.status.is_some()),
    )
}

#[test]
fn names_and_subresources() {
    let found: Vec<String> = kwok().iter().map(summary).collect();
    assert_eq!(
        found,
        [
            "kwoknodeclasses.karpenter.kwok.sh Cluster KWOKNodeClass v1alpha1/KWOKNodeClassList kwoknodeclass \
             short=kwoknc,kwokncs in=karpenter served=true storage=true status=true",
            "capacitybuffers.autoscaling.x-k8s.io Namespaced CapacityBuffer v1beta1/CapacityBufferList \
             capacitybuffer short=cb in=autoscaling served=true storage=true status=true",
            "nodeclaims.karpenter.sh Cluster NodeClaim v1/NodeClaimList nodeclaim short= in=karpenter served=true \
             storage=true status=true",
            "nodeoverlays.karpenter.sh Cluster NodeOverlay v1alpha1/NodeOverlayList nodeoverlay short=overlays \
             in=karpenter served=true storage=true status=true",
            "nodepools.karpenter.sh Cluster NodePool v1/NodePoolList nodepool short= in=karpenter served=true \
             storage=true status=true scale=.spec.replicas:.status.nodes",
        ]
    );
    let base: Vec<String> = base().iter().map(summary).collect();
    assert_eq!(base, found[1..], "the kwok class belongs to the fake cloud only");
}

#[test]
fn printer_columns() {
    let mut found = Vec::new();
    for crd in kwok() {
        for column in crd.spec.versions[0].additional_printer_columns.iter().flatten() {
            let wide = if column.priority == Some(1) { " wide" } else { "" };
            found.push(format!(
                "{} {} {}{wide} {}",
                crd.spec.names.kind, column.name, column.type_, column.json_path
            ));
        }
    }
    let expected = include_str!("tests/columns.txt");
    assert_eq!(found, expected.lines().collect::<Vec<_>>());
}

/// How lists and maps merge and what is filled in: an apply by two managers and a manifest without the field depend on it.
#[test]
fn merging_and_defaults() {
    fn walk(schema: &Value, path: &str, found: &mut Vec<String>) {
        let words =
            ["x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type", "default"];
        for word in words {
            if let Some(value) = schema.get(word) {
                found.push(format!("{path} {} {value}", word.trim_start_matches("x-kubernetes-")));
            }
        }
        for (name, child) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            walk(child, &format!("{path}.{name}"), found);
        }
        if let Some(items) = schema.get("items") {
            walk(items, &format!("{path}[]"), found);
        }
    }
    let mut found = Vec::new();
    for crd in kwok() {
        let schema = crd.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
        walk(&serde_json::to_value(schema).unwrap(), &crd.spec.names.kind, &mut found);
    }
    assert_eq!(found, include_str!("tests/merging.txt").lines().collect::<Vec<_>>());
}

/// Every word of a schema is one of the typed definition's, so that none gets lost on its way from the attributes to the definition.
#[test]
fn schemas_lose_nothing() {
    for (crd, schema) in kwok().iter().zip([
        root::<KwokNodeClassSpec, KwokNodeClassStatus>(
            "A KWOKNodeClass configures the nodes of the simulated provider.",
        ),
        root::<CapacityBufferSpec, CapacityBufferStatus>(
            "A CapacityBuffer keeps capacity ready for future pods.",
        ),
        root::<NodeClaimSpec, NodeClaimStatus>("A NodeClaim requests one node."),
        root::<NodeOverlaySpec, NodeOverlayStatus>(
            "A NodeOverlay adjusts prices and capacities of instance types.",
        ),
        root::<NodePoolSpec, NodePoolStatus>(
            "A NodePool defines which nodes may be created and how they are disrupted.",
        ),
    ]) {
        let typed = crd.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
        let mut typed = serde_json::to_value(typed).unwrap();
        strip(&mut typed);
        let mut schema = schema;
        strip(&mut schema);
        assert_eq!(typed, schema, "{}", crd.spec.names.kind);
    }
}

/// Takes out what a provider adds and, from the class without a required spec, the requirement.
fn strip(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.get("required") == Some(&json!(["spec"])) {
                map.remove("required");
            }
            if let Some(Value::Array(rules)) = map.get_mut("x-kubernetes-validations") {
                rules.retain(|rule| !rule["message"].as_str().unwrap().contains("kwok"));
            }
            // JSONSchemaProps holds bounds as floats.
            for key in ["minimum", "maximum"] {
                if let Some(bound) = map.get(key).and_then(Value::as_f64) {
                    map.insert(key.to_owned(), json!(bound));
                }
            }
            map.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Kubernetes accepts structural schemas only: one type per node, no references, no nulls, nothing foreign.
#[test]
fn schemas_are_structural() {
    fn walk(schema: &Value, path: &str) {
        let map = schema.as_object().unwrap();
        for key in map.keys() {
            assert!(
                [
                    "description",
                    "type",
                    "properties",
                    "items",
                    "additionalProperties",
                    "required",
                    "enum",
                    "format"
                ]
                .contains(&key.as_str())
                    || [
                        "pattern",
                        "minimum",
                        "maximum",
                        "minLength",
                        "maxLength",
                        "maxItems",
                        "maxProperties"
                    ]
                    .contains(&key.as_str())
                    || ["default", "anyOf"].contains(&key.as_str())
                    || key.starts_with("x-kubernetes-"),
                "{path} has {key}"
            );
        }
        let int_or_string = map.get("x-kubernetes-int-or-string") == Some(&json!(true));
        assert!(map.get("type").is_some_and(Value::is_string) != int_or_string, "{path}: {schema}");
        assert!(int_or_string || !map.contains_key("anyOf"), "{path}");
        assert!(
            map.get("format")
                .is_none_or(|format| ["int32", "int64", "date-time"].map(Value::from).contains(format))
        );
        for (name, child) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
            walk(child, &format!("{path}.{name}"));
        }
        for key in ["items", "additionalProperties"] {
            if let Some(child) = map.get(key) {
                walk(child, &format!("{path}[]"));
            }
        }
    }
    for crd in kwok() {
        let schema = crd.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
        walk(&serde_json::to_value(schema).unwrap(), &crd.spec.names.kind);
    }
}

#[test]
fn yaml_reads_back_as_written() {
    for crd in kwok() {
        let yaml = to_yaml(&crd).unwrap();
        assert!(
            yaml.starts_with("---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n")
        );
        let read: CustomResourceDefinition = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(read, crd);
    }
}

#[test]
fn generate_reports_and_repairs() {
    let dir = std::env::temp_dir().join(format!("fleetwright-crds-{}", std::process::id()));
    let changes = |check| {
        generate(&kwok(), &dir, check).unwrap().into_iter().map(|drift| drift.change).collect::<Vec<_>>()
    };
    assert_eq!(changes(true), [Change::Missing; 5]);
    assert!(!dir.exists(), "a check writes nothing");
    assert_eq!(changes(false), [Change::Missing; 5]);
    assert_eq!(changes(true), []);
    let pools = dir.join("karpenter.sh_nodepools.yaml");
    fs::write(&pools, "edited by hand").unwrap();
    assert_eq!(generate(&kwok(), &dir, true).unwrap(), [Drift { path: pools, change: Change::Stale }]);
    assert_eq!(changes(false), [Change::Stale]);
    assert_eq!(changes(true), []);
    let inside_a_file = dir.join("karpenter.sh_nodepools.yaml");
    assert!(matches!(generate(&kwok(), &inside_a_file, true), Err(GenerateError::Io { .. })));
    fs::remove_dir_all(&dir).unwrap();
}

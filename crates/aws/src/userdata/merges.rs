//! A merge drops nothing: a node gets all parts, tables, settings and documents of its class's user data, unchanged and in order.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::mime::{self, NODE_CONFIG, Part};
use super::tests::bootstrap;
use super::*;

fn part() -> impl Strategy<Value = Part> {
    let line =
        prop_oneof!["[ -~]{0,20}", Just("--//".to_owned()), Just("--//--".to_owned()), Just(String::new())];
    let content = prop::collection::vec(line, 0..5).prop_map(|lines| lines.join("\n"));
    let more = prop::collection::vec("X-[a-z]{1,6}: [a-z]{1,6}", 0..3);
    ("[a-z]{1,6}", more, content).prop_map(|(kind, more, content)| {
        let headers = [format!("Content-Type: text/{kind}")].into_iter().chain(more).collect();
        Part { headers, content }
    })
}

fn toml_value() -> impl Strategy<Value = toml::Value> {
    let leaf = prop_oneof![
        ".{0,8}".prop_map(toml::Value::from),
        any::<i64>().prop_map(toml::Value::from),
        any::<bool>().prop_map(toml::Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(toml::Value::from),
            toml_table(inner).prop_map(toml::Value::Table),
        ]
    })
}

fn toml_table(value: impl Strategy<Value = toml::Value>) -> impl Strategy<Value = toml::Table> {
    prop::collection::vec(("[a-z-]{1,8}", value), 0..4).prop_map(|entries| entries.into_iter().collect())
}

/// Settings of Kubernetes that Bottlerocket supports. Those that the provider sets for every node are excluded.
fn kubernetes() -> impl Strategy<Value = toml::Table> {
    const DECIDED: [&str; 7] = [
        "api-server",
        "cluster-certificate",
        "cluster-dns-ip",
        "cluster-name",
        "max-pods",
        "node-labels",
        "node-taints",
    ];
    let free: Vec<&str> = bottlerocket::KNOWN.iter().copied().filter(|key| !DECIDED.contains(key)).collect();
    prop::collection::vec((prop::sample::select(free), toml_value()), 0..6)
        .prop_map(|entries| entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// A NodeConfig with some fields, as block YAML or JSON.
fn document() -> impl Strategy<Value = String> {
    let fields = prop::collection::btree_map("[a-z]{1,6}", "[a-zA-Z0-9 ]{0,8}", 0..4);
    (fields, any::<bool>()).prop_map(|(fields, flow)| {
        let value =
            serde_json::json!({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": fields});
        if flow { format!("{value}\n") } else { yaml::write(&value) }
    })
}

/// The content of a YAML text, document by document.
fn documents(text: &str) -> Vec<Value> {
    let texts = text.split("---\n").filter(|text| !text.trim().is_empty());
    texts.map(|text| serde_saphyr::from_str(text).unwrap()).collect()
}

proptest! {
    #[test]
    fn a_merge_drops_no_part(parts in prop::collection::vec(part(), 0..5)) {
        let archive = mime::write(&parts);
        prop_assert_eq!(&mime::read(&archive).unwrap(), &parts);
        for family in [Family::Al2, Family::Al2023] {
            let merged = render(family, &bootstrap(Some(&archive))).unwrap().text;
            let found = mime::read(&merged).unwrap();
            prop_assert_eq!(found.len(), parts.len() + 1);
            prop_assert_eq!(&found[..parts.len()], &parts[..]);
            let ours = render(family, &bootstrap(None)).unwrap().text;
            prop_assert_eq!(&found[parts.len()..], &mime::read(&ours).unwrap()[..], "ours is the last");
        }
    }

    #[test]
    fn a_merge_drops_no_setting(
        tables in prop::collection::btree_map("[a-j]{1,5}", toml_table(toml_value()), 0..4),
        kubernetes in kubernetes(),
        labels in prop::collection::btree_map("mine/[a-z]{1,5}", "[a-z]{0,5}", 0..3),
        commands in prop::collection::btree_map("1[a-z]{1,5}", toml_table(toml_value()), 0..3),
        raid0 in any::<bool>(),
    ) {
        let mut settings: toml::Table =
            tables.iter().map(|(name, table)| (name.clone(), toml::Value::Table(table.clone()))).collect();
        let mut whole = kubernetes.clone();
        whole.insert("node-labels".to_owned(), toml::Value::try_from(&labels).unwrap());
        settings.insert("kubernetes".to_owned(), toml::Value::Table(whole));
        settings.insert("bootstrap-commands".to_owned(), toml::Value::try_from(&commands).unwrap());
        let root: toml::Table = [("settings".to_owned(), toml::Value::Table(settings.clone()))].into_iter().collect();
        let text = toml::to_string(&root).unwrap();
        let data = render(Family::Bottlerocket, &Bootstrap { raid0, ..bootstrap(Some(&text)) }).unwrap();
        prop_assert!(data.dropped.is_empty());
        let merged: toml::Table = data.text.parse().unwrap();
        let merged = &merged["settings"];
        for (name, table) in &tables {
            prop_assert_eq!(&merged[name], &toml::Value::Table(table.clone()));
        }
        for (key, value) in &kubernetes {
            prop_assert_eq!(&merged["kubernetes"][key], value);
        }
        for (key, value) in &labels {
            prop_assert_eq!(merged["kubernetes"]["node-labels"][key].as_str(), Some(value.as_str()));
        }
        for (key, command) in &commands {
            prop_assert_eq!(&merged["bootstrap-commands"][key], &toml::Value::Table(command.clone()));
        }
        let names: BTreeSet<&String> = merged.as_table().unwrap().keys().collect();
        prop_assert_eq!(names, settings.keys().collect::<BTreeSet<_>>(), "nothing is added");
    }

    #[test]
    fn a_merge_drops_no_document(all in prop::collection::vec(document(), 1..5), begins in any::<bool>()) {
        let text = format!("{}{}", if begins { "---\n" } else { "" }, all.join("---\n"));
        let merged = render(Family::Al2023, &bootstrap(Some(&text))).unwrap().text;
        let found = mime::read(&merged).unwrap();
        let [theirs, ours] = found.as_slice() else { panic!("{found:?}") };
        prop_assert_eq!(theirs, &Part::new(NODE_CONFIG, text));
        prop_assert_eq!(documents(&theirs.content), all.iter().flat_map(|text| documents(text)).collect::<Vec<_>>());
        prop_assert!(ours.content.starts_with("# Karpenter Generated NodeConfig\n"));
    }
}

//! Files of all shapes, and what is told about bad ones.

use std::path::Path;

use rstest::rstest;

use super::{Item, files};

fn read(text: &str) -> anyhow::Result<Vec<Item>> {
    let mut items = Vec::new();
    files::parse(Path::new("in.yaml"), text, &mut items)?;
    Ok(items)
}

const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: a}}";

#[rstest]
#[case::nothing("", "")]
#[case::comments("# one\n---\n# two\n---\n", "")]
#[case::one(POD, "in.yaml:1 Pod")]
#[case::several(&format!("# first\n{POD}\n---\n\n{POD}\n"), "in.yaml:2 Pod, in.yaml:5 Pod")]
#[case::after_dashes(&format!("--- {POD}\n---\n{POD}\n"), "in.yaml:1 Pod, in.yaml:3 Pod")]
#[case::list(&format!("kind: List\napiVersion: v1\nitems:\n- {POD}\n- kind: Node\n  apiVersion: v1\n"),
    "in.yaml:4 Pod, in.yaml:5 Node")]
#[case::typed_list("kind: PodList\napiVersion: v1\nitems:\n- metadata: {name: a}\n", "in.yaml:4 Pod")]
#[case::json(
    "{\"kind\": \"List\",\n\"items\": [\n{\"kind\": \"Pod\"},\n{\"kind\": \"Node\"}]}",
    "in.yaml:3 Pod, in.yaml:4 Node"
)]
#[case::json_array("[{\"kind\": \"Pod\"}, {\"kind\": \"Node\"}]", "in.yaml:1 Pod, in.yaml:1 Node")]
fn objects_know_where_they_stand(#[case] text: &str, #[case] expected: &str) {
    let items = read(text).unwrap();
    let shown: Vec<String> = items
        .iter()
        .map(|item| format!("{} {}", item.source, item.value["kind"].as_str().unwrap()))
        .collect();
    assert_eq!(shown.join(", "), expected);
}

#[rstest]
#[case::yaml("a: b\n---\na: [1\n", "in.yaml:")]
#[case::tabs("kind: Pod\n\tx: y\n", "in.yaml:1: not YAML")]
#[case::json("{\"kind\": \"Pod\",\n\"x\": ]}", "in.yaml:2: not JSON")]
#[case::two_values("{\"kind\": \"Pod\"}\n{\"kind\": \"Pod\"}", "in.yaml:2: not JSON")]
fn what_cannot_be_read_is_named_with_its_line(#[case] text: &str, #[case] expected: &str) {
    let error = read(text).unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error}");
}

//! Files in all forms, and the notes on invalid ones.

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
#[case::list_of_nothing("apiVersion: v1\nkind: List\nitems: null\n", "")]
#[case::typed_list_of_nothing("apiVersion: v1\nkind: PodList\nmetadata: {resourceVersion: \"1\"}\n", "")]
#[case::byte_order_mark(&format!("\u{feff}{POD}\n"), "in.yaml:1 Pod")]
#[case::windows(&format!("# one\r\n---\r\n{}\r\n", POD), "in.yaml:3 Pod")]
#[case::dashes_in_text("kind: Pod\nx: |\n  ---\n  y\n", "in.yaml:1 Pod")]
#[case::json_array("[{\"kind\": \"Pod\"}, {\"kind\": \"Node\"}]", "in.yaml:1 Pod, in.yaml:1 Node")]
#[case::json_values(
    "{\"kind\": \"Pod\"}\n{\n\"kind\": \"Node\"} {\"kind\": \"Job\"}\n",
    "in.yaml:1 Pod, in.yaml:2 Node, in.yaml:3 Job"
)]
#[case::json_documents("{\"kind\": \"Pod\"}\n---\n{kind: Node}\n", "in.yaml:1 Pod, in.yaml:3 Node")]
#[case::list_of_lists(
    "kind: List\nitems:\n- kind: Node\n- kind: List\n  items:\n  - kind: Pod\n  - kind: Job\n",
    "in.yaml:3 Node, in.yaml:4 Pod, in.yaml:4 Job"
)]
fn objects_have_their_position(#[case] text: &str, #[case] expected: &str) {
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
#[case::deep_json(&"[".repeat(100_000), "in.yaml:1: not JSON")]
#[case::deep_yaml(&format!("a: {}", "[".repeat(10_000)), "in.yaml:1: not YAML")]
#[case::same_key_twice("kind: Pod\nkind: Pod\n", "in.yaml:2: not YAML")]
#[case::aliases_of_aliases(&bomb(), "in.yaml:")]
#[case::after_a_value("{\"kind\": \"Pod\"}\n{\"kind\": ]}", "in.yaml:2: not JSON")]
fn invalid_documents_are_reported_with_their_line(#[case] text: &str, #[case] expected: &str) {
    let error = read(text).unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn templates_are_to_be_rendered_first() {
    let error = read("kind: Pod\nmetadata:\n  name: {{ .Values.name }}\n").unwrap_err().to_string();
    assert!(error.starts_with("in.yaml:3: not YAML") && error.contains("`helm template`"), "{error}");
}

/// Eight lines that stand for three hundred million values.
fn bomb() -> String {
    let line = |at: usize| {
        let member = if at == 0 { "x".to_owned() } else { format!("*a{}", at - 1) };
        format!("a{at}: &a{at} [{}]\n", vec![member; 9].join(", "))
    };
    (0..9).map(line).collect()
}

#[test]
fn folders_are_read_by_name_without_hidden_files_and_cycles() {
    let folder = tempfile::tempdir().unwrap();
    let put = |path: &str, name: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}}}")).unwrap();
    };
    put("b.yaml", "b");
    put("a/c.json", "c");
    put("a/d.yml", "d");
    put("a/readme.md", "readme");
    put("..data/b.yaml", "hidden");
    put(".e.yaml", "hidden");
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.path(), folder.path().join("a/loop")).unwrap();
    let items = files::read(&[folder.path().to_owned()]).unwrap();
    let names: Vec<&str> = items.iter().filter_map(|item| item.value["metadata"]["name"].as_str()).collect();
    assert_eq!(names, ["c", "d", "b"]);
    let error = files::read(&[folder.path().join("nowhere")]).unwrap_err();
    assert!(format!("{error:#}").contains("nowhere"), "{error:#}");
}

//! Merging any user data does not panic, terminates quickly, and keeps all that it could parse. The inputs consist of the formats'
//! keywords, because random text rarely contains a boundary or a table.

use proptest::prelude::*;

use super::tests::bootstrap;
use super::*;

const FAMILIES: [Family; 7] = [
    Family::Al2,
    Family::Al2023,
    Family::Bottlerocket,
    Family::Windows2019,
    Family::Windows2022,
    Family::Windows2025,
    Family::Custom,
];

fn words(all: &'static [&'static str], most: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(all), 0..most).prop_map(|words| words.concat())
}

fn mime() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "MIME-Version: 1.0\n",
        "Content-Type: multipart/mixed; boundary=\"//\"\n",
        "Content-Type: multipart/mixed; boundary=B\n",
        "Content-Type: text/x-shellscript\n",
        "Content-Type: application/node.eks.aws\n",
        "Content-Type:",
        "content-type: MULTIPART/mixed;\r\n boundary=\"a;b\"\r\n",
        "\n",
        "\r\n",
        "--//\n",
        "--//--\n",
        "--B\n",
        "--B--",
        "--",
        "#!/bin/bash\necho hello\n",
        "\u{0}",
        "ä\u{2028}",
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n",
    ];
    words(WORDS, 24)
}

fn toml_text() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "[settings]\n",
        "[settings.kubernetes]\n",
        "[settings.kubernetes.node-labels]\n",
        "[settings.bootstrap-commands]\n",
        "[[settings.kubernetes]]\n",
        "settings = 1\n",
        "kubernetes = \"x\"\n",
        "settings.kubernetes.node-taints = 3\n",
        "node-labels = []\n",
        "a = \"b\"\n",
        "\"max-pods\" = 1979-05-27T07:32:00Z\n",
        "x = [",
        "[[[[[[[[",
        "]",
        "= ",
        "\"\"\"",
        "{a = {b = {c = 1}}}",
        "nan\n",
        "# comment\n",
        "\u{0}",
    ];
    words(WORDS, 24)
}

fn yaml() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "apiVersion: node.eks.aws/v1alpha1\n",
        "kind: NodeConfig\n",
        "spec:\n",
        "  kubelet: {config: {maxPods: 1}}\n",
        "  - ",
        "&a ",
        "*a ",
        "a: &a [*a, *a, *a, *a]\n",
        "<<: *a\n",
        "!!binary ",
        "---\n",
        "...\n",
        "{{{{",
        "[[[[",
        "? ",
        ": ",
        "|\n",
        "\t",
        "\u{feff}",
        "'",
        "\"",
    ];
    words(WORDS, 32)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_family_panics(custom in prop_oneof![mime(), toml_text(), yaml(), ".{0,300}"]) {
        for family in FAMILIES {
            match render(family, &bootstrap(Some(&custom))) {
                Ok(data) => prop_assert!(data.text.len() <= SIZE_MAX),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }

    /// A text that parses as an archive keeps each of its parts, followed by ours.
    #[test]
    fn no_part_that_is_read_is_dropped(custom in mime()) {
        if let (true, Ok(parts)) = (mime::is_archive(&custom), mime::read(&custom))
            && let Ok(data) = render(Family::Al2, &bootstrap(Some(&custom)))
        {
            let merged = mime::read(&data.text).unwrap();
            prop_assert_eq!(&merged[..parts.len()], &parts[..]);
            prop_assert_eq!(merged.len(), parts.len() + 1);
        }
    }

    /// A text that parses as TOML keeps every table except Kubernetes' own, and in that one every setting that Bottlerocket supports.
    #[test]
    fn no_table_that_is_read_is_dropped(custom in toml_text()) {
        if let (Ok(root), Ok(data)) =
            (custom.parse::<toml::Table>(), render(Family::Bottlerocket, &bootstrap(Some(&custom))))
        {
            let merged: toml::Table = data.text.parse().unwrap();
            for (key, value) in root.iter().filter(|(key, _)| *key != "settings") {
                prop_assert_eq!(format!("{:?}", merged.get(key)), format!("{:?}", Some(value)));
            }
            let settings = root.get("settings").and_then(toml::Value::as_table).cloned().unwrap_or_default();
            for (key, value) in settings.iter().filter(|(key, _)| *key != "kubernetes") {
                prop_assert_eq!(format!("{:?}", merged["settings"].get(key)), format!("{:?}", Some(value)));
            }
            // None of these words is a setting that Bottlerocket supports and the provider does not set.
            let rendered = settings.get("kubernetes").and_then(toml::Value::as_table).into_iter().flatten();
            let unknown = rendered.filter(|(key, _)| !bottlerocket::KNOWN.contains(&key.as_str()));
            let unknown: Vec<String> = unknown.map(|(key, _)| format!("settings.kubernetes.{key}")).collect();
            prop_assert_eq!(data.dropped, unknown, "dropped settings are reported");
        }
    }
}

/// A part may have no header.
#[test]
fn a_part_without_headers_keeps_its_content() {
    let custom = "Content-Type: multipart/mixed; boundary=B\n\n--B\n\nMIME-Version: 1.0\n";
    let data = render(Family::Al2, &bootstrap(Some(custom))).unwrap();
    assert_eq!(mime::read(&data.text).unwrap()[0], mime::read(custom).unwrap()[0]);
}

/// A short text that expands to billions of nodes is rejected, or does not grow.
#[test]
fn expansion_bombs_are_refused() {
    let mut yaml = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        let before = format!("*a{}", n - 1);
        yaml.push_str(&format!("a{n}: &a{n} [{}]\n", vec![before; 10].join(", ")));
    }
    let deep = format!("a = {}{}", "[".repeat(5000), "]".repeat(5000));
    let dotted = format!("[{}x]\n", "a.".repeat(4000));
    for custom in [yaml, deep, dotted, "{".repeat(10_000), "- ".repeat(8_000)] {
        for family in FAMILIES {
            if let Ok(data) = render(family, &bootstrap(Some(&custom))) {
                assert!(data.text.len() <= SIZE_MAX);
            }
        }
    }
}

//! One dependency graph for `cargo test`, `cargo run` and `cargo doc`.
//!
//! Only the first has development dependencies. Where those enable a feature that nothing else does, every command
//! compiles the package, and all that is built from it, once more. Twice the build is what this rule prevents; with the AWS
//! SDK, which is built from a selection of its own, that would be minutes.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use crate::{aws, shell};

/// The feature sets of each package (compiled for the host and for the target it may have two).
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Compares the graphs of the default members, and of what has the SDK in it, with and without what their tests use.
pub(super) fn check() -> anyhow::Result<Vec<Violation>> {
    let mut found = Vec::new();
    for packages in [&[][..], aws::PACKAGES] {
        found.extend(differing(&graph("normal,build", packages)?, &graph("normal,build,dev", packages)?));
    }
    Ok(found)
}

fn graph(edges: &str, packages: &[&str]) -> anyhow::Result<Graph> {
    let mut tree = shell::cargo(&["tree", "--edges", edges, "--prefix", "none", "--format", "{p}|{f}"]);
    Ok(parse(&shell::capture(tree.args(packages))?))
}

/// Parses lines such as `syn v2.0.119 (proc-macro)|full,visit (*)`; the mark at the end means that children are omitted.
fn parse(printed: &str) -> Graph {
    let mut graph = Graph::new();
    for line in printed.lines() {
        let line = line.strip_suffix(" (*)").unwrap_or(line);
        if let Some((package, features)) = line.split_once('|') {
            graph.entry(package.to_owned()).or_default().insert(features.to_owned());
        }
    }
    graph
}

/// Packages that tests compile with other features. An additional form for tests alone is allowed.
fn differing(shipped: &Graph, tested: &Graph) -> Vec<Violation> {
    let mut found = Vec::new();
    for (package, forms) in shipped {
        let Some(tested) = tested.get(package).filter(|tested| !tested.is_superset(forms)) else {
            continue;
        };
        let extra: Vec<&str> = tested.difference(forms).map(String::as_str).collect();
        let message = format!(
            "tests alone enable other features ({}): name them in xtask/Cargo.toml, or in tests/Cargo.toml if it is ours",
            extra.join("; ")
        );
        found.push(Violation::new(package, message));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_that_only_tests_enable_is_found() {
        let shipped = parse("xtask v0.1.0 (/x)|\nsyn v2.0.1|full\nsyn v2.0.1|full (*)\nrand v0.10.3|\n");
        let more = parse(
            "xtask v0.1.0 (/x)|\nsyn v2.0.1|full\nsyn v2.0.1|full,visit\nrand v0.10.3|\nrstest v0.28.0|default\n",
        );
        assert_eq!(differing(&shipped, &more), [], "more packages and forms are no harm");
        for (other, features) in [
            ("xtask v0.1.0 (/x)|\nsyn v2.0.1|full,visit\nrand v0.10.3|\n", "full,visit"),
            ("xtask v0.1.0 (/x)|testing\nsyn v2.0.1|full\nrand v0.10.3|\n", "testing"),
        ] {
            let found = differing(&shipped, &parse(other));
            assert_eq!(found.len(), 1);
            assert!(found[0].message.contains(features), "{found:?}");
        }
    }
}

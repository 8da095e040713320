//! One dependency graph for `cargo test`, `cargo run` and `cargo doc`.
//!
//! Only the first has development dependencies, and what has the AWS SDK in it is a selection of its own. Where those enable a
//! feature that nothing else does, the package, and all that is built from it, is compiled once more. Twice the build is what this rule
//! prevents: it would be minutes.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use crate::{aws, shell};

/// The feature sets of each package (compiled for the host and for the target it may have two).
type Graph = BTreeMap<String, BTreeSet<String>>;

/// What is compiled with other features for the SDK: it is the purpose of the selection.
const OF_THE_SELECTION: &str = "fleetwright-operator ";

/// Compares the graphs of the default members, and of what has the SDK in it, with and without what their tests use, and the two with
/// each other.
pub(super) fn check() -> anyhow::Result<Vec<Violation>> {
    let [default, sdk] = [&[][..], aws::PACKAGES].map(|packages| graph("normal,build", packages));
    let (mut default, sdk) = (default?, sdk?);
    let mut found = differing(&default, &graph("normal,build,dev", &[])?, "tests");
    found.extend(differing(
        &sdk,
        &graph("normal,build,dev", aws::PACKAGES)?,
        "tests of what has the SDK in it",
    ));
    default.retain(|package, _| !package.starts_with(OF_THE_SELECTION));
    found.extend(differing(&default, &sdk, "the SDK and what uses it"));
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

/// Packages that `who` compiles with other features. An additional form for them alone is allowed.
fn differing(shipped: &Graph, others: &Graph, who: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for (package, forms) in shipped {
        let Some(other) = others.get(package).filter(|other| !other.is_superset(forms)) else {
            continue;
        };
        let extra: Vec<&str> = other.difference(forms).map(String::as_str).collect();
        if extra.is_empty() {
            continue;
        }
        let message = format!(
            "{who} alone enable other features ({}): name them in xtask/Cargo.toml, or in tests/Cargo.toml if it is ours",
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
        assert_eq!(differing(&shipped, &more, "tests"), [], "more packages and forms are no harm");
        assert_eq!(differing(&more, &shipped, "tests"), [], "nor are fewer");
        for (other, features) in [
            ("xtask v0.1.0 (/x)|\nsyn v2.0.1|full,visit\nrand v0.10.3|\n", "full,visit"),
            ("xtask v0.1.0 (/x)|testing\nsyn v2.0.1|full\nrand v0.10.3|\n", "testing"),
        ] {
            let found = differing(&shipped, &parse(other), "tests");
            assert_eq!(found.len(), 1);
            assert!(found[0].message.contains(features), "{found:?}");
        }
    }
}

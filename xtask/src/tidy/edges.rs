//! Which of our crates may use which. An edge that is not in the table is a change of design, not of a manifest.

use std::collections::BTreeSet;

use cargo_metadata::{DependencyKind, Metadata};

use super::Violation;

/// What one crate may use. Crates go by their folder's name.
struct Layer {
    name: &'static str,
    /// In what it ships (and in build scripts).
    uses: &'static [&'static str],
    /// In its tests, beside that. Providers never see `state` or anything above it, not even there.
    tests_use: &'static [&'static str],
}

/// From the lowest layer up. A new crate fails the check until it is added here.
const LAYERS: &[Layer] = &[
    Layer { name: "kube-semantics", uses: &[], tests_use: &[] },
    Layer { name: "kube-schema", uses: &[], tests_use: &[] },
    Layer { name: "api", uses: &["kube-semantics"], tests_use: &["fake-kube"] },
    Layer { name: "core", uses: &["kube-semantics"], tests_use: &[] },
    Layer { name: "instance-types", uses: &["core"], tests_use: &[] },
    Layer { name: "fake-kube", uses: &["kube-schema", "kube-semantics"], tests_use: &["api"] },
    Layer { name: "aws-api", uses: &["api"], tests_use: &["fake-kube", "kube-semantics"] },
    Layer { name: "state", uses: &["api", "core"], tests_use: &["fake"] },
    Layer {
        name: "fake",
        uses: &["api", "core", "instance-types", "kube-semantics"],
        tests_use: &["fake-kube"],
    },
    Layer { name: "aws", uses: &["aws-api", "core", "kube-semantics"], tests_use: &["api", "fake-kube"] },
    Layer { name: "aws-client", uses: &["aws"], tests_use: &["aws-api", "core", "fake-kube"] },
    Layer { name: "aws-tools", uses: &["aws", "aws-api", "core"], tests_use: &[] },
    Layer { name: "controllers", uses: &["api", "core", "state"], tests_use: &["fake", "fake-kube"] },
    Layer { name: "sim", uses: WORLD, tests_use: &[] },
    Layer { name: "scenarios", uses: RUNS, tests_use: &[] },
    Layer { name: "operator", uses: EVERYTHING, tests_use: &[] },
    Layer { name: "tests", uses: EVERYTHING, tests_use: &[] },
    Layer { name: "aws-emulator", uses: &[], tests_use: &[] },
    Layer { name: "tests-aws", uses: CASES, tests_use: &[] },
    Layer { name: "xtask", uses: &["api", "aws-api"], tests_use: &[] },
];

/// What the simulated world is built from: no provider but the fake one, and not the binary.
const WORLD: &[&str] = &["api", "controllers", "core", "fake", "fake-kube", "kube-semantics", "state"];

/// What scenarios and property runs use: no SDK, and not the binary.
const RUNS: &[&str] = &["api", "aws", "aws-api", "controllers", "core", "fake", "fake-kube", "sim", "state"];

/// The top layer may use everything below, the SDK only behind a feature.
const EVERYTHING: &[&str] = &[
    "api",
    "aws",
    "aws-api",
    "aws-client",
    "aws-emulator",
    "aws-tools",
    "controllers",
    "core",
    "fake",
    "fake-kube",
    "instance-types",
    "kube-schema",
    "operator",
    "scenarios",
    "sim",
    "state",
];

/// What the cases against a moto server are made of: the provider over the SDK, and the harness of the other tiers.
const CASES: &[&str] = &["aws", "aws-api", "aws-client", "aws-emulator", "aws-tools", "core", "tests"];

/// The lab: the crates that simulate. The operator links them behind its feature `lab`, and the release image has none of them.
const LAB: [&str; 3] = ["fake", "fake-kube", "sim"];
/// Scenarios, property runs and planted bugs, which no binary for users links.
const RUNS_CRATE: &str = "scenarios";

/// The one crate that may name the AWS SDK. It costs minutes, so nothing that is built by default may reach it.
const SDK_CRATE: &str = "aws-client";
/// The crates that nothing default reaches: the SDK's, and that of the cases which need it in any case.
const NOT_DEFAULT: [&str; 2] = [SDK_CRATE, "tests-aws"];
const SDK_PREFIXES: [&str; 4] = ["aws-sdk-", "aws-config", "aws-smithy-", "aws-types"];

/// A dependency of one of our crates, as its manifest states it.
#[derive(Clone, Debug)]
struct Edge {
    from: String,
    /// A folder's name if it is ours, else a package's name.
    to: String,
    ours: bool,
    /// It counts for tests only.
    test: bool,
    optional: bool,
}

/// Checks what the manifests of the workspace state.
pub(super) fn check(workspace: &Metadata) -> Vec<Violation> {
    let packages = workspace.workspace_packages();
    let members: Vec<String> = packages.iter().map(|package| folder(&package.name)).collect();
    let defaults: Vec<String> =
        workspace.workspace_default_packages().iter().map(|package| folder(&package.name)).collect();
    let mut edges = Vec::new();
    for package in packages {
        edges.extend(package.dependencies.iter().map(|dependency| Edge {
            from: folder(&package.name),
            to: folder(&dependency.name),
            ours: dependency.path.is_some(),
            test: dependency.kind == DependencyKind::Development,
            optional: dependency.optional,
        }));
    }
    let mut found = unknown_members(&members);
    found.extend(not_built_by_default(&members, &defaults));
    found.extend(edges.iter().filter_map(forbidden));
    found.extend(edges.iter().filter_map(sdk_outside_its_crate));
    found
}

fn folder(package: &str) -> String {
    package.strip_prefix("fleetwright-").unwrap_or(package).to_owned()
}

fn unknown_members(members: &[String]) -> Vec<Violation> {
    let known = |name: &str| LAYERS.iter().any(|layer| layer.name == name);
    let unknown = members.iter().filter(|name| !known(name));
    unknown
        .map(|name| Violation::new(name, "is in no layer: decide in tidy/edges.rs what it may use"))
        .collect()
}

/// `cargo test` has to cover everything but the crates that compile the SDK.
fn not_built_by_default(members: &[String], defaults: &[String]) -> Vec<Violation> {
    let expected: BTreeSet<_> = members.iter().filter(|name| !NOT_DEFAULT.contains(&name.as_str())).collect();
    let actual: BTreeSet<_> = defaults.iter().collect();
    let differing = expected.symmetric_difference(&actual);
    let message = format!("default-members are all but {}", NOT_DEFAULT.join(" and "));
    differing.map(|name| Violation::new(*name, &*message)).collect()
}

fn forbidden(edge: &Edge) -> Option<Violation> {
    if !edge.ours {
        return None;
    }
    // An unknown crate is reported once, not once per edge.
    let layer = LAYERS.iter().find(|layer| layer.name == edge.from)?;
    let to = edge.to.as_str();
    if to == SDK_CRATE && !edge.optional && !NOT_DEFAULT.contains(&edge.from.as_str()) {
        return Some(Violation::new(&edge.from, format!("may use {to} only as an optional dependency")));
    }
    if edge.from == "operator" && to == RUNS_CRATE {
        return Some(Violation::new(&edge.from, format!("may not use {to}: it has planted bugs")));
    }
    if edge.from == "operator" && LAB.contains(&to) && !edge.optional && !edge.test {
        return Some(Violation::new(
            &edge.from,
            format!("may use {to} only as an optional dependency (the lab)"),
        ));
    }
    if layer.uses.contains(&to) || (edge.test && layer.tests_use.contains(&to)) {
        return None;
    }
    let place = if edge.test { "in its tests" } else { "in what it ships" };
    Some(Violation::new(&edge.from, format!("may not use {to} {place}: dependencies point one way")))
}

fn sdk_outside_its_crate(edge: &Edge) -> Option<Violation> {
    let sdk = !edge.ours && SDK_PREFIXES.iter().any(|prefix| edge.to.starts_with(prefix));
    (sdk && edge.from != SDK_CRATE).then(|| {
        Violation::new(&edge.from, format!("may not use {}: only {SDK_CRATE} names the SDK", edge.to))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: &str, to: &str, test: bool) -> Edge {
        Edge { from: from.to_owned(), to: to.to_owned(), ours: true, test, optional: false }
    }

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn edges_point_down() {
        for (from, to) in [("state", "core"), ("controllers", "state"), ("fake", "api"), ("tests", "sim")] {
            assert_eq!(forbidden(&edge(from, to, false)), None, "{from} -> {to}");
        }
        let up =
            [("core", "api"), ("api", "core"), ("core", "state"), ("fake", "state"), ("sim", "operator")];
        let side =
            [("aws", "controllers"), ("controllers", "fake"), ("fake-kube", "api"), ("sim", "aws-client")];
        for (from, to) in up.into_iter().chain(side) {
            assert!(forbidden(&edge(from, to, false)).is_some(), "{from} -> {to}");
        }
    }

    #[test]
    fn tests_may_use_more_but_providers_never_look_up() {
        assert_eq!(forbidden(&edge("controllers", "fake", true)), None);
        assert_eq!(forbidden(&edge("fake", "fake-kube", true)), None);
        for (from, to) in [("fake", "controllers"), ("aws", "state"), ("aws-client", "sim"), ("core", "fake")]
        {
            assert!(forbidden(&edge(from, to, true)).is_some(), "{from} -> {to}");
        }
    }

    #[test]
    fn the_sdk_stays_behind_a_feature_and_in_one_crate() {
        let plain = edge("operator", "aws-client", false);
        assert!(forbidden(&plain).is_some());
        assert_eq!(forbidden(&Edge { optional: true, ..plain }), None);
        assert_eq!(forbidden(&edge("tests-aws", "aws-client", false)), None, "it is in no default build");
        assert!(forbidden(&edge("tests", "aws-client", false)).is_some());
        let sdk = |from: &str, to: &str| Edge { ours: false, ..edge(from, to, false) };
        assert!(sdk_outside_its_crate(&sdk("aws", "aws-sdk-ec2")).is_some());
        assert!(sdk_outside_its_crate(&sdk("operator", "aws-config")).is_some());
        assert_eq!(sdk_outside_its_crate(&sdk("aws-client", "aws-sdk-ec2")), None);
        assert_eq!(sdk_outside_its_crate(&sdk("operator", "aws-lc-rs")), None);
    }

    #[test]
    fn the_operator_links_the_lab_only_behind_a_feature() {
        for lab in LAB {
            let plain = edge("operator", lab, false);
            assert!(forbidden(&plain).is_some(), "{lab}");
            assert_eq!(forbidden(&Edge { optional: true, ..plain }), None, "{lab}");
            assert_eq!(forbidden(&edge("operator", lab, true)), None, "{lab}");
        }
        assert!(forbidden(&Edge { optional: true, ..edge("operator", RUNS_CRATE, false) }).is_some());
    }

    #[test]
    fn members_are_known_and_built_by_default() {
        assert_eq!(unknown_members(&names(&["core", "xtask"])), []);
        assert_eq!(unknown_members(&names(&["core", "utils"])).len(), 1);
        let outside = names(&["core", "aws-client", "tests-aws"]);
        assert_eq!(not_built_by_default(&outside, &names(&["core"])), []);
        assert_eq!(not_built_by_default(&names(&["core", "fake"]), &names(&["core"])).len(), 1);
        assert_eq!(not_built_by_default(&names(&["aws-client"]), &names(&["aws-client"])).len(), 1);
    }

    #[test]
    fn the_table_has_no_cycle() {
        // Each crate uses only what has been settled before it, in some order.
        let mut settled: Vec<&str> = Vec::new();
        for _ in LAYERS {
            let ready =
                |layer: &&Layer| layer.uses.iter().all(|name| settled.contains(name) || *name == layer.name);
            let next: Vec<&str> = LAYERS.iter().filter(ready).map(|layer| layer.name).collect();
            settled = next;
        }
        assert_eq!(settled.len(), LAYERS.len(), "settled only {settled:?}");
    }
}

//! `core` and `state` decide, and do nothing else: what they are built from and what they mention.

use std::collections::BTreeSet;

use super::{Violation, tokens};
use crate::shell;

/// Packages that bring a runtime, a client, a log, chance or settings into whatever is built from them.
const IMPURE_PACKAGES: &[&str] = &[
    "anstream",
    "async-std",
    "aws-config",
    "axum",
    "clap",
    "fastrand",
    "getrandom",
    "hyper",
    "hyper-util",
    "kube-client",
    "kube-runtime",
    "log",
    "mio",
    "prometheus",
    "rand",
    "rand_chacha",
    "rand_core",
    "reqwest",
    "rustls",
    "tokio",
    "tokio-util",
    "tower",
    "tracing",
    "tracing-core",
];

/// Paths that read a clock, the environment or chance, or do what only the shell does. A path is impure if one
/// of these is a run of its segments: `Timestamp::now` covers `jiff::Timestamp::now`.
const IMPURE_PATHS: &[&[&str]] = &[
    &["SystemTime"],
    &["time", "Instant"],
    &["Instant", "now"],
    &["Timestamp", "now"],
    &["Zoned", "now"],
    &["std", "env"],
    &["std", "fs"],
    &["std", "io"],
    &["std", "net"],
    &["std", "process"],
    &["std", "thread"],
    &["env", "var"],
    &["env", "var_os"],
    &["RandomState"],
    &["thread", "sleep"],
    &["thread", "spawn"],
];

/// Checks what the crate in folder `name` is built from, its tests aside. Macros that run in the compiler do not count.
pub(super) fn check_closure(name: &str) -> anyhow::Result<Vec<Violation>> {
    let package = format!("fleetwright-{name}");
    let tree = [
        "tree",
        "--package",
        &package,
        "--edges",
        "normal,no-proc-macro",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ];
    let printed = shell::capture(&mut shell::cargo(&tree))?;
    let packages = printed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    Ok(impure_packages(name, &packages))
}

/// Checks what a source file of a pure crate mentions. Its tests have to be pure too: they replay. Examples are programs of
/// their own that measure the crate from outside, with a clock; `tests/golden.rs` compares with files beside it.
pub(super) fn check_source(file: &str, text: &str) -> Vec<Violation> {
    if !file.ends_with(".rs") || file.contains("/examples/") || file.ends_with("/tests/golden.rs") {
        return Vec::new();
    }
    let Ok(paths) = tokens::paths(text) else {
        return Vec::new(); // `source` reports what does not parse.
    };
    let impure = paths.iter().filter(|path| IMPURE_PATHS.iter().any(|run| mentions(&path.segments, run)));
    impure
        .map(|path| {
            let name = path.segments.join("::");
            Violation::new(
                format!("{file}:{}", path.line),
                format!("`{name}` is not pure: take it as an argument"),
            )
        })
        .collect()
}

fn impure_packages(name: &str, packages: &BTreeSet<&str>) -> Vec<Violation> {
    let impure = packages.iter().filter(|package| IMPURE_PACKAGES.contains(package));
    impure.map(|package| Violation::new(name, format!("is pure, but is built from {package}"))).collect()
}

fn mentions(segments: &[String], run: &[&str]) -> bool {
    segments.windows(run.len()).any(|window| window == run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_in_the_closure_is_found() {
        let packages = BTreeSet::from(["jiff", "serde", "tokio"]);
        let found = impure_packages("core", &packages);
        assert_eq!(found, [Violation::new("core", "is pure, but is built from tokio")]);
        assert_eq!(impure_packages("core", &BTreeSet::from(["jiff", "smallvec"])), []);
    }

    #[test]
    fn clocks_chance_and_environment_are_found_wherever_they_hide() {
        let impure = [
            "fn f() { let t = std::time::SystemTime::now(); }",
            "use std::time::{Duration, Instant};",
            "use std::{env, fmt};",
            "use jiff::Timestamp; fn f() -> Timestamp { Timestamp::now() }",
            "fn f() { let f = jiff::Zoned::now; }",
            "fn f() { assert_eq!(1, std::env::args().count()); }",
            "macro_rules! now { () => { jiff::Timestamp::now() } }",
            "type S = std::hash::RandomState;",
        ];
        for text in impure {
            assert!(!check_source("a.rs", text).is_empty(), "{text}");
        }
    }

    #[test]
    fn time_as_an_argument_is_pure() {
        let pure = "//! Says SystemTime::now only in a comment.\n\
            use jiff::Timestamp;\nuse std::{fmt, time::Duration};\n\
            fn due(now: Timestamp, env: &str) -> bool { let instant = now; instant > Timestamp::MIN }\n\
            struct Instant; const TEXT: &str = \"std::env\";";
        assert_eq!(check_source("a.rs", pure), []);
    }
}

//! `ARCHITECTURE.md` and the tree agree: the paths that it names exist, and every crate and disruption method has its row.

use std::path::Path;

use super::Violation;

/// The page, from the root of the repository.
pub(super) const FILE: &str = "ARCHITECTURE.md";

/// Where paths on the page may begin, beside the root.
const BASES: [&str; 2] = ["", "crates/"];

/// The folder of disruption methods.
const METHODS: &str = "crates/core/src/disruption/";

/// Checks the page: `members` are the folders of the workspace's crates, `sources` all files with their texts.
pub(super) fn check(
    page: &str,
    members: &[String],
    sources: &[(String, String)],
    exists: impl Fn(&Path) -> bool,
) -> Vec<Violation> {
    let mut found = Vec::new();
    for (line, path) in paths(page) {
        if !BASES.iter().any(|base| exists(Path::new(&format!("{base}{path}")))) {
            found.push(Violation::new(format!("{FILE}:{line}"), format!("`{path}` does not exist")));
        }
    }
    let has_row = |folder: &str| page.lines().any(|line| line.starts_with(&format!("| `{folder}` |")));
    let missing = members.iter().filter(|folder| !has_row(folder));
    found.extend(missing.map(|folder| Violation::new(FILE, format!("has no row for the crate {folder}"))));
    let methods = sources.iter().filter(|(file, text)| is_method(file, text));
    let unnamed = methods.filter(|(file, _)| {
        let path = file.strip_prefix("crates/").unwrap_or(file);
        !page.contains(&format!("`{path}`")) && !page.contains(&format!("`{file}`"))
    });
    found.extend(unnamed.map(|(file, _)| Violation::new(FILE, format!("does not name the method {file}"))));
    found
}

/// Paths in backticks with a slash and no other punctuation, with their line. Names with a dot before the slash are API groups and keys.
fn paths(page: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(page.lines()) {
        let quoted = line.split('`').skip(1).step_by(2);
        found.extend(quoted.filter(|text| is_path(text)).map(|text| (number, text)));
    }
    found
}

fn is_path(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let folder = text.split_once('/').map(|(folder, _)| folder);
    text.chars().all(plain) && folder.is_some_and(|folder| !folder.is_empty() && !folder.contains('.'))
}

fn is_method(file: &str, text: &str) -> bool {
    let direct = file.strip_prefix(METHODS).is_some_and(|name| !name.contains('/'));
    direct && text.contains("impl Method for ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "See `core/src/lib.rs`, `karpenter.sh/v1`, `tests/scenarios/`, `Index::apply`, `a/b c`.\n\n\
        | `crates/core` | x |\n| `core/src/disruption/drift.rs` | y |\n";

    fn report(members: &[&str], methods: &[&str], missing: &str) -> Vec<String> {
        let members: Vec<String> = members.iter().map(|&folder| folder.to_owned()).collect();
        let source = |name: &&str| (format!("{METHODS}{name}"), "impl Method for M {}".to_owned());
        let sources: Vec<_> = methods.iter().map(source).collect();
        let known = [
            "crates/core/src/lib.rs",
            "tests/scenarios/",
            "crates/core",
            "crates/core/src/disruption/drift.rs",
        ];
        let exists = |path: &Path| known.iter().any(|&file| Path::new(file) == path && file != missing);
        check(PAGE, &members, &sources, exists).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_page_that_agrees_with_the_tree_is_fine() {
        assert_eq!(report(&["crates/core"], &["drift.rs", "several/plan.rs"], ""), [""; 0]);
    }

    #[test]
    fn what_is_missing_on_either_side_is_found() {
        let gone = report(&["crates/core"], &["drift.rs"], "crates/core/src/lib.rs");
        assert_eq!(gone, ["ARCHITECTURE.md:1: `core/src/lib.rs` does not exist"]);
        let row = report(&["crates/core", "xtask"], &[], "");
        assert_eq!(row, ["ARCHITECTURE.md: has no row for the crate xtask"]);
        let method = report(&["crates/core"], &["drift.rs", "expiry.rs"], "");
        assert_eq!(
            method,
            ["ARCHITECTURE.md: does not name the method crates/core/src/disruption/expiry.rs"]
        );
    }
}

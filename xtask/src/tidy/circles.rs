//! Files of one crate do not import each other in a circle: each can be read before those that use it.
//!
//! A file and the files in its folder are one unit: `foo.rs` may use `foo/bar.rs`, and the reverse, without a circle.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::house::{self, House};
use super::modules::Crate;

type Imports = BTreeSet<(String, String)>;

/// Checks every crate: (name, modules).
pub(super) fn check(crates: &[(String, Crate)], house: &House) -> Vec<Violation> {
    let found: BTreeSet<String> = crates
        .iter()
        .flat_map(|(_, modules)| circles(&modules.imports()))
        .map(|circle| circle.join(" "))
        .collect();
    let listed = house.circles.iter().map(|circle| circle.join(" ")).collect();
    house::compare(&found, &listed, |circle| {
        let message = format!("import each other in a circle: {circle}");
        Violation::new(circle.split(' ').next().unwrap_or_default(), message)
    })
}

/// The sets of files each of which reaches all others of its set.
fn circles(imports: &Imports) -> BTreeSet<Vec<String>> {
    let mut uses: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in imports.iter().filter(|(from, to)| !is_inside(to, from)) {
        uses.entry(from).or_default().push(to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        uses.keys().map(|&file| (file, reach(file, &uses))).collect();
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|files| files.contains(to));
    let with_circle = reached.iter().filter(|(file, files)| files.contains(*file));
    with_circle
        .map(|(&file, files)| {
            let circle = files.iter().filter(|other| reaches(other, file));
            circle.map(|&other| other.to_owned()).collect()
        })
        .collect()
}

/// Whether `file` is in the folder of `parent`: below `foo/` for `foo.rs`, `foo/mod.rs` and `foo/lib.rs`.
fn is_inside(file: &str, parent: &str) -> bool {
    let folder = parent.strip_suffix(".rs").unwrap_or(parent);
    let folder =
        ["/mod", "/lib", "/main"].iter().find_map(|root| folder.strip_suffix(root)).unwrap_or(folder);
    file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

fn reach<'a>(start: &str, uses: &BTreeMap<&str, Vec<&'a str>>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = vec![start];
    while let Some(file) = next.pop() {
        for &to in uses.get(file).into_iter().flatten() {
            if reached.insert(to) {
                next.push(to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_once_each() {
        let imports = |edges: &[(&str, &str)]| {
            edges.iter().map(|&(from, to)| (from.to_owned(), to.to_owned())).collect::<Imports>()
        };
        assert!(circles(&imports(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
        let two =
            circles(&imports(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "d")]));
        let expected = [vec!["a", "b", "c"], vec!["d", "e"]];
        assert!(two.iter().eq(expected.iter()), "{two:?}");
    }

    #[test]
    fn a_folder_is_one_room() {
        for parent in ["x/src/foo.rs", "x/src/foo/mod.rs", "x/src/lib.rs"] {
            assert!(is_inside("x/src/foo/bar.rs", parent), "{parent}");
        }
        for other in ["x/src/fo.rs", "x/src/foo/baz.rs"] {
            assert!(!is_inside("x/src/foo/bar.rs", other), "{other}");
        }
    }

    #[test]
    fn a_planted_circle_is_reported_unless_it_is_listed() {
        let files = [
            ("crates/x/src/lib.rs", "mod a; mod b;"),
            ("crates/x/src/a.rs", "use crate::b::B; pub struct A;"),
            ("crates/x/src/b.rs", "use crate::a::A; pub struct B;"),
        ];
        let crates = [("x".to_owned(), Crate::read(files))];
        assert_eq!(check(&crates, &House::default()).len(), 1);
        let circle = vec!["crates/x/src/a.rs".to_owned(), "crates/x/src/b.rs".to_owned()];
        let listed = House { circles: BTreeSet::from([circle]), ..House::default() };
        assert_eq!(check(&crates, &listed), []);
        assert_eq!(check(&[], &listed).len(), 1, "the circle is gone, the entry has to go too");
    }
}

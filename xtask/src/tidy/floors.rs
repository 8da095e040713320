//! The files of the large folders have floors, lowest first (`house.toml`), and import only from floors below.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::house::{self, FILE, Floors, House};
use super::modules::Crate;

/// Checks every folder that has floors.
pub(super) fn check(crates: &[(String, Crate)], house: &House, files: &[String]) -> Vec<Violation> {
    let imports: BTreeSet<_> = crates.iter().flat_map(|(_, modules)| modules.imports()).collect();
    let folders = house.folders.iter();
    folders.flat_map(|(folder, floors)| check_folder(folder, floors, files, &imports)).collect()
}

fn check_folder(
    folder: &str,
    table: &Floors,
    files: &[String],
    imports: &BTreeSet<(String, String)>,
) -> Vec<Violation> {
    let floors: BTreeMap<&str, usize> = table
        .floors
        .iter()
        .enumerate()
        .flat_map(|(floor, units)| units.iter().map(move |unit| (unit.as_str(), floor)))
        .collect();
    let units: BTreeSet<&str> = files.iter().filter_map(|file| unit(folder, file)).collect();
    let mut found: Vec<Violation> = units
        .iter()
        .filter(|unit| !floors.contains_key(*unit))
        .map(|unit| Violation::new(format!("{folder}/{unit}"), format!("is on no floor: decide in {FILE}")))
        .collect();
    let gone = floors.keys().filter(|unit| !units.contains(*unit));
    found.extend(gone.map(|unit| Violation::new(FILE, format!("{folder} has no `{unit}` any more"))));
    let upward: BTreeSet<String> = imports
        .iter()
        .filter_map(|(from, to)| Some((unit(folder, from)?, unit(folder, to)?)))
        .filter(|(from, to)| {
            from != to && floors.get(from).zip(floors.get(to)).is_some_and(|(from, to)| from <= to)
        })
        .map(|(from, to)| format!("{from} -> {to}"))
        .collect();
    found.extend(house::compare(&upward, &table.upward, |arrow| {
        Violation::new(folder, format!("{arrow}: imports point from higher floors to lower ones"))
    }));
    found
}

/// The file or folder that `file` belongs to within `folder`; `a.rs` and `a/` are one. Tests belong to none.
fn unit<'a>(folder: &str, file: &'a str) -> Option<&'a str> {
    let inside = file.strip_prefix(folder)?.strip_prefix('/')?;
    let unit = inside.split('/').next()?;
    let unit = unit.strip_suffix(".rs").unwrap_or(unit);
    (file.ends_with(".rs") && unit != "tests").then_some(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(floors: &[&[&str]], upward: &[&str]) -> Vec<String> {
        let sources = [
            ("crates/x/src/lib.rs", "mod a; mod b; pub use a::A;"),
            ("crates/x/src/a.rs", "mod deep; pub struct A;"),
            ("crates/x/src/a/deep.rs", "use crate::b::B;"),
            ("crates/x/src/b.rs", "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }"),
        ];
        let table = Floors {
            floors: floors.iter().map(|floor| floor.iter().map(|&unit| unit.to_owned()).collect()).collect(),
            upward: upward.iter().map(|&arrow| arrow.to_owned()).collect(),
        };
        let folders = BTreeMap::from([("crates/x/src".to_owned(), table)]);
        let files: Vec<String> = sources.iter().map(|(file, _)| (*file).to_owned()).collect();
        let crates = [("x".to_owned(), Crate::read(sources))];
        let found = check(&crates, &House { folders, ..House::default() }, &files);
        found.iter().map(|violation| violation.message.clone()).collect()
    }

    #[test]
    fn arrows_point_down() {
        assert_eq!(report(&[&["b"], &["a"], &["lib"]], &[]), [""; 0]);
        let up = "a -> b: imports point from higher floors to lower ones";
        assert_eq!(report(&[&["a"], &["b"], &["lib"]], &[]), [up]);
        assert_eq!(report(&[&["a", "b"], &["lib"]], &[]), [up]);
        assert_eq!(report(&[&["a"], &["b"], &["lib"]], &["a -> b"]), [""; 0]);
        assert_eq!(report(&[&["b"], &["a"], &["lib"]], &["a -> b"]).len(), 1, "out of date");
    }

    #[test]
    fn every_file_has_a_floor() {
        assert_eq!(report(&[&["b"], &["a"]], &[]), [format!("is on no floor: decide in {FILE}")]);
        assert_eq!(report(&[&["b"], &["a"], &["lib", "c"]], &[]), ["crates/x/src has no `c` any more"]);
    }
}

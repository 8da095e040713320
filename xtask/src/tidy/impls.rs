//! The inherent implementations of one type stand in few files. A type with methods in many files is several types.

use std::collections::BTreeSet;

use super::Violation;
use super::house::{self, House};
use super::modules::Crate;

/// Files that may have inherent implementations of one type.
const FILES_MAX: usize = 3;

/// Checks every crate: (name, modules).
pub(super) fn check(crates: &[(String, Crate)], house: &House) -> Vec<Violation> {
    let found: BTreeSet<String> =
        crates.iter().flat_map(|(name, modules)| scattered(name, modules)).collect();
    house::compare(&found, &house.scattered, |entry| {
        let message = format!(
            "has inherent implementations in more than {FILES_MAX} files: split the type, not the file"
        );
        Violation::new(entry, message)
    })
}

fn scattered(name: &str, modules: &Crate) -> Vec<String> {
    let impls = modules.impls();
    let many = impls.into_iter().filter(|(_, files)| files.len() > FILES_MAX);
    many.map(|((_, of), _)| format!("{name}::{of}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_in_four_files_is_found() {
        let block = "use super::S; impl S {}";
        let mut files = vec![
            ("crates/x/src/lib.rs", "mod a; mod b; mod c; pub struct S; impl S {} impl Clone for S {}"),
            ("crates/x/src/a.rs", block),
            ("crates/x/src/b.rs", "use super::S; impl Drop for S {} #[cfg(test)] impl S {}"),
            ("crates/x/src/c.rs", "impl crate::S {} impl crate::S {}"),
        ];
        let report = |files: &[(&'static str, &'static str)], listed: &[&str]| {
            let crates = [("x".to_owned(), Crate::read(files.iter().copied()))];
            let scattered = listed.iter().map(|&entry| entry.to_owned()).collect();
            check(&crates, &House { scattered, ..House::default() }).len()
        };
        assert_eq!(report(&files, &[]), 0);
        assert_eq!(report(&files, &["x::S"]), 1, "an entry that is out of date");
        files.push(("crates/x/src/d.rs", block));
        assert_eq!(report(&files, &[]), 1);
        assert_eq!(report(&files, &["x::S"]), 0);
    }
}

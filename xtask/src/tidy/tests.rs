//! The repository itself, under every rule.

use super::*;

#[test]
fn the_repository_is_tidy() {
    let violations = check(&shell::root()).unwrap();
    let list: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "{}", list.join("\n"));
}

#[test]
fn every_folder_of_ours_is_read_and_nothing_that_is_built() {
    let files = files(&shell::root()).unwrap();
    for expected in ["Cargo.toml", "crates/core/src/lib.rs", "xtask/src/tidy.rs", "xtask/src/tidy/tests.rs"] {
        assert!(files.iter().any(|file| file == expected), "{expected} is not among {files:?}");
    }
    assert!(!files.iter().any(|file| file.starts_with("target") || file.starts_with('.')));
}

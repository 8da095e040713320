//! Where the build script finds the commit, and which files it watches.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use super::process::{from_root, run_words};

#[expect(dead_code, reason = "its main is for cargo")]
#[path = "../../build.rs"]
mod build;

/// Runs git in a folder, as nobody in particular.
fn git(folder: &Path, args: &[&str]) -> String {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"];
    let output = Command::new("git").current_dir(folder).args(identity).args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A checkout with one commit, which has a Cargo.toml.
fn checkout(folder: &Path) -> PathBuf {
    let root = folder.join("checkout");
    fs::create_dir(&root).unwrap();
    git(&root, &["init", "--quiet", "--initial-branch", "trunk"]);
    fs::write(root.join("Cargo.toml"), "").unwrap();
    git(&root, &["add", "Cargo.toml"]);
    git(&root, &["commit", "--quiet", "-m", "one"]);
    root
}

fn head(folder: &Path) -> Option<String> {
    Some(git(folder, &["rev-parse", "HEAD"])[..7].to_owned())
}

/// The files that are watched, by their ends.
fn watches(folder: &Path, ends: &[&str]) -> bool {
    let watched = build::watched(folder);
    assert!(watched.iter().all(|path| path.exists()), "cargo would build always: {watched:?}");
    watched.len() == ends.len() && watched.iter().zip(ends).all(|(path, end)| path.ends_with(end))
}

#[test]
fn the_commit_of_a_checkout_and_of_its_worktrees_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let root = checkout(folder.path());
    assert_eq!(build::commit(&root), head(&root));
    assert!(watches(&root, &[".git/HEAD", ".git/refs/heads/trunk"]), "{:?}", build::watched(&root));
    git(&root, &["worktree", "add", "--quiet", "-b", "side", "../side"]);
    let side = folder.path().join("side");
    git(&side, &["commit", "--quiet", "--allow-empty", "-m", "two"]);
    assert_eq!(build::commit(&side), head(&side));
    assert_ne!(build::commit(&side), build::commit(&root));
    assert!(watches(&side, &["worktrees/side/HEAD", ".git/refs/heads/side"]), "{:?}", build::watched(&side));
    git(&root, &["pack-refs", "--all"]);
    let packed = [".git/HEAD", ".git/packed-refs", ".git/refs/heads"];
    assert!(watches(&root, &packed), "{:?}", build::watched(&root));
    git(&root, &["checkout", "--quiet", "--detach"]);
    assert!(watches(&root, &[".git/HEAD"]), "{:?}", build::watched(&root));
    assert_eq!(build::commit(&root), head(&root));
}

#[test]
fn what_is_no_checkout_of_the_project_has_the_commit_of_its_package_or_none() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!((build::commit(folder.path()), build::watched(folder.path())), (None, Vec::new()));
    let root = checkout(folder.path());
    // A package that cargo has unpacked in a checkout.
    let package = root.join("registry/package");
    fs::create_dir_all(&package).unwrap();
    fs::write(package.join("Cargo.toml"), "").unwrap();
    assert_eq!(build::commit(&package), None);
    let info = "{\n  \"git\": {\n    \"sha1\": \"0123456789abcdef0123456789abcdef01234567\"\n  },\n  \"path_in_vcs\": \"\"\n}";
    fs::write(package.join(".cargo_vcs_info.json"), info).unwrap();
    assert_eq!(build::commit(&package).as_deref(), Some("0123456"));
    // Vendored, it is in the checkout of who vendored it.
    git(&root, &["add", "registry"]);
    assert_eq!(build::commit(&package).as_deref(), Some("0123456"));
    fs::write(package.join(".cargo_vcs_info.json"), "{\"git\": {\"sha1\": \"$(x)\"}}").unwrap();
    assert_eq!(build::commit(&package), None);
}

#[test]
fn the_binary_names_the_commit_that_it_was_built_from() {
    let version: Value = serde_json::from_str(&run_words("version -o json").out).unwrap();
    let built = option_env!("FLEETWRIGHT_COMMIT").map(str::to_owned);
    let expected = built.or_else(|| build::commit(&from_root("crates/operator")));
    assert_eq!(version["commit"].as_str(), Some(expected.as_deref().unwrap_or("unknown")));
    let is_checkout = from_root(".git").exists();
    assert!(!is_checkout || version["commit"] != "unknown", "{version}");
}

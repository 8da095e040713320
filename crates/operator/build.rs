//! Finds the commit that `version` and the log name: FLEETWRIGHT_COMMIT of the environment, else that of the package, else that of the
//! checkout. A build that finds none has none; nothing fails.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The variable of the environment, and of the compiler.
const VARIABLE: &str = "FLEETWRIGHT_COMMIT";
/// Letters of a commit, as Karpenter's log has them.
const SHOWN: usize = 7;

fn main() {
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::vars_os().any(|(name, value)| name == VARIABLE && !value.is_empty()) {
        // The compiler reads it itself.
        return;
    }
    let folder = Path::new(".");
    for path in watched(folder) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    if let Some(commit) = commit(folder) {
        println!("cargo::rustc-env={VARIABLE}={commit}");
    }
}

/// The commit of the sources in a folder. That of a package comes first: a vendored package may lie in another project's checkout.
pub(crate) fn commit(folder: &Path) -> Option<String> {
    let whole = packaged(folder).or_else(|| git(folder, &["rev-parse", "--verify", "HEAD"]))?;
    let is_commit = whole.len() >= SHOWN && whole.bytes().all(|letter| letter.is_ascii_hexdigit());
    is_commit.then(|| whole[..SHOWN].to_owned())
}

/// The commit that `cargo package` has written.
fn packaged(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join(".cargo_vcs_info.json")).ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    rest.split('"').nth(1).map(str::to_owned)
}

/// The files that change with the commit of the checkout, in worktrees too: what is checked out, and where its branch is. A branch without a
/// file of its own is in the packed ones, and gets its file with the next commit.
pub(crate) fn watched(folder: &Path) -> Vec<PathBuf> {
    let path = |name: &str| git(folder, &["rev-parse", "--git-path", name]).map(|path| folder.join(path));
    let branch = git(folder, &["symbolic-ref", "--quiet", "HEAD"]);
    let of_branch = branch.and_then(|branch| path(&branch));
    let packed = of_branch.as_ref().filter(|file| !file.exists());
    let beside =
        packed.and_then(|file| file.ancestors().find(|folder| folder.is_dir()).map(Path::to_path_buf));
    let found = [path("HEAD"), of_branch.clone(), packed.and_then(|_| path("packed-refs")), beside];
    // Cargo takes a file that does not exist for one that has changed.
    found.into_iter().flatten().filter(|path| path.exists()).collect()
}

/// What git says, if this folder is part of a checkout: one in which another project lies, as a build folder may, is not this one's.
fn git(folder: &Path, args: &[&str]) -> Option<String> {
    let run = |args: &[&str]| {
        let output = Command::new("git").current_dir(folder).args(args).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        (output.status.success() && !text.is_empty()).then_some(text)
    };
    run(&["ls-files", "--error-unmatch", "--", "Cargo.toml"])?;
    run(args)
}

//! One call of the binary, in `tests/cli/` and without anything of the environment.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// A path from the root of the repository.
pub(crate) fn from_root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The binary, not yet started. It finds no kubeconfig, and its time zone and width are the same everywhere.
pub(crate) fn command(args: &[&str]) -> Command {
    named(Path::new(env!("CARGO_BIN_EXE_fleetwright")), args)
}

/// The same under another name.
pub(crate) fn named(binary: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command.args(args).env_clear().env("HOME", "/nonexistent").current_dir(from_root("tests/cli"));
    command.stdin(Stdio::null());
    command
}

/// A call that has ended.
pub(crate) struct Ended {
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
    /// The exit status.
    pub(crate) status: i32,
}

impl Ended {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self {
            out: text(&output.stdout),
            err: text(&output.stderr),
            status: output.status.code().expect("no signal ends it"),
        }
    }
}

/// Runs the binary.
pub(crate) fn run(args: &[&str]) -> Ended {
    Ended::of(&command(args).output().unwrap())
}

/// Runs the binary with these words, which have no spaces in them.
pub(crate) fn run_words(words: &str) -> Ended {
    run(&words.split_whitespace().collect::<Vec<_>>())
}

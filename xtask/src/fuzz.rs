//! `cargo xtask fuzz`: the targets of `fuzz/` with libFuzzer, each for a while or for a number of inputs. What it needs is a C++ compiler, for libFuzzer itself.
//!
//! The parsers have no unsafe code, so that coverage is all that is asked of the compiler: stable Rust has it, and nothing is installed.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::shell;

/// Which targets, and for how long.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The targets to run; all of them if none is named
    targets: Vec<String>,
    /// Seconds for each, with inputs of their own at each run
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Inputs for each in place of seconds, nearly the same ones at each run
    #[arg(long)]
    runs: Option<u32>,
}

/// What `cargo fuzz` passes for coverage.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// For what runs in CI: all targets, two minutes together. The inputs follow a fixed seed, so that what a change did not break is not red;
/// others are tried by hand. (Hash maps with random states make coverage differ a little.)
pub(crate) fn check() -> anyhow::Result<()> {
    run(&Args { targets: Vec::new(), seconds: 0, runs: Some(50_000) })
}

/// Builds the targets and runs them one after the other.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (folder, host) = (shell::root().join("fuzz"), host()?);
    let target = folder.join("target");
    // With a target platform, build scripts and macros are not instrumented.
    let mut build = shell::cargo(&["build", "--locked", "--release", "--target", &host]);
    build.current_dir(&folder).env("RUSTFLAGS", COVERAGE).env("CARGO_TARGET_DIR", &target);
    shell::run(build.env_remove("RUSTC_WORKSPACE_WRAPPER"))?;
    for name in targets(&folder, &args.targets)? {
        let corpus = folder.join("corpus").join(&name);
        std::fs::create_dir_all(&corpus).with_context(|| format!("cannot create {}", corpus.display()))?;
        let mut command = std::process::Command::new(target.join(&host).join("release").join(&name));
        command.current_dir(&folder).arg(&corpus).arg(folder.join("seeds").join(&name));
        match args.runs {
            Some(runs) => command.args([format!("-runs={runs}"), "-seed=1".to_owned()]),
            None => command.arg(format!("-max_total_time={}", args.seconds)),
        };
        command.arg("-max_len=20000");
        // A slow input is a finding, too.
        command.args(["-timeout=10", "-verbosity=0", "-print_final_stats=1"]);
        anstream::println!("-- {name}");
        shell::run(&mut command)?;
    }
    Ok(())
}

/// The targets of `folder` that are named, or all.
fn targets(folder: &Path, named: &[String]) -> anyhow::Result<Vec<String>> {
    let files = std::fs::read_dir(folder.join("fuzz_targets")).context("cannot read fuzz/fuzz_targets")?;
    let stem = |file: PathBuf| file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let mut all: Vec<String> = files.filter_map(|file| stem(file.ok()?.path())).collect();
    all.sort();
    let unknown = named.iter().find(|name| !all.contains(name));
    anyhow::ensure!(unknown.is_none(), "there is no target {unknown:?}; there are {}", all.join(", "));
    Ok(if named.is_empty() { all } else { named.to_vec() })
}

/// The platform of the compiler.
fn host() -> anyhow::Result<String> {
    let version = shell::capture(std::process::Command::new("rustc").arg("-vV").current_dir(shell::root()))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc -vV names no host")
}

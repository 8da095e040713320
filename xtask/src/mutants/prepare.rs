//! `cargo xtask mutants prepare`: the copy with mutants, and its build.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use super::find::{self, Mutant};
use super::rewrite::{self, Rewritten};
use super::sample::{self, MODULES};
use super::{Prepared, SampledMutant, TestSuite};
use crate::shell;

/// How often mutants that do not compile are taken out before the build is given up: each round finds at least one.
const ROUNDS_MAX: usize = 12;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Chooses the sample
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Mutants of all modules together
    #[arg(long, default_value_t = 450)]
    count: usize,
    /// Only modules with this text in their path
    #[arg(long)]
    module: Option<String>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let folder = super::folder()?;
    let sources = Sources::copied(&folder.join("source"))?;
    let mut prepared = sampled(args, &sources)?;
    let suites = built(&sources, &mut prepared)?;
    prepared.tests = tests(&sources, &suites)?;
    prepared.suites = suites;
    fs::write(folder.join("tests.jsonl"), "")?;
    fs::write(folder.join("prepared.json"), serde_json::to_vec(&prepared)?)?;
    anstream::println!("mutants: prepared {} with {} tests", prepared.mutants.len(), prepared.tests.len());
    Ok(())
}

/// The tracked files of the repository, copied.
struct Sources {
    root: PathBuf,
    files: Vec<String>,
}

impl Sources {
    fn copied(root: &Path) -> anyhow::Result<Self> {
        let mut git = Command::new("git");
        git.args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]).current_dir(shell::root());
        let list = shell::capture(&mut git)?;
        let files = list.split('\0').map(str::to_owned);
        let files: Vec<String> = files.filter(|file| shell::root().join(file).is_file()).collect();
        for file in files.iter().filter(|file| sample::module(file).is_none()) {
            let bytes = fs::read(shell::root().join(file)).with_context(|| file.clone())?;
            written(&root.join(file), &bytes)?;
        }
        Ok(Self { root: root.to_path_buf(), files })
    }

    fn original(&self, file: &str) -> anyhow::Result<String> {
        fs::read_to_string(shell::root().join(file)).with_context(|| file.to_owned())
    }
}

/// Writes a file if its content differs: cargo compiles by the time of change.
fn written(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|known| known == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes).with_context(|| path.display().to_string())
}

fn sampled(args: &Args, sources: &Sources) -> anyhow::Result<Prepared> {
    let wanted = |module: &&str| args.module.as_ref().is_none_or(|part| module.contains(part.as_str()));
    let modules: Vec<&str> = MODULES.into_iter().filter(wanted).collect();
    ensure!(!modules.is_empty(), "no module has {:?} in its path", args.module);
    let mut prepared = Prepared { seed: args.seed, ..Prepared::default() };
    for module in &modules {
        let mut all = Vec::new();
        for file in sources.files.iter().filter(|file| sample::module(file) == Some(module)) {
            all.extend(find::mutants(file, &sources.original(file)?).with_context(|| file.clone())?);
        }
        prepared.possible.push(((*module).to_owned(), all.len()));
        for mutant in sample::draw(all, args.count.div_ceil(modules.len()), args.seed) {
            let id = u32::try_from(prepared.mutants.len())? + 1;
            prepared.mutants.push(SampledMutant { id, module: (*module).to_owned(), mutant, viable: true });
        }
    }
    Ok(prepared)
}

/// Builds the copy; mutants that do not compile are taken out until it does.
fn built(sources: &Sources, prepared: &mut Prepared) -> anyhow::Result<Vec<TestSuite>> {
    for _ in 0..ROUNDS_MAX {
        let files = rewritten(sources, prepared)?;
        let mut cargo = shell::cargo(&["test", "--locked", "--no-run", "--lib", "--test", "scenarios"]);
        cargo.args(["--message-format=json", "--target-dir"]).arg(shell::workspace()?.target_directory);
        // Cargo names what it builds of a workspace by paths within the workspace. With a wrapper it has other names: without one, the
        // next build of the repository takes that of the copy for its own.
        cargo.current_dir(&sources.root).env("RUSTC_WORKSPACE_WRAPPER", "env").env("CARGO_INCREMENTAL", "0");
        let output = cargo.stderr(std::process::Stdio::inherit()).output().context("cannot start cargo")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let messages: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if output.status.success() {
            let suites = messages.iter().filter_map(|message| suite(sources, message));
            let mut suites: Vec<TestSuite> = suites.collect();
            suites.sort_by_key(|suite| (suite.scenarios, suite.folder.clone()));
            return Ok(suites);
        }
        let refused = refused(&messages, &files, prepared);
        if refused.is_empty() {
            let errors = messages.iter().map(|message| &message["message"]);
            let errors = errors.filter(|message| message["level"] == "error");
            let rendered = errors.filter_map(|error| error["rendered"].as_str());
            bail!(
                "the copy does not compile, and not because of a mutant:\n{}",
                rendered.collect::<String>()
            );
        }
        anstream::println!("mutants: {} do not compile", refused.len());
        let found = prepared.mutants.iter_mut().filter(|sampled| refused.contains(&sampled.id));
        found.for_each(|sampled| sampled.viable = false);
    }
    bail!("mutants do not compile after {ROUNDS_MAX} rounds");
}

/// Writes all files of the modules with the viable mutants.
fn rewritten(sources: &Sources, prepared: &Prepared) -> anyhow::Result<BTreeMap<String, Rewritten>> {
    let mut result = BTreeMap::new();
    for file in sources.files.iter().filter(|file| sample::module(file).is_some()) {
        let rewritten = rewrite::rewritten(&sources.original(file)?, &of_file(prepared, file));
        let declared = if file == "crates/state/src/lib.rs" { "\nmod mutants;\n" } else { "" };
        written(&sources.root.join(file), format!("{}{declared}", rewritten.text).as_bytes())?;
        result.insert(file.clone(), rewritten);
    }
    let core = sources.original("crates/core/src/lib.rs")? + "\nmod mutants;\n";
    written(&sources.root.join("crates/core/src/lib.rs"), core.as_bytes())?;
    for krate in ["core", "state"] {
        written(&sources.root.join(format!("crates/{krate}/src/mutants.rs")), rewrite::SWITCH.as_bytes())?;
    }
    Ok(result)
}

fn of_file<'a>(prepared: &'a Prepared, file: &str) -> Vec<(u32, &'a Mutant)> {
    let viable = prepared.mutants.iter().filter(|sampled| sampled.viable && sampled.mutant.file == file);
    viable.map(|sampled| (sampled.id, &sampled.mutant)).collect()
}

/// The mutants that rustc's errors point to.
fn refused(messages: &[Value], files: &BTreeMap<String, Rewritten>, prepared: &Prepared) -> BTreeSet<u32> {
    let errors = messages.iter().map(|message| &message["message"]).filter(|error| error["level"] == "error");
    let mut refused = BTreeSet::new();
    for span in errors.filter_map(|error| error["spans"].as_array()).flatten() {
        let (Some(file), Some(start), Some(end)) =
            (span["file_name"].as_str(), span["byte_start"].as_u64(), span["byte_end"].as_u64())
        else {
            continue;
        };
        if let (Some(rewritten), Ok(start), Ok(end)) =
            (files.get(file), usize::try_from(start), usize::try_from(end))
            && span["is_primary"] == true
        {
            refused.extend(rewritten.blamed(&(start..end), &of_file(prepared, file)));
        }
    }
    refused
}

/// The suite of an artifact of cargo, if its tests reach the modules.
fn suite(sources: &Sources, message: &Value) -> Option<TestSuite> {
    let binary = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
    let name = message["target"]["name"].as_str()?;
    let folder = match name {
        "fleetwright_core" | "fleetwright_state" | "fleetwright_controllers" => {
            sources.root.join("crates").join(name.strip_prefix("fleetwright_")?)
        }
        "scenarios" => sources.root.join("tests"),
        _ => return None,
    };
    Some(TestSuite { binary: binary.into(), folder, scenarios: name == "scenarios" })
}

/// Every test that can run alone: those that the binaries list, and each scenario.
fn tests(sources: &Sources, suites: &[TestSuite]) -> anyhow::Result<Vec<(usize, String)>> {
    let mut tests = Vec::new();
    for (number, suite) in suites.iter().enumerate() {
        let names: Vec<String> = if suite.scenarios {
            sources.files.iter().filter_map(|file| scenario(file)).collect()
        } else {
            let list = shell::capture(Command::new(&suite.binary).args(["--list", "--format", "terse"]))?;
            list.lines().filter_map(|line| Some(line.strip_suffix(": test")?.to_owned())).collect()
        };
        ensure!(!names.is_empty(), "{} has no tests", suite.binary.display());
        tests.extend(names.into_iter().map(|name| (number, name)));
    }
    Ok(tests)
}

/// What chooses the scenario of a file.
fn scenario(file: &str) -> Option<String> {
    let name = file.strip_prefix("tests/scenarios/")?.strip_suffix(".yaml")?;
    let known = name.split_once('/').is_none_or(|(folder, _)| matches!(folder, "aws" | "life" | "seeds"));
    known.then(|| format!("scenarios/{name}.yaml"))
}

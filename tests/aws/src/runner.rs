//! Runs the selected cases, each in an empty account, and reports the results.
//!
//! Cases mostly wait, so several lanes run side by side, each with a moto server and a proxy of its own. Within a lane cases run one after
//! the other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use fleetwright_tests::e2e::process::tail;
use fleetwright_tests::e2e::{Checks, interrupted};
use futures::future::try_join_all;
use tokio::time::Instant;

use crate::account::Account;
use crate::case::{Case, Cx};
use crate::cases;
use crate::proxy::Proxy;
use crate::venv;

/// No case takes longer than this, and none of minutes longer than twice of it; a hanging one must not hide what the others show.
const CASE_LIMIT: Duration = Duration::from_secs(600);

/// The command line of `cargo xtask e2e --tier aws`.
#[derive(Debug, clap::Parser)]
#[command(
    name = "cargo xtask e2e --tier aws",
    about = "The AWS provider over the real SDK against a moto server"
)]
pub(crate) struct Arguments {
    /// List the cases with what each of them shows, and stop
    #[arg(long)]
    list: bool,
    /// How many cases run side by side
    #[arg(long, default_value_t = 3, value_name = "COUNT")]
    lanes: usize,
    /// Of the chosen cases only every COUNT-th, from the first on, and none that takes minutes
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    every: usize,
    /// Write the metrics ports of the operators to files in this folder, for `file_sd_configs` of a Prometheus
    #[arg(long, value_name = "FOLDER", conflicts_with = "list")]
    scrape: Option<PathBuf>,
    /// The cases to run; all of them when absent
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
}

/// Paths on this host.
#[derive(Debug)]
pub(crate) struct Places {
    /// The operator's binary, built beside the runner's.
    operator: PathBuf,
    /// `target/` of the workspace: moto is installed here, runs keep their logs here.
    target: PathBuf,
    /// The repository.
    root: PathBuf,
    /// `PATH`, handed on to the processes.
    path: OsString,
}

impl Places {
    /// Derives all places from the runner's own: `target/<profile>/fleetwright-e2e-aws`.
    pub(crate) fn of(runner: &Path, path: OsString) -> anyhow::Result<Self> {
        let profile = runner.parent().context("the runner's own path has no folder")?;
        let target = profile.parent().context("the runner does not lie in target/<profile>/")?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
        Ok(Self {
            operator: profile.join(format!("fleetwright{}", std::env::consts::EXE_SUFFIX)),
            target: target.to_path_buf(),
            root: root.context("the crate does not lie in tests/")?.to_path_buf(),
            path,
        })
    }
}

/// Runs the cases that `arguments` choose and reports on `out`. True when all of them passed.
///
/// # Errors
/// When a chosen case does not exist, or moto cannot be started.
pub(crate) async fn run(arguments: &Arguments, places: &Places, out: &mut dyn Write) -> anyhow::Result<bool> {
    let mut chosen = choose(&cases::all(), &arguments.cases)?;
    if arguments.every > 1 {
        chosen.retain(|case| !case.is_long);
        chosen = chosen.into_iter().step_by(arguments.every).collect();
    }
    if arguments.list {
        for case in &chosen {
            writeln!(out, "{:<24} {}", case.name, case.shows)?;
        }
        return Ok(true);
    }
    // A signal drops everything below, and with it every process.
    tokio::select! {
        result = run_cases(&chosen, arguments, places, out) => result,
        signal = interrupted() => { signal?; bail!("interrupted") }
    }
}

fn choose(all: &[Case], names: &[String]) -> anyhow::Result<Vec<Case>> {
    let find = |name: &String| {
        let case = all.iter().find(|case| case.name == name);
        case.copied().with_context(|| format!("there is no case {name:?}; --list shows them"))
    };
    if names.is_empty() { Ok(all.to_vec()) } else { names.iter().map(find).collect() }
}

async fn run_cases(
    chosen: &[Case],
    arguments: &Arguments,
    places: &Places,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    let begin = Instant::now();
    let parent = places.target.join("e2e");
    std::fs::create_dir_all(&parent)?;
    // Kept until all cases have passed: a failure is understood from the logs.
    let folder = tempfile::Builder::new().prefix("aws-").tempdir_in(&parent)?.keep();
    writeln!(out, "e2e --tier aws, logs in {}", folder.display())?;
    let run = Run {
        places,
        scrape: arguments.scrape.as_deref(),
        python: venv::python(&places.target).await?,
        folder: &folder,
        queue: RefCell::new(chosen.iter().copied().collect()),
        out: RefCell::new(out),
    };
    let lanes = (1..=arguments.lanes.clamp(1, chosen.len())).map(|lane| run.lane(lane));
    let failed: usize = try_join_all(lanes).await?.into_iter().sum();
    if failed == 0 {
        std::fs::remove_dir_all(&folder)?;
    }
    let passed = chosen.len() - failed;
    run.say(&format!("{passed} passed, {failed} failed in {:.0} s\n", begin.elapsed().as_secs_f64()))?;
    Ok(failed == 0)
}

/// What the lanes of a run share.
struct Run<'a> {
    places: &'a Places,
    /// Where a Prometheus looks for operators.
    scrape: Option<&'a Path>,
    /// The Python that has moto.
    python: PathBuf,
    folder: &'a Path,
    /// Cases that have not started. Never borrowed across an await, nor is `out`.
    queue: RefCell<VecDeque<Case>>,
    out: RefCell<&'a mut dyn Write>,
}

impl Run<'_> {
    /// Starts an account and runs cases in it until none is left. Returns how many failed.
    async fn lane(&self, lane: usize) -> anyhow::Result<usize> {
        let folder = self.folder.join(format!("lane-{lane}"));
        std::fs::create_dir_all(&folder)?;
        let begin = Instant::now();
        let mut account = Account::start(&self.python, &folder, self.places.path.clone()).await?;
        let proxy = Proxy::start(account.url.clone()).await?;
        self.say(&format!("lane {lane}: moto started in {:.1} s\n", begin.elapsed().as_secs_f64()))?;
        let mut failed = 0;
        loop {
            let next = self.queue.borrow_mut().pop_front();
            let Some(case) = next else { return Ok(failed) };
            account.check_running()?;
            let (result, took, figures) = self.attempt(&case, &account, &proxy).await?;
            failed += usize::from(result.is_err());
            self.report(&case, result, took, &figures)?;
        }
    }

    /// Runs one case in an empty account. An error here is none of the case's.
    async fn attempt(
        &self,
        case: &Case,
        account: &Account,
        proxy: &Proxy,
    ) -> anyhow::Result<(anyhow::Result<usize>, Duration, Vec<String>)> {
        let begin = Instant::now();
        account.reset().await?;
        proxy.reset();
        let folder = self.folder.join(case.name);
        std::fs::create_dir_all(&folder)?;
        let mut cx = Cx {
            account,
            proxy,
            operator: self.places.operator.clone(),
            root: self.places.root.clone(),
            folder,
            path: self.places.path.clone(),
            authority: String::new(),
            checks: Checks::default(),
            figures: Vec::new(),
            scrape: self.scrape.map(Path::to_path_buf),
        };
        let whole = async {
            cx.prepare().await.context("preparing the account")?;
            (case.run)(&mut cx).await
        };
        let limit = if case.is_long { 2 * CASE_LIMIT } else { CASE_LIMIT };
        let result = match tokio::time::timeout(limit, whole).await {
            Ok(result) => result,
            Err(_) => Err(anyhow::anyhow!("not over after {limit:?}")),
        };
        let verdict = cx.checks.verdict(result);
        if verdict.is_err() {
            record_calls(proxy, &cx.folder);
        }
        Ok((verdict, begin.elapsed(), cx.figures))
    }

    fn report(
        &self,
        case: &Case,
        result: anyhow::Result<usize>,
        took: Duration,
        figures: &[String],
    ) -> anyhow::Result<()> {
        let (name, seconds) = (case.name, took.as_secs_f64());
        match result {
            Ok(checks) => {
                let figures: String = figures.iter().map(|figure| format!("  {figure}\n")).collect();
                let shows = case.shows;
                self.say(&format!("{name:<20} ok    {seconds:5.1} s {checks:3} checks: {shows}\n{figures}"))
            }
            Err(error) => {
                let logs = logs(&self.folder.join(name));
                self.say(&format!("{name:<20} FAILED {seconds:4.1} s\n  {error:#}\n{logs}\n"))
            }
        }
    }

    /// Lanes print whole lines.
    fn say(&self, text: &str) -> anyhow::Result<()> {
        let mut out = self.out.borrow_mut();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }
}

/// Records the calls, to debug a failure.
fn record_calls(proxy: &Proxy, folder: &Path) {
    let line = |call: &fleetwright_aws_emulator::call::Call| {
        format!("{} {} {} {}\n", call.access_key, call.service, call.action, call.status)
    };
    let text: String = proxy.calls().iter().map(line).collect();
    // What cannot be written is missed, but must not hide the failure itself.
    let _ = std::fs::write(folder.join("calls.log"), text);
}

/// The ends of all logs in `folder`.
fn logs(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut logs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.sort();
    logs.iter().map(|log| format!("  {}:\n{}", log.display(), tail(log, 12))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_case_is_not_skipped_silently() {
        let all = cases::all();
        assert_eq!(choose(&all, &[]).unwrap().len(), all.len());
        assert_eq!(choose(&all, &["launch".to_owned()]).unwrap().len(), 1);
        assert!(choose(&all, &["lunch".to_owned()]).is_err());
    }

    #[test]
    fn cases_have_names_of_their_own_and_say_what_they_show() {
        let all = cases::all();
        let distinct: std::collections::BTreeSet<_> = all.iter().map(|case| case.name).collect();
        assert_eq!(distinct.len(), all.len());
        assert!(all.iter().all(|case| case.shows.len() > 20));
    }
}

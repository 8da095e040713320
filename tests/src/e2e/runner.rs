//! Runs the selected cases and reports the results.
//!
//! Cases mostly wait, so several lanes run side by side: each has a control plane, a cloud and an operator of its own, and
//! takes the next case when it has finished one. Within a lane cases run one after the other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::future::try_join_all;
use tokio::time::Instant;

use super::arguments::{Arguments, Environment, Tier};
use super::assets::Assets;
use super::case::{Case, Cx};
use super::cases;
use super::cloud::CloudPace;
use super::installation::Installation;
use super::price;
use super::process::tail;
use super::server::Server;
use super::speed;
use super::world::LaneWorld;

/// No case takes longer than this; a hanging one must not hide what the others show. Karpenter takes its own time, twice in a case.
const CASE_LIMIT: Duration = Duration::from_secs(600);

/// Lines of each log shown for a failed case.
const TAIL_LINES: usize = 12;

/// Runs the cases that `arguments` choose and reports on `out`. True when all of them passed.
///
/// # Errors
/// When no case is chosen, a chosen one does not exist, or the tier cannot be started.
pub async fn run(
    arguments: &Arguments,
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    if arguments.speed {
        return tokio::select! {
            result = measure(arguments, environment, out) => result,
            signal = interrupted() => { signal?; bail!("interrupted") }
        };
    }
    if arguments.price {
        return tokio::select! {
            result = measure_price(arguments, environment, out) => result,
            signal = interrupted() => { signal?; bail!("interrupted") }
        };
    }
    if !arguments.exec.is_empty() {
        return tokio::select! {
            result = execute(arguments, environment, out) => result,
            signal = interrupted() => { signal?; bail!("interrupted") }
        };
    }
    let chosen = choose(&cases::all(), &arguments.cases, arguments.tier)?;
    if arguments.list {
        for case in &chosen {
            writeln!(out, "{:<24} {}", case.name, case.shows)?;
        }
        return Ok(true);
    }
    if arguments.bless && !arguments.tier.is_real() {
        bail!("--bless records what a real API server says: it needs --tier kube or karpenter");
    }
    // A signal drops everything below, and with it every process.
    tokio::select! {
        result = run_cases(arguments, environment, &chosen, out) => result,
        signal = interrupted() => { signal?; bail!("interrupted") }
    }
}

/// Ctrl-C, or SIGTERM as a CI system sends it.
///
/// # Errors
/// Where signals cannot be listened for.
pub async fn interrupted() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            result = tokio::signal::ctrl_c() => result,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

/// The named cases, or all that make sense on `tier`.
fn choose(all: &[Case], names: &[String], tier: Tier) -> anyhow::Result<Vec<Case>> {
    // The cases beside Karpenter are by themselves: the others are of the controller that runs there alone.
    let fits = |case: &Case| case.only.map_or(tier != Tier::Karpenter, |only| only == tier);
    let mut chosen = Vec::new();
    for name in names {
        let case = all.iter().find(|case| case.name == name);
        let case = case.with_context(|| format!("there is no case {name:?}; --list shows them"))?;
        if !fits(case) {
            bail!("the case {name:?} makes no sense on --tier {}", tier.name());
        }
        chosen.push(*case);
    }
    if names.is_empty() {
        chosen.extend(all.iter().filter(|case| fits(case)));
    }
    if chosen.is_empty() {
        bail!("there are no cases for --tier {}", tier.name());
    }
    Ok(chosen)
}

async fn run_cases(
    arguments: &Arguments,
    environment: &Environment,
    chosen: &[Case],
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    let seed = match arguments.seed {
        Some(seed) => seed,
        None => draw_seed()?,
    };
    let folder = run_folder(environment, arguments.tier)?;
    let begin = Instant::now();
    writeln!(out, "e2e --tier {} --seed {seed}, logs in {}", arguments.tier.name(), folder.display())?;
    let assets = Assets::find(arguments.tier, environment, out)?;
    let run = Run {
        arguments,
        environment,
        assets,
        seed,
        folder: &folder,
        queue: RefCell::new(chosen.iter().copied().collect()),
        out: RefCell::new(out),
    };
    let lanes = arguments.lanes.clamp(1, chosen.len());
    let failed: usize = try_join_all((1..=lanes).map(|lane| run.lane(lane))).await?.into_iter().sum();
    if failed == 0 {
        std::fs::remove_dir_all(&folder)?;
    }
    let passed = chosen.len() - failed;
    writeln!(
        run.out.into_inner(),
        "{passed} passed, {failed} failed in {:.0} s",
        begin.elapsed().as_secs_f64()
    )?;
    Ok(failed == 0)
}

/// Measures on one world, and prints the table.
async fn measure(
    arguments: &Arguments,
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    let folder = run_folder(environment, arguments.tier)?;
    writeln!(out, "e2e --tier {} --speed, logs in {}", arguments.tier.name(), folder.display())?;
    let assets = Assets::find(arguments.tier, environment, out)?;
    let mut world =
        LaneWorld::start(arguments.tier, environment, &assets, folder.clone(), CloudPace::Quick).await?;
    let mut rows = Vec::new();
    let usual = vec![1000, 5000];
    for &pods in if arguments.pods.is_empty() { &usual } else { &arguments.pods } {
        speed::announce(pods, out)?;
        // A new process for each, so that its memory is that of this measurement.
        world.operator.stop().await?;
        world.operator.unset();
        world.operator.set(&speed::PACE);
        world.operator.start()?;
        world.operator.wait_ready().await?;
        rows.push(speed::measure(&mut world, pods).await?);
    }
    speed::print(arguments.tier, &rows, out)?;
    drop(world);
    std::fs::remove_dir_all(&folder)?;
    Ok(true)
}

/// Measures the realized price of fleets, each on a world of its own, and prints the table of the simulated twin. True when no
/// disruption is at fault.
async fn measure_price(
    arguments: &Arguments,
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    anyhow::ensure!(
        arguments.tier == Tier::Kube,
        "--price measures what kube-scheduler makes of plans: --tier kube"
    );
    let assets = Assets::find(arguments.tier, environment, out)?;
    let usual = vec![120];
    let mut is_good = true;
    for &pods in if arguments.pods.is_empty() { &usual } else { &arguments.pods } {
        let fleet = price::fleet(arguments, pods);
        let folder = run_folder(environment, arguments.tier)?;
        writeln!(out, "e2e --price, {pods} pods, seed {}, logs in {}", fleet.seed, folder.display())?;
        out.flush()?;
        let pace = CloudPace::Realistic(fleet.seed);
        let mut world = LaneWorld::start(arguments.tier, environment, &assets, folder.clone(), pace).await?;
        let is_quiet = price::measure(&mut world, fleet, arguments.nominate, out).await?;
        drop(world);
        if is_quiet {
            std::fs::remove_dir_all(&folder)?;
        }
        is_good &= is_quiet;
    }
    Ok(is_good)
}

/// Runs a command beside an API server that is its own. True when it succeeds.
async fn execute(
    arguments: &Arguments,
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    let folder = run_folder(environment, arguments.tier)?;
    writeln!(out, "e2e --tier {} --exec, logs in {}", arguments.tier.name(), folder.display())?;
    let assets = Assets::find(arguments.tier, environment, out)?;
    let installation = Installation::read(&environment.root.join("deploy"))?;
    let server = Server::start(arguments.tier, environment, &assets, &folder, &installation.accounts).await?;
    let (program, args) = arguments.exec.split_first().context("--exec needs a command")?;
    let mut command = tokio::process::Command::new(program);
    command.args(args).env("KUBECONFIG", &server.kubeconfigs.admin).kill_on_drop(true);
    let status = command.status().await.with_context(|| format!("cannot start {program}"))?;
    drop(server);
    if status.success() {
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(status.success())
}

/// What the lanes of a run share.
struct Run<'a> {
    arguments: &'a Arguments,
    environment: &'a Environment,
    assets: Assets,
    seed: u64,
    folder: &'a Path,
    /// Cases that have not started. Never borrowed across an await, nor is `out`.
    queue: RefCell<VecDeque<Case>>,
    out: RefCell<&'a mut dyn Write>,
}

impl Run<'_> {
    /// Starts a world and runs cases in it until none is left. Returns how many failed.
    async fn lane(&self, lane: usize) -> anyhow::Result<usize> {
        let folder = self.folder.join(format!("lane-{lane}"));
        let begin = Instant::now();
        let (tier, pace) = (self.arguments.tier, CloudPace::Quick);
        let started = LaneWorld::start(tier, self.environment, &self.assets, folder.clone(), pace).await;
        let mut world = match started {
            Ok(world) => world,
            Err(error) => {
                self.say(&logs(&folder))?;
                return Err(error.context("the tier does not start"));
            }
        };
        if let Some(folder) = &self.arguments.scrape {
            std::fs::write(folder.join(format!("lane-{lane}.json")), world.operator.scrape_target())?;
        }
        self.say(&format!("lane {lane} started in {:.1} s\n", begin.elapsed().as_secs_f64()))?;
        let mut failed = 0;
        loop {
            let next = self.queue.borrow_mut().pop_front();
            let Some(case) = next else { return Ok(failed) };
            if !self.case(&mut world, &case).await? {
                failed += 1;
            }
        }
    }

    /// Lanes print whole lines.
    fn say(&self, text: &str) -> anyhow::Result<()> {
        let mut out = self.out.borrow_mut();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }

    /// Runs one case and cleans up after it. An error here means that the report cannot be written.
    async fn case(&self, world: &mut LaneWorld, case: &Case) -> anyhow::Result<bool> {
        let begin = Instant::now();
        let result = attempt(world, case, self.seed, self.arguments.bless).await;
        let seconds = begin.elapsed().as_secs_f64();
        let name = case.name;
        let error = match result {
            Ok(checks) => {
                self.say(&format!("{name:<26} ok    {seconds:5.1} s  {checks:3} checks: {}\n", case.shows))?;
                return Ok(true);
            }
            Err(error) => error,
        };
        let folder = world.folder.display();
        self.say(&format!(
            "{name:<26} FAILED {seconds:4.1} s\n  {error:#}\n  logs and the objects of that moment are in {folder}\n{}",
            logs(&world.folder)
        ))?;
        // The next case deserves a clean start, whatever happened to the operator in this one.
        if let Err(error) = restart(world).await {
            self.say(&format!("  cannot start again: {error:#}\n"))?;
        }
        Ok(false)
    }
}

async fn attempt(world: &mut LaneWorld, case: &Case, seed: u64, bless: bool) -> anyhow::Result<usize> {
    let mut cx = Cx::new(world, case.name, seed, bless);
    let history = cx.watch().await?;
    let result = match tokio::time::timeout(CASE_LIMIT, (case.run)(&mut cx)).await {
        Ok(result) => result.and_then(|()| cx.judge_foresight(&history.seen())),
        Err(_) => Err(anyhow::anyhow!("not over after {CASE_LIMIT:?}")),
    };
    drop(history);
    let verdict = cx.verdict(result);
    if verdict.is_err() {
        record_state(cx.world, case.name).await;
    }
    // Whatever a case did to the operator ends with it: what is left to do takes an operator as all cases have it.
    if cx.world.operator.unset() || cx.world.operator.id().is_none() {
        restart(cx.world).await.context("restarting the operator after the case")?;
    }
    let cleaned = match verdict {
        Ok(_) => match cx.clean_up().await.context("cleaning up") {
            Ok(()) => Ok(()),
            Err(error) => {
                record_state(cx.world, case.name).await;
                Err(error)
            }
        },
        Err(_) => {
            // The failure is reported, whatever the result of the cleanup.
            let _ = tokio::time::timeout(CASE_LIMIT, cx.clean_up()).await;
            Ok(())
        }
    };
    let checks = verdict?;
    cleaned?;
    match world.operator.panic_line() {
        Some(line) => bail!("the operator panicked: {line}"),
        None => Ok(checks),
    }
}

async fn restart(world: &mut LaneWorld) -> anyhow::Result<()> {
    world.cloud.heal().await?;
    world.operator.kill().await?;
    world.operator.unset();
    world.operator.start()?;
    world.operator.wait_ready().await
}

fn draw_seed() -> anyhow::Result<u64> {
    let mut bytes = [0_u8; 4];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| anyhow::anyhow!("the system has no randomness"))?;
    // Half the width: short enough to be typed again.
    Ok(u64::from(u32::from_le_bytes(bytes)))
}

/// A new folder for the files and logs of this run, `target/e2e/<tier>-<n>`.
fn run_folder(environment: &Environment, tier: Tier) -> anyhow::Result<PathBuf> {
    let parent = environment.target.join("e2e");
    std::fs::create_dir_all(&parent)?;
    let folder = tempfile::Builder::new().prefix(&format!("{}-", tier.name())).tempdir_in(&parent)?;
    // Kept until all cases have passed: a failure is understood from the logs.
    Ok(folder.keep())
}

/// The ends of all logs in `folder`.
fn logs(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut logs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.sort();
    logs.iter().map(|log| format!("  {}:\n{}", log.display(), tail(log, TAIL_LINES))).collect()
}

/// Writes all objects that a failure may be understood from into one file.
async fn record_state(world: &LaneWorld, case: &str) {
    let path = world.folder.join(format!("objects-{case}.txt"));
    let mut text = String::new();
    for args in [
        &["get", "nodepools,nodeclaims,nodes", "-o", "wide"][..],
        &["get", "deployments,pods", "-A", "-o", "wide"],
        &["get", "events", "-A", "--sort-by=.lastTimestamp"],
        &["get", "nodepools,nodeclaims,nodes", "-o", "yaml"],
    ] {
        text.push_str(&format!("--- kubectl {}\n", args.join(" ")));
        match world.kubectl.call(args, None).await {
            Ok(answer) => text.extend([answer.stdout, answer.stderr]),
            Err(error) => text.push_str(&format!("{error:#}\n")),
        }
    }
    // A state that cannot be written is missed, but must not hide the failure itself.
    let _ = std::fs::write(&path, text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &'static str, only: Option<Tier>) -> Case {
        Case { name, shows: "", only, run: |_| Box::pin(async { Ok(()) }) }
    }

    fn names(chosen: &[Case]) -> Vec<&'static str> {
        chosen.iter().map(|case| case.name).collect()
    }

    #[test]
    fn choosing() {
        let all =
            [case("a", None), case("b", Some(Tier::Kube)), case("c", None), case("k", Some(Tier::Karpenter))];
        let choose = |wanted: &[&str], tier| {
            choose(&all, &wanted.iter().map(|&name| name.to_owned()).collect::<Vec<_>>(), tier)
        };
        assert_eq!(names(&choose(&[], Tier::Kube).unwrap()), ["a", "b", "c"]);
        assert_eq!(names(&choose(&[], Tier::FakeKube).unwrap()), ["a", "c"]);
        assert_eq!(names(&choose(&[], Tier::Karpenter).unwrap()), ["k"]);
        assert_eq!(names(&choose(&["c", "a"], Tier::Kube).unwrap()), ["c", "a"]);
        assert!(choose(&["b"], Tier::FakeKube).is_err(), "a case of another tier is not skipped silently");
        assert!(choose(&["d"], Tier::Kube).is_err(), "a mistyped case is not skipped silently");
    }

    #[test]
    fn nothing_to_run_is_no_success() {
        assert!(choose(&[case("b", Some(Tier::Kube))], &[], Tier::FakeKube).is_err());
    }

    #[test]
    fn real_cases_have_names_of_their_own_and_say_what_they_show() {
        let all = cases::all();
        let distinct: std::collections::BTreeSet<_> = all.iter().map(|case| case.name).collect();
        assert_eq!(distinct.len(), all.len());
        for case in all {
            // The name is part of a namespace.
            let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(case.name.len() <= 40 && case.name.chars().all(valid), "{}", case.name);
            assert!(case.shows.len() > 20, "{} shows what?", case.name);
        }
    }
}

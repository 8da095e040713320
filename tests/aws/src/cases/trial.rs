//! The trial of a real account (`--tier aws-live`), as a process, in the account of the emulator: what it tries, what it may spend, and that
//! nothing runs after it, however it ends.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use fleetwright_tests::e2e::process::Recipe;
use jiff::SignedDuration;
use serde_json::Value;

use crate::account::REGION;
use crate::case::Cx;
use crate::cluster::NAME;
use crate::stage::eventually;

/// How long a trial may take, and a clean-up, which waits for a quiet minute.
const TRIAL_LIMIT: Duration = Duration::from_secs(240);

/// The runner with these arguments, against the emulator.
fn tool(cx: &Cx<'_>, name: &'static str, args: &[&str]) -> Recipe {
    let args = ["live", "--cluster", NAME].iter().chain(args).map(|arg| (*arg).to_owned());
    let env = [
        ("AWS_ENDPOINT_URL", cx.proxy.url.as_str()),
        ("AWS_REGION", REGION),
        ("AWS_ACCESS_KEY_ID", "OURS"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ];
    let path = [("PATH", cx.path.clone())];
    Recipe {
        name,
        program: cx.operator.with_file_name("fleetwright-e2e-aws"),
        args: args.collect(),
        env: env.map(|(key, value)| (key, value.into())).into_iter().chain(path).collect(),
        logs: cx.folder.clone(),
    }
}

/// Images of Bottlerocket, which the other cases do not use.
async fn bottlerocket(cx: &Cx<'_>) -> anyhow::Result<()> {
    for variant in ["", "-nvidia"] {
        for (arch, folder) in [("x86_64", "x86_64"), ("arm64", "arm64")] {
            let id = cx.account.create_image(&format!("bottlerocket{variant}-{arch}"), arch).await?;
            let parameter =
                format!("/aws/service/bottlerocket/aws-k8s-1.35{variant}/{folder}/latest/image_id");
            cx.proxy.rules(|rules| {
                rules.images.architectures.insert(id.clone(), arch);
                rules.parameters.insert(parameter, id);
            });
        }
    }
    Ok(())
}

/// What of trials is in the account: instances that are not terminated, launch templates, instance profiles.
async fn left(cx: &Cx<'_>) -> anyhow::Result<[usize; 3]> {
    let account = cx.account;
    Ok([account.instances().await?.len(), account.templates().await?.len(), account.profiles().await?.len()])
}

fn log(recipe: &Recipe) -> anyhow::Result<String> {
    Ok(std::fs::read_to_string(recipe.log())?)
}

/// The lines of a trial, by what they are about.
fn line<'a>(log: &'a str, name: &str) -> anyhow::Result<&'a str> {
    let own = log.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with("  ")));
    own.with_context(|| format!("no line about {name} in\n{log}"))
}

pub(super) async fn spends(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    bottlerocket(cx).await?;
    let dry = tool(cx, "trial-dry", &["--dry-run", "--role", "nodes"]);
    let process = dry.start()?;
    let status = process.wait(TRIAL_LIMIT).await?;
    let said = log(&dry)?;
    cx.check(format!("the dry run is over: {status}\n{said}"), status.code().is_some())?;
    for name in ["al2023", "bottlerocket", "al2023-gpu", "encrypted-volume", "enclave"] {
        let line = line(&said, name)?;
        cx.check(line, line.contains(" ok "))?;
    }
    cx.equal("instances, templates and profiles after the dry run", &left(cx).await?, &[0; 3])?;
    cx.equal("launches of the dry run", &mutating(cx, 0, "CreateFleet"), &0)?;

    let before = cx.proxy.mark();
    let record = cx.folder.join("trial.json").display().to_string();
    let spend = tool(cx, "trial-spend", &["--spend", "1usd", "--role", "nodes", "--record", &record]);
    spend.start()?.wait(TRIAL_LIMIT).await?;
    let said = log(&spend)?;
    let ran: Vec<&str> = said.lines().filter(|line| line.contains(" ran after ")).collect();
    let without = said.lines().filter(|line| line.contains("not launched: ")).count();
    let fleets = mutating(cx, before, "CreateFleet");
    cx.equal("nodes that ran, one launch each", &ran.len(), &fleets)?;
    cx.check(format!("families and features that ran:\n{said}"), ran.len() >= 6 && without >= 1)?;
    for name in ["launch al2023", "launch bottlerocket", "launch al2023-gpu"] {
        let line = line(&said, name)?;
        cx.check(line, line.contains(" ran after "))?;
    }
    cx.equal("instances, templates and profiles after the launches", &left(cx).await?, &[0; 3])?;
    let document: Value = serde_json::from_str(&std::fs::read_to_string(record)?)?;
    let recorded = document["calls"].as_array().map(Vec::len).unwrap_or_default();
    cx.equal("recorded calls", &recorded, &cx.proxy.calls().len().saturating_sub(before))?;
    cx.figures.push(format!("{} nodes ran, {recorded} calls were recorded", ran.len()));
    Ok(())
}

/// Calls of an action since a mark that were no dry runs.
fn mutating(cx: &Cx<'_>, since: usize, action: &str) -> usize {
    cx.proxy.mutations(since).iter().filter(|own| *own == action).count()
}

pub(super) async fn killed(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    bottlerocket(cx).await?;
    // What is launched by a call that a killed process does not see answered is seen late.
    cx.proxy.rules(|rules| rules.delays.instances = SignedDuration::from_secs(20));
    let args = ["--spend", "1usd", "--role", "nodes"];

    let guarded = tool(cx, "trial-guarded", &args);
    cx.proxy.trap("CreateFleet", true);
    let process = guarded.start()?;
    tokio::time::timeout(TRIAL_LIMIT, cx.proxy.sprung()).await.context("nothing was launched")?;
    cx.equal("instances when the trial is killed", &left(cx).await?[0], &1)?;
    process.kill().await?;
    eventually("the guard is done", TRIAL_LIMIT, async || {
        ensure!(log(&guarded)?.contains("nothing of a trial is left"), "{}", log(&guarded)?);
        Ok(())
    })
    .await?;
    cx.equal("instances, templates and profiles after the guard", &left(cx).await?, &[0; 3])?;

    let alone = tool(cx, "trial-alone", &args);
    cx.proxy.trap("CreateFleet", true);
    let process = alone.start()?;
    tokio::time::timeout(TRIAL_LIMIT, cx.proxy.sprung()).await.context("nothing was launched")?;
    let said = log(&alone)?;
    let guard = said.lines().find_map(|line| line.strip_prefix("guard: process ")).context("no guard")?;
    let kill = tokio::process::Command::new("kill").args(["-9", guard]).status().await?;
    cx.check(format!("the guard is killed: {kill}"), kill.success())?;
    process.kill().await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    cx.equal("instances when both are killed", &left(cx).await?[0], &1)?;
    let cleanup = tool(cx, "trial-cleanup", &["--cleanup"]);
    let status = cleanup.start()?.wait(TRIAL_LIMIT).await?;
    let said = log(&cleanup)?;
    cx.check(format!("the clean-up ends well: {status}\n{said}"), status.success())?;
    cx.check(format!("and says what it terminated:\n{said}"), said.contains("removed i-"))?;
    cx.equal("instances, templates and profiles after the clean-up", &left(cx).await?, &[0; 3])
}

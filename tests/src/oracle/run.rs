//! Runs clusters through the judges, several side by side, and reports.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use futures::future::try_join_all;
use tokio::time::Instant;

use super::api::Api;
use super::arguments::Arguments;
use super::control_plane::{self, ControlPlane};
use super::generator::Cluster;
use super::judge::{Judge, Verdict};
use super::planner::Planner;
use super::plant::{PLANTS, Plant};
use super::report::{self, Figures};
use super::{catalogue, disruption, file, shrink};
use crate::e2e::judge::Assets;
use crate::e2e::{Environment, Tier, interrupted};

/// Failing clusters that are shrunk; each takes up to a minute or two.
const SHRUNK_MAX: usize = 3;

/// How much longer is waited where a verdict is confirmed.
const PATIENCE: u32 = 4;

/// A run, shared by its lanes.
struct Run<'a> {
    arguments: &'a Arguments,
    folder: PathBuf,
    planner: Planner,
    queue: RefCell<VecDeque<Cluster>>,
    figures: RefCell<Figures>,
    out: RefCell<&'a mut dyn Write>,
}

/// Judges what `arguments` choose and reports on `out`. True when planner and kube-scheduler agree.
///
/// # Errors
/// Where a control plane cannot be started, or the planner fails.
pub async fn run(
    arguments: &Arguments,
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    if arguments.list_plants {
        let is_meant = |plant: &Plant| !arguments.disruption || plant.changes_objects();
        for plant in PLANTS.into_iter().filter(is_meant) {
            writeln!(out, "{:<18} the planner does not see {}", plant.name, plant.what)?;
        }
        return Ok(true);
    }
    if arguments.disruption {
        return tokio::select! {
            result = disruption::start(arguments, environment, out) => result,
            signal = interrupted() => { signal?; bail!("interrupted") }
        };
    }
    tokio::select! {
        result = start(arguments, environment, out) => result,
        signal = interrupted() => { signal?; bail!("interrupted") }
    }
}

async fn start(
    arguments: &Arguments,
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    let folder = environment.target.join("oracle");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let instance_types = folder.join("instance-types.json");
    std::fs::write(&instance_types, serde_json::to_string_pretty(&catalogue::file())?)?;
    let planner = Planner { program: environment.operator.clone(), instance_types };
    if arguments.write {
        for cluster in arguments.clusters()? {
            let path = file::write(&folder, &cluster, &[format!("{:?}", cluster.features)], &planner)?;
            writeln!(out, "{}", path.display())?;
        }
        return Ok(true);
    }
    let assets = Assets::find(Tier::Kube, environment, out)?;
    let begin = Instant::now();
    let run = Run {
        arguments,
        folder,
        planner,
        queue: RefCell::default(),
        figures: RefCell::default(),
        out: RefCell::new(out),
    };
    let lanes = (0..arguments.lanes()).map(|lane| run.start_judge(lane, environment, &assets));
    let mut judges = try_join_all(lanes).await?;
    let Some(name) = &arguments.plant else {
        run.queue.replace(arguments.clusters()?.into());
        try_join_all(judges.iter_mut().map(|judge| run.lane(judge))).await?;
        let figures = run.figures.borrow();
        figures.print(begin.elapsed(), &mut **run.out.borrow_mut())?;
        return Ok(figures.failed == 0);
    };
    let chosen: Vec<Plant> = PLANTS.into_iter().filter(|plant| name == "all" || name == plant.name).collect();
    anyhow::ensure!(!chosen.is_empty(), "there is no planted fault {name:?}; --list-plants shows them");
    let mut all_caught = true;
    for plant in chosen {
        all_caught &= run.plant(&mut judges, plant).await?;
    }
    Ok(all_caught)
}

impl Run<'_> {
    async fn start_judge(
        &self,
        lane: usize,
        environment: &Environment,
        assets: &Assets,
    ) -> anyhow::Result<Judge> {
        let folder = self.folder.join(format!("lane-{lane}"));
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => std::fs::create_dir_all(&folder)?,
        }
        let accounts = control_plane::accounts(&environment.root)?;
        let (control_plane, client) = ControlPlane::start(assets, &folder, &accounts).await?;
        let (patience, nominates) = (1, self.arguments.nominate);
        Ok(Judge { api: Api(client), control_plane, planner: self.planner.clone(), patience, nominates })
    }

    /// Judges clusters until none is left.
    async fn lane(&self, judge: &mut Judge) -> anyhow::Result<()> {
        loop {
            let Some(cluster) = self.queue.borrow_mut().pop_front() else { return Ok(()) };
            let (verdict, is_confirmed) =
                confirmed(judge, &cluster, None).await.context(cluster.name.clone())?;
            let is_new = {
                let mut figures = self.figures.borrow_mut();
                if !is_confirmed {
                    figures.add_unconfirmed();
                }
                figures.add(&verdict)
            };
            if is_new {
                self.report(judge, &cluster, &verdict, None).await?;
            }
        }
    }

    /// Prints a failing cluster, and writes it and a smaller one that fails too.
    async fn report(
        &self,
        judge: &mut Judge,
        cluster: &Cluster,
        verdict: &Verdict,
        plant: Option<Plant>,
    ) -> anyhow::Result<()> {
        let lines = report::refusals(cluster, verdict);
        for line in &lines {
            writeln!(self.out.borrow_mut(), "{line}")?;
        }
        let path = file::write(&self.folder, cluster, &lines, &self.planner)?;
        self.tell_file(&path)?;
        let count = self.figures.borrow().failed;
        if !self.arguments.no_shrink && count <= SHRUNK_MAX {
            let small = shrink::shrink(judge, cluster, plant).await?;
            let verdict = judge.judge(&small, plant).await?;
            let lines = report::refusals(&small, &verdict);
            self.tell_file(&file::write(&self.folder, &small, &lines, &self.planner)?)?;
        }
        Ok(())
    }

    fn tell_file(&self, path: &Path) -> anyhow::Result<()> {
        Ok(writeln!(self.out.borrow_mut(), "  cargo xtask oracle --file {}", path.display())?)
    }

    /// Plants a fault until a cluster shows it. True when one does.
    async fn plant(&self, judges: &mut [Judge], plant: Plant) -> anyhow::Result<bool> {
        let begin = Instant::now();
        let chosen = self.arguments.clusters()?;
        let has_feature =
            |cluster: &Cluster| cluster.features.is_empty() || cluster.features.contains(&plant.feature);
        self.queue.replace(chosen.into_iter().filter(has_feature).collect());
        let judge = judges.first_mut().context("there is no judge")?;
        let mut judged = 0;
        loop {
            let Some(cluster) = self.queue.borrow_mut().pop_front() else { break };
            judged += 1;
            let (verdict, _) = confirmed(judge, &cluster, Some(plant)).await?;
            if verdict.is_good() {
                continue;
            }
            let count = verdict.refused.len() + verdict.stuck.len();
            writeln!(
                self.out.borrow_mut(),
                "{}: caught by {} ({count} pods), cluster {judged} with the feature, {:.0} s",
                plant.name,
                cluster.name,
                begin.elapsed().as_secs_f64()
            )?;
            if self.arguments.plant.as_deref() == Some(plant.name) {
                self.report(judge, &cluster, &verdict, Some(plant)).await?;
            }
            return Ok(true);
        }
        writeln!(self.out.borrow_mut(), "{}: not caught by {judged} clusters", plant.name)?;
        Ok(false)
    }
}

/// The verdict on a cluster; a bad one is asked for a second time, with more time for caches, and false says that it did not
/// come again.
async fn confirmed(
    judge: &mut Judge,
    cluster: &Cluster,
    plant: Option<Plant>,
) -> anyhow::Result<(Verdict, bool)> {
    let verdict = judge.judge(cluster, plant).await?;
    if verdict.is_good() {
        return Ok((verdict, true));
    }
    judge.patience = PATIENCE;
    let second = judge.judge(cluster, plant).await;
    judge.patience = 1;
    let second = second?;
    let is_confirmed = !second.is_good();
    Ok((second, is_confirmed))
}

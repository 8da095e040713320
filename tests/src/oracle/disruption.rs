//! kube-scheduler as the judge of disruption: generated clusters on a real control plane with the operator, whose load goes down.
//! No pod that a command moves waits for longer than the boot of its replacements, and no node comes back for it.

mod figures;
mod scene;
mod trial;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use futures::future::try_join_all;
use tokio::time::Instant;

use self::figures::DisruptionFigures;
use self::trial::TrialOutcome;
use super::arguments::Arguments;
use super::generator::Cluster;
use super::plant::{PLANTS, Plant};
use super::{catalogue, file};
use crate::e2e::judge::{Assets, CloudPace, LaneWorld};
use crate::e2e::{Environment, Tier};

/// No cluster takes longer, with its second run; a hanging one must not hide what the others show.
const CLUSTER_LIMIT: Duration = Duration::from_secs(900);

/// A run, shared by its lanes.
struct DisruptionRun<'a> {
    folder: PathBuf,
    /// The planted fault that is looked for.
    plant: Option<Plant>,
    queue: RefCell<VecDeque<Cluster>>,
    figures: RefCell<DisruptionFigures>,
    out: RefCell<&'a mut dyn Write>,
}

/// Judges what `arguments` choose and reports on `out`. True when disruption is at fault for nothing, or each planted fault was found.
pub(super) async fn start(
    arguments: &Arguments,
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    let folder = environment.target.join("oracle/disruption");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let types = folder.join("instance-types.json");
    std::fs::write(&types, serde_json::to_string_pretty(&catalogue::file())?)?;
    let assets = Assets::find(Tier::Kube, environment, out)?;
    let begin = Instant::now();
    let plants = plants(arguments)?;
    let lanes = (0..arguments.lanes()).map(|lane| {
        let (folder, pace) = (folder.join(format!("lane-{lane}")), CloudPace::Listed(types.clone()));
        let assets = &assets;
        async move {
            match std::fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
                _ => LaneWorld::start(Tier::Kube, environment, assets, folder, pace).await,
            }
        }
    });
    let mut worlds = try_join_all(lanes).await?;
    let mut run = DisruptionRun {
        folder,
        plant: None,
        queue: RefCell::default(),
        figures: RefCell::default(),
        out: RefCell::new(out),
    };
    if plants.is_empty() {
        run.queue.replace(arguments.clusters()?.into());
        try_join_all(worlds.iter_mut().map(|world| run.lane(world))).await?;
        let figures = run.figures.borrow();
        figures.print(begin.elapsed(), &mut **run.out.borrow_mut())?;
        return Ok(figures.is_good());
    }
    let mut all_caught = true;
    for plant in plants {
        run.plant = Some(plant);
        run.figures.take();
        let is_meant =
            |cluster: &Cluster| cluster.features.is_empty() || cluster.features.contains(&plant.feature);
        run.queue.replace(arguments.clusters()?.into_iter().filter(is_meant).collect());
        try_join_all(worlds.iter_mut().map(|world| run.lane(world))).await?;
        let figures = run.figures.borrow();
        if !figures.is_caught() {
            writeln!(run.out.borrow_mut(), "{}: not caught by {} clusters", plant.name, figures.clusters)?;
        }
        all_caught &= figures.is_caught();
    }
    Ok(all_caught)
}

/// The chosen planted faults.
fn plants(arguments: &Arguments) -> anyhow::Result<Vec<Plant>> {
    let Some(name) = &arguments.plant else { return Ok(Vec::new()) };
    let possible = PLANTS.into_iter().filter(|plant| plant.changes_objects());
    let chosen: Vec<Plant> = possible.filter(|plant| name == "all" || name == plant.name).collect();
    anyhow::ensure!(
        !chosen.is_empty(),
        "there is no planted fault {name:?} for --disruption; --disruption --list-plants shows them"
    );
    Ok(chosen)
}

impl DisruptionRun<'_> {
    /// Judges clusters until none is left, or the planted fault is found.
    async fn lane(&self, world: &mut LaneWorld) -> anyhow::Result<()> {
        loop {
            let next = self.queue.borrow_mut().pop_front();
            let Some(cluster) = next.filter(|_| !self.figures.borrow().is_caught()) else { return Ok(()) };
            let judged = tokio::time::timeout(CLUSTER_LIMIT, self.cluster(world, &cluster)).await;
            judged
                .unwrap_or_else(|_| Err(anyhow::anyhow!("not over after {CLUSTER_LIMIT:?}")))
                .with_context(|| cluster.name.clone())?;
        }
    }

    async fn cluster(&self, world: &mut LaneWorld, cluster: &Cluster) -> anyhow::Result<()> {
        let first = trial::run(world, cluster, self.plant).await?;
        self.say(&format!("{}: {}", cluster.name, figures::line(&first)))?;
        if first.verdict.faults.is_empty() {
            self.figures.borrow_mut().add(&first, true);
            return Ok(());
        }
        // Margins are times, and the host may have been busy: what counts has to come again. A planted fault must be all that is wrong.
        let second = trial::run(world, cluster, None).await?;
        self.say(&format!("{} again: {}", cluster.name, figures::line(&second)))?;
        let is_confirmed = second.verdict.faults.is_empty() == self.plant.is_some();
        self.figures.borrow_mut().add(&first, is_confirmed);
        if let (Some(plant), true) = (self.plant, is_confirmed) {
            self.figures.borrow_mut().set_caught();
            self.say(&format!("{}: caught by {}", plant.name, cluster.name))?;
        }
        self.report(cluster, &[first, second])
    }

    /// Prints what became of pods, and writes the cluster with it and the operator's log of each run.
    fn report(&self, cluster: &Cluster, runs: &[TrialOutcome]) -> anyhow::Result<()> {
        let path = file::path(&self.folder, cluster);
        let features: Vec<String> = cluster.features.iter().map(|feature| format!("{feature:?}")).collect();
        let mut notes = vec![format!("{}: {}", cluster.name, features.join(", "))];
        for (run, number) in runs.iter().zip(1..) {
            notes.push(format!("run {number}: {}", figures::line(run)));
            notes.extend(run.verdict.faults.iter().map(|fault| format!("  {fault}")));
            notes.extend(run.verdict.stories.iter().map(|line| format!("    {line}")));
            std::fs::write(self.folder.join(format!("{}-{number}.log", cluster.name)), &run.log)?;
        }
        let plant = self.plant.map_or_else(String::new, |plant| format!(" --plant {}", plant.name));
        notes.push(format!("cargo xtask oracle --disruption{plant} --file {}", path.display()));
        file::write_with(&path, cluster, &notes)?;
        // The moves of each command are in the file.
        let printed = notes.iter().skip(1).filter(|note| !note.starts_with("    "));
        printed.into_iter().try_for_each(|note| self.say(&format!("  {note}")))
    }

    fn say(&self, line: &str) -> anyhow::Result<()> {
        let mut out = self.out.borrow_mut();
        writeln!(out, "{line}")?;
        Ok(out.flush()?)
    }
}

//! `fleetwright demo`: the complete flow in one process.
//!
//! Applies the shipped examples to a [`fleetwright_sim::Simulator`], changes the load as their annotations
//! define, prints changes, and reports at the end. Time is virtual; in JSON mode, and while recording, it passes as fast as possible, and no port
//! is opened.

mod load;
mod recording;
mod report;
mod session;
#[cfg(test)]
mod tests;
mod view;

use std::{io::IsTerminal as _, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use fleetwright_fake::CloudConfig;
use fleetwright_sim::{
    Simulator, SimulatorConfig,
    simulator::{FakeSetup, virtual_runtime},
};
use jiff::Timestamp;
use tokio::net::TcpListener;

use self::{load::Load, recording::DemoRecording, report::DemoReport, session::Session, view::DemoView};
use super::{pace::Pace, screen};
use crate::{
    cli::{Demo, Output},
    clock::SystemClock,
    signals, ui,
};

/// Maximum virtual time of the demo.
const MAX_DURATION: Duration = Duration::from_secs(90 * 60);
/// The start of virtual time in JSON mode.
const EPOCH: i64 = 1_767_225_600;

/// The shipped examples, in the order in which they are applied.
const EXAMPLES: &[(&str, &str)] = &[
    ("nodepool.yaml", include_str!("../../../demo/nodepool.yaml")),
    ("daemonset.yaml", include_str!("../../../demo/daemonset.yaml")),
    ("web.yaml", include_str!("../../../demo/web.yaml")),
    ("api.yaml", include_str!("../../../demo/api.yaml")),
    ("cache.yaml", include_str!("../../../demo/cache.yaml")),
    ("batch.yaml", include_str!("../../../demo/batch.yaml")),
];

/// Runs the demo.
///
/// # Errors
/// If a manifest or an address cannot be used.
pub(crate) fn run(options: &Demo) -> anyhow::Result<()> {
    let manifests = manifests(&options.files)?;
    ensure!(
        !(options.serve && options.output == Output::Json),
        "--serve needs -o text: with json, time is virtual"
    );
    let mut recording =
        options.record.as_deref().map(|path| DemoRecording::new(path, options.speed)).transpose()?;
    match options.output {
        Output::Text if recording.is_none() => {
            Pace::Times(options.speed).runtime()?.block_on(text(options, &manifests))
        }
        output => {
            let mut report =
                virtual_runtime()?.block_on(play(options, &manifests, None, recording.as_mut()))?;
            if let Some(recording) = recording {
                recording.write()?;
            }
            let time = Duration::from_secs(report.virtual_seconds());
            report.compare(&virtual_runtime()?.block_on(play(options, &manifests, Some(time), None))?);
            print(&match output {
                Output::Json => serde_json::to_string_pretty(&report)?,
                Output::Text => report.to_string(),
            })
        }
    }
}

/// Plays the load in virtual time; with `baseline` without consolidation, for so long. Each step is recorded.
async fn play(
    options: &Demo,
    manifests: &[(String, String)],
    baseline: Option<Duration>,
    mut recording: Option<&mut DemoRecording>,
) -> anyhow::Result<DemoReport> {
    let started = SystemWatch::start();
    let simulator = Simulator::new(config(options, Timestamp::from_second(EPOCH)?)?).await?;
    let mut session = Session::new(&simulator, load::apply(&simulator, manifests)?);
    if baseline.is_some() {
        session::without_consolidation(&simulator).await?;
    }
    let is_over = |session: &Session| match baseline {
        Some(time) => session.elapsed >= time,
        None => session.is_over(options),
    };
    while !is_over(&session) {
        simulator.run_for(session::STEP).await;
        let news = session.step(&simulator).await?;
        if let Some(recording) = &mut recording
            && let Some(report) = screen::fleet(&simulator)
        {
            recording.add(session.elapsed, report, &screen::records(&simulator), news);
        }
    }
    Ok(DemoReport::new(options.seed, &session, &simulator.observe(), started.elapsed()))
}

async fn text(options: &Demo, manifests: &[(String, String)]) -> anyhow::Result<()> {
    print("fleetwright demo: an API server, a cloud, a scheduler and the controller, all in this process")?;
    let started = SystemWatch::start();
    let simulator = Simulator::new(config(options, origin(options)?)?).await?;
    let listening =
        simulator.listen(options.listen).await.with_context(|| format!("--listen {}", options.listen))?;
    let kubeconfig = Kubeconfig::write(options, &simulator.server().kubeconfig(listening.address))?;
    print(&format!(
        "  kubectl --kubeconfig {} get nodes,nodeclaims,nodepools,pods -A",
        kubeconfig.path.display()
    ))?;
    if let Some(address) = options.ui {
        print(&format!("  http://{}/ui", serve_page(&simulator, address).await?))?;
    }
    let mut session = Session::new(&simulator, load::apply(&simulator, manifests)?);
    let terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let name = format!("demo, kubectl --kubeconfig {}", kubeconfig.path.display());
    let mut view = DemoView::new(terminal, &simulator, options, name)?;
    let played = run_session(options, &simulator, &mut session, &mut view).await;
    // Gives the terminal back.
    drop(view);
    let is_whole = played?;
    let mut report = DemoReport::new(options.seed, &session, &simulator.observe(), started.elapsed());
    if is_whole {
        // Beside this one, in virtual time: seconds.
        let (options, manifests, time) = (options.clone(), manifests.to_vec(), session.elapsed);
        let baseline = std::thread::spawn(move || {
            virtual_runtime()?.block_on(play(&options, &manifests, Some(time), None))
        });
        if let Ok(Ok(baseline)) =
            tokio::task::spawn_blocking(move || baseline.join()).await.context("the comparison")?
        {
            report.compare(&baseline);
        }
    }
    print(&report.to_string())?;
    if is_whole && options.serve {
        print("\nServing until Ctrl-C.")?;
        let mut ended = std::pin::pin!(signals::ended());
        while Pace::Times(1.0).run_for(&simulator, session::STEP, ended.as_mut(), async || Ok(true)).await? {}
    }
    Ok(())
}

/// The start of virtual time for a cluster that kubectl looks at. It runs faster than the wall clock, and kubectl cannot show ages in the future:
/// it starts so long ago that the demo ends by now. Objects have times in whole seconds.
fn origin(options: &Demo) -> anyhow::Result<Timestamp> {
    use fleetwright_core::clock::Clock as _;
    let now = Timestamp::from_second(SystemClock.now().as_second())?;
    let longest = options.run_for.map_or(MAX_DURATION, |limit| limit.max(MAX_DURATION));
    now.checked_sub(longest).context("the wall clock stands before 1970")
}

/// Serves the page of the simulated controller, until the process ends.
async fn serve_page(simulator: &Simulator, address: SocketAddr) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("--ui {address}"))?;
    let address = listener.local_addr()?;
    let ctx = simulator.controllers().cloned();
    let routes = ui::routes(move || ctx.clone());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    Ok(address)
}

/// Runs the demo to its end; `false` if a key or a signal ended it.
async fn run_session(
    options: &Demo,
    simulator: &Simulator,
    session: &mut Session,
    view: &mut DemoView,
) -> anyhow::Result<bool> {
    let pace = Pace::Times(options.speed);
    let mut ended = std::pin::pin!(signals::ended());
    while !session.is_over(options) {
        let keys = async || view.keys(simulator).await;
        if !pace.run_for(simulator, session::STEP, ended.as_mut(), keys).await? {
            return Ok(false);
        }
        let news = session.step(simulator).await?;
        view.show(simulator, session, news)?;
    }
    Ok(true)
}

fn config(options: &Demo, origin: Timestamp) -> anyhow::Result<SimulatorConfig> {
    let catalogue = crate::lab::cloud::catalogue(options.catalog, options.instance_types.as_deref())?;
    // The same story whenever it is told.
    let config = CloudConfig { seed: options.seed, spot_prices_since: origin, ..CloudConfig::default() };
    Ok(SimulatorConfig::over(options.seed, origin, Arc::new(FakeSetup { catalogue, config })))
}

/// Manifests by name: the given files, or the shipped examples.
fn manifests(files: &[PathBuf]) -> anyhow::Result<Vec<(String, String)>> {
    if files.is_empty() {
        return Ok(EXAMPLES.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect());
    }
    let mut found = Vec::new();
    for path in files {
        let mut paths = vec![path.clone()];
        if path.is_dir() {
            let entries = std::fs::read_dir(path).with_context(|| path.display().to_string())?;
            let yaml = |path: &PathBuf| {
                path.extension().is_some_and(|ext| ext == "yaml" || ext == "yml" || ext == "json")
            };
            paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
            paths.retain(yaml);
            paths.sort();
        }
        for path in paths {
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            found.push((path.display().to_string(), text));
        }
    }
    Ok(found)
}

/// The kubeconfig on disk; a temporary one is removed with the demo.
struct Kubeconfig {
    path: PathBuf,
    temporary: bool,
}

impl Kubeconfig {
    fn write(options: &Demo, text: &str) -> anyhow::Result<Self> {
        let temporary = options.kubeconfig.is_none();
        let default =
            || std::env::temp_dir().join(format!("fleetwright-demo-{}.kubeconfig", std::process::id()));
        let path = options.kubeconfig.clone().unwrap_or_else(default);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        Ok(Self { path, temporary })
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        if self.temporary {
            // If the removal fails, a file with a dead address is left.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The duration of the demo by the wall clock.
struct SystemWatch(Timestamp);

impl SystemWatch {
    fn start() -> Self {
        use fleetwright_core::clock::Clock as _;
        Self(SystemClock.now())
    }

    fn elapsed(&self) -> Duration {
        use fleetwright_core::clock::Clock as _;
        Duration::try_from(SystemClock.now().duration_since(self.0)).unwrap_or_default()
    }
}

/// Fails where the text cannot be written. That a reader has closed the pipe is no failure of the program, whose end it is.
fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    Ok(writeln!(anstream::stdout(), "{text}")?)
}

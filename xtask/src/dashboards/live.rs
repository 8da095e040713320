//! Every query on a real Prometheus that scrapes running controllers: those that `cargo xtask dashboards` is told, or those of the
//! end-to-end cases.
//!
//! Prometheus and promtool are those on the `PATH`; without them, Debian's package is unpacked under `target/tools`, which installs
//! nothing. The rules are checked with `promtool check rules` first.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use super::{Dashboard, rules};
use crate::shell;
use crate::tools::works;

/// What replaces Grafana's variables outside of Grafana: all NodePools and jobs, and an interval with many scrapes.
const VARIABLES: [(&str, &str); 3] = [("$__rate_interval", "1m"), ("$nodepool", ".*"), ("$job", ".*")];

/// The argument that is ours and not the runner's.
const DASHBOARDS: &str = "--dashboards";
/// Often enough for what a case shows for some seconds.
const SCRAPE_INTERVAL: &str = "5s";
/// Between the points in time of a query.
const STEP: &str = "5s";

/// What to scrape.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Address of /metrics of a controller, as HOST:PORT; may be repeated
    #[arg(long, required = true, value_name = "HOST:PORT")]
    target: Vec<String>,
    /// The cloud of the controllers: dashboards of other clouds may be empty
    #[arg(long, default_value = "fake")]
    cloud: String,
    /// How long to scrape before the queries are run, in seconds
    #[arg(long, default_value_t = 30)]
    seconds: u64,
}

/// A query without Grafana's variables.
pub(super) fn without_variables(query: &str) -> String {
    VARIABLES.iter().fold(query.to_owned(), |query, (name, value)| query.replace(name, value))
}

/// Scrapes the targets for a while, and checks what that gives.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let scrapes = Scrapes::start()?;
    let list = json!([{"targets": args.target}]);
    fs::write(scrapes.targets().join("targets.json"), list.to_string())?;
    pause(Duration::from_secs(args.seconds));
    scrapes.check(&args.cloud)
}

/// Runs the cases of a runner with `args`. With [`DASHBOARDS`] among them its operators are scraped meanwhile, and what that gives is checked.
pub(crate) fn beside(runner: &mut Command, args: &[String], cloud: &str) -> anyhow::Result<()> {
    runner.args(args.iter().filter(|arg| *arg != DASHBOARDS));
    if !args.iter().any(|arg| arg == DASHBOARDS) {
        return shell::run(runner);
    }
    let scrapes = Scrapes::start()?;
    shell::run(runner.arg("--scrape").arg(scrapes.targets()))?;
    scrapes.check(cloud)
}

/// A Prometheus that scrapes controllers from its start on, and ends with this value.
struct Scrapes {
    server: Server,
    targets: PathBuf,
    /// In seconds since 1970.
    begin: u64,
}

impl Scrapes {
    /// Checks the rules, and starts Prometheus without targets.
    fn start() -> anyhow::Result<Self> {
        let tools = Tools::find()?;
        let folder = shell::workspace()?.target_directory.into_std_path_buf().join("dashboards");
        let targets = folder.join("targets");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
        }
        fs::create_dir_all(&targets).with_context(|| format!("cannot make {}", targets.display()))?;
        tools.check_rules(&folder, &rules::rule_file(&super::alerts(&shell::root())?)?)?;
        let begin = now()?;
        Ok(Self { server: tools.scrape(&folder, &targets)?, targets, begin })
    }

    /// The folder where files for `file_sd_configs` say what to scrape.
    fn targets(&self) -> &Path {
        &self.targets
    }

    /// Runs every query over the time since the start, and fails on one that Prometheus refuses, or that is empty without a reason.
    fn check(self, cloud: &str) -> anyhow::Result<()> {
        let root = shell::root();
        let count = |query: &str| self.server.series(&without_variables(query), self.begin);
        ensure!(
            count("up == 1")? > 0,
            "nothing was scraped: {} names no target that answers",
            self.targets.display()
        );
        let mut unexplained = 0;
        for page in super::dashboards(&root)?.dashboards {
            unexplained += show(&page, cloud, count)?;
        }
        for alert in &super::alerts(&root)?.alerts {
            let count = count(&alert.query).with_context(|| alert.name.clone())?;
            anstream::println!("alert {}: {}", alert.name, if count == 0 { "quiet" } else { "has results" });
        }
        ensure!(unexplained == 0, "{unexplained} panels are empty and do not say why they may be");
        Ok(())
    }
}

/// Prints how many series each panel has; returns how many panels are empty without a reason.
fn show(
    page: &Dashboard,
    cloud: &str,
    series: impl Fn(&str) -> anyhow::Result<usize>,
) -> anyhow::Result<usize> {
    let mut unexplained = 0;
    for panel in &page.panels {
        let mut count = 0;
        for (query, _) in &panel.queries {
            count += series(query).with_context(|| format!("{}, {}", page.title, panel.title))?;
        }
        let verdict = match (count, &panel.empty) {
            (0, _) if page.cloud.as_ref().is_some_and(|needed| needed != cloud) => {
                "empty: another cloud".to_owned()
            }
            (0, Some(why)) => format!("empty: {why}"),
            (0, None) => {
                unexplained += 1;
                "EMPTY".to_owned()
            }
            (count, _) => format!("{count} series"),
        };
        anstream::println!("{}, {}: {verdict}", page.title, panel.title);
    }
    Ok(unexplained)
}

/// The programs.
struct Tools {
    prometheus: PathBuf,
    promtool: PathBuf,
}

impl Tools {
    fn find() -> anyhow::Result<Self> {
        let folder = shell::workspace()?.target_directory.into_std_path_buf().join("tools/prometheus");
        let installed = folder.join("usr/bin");
        for [prometheus, promtool] in [
            ["prometheus", "promtool"].map(PathBuf::from),
            ["prometheus", "promtool"].map(|name| installed.join(name)),
        ] {
            if works(&promtool) && works(&prometheus) {
                return Ok(Self { prometheus, promtool });
            }
        }
        anstream::println!("prometheus is missing: unpacking Debian's package under target/");
        unpack(&folder).context("put prometheus and promtool on the PATH")?;
        Ok(Self { prometheus: installed.join("prometheus"), promtool: installed.join("promtool") })
    }

    /// `promtool check rules`.
    fn check_rules(&self, folder: &Path, rules: &str) -> anyhow::Result<()> {
        let file = folder.join("rules.yaml");
        fs::write(&file, rules)?;
        let answer = shell::capture(Command::new(&self.promtool).args(["check", "rules"]).arg(&file))?;
        anstream::print!("{answer}");
        Ok(())
    }

    /// Starts a Prometheus that scrapes what files in `targets` name.
    fn scrape(&self, folder: &Path, targets: &Path) -> anyhow::Result<Server> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = format!("127.0.0.1:{port}");
        let config = folder.join("prometheus.yaml");
        let text = json!({
            "global": {"scrape_interval": SCRAPE_INTERVAL},
            "scrape_configs": [{
                "job_name": "karpenter",
                "file_sd_configs": [{"files": [targets.join("*.json")], "refresh_interval": "5s"}],
            }],
        });
        fs::write(&config, text.to_string())?;
        let data = folder.join("data");
        let log = fs::File::create(folder.join("prometheus.log"))?;
        let process = Command::new(&self.prometheus)
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start prometheus")?;
        let server = Server { process, promtool: self.promtool.clone(), address };
        for _ in 0..60 {
            if server.series("vector(1)", now()?).is_ok() {
                return Ok(server);
            }
            pause(Duration::from_millis(500));
        }
        bail!("prometheus does not answer; see {}", folder.join("prometheus.log").display())
    }
}

/// A Prometheus that ends with this value.
struct Server {
    process: Child,
    promtool: PathBuf,
    address: String,
}

impl Server {
    /// How many series a query has between `begin`, in seconds since 1970, and now.
    fn series(&self, query: &str, begin: u64) -> anyhow::Result<usize> {
        let url = format!("http://{}", self.address);
        let mut command = Command::new(&self.promtool);
        command.args(["query", "range", "--format=json", "--step", STEP]);
        let answer = shell::capture(command.arg(format!("--start={begin}")).args([&url, query]))?;
        let series: Value =
            serde_json::from_str(&answer).with_context(|| format!("promtool said {answer:?}"))?;
        Ok(series.as_array().context("a range has a list of series")?.len())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Debian's package, without its dependencies: the programs need the C library only.
fn unpack(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let download =
        || shell::capture(Command::new("apt-get").args(["download", "prometheus"]).current_dir(folder));
    if download().is_err() {
        // A fresh host has no lists of packages.
        shell::capture(Command::new("apt-get").arg("update"))?;
        download()?;
    }
    let package = fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|ending| ending == "deb"))
        .context("apt-get downloaded nothing")?;
    shell::capture(Command::new("dpkg-deb").arg("-x").arg(&package).arg(folder))?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "waits for another process")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[expect(clippy::disallowed_methods, reason = "a query names the time of another process's data")]
fn now() -> anyhow::Result<u64> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs())
}

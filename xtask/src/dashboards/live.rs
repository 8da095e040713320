//! `cargo xtask dashboards`: every query on a real Prometheus that scrapes running controllers.
//!
//! Prometheus and promtool are those on the `PATH`; without them, Debian's package is unpacked under `target/tools`, which installs
//! nothing. The rules are checked with `promtool check rules` first.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use super::{Dashboard, rules};
use crate::shell;
use crate::tools::works;

/// What replaces Grafana's variables outside of Grafana: all NodePools and jobs, and an interval with many scrapes.
const VARIABLES: [(&str, &str); 3] = [("$__rate_interval", "1m"), ("$nodepool", ".*"), ("$job", ".*")];

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

/// Scrapes the targets for a while, runs every query, and fails on one that Prometheus refuses, or that is empty without a reason.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let root = shell::root();
    let tools = Tools::find()?;
    let folder = shell::workspace()?.target_directory.into_std_path_buf().join("dashboards");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    tools.check_rules(&folder, &rules::rule_file(&super::alerts(&root)?)?)?;
    let server = tools.scrape(&folder, &args.target)?;
    pause(Duration::from_secs(args.seconds));
    let mut unexplained = 0;
    for page in super::dashboards(&root)?.dashboards {
        unexplained += show(&server, &page, &args.cloud)?;
    }
    let alerts = super::alerts(&root)?.alerts;
    for alert in &alerts {
        let count = server.query(&alert.query).with_context(|| alert.name.clone())?;
        anstream::println!("alert {}: {}", alert.name, if count == 0 { "quiet" } else { "has results" });
    }
    ensure!(unexplained == 0, "{unexplained} panels are empty and do not say why they may be");
    Ok(())
}

/// Prints how many series each panel has; returns how many panels are empty without a reason.
fn show(server: &Server, page: &Dashboard, cloud: &str) -> anyhow::Result<usize> {
    let mut unexplained = 0;
    for panel in &page.panels {
        let mut count = 0;
        for (query, _) in &panel.queries {
            let place = || format!("{}, {}", page.title, panel.title);
            count += server.query(&without_variables(query)).with_context(place)?;
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

    /// Starts a Prometheus that scrapes `targets` each second.
    fn scrape(&self, folder: &Path, targets: &[String]) -> anyhow::Result<Server> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = format!("127.0.0.1:{port}");
        let config = folder.join("prometheus.yaml");
        let list: Vec<String> = targets.iter().map(|target| format!("\"{target}\"")).collect();
        fs::write(
            &config,
            format!(
                "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: karpenter\n  static_configs:\n  - targets: [{}]\n",
                list.join(", ")
            ),
        )?;
        let data = folder.join("data");
        if data.exists() {
            fs::remove_dir_all(&data)?;
        }
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
            if server.query("vector(1)").is_ok() {
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
    /// How many series a query returns.
    fn query(&self, query: &str) -> anyhow::Result<usize> {
        let url = format!("http://{}", self.address);
        let answer = shell::capture(Command::new(&self.promtool).args(["query", "instant", &url, query]))?;
        Ok(answer.lines().filter(|line| !line.trim().is_empty()).count())
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
    shell::capture(Command::new("apt-get").args(["download", "prometheus"]).current_dir(folder))?;
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

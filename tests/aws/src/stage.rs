//! The operator as a process of its own, built with AWS, and an API server in memory that it works on.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use fleetwright_tests::e2e::objects;
use fleetwright_tests::e2e::process::{Process, Recipe, free_ports};
use fleetwright_tests::e2e::rest::Rest;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::account::REGION;
use crate::case::Cx;
use crate::cluster::NAME;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// How often a condition is looked at while waiting for it.
const POLL: Duration = Duration::from_millis(250);
/// How long a process may take until it is ready.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// How long a command may take: a start against a throttled region takes a while.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// One of two clusters of the same name: what tells their processes apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    /// The access key of its operator, by which the proxy distinguishes clusters.
    pub(crate) access_key: &'static str,
    /// Names of its processes, and so of their logs.
    kube: &'static str,
    operator: &'static str,
    /// The seed of its UIDs.
    seed: &'static str,
}

/// The cluster of most cases.
pub(crate) const OURS: Side = Side { access_key: "OURS", kube: "fake-kube", operator: "operator", seed: "1" };
/// Another cluster of the same name in the same account.
pub(crate) const THEIRS: Side =
    Side { access_key: "THEIRS", kube: "fake-kube-theirs", operator: "operator-theirs", seed: "2" };

/// An API server with what schedules pods; it ends with this value.
pub(crate) struct Server {
    pub(crate) rest: Rest,
    /// UID of its `kube-system` namespace.
    pub(crate) uid: String,
    /// Where operators send traces, if anywhere.
    pub(crate) traces: Option<String>,
    /// Further settings of operators and commands.
    pub(crate) settings: Vec<(&'static str, OsString)>,
    side: Side,
    kubeconfig: PathBuf,
    _process: Process,
}

impl Server {
    /// Starts `fleetwright fake-kube` and installs the CRDs.
    pub(crate) async fn start(cx: &Cx<'_>) -> anyhow::Result<Self> {
        Self::start_as(cx, OURS).await
    }

    /// The same for one of two clusters.
    pub(crate) async fn start_as(cx: &Cx<'_>, side: Side) -> anyhow::Result<Self> {
        let [port] = free_ports()?;
        let kubeconfig = cx.folder.join(format!("kubeconfig-{}", side.kube));
        let listen = format!("127.0.0.1:{port}");
        let args = ["fake-kube", "--listen", &listen, "--seed", side.seed, "--kubeconfig"].map(str::to_owned);
        let recipe = Recipe {
            name: side.kube,
            program: cx.operator.clone(),
            args: args.into_iter().chain([kubeconfig.display().to_string()]).collect(),
            env: vec![("RUST_BACKTRACE", "1".into())],
            logs: cx.folder.clone(),
        };
        let mut process = recipe.start()?;
        let deadline = Instant::now() + READY_LIMIT;
        let path = "/api/v1/namespaces/kube-system";
        let (rest, system) = loop {
            process.check_running()?;
            // A case has a time limit of its own. With one here, a connection that was idle for so long fails the request that takes it up.
            if let Ok(rest) = Rest::open(&kubeconfig, None).await
                && let Ok(Some(system)) = rest.get(path).await
            {
                break (rest, system);
            }
            if Instant::now() > deadline {
                bail!("the API server is not ready after {READY_LIMIT:?}");
            }
            tokio::time::sleep(POLL).await;
        };
        let uid = system["metadata"]["uid"].as_str().context("kube-system has no UID")?.to_owned();
        let server =
            Self { rest, uid, traces: None, settings: Vec::new(), side, kubeconfig, _process: process };
        server.install(cx).await?;
        Ok(server)
    }

    /// Installs the CRDs that the binary prints for AWS, over those that the server has for the fake cloud.
    async fn install(&self, cx: &Cx<'_>) -> anyhow::Result<()> {
        let printed = self.command(cx, &["crds", "--cloud", "aws"]).await?;
        let folder = cx.folder.join(format!("crds-{}", self.side.kube));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("aws.yaml"), printed.out)?;
        for mut crd in objects(&folder)? {
            let name = crd["metadata"]["name"].as_str().unwrap_or_default();
            let path = format!("{CRDS}/{name}");
            match self.rest.get(&path).await? {
                None => self.create(CRDS, &crd).await.map(drop)?,
                Some(there) => {
                    crd["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"].clone();
                    let written = self.rest.write("PUT", &path, &crd).await?;
                    written.map(drop).map_err(|status| anyhow::anyhow!("{path}: {}", status.message))?;
                }
            }
        }
        Ok(())
    }

    /// Creates an object.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> anyhow::Result<Value> {
        let written = self.rest.write("POST", path, object).await?;
        written.map_err(|status| anyhow::anyhow!("{path}: {}", status.message))
    }

    /// Deletes an object, without waiting for its end.
    pub(crate) async fn delete(&self, path: &str) -> anyhow::Result<()> {
        let written = self.rest.write("DELETE", path, &json!({})).await?;
        written.map(drop).map_err(|status| anyhow::anyhow!("{path}: {}", status.message))
    }

    /// The operator's environment: this cluster, and AWS behind the proxy.
    fn environment(&self, cx: &Cx<'_>) -> Vec<(&'static str, OsString)> {
        let text = |text: &str| OsString::from(text);
        let own = self.settings.iter().cloned();
        let all = [
            ("PATH", cx.path.clone()),
            ("KUBECONFIG", self.kubeconfig.as_os_str().to_owned()),
            ("CLUSTER_NAME", text(NAME)),
            ("CLUSTER_CA_BUNDLE", text(&cx.authority)),
            ("AWS_ENDPOINT_URL", text(&cx.proxy.url)),
            ("AWS_REGION", text(REGION)),
            ("AWS_ACCESS_KEY_ID", text(self.side.access_key)),
            ("AWS_SECRET_ACCESS_KEY", text("secret")),
            ("AWS_EC2_METADATA_DISABLED", text("true")),
            ("DISABLE_LEADER_ELECTION", text("true")),
            ("SYSTEM_NAMESPACE", text("kube-system")),
            ("LOG_LEVEL", text("debug")),
            ("RUST_BACKTRACE", text("1")),
        ];
        all.into_iter().chain(own).collect()
    }

    /// Starts the controller and waits until it is ready to act; it ends with the returned value.
    pub(crate) async fn operator(&self, cx: &Cx<'_>) -> anyhow::Result<Operator> {
        let [metrics, health] = free_ports()?;
        let mut env = self.environment(cx);
        env.push(("METRICS_PORT", metrics.to_string().into()));
        env.push(("HEALTH_PROBE_PORT", health.to_string().into()));
        env.extend(self.traces.iter().map(|url| ("OTEL_EXPORTER_OTLP_ENDPOINT", url.into())));
        let recipe = Recipe {
            name: self.side.operator,
            program: cx.operator.clone(),
            args: ["--cloud", "aws"].map(str::to_owned).to_vec(),
            env,
            logs: cx.folder.clone(),
        };
        let mut process = recipe.start()?;
        if let Some(folder) = &cx.scrape {
            let target = json!([{"targets": [format!("127.0.0.1:{metrics}")]}]);
            std::fs::write(folder.join(format!("{metrics}.json")), target.to_string())?;
        }
        let client = reqwest::Client::builder().no_proxy().build()?;
        let [url, metrics] = [(health, "readyz"), (metrics, "metrics")]
            .map(|(port, path)| format!("http://127.0.0.1:{port}/{path}"));
        let deadline = Instant::now() + READY_LIMIT;
        loop {
            process.check_running()?;
            let answer = client.get(&url).send().await;
            if answer.as_ref().is_ok_and(|answer| answer.status().is_success()) {
                return Ok(Operator { process, client, metrics });
            }
            if Instant::now() > deadline {
                bail!("the operator is not ready after {READY_LIMIT:?}: {answer:?}");
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Runs a command of the binary: what it printed, and whether it succeeded.
    pub(crate) async fn command(&self, cx: &Cx<'_>, args: &[&str]) -> anyhow::Result<Printed> {
        self.command_without(cx, args, "").await
    }

    /// The same without environment variables with `prefix`, if given.
    pub(crate) async fn command_without(
        &self,
        cx: &Cx<'_>,
        args: &[&str],
        prefix: &str,
    ) -> anyhow::Result<Printed> {
        let mut command = tokio::process::Command::new(&cx.operator);
        let mut environment = self.environment(cx);
        environment.retain(|(name, _)| prefix.is_empty() || !name.starts_with(prefix));
        command.args(args).env_clear().envs(environment).kill_on_drop(true);
        let output = tokio::time::timeout(COMMAND_LIMIT, command.output()).await;
        let output = output.with_context(|| format!("{args:?} is not over after {COMMAND_LIMIT:?}"))??;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Printed { ok: output.status.success(), out: text(&output.stdout), err: text(&output.stderr) })
    }
}

/// The controller as a process; it ends with this value.
pub(crate) struct Operator {
    process: Process,
    client: reqwest::Client,
    /// The address of its metrics.
    metrics: String,
}

impl Operator {
    /// Sum of the series whose line begins with `series`, as a scrape has it.
    pub(crate) async fn metric(&self, series: &str) -> anyhow::Result<f64> {
        let text = self.client.get(&self.metrics).send().await?.error_for_status()?.text().await?;
        let of = |line: &str| line.rsplit_once(' ').and_then(|(_, value)| value.parse::<f64>().ok());
        Ok(text.lines().filter(|line| line.starts_with(series)).filter_map(of).sum())
    }

    /// Kills it: nothing of it runs any more.
    pub(crate) async fn kill(self) -> anyhow::Result<()> {
        self.process.kill().await
    }

    /// Tells it to end, and waits for that.
    pub(crate) async fn stop(self) -> anyhow::Result<ExitStatus> {
        self.process.stop().await
    }
}

/// A collector of traces; it ends with this value.
pub(crate) struct Collector {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<u8>>>,
    task: JoinHandle<()>,
}

impl Collector {
    /// Starts one that keeps what it is sent.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let received = Arc::new(Mutex::default());
        let collect = |State(received): State<Arc<Mutex<Vec<u8>>>>, body: Bytes| async move {
            received.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&body);
        };
        let routes = Router::new().route("/v1/traces", post(collect)).with_state(received.clone());
        let task = tokio::spawn(async move {
            // Only a broken listener ends it, and then the case misses its traces.
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self { url, received, task })
    }

    /// Whether a text is part of what has arrived: names and values are UTF-8 in OTLP.
    pub(crate) fn has(&self, text: &str) -> bool {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        received.windows(text.len()).any(|window| window == text.as_bytes())
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Printed {
    pub(crate) ok: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Waits until `probe` succeeds; it returns `Err(why)` for "not yet", and the last reason is part of the failure.
pub(crate) async fn eventually<T>(
    what: &str,
    limit: Duration,
    mut probe: impl AsyncFnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        match probe().await {
            Ok(found) => return Ok(found),
            Err(reason) if Instant::now() > deadline => {
                return Err(reason.context(format!("not so within {limit:?}: {what}; last seen")));
            }
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}

//! `fleetwright` without a subcommand: the controller.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use fleetwright_controllers::{
    all,
    runtime::{self, Ctx, CtxParts, Election, Leadership, Offload, may_act, shutdown},
};
use fleetwright_core::{
    clock::{Clock as _, SharedClock},
    cloud::{CloudProvider, Identity},
};
use kube::Client;

use crate::{
    clock::SystemClock,
    decisions, http, kube_client, logging,
    operator::{CloudConnector, Environment, Operator},
    otel,
    process::ProcessCollector,
    recording::{Recording, RecordingOptions},
    settings::{self, Values},
    signals, ui,
};

/// How long to wait for the cluster before the process exits and is restarted.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(300);
/// The delay before a retry, which doubles up to [`RETRY_DELAY_MAX`].
const RETRY_DELAY: Duration = Duration::from_secs(2);
/// Maximum delay between two attempts.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(10);
/// How long loops may take to end after SIGTERM: longer than the 10 s for their running reconciles.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(12);

/// Runs the controller until SIGTERM.
///
/// # Errors
/// If a setting, a port, the cloud or the cluster cannot be used.
pub(crate) fn run(operator: &Operator, values: Values) -> anyhow::Result<()> {
    let clock: SharedClock = Arc::new(SystemClock);
    logging::install(values.text("LOG_LEVEL"), values.text("LOG_OUTPUT_PATHS"), clock.clone())?;
    for warning in values.all_warnings() {
        tracing::warn!("{warning}");
    }
    let cloud = cloud(operator, values.text("CLOUD"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(serve(operator, &*cloud, values, clock));
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

async fn serve(
    operator: &Operator,
    cloud: &dyn CloudConnector,
    values: Values,
    clock: SharedClock,
) -> anyhow::Result<()> {
    let probe = Arc::new(Probe::default());
    http::serve_probes(values.port("HEALTH_PROBE_PORT"), probe.clone()).await?;
    let further = further(&values, &probe);
    http::serve_metrics(values.port("METRICS_PORT"), probe.clone(), further).await?;
    let recording = RecordingOptions::of(&values);
    tokio::select! {
        biased;
        () = signals::terminated() => {
            tracing::info!("terminated before the cluster was reached");
            Ok(())
        }
        ready = prepare(cloud, values, clock) => {
            let (ctx, election) = ready?;
            control(operator, ctx, (election, recording), &probe).await
        }
    }
}

/// The routes beside `/metrics` that the settings switch on.
fn further(values: &Values, probe: &Arc<Probe>) -> axum::Router {
    let probe = probe.clone();
    let source = move || probe.ctx.get().cloned();
    let mut routes = axum::Router::new();
    if values.bool("UI_ENDPOINT") {
        routes = routes.merge(ui::routes(source.clone()));
    }
    if values.bool("DECISIONS_ENDPOINT") {
        routes = routes.merge(decisions::routes(move || source().map(|ctx| ctx.decisions)));
    }
    routes
}

/// A leader election.
struct Campaign {
    election: Election,
    leadership: Leadership,
}

/// Runs all controllers until SIGTERM. A standby watches, and acts as soon as it holds the lease.
async fn control(
    operator: &Operator,
    ctx: Ctx,
    (campaign, recording): (Option<Campaign>, Option<RecordingOptions>),
    probe: &Probe,
) -> anyhow::Result<()> {
    ctx.metrics.register(Box::new(ProcessCollector::new())).context("metrics of the process")?;
    let _ = probe.ctx.set(ctx.clone());
    let recording = recording.map(|options| record(operator, options, &ctx)).transpose()?;
    let (trigger, stop) = shutdown();
    let (resign, resigned) = shutdown();
    let (client, clock) = (ctx.client.client(), ctx.clocks.clock().clone());
    let recorder = ctx.recorder.clone();
    let mut elected = std::pin::pin!(async move {
        match campaign {
            Some(Campaign { election, leadership }) => {
                let publish = |event| recorder.publish(event);
                election.campaign(client, clock, &leadership, resigned, publish).await
            }
            None => {
                let mut resigned = resigned;
                resigned.requested().await;
                Ok(())
            }
        }
    });
    let mut controllers = all::controllers(&ctx);
    controllers.extend(operator.own_controllers(&ctx));
    controllers.extend(otel::controller(&ctx, operator.version())?);
    let mut running = std::pin::pin!(runtime::run(ctx, controllers, stop));
    tracing::info!(version = operator.version(), "starting controllers");
    tokio::select! {
        biased;
        () = signals::terminated() => {}
        ended = &mut running => return ended.context("the controllers ended"),
        // Another replica may lead already: this one exits at once and is restarted as a standby.
        ended = &mut elected => return ended.context("the process ends, to be started again"),
    }
    tracing::info!("shutting down");
    trigger.fire();
    drop(recording);
    // The lease is renewed until the last controller has ended, then released, so that the next replica acquires it at once.
    let ended = tokio::select! {
        biased;
        ended = tokio::time::timeout(SHUTDOWN_TIMEOUT, running) => ended,
        lost = &mut elected => return lost.context("the lease was lost during shutdown"),
    };
    resign.fire();
    let handed_back = elected.await;
    match ended {
        Ok(ended) => ended.context("the controllers ended").and_then(|()| handed_back.map_err(Into::into)),
        Err(_) => {
            tracing::error!(grace = ?SHUTDOWN_TIMEOUT, "some loops did not end in time");
            Ok(())
        }
    }
}

/// Starts the recording of the settings.
fn record(operator: &Operator, options: RecordingOptions, ctx: &Ctx) -> anyhow::Result<Recording> {
    let classes = &ctx.cloud.info().node_classes;
    let (client, clock) = (ctx.client.client(), ctx.clocks.clock());
    let mut recording = Recording::start(options, &client, clock, classes, operator.catalogues())?;
    recording.follow(ctx.decisions.clone());
    ctx.metrics.register(Box::new(recording.active.clone())).context("the metric of the recording")?;
    Ok(recording)
}

/// Connects to cluster and cloud, and checks that they belong together.
async fn prepare(
    cloud: &dyn CloudConnector,
    values: Values,
    clock: SharedClock,
) -> anyhow::Result<(Ctx, Option<Campaign>)> {
    let config = kube_client::configure(None).await?;
    let api_server = kube_client::host(&config);
    let client = runtime::client(config)?;
    let cluster_uid = with_retries("the API server", || kube_client::cluster_uid(&client)).await?;
    // Fields that the API server prunes would be lost.
    with_retries("the custom resource definitions", || kube_client::check_definitions(&client)).await?;
    let provider = with_retries("the cloud", || async {
        let (client, clock) = (client.clone(), clock.clone());
        let environment = Environment::new(client, clock, cluster_uid.clone(), values.clone());
        let provider = cloud.connect(&environment).await?;
        environment.keep_watches();
        Ok(provider)
    })
    .await?;
    // EKS may be slow or throttled: identification is retried, and its result is final.
    let identity =
        with_retries("the cloud's identification of the cluster", || identity(&*provider, &cluster_uid))
            .await?;
    proven(&identity)?;
    let campaign = campaign(&values, &client);
    let leadership = campaign.as_ref().map(|campaign| campaign.leadership.clone());
    let ctx = Ctx::new(CtxParts {
        api_server,
        client,
        clock,
        cloud: provider,
        settings: settings::controllers(&values),
        seed: seed(),
        offload: Offload::Thread,
        cluster_uid,
        leadership: leadership.unwrap_or_else(Leadership::without_election),
    });
    Ok((ctx, campaign))
}

/// The leader election of the settings.
#[expect(clippy::disallowed_methods, reason = "the pod's name, which only the environment knows")]
fn campaign(values: &Values, client: &Client) -> Option<Campaign> {
    if values.bool("DISABLE_LEADER_ELECTION") {
        return None;
    }
    let election = election(
        values,
        std::env::var("SYSTEM_NAMESPACE").ok(),
        client.default_namespace(),
        &std::env::var("HOSTNAME").unwrap_or_else(|_| "fleetwright".to_owned()),
        SystemClock.now().as_nanosecond(),
    );
    Some(Campaign { election, leadership: Leadership::candidate() })
}

/// The namespace of the lease is the setting's, otherwise the controller's own.
fn election(values: &Values, own: Option<String>, default: &str, host: &str, nonce: i128) -> Election {
    let filled = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let namespace =
        filled(values.text("LEADER_ELECTION_NAMESPACE")).or_else(|| own.filter(|own| !own.is_empty()));
    Election {
        namespace: namespace.unwrap_or_else(|| default.to_owned()),
        name: filled(values.text("LEADER_ELECTION_NAME"))
            .unwrap_or_else(|| "karpenter-leader-election".to_owned()),
        identity: format!("{host}_{nonce:x}"),
    }
}

/// Names must differ between runs, so that a restart never repeats one.
fn seed() -> u64 {
    u64::try_from(SystemClock.now().as_nanosecond() & i128::from(u64::MAX)).unwrap_or_default()
}

async fn identity(cloud: &dyn CloudProvider, cluster_uid: &str) -> anyhow::Result<Identity> {
    Ok(cloud.identify(cluster_uid).await?)
}

fn proven(identity: &Identity) -> anyhow::Result<()> {
    match identity {
        Identity::Proven => Ok(()),
        Identity::Unproven(why) => {
            tracing::info!(%why, "nothing proves that the cloud's cluster is this one");
            Ok(())
        }
        // The controller must never act on the nodes of another cluster.
        Identity::Mismatch(why) => bail!("the cloud's cluster is not this one: {why}"),
        other => bail!("nothing is known of a cluster that is {other:?}"),
    }
}

/// Retries for a bounded time: at the start, a dependency may not be available yet.
pub(crate) async fn with_retries<T, F>(what: &str, mut attempt: impl FnMut() -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let (mut waited, mut pause) = (Duration::ZERO, RETRY_DELAY);
    while waited < STARTUP_TIMEOUT {
        match attempt().await {
            Ok(value) => return Ok(value),
            Err(error) => tracing::error!(error = format!("{error:#}"), "waiting for {what}"),
        }
        tokio::time::sleep(pause).await;
        waited = waited.saturating_add(pause);
        pause = pause.saturating_mul(2).min(RETRY_DELAY_MAX);
    }
    attempt().await.with_context(|| format!("{what} could not be reached for {STARTUP_TIMEOUT:?}"))
}

/// The cloud of `--cloud`, or the default one of this build.
fn cloud(operator: &Operator, name: &str) -> anyhow::Result<Arc<dyn CloudConnector>> {
    let names = operator.cloud_names();
    let known = names.join(" and ");
    let name = operator.chosen(name);
    ensure!(!name.is_empty(), "--cloud is not set (env CLOUD): this build has {known}");
    operator.connector(name).with_context(|| format!("--cloud {name}: this build has {known}"))
}

/// The state behind the probes.
#[derive(Default)]
struct Probe {
    ctx: OnceLock<Ctx>,
}

impl http::Probe for Probe {
    fn healthy(&self) -> Result<(), String> {
        // Until cluster and cloud are reached, the process exits after `STARTUP_TIMEOUT`.
        self.ctx.get().map_or(Ok(()), |ctx| ctx.alive().map_err(|stuck| stuck.to_string()))
    }

    fn ready(&self) -> Result<(), String> {
        let ctx = self.ctx.get().ok_or("cluster or cloud not reached yet")?;
        may_act(&ctx.cluster.index(), ctx.clocks.steady()).map_err(|passive| passive.to_string())
    }

    fn metrics(&self) -> String {
        self.ctx.get().and_then(|ctx| ctx.metrics.encode().ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    //! The choice of the cloud.
    use fleetwright_core::model::Currency;

    use super::*;

    #[test]
    fn the_lease_follows_the_settings() {
        for (flags, own, expected) in [
            (&[][..], None, "default/karpenter-leader-election"),
            (&[], Some("kube-system"), "kube-system/karpenter-leader-election"),
            (&[("leader-election-namespace", "ns")], Some("kube-system"), "ns/karpenter-leader-election"),
            (&[("leader-election-name", "lock")], Some(""), "default/lock"),
        ] {
            let flags = flags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let values = Values::resolve(&flags, |_| None).unwrap();
            let found = election(&values, own.map(str::to_owned), "default", "pod-1", 255);
            assert_eq!(format!("{}/{}", found.namespace, found.name), expected);
            assert_eq!(found.identity, "pod-1_ff");
        }
    }

    /// The status of each path of the routes beside `/metrics`, with these flags.
    async fn served(flags: &[(&str, &str)], paths: &[&str]) -> Vec<u16> {
        let flags = flags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let values = Values::resolve(&flags, |_| None).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = further(&values, &Arc::new(Probe::default()));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let mut found = Vec::new();
        for path in paths {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer).await.unwrap();
            found.push(answer.split_whitespace().nth(1).unwrap().parse().unwrap());
        }
        found
    }

    #[tokio::test]
    async fn the_page_and_the_decisions_are_served_if_their_settings_say_so() {
        let paths = ["/ui", "/ui/fleet.json", "/ui/decisions", "/decisions"];
        assert_eq!(served(&[], &paths).await, [404; 4]);
        assert_eq!(served(&[("ui-endpoint", "true")], &paths).await, [200, 503, 503, 404]);
        assert_eq!(served(&[("decisions-endpoint", "true")], &paths).await, [404, 404, 404, 503]);
    }

    struct Nothing;

    #[async_trait::async_trait]
    impl CloudConnector for Nothing {
        async fn connect(&self, _: &Environment) -> anyhow::Result<Arc<dyn CloudProvider>> {
            bail!("nothing to connect to")
        }
    }

    #[test]
    fn no_cloud_is_a_default_unless_the_binary_says_so() {
        let operator = Operator::new("test", "1").cloud("one", Nothing).cloud("two", Nothing);
        let refusal = |name: &str| cloud(&operator, name).err().unwrap().to_string();
        assert!(cloud(&operator, "one").is_ok() && cloud(&operator, "two").is_ok());
        assert_eq!(refusal(""), "--cloud is not set (env CLOUD): this build has one and two");
        assert_eq!(refusal("azure"), "--cloud azure: this build has one and two");
        let with_default = operator.default_cloud("two");
        let chosen = |name: &str| cloud(&with_default, name).unwrap();
        assert!(Arc::ptr_eq(&chosen(""), &with_default.connector("two").unwrap()));
        assert!(Arc::ptr_eq(&chosen("one"), &with_default.connector("one").unwrap()));
        // A build may lack the cloud that is its default elsewhere.
        let without = Operator::new("test", "1").cloud("one", Nothing).default_cloud("two");
        assert!(cloud(&without, "").is_err());
    }

    struct Euros;

    #[async_trait::async_trait]
    impl CloudConnector for Euros {
        async fn connect(&self, _: &Environment) -> anyhow::Result<Arc<dyn CloudProvider>> {
            bail!("nothing to connect to")
        }

        fn currency(&self) -> Currency {
            Currency::EUR
        }
    }

    #[test]
    fn prices_are_in_the_currency_of_the_chosen_cloud_and_else_of_the_first() {
        let operator = Operator::new("test", "1").cloud("euros", Euros).cloud("dollars", Nothing);
        let settings = |cloud: &[&str]| {
            let flags = cloud.iter().map(|name| ("cloud".to_owned(), (*name).to_owned())).collect();
            settings::controllers(&operator.values(&flags).unwrap())
        };
        assert_eq!(settings(&[]).currency, Currency::EUR);
        assert_eq!(settings(&["euros"]).currency, Currency::EUR);
        assert_eq!(settings(&["dollars"]).currency, Currency::USD);
    }

    #[test]
    fn only_another_cluster_ends_the_process() {
        assert!(
            proven(&Identity::Proven).is_ok() && proven(&Identity::Unproven("EKS is silent".into())).is_ok()
        );
        assert!(proven(&Identity::Mismatch("another".into())).is_err());
    }
}

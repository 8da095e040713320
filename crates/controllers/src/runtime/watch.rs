//! Watches one kind: a complete list, then a watch from its resource version, for ever.
//!
//! Our own loop rather than kube's watcher, for three reasons: "410 Gone" restarts the list in either form (watch event or
//! HTTP status), every wait has a deadline on our clock, and signs of life (events, bookmarks, the regular end of a watch)
//! are recorded, so that controllers can distinguish fresh from stale state.

use std::{fmt::Debug, pin::pin, time::Duration};

use fleetwright_api::NodeClassView;
use fleetwright_core::{cloud::NodeClassKind, model::NodeClassRef};
use fleetwright_state::{Refusal, RefusalCause, Tracked, WatchedKind};
use futures::StreamExt;
use kube::{
    Api,
    api::{DynamicObject, ListParams, WatchEvent, WatchParams},
    core::{ApiResource, GroupVersionKind, Status},
};
use serde::de::DeserializeOwned;

use super::{ctx::Ctx, heartbeat::Loop, limit::RateLimit, queue::later, shutdown::Shutdown};
use crate::metrics::runtime as families;

/// Objects per page of a list.
const PAGE: u32 = 500;
/// Seconds after which the server ends a watch, which is a sign of life.
const WATCH_SECONDS: u32 = 60;
/// A watch that is silent for longer than the server allows is dead.
const WATCH_SILENCE: Duration = Duration::from_secs(75);
/// Deadline of one page of a list.
const LIST_DEADLINE: Duration = Duration::from_secs(60);
/// Number of consecutive failed resumes after which the kind is listed again.
const RESUMES: u32 = 5;
/// Number of consecutive refusals after which a kind that was never listed is off: roles may be created after the controller.
const REFUSALS: u32 = 3;
/// How long after its last sign of life a kind that is refused is off: roles may be replaced. Before [`super::MAX_SILENCE`],
/// with the longest delay between two attempts in between.
const REFUSED_FOR: Duration = Duration::from_secs(60);
/// Delays between attempts.
const RETRY: RateLimit = RateLimit::new(Duration::from_millis(200), Duration::from_secs(30), 1, 1);

/// The bounds of a watched kind.
pub(super) trait Watchable:
    Tracked + kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static
{
}
impl<K> Watchable for K where K: Tracked + kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static {}

/// Where the objects of a kind are read.
pub(super) struct Source<K> {
    api: Api<K>,
    resource: ApiResource,
    /// The kind of NodeClass, if it is one.
    class: Option<NodeClassRef>,
    /// The loop for heartbeats: two kinds of NodeClass are two watches.
    heartbeat: Loop,
}

impl<K: Watchable + kube::Resource<DynamicType = ()>> Source<K> {
    /// A kind that is known at compile time.
    pub(super) fn new(ctx: &Ctx) -> Self {
        let (api, resource) = (Api::all(ctx.client.client()), ApiResource::erase::<K>(&()));
        Self { api, resource, class: None, heartbeat: ("watch", K::KIND.as_str().into()) }
    }
}

impl Source<NodeClassView> {
    /// A kind of NodeClass that the provider declares.
    pub(super) fn of_class(ctx: &Ctx, class: &NodeClassKind) -> Self {
        let gvk = GroupVersionKind::gvk(&class.group, &class.version, &class.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &class.plural);
        let api = Api::all_with(ctx.client.client(), &resource);
        let heartbeat = ("watch", format!("{}.{}", class.plural, class.group).into());
        Self { api, resource, class: Some(class.named("")), heartbeat }
    }
}

impl<K: Watchable> Source<K> {
    /// Sets the kind on an object: objects in a list may lack it.
    fn of_kind(&self, object: K) -> K {
        object.of_kind(&self.resource.api_version, &self.resource.kind)
    }
}

/// Why a watch ended.
enum End {
    /// Regularly, or with an error that allows resuming from the same version.
    Resume { failed: bool },
    /// The version is too old: start over.
    Relist,
}

/// Why a list failed.
#[derive(Debug, thiserror::Error)]
enum ListError {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error("no answer within {0:?}")]
    Deadline(Duration),
    #[error("the list has no resource version")]
    NoVersion,
}

/// Watches the objects of `source` until shutdown.
pub(super) async fn follow<K: Watchable>(ctx: Ctx, source: Source<K>, mut stop: Shutdown) {
    tokio::select! {
        biased;
        () = stop.requested() => {}
        () = list_and_watch(&ctx, &source) => {}
    }
    ctx.heartbeats.end(&source.heartbeat);
}

/// Records an iteration. Called before each wait; every wait has a deadline.
fn beat<K>(ctx: &Ctx, source: &Source<K>) {
    ctx.heartbeats.beat(source.heartbeat.clone(), ctx.clocks.steady(), None);
}

async fn list_and_watch<K: Watchable>(ctx: &Ctx, source: &Source<K>) {
    let mut failures: u32 = 0;
    loop {
        beat(ctx, source);
        let leads = ctx.gate.leadership().holds();
        let mut version = match list(ctx, source).await {
            Ok((objects, version)) => {
                failures = 0;
                if let Some(feature) = K::KIND.feature() {
                    ctx.features.restore(feature, &source.resource.group, &source.resource.plural);
                }
                ctx.cluster.reset(objects, &version, source.class.as_ref());
                if leads && K::KIND == WatchedKind::NodeClaim {
                    ctx.gate.leadership().catch_up();
                }
                version
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                if !is_off(ctx, source, &error, failures) {
                    ctx.metrics.inc(&families::WATCH_ERRORS, &[K::KIND.as_str()]);
                    tracing::warn!(kind = %K::KIND, %error, failures, "cannot list");
                }
                ctx.clocks.sleep(RETRY.delay(failures)).await;
                continue;
            }
        };
        while failures <= RESUMES {
            beat(ctx, source);
            let ended = tokio::select! {
                biased;
                // The last writes of the previous leader may not be in the index yet.
                () = ctx.gate.leadership().elected(), if K::KIND == WatchedKind::NodeClaim => End::Relist,
                ended = watch(ctx, source, &mut version) => ended,
            };
            match ended {
                End::Relist => break,
                End::Resume { failed: false } => failures = 0,
                End::Resume { failed: true } => {
                    failures += 1;
                    ctx.metrics.inc(&families::WATCH_ERRORS, &[K::KIND.as_str()]);
                    ctx.clocks.sleep(RETRY.delay(failures)).await;
                }
            }
        }
        failures = 0;
        // Lists are expensive: wait between two of them.
        ctx.clocks.sleep(RETRY.base).await;
    }
}

/// Records that the API server refuses the kind, if it does. Returns whether the controllers do without it.
fn is_off<K: Watchable>(ctx: &Ctx, source: &Source<K>, error: &ListError, failures: u32) -> bool {
    let ListError::Kube(kube::Error::Api(status)) = error else { return false };
    let Some(cause) = RefusalCause::of(status.code) else { return false };
    let ApiResource { group, plural, .. } = &source.resource;
    let (group, resource) = (group.as_str().into(), plural.as_str().into());
    let refusal = Refusal { cause, group, resource, verbs: Refusal::WATCH };
    if let Some(feature) = K::KIND.feature() {
        let last = ctx.cluster.index().last_progress(K::KIND);
        let now = ctx.clocks.steady();
        if last.map_or(failures < REFUSALS, |last| now < later(last, REFUSED_FOR)) {
            return false;
        }
        ctx.features.refuse(feature, &refusal);
    }
    ctx.cluster.refuse::<K>(refusal);
    ctx.cluster.index().is_off(K::KIND)
}

/// Returns a complete, most recent list and its resource version.
async fn list<K: Watchable>(ctx: &Ctx, source: &Source<K>) -> Result<(Vec<K>, String), ListError> {
    let mut params = ListParams { limit: Some(PAGE), ..ListParams::default() };
    let mut objects = Vec::new();
    loop {
        beat(ctx, source);
        let page = ctx.clocks.within(LIST_DEADLINE, source.api.list(&params)).await;
        let page = match page.ok_or(ListError::Deadline(LIST_DEADLINE))? {
            // One invalid object must not hide the others.
            Err(kube::Error::SerdeError(_)) => list_one_by_one(ctx, source, &params).await?,
            other => other?,
        };
        objects.extend(page.items.into_iter().map(|object| source.of_kind(object)));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => {
                let version = page.metadata.resource_version.filter(|version| !version.is_empty());
                return Ok((objects, version.ok_or(ListError::NoVersion)?));
            }
        }
    }
}

/// Reads the same page object by object; invalid objects are reported and left out.
async fn list_one_by_one<K: Watchable>(
    ctx: &Ctx,
    source: &Source<K>,
    params: &ListParams,
) -> Result<kube::core::ObjectList<K>, ListError> {
    let api = Api::<DynamicObject>::all_with(ctx.client.client(), &source.resource);
    let page = ctx
        .clocks
        .within(LIST_DEADLINE, api.list(params))
        .await
        .ok_or(ListError::Deadline(LIST_DEADLINE))??;
    let mut items = Vec::with_capacity(page.items.len());
    for object in page.items {
        match parse(&object) {
            Ok(parsed) => items.push(parsed),
            Err(why) => super::unreadable::report(ctx, K::KIND, &source.resource, &object, &why).await,
        }
    }
    Ok(kube::core::ObjectList { types: page.types, metadata: page.metadata, items })
}

/// Reads an object as a `K`, from text as a list is read: `try_parse` would compile the deserializer of each kind once more.
pub(crate) fn parse<K: DeserializeOwned>(object: &DynamicObject) -> Result<K, String> {
    let text = serde_json::to_string(object).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| {
        let why = error.to_string();
        // The position in the generated text is of no use to users.
        let why = why.split_once(" at line ").map_or(&*why, |(why, _)| why);
        format!("failed to parse this DynamicObject into a Resource: {why}")
    })
}

/// Applies changes from `version` on, and advances `version`.
async fn watch<K: Watchable>(ctx: &Ctx, source: &Source<K>, version: &mut String) -> End {
    let params = WatchParams { timeout: Some(WATCH_SECONDS), bookmarks: true, ..WatchParams::default() };
    let stream = match ctx.clocks.within(LIST_DEADLINE, source.api.watch(&params, version)).await {
        Some(Ok(stream)) => stream,
        Some(Err(kube::Error::Api(status))) if is_gone(&status) => return End::Relist,
        Some(Err(error)) => {
            tracing::warn!(kind = %K::KIND, %error, "cannot watch");
            return End::Resume { failed: true };
        }
        None => return End::Resume { failed: true },
    };
    ctx.cluster.progress(K::KIND, source.class.as_ref());
    let mut stream = pin!(stream);
    loop {
        beat(ctx, source);
        let event = match ctx.clocks.within(WATCH_SILENCE, stream.next()).await {
            None => return End::Resume { failed: true },
            Some(None) => {
                ctx.cluster.progress(K::KIND, source.class.as_ref());
                return End::Resume { failed: false };
            }
            Some(Some(Err(error))) => {
                tracing::debug!(kind = %K::KIND, %error, "watch broke");
                // An object that cannot be read fails again after resuming; a list can skip it. (An invalid watch event
                // arrives as an API error, because every object parses as a Status.)
                let unreadable = matches!(error, kube::Error::SerdeError(_) | kube::Error::Api(_));
                return if unreadable { End::Relist } else { End::Resume { failed: true } };
            }
            Some(Some(Ok(event))) => event,
        };
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                move_to(version, &object);
                ctx.cluster.observe(source.of_kind(object));
            }
            WatchEvent::Deleted(object) => {
                move_to(version, &object);
                ctx.cluster.forget(&source.of_kind(object));
            }
            WatchEvent::Bookmark(mark) => *version = mark.metadata.resource_version,
            WatchEvent::Error(status) if is_gone(&status) => return End::Relist,
            WatchEvent::Error(status) => {
                tracing::warn!(kind = %K::KIND, message = status.message, "watch was ended by the server");
                return End::Resume { failed: true };
            }
        }
        ctx.cluster.progress(K::KIND, source.class.as_ref());
    }
}

fn move_to<K: kube::Resource>(version: &mut String, object: &K) {
    if let Some(newer) = &object.meta().resource_version {
        version.clone_from(newer);
    }
}

fn is_gone(status: &Status) -> bool {
    status.code == 410 || status.reason == "Expired" || status.reason == "Gone"
}

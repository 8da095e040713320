//! Runs one controller: takes due keys from its queue and reconciles them with bounded concurrency. Times are steady.

use std::{any::Any, collections::BTreeMap, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use fleetwright_state::Key;
use futures::FutureExt;
use jiff::Timestamp;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::{
    controller::{Controller, ReconcileError, Requeue},
    ctx::Ctx,
    heartbeat::{HEARTBEAT_INTERVAL, Loop},
    queue::{Queue, later},
    shutdown::Shutdown,
};
use crate::{
    log,
    metrics::{CURRENT_CONTROLLER, Family, runtime as families},
};

/// How long running reconciles may take after shutdown was requested. The lease is released after that: a reconcile may wait for
/// minutes for the cloud.
const RECONCILE_GRACE: Duration = Duration::from_millis(500);
/// How long calls to the API server may take after that: the next leader must see their effect when it lists.
const CALL_GRACE: Duration = Duration::from_secs(10);
/// Interval at which a passive controller checks whether it may act.
const PASSIVE_POLL: Duration = Duration::from_millis(500);

/// The priority label: queues have no priorities, and controller-runtime gives changes priority 0.
const PRIORITY: &str = "0";
/// Interval at which the gauges of running reconciles are updated.
const GAUGE_INTERVAL: Duration = Duration::from_secs(10);

/// The result of one reconcile.
struct ReconcileOutcome {
    key: Key,
    /// The outer error is a panic.
    result: Result<Result<Requeue, ReconcileError>, Box<dyn Any + Send>>,
    took: Duration,
}

/// A running controller.
pub(super) struct Worker {
    ctx: Ctx,
    controller: Arc<dyn Controller>,
    queue: Arc<Queue>,
    running: JoinSet<ReconcileOutcome>,
    /// The keys in `running` and their start, in steady time.
    started: BTreeMap<Key, Timestamp>,
    /// Number of reconciles that started.
    count: u64,
    /// The last values of the gauges.
    gauges: Option<WorkerGauges>,
}

/// Gauges of a controller: keys in progress, keys that are due, seconds of all running reconciles and of the longest.
#[derive(Clone, Copy)]
struct WorkerGauges {
    active: usize,
    depth: usize,
    unfinished: f64,
    longest: f64,
}

impl Worker {
    pub(super) fn new(ctx: Ctx, controller: Arc<dyn Controller>, queue: Arc<Queue>) -> Self {
        Self {
            ctx,
            controller,
            queue,
            running: JoinSet::new(),
            started: BTreeMap::new(),
            count: 0,
            gauges: None,
        }
    }

    /// Runs until shutdown, then waits for running reconciles.
    pub(super) async fn run(mut self, mut stop: Shutdown) {
        if self.controller.is_singleton() {
            self.queue.add(Key::singleton());
        }
        let concurrency = self.controller.concurrency(&self.ctx.settings).max(1);
        self.ctx.metrics.set(&families::MAX_CONCURRENT, &[self.controller.name()], to_f64(concurrency));
        self.initialize_series();
        let mut reported = None;
        loop {
            let now = self.ctx.clocks.steady();
            let passive = self.ctx.gate.may_act().err();
            if passive != reported {
                tracing::debug!(controller = self.controller.name(), passive = ?passive, "passive");
                reported.clone_from(&passive);
            }
            while passive.is_none() && self.running.len() < concurrency {
                let Some(key) = self.queue.next(now) else { break };
                self.start(key);
            }
            self.update_gauges();
            self.ctx.heartbeats.beat(self.heartbeat(), now, self.started.values().min().copied());
            let wait = if passive.is_some() { Some(PASSIVE_POLL) } else { self.until_next(concurrency) };
            let busy = (!self.running.is_empty()).then_some(GAUGE_INTERVAL);
            let pause = self.ctx.clocks.sleep(
                wait.into_iter()
                    .chain(busy)
                    .min()
                    .map_or(HEARTBEAT_INTERVAL, |wait| wait.min(HEARTBEAT_INTERVAL)),
            );
            tokio::select! {
                biased;
                () = stop.requested() => break,
                Some(done) = self.running.join_next() => self.finish(done.ok()),
                () = self.queue.changed(), if passive.is_none() && self.running.len() < concurrency => {}
                () = pause => {}
            }
        }
        self.ctx.heartbeats.end(&self.heartbeat());
        self.shut_down().await;
    }

    /// The name under which its liveness is recorded.
    fn heartbeat(&self) -> Loop {
        ("controller", self.controller.name().into())
    }

    /// Updates the gauges. Called in every iteration, so only changed values are written.
    fn update_gauges(&mut self) {
        let (name, metrics) = (self.controller.name(), &self.ctx.metrics);
        let added = self.queue.take_added();
        if added > 0 {
            metrics.add(&families::QUEUE_ADDS, &[name, name], to_f64(added));
        }
        for wait in self.queue.take_waits() {
            metrics.observe(&families::QUEUE_WAIT, &[name, name], wait.as_secs_f64());
        }
        let now = self.ctx.clocks.steady();
        let worked = self.started.values().map(|since| now.duration_since(*since).as_secs_f64().max(0.0));
        let gauges = WorkerGauges {
            active: self.running.len(),
            depth: self.queue.depth(),
            unfinished: worked.clone().sum(),
            longest: worked.fold(0.0, f64::max),
        };
        let before = self.gauges.replace(gauges);
        let set = |family: &Family, labels: &[&str], of: fn(&WorkerGauges) -> f64| {
            if before.as_ref().map(of) != Some(of(&gauges)) {
                metrics.set(family, labels, of(&gauges));
            }
        };
        set(&families::ACTIVE, &[name], |gauges| to_f64(gauges.active));
        set(&families::QUEUE_DEPTH, &[name, name, PRIORITY], |gauges| to_f64(gauges.depth));
        set(&families::QUEUE_UNFINISHED, &[name, name], |gauges| gauges.unfinished);
        set(&families::QUEUE_LONGEST, &[name, name], |gauges| gauges.longest);
    }

    /// Initializes the counters at zero, so that the first error is an increase.
    fn initialize_series(&self) {
        let (metrics, name) = (&self.ctx.metrics, self.controller.name());
        for result in ["success", "requeue", "requeue_after", "error"] {
            metrics.add(&families::RECONCILES, &[name, result], 0.0);
        }
        for family in
            [&families::RECONCILE_ERRORS, &families::PANICS, &families::TERMINAL_ERRORS, &families::TIMEOUTS]
        {
            metrics.add(family, &[name], 0.0);
        }
    }

    /// How long until a delayed key is due; `None` if no key is delayed.
    fn until_next(&self, concurrency: usize) -> Option<Duration> {
        if self.running.len() >= concurrency {
            return None;
        }
        let wait = self.queue.next_deadline()?.duration_since(self.ctx.clocks.steady());
        Some(Duration::try_from(wait).unwrap_or_default())
    }

    fn start(&mut self, key: Key) {
        let (ctx, controller) = (self.ctx.clone(), self.controller.clone());
        self.started.insert(key.clone(), ctx.clocks.steady());
        self.count = self.count.wrapping_add(1);
        let span = log::reconcile_span(controller.name(), &key, self.count, ctx.clocks.steady());
        let reconcile = async move {
            let started = ctx.clocks.steady();
            // A panic equals a crash: every reconcile is repeatable.
            let result = AssertUnwindSafe(controller.reconcile(&key)).catch_unwind();
            let result = CURRENT_CONTROLLER.scope(controller.name(), result).await;
            let took = Duration::try_from(ctx.clocks.steady().duration_since(started)).unwrap_or_default();
            ReconcileOutcome { key, result, took }
        };
        self.running.spawn(reconcile.instrument(span));
    }

    /// Applies the outcome of a reconcile; `None` if it was aborted.
    fn finish(&mut self, done: Option<ReconcileOutcome>) {
        let Some(ReconcileOutcome { key, result, took }) = done else { return };
        self.started.remove(&key);
        let name = self.controller.name();
        let now = self.ctx.clocks.steady();
        let result = match result {
            Ok(result) => result,
            Err(panic) => {
                let delay = self.queue.failed(&key, now);
                self.ctx.metrics.inc(&families::PANICS, &[name]);
                self.ctx.metrics.inc(&families::QUEUE_RETRIES, &[name, name]);
                let message = panic_message(&*panic);
                tracing::error!(controller = name, %key, message, ?delay, "reconcile panicked");
                return;
            }
        };
        let label = match &result {
            Ok(Requeue::No) => "success",
            Ok(Requeue::After(_)) => "requeue_after",
            Ok(Requeue::Now | Requeue::Backoff) => "requeue",
            Err(_) => "error",
        };
        self.ctx.metrics.inc(&families::RECONCILES, &[name, label]);
        self.ctx.metrics.observe(&families::RECONCILE_TIME, &[name], took.as_secs_f64());
        self.ctx.metrics.observe(&families::QUEUE_WORK, &[name, name], took.as_secs_f64());
        if matches!(result, Ok(Requeue::Backoff) | Err(_)) {
            self.ctx.metrics.inc(&families::QUEUE_RETRIES, &[name, name]);
        }
        match result {
            Ok(Requeue::Backoff) => {
                self.queue.failed(&key, now);
            }
            Ok(requeue) => {
                self.queue.done(&key);
                match requeue {
                    Requeue::Now => self.queue.add(key),
                    Requeue::After(delay) => self.queue.add_at(key, later(now, delay)),
                    Requeue::No | Requeue::Backoff => {}
                }
            }
            Err(error) => {
                let delay = self.queue.failed(&key, now);
                if error.is_conflict() {
                    tracing::debug!(controller = name, %key, %error, ?delay, "will try again");
                } else {
                    self.ctx.metrics.inc(&families::RECONCILE_ERRORS, &[name]);
                    tracing::error!(controller = name, %key, %error, ?delay, "reconcile failed");
                }
            }
        }
    }

    /// Waits for running reconciles and aborts them after [`RECONCILE_GRACE`], between two calls to the API server.
    ///
    /// An aborted call to the cloud may have its effect. The next leader finds it as after a crash: launches by batch and
    /// attempt, terminations because they are repeated until the instance is terminated.
    async fn shut_down(mut self) {
        let grace = self.ctx.clocks.sleep(RECONCILE_GRACE);
        tokio::pin!(grace);
        loop {
            tokio::select! {
                biased;
                done = self.running.join_next() => match done {
                    Some(done) => self.finish(done.ok()),
                    None => return,
                },
                () = &mut grace => break,
            }
        }
        let client = &self.ctx.client;
        client.close();
        let _ = self.ctx.clocks.within(CALL_GRACE, client.idle()).await;
        tracing::warn!(
            controller = self.controller.name(),
            left = self.running.len(),
            "reconciles were aborted"
        );
    }
}

fn to_f64(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// The message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

//! Watches, queues and workers together, over a real client against the in-memory API server.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_fake_kube::{Answer, ApiError, Fault, Faults, Request, WatchFault};
use fleetwright_state::{Change, Index, Key, WatchedKind};

use super::*;
use crate::{metrics::runtime as families, testing::Harness};

/// Records the pods that it reconciles; one pod makes it panic, one makes it fail.
#[derive(Clone)]
struct Probe {
    cluster: Cluster,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Probe {
    fn new(harness: &Harness) -> Self {
        Self { cluster: harness.ctx.cluster.clone(), seen: Arc::default() }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

#[async_trait]
impl Controller for Probe {
    fn name(&self) -> &'static str {
        "probe"
    }
    fn rate_limit(&self) -> RateLimit {
        RateLimit::new(Duration::from_secs(1), Duration::from_secs(60), 10, 100)
    }
    fn interested(&self, change: &Change, _index: &Index) -> Vec<Key> {
        if change.kind == WatchedKind::Pod { vec![change.key.clone()] } else { Vec::new() }
    }
    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let there = self.cluster.index().pod(&key.into()).is_some();
        self.seen.lock().unwrap().push(format!("{}{}", if there { "" } else { "-" }, key.name));
        match &*key.name {
            "panics" => panic!("injected by the test"),
            "fails" => Err(ReconcileError::Other("injected by the test".to_owned())),
            _ => Ok(Requeue::No),
        }
    }
}

/// Faults that depend on the request and on its count.
struct Script<F>(F, Mutex<u32>);

impl<F: Fn(&Request, u32) -> Fault + Send + Sync> Faults for Script<F> {
    fn decide(&self, request: &Request) -> Fault {
        if request.resource != "pods" {
            return Fault::default();
        }
        let mut count = self.1.lock().unwrap();
        *count += 1;
        (self.0)(request, *count)
    }
}

fn harness(script: impl Fn(&Request, u32) -> Fault + Send + Sync + 'static) -> Harness {
    Harness::with(Some(Arc::new(Script(script, Mutex::new(0)))))
}

/// Creates and deletes pods every few seconds, and checks that every change is applied in spite of the faults.
async fn observes_every_change(harness: Harness) {
    let probe = Probe::new(&harness);
    let _running = harness.run(vec![Arc::new(probe.clone())]);
    for n in 0..10 {
        harness.pending_pod(&format!("p{n}"), "1");
        harness.pass(3).await;
        assert!(probe.seen().contains(&format!("p{n}")), "p{n} in time, in {:?}", probe.seen());
        harness.pass(4).await;
    }
    harness.server.delete("v1", "Pod", "default", "p3").unwrap();
    harness.pass(90).await;
    let seen = probe.seen();
    assert!(seen.contains(&"-p3".to_owned()), "{seen:?}");
    assert_eq!(harness.ctx.cluster.index().pods().count(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_healthy_watch() {
    observes_every_change(Harness::new()).await;
}

/// Watches end after two events, as `watch` defines; a watch that does not follow a list is refused with `refusal`.
fn watches_only_after_a_list(watch: WatchFault, refusal: ApiError) -> Harness {
    let listed = Mutex::new(false);
    harness(move |request, _| {
        let mut listed = listed.lock().unwrap();
        let refused = request.verb == "watch" && !*listed;
        *listed = request.verb == "list";
        let answer = if refused { Answer::Refuse(refusal.clone()) } else { Answer::Normal };
        Fault { answer, watch: watch.clone(), ..Fault::default() }
    })
}

#[tokio::test(start_paused = true)]
async fn a_gone_event_restarts_the_list() {
    let watch = WatchFault { expire_after: Some(2), ..WatchFault::default() };
    observes_every_change(watches_only_after_a_list(watch, ApiError::internal("no"))).await;
}

#[tokio::test(start_paused = true)]
async fn a_gone_status_restarts_the_list() {
    let watch = WatchFault { end_after: Some(2), ..WatchFault::default() };
    observes_every_change(watches_only_after_a_list(watch, ApiError::expired(1, 2))).await;
}

#[tokio::test(start_paused = true)]
async fn broken_and_duplicate_watch_events_lose_no_change() {
    let broken = |_: &Request, _| Fault {
        watch: WatchFault { break_after: Some(3), duplicate_every: 2, ..WatchFault::default() },
        ..Fault::default()
    };
    observes_every_change(harness(broken)).await;
}

#[tokio::test(start_paused = true)]
async fn lists_that_fail_are_retried() {
    observes_every_change(harness(|_, count| Fault {
        answer: if count < 4 { Answer::Drop } else { Answer::Normal },
        ..Fault::default()
    }))
    .await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reconciled_before_every_list_nor_on_a_silent_watch() {
    // Lists of pods never end before 30 s; after 100 s the server does not respond for five minutes.
    let start = tokio::time::Instant::now();
    let harness = harness(move |_, _| {
        let passed = start.elapsed().as_secs();
        let silent = (100..400).contains(&passed);
        let before = Duration::from_secs(if silent { 400 - passed } else { 30_u64.saturating_sub(passed) });
        let watch = WatchFault { end_after: Some(1), ..WatchFault::default() };
        Fault { before, watch, ..Fault::default() }
    });
    let probe = Probe::new(&harness);
    harness.pending_pod("early", "1");
    let _running = harness.run(vec![Arc::new(probe.clone())]);
    harness.pass(29).await;
    assert_eq!(probe.seen(), Vec::<String>::new());
    harness.pass(10).await;
    assert_eq!(probe.seen(), ["early"]);
    harness.pass(260).await;
    harness.ctx.cluster.enqueue("probe", Key::new("default", "early"));
    harness.pass(30).await;
    assert_eq!(probe.seen(), ["early"], "the pod watch has been silent for too long");
    assert!(may_act(&harness.ctx.cluster.index(), harness.ctx.clocks.steady()).is_err());
    harness.pass(150).await;
    assert_eq!(probe.seen(), ["early", "early"]);
}

#[tokio::test(start_paused = true)]
async fn panics_and_errors_are_counted_and_retried_with_backoff() {
    let harness = Harness::new();
    let probe = Probe::new(&harness);
    for name in ["panics", "fails", "fine"] {
        harness.pending_pod(name, "1");
    }
    let (trigger, task) = harness.run(vec![Arc::new(probe.clone())]);
    harness.pass(10).await;
    let times = |name: &str| probe.seen().iter().filter(|seen| *seen == name).count();
    assert_eq!((times("panics"), times("fails"), times("fine")), (4, 4, 1), "at 0, 1, 3 and 7 seconds");
    assert_eq!(harness.ctx.metrics.value(&families::PANICS, &["probe"]), 4.0);
    assert_eq!(harness.ctx.metrics.value(&families::RECONCILE_ERRORS, &["probe"]), 4.0);
    trigger.fire();
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_does_not_hide_the_others() {
    let harness = Harness::new();
    for (name, nodes) in [("odd", 10_000_000_000_000_000_000_u64), ("fine", 3)] {
        harness.pool(name, serde_json::json!({}));
        harness
            .server
            .apply(serde_json::json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
                "metadata": {"name": name}, "status": {"nodes": nodes}}))
            .unwrap();
    }
    let _running = harness.run(Vec::new());
    harness.pass(5).await;
    let names: Vec<_> =
        harness.ctx.cluster.index().pools().filter_map(|pool| pool.metadata.name.clone()).collect();
    assert_eq!(names, ["fine"]);
    harness.pass(5).await;
    let odd = harness.server.list("karpenter.sh/v1", "NodePool", "");
    let odd = odd.iter().find(|pool| pool["metadata"]["name"] == "odd").unwrap();
    let conditions = odd["status"]["conditions"].as_array().unwrap();
    let condition = conditions.iter().find(|condition| condition["type"] == "ValidationSucceeded").unwrap();
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&"False".into(), &"NodePoolValidationFailed".into())
    );
    let events = harness.events();
    let reported: Vec<_> = events
        .iter()
        .filter(|event| event.starts_with("NodePool/odd NodePoolValidationFailed: cannot be read: "))
        .collect();
    assert_eq!(reported.len(), 1, "{events:?}");
    harness.server.delete("karpenter.sh/v1", "NodePool", "", "odd").unwrap();
    harness.pool("next", serde_json::json!({}));
    harness.pass(5).await;
    assert_eq!(harness.ctx.cluster.index().pools().count(), 2, "the watch goes on");
}

/// Records when it ran, in steady seconds; requeues every ten seconds.
#[derive(Clone)]
struct Ticks(Clocks, Arc<Mutex<Vec<i64>>>);

#[async_trait]
impl Controller for Ticks {
    fn name(&self) -> &'static str {
        "ticks"
    }
    fn is_singleton(&self) -> bool {
        true
    }
    async fn reconcile(&self, _: &Key) -> Result<Requeue, ReconcileError> {
        self.1.lock().unwrap().push(self.0.steady().as_second());
        Ok(Requeue::After(Duration::from_secs(10)))
    }
}

#[tokio::test(start_paused = true)]
async fn loops_are_independent_of_the_wall_clock() {
    for jump in [-600, 600] {
        let harness = Harness::new();
        let ticks = Ticks(harness.ctx.clocks.clone(), Arc::default());
        let _running = harness.run(vec![Arc::new(ticks.clone())]);
        harness.pass(15).await;
        let before = ticks.1.lock().unwrap().len();
        harness.clock.set_ahead(jump);
        harness.pass(100).await;
        let ran = ticks.1.lock().unwrap().clone();
        assert_eq!(ran.len() - before, 10, "{jump} s: neither late nor early, nor passive");
        assert!(ran.windows(2).all(|pair| pair[1] - pair[0] == 10), "{jump} s: {ran:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_is_set_back_does_not_hide_a_silent_watch() {
    // After 100 s the server does not respond to requests for pods.
    let start = tokio::time::Instant::now();
    let harness = harness(move |_, _| {
        let before = if start.elapsed().as_secs() < 100 { 0 } else { 1000 };
        let watch = WatchFault { end_after: Some(1), ..WatchFault::default() };
        Fault { before: Duration::from_secs(before), watch, ..Fault::default() }
    });
    let _running = harness.run(Vec::new());
    harness.pass(130).await;
    assert_eq!(harness.ctx.gate.may_act(), Ok(()));
    harness.clock.set_ahead(-600);
    harness.pass(170).await;
    assert_eq!(harness.ctx.gate.may_act(), Err(Passive::Silent(WatchedKind::Pod)));
}

/// Never completes the key "hangs"; every other key takes ten minutes.
struct Slow(Clocks);

#[async_trait]
impl Controller for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }
    fn interested(&self, change: &Change, _index: &Index) -> Vec<Key> {
        if change.kind == WatchedKind::Pod { vec![change.key.clone()] } else { Vec::new() }
    }
    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        if &*key.name == "hangs" {
            std::future::pending::<()>().await;
        }
        self.0.sleep(Duration::from_secs(600)).await;
        Ok(Requeue::No)
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_stuck_loop_is_unhealthy() {
    let harness = Harness::new();
    let _running =
        harness.run(vec![Arc::new(Slow(harness.ctx.clocks.clone())), Arc::new(Probe::new(&harness))]);
    // Idle for an hour, then long reconciles that end.
    harness.pass(3600).await;
    assert_eq!(harness.ctx.alive(), Ok(()));
    for name in ["a", "b", "c"] {
        harness.pending_pod(name, "1");
    }
    for _ in 0..30 {
        harness.pass(60).await;
        assert_eq!(harness.ctx.alive(), Ok(()));
    }
    harness.clock.set_ahead(100_000);
    harness.pending_pod("hangs", "1");
    harness.pass(895).await;
    assert_eq!(harness.ctx.alive(), Ok(()));
    harness.pass(10).await;
    let reported = harness.ctx.alive().map_err(|stuck| stuck.to_string()).unwrap_err();
    assert!(reported.starts_with("stuck: controller slow has been reconciling for 90"), "{reported}");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_api_server_is_healthy() {
    // The API server refuses, then it does not respond.
    let start = tokio::time::Instant::now();
    let harness = harness(move |_, _| {
        let refuses = start.elapsed().as_secs() < 2000;
        let answer = if refuses { Answer::Refuse(ApiError::internal("no")) } else { Answer::Normal };
        Fault { answer, before: Duration::from_secs(if refuses { 0 } else { 10_000 }), ..Fault::default() }
    });
    let _running = harness.run(vec![Arc::new(Probe::new(&harness))]);
    for _ in 0..60 {
        harness.pass(60).await;
        assert_eq!(harness.ctx.alive(), Ok(()));
        assert!(harness.ctx.gate.may_act().is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_is_healthy() {
    let mut harness = Harness::new();
    harness.led_by(Leadership::candidate());
    let _running = harness.run(vec![Arc::new(Probe::new(&harness))]);
    harness.pass(3600).await;
    assert_eq!(harness.ctx.gate.may_act(), Err(Passive::NotLeading));
    assert_eq!(harness.ctx.alive(), Ok(()));
    let loops = harness.ctx.heartbeats.loops();
    let running = [("controller", "probe"), ("watch", "Pod"), ("watch", "kwoknodeclasses.karpenter.kwok.sh")];
    assert!(running.iter().all(|(what, name)| loops.contains(&(what, (*name).into()))), "{loops:?}");
}

/// Waits for the cloud for an hour. For pod "writes" it first makes two calls to the API server of three seconds each.
#[derive(Clone)]
struct Busy {
    client: ApiClient,
    clocks: Clocks,
    calls: Arc<Mutex<Vec<&'static str>>>,
}

#[async_trait]
impl Controller for Busy {
    fn name(&self) -> &'static str {
        "busy"
    }
    fn interested(&self, change: &Change, _index: &Index) -> Vec<Key> {
        if change.kind == WatchedKind::Pod { vec![change.key.clone()] } else { Vec::new() }
    }
    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        for call in ["first", "second"].into_iter().filter(|_| &*key.name == "writes") {
            let write = async {
                self.clocks.sleep(Duration::from_secs(3)).await;
                self.calls.lock().unwrap().push(call);
                Ok(())
            };
            self.client.call("write", write).await?;
        }
        self.clocks.sleep(Duration::from_secs(3600)).await;
        Ok(Requeue::No)
    }
}

/// Whether the controllers end within `seconds` of the shutdown, where one reconciles this pod; and the calls that it made.
async fn ends_within(pod: &str, seconds: u64) -> (bool, Vec<&'static str>) {
    let harness = Harness::new();
    let (client, clocks) = (harness.ctx.client.clone(), harness.ctx.clocks.clone());
    let busy = Busy { client, clocks, calls: Arc::default() };
    let (trigger, task) = harness.run(vec![Arc::new(busy.clone())]);
    harness.pass(5).await;
    harness.pending_pod(pod, "1");
    harness.pass(1).await;
    trigger.fire();
    let ended = tokio::time::timeout(Duration::from_secs(seconds), task).await.is_ok();
    let calls = busy.calls.lock().unwrap().clone();
    (ended, calls)
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_the_cloud() {
    assert_eq!(ends_within("launches", 1).await, (true, vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_a_running_write_and_starts_no_other() {
    assert_eq!(ends_within("writes", 1).await, (false, vec![]));
    assert_eq!(ends_within("writes", 4).await, (true, vec!["first"]));
}

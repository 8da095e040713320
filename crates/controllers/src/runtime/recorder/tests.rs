//! Which events are published, and how often.

use std::time::Duration;

use fleetwright_fake_kube::{Answer, Fault, Faults, Request};
use k8s_openapi::api::core::v1::ObjectReference;

use super::*;
use crate::testing::Harness;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn about(name: &str) -> ObjectReference {
    ObjectReference { name: Some(name.to_owned()), ..ObjectReference::default() }
}

#[test]
fn an_equal_event_is_suppressed_for_the_dedupe_timeout() {
    let mut backlog = Backlog::default();
    let event = |name| Event::normal(about(name), "Nominated", "text");
    let published: Vec<bool> = [("a", 0), ("a", 119), ("b", 119), ("a", 120)]
        .map(|(name, seconds)| backlog.publish(event(name), at(seconds), at(seconds)))
        .into();
    assert_eq!(published, [true, false, true, true]);
    let last = backlog.queued.back().unwrap();
    assert_eq!((last.count, last.first, last.last), (2, at(0), at(120)));
}

#[test]
fn the_rate_limit_of_a_reason_holds() {
    let mut backlog = Backlog::default();
    let published = (0..20).filter(|n| {
        let event = Event::normal(about(&n.to_string()), "Nominated", "text").rate(5, 10);
        backlog.publish(event, at(0), at(0))
    });
    assert_eq!(published.count(), 10);
}

#[test]
fn backlog_and_memory_are_bounded() {
    let mut backlog = Backlog::default();
    for n in 0..(MAX_REMEMBERED + 50) {
        backlog.publish(Event::normal(about(&n.to_string()), "Nominated", "text"), at(0), at(0));
    }
    assert_eq!(
        (backlog.queued.len(), backlog.published.len(), backlog.order.len()),
        (MAX_QUEUED, MAX_REMEMBERED, MAX_REMEMBERED)
    );
    assert!(backlog.dropped > 0);
}

#[test]
fn long_messages_are_cut_at_a_character() {
    let mut backlog = Backlog::default();
    backlog.publish(
        Event::warning(about("a"), "FailedScheduling", "ä".repeat(2000)).with_dedupe_timeout(Duration::ZERO),
        at(0),
        at(0),
    );
    let published = backlog.queued.pop_front().unwrap();
    let object = object(&published, "default", &Names::new(0));
    assert!(object.message.as_ref().unwrap().len() <= MESSAGE_LIMIT);
    assert!(object.message.unwrap().ends_with("ä..."));
}

#[test]
fn a_wall_clock_that_is_set_back_does_not_suppress_events() {
    let mut backlog = Backlog::default();
    let event = || Event::normal(about("a"), "Nominated", "text");
    assert!(backlog.publish(event(), at(7200), at(0)));
    assert!(!backlog.publish(event(), at(9000), at(100)), "a clock that is set forward does not repeat it");
    assert!(backlog.publish(event(), at(0), at(120)));
    assert_eq!(backlog.queued.back().unwrap().last, at(0), "the event has the time of the wall clock");
}

/// Breaks the connection of the first request about events.
struct FirstEventLost(std::sync::atomic::AtomicBool);

impl Faults for FirstEventLost {
    fn decide(&self, request: &Request) -> Fault {
        let lost = request.resource == "events" && !self.0.swap(true, std::sync::atomic::Ordering::Relaxed);
        Fault { answer: if lost { Answer::Drop } else { Answer::Normal }, ..Fault::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_not_written_does_not_suppress_the_next() {
    let harness = Harness::with(Some(Arc::new(FirstEventLost(false.into()))));
    let _running = harness.run(Vec::new());
    let mut written = Vec::new();
    for _ in 0..3 {
        harness.ctx.recorder.publish(Event::warning(about("a"), "FailedScheduling", "text"));
        harness.pass(5).await;
        written.push(harness.events().len());
    }
    assert_eq!(written, [0, 1, 1], "the first is lost, the second is written, the third is suppressed");
}

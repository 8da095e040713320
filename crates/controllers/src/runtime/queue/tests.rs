//! Order, deduplication and deadlines of the queue.

use super::*;

fn key(name: &str) -> Key {
    Key::cluster(name)
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn drain(queue: &Queue, now: Timestamp) -> Vec<String> {
    std::iter::from_fn(|| queue.next(now)).map(|key| key.to_string()).collect()
}

#[test]
fn keys_are_deduplicated_and_taken_in_order() {
    let queue = Queue::new(RateLimit::DEFAULT);
    for name in ["b", "a", "b", "c", "a"] {
        queue.add(key(name));
    }
    assert_eq!(drain(&queue, at(0)), ["b", "a", "c"]);
}

#[test]
fn a_key_that_changes_while_it_runs_is_enqueued_once() {
    let queue = Queue::new(RateLimit::DEFAULT);
    queue.add(key("a"));
    let running = queue.next(at(0)).unwrap();
    queue.add(key("a"));
    queue.add(key("a"));
    assert_eq!(queue.next(at(0)), None, "a key never runs twice at once");
    queue.done(&running);
    assert_eq!(drain(&queue, at(0)), ["a"]);
}

#[test]
fn the_earliest_deadline_counts() {
    let queue = Queue::new(RateLimit::DEFAULT);
    queue.add_at(key("a"), at(10));
    queue.add_at(key("a"), at(5));
    queue.add_at(key("a"), at(20));
    queue.add_at(key("b"), at(5));
    assert_eq!(queue.next_deadline(), Some(at(5)));
    assert_eq!(queue.next(at(4)), None);
    assert_eq!(drain(&queue, at(30)), ["a", "b"]);
    assert_eq!(queue.next_deadline(), None);
}

#[test]
fn a_change_overtakes_a_deadline() {
    let queue = Queue::new(RateLimit::DEFAULT);
    queue.add_at(key("a"), at(10));
    queue.add(key("a"));
    let running = queue.next(at(0)).unwrap();
    queue.done(&running);
    assert_eq!((queue.next(at(60)), queue.next_deadline()), (None, None));
}

#[test]
fn a_deadline_that_passes_while_the_key_runs_waits_for_its_end() {
    let queue = Queue::new(RateLimit::DEFAULT);
    queue.add(key("a"));
    let running = queue.next(at(0)).unwrap();
    queue.add_at(key("a"), at(1));
    assert_eq!(queue.next(at(2)), None);
    queue.done(&running);
    assert_eq!(drain(&queue, at(2)), ["a"]);
}

#[test]
fn backoff_grows_with_failures_and_is_reset_by_success() {
    let queue = Queue::new(RateLimit::REASONABLE);
    let mut delays = Vec::new();
    let mut now = at(0);
    queue.add(key("a"));
    for _ in 0..3 {
        let running = queue.next(now).unwrap();
        let delay = queue.failed(&running, now);
        delays.push(delay.as_millis());
        assert_eq!(queue.next(now), None);
        now = later(now, delay);
    }
    let running = queue.next(now).unwrap();
    queue.done(&running);
    queue.add(key("a"));
    let running = queue.next(now).unwrap();
    delays.push(queue.failed(&running, now).as_millis());
    assert_eq!(delays, [100, 200, 400, 100]);
}

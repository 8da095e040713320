//! Faults of the API server for operators: calls fail with and without effect, and watches lag, repeat and break.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use fleetwright_fake_kube::{Answer, ApiError, Fault, Faults, Request, WatchFault};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::log::{Log, is_operators};

/// Faults for the operators only; the cluster's own components are not affected.
pub(super) struct Chaos {
    dice: Mutex<ChaCha8Rng>,
    over: AtomicBool,
    count: AtomicU32,
    /// One call in this many fails; zero means none.
    rate: u32,
    log: Log,
    cut: Mutex<Cut>,
}

/// Ends a process between two changes of NodeClaims.
#[derive(Default)]
struct Cut {
    /// The number of changes until then; zero means never.
    after: u32,
    /// The process whose last change was applied without an answer.
    agent: Option<String>,
}

impl Chaos {
    pub(super) fn new(seed: u64, rate: u32, log: Log) -> Self {
        let dice = Mutex::new(ChaCha8Rng::seed_from_u64(seed ^ 0xc4a0));
        Self {
            dice,
            over: AtomicBool::new(false),
            count: AtomicU32::new(0),
            rate,
            log,
            cut: Mutex::default(),
        }
    }

    /// Ends the process that makes the `after`-th change of a NodeClaim during launches: that change is applied, later requests fail.
    pub(super) fn cut_after(&self, after: u32) {
        *self.cut.lock().unwrap_or_else(PoisonError::into_inner) = Cut { after, agent: None };
    }

    /// Takes the process that was ended.
    pub(super) fn take_cut(&self) -> Option<String> {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner).agent.take()
    }

    fn severed(&self, request: &Request) -> Option<Answer> {
        let mut cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        if cut.agent.as_ref() == Some(&request.user_agent) {
            return Some(Answer::Drop);
        }
        let changes = request.verb == "create"
            || (request.verb == "patch" && request.subresource.is_empty())
            || request.body.pointer("/status/providerID").is_some();
        if cut.after == 0 || !changes || request.resource != "nodeclaims" || !is_operators(request) {
            return None;
        }
        cut.after -= 1;
        (cut.after == 0).then(|| {
            cut.agent = Some(request.user_agent.clone());
            Answer::ApplyThenDrop
        })
    }

    /// Ends the faults.
    pub(super) fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// The number of faults.
    pub(super) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    fn draw(&self, below: u32) -> u32 {
        self.dice.lock().unwrap_or_else(PoisonError::into_inner).random_range(0..below)
    }

    fn watch(&self) -> WatchFault {
        match self.draw(4) {
            0 => WatchFault { lag: Duration::from_millis(1500), ..WatchFault::default() },
            1 => WatchFault { break_after: Some(5), duplicate_every: 2, ..WatchFault::default() },
            2 => WatchFault { end_after: Some(3), ..WatchFault::default() },
            _ => WatchFault { expire_after: Some(4), ..WatchFault::default() },
        }
    }

    fn answer(&self) -> Answer {
        let busy = || ApiError::new(503, "ServiceUnavailable", "the server is busy");
        match self.draw(9) {
            0 => Answer::Refuse(busy()),
            1 => Answer::ApplyThenRefuse(busy()),
            2 => Answer::Drop,
            3 => Answer::ApplyThenDrop,
            4 => Answer::Refuse(ApiError::new(500, "InternalError", "etcdserver: leader changed")),
            5 => Answer::ApplyThenRefuse(ApiError::new(504, "Timeout", "request did not complete in time")),
            6 => Answer::Refuse(ApiError::new(409, "Conflict", "the object has been modified")),
            7 => Answer::Refuse(ApiError::new(429, "TooManyRequests", "too many requests, try again")),
            _ => Answer::Normal,
        }
    }
}

impl Faults for Chaos {
    fn decide(&self, request: &Request) -> Fault {
        self.log.asked(request);
        if let Some(answer) = self.severed(request) {
            return Fault { answer, ..Fault::default() };
        }
        let quiet = self.rate == 0 || self.over.load(Ordering::Relaxed);
        if quiet || !is_operators(request) || request.resource == "events" || self.draw(self.rate) > 0 {
            return Fault::default();
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        if request.verb == "watch" {
            return Fault { watch: self.watch(), ..Fault::default() };
        }
        let mut answer = self.answer();
        // A conflict is not a valid answer to a read, nor to a creation with a generated name.
        let reads = matches!(request.verb.as_str(), "get" | "list" | "create");
        if reads && matches!(&answer, Answer::Refuse(error) if error.code == 409) {
            answer = Answer::Normal;
        }
        let late = |most: u32| Duration::from_millis(u64::from(self.draw(most)));
        Fault { before: late(300), after: late(2000), answer, ..Fault::default() }
    }
}

//! Calls of the controllers that fail, with effect and without, and watches that lag, repeat and break.

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

/// Trouble for what only the controllers write; the cluster's own parts have a good day.
pub(super) struct Chaos {
    dice: Mutex<ChaCha8Rng>,
    over: AtomicBool,
    count: AtomicU32,
    /// One call in so many fails; each seed has its own.
    rate: u32,
}

impl Chaos {
    pub(super) fn new(seed: u64) -> Self {
        let mut dice = ChaCha8Rng::seed_from_u64(seed ^ 0xc4a0);
        let rate = dice.random_range(8..60);
        Self { dice: Mutex::new(dice), over: AtomicBool::new(false), count: AtomicU32::new(0), rate }
    }

    /// No more faults from now on.
    pub(super) fn cease(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// How many there were.
    pub(super) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    fn draw(&self, below: u32) -> u32 {
        self.dice.lock().unwrap_or_else(PoisonError::into_inner).random_range(0..below)
    }
}

impl Faults for Chaos {
    fn decide(&self, request: &Request) -> Fault {
        if self.over.load(Ordering::Relaxed) || request.resource != "nodeclaims" {
            return Fault::default();
        }
        if self.draw(self.rate) > 0 {
            return Fault::default();
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        if request.verb == "watch" {
            let watch = match self.draw(3) {
                0 => WatchFault { lag: Duration::from_millis(1500), ..WatchFault::default() },
                1 => WatchFault { break_after: Some(5), duplicate_every: 2, ..WatchFault::default() },
                _ => WatchFault { expire_after: Some(4), ..WatchFault::default() },
            };
            return Fault { watch, ..Fault::default() };
        }
        let error = || ApiError::new(503, "ServiceUnavailable", "the server is busy");
        let answer = match self.draw(5) {
            0 => Answer::Refuse(error()),
            1 => Answer::ApplyThenRefuse(error()),
            2 => Answer::Drop,
            3 => Answer::ApplyThenDrop,
            _ => Answer::Normal,
        };
        Fault { after: Duration::from_millis(u64::from(self.draw(2000))), answer, ..Fault::default() }
    }
}

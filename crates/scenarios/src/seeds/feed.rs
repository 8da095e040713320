//! A cloud whose prices stop being told: for a while they are as old as more than a day.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use fleetwright_core::cloud::{CloudLayer, CloudProvider};
use jiff::{SignedDuration, Timestamp};

use fleetwright_sim::world::Wrap;

/// How old prices are before a run begins, where they are not told: no wrong clock makes that less than a day.
const AGE: SignedDuration = SignedDuration::from_hours(25);

/// Whether prices are told.
#[derive(Debug)]
pub(super) struct Feed {
    silent: AtomicBool,
    /// When they were told last, where they are not.
    told: Timestamp,
}

impl Feed {
    /// Of a run that begins at `origin`.
    pub(super) fn new(origin: Timestamp) -> Self {
        Self { silent: AtomicBool::new(false), told: origin.checked_sub(AGE).unwrap_or(Timestamp::MIN) }
    }

    /// Prices are told no more, or again. Returns whether that is another thing than before.
    pub(super) fn silence(&self, silent: bool) -> bool {
        self.silent.swap(silent, Ordering::Relaxed) != silent
    }

    /// What stands between controllers and cloud.
    pub(super) fn wrap(self: &Arc<Self>) -> Wrap {
        let feed = Arc::clone(self);
        Arc::new(move |inner, _| Arc::new(Dated { inner, feed: Arc::clone(&feed) }))
    }
}

/// A provider whose prices have an age.
struct Dated {
    inner: Arc<dyn CloudProvider>,
    feed: Arc<Feed>,
}

impl CloudLayer for Dated {
    fn inner(&self) -> &dyn CloudProvider {
        &*self.inner
    }

    fn prices_as_of(&self) -> Option<Timestamp> {
        self.feed.silent.load(Ordering::Relaxed).then_some(self.feed.told)
    }
}

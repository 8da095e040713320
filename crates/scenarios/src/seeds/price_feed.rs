//! A cloud whose prices are not updated for a while: they are then older than a day.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use fleetwright_core::cloud::{CloudLayer, CloudProvider};
use jiff::{SignedDuration, Timestamp};

use fleetwright_sim::simulator::Wrap;

/// The age of prices at the start of a run without updates: more than a day with any clock error.
const AGE: SignedDuration = SignedDuration::from_hours(25);

/// Whether prices are updated.
#[derive(Debug)]
pub(super) struct PriceFeed {
    silent: AtomicBool,
    /// When they were last updated, if they are not.
    updated_at: Timestamp,
}

impl PriceFeed {
    /// For a run that starts at `origin`.
    pub(super) fn new(origin: Timestamp) -> Self {
        Self { silent: AtomicBool::new(false), updated_at: origin.checked_sub(AGE).unwrap_or(Timestamp::MIN) }
    }

    /// Stops or resumes the updates. Returns whether this is a change.
    pub(super) fn set_silent(&self, silent: bool) -> bool {
        self.silent.swap(silent, Ordering::Relaxed) != silent
    }

    /// The wrapper between controllers and cloud.
    pub(super) fn wrap(self: &Arc<Self>) -> Wrap {
        let feed = Arc::clone(self);
        Arc::new(move |inner, _| Arc::new(Dated { inner, feed: Arc::clone(&feed) }))
    }
}

/// A provider whose prices have an age.
struct Dated {
    inner: Arc<dyn CloudProvider>,
    feed: Arc<PriceFeed>,
}

impl CloudLayer for Dated {
    fn inner(&self) -> &dyn CloudProvider {
        &*self.inner
    }

    fn prices_as_of(&self) -> Option<Timestamp> {
        self.feed.silent.load(Ordering::Relaxed).then_some(self.feed.updated_at)
    }
}

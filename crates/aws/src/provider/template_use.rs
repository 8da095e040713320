//! The launch templates that exist, and when each was last used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

use crate::calls::LaunchTemplate;
use crate::recent::is_recent;

/// How long a launch template must be unused before it is deleted. A launch in progress uses its name for minutes at most; the dry run
/// of an unchanged class repeats within 40 minutes and finds its template instead of creating it again.
pub(super) const UNUSED_FOR: SignedDuration = SignedDuration::from_mins(50);

/// Names of launch templates with their last use: those that EC2 lists, and those of launches since. Garbage collection deletes by it.
#[derive(Debug, Default)]
pub(super) struct TemplateUse {
    by_name: Mutex<BTreeMap<String, Timestamp>>,
    /// Held while a template is looked up and created: launches of one shape at the same time would each create it.
    creation: futures::lock::Mutex<()>,
}

impl TemplateUse {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Timestamp>> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the creation of other templates; this one's is exclusive until the guard is dropped.
    pub(super) async fn creation(&self) -> futures::lock::MutexGuard<'_, ()> {
        self.creation.lock().await
    }

    /// Whether a template is known to exist.
    pub(super) fn exists(&self, name: &str) -> bool {
        self.lock().contains_key(name)
    }

    /// The last use of a template by this process.
    pub(super) fn last_use(&self, name: &str) -> Option<Timestamp> {
        self.lock().get(name).copied()
    }

    /// Records a use.
    pub(super) fn used(&self, name: String, at: Timestamp) {
        self.lock().insert(name, at);
    }

    /// Forgets a template that is deleted.
    pub(super) fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    /// Forgets templates that EC2 does not list and no launch has used recently.
    pub(super) fn retain_listed(&self, listed: &[LaunchTemplate], now: Timestamp) {
        let names: BTreeSet<&str> = listed.iter().map(|template| template.name.as_str()).collect();
        self.lock().retain(|name, used| names.contains(name.as_str()) || is_recent(*used, now, UNUSED_FOR));
    }
}

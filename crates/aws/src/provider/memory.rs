//! Which instance each claim was given, so that a repeated call gives the same again; and what is forgotten with what it is about.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fleetwright_core::cloud::Instance;
use fleetwright_core::model::{BatchId, ClaimName, ProviderId};
use jiff::{SignedDuration, Timestamp};

use super::{AwsProvider, Known};
use crate::calls::LaunchTemplate;
use crate::recent::is_recent;

/// How long a launch template must have been unused to be deleted. A launch under way holds its name for minutes at most; the dry run of
/// a class at rest comes back to its own within forty ([`super::steps`]), and is to find it rather than to make it again each time.
pub(super) const UNUSED_FOR: SignedDuration = SignedDuration::from_mins(50);

/// How many answers are remembered: several times the largest burst. What is older is found by its tags.
const REMEMBERED: usize = 20_000;

type Key = (BatchId, u32, ClaimName);

/// Answers by batch, attempt and claim, the oldest forgotten first. State: who has which instance is asked both ways, and both
/// answers must go together.
#[derive(Debug, Default)]
pub(super) struct Dealt {
    by: BTreeMap<Key, Instance>,
    taken: BTreeSet<ProviderId>,
    order: VecDeque<Key>,
}

impl Dealt {
    pub(super) fn get(&self, batch: &BatchId, attempt: u32, claim: &ClaimName) -> Option<Instance> {
        self.by.get(&(batch.clone(), attempt, claim.clone())).cloned()
    }

    pub(super) fn put(&mut self, batch: &BatchId, attempt: u32, claim: &ClaimName, instance: Instance) {
        let key = (batch.clone(), attempt, claim.clone());
        self.taken.insert(instance.provider_id.clone());
        if self.by.insert(key.clone(), instance).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            let gone = self.by.remove(&oldest);
            gone.map(|instance| self.taken.remove(&instance.provider_id));
        }
    }

    /// Whether an instance was given to a claim already.
    pub(super) fn has(&self, id: &ProviderId) -> bool {
        self.taken.contains(id)
    }
}

impl AwsProvider {
    /// Forgets what was known of classes that are gone.
    pub(super) fn forget_classes_but(&self, there: &[Known]) {
        let names: BTreeSet<&str> =
            there.iter().filter_map(|known| known.class.metadata.name.as_deref()).collect();
        let mut state = self.state();
        let before = state.groups.len();
        state.groups.retain(|name, _| names.contains(name.as_str()));
        state.groups_version += u64::from(state.groups.len() != before);
        state.catalogs.retain_if(|name, _| names.contains(name.as_str()));
    }

    /// Forgets launch templates that EC2 does not list and no launch has used lately.
    pub(super) fn forget_templates_but(&self, listed: &[LaunchTemplate], now: Timestamp) {
        let names: BTreeSet<&str> = listed.iter().map(|template| template.name.as_str()).collect();
        let lately = |used: Timestamp| is_recent(used, now, UNUSED_FOR);
        self.state().templates.retain(|name, used| names.contains(name.as_str()) || lately(*used));
    }
}

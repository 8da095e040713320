//! Which instance each claim was given, so that a repeated call gives the same again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fleetwright_core::cloud::Instance;
use fleetwright_core::model::{BatchId, ClaimName, ProviderId};

/// How many answers are remembered: several times the largest burst. What is older is found by its tags.
const REMEMBERED: usize = 20_000;

type Key = (BatchId, u32, ClaimName);

/// Answers by batch, attempt and claim, the oldest forgotten first.
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
    pub(super) fn is_taken(&self, instance: &Instance) -> bool {
        self.taken.contains(&instance.provider_id)
    }
}

//! CapacityBuffers: their virtual pods, the outcome of the last scheduling pass, and the nodes that have room for them.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_api as api;
use fleetwright_core::model::{NamespacedName, Pod, Str};

use crate::{
    change::{Put, by_key},
    kind::Key,
};

/// What the last scheduling pass found for a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferOutcome {
    /// All chunks fit on existing and in-flight nodes.
    Fits,
    /// Some chunks need new nodes, or are unschedulable.
    NeedsCapacity,
}

#[derive(Debug)]
struct Entry {
    raw: Arc<api::CapacityBuffer>,
    pods: Vec<Arc<Pod>>,
    outcome: Option<BufferOutcome>,
}

/// The table of buffers.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    entries: BTreeMap<NamespacedName, Entry>,
    /// By Node or NodeClaim: the number of chunks that the last pass placed there.
    chunks: BTreeMap<Str, u32>,
    /// Whether virtual pods changed since the last snapshot.
    changed: bool,
}

impl Buffers {
    pub(crate) fn put(&mut self, key: &Key, buffer: Option<Arc<api::CapacityBuffer>>) -> Put {
        let (id, exists) = (NamespacedName::from(key), buffer.is_some());
        let before = self.entries.remove(&id);
        let existed = before.is_some();
        match (buffer, before) {
            (Some(raw), Some(before)) => {
                // Another buffer under the same name begins without pods.
                let same = raw.metadata.uid == before.raw.metadata.uid;
                self.changed |= !same;
                let entry =
                    if same { before } else { Entry { raw: raw.clone(), pods: Vec::new(), outcome: None } };
                self.entries.insert(id, Entry { raw, ..entry });
            }
            (Some(raw), None) => {
                self.entries.insert(id, Entry { raw, pods: Vec::new(), outcome: None });
            }
            (None, _) => self.changed = true,
        }
        by_key(existed, exists)
    }

    /// Sets the virtual pods of a buffer; returns whether they are others than before.
    pub(crate) fn set_pods(&mut self, id: &NamespacedName, pods: Vec<Arc<Pod>>) -> bool {
        let Some(entry) = self.entries.get_mut(id) else { return false };
        if entry.pods == pods {
            return false;
        }
        entry.pods = pods;
        self.changed = true;
        true
    }

    /// Records the result of a pass for every buffer; returns whether any result changed.
    pub(crate) fn set_outcomes(&mut self, outcomes: &BTreeMap<NamespacedName, BufferOutcome>) -> bool {
        let mut changed = false;
        for (id, entry) in &mut self.entries {
            let outcome = outcomes.get(id).copied();
            changed |= entry.outcome != outcome;
            entry.outcome = outcome;
        }
        changed
    }

    /// Records the number of chunks per Node or NodeClaim; returns the names for which it changed.
    pub(crate) fn set_chunks(&mut self, chunks: BTreeMap<Str, u32>) -> Vec<Str> {
        let before = std::mem::replace(&mut self.chunks, chunks);
        let names = before.keys().chain(self.chunks.keys());
        names.filter(|name| before.get(*name) != self.chunks.get(*name)).cloned().collect()
    }

    /// By Node or NodeClaim: the number of chunks that the last pass placed there.
    pub(crate) fn chunks(&self) -> &BTreeMap<Str, u32> {
        &self.chunks
    }

    /// All virtual pods, by namespace and name of their buffer.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.entries.values().flat_map(|entry| &entry.pods)
    }

    /// Whether virtual pods changed since this was last called.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// A buffer as read, with the number of its virtual pods and the outcome of the last pass.
    pub(crate) fn get(
        &self,
        id: &NamespacedName,
    ) -> Option<(&Arc<api::CapacityBuffer>, usize, Option<BufferOutcome>)> {
        self.entries.get(id).map(|entry| (&entry.raw, entry.pods.len(), entry.outcome))
    }

    /// All buffers, by namespace and name.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &NamespacedName> {
        self.entries.keys()
    }
}

//! CapacityBuffers: their virtual pods, where the last pass found room for them, and what it made of each buffer.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_api as api;
use fleetwright_core::model::{NamespacedName, Pod, Str};

use super::{Index, put};
use crate::kind::Key;

/// What the last scheduling pass found for a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferOutcome {
    /// All chunks fit on nodes that exist or are on their way.
    Fits,
    /// Some need new nodes, or found none.
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
pub(super) struct Buffers {
    entries: BTreeMap<NamespacedName, Entry>,
    /// By Node or NodeClaim: how many chunks the last pass found room for there.
    pub(super) held: BTreeMap<Str, u32>,
}

impl Buffers {
    /// All virtual pods, by namespace and name of their buffer.
    pub(super) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.entries.values().flat_map(|entry| &entry.pods)
    }
}

impl Index {
    pub(crate) fn put_buffer(&mut self, key: &Key, buffer: Option<Arc<api::CapacityBuffer>>) -> put::Put {
        let (id, after) = (NamespacedName::from(key), buffer.is_some());
        let before = self.buffers.entries.remove(&id);
        let existed = before.is_some();
        match (buffer, before) {
            (Some(raw), Some(before)) => {
                // Another buffer under the same name begins again.
                let same = raw.metadata.uid == before.raw.metadata.uid;
                self.stale |= !same;
                let entry =
                    if same { before } else { Entry { raw: raw.clone(), pods: Vec::new(), outcome: None } };
                self.buffers.entries.insert(id, Entry { raw, ..entry });
            }
            (Some(raw), None) => {
                self.buffers.entries.insert(id, Entry { raw, pods: Vec::new(), outcome: None });
            }
            (None, _) => self.stale = true,
        }
        put::other(existed, after)
    }

    /// Sets the virtual pods of a buffer; returns whether they are others than before.
    pub fn set_buffer_pods(&mut self, id: &NamespacedName, pods: Vec<Arc<Pod>>) -> bool {
        let Some(entry) = self.buffers.entries.get_mut(id) else { return false };
        if entry.pods == pods {
            return false;
        }
        entry.pods = pods;
        self.stale = true;
        true
    }

    /// Notes what a pass made of the buffers, and on which nodes (by Node or NodeClaim) it found room for how many
    /// chunks. Replaces what was noted before; returns whether any buffer fares differently.
    pub fn note_buffers(
        &mut self,
        outcomes: &BTreeMap<NamespacedName, BufferOutcome>,
        held: BTreeMap<Str, u32>,
    ) -> bool {
        let mut changed = false;
        for (id, entry) in &mut self.buffers.entries {
            let outcome = outcomes.get(id).copied();
            changed |= entry.outcome != outcome;
            entry.outcome = outcome;
        }
        let before = std::mem::replace(&mut self.buffers.held, held);
        let names: Vec<Str> = before.keys().chain(self.buffers.held.keys()).cloned().collect();
        for name in names {
            if before.get(&name) != self.buffers.held.get(&name) {
                self.nodes.touch(&name);
            }
        }
        changed
    }

    /// A buffer as read, with the number of its virtual pods and what the last pass made of it.
    #[must_use]
    pub fn buffer(
        &self,
        id: &NamespacedName,
    ) -> Option<(&Arc<api::CapacityBuffer>, usize, Option<BufferOutcome>)> {
        self.buffers.entries.get(id).map(|entry| (&entry.raw, entry.pods.len(), entry.outcome))
    }

    /// All buffers, by namespace and name.
    pub fn buffers(&self) -> impl Iterator<Item = &NamespacedName> {
        self.buffers.entries.keys()
    }
}

//! What a recording says: changes of objects with their times, and decisions.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::bail;
use fleetwright_core::decisions::DecisionRecord;
use jiff::Timestamp;
use serde_json::Value;

use super::lines;
use crate::{figures, input::select::identity};

/// Group, kind, namespace and name.
pub(crate) type Id = (String, String, String, String);

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// An object was created or changed.
    Put(Value),
    /// An object was deleted.
    Delete(Id),
}

/// Collects changes.
#[derive(Default)]
pub(crate) struct Changes {
    /// All of them, in the order in which they were read.
    pub(crate) all: Vec<(Timestamp, Change)>,
    /// What was left out or assumed.
    pub(crate) notes: Vec<String>,
    /// Decisions as they were last, in the order in which they were first read.
    pub(crate) decisions: Vec<DecisionRecord>,
    /// The position of each decision.
    positions: BTreeMap<String, usize>,
    /// Decisions of a form that this version does not know.
    unreadable: usize,
    known: BTreeMap<Id, Value>,
    /// The last list of a recording, and the objects that it has not shown yet.
    list: Option<(Timestamp, (String, String), BTreeSet<Id>)>,
}

impl Changes {
    /// An object as it is from `at` on.
    pub(crate) fn put(&mut self, at: Timestamp, object: Value) {
        let id = identity(&object);
        if self.known.get(&id) != Some(&object) {
            self.known.insert(id, object.clone());
            self.all.push((at, Change::Put(object)));
        }
    }

    /// The end of an object.
    pub(crate) fn delete(&mut self, at: Timestamp, id: Id) {
        if self.known.remove(&id).is_some() {
            self.all.push((at, Change::Delete(id)));
        }
    }

    /// The objects that exist, by name.
    #[cfg(feature = "lab")]
    pub(crate) fn known(&self) -> &BTreeMap<Id, Value> {
        &self.known
    }

    /// Objects that the last list did not show are gone.
    fn end_list(&mut self) {
        if let Some((at, _, missing)) = self.list.take() {
            missing.into_iter().for_each(|id| self.delete(at, id));
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it is no recording; names file and line.
    pub(crate) fn recording(&mut self, file: &Path, text: &str) -> anyhow::Result<()> {
        let mut notes = Vec::new();
        lines::each(file, text, &mut notes, |line| {
            let at: Timestamp = line["at"].as_str().unwrap_or_default().parse()?;
            self.entry(at, line)
        })?;
        self.notes.append(&mut notes);
        self.end_list();
        let unreadable = std::mem::take(&mut self.unreadable);
        if unreadable > 0 {
            let count = figures::count(unreadable, "line");
            self.notes.push(format!("{}: {count} of decisions in an unknown form left out", file.display()));
        }
        Ok(())
    }

    fn entry(&mut self, at: Timestamp, mut line: Value) -> anyhow::Result<()> {
        if line["put"].is_object() {
            let object = line["put"].take();
            let id = identity(&object);
            match &mut self.list {
                Some((of, (group, kind), missing)) if (*of, &*group, &*kind) == (at, &id.0, &id.1) => {
                    missing.remove(&id);
                }
                _ => self.end_list(),
            }
            self.put(at, object);
            return Ok(());
        }
        if line["decision"].is_object() {
            self.decision(line["decision"].take());
            return Ok(());
        }
        self.end_list();
        if line["delete"].is_object() {
            self.delete(at, identity(&line["delete"]));
        } else if line["list"].is_object() {
            let (group, kind, ..) = identity(&line["list"]);
            let of_kind = self.known.keys().filter(|id| (&id.0, &id.1) == (&group, &kind)).cloned().collect();
            self.list = Some((at, (group, kind), of_kind));
        } else if let Some(lost) = line["lost"].as_u64() {
            self.notes.push(format!("{at}: {lost} changes were not recorded, because the disk was too slow"));
        } else if line["recording"].is_null() {
            bail!("neither put, delete, list, decision nor lost");
        }
        Ok(())
    }

    /// A decision is written again when its outcome changes: the last line counts.
    fn decision(&mut self, record: Value) {
        let Ok(record) = serde_json::from_value::<DecisionRecord>(record) else {
            self.unreadable += 1;
            return;
        };
        match self.positions.get(&record.id) {
            Some(position) => self.decisions[*position] = record,
            None => {
                self.positions.insert(record.id.clone(), self.decisions.len());
                self.decisions.push(record);
            }
        }
    }
}

/// The objects of a recording as of a time, in the order of their names.
pub(crate) fn objects_at(changes: &[(Timestamp, Change)], time: Timestamp) -> Vec<Value> {
    let mut known: BTreeMap<Id, &Value> = BTreeMap::new();
    for (_, change) in changes.iter().filter(|(at, _)| *at <= time) {
        match change {
            Change::Put(object) => {
                known.insert(identity(object), object);
            }
            Change::Delete(id) => {
                known.remove(id);
            }
        }
    }
    known.into_values().cloned().collect()
}

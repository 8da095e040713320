//! What happened in a cluster: changes of objects with their times, from any of the formats.

use std::{collections::BTreeSet, path::Path};

use anyhow::Context as _;
use fleetwright_core::decisions::DecisionRecord;
use fleetwright_state::fields;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    catalogue::Catalogues,
    dump,
    input::{self, Item, select::identity},
    recording::changes::Changes,
};

pub(super) use crate::recording::changes::{Change, Id};

/// The formats that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TraceFormat {
    /// Files of `RECORD_DIR`.
    Recording,
    /// Dumps of `fleetwright dump`.
    Dumps,
    /// Audit logs of an API server.
    Audit,
    /// Workloads of kubereplay.
    Kubereplay,
    /// Objects of SimKube.
    SimKube,
}

impl TraceFormat {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Recording => "recording",
            Self::Dumps => "dumps",
            Self::Audit => "audit log",
            Self::Kubereplay => "kubereplay",
            Self::SimKube => "SimKube",
        }
    }
}

/// Changes in order of time.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) format: TraceFormat,
    pub(super) changes: Vec<(Timestamp, Change)>,
    /// Until when nothing else changed, if the format says so.
    pub(super) until: Option<Timestamp>,
    /// The decisions of the recorded controller.
    pub(super) decisions: Vec<DecisionRecord>,
    /// What was left out or assumed.
    pub(super) notes: Vec<String>,
}

impl Trace {
    /// The first and the last time.
    pub(super) fn span(&self) -> Option<(Timestamp, Timestamp)> {
        let last = self.changes.last()?.0;
        Some((self.changes.first()?.0, self.until.map_or(last, |until| until.max(last))))
    }
}

/// Collects changes.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) changes: Changes,
    /// The last time of the trace, if it is known beside its changes.
    pub(super) until: Option<Timestamp>,
}

impl Reader {
    pub(super) fn put(&mut self, at: Timestamp, object: Value) {
        self.changes.put(at, object);
    }

    pub(super) fn delete(&mut self, at: Timestamp, id: Id) {
        self.changes.delete(at, id);
    }

    pub(super) fn note(&mut self, note: String) {
        self.changes.notes.push(note);
    }

    /// The object that is known by a name.
    pub(super) fn known(&self, id: &Id) -> Option<&Value> {
        self.changes.known().get(id)
    }

    /// A dump is everything that there is at its time.
    pub(super) fn dump(&mut self, file: &Path, text: &str) -> anyhow::Result<()> {
        let taken =
            taken_at(text).with_context(|| format!("{}:1: annotation {}", file.display(), dump::TAKEN_AT))?;
        let mut items: Vec<Item> = Vec::new();
        input::parse(file, text, &mut items)?;
        let (objects, notes) = dump::projected(&items, &Catalogues::default(), None);
        self.changes.notes.extend(notes);
        let mut missing: BTreeSet<Id> = self.changes.known().keys().cloned().collect();
        for object in objects {
            missing.remove(&identity(&object));
            self.put(taken, object);
        }
        missing.into_iter().for_each(|id| self.delete(taken, id));
        Ok(())
    }
}

/// The time of a dump.
fn taken_at(text: &str) -> anyhow::Result<Timestamp> {
    let list: Value = serde_json::from_str(text)?;
    let at = list.pointer("/metadata/annotations").and_then(|all| all[dump::TAKEN_AT].as_str());
    Ok(at.unwrap_or_default().parse()?)
}

/// The object with the fields that are read, whatever the format had.
pub(super) fn projected(object: &Value) -> Option<Value> {
    let name = object["kind"].as_str().unwrap_or_default();
    // A replay plays NodeClasses by their names alone.
    fields::project(object, name.ends_with("NodeClass").then_some(""))
}

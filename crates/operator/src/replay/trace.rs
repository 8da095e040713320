//! What happened in a cluster: changes of objects with their times, from any of the formats.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::{Context as _, bail};
use fleetwright_state::fields;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    catalogue::Catalogues,
    dump,
    input::{self, Item, json_reason, select::identity},
};

/// Group, kind, namespace and name.
pub(super) type Id = (String, String, String, String);

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    /// An object was created or changed.
    Put(Value),
    /// An object was deleted.
    Delete(Id),
}

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
    pub(super) changes: Vec<(Timestamp, Change)>,
    /// The last time of the trace, if it is known beside its changes.
    pub(super) until: Option<Timestamp>,
    pub(super) notes: Vec<String>,
    known: BTreeMap<Id, Value>,
    /// The last list of a recording, and the objects that it has not shown yet.
    list: Option<(Timestamp, (String, String), BTreeSet<Id>)>,
}

impl Reader {
    pub(super) fn put(&mut self, at: Timestamp, object: Value) {
        let id = identity(&object);
        if self.known.get(&id) != Some(&object) {
            self.known.insert(id, object.clone());
            self.changes.push((at, Change::Put(object)));
        }
    }

    pub(super) fn delete(&mut self, at: Timestamp, id: Id) {
        if self.known.remove(&id).is_some() {
            self.changes.push((at, Change::Delete(id)));
        }
    }

    /// The object that is known by a name.
    pub(super) fn known(&self, id: &Id) -> Option<&Value> {
        self.known.get(id)
    }

    /// Objects that the last list did not show are gone.
    fn end_list(&mut self) {
        if let Some((at, _, missing)) = self.list.take() {
            missing.into_iter().for_each(|id| self.delete(at, id));
        }
    }

    pub(super) fn recording(&mut self, file: &Path, text: &str) -> anyhow::Result<()> {
        let is_whole = text.ends_with('\n');
        let count = text.lines().count();
        for (number, line) in (1..).zip(text.lines()) {
            let place = || format!("{}:{number}", file.display());
            let line: Value = match serde_json::from_str(line) {
                Ok(line) => line,
                Err(_) if number == count && !is_whole => {
                    self.notes.push(format!("{}: the last line is incomplete and left out", place()));
                    break;
                }
                Err(error) => bail!("{}: {}", place(), json_reason(&error)),
            };
            let at: Timestamp = line["at"].as_str().unwrap_or_default().parse().with_context(place)?;
            self.entry(at, line).with_context(place)?;
        }
        self.end_list();
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
            bail!("neither put, delete, list nor lost");
        }
        Ok(())
    }

    /// A dump is everything that there is at its time.
    pub(super) fn dump(&mut self, file: &Path, text: &str) -> anyhow::Result<()> {
        let taken =
            taken_at(text).with_context(|| format!("{}:1: annotation {}", file.display(), dump::TAKEN_AT))?;
        let mut items: Vec<Item> = Vec::new();
        input::parse(file, text, &mut items)?;
        let (objects, notes) = dump::projected(&items, &Catalogues::default(), None);
        self.notes.extend(notes);
        let mut missing: BTreeSet<Id> = self.known.keys().cloned().collect();
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

//! The table of bad objects (`tests/e2e/refusals.yaml`): what each server has to refuse, and with which words.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use kube::core::Status;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) mod ask;

/// The table: one valid object per kind, and rows that each change one thing about it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    /// A valid object of each kind that the rows are about.
    pub(crate) base: BTreeMap<String, Value>,
    pub(crate) rows: Vec<Row>,
}

/// One change to a valid object.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    /// What is wrong, or right; unique.
    pub(crate) name: String,
    /// The kind whose valid object is changed.
    pub(crate) of: String,
    /// JSON pointers and their new values; null removes.
    #[serde(default)]
    pub(crate) set: BTreeMap<String, Value>,
    /// The changes that the stored object already has when `set` is applied to it: the row is about an update.
    pub(crate) stored: Option<BTreeMap<String, Value>>,
    /// Fragments of the answer, all of which must be there. Empty: the object must be accepted.
    #[serde(default)]
    pub(crate) expect: Vec<String>,
    /// Why the message of the in-memory server differs from the recorded one, if it does.
    pub(crate) differs: Option<String>,
}

/// What a server answered to a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    /// 201 or 200 when accepted.
    pub(crate) code: u16,
    /// `Invalid`, `BadRequest`, …; empty when accepted.
    pub(crate) reason: String,
    /// The parts of the message, sorted: their order is not part of the contract.
    pub(crate) causes: Vec<String>,
}

impl Table {
    /// Reads and checks a table.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let table: Self = serde_saphyr::from_str(text).context("the table of refusals")?;
        let mut names = BTreeSet::new();
        for row in &table.rows {
            if !names.insert(&row.name) {
                bail!("two rows are named {:?}", row.name);
            }
            if !table.base.contains_key(&row.of) {
                bail!("row {:?} is about {}, of which there is no valid object", row.name, row.of);
            }
            if row.set.is_empty() {
                bail!("row {:?} changes nothing", row.name);
            }
        }
        Ok(table)
    }

    /// The stored object, for rows about updates, and the object to send.
    pub(crate) fn objects(&self, row: &Row) -> anyhow::Result<(Option<Value>, Value)> {
        let base = self.base.get(&row.of).context("no such kind")?;
        let Some(stored) = &row.stored else { return Ok((None, change(base.clone(), &row.set)?)) };
        let stored = change(base.clone(), stored)?;
        let sent = change(stored.clone(), &row.set)?;
        Ok((Some(stored), sent))
    }
}

/// Applies the changes to `object`: each pointer's parents have to exist, `-` appends to a list.
fn change(mut object: Value, changes: &BTreeMap<String, Value>) -> anyhow::Result<Value> {
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').with_context(|| format!("{pointer:?} is no pointer"))?;
        let parent = object.pointer_mut(parent).with_context(|| format!("there is no {parent:?}"))?;
        let key = key.replace("~1", "/").replace("~0", "~");
        match parent {
            Value::Object(fields) if value.is_null() => drop(fields.remove(&key)),
            Value::Object(fields) => drop(fields.insert(key, value.clone())),
            Value::Array(items) if key == "-" => items.push(value.clone()),
            Value::Array(items) => {
                let index: usize = key.parse().with_context(|| format!("{pointer:?} is no index"))?;
                *items.get_mut(index).with_context(|| format!("there is no {pointer:?}"))? = value.clone();
            }
            _ => bail!("{pointer:?} has no parent that could hold it"),
        }
    }
    Ok(object)
}

impl Verdict {
    pub(crate) fn accepted(code: u16) -> Self {
        Self { code, reason: String::new(), causes: Vec::new() }
    }

    pub(crate) fn refused(status: &Status) -> Self {
        let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
        let mut causes: Vec<String> =
            causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        if causes.is_empty() {
            causes.push(status.message.clone());
        }
        causes.sort();
        Self { code: status.code, reason: status.reason.clone(), causes }
    }

    /// Whether the object was taken.
    pub(crate) fn is_accepted(&self) -> bool {
        self.code < 300
    }

    /// What is wrong with this answer to `row`, if anything.
    pub(crate) fn fault(&self, row: &Row) -> Option<String> {
        let text = self.causes.join("; ");
        if row.expect.is_empty() {
            return (!self.is_accepted()).then(|| format!("{}: refused with {text:?}", row.name));
        }
        if self.is_accepted() {
            return Some(format!("{}: accepted, expected {:?}", row.name, row.expect));
        }
        let missing = row.expect.iter().find(|fragment| !text.contains(fragment.as_str()));
        missing.map(|fragment| format!("{}: {text:?} does not say {fragment:?}", row.name))
    }
}

#[cfg(test)]
mod tests;

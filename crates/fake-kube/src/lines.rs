//! The lines of watches, remembered for a while: each is made once, for the answer to a write and for all watches.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

/// How many lines are remembered: watches of one kind are served one after the other.
const LINES: usize = 16;

/// A line that watches were sent, with what it was made from.
#[derive(Debug)]
struct Line {
    kind: &'static str,
    object: Arc<Value>,
    bytes: Bytes,
}

/// The last lines.
#[derive(Debug, Default)]
pub(crate) struct Lines(VecDeque<Line>);

impl Lines {
    /// The line that shows an object.
    pub(crate) fn of(&mut self, kind: &'static str, object: &Arc<Value>) -> Bytes {
        let same = |line: &&Line| line.kind == kind && Arc::ptr_eq(&line.object, object);
        if let Some(line) = self.0.iter().rev().find(same) {
            return line.bytes.clone();
        }
        let bytes = line(kind, object);
        if self.0.len() >= LINES {
            self.0.pop_front();
        }
        self.0.push_back(Line { kind, object: object.clone(), bytes: bytes.clone() });
        bytes
    }
}

/// The text before and after the object of a line.
fn around(kind: &str) -> (String, &'static str) {
    (format!("{{\"type\":\"{kind}\",\"object\":"), "}\n")
}

/// A line of a watch.
pub(crate) fn line(kind: &str, object: &Value) -> Bytes {
    let (before, after) = around(kind);
    let mut bytes = before.into_bytes();
    // A value of maps with text keys always serialises.
    serde_json::to_writer(&mut bytes, object).unwrap_or_default();
    bytes.extend_from_slice(after.as_bytes());
    bytes.into()
}

/// The object of a [`line`] of that kind.
pub(crate) fn object_of(kind: &str, line: &Bytes) -> Bytes {
    let (before, after) = around(kind);
    line.slice(before.len()..line.len() - after.len())
}

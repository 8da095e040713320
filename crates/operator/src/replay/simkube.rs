//! Traces of SimKube (`skctl export`): MessagePack, or the same as JSON. Events list the tracked objects that were applied and deleted.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::{
    objects,
    trace::{Reader, projected},
};
use crate::{figures, input::select::identity};

/// The versions of the format that are read. They differ in the configuration of the tracer, which is not.
const VERSIONS: [u16; 2] = [2, 3];

#[derive(Deserialize)]
struct ExportedTrace {
    version: u16,
    events: Vec<TraceEvent>,
    /// By the owner of pods, and by a hash of their specification.
    #[serde(default)]
    pod_lifecycles: HashMap<Owner, HashMap<u64, Vec<PodLifecycle>>>,
}

/// Group, version and kind as `batch/v1.Job`; namespace and name.
type Owner = (String, String);

#[derive(Deserialize)]
struct TraceEvent {
    /// Seconds since 1970.
    ts: i64,
    applied_objs: Vec<Value>,
    deleted_objs: Vec<Value>,
}

/// When a pod started and ended, in seconds since 1970.
#[derive(Deserialize)]
enum PodLifecycle {
    Empty,
    Running(#[expect(dead_code, reason = "when it started")] i64),
    Finished(i64, i64),
}

/// Whether a document is such a trace.
pub(super) fn is_trace(document: &Value) -> bool {
    document["events"].is_array() && document["version"].is_u64()
}

/// Reads a trace as JSON.
///
/// # Errors
/// If a field is missing or has another type, or the version of the format is another one.
pub(super) fn read_json(reader: &mut Reader, file: &Path, document: &Value) -> anyhow::Result<()> {
    let trace = serde_path_to_error::deserialize(document)
        .with_context(|| format!("{}: a trace of SimKube", file.display()))?;
    take(reader, file, trace)
}

/// Reads a trace as MessagePack.
///
/// # Errors
/// As [`read_json`].
pub(super) fn read_binary(reader: &mut Reader, file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let trace = rmp_serde::from_slice(bytes)
        .with_context(|| format!("{}: neither text nor a trace of SimKube", file.display()))?;
    take(reader, file, trace)
}

fn take(reader: &mut Reader, file: &Path, trace: ExportedTrace) -> anyhow::Result<()> {
    let name = file.display();
    if !VERSIONS.contains(&trace.version) {
        bail!("{name}: a trace of SimKube in format {}, and this binary reads {VERSIONS:?}", trace.version);
    }
    let mut events = trace.events;
    events.sort_by_key(|event| event.ts);
    let mut left_out = BTreeMap::<String, usize>::new();
    for (number, event) in events.into_iter().enumerate() {
        let at = Timestamp::from_second(event.ts).with_context(|| format!("{name}: events[{number}].ts"))?;
        reader.until = reader.until.max(Some(at));
        for object in event.applied_objs {
            let kind = object["kind"].as_str().unwrap_or_default();
            match projected(&object).filter(|_| kind == "Pod" || objects::is_played(kind, false)) {
                Some(mut object) => {
                    if let Some(ran) = run_time(&trace.pod_lifecycles, &object) {
                        objects::runs_for(&mut object, &["spec", "template"], ran);
                    }
                    reader.put(at, object);
                }
                None => *left_out.entry(kind.to_owned()).or_default() += 1,
            }
        }
        event.deleted_objs.iter().for_each(|object| reader.delete(at, identity(object)));
    }
    let note = |(kind, count): (String, usize)| {
        format!("{name}: {} of kind {kind} not played", figures::count(count, "object"))
    };
    reader.changes.notes.extend(left_out.into_iter().map(note));
    Ok(())
}

/// How long the pods of a Job ran, the median of those that ended.
fn run_time(
    lifecycles: &HashMap<Owner, HashMap<u64, Vec<PodLifecycle>>>,
    object: &Value,
) -> Option<Duration> {
    if object["kind"] != "Job" {
        return None;
    }
    let (_, _, namespace, name) = identity(object);
    let owned = lifecycles.get(&("batch/v1.Job".to_owned(), format!("{namespace}/{name}")))?;
    let ran = |pod: &PodLifecycle| match pod {
        PodLifecycle::Finished(from, to) => u64::try_from(to.saturating_sub(*from)).ok(),
        PodLifecycle::Empty | PodLifecycle::Running(_) => None,
    };
    let mut seconds: Vec<u64> = owned.values().flatten().filter_map(ran).collect();
    seconds.sort_unstable();
    seconds.get(seconds.len() / 2).copied().map(Duration::from_secs)
}

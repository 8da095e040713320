//! Traces of kubereplay, the tool of Karpenter's AWS provider that takes Deployments and Jobs from audit logs (its package `format`): each
//! as it was created, scaled and deleted.

use std::path::Path;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::trace::{Id, Reader, projected};
use crate::{figures, input::object::set};

#[derive(Deserialize)]
struct ReplayLog {
    events: Vec<WorkloadEvent>,
}

#[derive(Deserialize)]
struct WorkloadEvent {
    #[serde(rename = "type")]
    action: Action,
    kind: WorkloadKind,
    /// Namespace and name.
    key: String,
    deployment: Option<Value>,
    job: Option<Value>,
    replicas: Option<u32>,
    timestamp: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Create,
    Scale,
    Delete,
}

#[derive(Clone, Copy, Deserialize)]
enum WorkloadKind {
    Deployment,
    Job,
}

impl WorkloadKind {
    /// Group and kind.
    fn of(self) -> (&'static str, &'static str) {
        match self {
            Self::Deployment => ("apps", "Deployment"),
            Self::Job => ("batch", "Job"),
        }
    }
}

/// Whether a document is such a trace.
pub(super) fn is_trace(document: &Value) -> bool {
    document["events"].is_array() && document["captured"].is_string()
}

/// Reads a trace.
///
/// # Errors
/// If a field is missing or has another type; names the event and the field.
pub(super) fn read(reader: &mut Reader, file: &Path, document: &Value) -> anyhow::Result<()> {
    let log: ReplayLog = serde_path_to_error::deserialize(document)
        .with_context(|| format!("{}: a trace of kubereplay", file.display()))?;
    let timed = |(number, event): (usize, WorkloadEvent)| {
        let place = format!("{}: events[{number}]", file.display());
        let at: Timestamp = event.timestamp.parse().with_context(|| format!("{place}.timestamp"))?;
        Ok((at, place, event))
    };
    let mut events: Vec<_> = log.events.into_iter().enumerate().map(timed).collect::<anyhow::Result<_>>()?;
    events.sort_by_key(|(at, ..)| *at);
    let (mut jobs, mut unknown) = (0, 0);
    for (at, place, event) in events {
        let Some((namespace, name)) = event.key.split_once('/') else {
            bail!("{place}.key: {:?} is not NAMESPACE/NAME", event.key);
        };
        let (group, kind) = event.kind.of();
        let id: Id = (group.to_owned(), kind.to_owned(), namespace.to_owned(), name.to_owned());
        match event.action {
            Action::Create => {
                jobs += usize::from(kind == "Job");
                let object = match event.kind {
                    WorkloadKind::Deployment => event.deployment,
                    WorkloadKind::Job => event.job,
                };
                let object = object.filter(Value::is_object);
                let mut object = object.with_context(|| format!("{place}: created without its {kind}"))?;
                object["apiVersion"] = json!(format!("{group}/v1"));
                object["kind"] = json!(kind);
                set(&mut object, &["metadata", "namespace"], json!(namespace));
                set(&mut object, &["metadata", "name"], json!(name));
                projected(&object).into_iter().for_each(|object| reader.put(at, object));
            }
            Action::Scale => {
                let replicas = event.replicas.with_context(|| format!("{place}: scaled without replicas"))?;
                match reader.known(&id).cloned() {
                    Some(mut object) => {
                        set(&mut object, &["spec", "replicas"], json!(replicas));
                        reader.put(at, object);
                    }
                    None => unknown += 1,
                }
            }
            Action::Delete => reader.delete(at, id),
        }
    }
    let name = file.display();
    if jobs > 0 {
        let jobs = figures::count(jobs, "Job");
        reader
            .note(format!("{name}: {jobs} without an end: the format does not say how long their pods run"));
    }
    if unknown > 0 {
        let events = figures::count(unknown, "scale event");
        reader.note(format!("{name}: {events} of workloads that the trace does not create left out"));
    }
    Ok(())
}

//! `RECORD_DIR`: records the objects that decisions read, with times, as newline-delimited JSON.
//!
//! - [`watch`]: watches of its own deliver objects with the fields that decisions read ([`fleetwright_state::fields`]) and no others.
//! - [`tape`]: a thread of its own writes them, and the records of decisions. Each file stands alone: it begins with all objects as of then.
//! - [`lines`] and [`changes`]: what tools read of the files.
//!
//! Whatever goes wrong switches recording off, with a log line and a metric, and harms nothing else.

pub(crate) mod changes;
pub(crate) mod lines;
pub(crate) mod tape;
#[cfg(test)]
mod tests;
mod watch;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Duration,
};

use fleetwright_controllers::runtime::decisions::{DecisionQuery, Decisions};
use fleetwright_core::{clock::SharedClock, cloud::NodeClassKind, decisions::DecisionRecord};
use jiff::Timestamp;
use kube::{
    Client,
    core::{ApiResource, GroupVersionKind},
};
use prometheus::IntGauge;
use serde_json::Value;
use tokio::task::JoinSet;

use self::tape::Tape;
use crate::{catalogue::Catalogues, input::cluster, settings::Values};

/// Deliveries that wait for the thread. A list is one; 10,000 changes are some seconds of a busy cluster.
const WAITING_MAX: usize = 10_000;
/// How long lines may stay in memory.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// Bytes of a MiB.
const MIB: u64 = 1 << 20;

/// Something that a watch or the controller delivered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Delivery {
    /// All objects of a kind; others do not exist.
    List {
        /// Group and version of the kind.
        api_version: String,
        /// The kind.
        kind: String,
        /// Its objects.
        objects: Vec<Value>,
    },
    /// An object that was created or changed.
    Put(Value),
    /// An object that was deleted, in its last version.
    Delete(Value),
    /// A decision of the controller that was taken, or whose outcome changed.
    Decision(Arc<DecisionRecord>),
}

/// Where and how much to record.
#[derive(Clone, Debug)]
pub(crate) struct RecordingOptions {
    folder: PathBuf,
    /// Maximum size of all files together, in bytes.
    bytes_max: u64,
}

impl RecordingOptions {
    /// Those of the settings; `None` where recording is off.
    pub(crate) fn of(values: &Values) -> Option<Self> {
        let folder = Some(values.text("RECORD_DIR")).filter(|folder| !folder.is_empty())?;
        let mib = u64::try_from(values.integer("RECORD_MAX_MIB")).unwrap_or(1).max(1);
        Some(Self { folder: folder.into(), bytes_max: mib.saturating_mul(MIB) })
    }
}

/// A delivery with its time, and how many were lost before it.
struct Timed(Timestamp, Delivery, u64);

/// Hands deliveries to the thread that writes.
struct Sink {
    to: SyncSender<Timed>,
    lost: AtomicU64,
    /// 1 while the thread writes.
    active: IntGauge,
}

impl Sink {
    /// Whether the thread still writes.
    fn is_open(&self) -> bool {
        self.active.get() == 1
    }

    /// Hands on a delivery. It is lost if too many wait, since recording never slows its watches down; false then.
    fn send(&self, at: Timestamp, delivery: Delivery) -> bool {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        match self.to.try_send(Timed(at, delivery, lost)) {
            // The thread has said why it ended.
            Ok(()) | Err(TrySendError::Disconnected(_)) => true,
            Err(TrySendError::Full(_)) => {
                self.lost.fetch_add(lost.saturating_add(1), Ordering::Relaxed);
                false
            }
        }
    }
}

/// A running recording. Dropping it stops its watches, and its thread once everything is written.
pub(crate) struct Recording {
    /// Aborted when dropped.
    watches: JoinSet<()>,
    sink: Arc<Sink>,
    /// 1 while it records, 0 once it is off.
    pub(crate) active: IntGauge,
}

impl Recording {
    /// Starts to record.
    ///
    /// # Errors
    /// If the metric has an invalid name. A folder that cannot be used is no error: recording is off.
    pub(crate) fn start(
        options: RecordingOptions,
        client: &Client,
        clock: &SharedClock,
        classes: &[NodeClassKind],
        catalogues: &Catalogues,
    ) -> anyhow::Result<Self> {
        let active =
            IntGauge::new("fleetwright_recording", "Whether RECORD_DIR is written: 0 after an error")?;
        active.set(1);
        let (to, from) = sync_channel(WAITING_MAX);
        spawn_writer(options, clock.now(), from, active.clone());
        let sink = Arc::new(Sink { to, lost: AtomicU64::new(0), active: active.clone() });
        let mut watches = JoinSet::new();
        let of_classes = classes.iter().map(|class| {
            let gvk = GroupVersionKind::gvk(&class.group, &class.version, &class.kind);
            let fields = catalogues.class_fields(&class.group, &class.kind).unwrap_or_default();
            (ApiResource::from_gvk_with_plural(&gvk, &class.plural), Some(fields))
        });
        for (resource, class) in cluster::kinds().map(|kind| (kind, None)).chain(of_classes) {
            let watched = watch::Watched { resource, class };
            watches.spawn(watch::follow(client.clone(), watched, clock.clone(), sink.clone()));
        }
        Ok(Self { watches, sink, active })
    }

    /// Records decisions too, each again when its outcome changes.
    pub(crate) fn follow(&mut self, decisions: Decisions) {
        let sink = self.sink.clone();
        self.watches.spawn(follow(decisions, sink));
    }
}

/// Hands on decisions until the writer has ended. Of changes that follow each other at once, the last one is recorded.
async fn follow(decisions: Decisions, sink: Arc<Sink>) {
    let (mut changes, mut revision) = (decisions.changes(), 0);
    while sink.is_open() {
        let changed = {
            let ring = decisions.ring().lock();
            let changed = ring.changes(revision, &DecisionQuery::default());
            revision = ring.revision();
            changed
        };
        for record in changed {
            sink.send(decisions.now(), Delivery::Decision(record));
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

fn spawn_writer(options: RecordingOptions, begun: Timestamp, from: Receiver<Timed>, active: IntGauge) {
    let off = active.clone();
    let write = move || {
        let folder = options.folder.display().to_string();
        if let Err(error) = write(&options, begun, &from) {
            tracing::error!(
                folder,
                error = format!("{error:#}"),
                "RECORD_DIR: recording is off until the controller is restarted"
            );
        }
        active.set(0);
    };
    if let Err(error) = thread::Builder::new().name("recording".to_owned()).spawn(write) {
        tracing::error!(%error, "RECORD_DIR: recording is off: no thread for it");
        off.set(0);
    }
}

/// Writes deliveries until the other end is gone.
fn write(options: &RecordingOptions, begun: Timestamp, from: &Receiver<Timed>) -> anyhow::Result<()> {
    let mut tape = Tape::begin(&options.folder, options.bytes_max, begun)?;
    loop {
        match from.recv_timeout(FLUSH_EVERY) {
            Ok(Timed(at, delivery, lost)) => {
                if lost > 0 {
                    tape.note_lost(at, lost)?;
                }
                tape.write(at, delivery)?;
            }
            Err(RecvTimeoutError::Timeout) => tape.flush()?,
            Err(RecvTimeoutError::Disconnected) => return tape.end(),
        }
    }
}

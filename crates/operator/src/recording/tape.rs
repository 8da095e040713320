//! The files of a recording: written line by line, rotated, bounded.
//!
//! A new file gets a line about itself, then every object as of then; deliveries follow. Once it is large enough it is flushed
//! to the disk (fsync), the next one begins, and the oldest are removed until all fit. A crash leaves a file that ends in half a line.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Delivery;

/// The version of the format.
pub(crate) const FORMAT: u64 = 1;
/// What the names of files begin and end with.
pub(crate) const PREFIX: &str = "recording-";
pub(crate) const SUFFIX: &str = ".ndjson";
/// A file is rotated at this part of the whole.
const FILES: u64 = 8;

/// API version, kind, namespace and name.
type Id = (String, String, String, String);

fn id(object: &Value) -> Id {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/apiVersion"), text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

/// The files of one process.
pub(super) struct Tape {
    folder: PathBuf,
    bytes_max: u64,
    path: PathBuf,
    file: BufWriter<File>,
    /// Bytes of the current file.
    written: u64,
    /// Bytes of the current file's first part.
    opened_with: u64,
    /// Number of files.
    number: u64,
    /// The last line of each object: what the next file begins with.
    objects: BTreeMap<Id, String>,
}

impl Tape {
    /// Opens the first file.
    pub(super) fn begin(folder: &Path, bytes_max: u64, now: Timestamp) -> anyhow::Result<Self> {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        // A restart within the same second gets the next number.
        let number = (0..).find(|number| !path(folder, now, *number).exists()).unwrap_or_default();
        let path = path(folder, now, number);
        let file = BufWriter::new(open(&path)?);
        let (folder, objects) = (folder.to_owned(), BTreeMap::new());
        let mut tape = Self { folder, bytes_max, path, file, written: 0, opened_with: 0, number, objects };
        tape.open_with_objects(now)?;
        tape.remove_oldest()?;
        Ok(tape)
    }

    /// Writes one delivery.
    pub(super) fn write(&mut self, at: Timestamp, delivery: Delivery) -> anyhow::Result<()> {
        match delivery {
            Delivery::List { api_version, kind, objects } => {
                self.objects.retain(|id, _| (&id.0, &id.1) != (&api_version, &kind));
                self.line(&json!({"at": at, "list": {"apiVersion": api_version, "kind": kind}}))?;
                for object in objects {
                    self.put(at, object)?;
                }
            }
            Delivery::Put(object) => self.put(at, object)?,
            Delivery::Delete(object) => {
                let (api_version, kind, namespace, name) = id(&object);
                let deleted = json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace, "name": name, "uid": object["metadata"]["uid"]}});
                self.objects.remove(&(api_version, kind, namespace, name));
                self.line(&json!({"at": at, "delete": deleted}))?;
            }
            Delivery::Decision(record) => self.line(&json!({"at": at, "decision": record}))?,
        }
        let limit = (self.bytes_max / FILES).max(1);
        // A file has as much room for changes as its first part takes, at least.
        if self.written >= limit.max(self.opened_with.saturating_mul(2)) {
            self.rotate(at)?;
        }
        Ok(())
    }

    /// Says that deliveries before the next one are missing.
    pub(super) fn note_lost(&mut self, at: Timestamp, lost: u64) -> anyhow::Result<()> {
        self.line(&json!({"at": at, "lost": lost}))
    }

    /// Hands everything to the operating system.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        self.file.flush().with_context(|| self.path.display().to_string())
    }

    /// Flushes the last file to the disk.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        self.sync()
    }

    fn sync(&mut self) -> anyhow::Result<()> {
        self.flush()?;
        self.file.get_ref().sync_all().with_context(|| self.path.display().to_string())
    }

    fn put(&mut self, at: Timestamp, object: Value) -> anyhow::Result<()> {
        let id = id(&object);
        let text = object.to_string();
        if self.objects.get(&id) == Some(&text) {
            // A change of fields that are not read.
            return Ok(());
        }
        self.text(&format!("{{\"at\":\"{at}\",\"put\":{text}}}\n"))?;
        self.objects.insert(id, text);
        Ok(())
    }

    fn line(&mut self, line: &Value) -> anyhow::Result<()> {
        self.text(&format!("{line}\n"))
    }

    fn text(&mut self, text: &str) -> anyhow::Result<()> {
        let done = self.file.write_all(text.as_bytes());
        done.with_context(|| self.path.display().to_string())?;
        self.written = self.written.saturating_add(u64::try_from(text.len()).unwrap_or(u64::MAX));
        Ok(())
    }

    fn open_with_objects(&mut self, at: Timestamp) -> anyhow::Result<()> {
        self.line(&json!({"at": at, "recording": FORMAT}))?;
        let objects = std::mem::take(&mut self.objects);
        for text in objects.values() {
            self.text(&format!("{{\"at\":\"{at}\",\"put\":{text}}}\n"))?;
        }
        self.objects = objects;
        self.opened_with = self.written;
        let allowed = self.bytes_max / 2;
        if self.opened_with > allowed {
            bail!(
                "the objects of the cluster take {} bytes, and RECORD_MAX_MIB allows {allowed} for a file: raise it",
                self.opened_with
            );
        }
        Ok(())
    }

    fn rotate(&mut self, at: Timestamp) -> anyhow::Result<()> {
        self.sync()?;
        self.number += 1;
        let path = path(&self.folder, at, self.number);
        let file = open(&path)?;
        (self.file, self.path, self.written) = (BufWriter::new(file), path, 0);
        self.open_with_objects(at)?;
        self.remove_oldest()
    }

    /// Removes the oldest files, of earlier processes too, until all of them and one more fit.
    fn remove_oldest(&self) -> anyhow::Result<()> {
        let folder = || self.folder.display().to_string();
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder).with_context(folder)? {
            let entry = entry.with_context(folder)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(PREFIX) && name.ends_with(SUFFIX) && entry.path() != self.path {
                files.push((name, entry.path(), entry.metadata().with_context(folder)?.len()));
            }
        }
        files.sort();
        let next = (self.bytes_max / FILES).max(self.opened_with.saturating_mul(2));
        let mut total = files.iter().map(|(_, _, size)| size).sum::<u64>().saturating_add(next);
        for (_, path, size) in files {
            if total <= self.bytes_max {
                break;
            }
            fs::remove_file(&path).with_context(|| path.display().to_string())?;
            total = total.saturating_sub(size);
        }
        Ok(())
    }
}

/// Names sort by time.
fn path(folder: &Path, at: Timestamp, number: u64) -> PathBuf {
    let time = at.strftime("%Y%m%dT%H%M%SZ");
    folder.join(format!("{PREFIX}{time}-{number:06}{SUFFIX}"))
}

/// A new file that only its owner may read.
fn open(path: &Path) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).with_context(|| path.display().to_string())
}

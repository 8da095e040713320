//! `fleetwright dump`: what the tools read, as one file that they accept with `-f`.
//!
//! A dump holds the fields that decisions read ([`fields`]) and no others. With `--anonymize` it holds no names of the cluster either
//! ([`anonymize`]), and plans the same; so does a recording ([`recording`]). With `--compat` it also holds what `compat` reads ([`further`]).

mod anonymize;
mod further;
mod keys;
pub(crate) mod recording;
#[cfg(test)]
mod tests;
mod words;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    path::Path,
};

use anyhow::Context as _;
use fleetwright_core::clock::Clock as _;
use fleetwright_state::fields;
use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) use self::anonymize::Anonymizer;
use crate::{
    catalogue::Catalogues,
    cli::DumpOptions,
    clock::SystemClock,
    figures,
    input::{self, Item, Source, load},
    plan,
    settings::table::Setting,
};

/// The annotation of a dump with the time at which it was taken.
pub(crate) const TAKEN_AT: &str = "fleetwright.dev/dump-taken-at";

/// Writes the dump.
///
/// # Errors
/// If the input cannot be read, or the file cannot be written.
pub(crate) fn run(
    options: &DumpOptions,
    catalogues: &Catalogues,
    settings: &[Setting],
) -> anyhow::Result<()> {
    if let Some(path) = &options.recording {
        let anonymizer = Anonymizer::new(catalogues, options.key.as_deref())?;
        let (text, notes) = recording::anonymized(path, &anonymizer)?;
        plan::show_notes(&notes, &[])?;
        return write(options, &text);
    }
    let (items, lacking) = if options.compat {
        let (items, denied) = input::read_all(&options.input)?;
        (items, denied.iter().map(|kind| format!("{kind} may not be listed and are left out")).collect())
    } else {
        input::read_noted(&options.input)?
    };
    let (mut objects, mut notes) = projected(&items, catalogues, options.compat.then_some(settings));
    notes.extend(lacking);
    if options.anonymize {
        Anonymizer::new(catalogues, options.key.as_deref())?.anonymize(&mut objects);
    }
    plan::show_notes(&notes, &[])?;
    write(options, &written(&objects, SystemClock.now())?)
}

fn write(options: &DumpOptions, text: &str) -> anyhow::Result<()> {
    match &options.file {
        Some(file) => write_private(file, text).with_context(|| file.display().to_string()),
        None => Ok(anstream::stdout().lock().write_all(text.as_bytes())?),
    }
}

/// The objects with the fields that are read, and notes on those that are left out. With `settings`, those of clouds, also what `compat` reads.
pub(crate) fn projected(
    items: &[Item],
    catalogues: &Catalogues,
    settings: Option<&[Setting]>,
) -> (Vec<Value>, Vec<String>) {
    let classes: BTreeSet<(String, String)> = load::class_kinds(items)
        .into_iter()
        .map(|class| (class.group.to_string(), class.kind.to_string()))
        .collect();
    let groups = further::groups(&classes);
    let (mut objects, mut left_out) = (Vec::new(), BTreeMap::<String, usize>::new());
    for Item { value, source } in items {
        let text = |at: &str| value.get(at).and_then(Value::as_str).unwrap_or_default();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let group = version.rsplit_once('/').map_or("", |(group, _)| group);
        let is_class = classes.contains(&(group.to_owned(), kind.to_owned()));
        let class = catalogues.class_fields(group, kind).or_else(|| is_class.then_some(""));
        let project = |settings: Option<&[Setting]>| {
            let mut kept = fields::project(value, class);
            match (&mut kept, settings) {
                (Some(kept), Some(settings)) => further::workload(value, kept, settings),
                (None, Some(_)) => return further::object(value, &groups),
                _ => {}
            }
            kept
        };
        match project(settings) {
            Some(object) => objects.push(object),
            // Which kinds of a cluster are read is not the user's choice.
            None if settings.is_none() && matches!(source, Source::Cluster) => {}
            None if kind.is_empty() => *left_out.entry("no kind".to_owned()).or_default() += 1,
            None => *left_out.entry(format!("{version} {kind}").trim_start().to_owned()).or_default() += 1,
        }
    }
    let notes = left_out.into_iter().map(|(kind, count)| {
        format!("{} of {kind} left out: no decision reads them", figures::count(count, "object"))
    });
    (objects, notes.collect())
}

/// The text of a dump: a List, one object per line.
pub(crate) fn written(objects: &[Value], taken: Timestamp) -> anyhow::Result<String> {
    let meta = json!({"annotations": {TAKEN_AT: taken.to_string()}});
    let lines: Vec<String> = objects.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    let items = lines.join(",\n");
    Ok(format!("{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"metadata\":{meta},\"items\":[\n{items}\n]}}\n"))
}

/// Writes a file that only its owner may read.
fn write_private(file: &Path, text: &str) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)?.write_all(text.as_bytes())
}

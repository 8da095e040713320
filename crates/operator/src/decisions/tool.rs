//! `fleetwright decisions`.

use std::{
    io::{Read as _, Write as _},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use fleetwright_core::decisions::record::VERSION;
use serde_json::Value;

use super::{
    client::{Endpoint, next_event},
    table,
};
use crate::{
    cli::{DecisionsFormat, DecisionsOptions},
    outcome::Outcome,
};

/// The most that is read of a file: a list has at most 4 MiB.
const MAX_BYTES: u64 = 64 << 20;
/// How long to wait before a stream is continued.
const RECONNECT_AFTER: Duration = Duration::from_secs(2);

/// Prints decisions, and with `--watch` each further one.
///
/// # Errors
/// They cannot be read.
pub(crate) fn run(options: &DecisionsOptions) -> anyhow::Result<Outcome> {
    if let Some(path) = options.file.as_deref() {
        let text = if path.as_os_str() == "-" {
            let mut text = String::new();
            std::io::stdin().take(MAX_BYTES).read_to_string(&mut text).context("standard input")?;
            text
        } else {
            std::fs::read_to_string(path).with_context(|| path.display().to_string())?
        };
        let list = options.selected(parse(&text)?);
        return print(&list, options.output).map(|()| Outcome::Complete);
    }
    let endpoint = Endpoint::new(&options.url)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        if options.watch {
            return follow(&endpoint, options).await;
        }
        let list = parse(&endpoint.list(&options.query()).await?)?;
        print(&list, options.output)
    })?;
    Ok(Outcome::Complete)
}

/// Reads a list.
///
/// # Errors
/// It is not one, or of another version.
pub(super) fn parse(text: &str) -> anyhow::Result<Value> {
    let list: Value = serde_json::from_str(text).context("this is not a list of decisions")?;
    ensure!(list["decisions"].is_array(), "this is not a list of decisions: it has no field decisions");
    let version = list["version"].as_u64();
    if version != Some(u64::from(VERSION)) {
        let found = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
        bail!("the list has version {found}; this binary reads version {VERSION}");
    }
    Ok(list)
}

/// The text of a list.
///
/// # Errors
/// It cannot be written as YAML or JSON.
pub(super) fn written(list: &Value, format: DecisionsFormat) -> anyhow::Result<String> {
    Ok(match format {
        DecisionsFormat::Json => serde_json::to_string_pretty(list)? + "\n",
        DecisionsFormat::Jsonl => {
            let records = list["decisions"].as_array().into_iter().flatten();
            records.map(|record| written_one(record, format)).collect::<Result<_, _>>()?
        }
        DecisionsFormat::Yaml => serde_saphyr::to_string(list)?,
        DecisionsFormat::Table => {
            let mut text = table::table(list["decisions"].as_array().map_or(&[], Vec::as_slice));
            if let Some(dropped) = list["dropped"].as_u64().filter(|dropped| *dropped > 0) {
                text +=
                    &format!("{dropped} earlier records were dropped: the controller keeps the last ones\n");
            }
            text
        }
    })
}

fn print(list: &Value, format: DecisionsFormat) -> anyhow::Result<()> {
    write!(anstream::stdout().lock(), "{}", written(list, format)?)?;
    Ok(())
}

/// A record of a stream: a line of text or JSON, or a document of YAML.
pub(super) fn written_one(record: &Value, format: DecisionsFormat) -> anyhow::Result<String> {
    Ok(match format {
        DecisionsFormat::Json | DecisionsFormat::Jsonl => serde_json::to_string(record)? + "\n",
        DecisionsFormat::Yaml => format!("---\n{}", serde_saphyr::to_string(record)?),
        DecisionsFormat::Table => table::line(record) + "\n",
    })
}

/// Prints each record of the stream. A stream that ends is continued where it ended.
async fn follow(endpoint: &Endpoint, options: &DecisionsOptions) -> anyhow::Result<()> {
    let mut last: Option<String> = None;
    let mut stream = endpoint.watch(&options.query(), None).await?;
    loop {
        let ended = match next_event(&mut stream).await {
            Ok(Some(event)) => {
                last = event.id.or(last);
                match event.name.as_str() {
                    "decision" => {
                        let record: Value =
                            serde_json::from_str(&event.data).context("a decision of the stream")?;
                        let mut out = anstream::stdout().lock();
                        write!(out, "{}", written_one(&record, options.output)?)?;
                        out.flush()?;
                    }
                    "gap" => writeln!(anstream::stderr(), "note: records may be missing here")?,
                    _ => {}
                }
                continue;
            }
            Ok(None) => "the stream ended".to_owned(),
            Err(error) => error.to_string(),
        };
        writeln!(anstream::stderr(), "note: {ended}; continuing in {RECONNECT_AFTER:?}")?;
        stream = loop {
            tokio::time::sleep(RECONNECT_AFTER).await;
            if let Ok(stream) = endpoint.watch(&options.query(), last.as_deref()).await {
                break stream;
            }
        };
    }
}

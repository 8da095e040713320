//! `fleetwright decisions`.

use std::{io::Write as _, time::Duration};

use anyhow::Context as _;
use serde_json::Value;

use super::{
    client::{Endpoint, next_event},
    source::{parse, text_of},
    table,
};
use crate::{
    cli::{DecisionsFormat, DecisionsOptions},
    outcome::Outcome,
};

/// How long to wait before a stream is continued.
const RECONNECT_AFTER: Duration = Duration::from_secs(2);

/// Prints decisions, and with `--watch` each further one.
///
/// # Errors
/// They cannot be read.
pub(crate) fn run(options: &DecisionsOptions) -> anyhow::Result<Outcome> {
    if let Some(path) = options.file.as_deref() {
        let list = options.selected(parse(&text_of(path)?)?);
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

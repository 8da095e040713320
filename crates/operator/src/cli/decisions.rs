//! The command line of `decisions`.

use std::path::PathBuf;

use clap::{ValueEnum, builder::PossibleValuesParser};
use fleetwright_core::decisions::Choice;
use serde_json::Value;

/// Options of `decisions`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DecisionsOptions {
    /// Keep printing decisions as they are taken, and again as their outcome changes.
    #[arg(short, long, conflicts_with = "file")]
    pub(crate) watch: bool,
    /// Output format; with --watch, `json` is one object per line.
    #[arg(short, long, value_enum, default_value_t = DecisionsFormat::Table)]
    pub(crate) output: DecisionsFormat,
    /// The metrics port of a controller with DECISIONS_ENDPOINT=true, for example after `kubectl port-forward`.
    #[arg(long, value_name = "URL", default_value = "http://localhost:8080")]
    pub(crate) url: String,
    /// A list that was written with `-o json`; `-` is standard input.
    #[arg(short = 'f', long = "file", value_name = "FILE", conflicts_with_all = ["url", "since"])]
    pub(crate) file: Option<PathBuf>,
    /// Decisions since a time (RFC 3339), or within a duration such as 10m.
    #[arg(long, value_name = "TIME|DURATION")]
    pub(crate) since: Option<String>,
    /// Decisions of these kinds, separated by commas.
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = PossibleValuesParser::new(Choice::KINDS))]
    pub(crate) kind: Vec<String>,
    /// The last decisions, this many; by default 500, and all that are kept with --watch.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) limit: Option<usize>,
}

/// How decisions are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DecisionsFormat {
    /// For terminals.
    Table,
    /// For programs.
    Json,
    /// For programs.
    Yaml,
    /// One record per line.
    Jsonl,
}

impl DecisionsOptions {
    /// The query of the request.
    pub(crate) fn query(&self) -> String {
        let kinds = self.kind.join(",");
        let since = self.since.as_deref().map(percent_encoded);
        let limit = self.limit.map(|limit| limit.to_string());
        let parts =
            [("kind", Some(kinds).filter(|kinds| !kinds.is_empty())), ("since", since), ("limit", limit)];
        let given = parts.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?)));
        given.collect::<Vec<_>>().join("&")
    }

    /// The records of a list that these options select.
    pub(crate) fn selected(&self, mut list: Value) -> Value {
        if let Some(records) = list["decisions"].as_array_mut() {
            records.retain(|record| {
                let kind = record["kind"].as_str().unwrap_or_default();
                self.kind.is_empty() || self.kind.iter().any(|wanted| wanted == kind)
            });
            let surplus = self.limit.map_or(0, |limit| records.len().saturating_sub(limit));
            records.drain(..surplus);
        }
        list
    }
}

/// A value of a query: everything but letters, digits and `-._` is escaped.
fn percent_encoded(text: &str) -> String {
    let encoded = text.bytes().map(|byte| match byte {
        b'-' | b'.' | b'_' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    encoded.collect()
}

//! `fleetwright shadow report`.

use std::io::{Read as _, Write as _};

use anyhow::{Context as _, bail};

use super::{html, report::ShadowReport, table};
use crate::{
    cli::{ReportFormat, ShadowReportOptions},
    outcome::Outcome,
};

/// The most that is read of a report: it has at most a thousand rows.
const MAX_BYTES: u64 = 64 << 20;

/// Prints the report.
///
/// # Errors
/// It cannot be read.
pub(crate) fn run(options: &ShadowReportOptions) -> anyhow::Result<Outcome> {
    let text = match options.file.as_deref() {
        Some(path) if path.as_os_str() == "-" => {
            let mut text = String::new();
            std::io::stdin().take(MAX_BYTES).read_to_string(&mut text).context("standard input")?;
            text
        }
        Some(path) => std::fs::read_to_string(path).with_context(|| path.display().to_string())?,
        None => fetch(&options.url)?,
    };
    let report = parse(&text)?;
    let mut out = anstream::stdout().lock();
    match options.output {
        ReportFormat::Json => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
        ReportFormat::Table => write!(out, "{}", table::Table(&report))?,
        ReportFormat::Html => write!(out, "{}", html::Page(&report))?,
    }
    Ok(Outcome::of(&report.incomplete))
}

/// Reads a report.
///
/// # Errors
/// It is not one, or of another version.
pub(super) fn parse(text: &str) -> anyhow::Result<ShadowReport> {
    let value: serde_json::Value =
        serde_json::from_str(text).context("this is not a report of shadow mode")?;
    let version = value["version"].as_u64();
    if version != Some(u64::from(ShadowReport::VERSION)) {
        let found = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
        bail!("the report has version {found}; this binary reads version {}", ShadowReport::VERSION);
    }
    serde_json::from_value(value).context("this is not a report of shadow mode")
}

/// The report of a running shadow.
fn fetch(url: &str) -> anyhow::Result<String> {
    let uri: http::Uri = url.parse().with_context(|| format!("--url {url}"))?;
    let path = uri.path_and_query().map_or("/shadow", http::uri::PathAndQuery::as_str).to_owned();
    let mut base = http::uri::Parts::default();
    base.scheme = uri.scheme().cloned().or(Some(http::uri::Scheme::HTTP));
    base.authority = uri.authority().cloned();
    base.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
    let base =
        http::Uri::from_parts(base).with_context(|| format!("--url {url}: give http://HOST:PORT/shadow"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = kube::Client::try_from(kube::Config::new(base))?;
        let request = http::Request::get(if path == "/" { "/shadow" } else { &path }).body(Vec::new())?;
        client
            .request_text(request)
            .await
            .with_context(|| format!("reading {url}: is the shadow running, and its port forwarded?"))
    })
}

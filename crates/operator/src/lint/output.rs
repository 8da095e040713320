//! Findings as text, JSON, SARIF 2.1.0 and annotations of GitHub Actions.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::rules::{Finding, RULES, Severity};
use crate::{cli::LintFormat, figures, sheet::plain};

/// The findings in a format.
///
/// # Errors
/// If they cannot be serialized.
pub(super) fn render(format: LintFormat, findings: &[Finding]) -> anyhow::Result<String> {
    Ok(match format {
        LintFormat::Text => text(findings),
        LintFormat::Json => {
            serde_json::to_string_pretty(&json!({"version": 1, "findings": findings}))? + "\n"
        }
        LintFormat::Sarif => serde_json::to_string_pretty(&sarif(findings))? + "\n",
        LintFormat::Github => findings.iter().map(github).collect(),
    })
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

fn text(findings: &[Finding]) -> String {
    let mut out = String::new();
    for finding in findings {
        let Finding { file, line, column, code, object, message, fix, url, .. } = finding;
        let place = if *line == 0 { file.clone() } else { format!("{file}:{line}:{column}") };
        let about = plain(&format!("{object}: {message}"));
        let _ = writeln!(out, "{place}: {} {code}: {about}", word(finding.severity));
        let _ = writeln!(out, "    fix: {} ({url})", plain(fix));
    }
    let of = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let _ = writeln!(
        out,
        "{}, {}",
        figures::count(of(Severity::Error), "error"),
        figures::count(of(Severity::Warning), "warning")
    );
    out
}

fn sarif(findings: &[Finding]) -> Value {
    let rules: Vec<Value> = RULES
        .iter()
        .map(|rule| {
            json!({
                "id": rule.code,
                "shortDescription": {"text": rule.title},
                "helpUri": super::rules::page(rule.code),
                "defaultConfiguration": {"level": word(rule.severity)},
            })
        })
        .collect();
    let results: Vec<Value> = findings
        .iter()
        .map(|finding| {
            let region =
                (finding.line > 0).then(|| json!({"startLine": finding.line, "startColumn": finding.column}));
            let mut place = json!({"artifactLocation": {"uri": finding.file.replace('\\', "/")}});
            if let Some(region) = region {
                place["region"] = region;
            }
            json!({
                "ruleId": finding.code,
                "level": word(finding.severity),
                "message": {"text": format!("{}: {} ({})", finding.object, finding.message, finding.fix)},
                "locations": [{"physicalLocation": place}],
            })
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "fleetwright lint", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "results": results,
        }],
    })
}

/// `::error file=…,line=…,col=…,title=…::message`, with what GitHub reads as syntax escaped.
fn github(finding: &Finding) -> String {
    let message = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| message(text).replace(':', "%3A").replace(',', "%2C");
    let place = match finding.line {
        0 => String::new(),
        line => format!("file={},line={line},col={},", property(&finding.file), finding.column),
    };
    let body = message(&format!("{}: {} ({})", finding.object, finding.message, finding.fix));
    format!("::{} {place}title={}::{body}\n", word(finding.severity), property(finding.code))
}

//! `explain decision`: a decision of a recording, and its object in the cluster as it was then.

use std::fs;

use anyhow::{Context as _, bail};
use fleetwright_core::{
    decisions::{Choice, DecisionRecord},
    suggest::did_you_mean,
};
use serde::Serialize;
use serde_json::Value;

use super::Subject;
use crate::{
    catalogue::Catalogues,
    cli::DecisionExplainOptions,
    decisions::DecisionRow,
    figures,
    input::{Item, Source},
    outcome::Outcome,
    plan::show_notes,
    recording::{
        changes::{Changes, objects_at},
        lines,
    },
    settings::Values,
    sheet::{self, Answer, Page, Sheet, figure, text},
};

/// The explanation of a decision.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DecisionReport {
    /// Version of this form.
    version: u32,
    /// The decision, as it was last recorded.
    decision: DecisionRecord,
    /// The decisions that are part of it: NodeClaims and refusals of a plan, replacements of a command.
    parts: Vec<DecisionRecord>,
    /// The pod or the node of it in the cluster as of the decision; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    explained: Option<Value>,
}

/// Explains a decision of a recording.
///
/// # Errors
/// If the recording cannot be read, or has no such decision.
pub(crate) fn decision(
    options: &DecisionExplainOptions,
    catalogues: &Catalogues,
    values: &Values,
) -> anyhow::Result<Outcome> {
    let answer = explained(options, catalogues, values)?;
    show_notes(&answer.notes, &answer.gaps)?;
    sheet::print(options.output, &answer.document, |_| answer.page)?;
    Ok(Outcome::of(&answer.gaps))
}

pub(super) fn explained(
    options: &DecisionExplainOptions,
    catalogues: &Catalogues,
    values: &Values,
) -> anyhow::Result<Answer> {
    let Changes { all, mut notes, decisions, .. } = read(options)?;
    let Some(decision) = decisions.iter().find(|decision| decision.id == options.id) else {
        let meant = did_you_mean(&options.id, decisions.iter().map(|decision| &*decision.id));
        let count = figures::count(decisions.len(), "decision");
        bail!("{}: {count}, and none has the id {:?}{meant}", options.recording.display(), options.id);
    };
    let parts: Vec<&DecisionRecord> =
        decisions.iter().filter(|part| part.draft.parent.as_ref() == Some(&decision.id)).collect();
    let mut page = page(decision, &parts);
    let found = subject(decision).or_else(|| parts.iter().find_map(|part| subject(part)));
    let (mut explained, mut gaps) = (None, Vec::new());
    if let Some(found) = found {
        // Parts are recorded once their NodeClaims are created: what they were decided by is the cluster of the plan or command.
        let whole = decisions.iter().find(|whole| Some(&whole.id) == decision.draft.parent.as_ref());
        let time = whole.map_or(decision.time, |whole| whole.time);
        let objects = objects_at(&all, time).into_iter();
        let items = objects.map(|value| Item { value, source: Source::Cluster }).collect();
        let what = found.title();
        let chosen = (&options.catalogue, options.budget);
        match found.answer(items, time, chosen, (catalogues, values)) {
            Ok(answer) => {
                page.line(format!("{what}, as of {time}:"));
                page.append(answer.page);
                explained = Some(answer.document);
                notes.extend(answer.notes);
                gaps = answer.gaps;
            }
            Err(error) => {
                notes.push(format!("{what}, as of {time}: {error:#}"));
            }
        }
    }
    let parts = parts.into_iter().cloned().collect();
    let report = DecisionReport { version: 1, decision: decision.clone(), parts, explained };
    Ok(Answer { document: serde_json::to_value(report)?, page, notes, gaps })
}

/// Reads the files of the recording.
fn read(options: &DecisionExplainOptions) -> anyhow::Result<Changes> {
    let mut changes = Changes::default();
    let files = lines::files(&options.recording)?;
    if files.is_empty() {
        bail!("{}: no recording", options.recording.display());
    }
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        changes.recording(&file, &text)?;
    }
    Ok(changes)
}

/// What a decision is about; its parts say it where the record itself does not.
fn subject(decision: &DecisionRecord) -> Option<Subject> {
    match &decision.draft.choice {
        Choice::NodeClaim(claim) => claim.pods.first().cloned().map(Subject::Pod),
        Choice::Disruption(command) => command.nodes.first().map(|node| Subject::Node(node.node.clone())),
        Choice::Deletion(deletion) if deletion.of == "NodeClaim" => {
            Some(Subject::Node(deletion.name.clone()))
        }
        Choice::Refusal(refusal) if refusal.of == "Pod" => refusal.names.first().cloned().map(Subject::Pod),
        Choice::Refusal(refusal) => refusal.names.first().cloned().map(Subject::Node),
        Choice::Plan(_) | Choice::Deletion(_) | Choice::Held(_) => None,
    }
}

/// The decision with its parts, reasons and candidates, for people.
fn page(decision: &DecisionRecord, parts: &[&DecisionRecord]) -> Page {
    let mut sheet = Sheet::new(&[
        text("TIME"),
        text("ID"),
        text("KIND"),
        text("DECISION"),
        figure(format!("SAVES {}/H", decision.currency)),
        text("OUTCOME"),
        text("WHY"),
    ]);
    for record in std::iter::once(&decision).chain(parts) {
        let row = serde_json::to_value(record).map(|record| DecisionRow::of(&record)).unwrap_or_default();
        sheet.row([row.time, row.id, row.kind, row.decision, row.saves, row.outcome, row.why]);
    }
    let mut candidates = Sheet::new(&[
        text("INSTANCE TYPE"),
        text("ZONE"),
        text("CAPACITY TYPE"),
        figure(format!("{}/H", decision.currency)),
        figure(format!("EFFECTIVE {}/H", decision.currency)),
    ]);
    for offering in &decision.draft.candidates {
        candidates.row([
            offering.instance_type.clone(),
            offering.zone.clone(),
            offering.capacity_type.clone(),
            figures::hourly_text(&offering.price),
            figures::hourly_text(&offering.effective_price),
        ]);
    }
    let mut page = Page::default();
    page.sheet(sheet);
    let of_parts = parts.iter().flat_map(|part| &part.draft.reasons);
    for reason in decision.draft.reasons.iter().chain(of_parts) {
        page.line(format!("{}: {}", reason.reason, reason.message));
    }
    if decision.draft.candidates_total > 0 {
        let (shown, all) = (decision.draft.candidates.len(), decision.draft.candidates_total);
        page.line(format!("{shown} of {} that it chose from:", figures::count(all, "instance type")));
    }
    page.sheet(candidates);
    page
}

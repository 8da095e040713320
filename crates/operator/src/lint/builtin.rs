//! Manifests of Kubernetes' own kinds: fields that they do not have, and what the API server refuses of them.

use super::LintReport;
use crate::input::{Item, validation};

/// Adds what is wrong with a manifest.
pub(super) fn check(item: &Item, report: &mut LintReport) {
    let reading = if validation::is_manifest(item) { validation::read(&item.value) } else { None };
    let Some(reading) = reading else { return };
    for field in reading.unknown {
        let fix =
            field.meant.map_or_else(|| "remove it".to_owned(), |meant| format!("did you mean {meant:?}?"));
        report.add("L001", item, &field.path, format!("unknown field {:?}", field.path), fix);
    }
    for (path, why) in reading.errors {
        let fix = if why.ends_with("expected a string") {
            "put it in quotes"
        } else {
            "write a value of that type"
        };
        report.add("L002", item, &path, format!("{path}: {why}"), fix);
    }
    for invalid in validation::invalid(&item.value).into_iter().chain(validation::invalid_names(&item.value))
    {
        report.invalid(item, invalid);
    }
}

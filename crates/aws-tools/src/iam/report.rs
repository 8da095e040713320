//! The output of `fleetwright iam check`.

use std::fmt;

use serde::Serialize;

use super::{Checked, MissingPermission, NOT_EVALUATED};
use crate::table;

/// Missing permissions, as printed.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct IamReport {
    /// Actions that the policies do not grant.
    pub missing: Vec<MissingAction>,
    /// Permissions that cannot be decided without a real call.
    pub undecided: Vec<String>,
    /// Deletions that the policies allow of what another cluster launched (L107).
    pub unscoped: Vec<&'static str>,
    /// What no policy document contains.
    pub not_evaluated: &'static str,
}

/// An action that the policies do not grant.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct MissingAction {
    /// The action as IAM names it.
    pub action: &'static str,
    /// The statement of `deploy/iam` that grants it.
    pub statement: &'static str,
    /// Why the policies do not grant it.
    pub why: String,
    /// The feature that is off without it.
    pub feature: &'static str,
    /// Whether everything else works without it.
    pub optional: bool,
}

impl IamReport {
    /// The number of missing actions without which no node is launched or terminated.
    #[must_use]
    pub fn required_missing(&self) -> usize {
        self.missing.iter().filter(|missing| !missing.optional).count()
    }
}

impl From<Checked> for IamReport {
    fn from(checked: Checked) -> Self {
        let missing = |MissingPermission { permission, why }| MissingAction {
            action: permission.action,
            statement: permission.statement,
            why,
            feature: permission.feature.as_str(),
            optional: permission.feature.is_optional(),
        };
        Self {
            missing: checked.missing.into_iter().map(missing).collect(),
            undecided: checked.undecided,
            unscoped: checked.unscoped,
            not_evaluated: NOT_EVALUATED,
        }
    }
}

impl fmt::Display for IamReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.missing.is_empty() {
            writeln!(f, "the policies grant every required action")?;
        } else {
            let mut table = table(&["ACTION", "STATEMENT IN deploy/iam", "FEATURE OFF WITHOUT IT", "REASON"]);
            for missing in &self.missing {
                table.add_row([missing.action, missing.statement, missing.feature, &missing.why]);
            }
            writeln!(f, "{}", table.trim_fmt())?;
        }
        if !self.undecided.is_empty() {
            writeln!(f, "undecided without a real call:")?;
        }
        for why in &self.undecided {
            writeln!(f, "- {why}")?;
        }
        for action in &self.unscoped {
            writeln!(
                f,
                "warning: {action} is allowed on what other clusters launched (L107): add the condition StringEquals \
                 aws:ResourceTag/kubernetes.io/cluster/NAME: owned"
            )?;
        }
        writeln!(f, "not evaluated: {}", self.not_evaluated)
    }
}

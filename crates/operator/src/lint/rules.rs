//! The rules of `lint`: code, severity, what is wrong in general. `docs/book/lint.md` has a section on each.

use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// Works, and hurts.
    Warning,
    /// Is refused, or does not work.
    Error,
}

/// A rule.
#[derive(Debug)]
pub(crate) struct Rule {
    /// The code, as in the documentation.
    pub(crate) code: &'static str,
    /// The title of its section.
    pub(crate) title: &'static str,
    pub(crate) severity: Severity,
}

const fn error(code: &'static str, title: &'static str) -> Rule {
    Rule { code, title, severity: Severity::Error }
}

const fn warning(code: &'static str, title: &'static str) -> Rule {
    Rule { code, title, severity: Severity::Warning }
}

/// The rules, by code.
pub(crate) const RULES: [Rule; 28] = [
    error("L001", "Unknown field"),
    error("L002", "Refused by the API server"),
    warning("L101", "StorageClass binds volumes immediately"),
    warning("L102", "Nodes expire without a deadline"),
    warning("L103", "Very long terminationGracePeriod"),
    warning("L104", "do-not-disrupt on a replicated workload"),
    warning("L105", "consolidateAfter that never passes"),
    warning("L106", "Node waits for a startup taint"),
    warning("L107", "One cluster name for two clusters"),
    warning("L108", "Image selector that moves or is ambiguous"),
    warning("L109", "No disruption for a reason"),
    warning("L110", "No limits"),
    error("L111", "Requirement that no value meets"),
    error("L112", "Unknown value of a well-known label"),
    error("L113", "Quantity below one byte"),
    warning("L114", "No requests"),
    warning("L115", "PodDisruptionBudget that allows no eviction"),
    warning("L116", "DaemonSets take most of a node"),
    error("L117", "No NodePool fits"),
    error("L118", "Invalid disruption budget"),
    error("L119", "Label that the requirements exclude"),
    error("L120", "Two PodDisruptionBudgets on one pod"),
    warning("L121", "PodDisruptionBudget that selects no pod"),
    error("L122", "Label that no node has"),
    error("L123", "Limit of a resource that no node has"),
    error("L124", "No instance type meets the requirements"),
    warning("L125", "Label of nodes that Karpenter does not launch"),
    warning("L126", "StorageClass that does not exist"),
];

/// The rule with a code.
pub(crate) fn rule(code: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.code == code)
}

/// A finding of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Finding {
    /// The file, or `cluster`.
    pub(crate) file: String,
    /// Line and column, from 1.
    pub(crate) line: u64,
    pub(crate) column: u64,
    /// The code of the rule.
    pub(crate) code: &'static str,
    pub(crate) severity: Severity,
    /// `kind namespace/name`.
    pub(crate) object: String,
    /// The field.
    pub(crate) path: String,
    /// What is wrong.
    pub(crate) message: String,
    /// What to do.
    pub(crate) fix: String,
    /// The page on the rule.
    pub(crate) url: String,
}

/// The page on the rules, where the alerts' runbook is published too: an absolute URI, as SARIF's `helpUri` has to be.
const PAGE: &str = "https://github.com/fleetwright/fleetwright/blob/main/docs/book/lint.md";

/// The page on a rule.
pub(crate) fn page(code: &str) -> String {
    format!("{PAGE}#{}", code.to_ascii_lowercase())
}

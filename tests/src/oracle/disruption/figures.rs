//! What is printed: a line per cluster, and the sums.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use super::trial::TrialOutcome;
use crate::e2e::judge::{DisruptionFault, FaultClass};

/// Sums over clusters.
#[derive(Debug, Default)]
pub(super) struct DisruptionFigures {
    pub(super) clusters: usize,
    pods: u64,
    unplaced: u64,
    nodes_before: usize,
    nodes_after: usize,
    commands: usize,
    moved: usize,
    longest: Duration,
    /// Clusters that still changed when they were judged.
    restless: usize,
    /// Clusters with a fault, in both runs.
    failed: usize,
    /// Those whose second run contradicts the first.
    unconfirmed: usize,
    /// Faults of failed clusters, in the first run.
    faults: BTreeMap<FaultClass, usize>,
    is_caught: bool,
}

impl DisruptionFigures {
    /// Adds a cluster; its faults count if they are confirmed.
    pub(super) fn add(&mut self, outcome: &TrialOutcome, is_confirmed: bool) {
        let TrialOutcome { verdict, pods, unplaced, nodes_before, nodes_after, is_at_rest, .. } = outcome;
        self.clusters += 1;
        self.pods += pods;
        self.unplaced += unplaced;
        self.nodes_before += nodes_before;
        self.nodes_after += nodes_after;
        self.commands += verdict.commands;
        self.moved += verdict.moved;
        self.longest = self.longest.max(verdict.longest);
        self.restless += usize::from(!is_at_rest);
        if !is_confirmed {
            self.unconfirmed += 1;
        } else if !verdict.faults.is_empty() {
            self.failed += 1;
            for fault in &verdict.faults {
                *self.faults.entry(fault.class).or_default() += 1;
            }
        }
    }

    /// Whether disruption is at fault for nothing.
    pub(super) fn is_good(&self) -> bool {
        self.failed == 0
    }

    /// The planted fault was found.
    pub(super) fn set_caught(&mut self) {
        self.is_caught = true;
    }

    pub(super) fn is_caught(&self) -> bool {
        self.is_caught
    }

    /// Prints the sums.
    pub(super) fn print(&self, took: Duration, out: &mut dyn Write) -> anyhow::Result<()> {
        let Self { clusters, pods, unplaced, nodes_before, nodes_after, commands, moved, .. } = self;
        writeln!(out, "{clusters} clusters in {:.0} s", took.as_secs_f64())?;
        writeln!(
            out,
            "  {pods} pods, {unplaced} of them without a node; {nodes_before} nodes became {nodes_after}"
        )?;
        writeln!(
            out,
            "  {commands} commands moved {moved} pods, the longest way to a new node took {} s",
            self.longest.as_secs()
        )?;
        writeln!(
            out,
            "  {} clusters fail, {} more did so in one of two runs, {} were judged before they were at rest",
            self.failed, self.unconfirmed, self.restless
        )?;
        for (class, count) in &self.faults {
            writeln!(out, "  {}: {count} faults", class.name())?;
        }
        Ok(())
    }
}

/// What became of a cluster, in a line.
pub(super) fn line(outcome: &TrialOutcome) -> String {
    let TrialOutcome { verdict, pods, unplaced, nodes_before, nodes_after, is_at_rest, .. } = outcome;
    format!(
        "{pods} pods ({unplaced} without a node), {nodes_before} nodes -> {nodes_after}{}; {} commands moved {} pods, the longest way took {} s: {}",
        if *is_at_rest { "" } else { ", not at rest" },
        verdict.commands,
        verdict.moved,
        verdict.longest.as_secs(),
        summary(&verdict.faults),
    )
}

/// The faults by class.
fn summary(faults: &[DisruptionFault]) -> String {
    let mut counts: BTreeMap<FaultClass, usize> = BTreeMap::new();
    for fault in faults {
        *counts.entry(fault.class).or_default() += 1;
    }
    if counts.is_empty() {
        return "good".to_owned();
    }
    let parts: Vec<String> =
        counts.into_iter().map(|(class, count)| format!("{count} {}", class.name())).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(classes: &[FaultClass]) -> TrialOutcome {
        let mut outcome = TrialOutcome { is_at_rest: true, ..TrialOutcome::default() };
        let fault = |class: &FaultClass| DisruptionFault {
            class: *class,
            command: String::new(),
            story: String::new(),
        };
        outcome.verdict.faults = classes.iter().map(fault).collect();
        outcome
    }

    #[test]
    fn a_fault_counts_if_it_comes_again() {
        let mut figures = DisruptionFigures::default();
        figures.add(&outcome(&[]), true);
        figures.add(&outcome(&[FaultClass::NoRoom]), false);
        assert!(figures.is_good(), "{figures:?}");
        figures.add(&outcome(&[FaultClass::NoRoom, FaultClass::Refused, FaultClass::NoRoom]), true);
        assert!(!figures.is_good());
        assert_eq!((figures.clusters, figures.failed, figures.unconfirmed), (3, 1, 1));
        assert_eq!(figures.faults[&FaultClass::NoRoom], 2);
    }

    #[test]
    fn a_line_names_the_classes() {
        assert!(line(&outcome(&[])).ends_with("took 0 s: good"));
        let bad = line(&outcome(&[FaultClass::Refused, FaultClass::NoRoom]));
        assert!(bad.ends_with(": 1 no room, 1 refused"), "{bad}");
    }
}

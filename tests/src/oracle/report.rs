//! What a run showed, in figures.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use super::generator::Cluster;
use super::judge::{Refusal, Verdict};
use super::known;

/// Launches beyond the first plan that are the aim, per thousand of its NodeClaims.
const EXTRA_MAX: usize = 10;

/// Sums over clusters.
#[derive(Debug, Default)]
pub(super) struct Figures {
    clusters: usize,
    pods: usize,
    unplaced: usize,
    bound_unplaced: usize,
    existing_nodes: usize,
    claims: usize,
    extra: usize,
    rounds: usize,
    empty: usize,
    known: BTreeMap<&'static str, usize>,
    pub(super) failed: usize,
    /// Clusters whose second verdict was better than their first.
    unconfirmed: usize,
}

impl Figures {
    /// Counts one cluster. True when planner and kube-scheduler disagree in a way that is not known.
    pub(super) fn add(&mut self, verdict: &Verdict) -> bool {
        self.clusters += 1;
        self.pods += verdict.pods;
        self.unplaced += verdict.unplaced;
        self.bound_unplaced += verdict.bound_unplaced.len();
        self.existing_nodes += verdict.existing_nodes;
        self.claims += verdict.claims;
        self.extra += verdict.extra;
        self.rounds += verdict.rounds;
        self.empty += verdict.empty;
        let mut is_new = false;
        for refusal in verdict.refused.iter().chain(&verdict.stuck) {
            match known::class(refusal) {
                Some(name) => *self.known.entry(name).or_default() += 1,
                None => is_new = true,
            }
        }
        self.failed += usize::from(is_new);
        is_new
    }

    /// Counts a verdict that did not come a second time.
    pub(super) fn add_unconfirmed(&mut self) {
        self.unconfirmed += 1;
    }

    /// Whether no more is launched after the first plan than is the aim.
    fn is_within_limits(&self) -> bool {
        self.extra * 1000 <= self.claims * EXTRA_MAX
    }

    /// Prints the sums.
    pub(super) fn print(&self, took: Duration, out: &mut dyn Write) -> anyhow::Result<()> {
        let Self { clusters, pods, unplaced, bound_unplaced, claims, extra, rounds, empty, .. } = self;
        writeln!(out, "{clusters} clusters in {:.0} s", took.as_secs_f64())?;
        writeln!(
            out,
            "  {pods} pending pods, {} existing nodes, {claims} NodeClaims planned at first",
            self.existing_nodes
        )?;
        writeln!(
            out,
            "  {unplaced} pods without a node in the first plan, {bound_unplaced} of them bound all the same"
        )?;
        writeln!(
            out,
            "  {extra} NodeClaims launched later ({}), in {rounds} further plans; {empty} new nodes without a pod",
            share(*extra, *claims)
        )?;
        if !self.is_within_limits() {
            writeln!(out, "  that is more than the 1 % which is the aim")?;
        }
        writeln!(out, "  {} clusters disagree, {} more did so once only", self.failed, self.unconfirmed)?;
        for (name, count) in &self.known {
            writeln!(out, "  known: {name}: {count} pods (docs/roadmap.md, Fidelity)")?;
        }
        Ok(())
    }
}

/// A percentage with two digits after the point.
fn share(part: usize, whole: usize) -> String {
    let hundredths = (part * 10_000).checked_div(whole).unwrap_or(0);
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

/// One line per refused pod of a cluster.
pub(super) fn refusals(cluster: &Cluster, verdict: &Verdict) -> Vec<String> {
    let features: Vec<String> = cluster.features.iter().map(|feature| format!("{feature:?}")).collect();
    let mut lines = vec![format!("{}: {}", cluster.name, features.join(", "))];
    let line = |kind: &str, refusal: &Refusal| {
        let Refusal { pod, node, was_feasible, message } = refusal;
        let filters =
            if *was_feasible { "its filters pass the node" } else { "its filters never pass the node" };
        format!("{kind} {pod} on {node} ({filters}): {message}")
    };
    lines.extend(verdict.refused.iter().map(|refusal| line("refused:", refusal)));
    lines.extend(verdict.stuck.iter().map(|refusal| line("waits for ever:", refusal)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_percent_is_within_the_limit() {
        let figures = |extra| Figures { claims: 1000, extra, ..Figures::default() };
        assert!(figures(10).is_within_limits());
        assert!(!figures(11).is_within_limits());
        assert_eq!(share(11, 1000), "1.10 %");
        assert_eq!(share(1, 0), "0.00 %");
    }
}

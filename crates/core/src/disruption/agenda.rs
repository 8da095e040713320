//! Which methods a pass runs, and what one pass leaves for the next.

use jiff::Timestamp;

use super::{Method, PassStart, Proposal, QuietEpoch, Recall, gates};
use crate::model::DisruptionReason;

/// What a pass runs.
pub struct Agenda {
    /// The methods, in order.
    pub methods: Vec<&'static dyn Method>,
    /// What the previous pass left.
    pub recall: Recall,
    /// Whether consolidation is among the methods: only then does the pass replace the memory.
    pub consolidates: bool,
}

/// The memory of the passes of a process.
#[derive(Debug, Default)]
pub struct PassMemory {
    recall: Recall,
    quiet: Option<QuietEpoch>,
}

impl PassMemory {
    /// What a pass runs, of the methods that the settings allow.
    #[must_use]
    pub fn agenda(&self, start: PassStart, mut methods: Vec<&'static dyn Method>) -> Agenda {
        let start = PassStart { quiet: self.quiet, ..start };
        methods.retain(|method| gates::admits_method(&start, method.spec()));
        let consolidates =
            methods.iter().any(|method| method.spec().reason == DisruptionReason::Underutilized);
        Agenda { methods, recall: self.recall.clone(), consolidates }
    }

    /// Records the proposal of a pass that ran consolidation on the snapshot of `epoch`, at `steady`.
    pub fn record(&mut self, epoch: u64, steady: Timestamp, proposal: &Proposal) {
        self.recall = proposal.recall();
        let nothing = proposal.commands.is_empty() && proposal.unreached.is_empty() && !proposal.constrained;
        self.quiet = nothing.then_some(QuietEpoch { epoch, since: steady });
    }
}

//! The methods of a pass, and the state that one pass carries over to the next.

use jiff::Timestamp;

use super::{CarryOver, Method, PassStart, Proposal, UnchangedEpoch, gates};
use crate::model::DisruptionReason;

/// The methods of a pass and its input from the previous one.
pub struct Agenda {
    /// The methods, in order.
    pub methods: Vec<&'static dyn Method>,
    /// The state that the previous pass carries over.
    pub carry_over: CarryOver,
    /// Whether consolidation is among the methods. Only such a pass replaces the memory.
    pub consolidates: bool,
}

/// State between the passes of a process.
#[derive(Debug, Default)]
pub struct PassMemory {
    carry_over: CarryOver,
    unchanged: Option<UnchangedEpoch>,
}

impl PassMemory {
    /// The agenda of a pass, with those of the enabled `methods` that the gates admit.
    #[must_use]
    pub fn agenda(&self, start: PassStart, mut methods: Vec<&'static dyn Method>) -> Agenda {
        let start = PassStart { unchanged: self.unchanged, ..start };
        methods.retain(|method| gates::admits_method(&start, method.spec()));
        let consolidates =
            methods.iter().any(|method| method.spec().reason == DisruptionReason::Underutilized);
        Agenda { methods, carry_over: self.carry_over.clone(), consolidates }
    }

    /// Records the proposal of a pass that ran consolidation on the snapshot of `epoch`, at `steady`.
    pub fn record(&mut self, epoch: u64, steady: Timestamp, proposal: &Proposal) {
        self.carry_over = proposal.carry_over();
        let nothing = proposal.commands.is_empty() && proposal.unreached.is_empty() && !proposal.constrained;
        self.unchanged = nothing.then_some(UnchangedEpoch { epoch, since: steady });
    }
}

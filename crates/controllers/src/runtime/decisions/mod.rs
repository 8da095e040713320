//! Records the decisions of this process, where they leave `core`, and what comes of them.
//!
//! Ids: a process has a name that no other has, from the time of its start and the seed of its names, and numbers its decisions. So an id
//! is not used twice, also after a restart, and the simulator gives the same ids for the same seed.

mod ring;

use std::sync::Arc;

use fleetwright_core::{
    clock::SharedClock,
    decisions::{
        Choice, DecisionDraft, DecisionInputs, DecisionOutcome, DeletedClaim, NodeClaimContext,
        OutcomeStatus, Refused, ResumedCommand, held_key, inputs_of_nodes, inputs_of_plan, of_claim,
        of_command, of_deletion, of_held, of_orphan, of_plan, of_refused_nodes, of_refused_pods, of_resumed,
        process_name,
    },
    disruption::{Command, Proposal, StartedCommand},
    model::{Currency, Pod, ProviderId, Snapshot},
    safety::{Act, Cause, Held},
    scheduling::{NewClaim, Plan},
};
use jiff::Timestamp;
use tokio::sync::watch;

pub use self::ring::{DecisionQuery, DecisionRing};
use super::shared::Shared;

/// The decisions of this process. Clones share them.
#[derive(Clone)]
pub struct Decisions {
    ring: Shared<DecisionRing>,
    clock: SharedClock,
    /// The last change.
    changed: Arc<watch::Sender<u64>>,
}

/// A plan or a command that is recorded.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    /// Its id.
    pub(crate) id: String,
    /// What it was decided on.
    pub(crate) inputs: DecisionInputs,
    /// Whether there is a record: a plan that does nothing new has none.
    is_recorded: bool,
}

impl Decided {
    /// The id of the record, if there is one.
    pub(crate) fn recorded(&self) -> Option<&str> {
        self.is_recorded.then_some(&*self.id)
    }
}

impl Decisions {
    /// No decisions yet, of a process that starts now; prices are in `currency`.
    #[must_use]
    pub fn new(clock: SharedClock, seed: u64, cluster_uid: &str, currency: Currency) -> Self {
        let process = process_name(clock.now(), seed, cluster_uid);
        Self {
            ring: Shared::new(DecisionRing::new(process, currency)),
            clock,
            changed: Arc::new(watch::Sender::new(0)),
        }
    }

    /// The kept records. Never hold the ring across an await.
    #[must_use]
    pub fn ring(&self) -> &Shared<DecisionRing> {
        &self.ring
    }

    /// The current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Follows the revision of the last change.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// An id for a decision that is recorded once it is carried out.
    pub(crate) fn issue(&self) -> String {
        self.ring.lock().issue()
    }

    /// Records a decision, and returns its id.
    pub fn record(&self, draft: DecisionDraft) -> String {
        let id = self.issue();
        self.add(id.clone(), draft);
        id
    }

    fn add(&self, id: String, draft: DecisionDraft) {
        let now = self.clock.now();
        // Lines about the same act have Karpenter's fields, which log parsers count.
        tracing::debug!(
            decision = id,
            kind = draft.choice.kind(),
            parent = draft.parent,
            "recorded decision"
        );
        let revision = {
            let mut ring = self.ring.lock();
            ring.add(id, draft, now);
            ring.revision()
        };
        self.changed.send_replace(revision);
    }

    /// Changes the newest undecided record of a choice that `is_it` selects.
    fn change(&self, is_it: impl Fn(&str, &Choice) -> bool, change: impl FnOnce(&mut DecisionDraft)) {
        let revision = {
            let mut ring = self.ring.lock();
            ring.change(|record| is_it(&record.id, &record.draft.choice), change);
            ring.revision()
        };
        self.changed.send_replace(revision);
    }

    fn end(&self, is_it: impl Fn(&str, &Choice) -> bool, status: OutcomeStatus, message: Option<String>) {
        let outcome = DecisionOutcome::new(status, self.clock.now(), message);
        self.change(is_it, |draft| draft.outcome = Some(outcome));
    }
}

/// Plans and NodeClaims.
impl Decisions {
    /// Records a plan with the pods that it leaves out. A plan that does nothing, and leaves out what earlier ones did, is not recorded.
    pub(crate) fn plan(&self, plan: &Plan, snapshot: &Snapshot, pods: &[Arc<Pod>]) -> Decided {
        let refused = self.only_new(Refused::pods(plan).collect());
        let is_recorded = !plan.new_claims.is_empty() || !plan.existing.is_empty() || !refused.is_empty();
        let decided = Decided { id: self.issue(), inputs: inputs_of_plan(snapshot, pods), is_recorded };
        if is_recorded {
            self.add(decided.id.clone(), of_plan(plan, decided.inputs.clone(), self.clock.now()));
        }
        for draft in of_refused_pods(&refused, &decided.id, &decided.inputs) {
            self.record(draft);
        }
        decided
    }

    /// Records what came of a plan: `missing` is why NodeClaims of it were not created.
    pub(crate) fn planned(&self, id: &str, missing: &[String]) {
        let status = if missing.is_empty() { OutcomeStatus::Succeeded } else { OutcomeStatus::Failed };
        let message = (!missing.is_empty()).then(|| missing.join("; "));
        self.end(|known, _| known == id, status, message);
    }

    /// Records a NodeClaim that was created.
    pub(crate) fn claim(
        &self,
        id: &str,
        new_claim: &NewClaim,
        name: &str,
        of: (&[Arc<Pod>], Option<&Decided>),
    ) {
        let (pods, decided) = of;
        let context = NodeClaimContext {
            name,
            pods,
            parent: decided.map(|decided| decided.id.clone()),
            inputs: decided.map(|decided| decided.inputs.clone()).unwrap_or_default(),
        };
        self.add(id.to_owned(), of_claim(new_claim, context, self.clock.now()));
    }

    /// Records that the node of a NodeClaim is initialized.
    pub(crate) fn claim_initialized(&self, name: &str) {
        self.end(of_claim_named(name), OutcomeStatus::Succeeded, None);
    }

    /// Records that a NodeClaim ends before its node is initialized; no other end is recorded.
    pub(crate) fn claim_ended(&self, name: &str, why: &str) {
        self.end(of_claim_named(name), OutcomeStatus::Failed, Some(why.to_owned()));
    }

    /// Those refusals that were not recorded a short time ago.
    fn only_new<'a>(&self, mut refused: Vec<Refused<'a>>) -> Vec<Refused<'a>> {
        let steady = self.clock.steady();
        let mut ring = self.ring.lock();
        refused.retain(|one| ring.is_new(&one.key, steady));
        refused
    }
}

fn of_claim_named(name: &str) -> impl Fn(&str, &Choice) -> bool {
    move |_, choice| matches!(choice, Choice::NodeClaim(claim) if claim.node_claim == name)
}

/// Deletions that are part of no disruption.
impl Decisions {
    /// Records that a NodeClaim is deleted.
    pub(crate) fn deletion(&self, deleted: &DeletedClaim<'_>, cause: Cause) {
        self.record(of_deletion(deleted, cause, self.clock.now()));
    }

    /// Records that the node and the instance of a deleted NodeClaim are gone, if its deletion is recorded.
    pub(crate) fn deletion_ended(&self, name: &str) {
        let is_it = |_: &str, choice: &Choice| matches!(choice, Choice::Deletion(it) if it.of == "NodeClaim" && it.name == name);
        self.end(is_it, OutcomeStatus::Succeeded, None);
    }

    /// Records that an instance which no NodeClaim accounts for is about to be terminated, and returns the id of the record.
    pub(crate) fn orphan(&self, id: &ProviderId) -> String {
        self.record(of_orphan(id, self.clock.now()))
    }

    /// Records whether the cloud accepted the termination of an instance, or why it did not.
    pub(crate) fn orphan_ended(&self, decision: &str, error: Option<String>) {
        let status = if error.is_some() { OutcomeStatus::Failed } else { OutcomeStatus::Succeeded };
        self.end(|known, _| known == decision, status, error);
    }
}

/// Commands and held acts.
impl Decisions {
    /// Records the commands of a pass, and the nodes that it does not disrupt. Returns the decision of each command.
    pub(crate) fn pass(&self, proposal: &Proposal, snapshot: &Snapshot) -> Vec<Decided> {
        let refused = self.only_new(Refused::nodes(proposal).collect());
        if proposal.commands.is_empty() && refused.is_empty() {
            return Vec::new();
        }
        let inputs = inputs_of_nodes(snapshot);
        for draft in of_refused_nodes(&refused, &inputs) {
            self.record(draft);
        }
        let commands = proposal.commands.iter().map(|command| {
            let decided = Decided { id: self.issue(), inputs: inputs.clone(), is_recorded: true };
            self.add(decided.id.clone(), of_command(command, inputs.clone(), self.clock.now()));
            decided
        });
        commands.collect()
    }

    /// Records that a command started under `command_id`, as it is after its validation.
    pub(crate) fn command_started(&self, decided: &Decided, command_id: &str, command: &Command) {
        let now = self.clock.now();
        let mut started = of_command(command, decided.inputs.clone(), now);
        if let Choice::Disruption(choice) = &mut started.choice {
            choice.command = Some(command_id.to_owned());
        }
        started.outcome = Some(DecisionOutcome::new(OutcomeStatus::Started, now, None));
        self.change(|known, _| known == decided.id, |draft| *draft = started);
    }

    /// The id of the record of a started command, if it is kept.
    pub(crate) fn of_started(&self, command_id: &str) -> Option<String> {
        self.ring.lock().newest(|choice| is_command(choice, command_id))
    }

    /// Records that a command is not started.
    pub(crate) fn command_rejected(&self, id: &str, why: &str) {
        self.end(|known, _| known == id, OutcomeStatus::Rejected, Some(why.to_owned()));
    }

    /// Records a command of an earlier process that this one resumes.
    pub(crate) fn command_resumed(&self, id: &str, started: &StartedCommand, snapshot: &Snapshot) {
        let (inputs, now) = (inputs_of_nodes(snapshot), self.clock.now());
        self.record(of_resumed(&ResumedCommand { id, started }, inputs, now));
    }

    /// Records the end of a started command; `why` it was rolled back, if it was.
    pub(crate) fn command_ended(&self, command_id: &str, why: Option<&str>) {
        let status = if why.is_some() { OutcomeStatus::RolledBack } else { OutcomeStatus::Succeeded };
        self.end(|_, choice| is_command(choice, command_id), status, why.map(str::to_owned));
    }

    /// Records that a limit holds an act, unless the same was recorded a short time ago.
    pub(crate) fn held(&self, act: Act, subject: &str, held: &Held) {
        let key = held_key(act, subject, held);
        if self.ring.lock().is_new(&key, self.clock.steady()) {
            self.record(of_held(act, subject, held, self.clock.now()));
        }
    }
}

fn is_command(choice: &Choice, command_id: &str) -> bool {
    matches!(choice, Choice::Disruption(it) if it.command.as_deref() == Some(command_id))
}

#[cfg(test)]
impl Decided {
    /// A decision that is not recorded.
    pub(crate) fn unrecorded() -> Self {
        Self { id: "none".to_owned(), inputs: DecisionInputs::default(), is_recorded: false }
    }
}

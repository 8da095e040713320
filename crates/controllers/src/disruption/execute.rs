//! Starts commands, and rolls them back.
//!
//! 1. Begin the creation of the replacements: pods of marked nodes need a node, and these have one that comes. Then record the command as an
//!    intent of the index. A crash afterwards leaves nothing behind.
//! 2. Write the record of the command on each candidate, then its mark (taint and condition). A crash leaves orphans, whose
//!    marks the next process removes.
//! 3. Create the replacements. Once the last one exists, the next process resumes the command.

use std::sync::Arc;

use fleetwright_api::{self as api, labels::condition::DISRUPTION_REASON};
use fleetwright_core::{
    disruption::{Candidate, Command, StartedCommand, lineage},
    model::{
        ClaimName, Str,
        labels::{DISRUPTED_TAINT, LINEAGE},
        nodeclaim::ConditionType,
    },
    safety::{Act, Facts, Held},
};
use fleetwright_state::{
    Key,
    limits::{self, LimitExceeded},
};
use k8s_openapi::api::core::v1::Taint;

use super::{
    commands::{Commands, QUEUE},
    durable, figures, orphans,
    report::{self, Reporter},
};
use crate::{
    log,
    metrics::Metrics,
    nodeclaim::end_creation,
    patch::Patches,
    provisioning::{ClaimCreator, CreationCause, Replacement},
    runtime::decisions::{Decided, Decisions},
    runtime::{ApiClient, Clocks, Cluster, Ctx, Names, ReconcileError},
    safety::Safety,
};

/// Why a command was not started.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotStarted {
    /// Its replacements would exceed a limit: nothing was written. The next pass decides again.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// A safety limit holds the creation of its replacements: nothing was written.
    #[error("{0}")]
    Held(Held),
    /// A call failed. The command is rolled back as far as the API server allows; the next pass removes any remaining
    /// marks.
    #[error(transparent)]
    Failed(#[from] ReconcileError),
}

/// Starts commands and rolls them back.
pub(super) struct Execution {
    client: ApiClient,
    cluster: Cluster,
    clocks: Clocks,
    patches: Patches,
    creator: ClaimCreator,
    reporter: Reporter,
    safety: Safety,
    names: Arc<Names>,
    metrics: Arc<Metrics>,
    decisions: Decisions,
    commands: Arc<Commands>,
}

impl Execution {
    /// Takes what it uses from `ctx`.
    pub(super) fn new(ctx: &Ctx, commands: Arc<Commands>) -> Self {
        Self {
            client: ctx.client.clone(),
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            patches: Patches::new(ctx),
            creator: ClaimCreator::new(ctx),
            reporter: Reporter::new(ctx),
            safety: Safety::new(ctx),
            names: ctx.names.clone(),
            metrics: ctx.metrics.clone(),
            decisions: ctx.decisions.clone(),
            commands,
        }
    }

    /// Starts `command`. From then on the queue executes it or rolls it back.
    ///
    /// # Errors
    /// If it could not be started.
    pub(super) async fn start(&self, command: Command, decision: &Decided) -> Result<(), NotStarted> {
        let facts = Facts { count: command.replacements.len(), ..Facts::default() };
        self.safety.admit(Act::CreateClaim, &facts).map_err(NotStarted::Held)?;
        let id: Str = self.names.suffix(10).into();
        let mut claims = Vec::with_capacity(command.replacements.len());
        for (at, new_claim) in command.replacements.iter().enumerate() {
            let claim = self.creator.replacement(new_claim, &format!("{id}-{at}"), 0);
            let mut claim = claim
                .ok_or_else(|| ReconcileError::Other(format!("nodepool {} is gone", new_claim.pool.name)))?;
            let nodes = command.candidates.iter().map(|candidate| &*candidate.node);
            let lineage = lineage::of_replacement(&id, nodes, self.clocks.now());
            claim.metadata.annotations.get_or_insert_default().insert(LINEAGE.to_owned(), lineage);
            claims.push(claim);
        }
        let named = |claim: &api::NodeClaim| ClaimName::from(claim.metadata.name.clone().unwrap_or_default());
        let replacements: Vec<ClaimName> = claims.iter().map(named).collect();
        let creating = replacements.iter().map(|name| name.as_str()).zip(&command.replacements);
        let removing = command.candidates.iter().filter_map(|candidate| candidate.node.claim_name());
        limits::reserve(&mut self.cluster.index(), creating, removing)?;
        let begun = claims.into_iter().zip(&command.replacements);
        let begun =
            begun.map(|(claim, new_claim)| self.creator.begin_replacement(claim, new_claim)).collect();
        let (since, started) = (self.clocks.steady(), self.clocks.now());
        let running = StartedCommand { replacements, command: Arc::new(command), since, started };
        self.record_intent(&id, running.clone());
        log::Disrupting::of(&running.command, &id).log();
        self.decisions.command_started(decision, &id, &running.command);
        match self.mark_and_create(&id, &running, begun, decision).await {
            Ok(replacements) => {
                self.record_intent(&id, StartedCommand { replacements, ..running.clone() });
                self.reporter.started(&running.command);
                self.cluster.enqueue(QUEUE, Key::cluster(id));
                Ok(())
            }
            Err(error) => {
                // Replacements that were not created use nothing of the limits.
                running.replacements.iter().for_each(|name| end_creation(&self.cluster, name));
                self.roll_back(&id, &error.to_string()).await;
                Err(error.into())
            }
        }
    }

    /// One entry has candidates and replacements, so that no snapshot has only one of them.
    fn record_intent(&self, id: &Str, running: StartedCommand) {
        self.cluster.index().begin_command(id.clone(), durable::intent(&running));
        self.commands.insert(id.clone(), running);
    }

    /// Marks the candidates, then creates the replacements; returns their names.
    async fn mark_and_create(
        &self,
        id: &str,
        running: &StartedCommand,
        begun: Vec<Replacement>,
        decision: &Decided,
    ) -> Result<Vec<ClaimName>, ReconcileError> {
        // All candidates have the record before the first is marked: the next process sees whether the command is complete.
        for candidate in &running.command.candidates {
            durable::write(&self.client, &self.cluster, &self.patches, candidate, id, running).await?;
        }
        for candidate in &running.command.candidates {
            self.mark(&running.command, candidate).await?;
        }
        let reason = report::reason_label(running.command.method.reason);
        let cause = CreationCause { reason, decided: Some(decision) };
        let mut names = Vec::with_capacity(begun.len());
        for (replacement, new_claim) in begun.into_iter().zip(&running.command.replacements) {
            let name = self.creator.write_replacement(replacement, new_claim, &cause).await?;
            names.push(ClaimName::from(name));
        }
        Ok(names)
    }

    /// Taints the node, so that no further pod is bound to it, and sets the condition with the reason on its NodeClaim.
    async fn mark(&self, command: &Command, candidate: &Candidate) -> Result<(), ReconcileError> {
        if let Some(name) = candidate.node.node_name() {
            self.patches.node_taints(name, close).await?;
        }
        let reason = command.method.reason.as_str();
        let Some(name) = candidate.node.claim_name() else { return Ok(()) };
        self.patches
            .claim_conditions(name, |conditions| {
                conditions.set_true_with_reason(DISRUPTION_REASON, reason, reason);
            })
            .await
    }

    /// Rolls a command back: removes its marks. Replacements that exist are not deleted: pods may be nominated to them, and empty
    /// ones are removed by emptiness.
    pub(super) async fn roll_back(&self, id: &str, why: &str) {
        let Some(running) = self.commands.remove(id) else { return };
        self.decisions.command_ended(id, Some(why));
        let command = &running.command;
        let is_initialized = |name: &&ClaimName| {
            let index = self.cluster.index();
            index.claim_model(name).is_some_and(|claim| claim.is(ConditionType::Initialized))
        };
        let failed = running.replacements.iter().filter(|name| !is_initialized(name)).count();
        let labels = report::command_labels(&running);
        self.metrics.add(&figures::QUEUE_FAILURES, &labels, report::as_figure(failed));
        for candidate in &command.candidates {
            let claim =
                candidate.node.claim_name().and_then(|name| self.cluster.index().claim_model(name).cloned());
            if claim.is_some_and(|claim| durable::belongs_to_other_command(&claim, id)) {
                continue;
            }
            if let Err(error) = orphans::roll_back(&self.cluster, &self.patches, &candidate.node).await {
                // The next pass finds the orphaned mark and removes it.
                tracing::error!(%error, Node.name = candidate.name(), "rolling back a disruption command");
            }
        }
        self.cluster.index().end_command(id);
    }
}

/// Adds the taint of disruption, which keeps new pods off the node. One of the same key with another effect gives way, as it may not.
fn close(taints: &mut Vec<Taint>) {
    let (key, effect) = (DISRUPTED_TAINT.to_owned(), "NoSchedule".to_owned());
    if !taints.iter().any(|taint| taint.key == key && taint.effect == effect) {
        taints.retain(|taint| taint.key != key);
        taints.push(Taint { key, effect, ..Taint::default() });
    }
}

#[cfg(test)]
mod tests {
    //! The taint of a disruption.
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::fresh(&["cni:NoExecute"], &["cni:NoExecute", "karpenter.sh/disrupted:NoSchedule"])]
    #[case::again(&["karpenter.sh/disrupted:NoSchedule", "x:NoExecute"], &["karpenter.sh/disrupted:NoSchedule", "x:NoExecute"])]
    #[case::another_effect(&["karpenter.sh/disrupted:PreferNoSchedule"], &["karpenter.sh/disrupted:NoSchedule"])]
    fn a_disrupted_node_takes_no_pods(#[case] before: &[&str], #[case] after: &[&str]) {
        let parsed = |text: &&str| {
            let (key, effect) = text.split_once(':').unwrap();
            Taint { key: key.to_owned(), effect: effect.to_owned(), ..Taint::default() }
        };
        let mut taints: Vec<Taint> = before.iter().map(parsed).collect();
        close(&mut taints);
        assert_eq!(taints, after.iter().map(parsed).collect::<Vec<_>>());
    }
}

//! Sees commands through: waits for the replacements, then removes the nodes.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetwright_core::{
    disruption::{Blocker, Candidate, candidate},
    model::{ClaimName, DisruptionReason, StateNode, nodeclaim::ConditionType},
};
use fleetwright_state::{Change, Index, Key, Kind};
use kube::api::{DeleteParams, Preconditions};

use super::{Commands, Running, execute, live, report};
use crate::runtime::{Controller, Ctx, RateLimit, ReconcileError, Requeue, gone_is_ok};

/// Karpenter's name of the controller.
pub(super) const NAME: &str = "disruption.queue";
/// How often a command is looked at while nothing changes.
const POLL: Duration = Duration::from_secs(1);

/// Sees each command through.
pub(super) struct Queue {
    commands: Arc<Commands>,
}

impl Queue {
    pub(super) fn new(commands: Arc<Commands>) -> Self {
        Self { commands }
    }
}

/// What is to be done next about a command.
enum Step {
    /// Its nodes are gone or going: forget it.
    Done,
    /// This replacement is not ready yet.
    Wait(ClaimName),
    /// Something that it rests on is gone.
    Abandon(String),
    /// The replacements are ready.
    Remove,
}

#[async_trait]
impl Controller for Queue {
    fn name(&self) -> &'static str {
        NAME
    }

    fn concurrency(&self, settings: &crate::settings::Settings) -> usize {
        settings.scaled(100, 1000)
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit::new(Duration::from_secs(1), Duration::from_secs(10), 100, 1000)
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        if change.kind != Kind::NodeClaim {
            return Vec::new();
        }
        index.intents().replaces(&change.key.name).map(|id| Key::cluster(id.clone())).into_iter().collect()
    }

    async fn reconcile(&self, ctx: &Ctx, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some(running) = self.commands.get(&key.name) else { return Ok(Requeue::No) };
        if ctx.may_act().is_err() {
            return Ok(Requeue::After(POLL));
        }
        match self.step(ctx, &running) {
            Step::Done => {
                self.commands.remove(&key.name);
                ctx.index().end_command(&key.name);
                Ok(Requeue::No)
            }
            Step::Wait(replacement) => {
                report::waiting(ctx, &running.command, &replacement);
                Ok(Requeue::After(POLL))
            }
            Step::Abandon(why) => {
                tracing::error!(command = %running.command, reason = why, "failed to disrupt nodes, rolling back");
                execute::roll_back(ctx, &self.commands, &key.name).await;
                Ok(Requeue::No)
            }
            Step::Remove => {
                live::refresh(ctx, &running.command.candidates).await?;
                // Asked again with what was read; anything but the same answer is for the next round.
                if matches!(self.step(ctx, &running), Step::Remove) {
                    remove(ctx, &running).await?;
                    return Ok(Requeue::After(POLL));
                }
                Ok(Requeue::Now)
            }
        }
    }
}

impl Queue {
    fn step(&self, ctx: &Ctx, running: &Running) -> Step {
        let now = ctx.now();
        let mut index = ctx.index();
        let snapshot = index.snapshot(now);
        let going = |candidate: &Candidate| {
            let claim = candidate.node.claim_name().and_then(|name| index.claim_model(name));
            claim.is_none_or(|claim| claim.deleting.is_some())
        };
        if running.command.candidates.iter().all(going) {
            return Step::Done;
        }
        for name in &running.replacements {
            match index.claim_model(name) {
                None => return Step::Abandon(format!("replacement {name} is gone")),
                Some(claim) if claim.deleting.is_some() => {
                    return Step::Abandon(format!("replacement {name} is being deleted"));
                }
                Some(claim) if claim.is(ConditionType::Initialized) => {}
                Some(_) => {
                    let waited = ctx.steady().duration_since(running.since);
                    if Duration::try_from(waited)
                        .is_ok_and(|waited| waited > self.commands.timeout(ctx.settings.disruption.timeout))
                    {
                        return Step::Abandon(format!("replacement {name} was not initialized in time"));
                    }
                    return Step::Wait(name.clone());
                }
            }
        }
        // A command without replacements that may no longer be carried out is over as well.
        match running.command.candidates.iter().find_map(|candidate| blocked(&snapshot, candidate, running)) {
            Some(why) => Step::Abandon(why),
            None => Step::Remove,
        }
    }
}

/// Whether a pod that came before the taint, or a budget that shrank since, keeps a node from being removed now.
fn blocked(
    snapshot: &fleetwright_core::model::Snapshot,
    old: &Candidate,
    running: &Running,
) -> Option<String> {
    let name = old.node.claim_name()?;
    let at = snapshot.nodes.iter().position(|node| node.claim_name() == Some(name))?;
    let mut unmarked = snapshot.clone();
    // It is ours: the mark of this very command must not count against it.
    let node: &mut Arc<StateNode> = unmarked.nodes.get_mut(at)?;
    Arc::make_mut(node).marked_for_deletion = false;
    Arc::make_mut(node).nominations.clear();
    match candidate(&unmarked, at, snapshot.taken_at, running.command.eventual) {
        Err(
            blocker @ (Blocker::DoNotDisruptPod(..)
            | Blocker::DoNotDisruptNode
            | Blocker::UnreadablePod(..)
            | Blocker::Pdb(_)
            | Blocker::SeveralPdbs(_)),
        ) => Some(format!("{}: {blocker}", old.name())),
        Ok(fresh) if running.was_empty(old) && !fresh.is_empty() => {
            Some(format!("{}: no longer empty", old.name()))
        }
        _ => None,
    }
}

/// Deletes the NodeClaims of a command; what follows is the business of termination.
async fn remove(ctx: &Ctx, running: &Running) -> Result<(), ReconcileError> {
    let api = ctx.cluster_api::<fleetwright_api::NodeClaim>();
    report::terminating(ctx, &running.command);
    if running.command.reason == DisruptionReason::Underutilized {
        for candidate in &running.command.candidates {
            ctx.returns.displaced(&candidate.pods, ctx.now());
        }
    }
    for candidate in &running.command.candidates {
        let Some(claim) = &candidate.node.claim else { continue };
        // By UID: a claim that was made again under the same name is another one.
        let preconditions = Preconditions { uid: Some(claim.uid.to_string()), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let deleted = gone_is_ok(ctx.call("delete nodeclaim", api.delete(&claim.name, &params)).await)?;
        if let Some(either) = deleted
            && let Some(object) = either.left()
        {
            ctx.observe(object);
        }
    }
    Ok(())
}

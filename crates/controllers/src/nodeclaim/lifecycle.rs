//! `nodeclaim.lifecycle`: launch, registration, initialization, liveness and finalization.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetwright_core::{
    cloud::{CloudError, CloudProvider, HOOK_DEADLINE, RegistrationHold},
    model::ProviderId,
    nodeclaim::{
        ClaimStep, ClaimView, InstanceState, Next,
        finalization::Finalization,
        initialization::Initialization,
        launch::Launch,
        liveness::Liveness,
        registration::Registration,
        trace::{self, Sighting, Trace},
    },
    safety::{Act, Cause, Facts},
};
use fleetwright_state::{Change, Index, Key, WatchedKind};
use jiff::Timestamp;

use super::{
    cache::LifecycleCache,
    claimed_node::{ClaimedNode, claim_of, waiting_for_drivers},
    cloud_call::CloudCall,
    cloud_refusals,
};
use crate::{
    events::regarding,
    nodeclaim::executor::Executors,
    patch::Patches,
    runtime::{Clocks, Cluster, Controller, Ctx, RateLimit, ReconcileError, Recorder, Requeue},
    safety::Safety,
    settings::Settings,
};

/// How soon a deletion that a limit holds is retried.
const HELD_RETRY: Duration = Duration::from_secs(60);

/// How soon a provider is asked again whether a node may be registered, after an error.
const HOOK_RETRY: Duration = Duration::from_secs(5);

/// How soon finalization is retried while the batch of the NodeClaim is being launched.
const BATCH_RETRY: Duration = Duration::from_secs(1);

/// Launches, follows and finalizes NodeClaims.
pub struct Lifecycle {
    cluster: Cluster,
    clocks: Clocks,
    cloud: Arc<dyn CloudProvider>,
    settings: Arc<Settings>,
    patches: Patches,
    executors: Executors,
    safety: Safety,
    recorder: Recorder,
    cache: Arc<LifecycleCache>,
}

impl Lifecycle {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx, cache: &Arc<LifecycleCache>) -> Self {
        Self {
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            cloud: ctx.cloud.clone(),
            settings: ctx.settings.clone(),
            patches: Patches::new(ctx),
            executors: Executors::new(ctx, cache),
            safety: Safety::new(ctx),
            recorder: ctx.recorder.clone(),
            cache: cache.clone(),
        }
    }
}

#[async_trait]
impl Controller for Lifecycle {
    fn name(&self) -> &'static str {
        super::launch::CONTROLLER
    }

    fn concurrency(&self, settings: &Settings) -> usize {
        settings.scaled(1000, 5000)
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit::new(Duration::from_secs(1), Duration::from_secs(60), 10, 100)
    }

    fn interested(&self, change: &Change, index: &Index) -> Vec<Key> {
        self.cache.launches.note(change);
        if change.kind == WatchedKind::ResourceSlice {
            return waiting_for_drivers(index);
        }
        claim_of(change, index).into_iter().collect()
    }

    async fn reconcile(&self, key: &Key) -> Result<Requeue, ReconcileError> {
        let Some(node) = ClaimedNode::find(&self.cluster, &self.settings, &key.name) else {
            return Ok(Requeue::No);
        };
        if node.claim.deleting.is_some() {
            return self.finalize(&node).await;
        }
        let mut hold = None;
        if Registration::is_due(&node.view(self.cloud.info())) {
            hold = self.hold(&node).await;
            if self.changed_meanwhile(&node) {
                return Ok(Requeue::Now);
            }
        }
        let (now, view) = (self.clocks.now(), node.view(self.cloud.info()));
        let liveness = Liveness { unasked: self.cache.launches.unasked(&node.claim, now) };
        let next = Next::first_busy([
            Registration { hold: hold.as_ref() }.next(&view, now),
            Initialization.next(&view, now),
            Self::admitted(&self.cluster, &self.safety, &node, liveness.next(&view, now)),
            Launch.next(&view),
        ]);
        let done = self.executors.on(&node).with_look_ahead(registration_stages).execute(next).await?;
        Ok(done.again.into())
    }
}

/// The stages of a launched NodeClaim until it is initialized. Of a node that may be registered, more than the status changes, and that is left
/// to a pass that has asked the provider.
fn registration_stages(view: &ClaimView<'_>, now: Timestamp) -> Next {
    let registration = Registration { hold: None };
    Next::first_busy([registration.next(view, now), Initialization.next(view, now)])
}

impl Lifecycle {
    /// Asks the provider whether the node may be registered. No answer holds it.
    async fn hold(&self, node: &ClaimedNode) -> Option<RegistrationHold> {
        let joined = node.nodes.first()?;
        let answer = tokio::select! {
            biased;
            answer = self.cloud.before_registration(&node.claim, joined) => answer,
            () = self.clocks.sleep(HOOK_DEADLINE) => {
                let message = format!("no answer after {} s", HOOK_DEADLINE.as_secs());
                Err(CloudError::Unavailable(message.into()))
            }
        };
        answer.unwrap_or_else(|error| {
            tracing::error!(
                NodeClaim.name = &*node.claim.name, %error, "the provider cannot say whether the node may be registered"
            );
            let after = match error {
                CloudError::RateLimited { after } => after.max(HOOK_RETRY),
                _ => HOOK_RETRY,
            };
            Some(RegistrationHold::new(CloudCall::BeforeRegistration.failure(&error), after))
        })
    }

    /// Whether NodeClaim or Nodes differ from those that the provider was asked about.
    fn changed_meanwhile(&self, asked: &ClaimedNode) -> bool {
        let now = ClaimedNode::find(&self.cluster, &self.settings, &asked.claim.name);
        now.is_none_or(|now| now.claim != asked.claim || now.nodes != asked.nodes)
    }

    /// Returns `next`, unless a limit holds the deletion of a NodeClaim whose node did not register.
    fn admitted(cluster: &Cluster, safety: &Safety, node: &ClaimedNode, next: Next) -> Next {
        if !next.steps.contains(&ClaimStep::Delete(Cause::RegistrationTimeout)) {
            return next;
        }
        let all = cluster.index().claim_models().count();
        let facts = Facts { subject: &node.claim.name, all, ..Facts::default() };
        match safety.admit(Act::DeleteClaim(Cause::RegistrationTimeout), &facts) {
            Ok(()) => next,
            Err(held) => {
                safety.publish_held(regarding(&*node.raw), &held);
                Next::wait(HELD_RETRY)
            }
        }
    }

    /// Finalizes a deleted NodeClaim: nodes, instance, finalizer.
    async fn finalize(&self, node: &ClaimedNode) -> Result<Requeue, ReconcileError> {
        if self.cache.launches.holds(&self.cluster, &node.claim) {
            return Ok(Requeue::After(BATCH_RETRY));
        }
        let view = node.view(self.cloud.info());
        let trace = if node.must_trace_launch() { self.trace(node).await? } else { Trace::Unknown };
        let mut instance = InstanceState::Unknown;
        let mut executor = self.executors.on(node);
        loop {
            let next = Finalization { instance: &instance, trace: &trace }.next(&view, self.clocks.now());
            let done = executor.execute(next).await?;
            match done.instance {
                // The state of the instance decides the next step, once.
                Some(answer @ (InstanceState::Gone | InstanceState::NotOwned(_))) if answer != instance => {
                    instance = answer;
                }
                _ => return Ok(done.again.into()),
            }
        }
    }

    /// What a complete list of instances shows of a launch whose outcome was not recorded.
    async fn trace(&self, node: &ClaimedNode) -> Result<Trace, ReconcileError> {
        let claim = &node.claim;
        if self.cache.launches.is_failed(&claim.uid) {
            return Ok(Trace::Refused);
        }
        let answer = self.cloud.list().await;
        let instances = cloud_refusals::record(
            &self.clocks,
            &self.patches,
            &self.recorder,
            &self.cache,
            node,
            CloudCall::List,
            answer,
        )
        .await??;
        let sighting = {
            let index = self.cluster.index();
            // The instance of an invalid NodeClaim is taken too.
            let is_taken = |id: &ProviderId| index.claim_of_provider_id(id).is_some();
            trace::sight(claim, &instances, index.claim_models().map(|other| &**other), is_taken)
        };
        if sighting != Sighting::Nothing {
            self.cache.instance_listed(&claim.uid);
        }
        Ok(match sighting {
            Sighting::Nothing => Trace::AbsentSince(self.cache.absent_since(&claim.uid, self.clocks.now())),
            Sighting::Awaited => Trace::Unknown,
            Sighting::Own(id) => Trace::Found(id),
            Sighting::OneOf(id) => Trace::OneOf(id),
        })
    }
}

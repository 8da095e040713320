//! Creates the NodeClaims of a plan, each exactly once.
//!
//! The name is chosen before the call, and a call whose outcome is unknown is repeated under the same name. An outcome that
//! stays unknown is resolved before the next plan is computed.

use std::{sync::Arc, time::Duration};

use fleetwright_api::{self as api, labels::DECISION};
use fleetwright_core::{
    disruption::{DisplacedPods, lineage},
    model::{Pod, Str, labels::LINEAGE},
    safety::{Act, Facts, Held},
    scheduling::NewClaim,
};
use fleetwright_state::{
    launch_loops,
    limits::{self, Admitted, NotAdmitted},
    raise::{self, Identity},
};
use futures::{StreamExt, stream};
use kube::api::PostParams;

use crate::{
    log,
    metrics::{Metrics, scheduling as families},
    nodeclaim::end_creation,
    runtime::decisions::{Decided, Decisions},
    runtime::{ApiClient, Clocks, Cluster, Ctx, Names, RateLimit, ReconcileError, Shared},
    safety::Safety,
};

/// NodeClaims that are created concurrently.
const CONCURRENCY: usize = 16;
/// Maximum number of attempts to create one.
const ATTEMPTS: u32 = 4;
/// Delays between attempts.
const RETRY: RateLimit = RateLimit::new(Duration::from_millis(200), Duration::from_secs(2), 1, 1);

/// The outcome for one new NodeClaim.
pub(super) enum Created {
    /// It was created.
    Claim {
        /// Its name.
        name: Str,
        /// Its pods.
        pods: Vec<Arc<Pod>>,
    },
    /// It was not created: its pods have another NodeClaim, or were bound or deleted.
    NotNeeded,
    /// It was not created, for a reason that is published on its pods.
    Refused {
        /// The reason.
        why: String,
        /// The pods that are still without a NodeClaim.
        pods: Vec<Arc<Pod>>,
    },
    /// It was not created now, because of a limit; a later pass schedules its pods.
    Held {
        /// The limit.
        held: Held,
        /// Its pods.
        pods: Vec<Arc<Pod>>,
    },
    /// It may have been created under this name; no plan is computed before that is known.
    Unknown {
        /// The name.
        name: String,
        /// The last error.
        error: ReconcileError,
    },
}

/// Why a NodeClaim is created.
pub(crate) struct CreationCause<'a> {
    /// The reason in metrics.
    pub(crate) reason: &'a str,
    /// The plan or the command, if one asks for it.
    pub(crate) decided: Option<&'a Decided>,
}

/// The reason of creations, for metrics.
pub(super) const REASON: &str = "provisioned";

/// Creates NodeClaims.
#[derive(Clone)]
pub(crate) struct ClaimCreator {
    client: ApiClient,
    cluster: Cluster,
    clocks: Clocks,
    safety: Safety,
    displaced: Shared<DisplacedPods>,
    names: Arc<Names>,
    cluster_uid: Arc<str>,
    metrics: Arc<Metrics>,
    decisions: Decisions,
}

impl ClaimCreator {
    /// Takes what it uses from `ctx`.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        Self {
            client: ctx.client.clone(),
            cluster: ctx.cluster.clone(),
            clocks: ctx.clocks.clone(),
            safety: Safety::new(ctx),
            displaced: ctx.displaced.clone(),
            names: ctx.names.clone(),
            cluster_uid: ctx.cluster_uid.clone(),
            metrics: ctx.metrics.clone(),
            decisions: ctx.decisions.clone(),
        }
    }

    /// Creates the new NodeClaims of a plan, in order.
    pub(super) async fn claims(&self, new_claims: Vec<NewClaim>, plan: &Decided) -> Vec<Created> {
        let positions = raise::launch_batches(&self.names.suffix(10), &new_claims);
        let mut admitted = Admitted::default();
        let mut prepared = Vec::with_capacity(new_claims.len());
        for (new_claim, position_in_batch) in new_claims.iter().zip(&positions) {
            if let Err(held) = self.safety.admit(Act::CreateClaim, &Facts { count: 1, ..Facts::default() }) {
                prepared.push(Err(Created::Held { held, pods: new_claim.pods.clone() }));
                continue;
            }
            let claim = self.prepare(new_claim, position_in_batch, &mut admitted);
            if claim.is_err() {
                self.safety.limits().not_created();
            }
            prepared.push(claim);
        }
        let cause = &CreationCause { reason: REASON, decided: Some(plan) };
        let writes = prepared.into_iter().zip(new_claims).map(|(prepared, new_claim)| async move {
            match prepared {
                Ok((claim, pods)) => {
                    let name = claim.metadata.name.clone().unwrap_or_default();
                    let created = self.write(claim, pods, &new_claim, cause).await;
                    // An unknown outcome is resolved before the next plan for its pods.
                    if !matches!(created, Created::Unknown { .. }) {
                        end_creation(&self.cluster, &name);
                    }
                    created
                }
                Err(instead) => instead,
            }
        });
        stream::iter(writes).buffered(CONCURRENCY).collect().await
    }

    /// The NodeClaim to create, with its pods, or the reason for none: the cluster is checked again, as it is now.
    fn prepare(
        &self,
        new_claim: &NewClaim,
        (batch, position): &(String, u32),
        admitted: &mut Admitted,
    ) -> Result<(api::NodeClaim, Vec<Arc<Pod>>), Created> {
        let mut index = self.cluster.index();
        let (pool, pods) = admitted.admit(&index, new_claim).map_err(|why| match why {
            NotAdmitted::Needless => Created::NotNeeded,
            NotAdmitted::Rejected(why, pods) => Created::Refused { why, pods },
        })?;
        let name = format!("{}-{}", new_claim.pool.name, self.names.suffix(5));
        let identity =
            Identity { name: name.clone(), batch, position: *position, cluster_uid: &self.cluster_uid };
        let mut claim = raise::claim(new_claim, &pool, &pods, identity);
        let now = self.clocks.now();
        let annotations = claim.metadata.annotations.get_or_insert_default();
        annotations.insert(DECISION.to_owned(), self.decisions.issue());
        launch_loops::note_demands(annotations, &pods);
        if self.displaced.lock().recreates(&pods, now) {
            annotations.insert(LINEAGE.to_owned(), lineage::of_recreated(now));
        }
        index.reserve(name.as_str(), new_claim.pool.name.as_str(), limits::largest(new_claim));
        index.create_in_batch(name.as_str(), batch.as_str());
        index.begin_creation(name, pods.iter().map(|pod| pod.uid.clone()).collect());
        Ok((claim, pods))
    }

    async fn write(
        &self,
        mut claim: api::NodeClaim,
        pods: Vec<Arc<Pod>>,
        new_claim: &NewClaim,
        cause: &CreationCause<'_>,
    ) -> Created {
        let api = self.client.cluster::<api::NodeClaim>();
        let mut unknown = None;
        for attempt in 0..ATTEMPTS {
            if unknown.is_some() {
                self.clocks.sleep(RETRY.delay(attempt)).await;
            }
            let name = claim.metadata.name.clone().unwrap_or_default();
            match self.client.call("create nodeclaim", api.create(&PostParams::default(), &claim)).await {
                Ok(claim) => return self.created(claim, pods, new_claim, cause),
                Err(error) if error.is_conflict() => match self.existing_claim(&name).await {
                    // An earlier attempt had its effect.
                    Ok(Some(other)) if raise::is_same(&other, &claim) => {
                        return self.created(other, pods, new_claim, cause);
                    }
                    Ok(_) => {
                        claim.metadata.name =
                            Some(format!("{}-{}", new_claim.pool.name, self.names.suffix(5)));
                        unknown = None;
                    }
                    Err(error) => unknown = Some(error),
                },
                Err(error) if is_refusal(&error) => {
                    return Created::Refused { why: format!("creating nodeclaim, {error}"), pods };
                }
                Err(error) => unknown = Some(error),
            }
        }
        let name = claim.metadata.name.unwrap_or_default();
        // It may exist. If it does not, it is never launched and counts as no node.
        self.record_launch(&name, &pods);
        let error =
            unknown.unwrap_or_else(|| ReconcileError::Other("every generated name was taken".to_owned()));
        Created::Unknown { name, error }
    }
}

/// Whether the API server rejected the request, so that nothing was created.
fn is_refusal(error: &ReconcileError) -> bool {
    match error {
        ReconcileError::NotFound { .. } => true,
        ReconcileError::Kube { source, .. } => {
            matches!(&**source, kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429)
        }
        _ => false,
    }
}

impl ClaimCreator {
    async fn existing_claim(&self, name: &str) -> Result<Option<api::NodeClaim>, ReconcileError> {
        self.client.call("get nodeclaim", self.client.cluster::<api::NodeClaim>().get_opt(name)).await
    }

    fn record_launch(&self, name: &str, pods: &[Arc<Pod>]) {
        self.cluster.index().record_launch(&name.into(), pods, self.clocks.now());
    }

    /// Adds a created NodeClaim to the index.
    fn created(
        &self,
        claim: api::NodeClaim,
        pods: Vec<Arc<Pod>>,
        new_claim: &NewClaim,
        cause: &CreationCause<'_>,
    ) -> Created {
        let name: Str = claim.metadata.name.as_deref().unwrap_or_default().into();
        let relaxed = new_claim.annotations.contains_key(api::labels::MIN_VALUES_RELAXED);
        let labels = [cause.reason, &new_claim.pool.name, if relaxed { "true" } else { "false" }];
        self.metrics.inc(&families::NODECLAIMS_CREATED, &labels);
        let types = new_claim.instance_types.iter().map(|type_| type_.name.to_string());
        log::created_nodeclaim(&name, &new_claim.pool.name, &new_claim.requests, types);
        if let Some(id) = claim.metadata.annotations.as_ref().and_then(|all| all.get(DECISION)) {
            self.decisions.claim(id, new_claim, &name, (&pods, cause.decided));
        }
        self.record_launch(&name, &pods);
        self.cluster.observe(claim);
        Created::Claim { name, pods }
    }

    /// Holds a batch whose NodeClaims are created one after the other: it is launched once the returned value is dropped.
    pub(crate) fn hold_batch<'a>(&'a self, batch: &'a str) -> HeldBatch<'a> {
        self.cluster.index().create_in_batch(batch, batch);
        HeldBatch { cluster: &self.cluster, batch }
    }

    /// Builds the NodeClaim of a replacement; `None` if its NodePool does not exist.
    pub(crate) fn replacement(
        &self,
        new_claim: &NewClaim,
        batch: &str,
        position: u32,
    ) -> Option<api::NodeClaim> {
        let index = self.cluster.index();
        let pool = index.pool(&new_claim.pool.name)?;
        let name = format!("{}-{}", new_claim.pool.name, self.names.suffix(5));
        let identity = Identity { name, batch, position, cluster_uid: &self.cluster_uid };
        let mut claim = raise::claim(new_claim, pool, &new_claim.pods, identity);
        let annotations = claim.metadata.annotations.get_or_insert_default();
        annotations.insert(DECISION.to_owned(), self.decisions.issue());
        Some(claim)
    }

    /// Begins the creation of a replacement whose resources are reserved ([`limits::reserve`]): from now on its pods get no other NodeClaim.
    /// A pod that was pending when the command was decided may have one by now, or be held: the replacement is not for those.
    pub(crate) fn begin_replacement(&self, mut claim: api::NodeClaim, new_claim: &NewClaim) -> Replacement {
        let name = claim.metadata.name.clone().unwrap_or_default();
        let mut index = self.cluster.index();
        let pods = index.replacement_pods(&new_claim.pods, self.clocks.now());
        index.begin_creation(name, pods.iter().map(|pod| pod.uid.clone()).collect());
        let annotations = claim.metadata.annotations.get_or_insert_default();
        raise::note_pods(annotations, &pods);
        launch_loops::note_demands(annotations, &pods);
        Replacement { claim, pods }
    }

    /// Creates a replacement, and returns its final name.
    ///
    /// # Errors
    /// If it was refused, or the outcome is unknown.
    pub(crate) async fn write_replacement(
        &self,
        Replacement { claim, pods }: Replacement,
        new_claim: &NewClaim,
        cause: &CreationCause<'_>,
    ) -> Result<Str, ReconcileError> {
        let name = claim.metadata.name.clone().unwrap_or_default();
        let outcome = self.write(claim, pods, new_claim, cause).await;
        end_creation(&self.cluster, &name);
        match outcome {
            Created::Claim { name, .. } => Ok(name),
            Created::Unknown { error, .. } => Err(error),
            Created::Refused { why, .. } => Err(ReconcileError::Other(why)),
            // The caller holds the rate-limit token and needs the replacement.
            Created::NotNeeded | Created::Held { .. } => {
                Err(ReconcileError::Other("the replacement is not needed any more".to_owned()))
            }
        }
    }

    /// Checks whether a NodeClaim whose creation had an unknown outcome exists.
    pub(super) async fn resolve_unknown(&self, name: &str) -> Result<(), ReconcileError> {
        if let Some(found) = self.existing_claim(name).await? {
            self.cluster.observe(found);
        }
        end_creation(&self.cluster, name);
        Ok(())
    }
}

/// A replacement whose creation has begun, and the pods that it is for.
pub(crate) struct Replacement {
    claim: api::NodeClaim,
    pods: Vec<Arc<Pod>>,
}

/// A batch whose NodeClaims are created one after the other: it is launched once this is dropped.
pub(crate) struct HeldBatch<'a> {
    cluster: &'a Cluster,
    batch: &'a str,
}

impl Drop for HeldBatch<'_> {
    fn drop(&mut self) {
        end_creation(self.cluster, self.batch);
    }
}

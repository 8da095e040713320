//! Bugs of providers, planted into one that has none: one bug at a time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use fleetwright_core::{
    cloud::{
        CloudError, CloudLayer, CloudProvider, Drift, Identity, Instance, Interruption, InterruptionKind,
        LaunchError, LaunchRequest, Outlook, ProviderInfo, ProviderStep, RegistrationHold, RepairPolicy,
        Round, Termination,
    },
    model::{
        BatchId, Catalog, Node, NodeClaim, NodePool, ProviderId,
        labels::{CAPACITY_TYPE, ON_DEMAND, ZONE},
    },
};
use fleetwright_fake::{Cloud, api::Lifecycle, cloud::Adopted};

use crate::classes::{CLASS, SECOND_CLASS};

/// A bug. Those of nodes, types and pages are planted into the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    NewTokenForEachCall,
    ChecksThenCreates,
    NewTokenWhileACallRuns,
    OneCallAtATime,
    ReversesAnswers,
    ThrottledLaunchIsUnknown,
    LostLaunchIsFailed,
    DeniedLaunchIsNoCapacity,
    QuotaIsNoCapacity,
    PendingLaunchIsUnknown,
    NewTokenAfterPending,
    FailsLargeLaunches,
    OneInstanceForManyClaims,
    IgnoresRequests,
    IgnoresReadiness,
    LaunchIgnoresClass,
    LeaksAnInstance,
    TellsNoBatch,
    TellsAnotherZone,
    TellsNoZone,
    TellsCapacityAsAllocatable,
    AnotherType,
    NoUnregisteredTaint,
    NoTaintsOfTheClaim,
    NoLabelsOfTheClaim,
    LabelsOfTheLaunchAlone,
    HoldsNodesForEver,
    HoldsNodesAgainAfterARestart,
    EndsForeign,
    EndsForeignOrphans,
    EndsUnownedOrphans,
    RefusesToEndTwice,
    RefusesToEndWhatIsGone,
    FailedTerminationIsGone,
    FailedGetIsNotFound,
    FailedListIsEmpty,
    DeniedIsUnavailable,
    ThrottledIsUnavailable,
    FirstPageOnly,
    BrokenPageIsTheLast,
    ListsForeign,
    ListsNothingThatTerminates,
    GetsFromMemory,
    NeverDrifts,
    AlwaysDrifts,
    AnyClassDrifts,
    FailureIsDrift,
    CatalogIgnoresClass,
    CopiesTheCatalog,
    CountsByType,
    CountsNoLaunches,
    ProvesAnyCluster,
    IdentifiesByName,
    StepInterruptsAll,
    StepNeverRests,
    FailedListInterruptsAll,
    RepairsAtOnce,
    ReservedAsOnDemand,
    ReservationsWithoutCount,
}

type Token = (BatchId, u32, String);

/// A provider with a bug.
pub(crate) struct BuggyProvider {
    inner: Arc<dyn CloudProvider>,
    info: ProviderInfo,
    bug: Bug,
    cloud: Arc<Cloud>,
    /// Counts calls of launch.
    calls: AtomicU32,
    /// Counts calls of the registration hook.
    asked: AtomicU32,
    /// Launches that run, or were dropped.
    running: Mutex<BTreeSet<Token>>,
    launched: Mutex<BTreeMap<Token, Instance>>,
    ended: Mutex<BTreeSet<ProviderId>>,
    one_call: tokio::sync::Mutex<()>,
}

impl BuggyProvider {
    pub(crate) fn new(inner: Arc<dyn CloudProvider>, bug: Bug, cloud: Arc<Cloud>) -> Self {
        let mut info = inner.info().clone();
        if bug == Bug::RepairsAtOnce {
            info.repair_policies.push(RepairPolicy::new("DiskPressure", "True", Duration::ZERO));
        }
        Self {
            inner,
            info,
            bug,
            cloud,
            calls: AtomicU32::new(0),
            asked: AtomicU32::new(0),
            running: Mutex::default(),
            launched: Mutex::default(),
            ended: Mutex::default(),
            one_call: tokio::sync::Mutex::default(),
        }
    }

    /// What the bug makes of an instance.
    fn told(&self, mut instance: Instance) -> Instance {
        match self.bug {
            Bug::TellsNoBatch => instance.launched_by = None,
            Bug::TellsNoZone => {
                instance.labels.remove(ZONE);
            }
            Bug::TellsAnotherZone => {
                let sold = &self.cloud.sells().types.instance_types;
                let mut zones = sold.iter().flat_map(|t| &t.offerings).filter_map(|offering| offering.zone());
                let told = instance.labels.get(ZONE).cloned();
                let other = zones.find(|zone| Some(*zone) != told.as_ref());
                instance.labels.extend(other.map(|zone| (ZONE.into(), zone.clone())));
            }
            Bug::TellsCapacityAsAllocatable => instance.allocatable = instance.capacity.clone(),
            Bug::ReservedAsOnDemand => {
                instance.labels.insert(CAPACITY_TYPE.into(), ON_DEMAND.into());
            }
            _ => {}
        }
        instance
    }

    /// What the bug makes of an error.
    fn error(&self, error: CloudError) -> CloudError {
        let unavailable = || CloudError::Unavailable(error.to_string().into());
        match (self.bug, &error) {
            (Bug::DeniedIsUnavailable, CloudError::Unauthorized { .. })
            | (Bug::ThrottledIsUnavailable, CloudError::RateLimited { .. }) => unavailable(),
            _ => error,
        }
    }

    /// A request as the bug sees it.
    fn request(&self, request: &LaunchRequest) -> LaunchRequest {
        let mut claim = (*request.claim).clone();
        match self.bug {
            Bug::IgnoresRequests => claim.requests = fleetwright_core::model::Resources::new(),
            Bug::IgnoresReadiness => claim.class.name = SECOND_CLASS.into(),
            Bug::LaunchIgnoresClass => claim.class.name = CLASS.into(),
            _ => {}
        }
        request.clone().for_claim(claim)
    }

    /// Launches by another token than the requests', and hides it.
    async fn launch_with_another_token(
        &self,
        requests: &[LaunchRequest],
    ) -> Vec<Result<Instance, LaunchError>> {
        const FAR: u32 = 1000;
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let renumber = |request: &LaunchRequest| request.clone().of_attempt(request.attempt + FAR * call);
        let renumbered: Vec<LaunchRequest> = requests.iter().map(renumber).collect();
        let mut answers = self.inner.launch(&renumbered).await;
        for (request, instance) in requests
            .iter()
            .zip(&mut answers)
            .filter_map(|(request, answer)| Some((request, answer.as_mut().ok()?)))
        {
            instance.launched_by = Some((request.batch.clone(), request.attempt));
        }
        answers
    }

    async fn check_then_create(&self, requests: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>> {
        let known: Option<Vec<Instance>> = {
            let launched = self.launched.lock().unwrap();
            requests.iter().map(|request| launched.get(&token(request)).cloned()).collect()
        };
        if let Some(known) = known {
            return known.into_iter().map(Ok).collect();
        }
        let answers = self.launch_with_another_token(requests).await;
        let mut launched = self.launched.lock().unwrap();
        for (request, answer) in requests.iter().zip(&answers) {
            launched.extend(answer.as_ref().ok().map(|instance| (token(request), instance.clone())));
        }
        answers
    }

    /// A marker that is not removed when the call is dropped.
    async fn mark_then_create(&self, requests: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>> {
        let tokens: Vec<Token> = requests.iter().map(token).collect();
        let runs = tokens.iter().any(|token| !self.running.lock().unwrap().insert(token.clone()));
        let answers = if runs {
            self.launch_with_another_token(requests).await
        } else {
            self.inner.launch(requests).await
        };
        self.running.lock().unwrap().retain(|token| !tokens.contains(token));
        answers
    }

    /// Takes what is under way for a failure, and launches again.
    async fn forget_pending(&self, requests: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>> {
        let pending = |answer: &Result<_, LaunchError>| matches!(answer, Err(LaunchError::Pending { .. }));
        let tokens = || requests.iter().map(token);
        if tokens().any(|token| self.launched.lock().unwrap().contains_key(&token)) {
            return self.launch_with_another_token(requests).await;
        }
        let answers = self.inner.launch(requests).await;
        if answers.iter().any(pending) {
            let forgotten = tokens().map(|token| (token, Instance::new("forgotten")));
            self.launched.lock().unwrap().extend(forgotten);
        }
        answers
    }

    /// Terminates an instance of others.
    fn end_anyway(&self, id: &ProviderId) -> Result<Termination, CloudError> {
        self.cloud.lose(id);
        Ok(Termination::Gone)
    }

    fn is_unowned(&self, id: &ProviderId) -> bool {
        let instances = self.cloud.instances();
        instances.iter().any(|one| one.id == id.as_str() && one.tags.cluster_uid.is_none())
    }
}

/// The catalogue without what is left of reservations.
fn without_count(catalog: &Catalog) -> Catalog {
    let types = catalog.instance_types.iter().map(|known| {
        let mut known = (**known).clone();
        known.offerings.iter_mut().for_each(|offering| offering.reservation_capacity = None);
        Arc::new(known)
    });
    Catalog::new(types.collect())
}

/// A step with a bug.
struct BuggyStep {
    inner: Arc<dyn ProviderStep>,
    provider: Arc<dyn CloudProvider>,
    bug: Bug,
}

#[async_trait]
impl ProviderStep for BuggyStep {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    async fn run(&self, outlook: &Outlook) -> Result<Round, CloudError> {
        let all = || {
            let ids = outlook.nodes.iter().filter_map(|(claim, _)| claim.provider_id.clone());
            ids.map(|id| Interruption::new(id, InterruptionKind::Spot)).collect()
        };
        let round = self.inner.run(outlook).await?;
        Ok(match self.bug {
            Bug::StepInterruptsAll => round.with_interruptions(all()),
            Bug::StepNeverRests => Round::quiet(Duration::ZERO),
            // What could not be listed is taken to be gone.
            Bug::FailedListInterruptsAll if self.provider.list().await.is_err() => {
                round.with_interruptions(all())
            }
            _ => round,
        })
    }
}

fn token(request: &LaunchRequest) -> Token {
    (request.batch.clone(), request.attempt, request.claim.name.to_string())
}

#[async_trait]
impl CloudLayer for BuggyProvider {
    fn inner(&self) -> &dyn CloudProvider {
        &*self.inner
    }

    fn info(&self) -> &ProviderInfo {
        &self.info
    }

    fn steps(&self) -> Vec<Arc<dyn ProviderStep>> {
        let bug = self.bug;
        self.inner
            .steps()
            .into_iter()
            .map(|inner| -> Arc<dyn ProviderStep> {
                Arc::new(BuggyStep { inner, provider: self.inner.clone(), bug })
            })
            .collect()
    }

    async fn identify(&self, cluster_uid: &str) -> Result<Identity, CloudError> {
        let identity = self.inner.identify(cluster_uid).await?;
        Ok(if self.bug == Bug::ProvesAnyCluster { Identity::Proven } else { identity })
    }

    async fn catalog(&self, pool: &NodePool) -> Result<Arc<Catalog>, CloudError> {
        let mut pool = pool.clone();
        if self.bug == Bug::CatalogIgnoresClass {
            pool.template.class.name = CLASS.into();
        }
        let catalog = self.inner.catalog(&pool).await?;
        Ok(match self.bug {
            Bug::CopiesTheCatalog => Arc::new((*catalog).clone()),
            Bug::ReservationsWithoutCount => Arc::new(without_count(&catalog)),
            _ => catalog,
        })
    }

    async fn launch(&self, requests: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>> {
        const LARGE: usize = 1000;
        let requests: Vec<LaunchRequest> = requests.iter().map(|request| self.request(request)).collect();
        let mut answers = match self.bug {
            Bug::NewTokenForEachCall => self.launch_with_another_token(&requests).await,
            Bug::ChecksThenCreates => self.check_then_create(&requests).await,
            Bug::NewTokenAfterPending => self.forget_pending(&requests).await,
            Bug::NewTokenWhileACallRuns => self.mark_then_create(&requests).await,
            Bug::OneCallAtATime => {
                let _one = self.one_call.lock().await;
                self.inner.launch(&requests).await
            }
            _ => self.inner.launch(&requests).await,
        };
        for answer in &mut answers {
            let changed = match (self.bug, &*answer) {
                (Bug::ThrottledLaunchIsUnknown, Err(LaunchError::RateLimited { .. })) => {
                    Err(LaunchError::Unknown("throttled".into()))
                }
                (Bug::LostLaunchIsFailed, Err(LaunchError::Unknown(message))) => {
                    Err(LaunchError::Failed { reason: "Failed".into(), message: message.clone() })
                }
                (Bug::DeniedLaunchIsNoCapacity, Err(LaunchError::Failed { message, .. })) => {
                    Err(LaunchError::InsufficientCapacity(message.clone()))
                }
                (Bug::PendingLaunchIsUnknown, Err(LaunchError::Pending { message, .. })) => {
                    Err(LaunchError::Unknown(message.clone()))
                }
                (Bug::QuotaIsNoCapacity, Err(LaunchError::QuotaExceeded { message, .. })) => {
                    Err(LaunchError::InsufficientCapacity(message.clone()))
                }
                (Bug::FailsLargeLaunches, Ok(_)) if requests.len() > LARGE => {
                    Err(LaunchError::RateLimited { after: Duration::from_secs(1) })
                }
                (_, Ok(instance)) => Ok(self.told(instance.clone())),
                (_, Err(_)) => continue,
            };
            *answer = changed;
        }
        match self.bug {
            Bug::ReversesAnswers => answers.reverse(),
            Bug::OneInstanceForManyClaims if answers.len() > LARGE => {
                let first = answers.first().and_then(|answer| answer.clone().ok());
                for instance in answers.iter_mut().flatten() {
                    let claim = instance.claim.clone();
                    *instance = first.clone().unwrap_or_else(|| instance.clone());
                    instance.claim = claim;
                }
            }
            Bug::LabelsOfTheLaunchAlone => {
                for instance in answers.iter_mut().flatten() {
                    instance.labels.insert("example.com/rack".into(), "r7".into());
                }
            }
            Bug::LeaksAnInstance => {
                let number = self.calls.fetch_add(1, Ordering::SeqCst);
                let provider_id = format!("fake://leaked/i-{number}");
                self.cloud.adopt(Adopted { provider_id, ..Adopted::default() });
            }
            _ => {}
        }
        answers
    }

    async fn terminate(&self, claim: &NodeClaim, id: &ProviderId) -> Result<Termination, CloudError> {
        if self.bug == Bug::RefusesToEndTwice && !self.ended.lock().unwrap().insert(id.clone()) {
            return Err(CloudError::Unavailable("it is terminating".into()));
        }
        match (self.bug, self.inner.terminate(claim, id).await) {
            (Bug::EndsForeign, Err(CloudError::NotOwned { .. })) => self.end_anyway(id),
            (Bug::FailedTerminationIsGone, Err(_)) => Ok(Termination::Gone),
            (Bug::RefusesToEndWhatIsGone, Ok(Termination::Gone)) => {
                Err(CloudError::Unavailable("no such instance".into()))
            }
            (_, answer) => answer.map_err(|error| self.error(error)),
        }
    }

    async fn terminate_orphan(&self, id: &ProviderId) -> Result<Termination, CloudError> {
        match (self.bug, self.inner.terminate_orphan(id).await) {
            (Bug::EndsForeignOrphans, Err(CloudError::NotOwned { .. })) => self.end_anyway(id),
            (Bug::EndsUnownedOrphans, Err(CloudError::NotOwned { .. })) if self.is_unowned(id) => {
                self.end_anyway(id)
            }
            (_, answer) => answer.map_err(|error| self.error(error)),
        }
    }

    async fn get(&self, id: &ProviderId) -> Result<Instance, CloudError> {
        if self.bug == Bug::GetsFromMemory {
            let launched = self.launched.lock().unwrap();
            if let Some(known) = launched.values().find(|known| known.provider_id == *id) {
                return Ok(known.clone());
            }
        }
        match (self.bug, self.inner.get(id).await) {
            (Bug::FailedGetIsNotFound, Err(error)) => Err(CloudError::NotFound(error.to_string().into())),
            (Bug::GetsFromMemory, Ok(instance)) => {
                let key = (BatchId::from("memory"), 0, id.to_string());
                self.launched.lock().unwrap().insert(key, instance.clone());
                Ok(instance)
            }
            (_, answer) => answer.map(|instance| self.told(instance)).map_err(|error| self.error(error)),
        }
    }

    async fn list(&self) -> Result<Vec<Instance>, CloudError> {
        let mut listed = match (self.bug, self.inner.list().await) {
            (Bug::FailedListIsEmpty, Err(_)) => Vec::new(),
            (_, answer) => answer.map_err(|error| self.error(error))?,
        };
        if self.bug == Bug::ListsNothingThatTerminates {
            listed.retain(|instance| !instance.terminating);
        }
        if self.bug == Bug::ListsForeign {
            for instance in self.cloud.instances().iter().filter(|one| one.state != Lifecycle::Terminated) {
                if !listed.iter().any(|known| *known.provider_id == *instance.id) {
                    listed.push(self.inner.get(&instance.id.as_str().into()).await?);
                }
            }
        }
        Ok(listed.into_iter().map(|instance| self.told(instance)).collect())
    }

    async fn drift(&self, claim: &NodeClaim) -> Result<Option<Drift>, CloudError> {
        let drifted = || Ok(Some(Drift("Drift".into())));
        let mut claim = claim.clone();
        match self.bug {
            Bug::NeverDrifts => return Ok(None),
            Bug::AlwaysDrifts => return drifted(),
            // The rule of the first class, for all.
            Bug::AnyClassDrifts => claim.class.name = CLASS.into(),
            _ => {}
        }
        match (self.bug, self.inner.drift(&claim).await) {
            (Bug::FailureIsDrift, Err(_)) => drifted(),
            (_, answer) => answer,
        }
    }

    async fn before_registration(
        &self,
        claim: &NodeClaim,
        node: &Node,
    ) -> Result<Option<RegistrationHold>, CloudError> {
        let hold = RegistrationHold::new("not yet", Duration::from_secs(5));
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        match self.bug {
            Bug::HoldsNodesForEver => Ok(Some(hold)),
            // What it let be registered is in the memory of the process.
            Bug::HoldsNodesAgainAfterARestart if asked == 0 => Ok(Some(hold)),
            _ => self.inner.before_registration(claim, node).await,
        }
    }
}

//! What the controller decided and the API server does not show yet: nominations, creations, disruption commands.
//!
//! An intent is visible in the next snapshot, as one entry: a snapshot contains all of a command or none of it.

mod nominations;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub use fleetwright_core::model::nomination::RENEWALS;
use fleetwright_core::model::{BatchId, ClaimName, NominationEvent, PodUid, Resources, Str};

pub(crate) use self::nominations::Nominations;

/// A disruption command that is in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandIntent {
    /// The nodes that it removes, by name of their NodeClaims.
    pub candidates: Vec<ClaimName>,
    /// The NodeClaims that replace them.
    pub replacements: Vec<ClaimName>,
}

/// A NodeClaim whose creation is under way.
#[derive(Clone, Debug, Default)]
struct Creation {
    /// The pods that it is created for.
    pods: Vec<PodUid>,
    /// The room under the limits of its NodePool.
    reserved: Option<Reserved>,
    /// The launch batch, which is launched only once all of its NodeClaims are created.
    batch: Option<BatchId>,
}

/// Room under the limits of a NodePool that is kept for one NodeClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reserved {
    pool: Str,
    /// The most of each resource that the node may have.
    most: Resources,
}

/// All intents.
#[derive(Clone, Debug, Default)]
pub struct Intents {
    pub(crate) nominations: Nominations,
    /// By name of the NodeClaim.
    creations: BTreeMap<Str, Creation>,
    /// NodeClaims that wait until no NodeClaim of their batch is being created.
    awaiting: BTreeMap<BatchId, BTreeSet<Str>>,
    /// By id of the command.
    commands: BTreeMap<Str, CommandIntent>,
    /// Pods that the last scheduling pass did not reach.
    deferred: Arc<BTreeSet<PodUid>>,
}

impl Intents {
    /// Records that a NodeClaim is being created for these pods, until [`Self::end_creation`].
    pub(crate) fn begin_creation(&mut self, claim: Str, pods: Vec<PodUid>) {
        let name = ClaimName::from(claim.clone());
        let earlier = std::mem::replace(&mut self.creations.entry(claim).or_default().pods, pods.clone());
        for pod in &earlier {
            self.nominations.apply(pod, NominationEvent::Created(name.clone()));
        }
        for pod in &pods {
            self.nominations.apply(pod, NominationEvent::Creating(name.clone()));
        }
    }

    /// The outcome of the creation is known: the NodeClaim exists, or never will. Returns the NodeClaims that waited for their
    /// batch ([`Self::awaits_batch`]), if this was the last creation in it.
    pub(crate) fn end_creation(&mut self, claim: &str) -> BTreeSet<Str> {
        let Creation { pods, batch, .. } = self.creations.remove(claim).unwrap_or_default();
        for pod in pods {
            self.nominations.apply(&pod, NominationEvent::Created(claim.into()));
        }
        let complete = batch.filter(|batch| !self.is_batch_in_creation(batch));
        complete.and_then(|batch| self.awaiting.remove(&batch)).unwrap_or_default()
    }

    /// Keeps room under the limits of `pool` for a NodeClaim that will be created, until [`Self::end_creation`].
    pub(crate) fn reserve(&mut self, claim: Str, pool: Str, most: Resources) {
        self.creations.entry(claim).or_default().reserved = Some(Reserved { pool, most });
    }

    /// Keeps a launch batch from being launched while a NodeClaim of it is created, until [`Self::end_creation`].
    pub(crate) fn create_in_batch(&mut self, claim: Str, batch: BatchId) {
        self.creations.entry(claim).or_default().batch = Some(batch);
    }

    /// Whether a NodeClaim of a launch batch is being created. If so, the [`Self::end_creation`] that completes the batch returns
    /// `claim`.
    pub(crate) fn awaits_batch(&mut self, claim: Str, batch: &BatchId) -> bool {
        let awaits = self.is_batch_in_creation(batch);
        if awaits {
            self.awaiting.entry(batch.clone()).or_default().insert(claim);
        }
        awaits
    }

    fn is_batch_in_creation(&self, batch: &BatchId) -> bool {
        self.creations.values().any(|creation| creation.batch.as_ref() == Some(batch))
    }

    /// The room that is kept under the limits of a pool, by the names of the NodeClaims.
    pub(crate) fn reserved<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = (&'a Str, &'a Resources)> {
        self.creations.iter().filter_map(move |(claim, creation)| {
            let reserved = creation.reserved.as_ref().filter(|reserved| &*reserved.pool == pool)?;
            Some((claim, &reserved.most))
        })
    }

    /// Records a command. Returns the nodes whose marks change.
    pub(crate) fn begin_command(&mut self, id: Str, command: CommandIntent) -> Vec<ClaimName> {
        let mut changed = command.candidates.clone();
        if let Some(earlier) = self.commands.insert(id, command) {
            changed.extend(earlier.candidates);
        }
        changed
    }

    /// Forgets a command that is done or rolled back. Returns the nodes whose marks change.
    pub(crate) fn end_command(&mut self, id: &str) -> Vec<ClaimName> {
        self.commands.remove(id).map(|command| command.candidates).unwrap_or_default()
    }

    /// Records the pods that a scheduling pass did not reach. Returns whether they are others than before.
    pub(crate) fn defer(&mut self, pods: BTreeSet<PodUid>) -> bool {
        let changed = *self.deferred != pods;
        if changed {
            self.deferred = Arc::new(pods);
        }
        changed
    }

    /// Pods that the last scheduling pass did not reach.
    pub(crate) fn deferred(&self) -> &Arc<BTreeSet<PodUid>> {
        &self.deferred
    }

    /// The NodeClaim in flight that a pod is nominated to; of several, the first by name. One that a command removes does
    /// not count.
    pub(crate) fn in_flight(&self, pod: &PodUid) -> Option<&ClaimName> {
        self.nominations.in_flight(pod).find(|claim| !self.is_marked(claim))
    }

    /// All pods that are nominated to a NodeClaim in flight, with its name.
    pub(crate) fn all_in_flight(&self) -> BTreeMap<PodUid, Str> {
        let pods = self.nominations.pods_in_flight();
        pods.filter_map(|pod| Some((pod.clone(), Str::from(self.in_flight(pod)?.as_str())))).collect()
    }

    /// Whether a command removes the node of this NodeClaim.
    #[must_use]
    pub fn is_marked(&self, claim: &str) -> bool {
        self.commands.values().any(|command| command.candidates.iter().any(|candidate| &**candidate == claim))
    }

    /// The command whose replacement this NodeClaim is.
    #[must_use]
    pub fn replaces(&self, claim: &str) -> Option<&Str> {
        let mut commands = self.commands.iter();
        commands.find(|(_, c)| c.replacements.iter().any(|r| &**r == claim)).map(|(id, _)| id)
    }

    /// The commands in progress, by id.
    #[must_use]
    pub fn commands(&self) -> &BTreeMap<Str, CommandIntent> {
        &self.commands
    }
}

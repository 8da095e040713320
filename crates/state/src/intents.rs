//! What we have decided and the API server does not show yet: nominations and commands.
//!
//! An intent is visible in the next snapshot, as one entry: a snapshot sees all of a command or none of it.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_core::model::{ClaimName, Nomination, PodUid, Resources, Str};
use jiff::Timestamp;

/// A disruption command that is being carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandIntent {
    /// The nodes that it takes, by name of their NodeClaims.
    pub candidates: Vec<ClaimName>,
    /// The NodeClaims that come in their place.
    pub replacements: Vec<ClaimName>,
}

/// How often a pod's lease on one node that is ready may be renewed. Passes renew it about every ten seconds; a pod that
/// kube-scheduler has not bound for a minute to a node that is there will not be bound to it, whatever we think.
pub const RENEWALS: u32 = 6;

/// What is remembered of a pod's leases on one node, until the pod is bound, gone or expected elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
struct History {
    target: Str,
    /// Leases given while the node was ready.
    given: u32,
    /// What kube-scheduler had said of the pod when the first of them was given.
    refusal: Option<Str>,
    /// Whether kube-scheduler refused the pod since.
    refused: bool,
}

/// All intents.
#[derive(Clone, Debug, Default)]
pub struct Intents {
    /// By pod: how its leases went.
    history: BTreeMap<PodUid, History>,
    /// By pod: the Node or NodeClaim that it is expected on, and until when.
    nominations: BTreeMap<PodUid, (Str, Timestamp)>,
    /// The same by Node or NodeClaim.
    by_target: BTreeMap<Str, BTreeSet<PodUid>>,
    /// By id of the command.
    commands: BTreeMap<Str, CommandIntent>,
    /// Pods whose NodeClaim is being written, by the name that it is written under.
    writing: BTreeMap<Str, Vec<PodUid>>,
    /// Room under limits that is kept for NodeClaims until they are written, by the same name.
    reserved: BTreeMap<Str, Reserved>,
}

/// Room under the limits of a pool that is kept for one NodeClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reserved {
    /// The pool.
    pub(crate) pool: Str,
    /// The most of each resource that the node may have.
    pub(crate) most: Resources,
}

impl Intents {
    /// Expects a pod on the Node or NodeClaim called `target`, in place of where it was expected before. A node that is
    /// `ready` is leased again only so often, and not at all once kube-scheduler has refused the pod; `refusal` is what
    /// it said last. Returns the earlier target.
    pub(crate) fn nominate(
        &mut self,
        pod: PodUid,
        target: Str,
        until: Timestamp,
        ready: bool,
        refusal: Option<&Str>,
    ) -> Option<Str> {
        let earlier = self.release(&pod);
        let fresh =
            || History { target: target.clone(), given: 0, refusal: refusal.cloned(), refused: false };
        let history = self.history.entry(pod.clone()).or_insert_with(fresh);
        if history.target != target || (ready && history.given == 0) {
            *history = fresh();
        }
        if ready {
            if history.refused || history.given > RENEWALS {
                return earlier;
            }
            history.given += 1;
        }
        self.by_target.entry(target.clone()).or_default().insert(pod.clone());
        self.nominations.insert(pod, (target, until));
        earlier
    }

    /// Releases a pod's nomination. Returns where it was expected.
    pub(crate) fn release(&mut self, pod: &PodUid) -> Option<Str> {
        let (target, _) = self.nominations.remove(pod)?;
        if let Some(pods) = self.by_target.get_mut(&target) {
            pods.remove(pod);
            if pods.is_empty() {
                self.by_target.remove(&target);
            }
        }
        Some(target)
    }

    /// Takes in what kube-scheduler says of a pod that waits. Returns where the pod was expected, where that shows that it
    /// was refused there: the node was ready, the lease was renewed, and the words are new.
    pub(crate) fn refuse(&mut self, pod: &PodUid, refusal: Option<&Str>) -> Option<Str> {
        let history = self.history.get_mut(pod)?;
        if history.given < 2 {
            // It may have been said while the node became ready.
            history.refusal = refusal.cloned();
            return None;
        }
        if refusal.is_none() || history.refusal.as_ref() == refusal {
            return None;
        }
        history.refused = true;
        self.release(pod)
    }

    /// Forgets a pod that is bound, ended or gone. Returns where it was expected.
    pub(crate) fn forget_pod(&mut self, pod: &PodUid) -> Option<Str> {
        self.history.remove(pod);
        self.release(pod)
    }

    /// Drops nominations that have ended, and returns where they were.
    pub(crate) fn expire(&mut self, now: Timestamp) -> BTreeSet<Str> {
        let ended = self.nominations.iter().filter(|(_, (_, until))| *until <= now);
        let ended: Vec<PodUid> = ended.map(|(pod, _)| pod.clone()).collect();
        ended.iter().filter_map(|pod| self.release(pod)).collect()
    }

    /// The pods that are expected on any of `names`, by UID.
    pub(crate) fn nominations_on(&self, names: &[&str]) -> Vec<Nomination> {
        let pods: BTreeSet<&PodUid> =
            names.iter().filter_map(|name| self.by_target.get(*name)).flatten().collect();
        let lease = |pod: &PodUid| Some(Nomination { pod: pod.clone(), until: self.nominations.get(pod)?.1 });
        pods.into_iter().filter_map(lease).collect()
    }

    /// Where a pod is expected, and until when.
    #[must_use]
    pub fn nomination(&self, pod: &PodUid) -> Option<&(Str, Timestamp)> {
        self.nominations.get(pod)
    }

    /// Notes that a NodeClaim is being written for these pods, until [`Self::written`].
    pub(crate) fn writing(&mut self, claim: Str, pods: Vec<PodUid>) {
        self.writing.insert(claim, pods);
    }

    /// What was being written under this name stands, or does not.
    pub(crate) fn written(&mut self, claim: &str) {
        self.writing.remove(claim);
        self.reserved.remove(claim);
    }

    /// Keeps room under the limits of a pool for a NodeClaim that will be written, until [`Self::written`].
    pub(crate) fn reserve(&mut self, claim: Str, room: Reserved) {
        self.reserved.insert(claim, room);
    }

    /// The room that is kept under the limits of a pool, by the names of the NodeClaims.
    pub(crate) fn reserved<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = (&'a Str, &'a Resources)> {
        let of_pool = self.reserved.iter().filter(move |(_, room)| &*room.pool == pool);
        of_pool.map(|(claim, room)| (claim, &room.most))
    }

    /// Whether a NodeClaim is being written for this pod.
    #[must_use]
    pub fn is_written_for(&self, pod: &PodUid) -> bool {
        self.writing.values().any(|pods| pods.contains(pod))
    }

    /// Notes a command. Returns the nodes whose marks change.
    pub(crate) fn begin(&mut self, id: Str, command: CommandIntent) -> Vec<ClaimName> {
        let mut touched = command.candidates.clone();
        if let Some(earlier) = self.commands.insert(id, command) {
            touched.extend(earlier.candidates);
        }
        touched
    }

    /// Forgets a command: it is done, or rolled back. Returns the nodes whose marks change.
    pub(crate) fn end(&mut self, id: &str) -> Vec<ClaimName> {
        self.commands.remove(id).map(|command| command.candidates).unwrap_or_default()
    }

    /// Whether a command takes the node of this NodeClaim.
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

    /// The commands under way, by id.
    #[must_use]
    pub fn commands(&self) -> &BTreeMap<Str, CommandIntent> {
        &self.commands
    }
}

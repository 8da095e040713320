//! What we have decided and the API server does not show yet: nominations and commands.
//!
//! An intent is visible in the next snapshot, as one entry: a snapshot sees all of a command or none of it.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_core::model::{ClaimName, Nomination, PodUid, Str};
use jiff::Timestamp;

/// A disruption command that is being carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandIntent {
    /// The machines that it takes, by name of their NodeClaims.
    pub candidates: Vec<ClaimName>,
    /// The NodeClaims that come in their stead.
    pub replacements: Vec<ClaimName>,
}

/// All intents.
#[derive(Clone, Debug, Default)]
pub struct Intents {
    /// By pod: the Node or NodeClaim that it is expected on, and until when.
    nominations: BTreeMap<PodUid, (Str, Timestamp)>,
    /// The same by Node or NodeClaim.
    by_target: BTreeMap<Str, BTreeSet<PodUid>>,
    /// By id of the command.
    commands: BTreeMap<Str, CommandIntent>,
    /// Pods whose NodeClaim is being written, by the name that it is written under.
    writing: BTreeMap<Str, Vec<PodUid>>,
}

impl Intents {
    /// Expects a pod on the Node or NodeClaim called `target`, in place of where it was expected before.
    /// Returns the earlier target.
    pub(crate) fn nominate(&mut self, pod: PodUid, target: Str, until: Timestamp) -> Option<Str> {
        let earlier = self.release(&pod);
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
    }

    /// Whether a NodeClaim is being written for this pod.
    #[must_use]
    pub fn is_written_for(&self, pod: &PodUid) -> bool {
        self.writing.values().any(|pods| pods.contains(pod))
    }

    /// Notes a command. Returns the machines whose marks change.
    pub(crate) fn begin(&mut self, id: Str, command: CommandIntent) -> Vec<ClaimName> {
        let mut touched = command.candidates.clone();
        if let Some(earlier) = self.commands.insert(id, command) {
            touched.extend(earlier.candidates);
        }
        touched
    }

    /// Forgets a command: it is done, or rolled back. Returns the machines whose marks change.
    pub(crate) fn end(&mut self, id: &str) -> Vec<ClaimName> {
        self.commands.remove(id).map(|command| command.candidates).unwrap_or_default()
    }

    /// Whether a command takes the machine of this NodeClaim.
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

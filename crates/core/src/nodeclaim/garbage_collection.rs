//! Claims whose instance is gone. Absence needs proof, and [`crate::safety`] limits how many are deleted.
//!
//! An instance counts as gone when complete lists of the cloud, at least [`APART`] apart, do not show it, its claim is older than
//! [`GRACE`], its node is not ready, and a look-up by id does not find it. A list that misses too many instances is not believed until it
//! has been so for [`SHORT_LIST_BELIEVED`].

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;

use super::remaining;
use crate::{
    model::{ClaimName, Node, NodeClaim, ProviderId, nodeclaim::ConditionType},
    safety::{Act, Cause, Limits, Share},
};

/// How often instances are listed.
pub const INTERVAL: Duration = Duration::from_secs(2 * 60);
/// How far apart two lists must be to prove an absence.
pub const APART: Duration = Duration::from_secs(60);
/// Claims younger than this are left alone: lists lag behind.
pub const GRACE: Duration = Duration::from_secs(5 * 60);
/// A list that misses more than this share of all instances is too short to be believed.
const SHORT_LIST: Share = Share { percent: 20, few: 3, parts: 1 };
/// A short list is believed once it has been short for this long.
const SHORT_LIST_BELIEVED: Duration = Duration::from_secs(15 * 60);

/// Instances that lists did not show so far.
#[derive(Clone, Debug, Default)]
pub struct Collection {
    missing: BTreeMap<ClaimName, Timestamp>,
    short_since: Option<Timestamp>,
}

/// What one list shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Claims whose instance is gone by all lists: to be verified one by one, then deleted; oldest absence first.
    pub gone: Vec<ClaimName>,
    /// Claims of which the same is true, beyond what the limits let through.
    pub held: Vec<ClaimName>,
    /// Missing instances and all instances, if the list is too short to be believed.
    pub short_list: Option<(usize, usize)>,
    /// Claims that should have an instance: limits let through a share of them.
    pub all: usize,
    /// When the next list is due.
    pub again: Duration,
}

impl Collection {
    /// Takes in a complete list of the cluster's instances, as of `now`. What this process saw is timed by `steady`, the moment
    /// on a clock that does not jump.
    pub fn survey(
        &mut self,
        nodes: &[(&NodeClaim, Option<&Node>)],
        listed: &BTreeSet<ProviderId>,
        limits: &mut Limits,
        now: Timestamp,
        steady: Timestamp,
    ) -> Findings {
        const DELETE: Act = Act::DeleteClaim(Cause::GarbageCollected);
        limits.begin(DELETE, steady);
        let eligible = |claim: &NodeClaim| {
            claim.deleting.is_none()
                && claim.is(ConditionType::Registered)
                && remaining(claim.created, GRACE, now).is_none()
        };
        let all: Vec<_> = nodes.iter().filter(|(claim, _)| eligible(claim)).collect();
        let missing: Vec<_> = all
            .iter()
            .filter(|(claim, _)| claim.provider_id.as_ref().is_some_and(|id| !listed.contains(id)))
            .collect();
        let names: BTreeSet<&ClaimName> = missing.iter().map(|(claim, _)| &claim.name).collect();
        self.missing.retain(|name, _| names.contains(name));
        for name in names {
            self.missing.entry(name.clone()).or_insert(steady);
        }
        let mut findings = Findings { again: INTERVAL, all: all.len(), ..Findings::default() };
        if missing.len() > SHORT_LIST.of(all.len()) {
            let since = *self.short_since.get_or_insert(steady);
            if remaining(since, SHORT_LIST_BELIEVED, steady).is_some() {
                findings.short_list = Some((missing.len(), all.len()));
                return findings;
            }
        } else {
            self.short_since = None;
        }
        let unready = missing.iter().filter(|(_, node)| node.is_none_or(|node| !node.ready));
        let mut due: Vec<(Timestamp, &ClaimName)> = Vec::new();
        for (claim, _) in unready {
            let since = self.missing.get(&claim.name).copied().unwrap_or(steady);
            match remaining(since, APART, steady) {
                Some(left) => findings.again = findings.again.min(left),
                None => due.push((since, &claim.name)),
            }
        }
        due.sort();
        let allowed = limits.room(DELETE, all.len(), steady);
        findings.held = due.iter().skip(allowed).map(|(_, name)| (*name).clone()).collect();
        if !findings.held.is_empty()
            && let Some(left) = limits.again(DELETE, steady)
        {
            findings.again = findings.again.min(left);
        }
        findings.gone = due.into_iter().take(allowed).map(|(_, name)| name.clone()).collect();
        findings
    }

    /// Forgets the absence of an instance: its claim was deleted, or the cloud has the instance. A new absence must be proven from the
    /// start.
    pub fn forget(&mut self, claim: &ClaimName) {
        self.missing.remove(claim);
    }
}

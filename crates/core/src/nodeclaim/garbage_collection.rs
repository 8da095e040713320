//! Claims whose instance is gone. Absence needs proof, and what is inferred has a brake.
//!
//! An instance counts as gone when complete lists of the cloud, at least [`APART`] apart, do not show it, its claim is
//! older than [`GRACE`], its node is not ready, and (asked by the shell, one by one) the cloud knows no instance of that
//! id. A list that is sharply shorter than it should be is taken for an outage, until it has been so for [`OUTAGE`].

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;

use super::{
    brake::{Brake, Share},
    remaining,
};
use crate::model::{ClaimName, Node, NodeClaim, ProviderId, nodeclaim::ConditionType};

/// How often instances are listed.
pub const INTERVAL: Duration = Duration::from_secs(2 * 60);
/// How far apart two lists must be to prove an absence.
pub const APART: Duration = Duration::from_secs(60);
/// Claims younger than this are left alone: lists lag behind.
pub const GRACE: Duration = Duration::from_secs(5 * 60);
/// A list that misses more than so many of all is an outage.
const OUTAGE_SHARE: Share = Share { percent: 20, few: 3, parts: 1 };
/// An outage that lasts this long is believed.
const OUTAGE: Duration = Duration::from_secs(15 * 60);

/// What was seen to be missing so far.
#[derive(Clone, Debug)]
pub struct Collection {
    missing: BTreeMap<ClaimName, Timestamp>,
    outage_since: Option<Timestamp>,
    brake: Brake,
}

impl Default for Collection {
    fn default() -> Self {
        Self { missing: BTreeMap::new(), outage_since: None, brake: Brake::new(Share::NODES) }
    }
}

/// What one list shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Claims whose instance is gone by all lists: to be verified one by one, then deleted; oldest absence first.
    pub gone: Vec<ClaimName>,
    /// Claims that are held back by the brake.
    pub braked: Vec<ClaimName>,
    /// How many of how many are missing, where that is taken for an outage.
    pub outage: Option<(usize, usize)>,
    /// When the next list is due.
    pub again: Duration,
}

impl Collection {
    /// Takes in a complete list of the cluster's instances, as of `now`. What was seen by this process is as long ago as
    /// `steady` says, the moment on a clock that does not jump.
    pub fn survey(
        &mut self,
        nodes: &[(&NodeClaim, Option<&Node>)],
        listed: &BTreeSet<ProviderId>,
        now: Timestamp,
        steady: Timestamp,
    ) -> Findings {
        self.brake.begin(steady);
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
        let mut findings = Findings { again: INTERVAL, ..Findings::default() };
        if missing.len() > OUTAGE_SHARE.of(all.len()) {
            let since = *self.outage_since.get_or_insert(steady);
            if remaining(since, OUTAGE, steady).is_some() {
                findings.outage = Some((missing.len(), all.len()));
                return findings;
            }
        } else {
            self.outage_since = None;
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
        let allowed = self.brake.room(all.len(), steady);
        findings.braked = due.iter().skip(allowed).map(|(_, name)| (*name).clone()).collect();
        if !findings.braked.is_empty()
            && let Some(left) = self.brake.again(steady)
        {
            findings.again = findings.again.min(left);
        }
        findings.gone = due.into_iter().take(allowed).map(|(_, name)| name.clone()).collect();
        findings
    }

    /// Notes that a claim was deleted at `steady`, which the brake counts.
    pub fn removed(&mut self, claim: &ClaimName, steady: Timestamp) {
        self.missing.remove(claim);
        self.brake.count(steady);
    }

    /// Notes that the cloud does know the instance after all: its absence must be proven again.
    pub fn found(&mut self, claim: &ClaimName) {
        self.missing.remove(claim);
    }
}

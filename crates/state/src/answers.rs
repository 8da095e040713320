//! Which claims answer which pods: a pod is answered by one claim at a time, until that is initialised or goes.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_core::model::{ClaimName, NodeClaim, PodUid, Str, nodeclaim::ConditionType};

use crate::intents::Intents;

/// Intended pods of claims that are on their way.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    by_pod: BTreeMap<PodUid, BTreeSet<ClaimName>>,
}

/// Whether a claim is still to become what its pods wait for.
fn is_on_its_way(claim: &NodeClaim) -> bool {
    claim.deleting.is_none() && !claim.is(ConditionType::Initialized)
}

impl Answers {
    /// Replaces what a claim says by what it says now.
    pub(crate) fn change(&mut self, before: Option<&NodeClaim>, after: Option<&NodeClaim>) {
        for claim in before.into_iter().filter(|claim| is_on_its_way(claim)) {
            for pod in &claim.intended_pods {
                if let Some(claims) = self.by_pod.get_mut(pod) {
                    claims.remove(&claim.name);
                    if claims.is_empty() {
                        self.by_pod.remove(pod);
                    }
                }
            }
        }
        for claim in after.into_iter().filter(|claim| is_on_its_way(claim)) {
            for pod in &claim.intended_pods {
                self.by_pod.entry(pod.clone()).or_default().insert(claim.name.clone());
            }
        }
    }

    /// The claim that answers a pod; of several, the first by name. One that a command takes answers nobody.
    pub(crate) fn to(&self, pod: &PodUid, intents: &Intents) -> Option<&ClaimName> {
        self.by_pod.get(pod)?.iter().find(|claim| !intents.is_marked(claim))
    }

    /// All answers.
    pub(crate) fn all(&self, intents: &Intents) -> BTreeMap<PodUid, Str> {
        let answer = |pod: &PodUid| Some((pod.clone(), Str::from(self.to(pod, intents)?.as_str())));
        self.by_pod.keys().filter_map(answer).collect()
    }
}

//! Which claims answer which pods: a pod is answered by one claim at a time, until that is initialized or goes.
//!
//! Of claims that are initialized it is known too which pods they were created for, as long as those wait: another claim
//! for such a pod needs a reason.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_core::model::{ClaimName, NodeClaim, PodUid, Str, nodeclaim::ConditionType};

use crate::intents::Intents;

type ByPod = BTreeMap<PodUid, BTreeSet<ClaimName>>;

/// Intended pods of claims.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Of claims that are on their way.
    by_pod: ByPod,
    /// Of claims that are initialized, but for pods that were bound since.
    settled: ByPod,
}

/// How a claim stands to the pods that it was created for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is still to become what they wait for.
    OnItsWay,
    /// It is there.
    Settled,
    /// It goes away.
    Gone,
}

fn standing(claim: Option<&NodeClaim>) -> Standing {
    match claim {
        Some(claim) if claim.deleting.is_none() && claim.is(ConditionType::Initialized) => Standing::Settled,
        Some(claim) if claim.deleting.is_none() => Standing::OnItsWay,
        _ => Standing::Gone,
    }
}

impl Answers {
    fn table(&mut self, standing: Standing) -> Option<&mut ByPod> {
        match standing {
            Standing::OnItsWay => Some(&mut self.by_pod),
            Standing::Settled => Some(&mut self.settled),
            Standing::Gone => None,
        }
    }

    /// Replaces what a claim says by what it says now.
    pub(crate) fn change(&mut self, before: Option<&NodeClaim>, after: Option<&NodeClaim>) {
        let (was, is) = (standing(before), standing(after));
        let same_pods = before.map(|claim| &claim.intended_pods) == after.map(|claim| &claim.intended_pods);
        if was == is && same_pods {
            return;
        }
        if let (Some(claim), Some(table)) = (before, self.table(was)) {
            for pod in &claim.intended_pods {
                if let Some(claims) = table.get_mut(pod) {
                    claims.remove(&claim.name);
                    if claims.is_empty() {
                        table.remove(pod);
                    }
                }
            }
        }
        if let (Some(claim), Some(table)) = (after, self.table(is)) {
            for pod in &claim.intended_pods {
                table.entry(pod.clone()).or_default().insert(claim.name.clone());
            }
        }
    }

    /// Notes that a pod is bound, ended or gone: it needs no other claim.
    pub(crate) fn bound(&mut self, pod: &PodUid) {
        self.settled.remove(pod);
    }

    /// The claim that answers a pod; of several, the first by name. One that a command takes answers nobody.
    pub(crate) fn to(&self, pod: &PodUid, intents: &Intents) -> Option<&ClaimName> {
        self.by_pod.get(pod)?.iter().find(|claim| !intents.is_marked(claim))
    }

    /// All claims that were created for a pod, on their way or there, by name.
    pub(crate) fn created_for<'a>(&'a self, pod: &PodUid) -> BTreeSet<&'a ClaimName> {
        let tables = [&self.by_pod, &self.settled];
        tables.into_iter().filter_map(|table| table.get(pod)).flatten().collect()
    }

    /// All answers.
    pub(crate) fn all(&self, intents: &Intents) -> BTreeMap<PodUid, Str> {
        let answer = |pod: &PodUid| Some((pod.clone(), Str::from(self.to(pod, intents)?.as_str())));
        self.by_pod.keys().filter_map(answer).collect()
    }
}

#[cfg(test)]
mod tests {
    //! From birth to the binding of the pods.
    use fleetwright_core::{model::StateNode, testing::node};

    use super::*;

    fn claim(initialized: bool, pods: &[&str]) -> NodeClaim {
        let builder = if initialized { node("c") } else { node("c").uninitialized() };
        let StateNode { claim, .. } = std::sync::Arc::unwrap_or_clone(builder.build());
        let mut claim = claim.map(std::sync::Arc::unwrap_or_clone).unwrap();
        claim.intended_pods = pods.iter().map(|pod| PodUid::from(*pod)).collect();
        claim
    }

    fn says(answers: &Answers, pod: &str) -> (bool, usize) {
        let pod = PodUid::from(pod);
        (answers.to(&pod, &Intents::default()).is_some(), answers.created_for(&pod).len())
    }

    #[test]
    fn an_answer_becomes_a_memory_and_ends() {
        let mut answers = Answers::default();
        let (young, grown) = (claim(false, &["p", "q"]), claim(true, &["p", "q"]));
        answers.change(None, Some(&young));
        assert_eq!(says(&answers, "p"), (true, 1));
        answers.change(Some(&young), Some(&grown));
        assert_eq!(says(&answers, "p"), (false, 1));
        answers.bound(&"p".into());
        assert_eq!((says(&answers, "p"), says(&answers, "q")), ((false, 0), (false, 1)));
        let released = claim(true, &["p"]);
        answers.change(Some(&grown), Some(&released));
        assert_eq!(says(&answers, "q"), (false, 0));
        answers.change(Some(&released), None);
        assert_eq!(says(&answers, "p"), (false, 0));
    }

    #[test]
    fn a_release_frees_a_pod_before_its_claim_is_there() {
        let mut answers = Answers::default();
        let (both, one) = (claim(false, &["p", "q"]), claim(false, &["q"]));
        answers.change(None, Some(&both));
        answers.change(Some(&both), Some(&one));
        assert_eq!((says(&answers, "p"), says(&answers, "q")), ((false, 0), (true, 1)));
    }
}

//! Describes refusals: objects that a plan or a pass leaves out, together where the reason is the same.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    describe::draft,
    record::{Choice, DecisionDraft, DecisionInputs, LISTED, ReasonRow, RefusalChoice, bounded},
};
use crate::{
    disruption::{Blocker, Proposal},
    model::{Pod, StateNode},
    scheduling::{Plan, PoolVerdict, Unplaced},
};

/// Refusals of one plan or pass at most; the objects beyond share the last one.
const GROUPS: usize = 50;
/// NodePools whose reasons a refusal names at most.
const POOLS: usize = 10;

/// An object that a decision leaves out.
pub struct Refused<'a> {
    /// The object and its reason without figures. While it is the same, the refusal is the same.
    pub key: String,
    object: RefusedObject<'a>,
}

enum RefusedObject<'a> {
    Pod(&'a Pod, &'a Unplaced),
    Node(&'a StateNode, Blocker),
}

impl<'a> Refused<'a> {
    /// The pods that a plan leaves out. A pod that was not reached is not refused.
    pub fn pods(plan: &'a Plan) -> impl Iterator<Item = Self> {
        let unplaced = plan.unplaced.iter().filter(|(_, why)| *why != Unplaced::NotReached);
        unplaced.map(|(pod, why)| Self {
            key: format!("{} {}", pod.uid, words(why)),
            object: RefusedObject::Pod(pod, why),
        })
    }

    /// The nodes that a pass does not disrupt, with the first reason of each. Nodes that are on their way out are not refused.
    pub fn nodes(proposal: &'a Proposal) -> impl Iterator<Item = Self> {
        let blocked = proposal.blocked.iter().filter(|blocked| !blocked.blocker.is_leaving());
        let considered = proposal.held.iter().chain(&proposal.unconsolidatable);
        let blocked = blocked.map(|blocked| (&blocked.node, blocked.blocker.clone()));
        let refused =
            considered.map(|(candidate, why)| (&candidate.node, Blocker::Unconsolidatable(why.clone())));
        blocked.chain(refused).map(|(node, blocker)| Self::node(node, blocker))
    }

    fn node(node: &'a Arc<StateNode>, blocker: Blocker) -> Self {
        let uid = node.claim.as_ref().map_or("", |claim| &*claim.uid);
        let key = format!("{uid} {}", blocker.kind());
        Self { key, object: RefusedObject::Node(node, blocker) }
    }

    fn name(&self) -> String {
        match &self.object {
            RefusedObject::Pod(pod, _) => pod.id.to_string(),
            RefusedObject::Node(node, _) => node.name().to_owned(),
        }
    }
}

/// The reason of a pod in words alone.
fn words(why: &Unplaced) -> String {
    let Unplaced::NoPoolFits(verdicts) = why else { return why.as_str().to_owned() };
    verdicts.iter().map(|verdict| format!("{}={} ", verdict.pool, verdict.eliminated.as_str())).collect()
}

/// The pods that a plan leaves out, by reason.
pub fn of_refused_pods(refused: &[Refused<'_>], parent: &str, inputs: &DecisionInputs) -> Vec<DecisionDraft> {
    let by_text = |refused: &Refused<'_>| match &refused.object {
        RefusedObject::Pod(_, why) => why.to_string(),
        RefusedObject::Node(_, blocker) => blocker.to_string(),
    };
    described(refused, by_text, "Pod", Some(parent), inputs)
}

/// The nodes that a pass does not disrupt, by the word of their reason: figures differ from node to node, those of the first are shown.
pub fn of_refused_nodes(refused: &[Refused<'_>], inputs: &DecisionInputs) -> Vec<DecisionDraft> {
    let by_word = |refused: &Refused<'_>| match &refused.object {
        RefusedObject::Pod(_, why) => why.as_str().to_owned(),
        RefusedObject::Node(_, blocker) => blocker.kind().to_owned(),
    };
    described(refused, by_word, "Node", None, inputs)
}

fn described(
    refused: &[Refused<'_>],
    by: impl Fn(&Refused<'_>) -> String,
    of: &str,
    parent: Option<&str>,
    inputs: &DecisionInputs,
) -> Vec<DecisionDraft> {
    // In the order of the first object of each reason.
    let mut positions: BTreeMap<String, usize> = BTreeMap::new();
    let mut groups: Vec<Vec<&Refused<'_>>> = Vec::new();
    for one in refused {
        let next = groups.len().min(GROUPS - 1);
        let position = *positions.entry(by(one)).or_insert(next);
        match groups.get_mut(position) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    let draft_of = |group: Vec<&Refused<'_>>| {
        let choice = RefusalChoice {
            of: of.to_owned(),
            names: group.iter().take(LISTED).map(|refused| refused.name()).collect(),
            total: group.len(),
        };
        let reasons = group.first().map(|first| reasons(first)).unwrap_or_default();
        let parent = parent.map(str::to_owned);
        DecisionDraft { reasons, parent, ..draft(Choice::Refusal(choice), inputs.clone()) }
    };
    groups.into_iter().map(draft_of).collect()
}

fn reasons(refused: &Refused<'_>) -> Vec<ReasonRow> {
    let row = |reason: &str, message: String, node_pool: Option<String>| ReasonRow {
        reason: reason.to_owned(),
        message: bounded(message),
        node_pool,
    };
    match &refused.object {
        RefusedObject::Node(_, blocker) => vec![row(blocker.kind(), blocker.to_string(), None)],
        RefusedObject::Pod(_, why) => {
            let verdicts: &[PoolVerdict] = match why {
                Unplaced::NoPoolFits(verdicts) => verdicts,
                _ => &[],
            };
            let by_pool = verdicts.iter().take(POOLS).map(|verdict| {
                row(verdict.eliminated.as_str(), verdict.to_string(), Some(verdict.pool.to_string()))
            });
            std::iter::once(row(why.as_str(), why.to_string(), None)).chain(by_pool).collect()
        }
    }
}

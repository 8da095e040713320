//! What a search found, as new NodeClaims: pods are told apart again, which were alike to the search.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::scheduling::{
    ids::{IdVec, InstanceTypeId, PodClassId, PodId},
    improve::patterns::{Content, State},
    placement::claim::Claim,
    tables::{
        Tables,
        amounts::{Amounts, update},
        bits::Bits,
    },
};

/// Pods by kind, as indices into the request, in the order in which they leave.
pub(super) struct Stock(Vec<VecDeque<PodId>>);

impl Stock {
    /// By kind: its pods.
    pub(super) fn new(kinds: impl IntoIterator<Item = VecDeque<PodId>>) -> Self {
        Self(kinds.into_iter().collect())
    }

    /// The pods that one node holds.
    pub(super) fn take(&mut self, content: &Content) -> SmallVec<[PodId; 8]> {
        let mut pods = SmallVec::new();
        for (kind, count) in content {
            pods.extend((0..*count).filter_map(|_| self.0[*kind].pop_front()));
        }
        pods
    }

    /// Those that no node holds.
    pub(super) fn left(self) -> impl Iterator<Item = PodId> {
        self.0.into_iter().flatten()
    }
}

/// What some pods ask for: the same sum that taking them one by one would give.
pub(super) fn requests(tables: &Tables, classes: &IdVec<PodId, PodClassId>, pods: &[PodId]) -> Amounts {
    let mut sum = Amounts::new();
    for pod in pods {
        update(&mut sum, &tables.classes[classes[*pod]].requests, i64::saturating_add);
    }
    sum
}

/// A new NodeClaim that holds some pods. It is not listed yet: bounds and counts by label are for placing more.
pub(super) fn new_claim(
    tables: &Tables,
    (pool, req): State,
    pods: SmallVec<[PodId; 8]>,
    used: Amounts,
    rows: Bits<InstanceTypeId>,
) -> Claim {
    Claim {
        pool,
        req,
        used,
        rows,
        envelope: Amounts::new(),
        floor: Amounts::new(),
        pods,
        label_sets: SmallVec::new(),
        ports: Vec::new(),
        min_values: tables.pools[pool].min_values.clone().into(),
        relaxed: false,
        reserved: SmallVec::new(),
    }
}

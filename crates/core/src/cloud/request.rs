//! A request for one instance.

use std::sync::Arc;

use crate::model::{BatchId, Catalog, NodeClaim};

/// What is asked of the cloud for one NodeClaim.
///
/// ```
/// use fleetwright_core::{cloud::LaunchRequest, model::{NodeClaim, NodeClassRef}};
/// use jiff::Timestamp;
///
/// let class = NodeClassRef { group: "acme.example".into(), kind: "AcmeNodeClass".into(), name: "default".into() };
/// let claim = NodeClaim::new("general-x1", class, Timestamp::UNIX_EPOCH);
/// let request = LaunchRequest::new(claim).of_attempt(2).at(0, 3);
/// assert_eq!((request.batch.as_str(), request.attempt, request.rank, request.size), ("general-x1", 2, 0, 3));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LaunchRequest {
    /// The NodeClaim: its requirements restrict instance types, zones and capacity types.
    pub claim: Arc<NodeClaim>,
    /// Claims of one batch differ in nothing that a launch depends on.
    pub batch: BatchId,
    /// Distinguishes calls; written to the claim before the call.
    pub attempt: u32,
    /// Which of the call's instances, sorted by id, belongs to the claim, unless instances name their claims from birth.
    pub rank: usize,
    /// How many instances the call launches. Claims that are gone since an earlier call have no request, but count.
    pub size: usize,
    /// The instance types of the claim's NodePool at the time of the decision, with the prices and capacity of NodeOverlays; `None` if
    /// unknown. The provider knows better what is available.
    pub decided_by: Option<Arc<Catalog>>,
    /// Whether this is the first call of the attempt, of any process: no instance of the attempt exists. `false` where that is unknown.
    pub first_call: bool,
}

impl LaunchRequest {
    /// A request for `claim` alone: the first attempt of its batch, with one member. Whether it is the first call is unknown.
    #[must_use]
    pub fn new(claim: impl Into<Arc<NodeClaim>>) -> Self {
        let claim = claim.into();
        let batch = claim.batch.clone();
        Self { claim, batch, attempt: 1, rank: 0, size: 1, decided_by: None, first_call: false }
    }

    /// The same request, of attempt `attempt`.
    #[must_use]
    pub fn of_attempt(self, attempt: u32) -> Self {
        Self { attempt, ..self }
    }

    /// The same request, as member `rank` of a call for `size` instances.
    #[must_use]
    pub fn at(self, rank: usize, size: usize) -> Self {
        Self { rank, size, ..self }
    }

    /// The same request, of batch `batch`.
    #[must_use]
    pub fn of_batch(self, batch: impl Into<BatchId>) -> Self {
        Self { batch: batch.into(), ..self }
    }

    /// The same request for another NodeClaim.
    #[must_use]
    pub fn for_claim(self, claim: impl Into<Arc<NodeClaim>>) -> Self {
        Self { claim: claim.into(), ..self }
    }

    /// The same request, decided by these instance types.
    #[must_use]
    pub fn decided_by(self, catalog: impl Into<Option<Arc<Catalog>>>) -> Self {
        Self { decided_by: catalog.into(), ..self }
    }

    /// The same request; whether it is the first call of its attempt.
    #[must_use]
    pub fn first_call(self, first_call: bool) -> Self {
        Self { first_call, ..self }
    }
}

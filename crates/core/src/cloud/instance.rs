//! An instance, as a provider describes it.

use crate::model::{BatchId, ClaimName, Labels, ProviderId, Resources, Str};

/// An instance in the cloud.
///
/// ```
/// use fleetwright_core::{cloud::Instance, model::{Resources, labels}};
///
/// let instance = Instance::new("acme:///zone-a/s-1")
///     .of_claim("general-x1")
///     .of_attempt("batch-1", 1)
///     .of_cluster("0b1c")
///     .with_label(labels::ZONE, "zone-a")
///     .with_resources(Resources::of(4000, 8 << 30), Resources::of(3900, 7 << 30));
/// assert_eq!(instance.launched_by, Some(("batch-1".into(), 1)));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Instance {
    /// The cloud's name of it; stable.
    pub provider_id: ProviderId,
    /// The NodeClaim that it was launched for, from its tags. `None` without such a tag.
    pub claim: Option<ClaimName>,
    /// The batch and attempt that launched it, from its tags.
    pub launched_by: Option<(BatchId, u32)>,
    /// UID of the cluster that owns it, from its tags.
    pub cluster_uid: Option<Str>,
    /// Instance type, zone, capacity type and the other labels of its node.
    pub labels: Labels,
    /// Annotations that its NodeClaim carries from the launch on, such as the hash of its class.
    pub annotations: Labels,
    /// The image that it runs.
    pub image_id: Option<Str>,
    /// What it has.
    pub capacity: Resources,
    /// What pods can have.
    pub allocatable: Resources,
    /// When it was launched, if the cloud reports it.
    pub created: Option<jiff::Timestamp>,
    /// Whether the cloud is already ending it.
    pub terminating: bool,
}

impl Instance {
    /// A running instance of which nothing but its id is known.
    #[must_use]
    pub fn new(provider_id: impl Into<ProviderId>) -> Self {
        Self {
            provider_id: provider_id.into(),
            claim: None,
            launched_by: None,
            cluster_uid: None,
            labels: Labels::new(),
            annotations: Labels::new(),
            image_id: None,
            capacity: Resources::new(),
            allocatable: Resources::new(),
            created: None,
            terminating: false,
        }
    }

    /// The same instance, tagged with its NodeClaim.
    #[must_use]
    pub fn of_claim(self, claim: impl Into<ClaimName>) -> Self {
        Self { claim: Some(claim.into()), ..self }
    }

    /// The same instance, tagged with the batch and attempt that launched it.
    #[must_use]
    pub fn of_attempt(self, batch: impl Into<BatchId>, attempt: u32) -> Self {
        Self { launched_by: Some((batch.into(), attempt)), ..self }
    }

    /// The same instance, tagged with the UID of its cluster.
    #[must_use]
    pub fn of_cluster(self, uid: impl Into<Str>) -> Self {
        Self { cluster_uid: Some(uid.into()), ..self }
    }

    /// The same instance with a label of its node.
    #[must_use]
    pub fn with_label(mut self, key: impl Into<Str>, value: impl Into<Str>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// The same instance with an annotation that its NodeClaim gets.
    #[must_use]
    pub fn with_annotation(mut self, key: impl Into<Str>, value: impl Into<Str>) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }

    /// The same instance with what it has, and what of it pods can have.
    #[must_use]
    pub fn with_resources(self, capacity: Resources, allocatable: Resources) -> Self {
        Self { capacity, allocatable, ..self }
    }

    /// The same instance with the image that it runs.
    #[must_use]
    pub fn with_image(self, image_id: impl Into<Str>) -> Self {
        Self { image_id: Some(image_id.into()), ..self }
    }
}

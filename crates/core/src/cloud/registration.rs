//! What a provider answers before a node is registered.

use std::time::Duration;

use crate::model::{NodeClaim, Str, labels::AWAITS_LABEL};

/// How soon a provider is asked again about a label that it has not reported. The label itself wakes the controllers at once.
const LABEL_RETRY: Duration = Duration::from_secs(60);

/// Why a node is not registered yet: pods cannot be scheduled to it.
///
/// ```
/// use fleetwright_core::cloud::RegistrationHold;
/// use std::time::Duration;
///
/// let hold = RegistrationHold::new("the node is not in its load balancer yet", Duration::from_secs(5));
/// assert_eq!(hold.after.as_secs(), 5);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistrationHold {
    /// What the provider waits for, as condition `Registered` shows it. It is the same text while that is the same.
    pub message: Str,
    /// After this long the provider is asked again, and before whenever the NodeClaim or its Node changes.
    pub after: Duration,
}

impl RegistrationHold {
    /// The provider waits for what `message` says.
    #[must_use]
    pub fn new(message: impl Into<Str>, after: Duration) -> Self {
        Self { message: message.into(), after }
    }

    /// The default of [`super::CloudProvider::before_registration`]: holds while the NodeClaim has no label with the key that its annotation
    /// `fleetwright.dev/awaits-label` names.
    #[must_use]
    pub fn for_awaited_label(claim: &NodeClaim) -> Option<Self> {
        let key = claim.annotations.get(AWAITS_LABEL).filter(|key| !claim.labels.contains_key(&***key))?;
        Some(Self::new(format!("the provider has not reported label {key} yet"), LABEL_RETRY))
    }
}

//! A launch after every decision and before the call: what is passed to EC2 for NodeClaims with equal launch requirements.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleetwright_core::{
    cloud::{Instance, LaunchError},
    model::{Labels, NodeClaim, Requirements, Resources, Str, Taint},
};

use super::classes::Known;
use crate::batch::spread;
use crate::calls::TagSet;
use crate::launch::{Group, Plan};

/// An answer for each NodeClaim of a batch, as far as it is known.
pub(super) type Answers = Vec<Option<Result<Instance, LaunchError>>>;

/// The launch requirements that the NodeClaims of one call share.
pub(super) type LaunchRequirements = (Requirements, Resources, Str, Labels, Vec<Taint>, Vec<Taint>);

/// The launch requirements of a NodeClaim.
pub(super) fn launch_requirements(claim: &NodeClaim) -> LaunchRequirements {
    let NodeClaim { requirements, requests, class, labels, taints, startup_taints, .. } = claim;
    (
        requirements.clone(),
        requests.clone(),
        class.name.clone(),
        labels.clone(),
        taints.clone(),
        startup_taints.clone(),
    )
}

/// A launch, decided and prepared.
pub(super) struct Prepared {
    pub(super) plan: Plan,
    pub(super) templates: BTreeMap<Group, String>,
    /// Tags of the instances.
    pub(super) tags: TagSet,
    /// Tags of the launch templates.
    pub(super) template_tags: TagSet,
    pub(super) context: Option<String>,
    pub(super) known: Known,
    pub(super) claim: Arc<NodeClaim>,
}

/// Delays the retry of a throttled NodeClaim by up to half, depending on its name, so that retries do not coincide.
pub(super) fn jittered(error: LaunchError, claim: &str) -> LaunchError {
    match error {
        LaunchError::RateLimited { after } => LaunchError::RateLimited { after: spread(after, claim) },
        other => other,
    }
}

/// Whether the requirements of a NodeClaim allow an instance.
pub(super) fn allows(requirements: &Requirements, instance: &Instance) -> bool {
    instance.labels.iter().all(|(key, value)| requirements.allows(key, value))
}

//! A launch after every decision and before the call: what is passed to EC2 for NodeClaims with equal launch requirements.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleetwright_core::{cloud::LaunchError, model::NodeClaim};

use super::classes::KnownClass;
use crate::batch::spread;
use crate::calls::TagSet;
use crate::launch::{FleetPlan, TemplateGroup};

/// A launch, decided and prepared.
pub(super) struct Prepared {
    pub(super) plan: FleetPlan,
    pub(super) templates: BTreeMap<TemplateGroup, String>,
    /// Tags of the instances.
    pub(super) tags: TagSet,
    /// Tags of the launch templates.
    pub(super) template_tags: TagSet,
    pub(super) context: Option<String>,
    pub(super) known: Arc<KnownClass>,
    pub(super) claim: Arc<NodeClaim>,
    /// No process has called EC2 for this attempt before.
    pub(super) first_call: bool,
}

/// Delays the retry of a throttled NodeClaim by up to half, depending on its name, so that retries do not coincide.
pub(super) fn jittered(error: LaunchError, claim: &str) -> LaunchError {
    match error {
        LaunchError::RateLimited { after } => LaunchError::RateLimited { after: spread(after, claim) },
        other => other,
    }
}

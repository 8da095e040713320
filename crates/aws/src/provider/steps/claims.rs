//! The instances of NodeClaims.

use std::sync::Arc;

use fleetwright_core::model::NodeClaim;

use super::super::instance_id;
use crate::calls::{AwsApi, AwsError, InstanceInfo};

/// Most instances in one call.
pub(super) const ASKED_MAX: usize = 500;

/// The existing instances of some NodeClaims: one call, unless an instance does not exist any more, which fails the call as a whole.
pub(super) async fn instances_of_claims(
    api: &dyn AwsApi,
    claims: &[&Arc<NodeClaim>],
) -> Result<Vec<InstanceInfo>, AwsError> {
    let id = |claim: &&Arc<NodeClaim>| instance_id(claim.provider_id.as_deref()?).map(str::to_owned);
    let ids: Vec<String> = claims.iter().filter_map(id).take(ASKED_MAX).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    match api.instances(&ids, &[]).await {
        Err(error) if error.is_not_found() && ids.len() > 1 => {}
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        answer => return answer,
    }
    let mut found = Vec::new();
    for id in ids {
        match api.instances(&[id], &[]).await {
            Err(error) if error.is_not_found() => {}
            answer => found.extend(answer?),
        }
    }
    Ok(found)
}

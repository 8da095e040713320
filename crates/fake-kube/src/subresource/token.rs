//! `token` of ServiceAccounts: a token that no one checks, because every request is allowed.

use serde_json::{Value, json};

use crate::cluster::{ClusterState, Target};
use crate::object;
use crate::status::{ApiError, Cause};

/// How long a token is valid without `expirationSeconds`, in seconds.
const VALID_FOR: i64 = 3600;
/// The shortest time that a token may be valid, in seconds.
const VALID_FOR_MIN: i64 = 600;
/// The longest.
const VALID_FOR_MAX: i64 = 1 << 32;

/// The TokenRequest with its token.
///
/// # Errors
/// 404 without the ServiceAccount, 422 for a time that is too short or too long.
pub(crate) fn issue(cluster: &mut ClusterState, target: &Target, request: &Value) -> Result<Value, ApiError> {
    cluster.find(target)?;
    let seconds = request.pointer("/spec/expirationSeconds").and_then(Value::as_i64).unwrap_or(VALID_FOR);
    let why = match seconds {
        ..VALID_FOR_MIN => Some("may not specify a duration less than 10 minutes"),
        _ if seconds > VALID_FOR_MAX => Some("may not specify a duration larger than 2^32 seconds"),
        _ => None,
    };
    if let Some(why) = why {
        let cause = Cause::invalid("spec.expirationSeconds", &seconds.into(), why);
        return Err(ApiError::invalid("authentication.k8s.io", "TokenRequest", "", &[cause]));
    }
    let mut answer = request.clone();
    object::put(&mut answer, &["apiVersion"], "authentication.k8s.io/v1");
    object::put(&mut answer, &["kind"], "TokenRequest");
    object::put(&mut answer, &["metadata", "name"], target.name.as_str());
    object::put(&mut answer, &["metadata", "namespace"], target.namespace.as_str());
    let expires = cluster.time_in(seconds);
    let token = format!("fake-kube.{}", cluster.seeded.uid());
    object::put(&mut answer, &["spec", "expirationSeconds"], seconds);
    object::put(&mut answer, &["status"], json!({ "token": token, "expirationTimestamp": expires }));
    Ok(answer)
}

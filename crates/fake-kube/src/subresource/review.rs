//! Reviews: every request is allowed.

use serde_json::{Value, json};

use crate::object;
use crate::registry::Resource;

/// The answer to a posted review.
pub(crate) fn answer(resource: &Resource, body: &Value) -> Value {
    let mut review = body.clone();
    object::put(&mut review, &["apiVersion"], resource.info.api_version());
    object::put(&mut review, &["kind"], resource.info.kind.as_str());
    object::put_default(&mut review, &["metadata"], serde_json::Map::new());
    let user = json!({ "username": "system:admin", "groups": ["system:masters", "system:authenticated"] });
    let status = match resource.info.kind.as_str() {
        "SelfSubjectReview" => json!({ "userInfo": user }),
        "TokenReview" => json!({ "authenticated": true, "user": user }),
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }],
            "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
            "incomplete": false,
        }),
        _ => json!({ "allowed": true, "reason": "every request is allowed by this server" }),
    };
    object::put(&mut review, &["status"], status);
    review
}

/// Whether a resource is a review.
pub(crate) fn is(resource: &Resource) -> bool {
    resource.custom.is_none() && resource.info.kind.ends_with("Review")
}

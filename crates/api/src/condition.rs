//! One condition of an object's status, as stored.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::text::words;

words! {
    /// What is known about a condition.
    #[derive(Default)]
    ConditionStatus {
        /// It holds.
        True = "True",
        /// It does not hold.
        False = "False",
        /// The state is not known.
        #[default]
        Unknown = "Unknown",
    }
}

/// A signal about an object, with the time of its last change and the generation that it speaks of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["lastTransitionTime", "message", "reason", "status", "type"]))]
pub struct Condition {
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// A message for users; may be empty.
    #[schemars(extend("maxLength" = 32768))]
    pub message: String,
    /// The generation of the object that the condition was computed from.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(extend("minimum" = 0))]
    pub observed_generation: i64,
    /// Why the condition has its status, as one CamelCase word.
    #[schemars(extend("minLength" = 1, "maxLength" = 1024, "pattern" = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    pub reason: String,
    /// Whether the condition holds.
    pub status: ConditionStatus,
    /// Name of the condition.
    #[serde(rename = "type")]
    #[schemars(extend(
        "maxLength" = 316,
        "pattern" = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
    ))]
    pub type_: String,
}

impl Condition {
    /// The time of the last change; the epoch when none was recorded, so that it sorts first.
    pub fn changed_at(&self) -> Timestamp {
        self.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
    }

    /// Whether the condition holds.
    pub fn is_true(&self) -> bool {
        self.status == ConditionStatus::True
    }

    /// Whether the condition is known not to hold.
    pub fn is_false(&self) -> bool {
        self.status == ConditionStatus::False
    }
}

/// The condition of that type, if there is one.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of that type exists and holds.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(Condition::is_true)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(generation: &i64) -> bool {
    *generation == 0
}

/// Loosens the schema of a condition list to what NodeClaims of every version carry: reason and message may be missing,
/// and the reason may be empty.
pub(crate) fn as_in_old_nodeclaims(schema: &mut Schema) {
    let Some(item) = schema.get_mut("items") else { return };
    item["required"] = json!(["lastTransitionTime", "status", "type"]);
    if let Some(reason) = item["properties"]["reason"].as_object_mut() {
        reason.remove("minLength");
        reason.insert("pattern".to_owned(), json!(r"^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$"));
    }
}

//! Events as `kubectl describe` shows them.
//!
//! Events are written to the core group (which Karpenter's RBAC allows), with a count and first and last times. Equal
//! events are published once per [`DEDUPE_TIMEOUT`], some reasons have a rate, and the recorder's queue is bounded: while the API
//! server does not accept events, the oldest are dropped.

use std::{borrow::Cow, time::Duration};

use fleetwright_core::model::Pod;
pub(crate) use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;

/// How long an equal event is suppressed.
pub const DEDUPE_TIMEOUT: Duration = Duration::from_secs(120);

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    /// Expected behaviour.
    Normal,
    /// A problem that needs attention.
    Warning,
}

impl EventType {
    /// The type as Kubernetes writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An event about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The object.
    pub regarding: ObjectReference,
    /// Normal or warning.
    pub event_type: EventType,
    /// The reason in one word.
    pub reason: Cow<'static, str>,
    /// The reason in a sentence: cause, number, next step.
    pub message: String,
    /// Identifies equal events of one reason.
    pub dedupe_values: Vec<String>,
    /// How long an equal event is suppressed.
    pub dedupe_timeout: Duration,
    /// Rate limit of the reason over all objects: events per second, and burst.
    pub rate: Option<(u32, u32)>,
    /// The id of the recorded decision that it is about, if it is about one.
    pub decision: Option<String>,
}

impl Event {
    /// A normal event. Two events are equal if reason, object and message are.
    #[must_use]
    pub fn normal(
        regarding: ObjectReference,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        let message = message.into();
        let dedupe_values = vec![
            regarding.uid.clone().or_else(|| regarding.name.clone()).unwrap_or_default(),
            message.clone(),
        ];
        Self {
            regarding,
            event_type: EventType::Normal,
            reason: reason.into(),
            message,
            dedupe_values,
            dedupe_timeout: DEDUPE_TIMEOUT,
            rate: None,
            decision: None,
        }
    }

    /// A warning. Two events are equal if reason, object and message are.
    #[must_use]
    pub fn warning(
        regarding: ObjectReference,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self { event_type: EventType::Warning, ..Self::normal(regarding, reason, message) }
    }

    /// Sets what identifies equal events of the reason, instead of object and message.
    #[must_use]
    pub fn with_dedupe_values(mut self, values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.dedupe_values = values.into_iter().map(Into::into).collect();
        self
    }

    /// Sets how long an equal event is suppressed.
    #[must_use]
    pub fn with_dedupe_timeout(mut self, duration: Duration) -> Self {
        self.dedupe_timeout = duration;
        self
    }

    /// Names the recorded decision that it is about, in an annotation: reasons and messages stay those of Karpenter.
    #[must_use]
    pub fn about_decision(mut self, id: Option<&str>) -> Self {
        self.decision = id.map(str::to_owned);
        self
    }

    /// Sets the rate limit of the reason: events per second, and burst.
    #[must_use]
    pub fn rate(mut self, per_second: u32, burst: u32) -> Self {
        self.rate = Some((per_second, burst));
        self
    }
}

/// The text of a condition's transition, in Karpenter's words; tools read it.
#[must_use]
pub fn transition(type_: &str, was: &str, is: &str, reason: &str, message: &str) -> String {
    let text =
        format!("Status condition transitioned, Type: {type_}, Status: {was} -> {is}, Reason: {reason}");
    if message.is_empty() { text } else { format!("{text}, Message: {message}") }
}

/// References an object as the API server returned it.
#[must_use]
pub fn regarding<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    object.object_ref(&())
}

/// References a pod.
#[must_use]
pub fn regarding_pod(pod: &Pod) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.id.namespace.to_string()),
        name: Some(pod.id.name.to_string()),
        uid: Some(pod.uid.to_string()),
        ..ObjectReference::default()
    }
}

//! Events for people: `kubectl describe` shows them.
//!
//! They go to the core group (which Karpenter's RBAC allows), with count and first and last time; the same event is not
//! told again for a while, some reasons have a rate, and everything is bounded: when the API server cannot take them,
//! the oldest are dropped, for they are the least of its worries.

mod recorder;

use std::time::Duration;

use fleetwright_core::model::Pod;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
pub use recorder::Recorder;

/// For how long the same event is not told again.
pub const DEDUPE: Duration = Duration::from_secs(120);

/// Whether an event is good news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    /// As it should be.
    Normal,
    /// Somebody should look.
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

/// Something worth telling about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The object.
    pub regarding: ObjectReference,
    /// Good news or not.
    pub event_type: EventType,
    /// The reason in one word.
    pub reason: &'static str,
    /// The reason in a sentence: cause, number, next step.
    pub message: String,
    /// What makes two events of one reason the same.
    pub dedupe: Vec<String>,
    /// For how long the same event is not told again.
    pub dedupe_for: Duration,
    /// Events per second and at once that this reason may have, over all objects.
    pub rate: Option<(u32, u32)>,
}

impl Event {
    /// Good news. Two of them are the same if reason, object and message are.
    #[must_use]
    pub fn normal(regarding: ObjectReference, reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        let dedupe = vec![
            regarding.uid.clone().or_else(|| regarding.name.clone()).unwrap_or_default(),
            message.clone(),
        ];
        Self {
            regarding,
            event_type: EventType::Normal,
            reason,
            message,
            dedupe,
            dedupe_for: DEDUPE,
            rate: None,
        }
    }

    /// Bad news. Two of them are the same if reason, object and message are.
    #[must_use]
    pub fn warning(regarding: ObjectReference, reason: &'static str, message: impl Into<String>) -> Self {
        Self { event_type: EventType::Warning, ..Self::normal(regarding, reason, message) }
    }

    /// Sets what makes two events of the reason the same, instead of object and message.
    #[must_use]
    pub fn same_if(mut self, values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.dedupe = values.into_iter().map(Into::into).collect();
        self
    }

    /// Sets for how long the same event is not told again.
    #[must_use]
    pub fn quiet_for(mut self, duration: Duration) -> Self {
        self.dedupe_for = duration;
        self
    }

    /// Sets how many events of the reason there may be per second and at once.
    #[must_use]
    pub fn rate(mut self, per_second: u32, burst: u32) -> Self {
        self.rate = Some((per_second, burst));
        self
    }
}

/// Names an object as the API server returned it.
#[must_use]
pub fn regarding<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    object.object_ref(&())
}

/// Names a pod.
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

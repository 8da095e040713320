//! The calls to the cloud about one NodeClaim, and the messages of their failures.

use fleetwright_core::cloud::CloudError;

/// Maximum length of an error text of the cloud in a message, in characters.
const MAX_ERROR_CHARS: usize = 500;

/// A call to the cloud about one NodeClaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CloudCall {
    /// Terminate the instance.
    Terminate,
    /// Read the instance.
    Get,
    /// List all instances.
    List,
    /// Ask whether a node may be registered.
    BeforeRegistration,
}

impl CloudCall {
    /// The reason of condition and event.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Terminate => "TerminationFailed",
            Self::Get | Self::List => "InstanceLookupFailed",
            Self::BeforeRegistration => "RegistrationHookPending",
        }
    }

    /// The failure as text, without parts that differ from call to call (request IDs, times).
    pub(super) fn failure(self, error: &CloudError) -> String {
        let what = match self {
            Self::Terminate => "cannot terminate the instance",
            Self::Get => "cannot look up the instance before its termination",
            Self::List => "cannot list instances to check whether the launch left one behind",
            Self::BeforeRegistration => "the provider cannot say whether the node may be registered",
        };
        match error {
            CloudError::RateLimited { .. } => format!("{what}: throttled by the cloud"),
            CloudError::Unavailable(_) => format!("{what}: the cloud returned an error"),
            other => format!("{what}: {}", truncate(&other.to_string())),
        }
    }
}

/// The first [`MAX_ERROR_CHARS`] characters.
pub(super) fn truncate(text: &str) -> String {
    text.chars().take(MAX_ERROR_CHARS).collect()
}

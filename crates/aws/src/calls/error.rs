//! What AWS answers when it refuses, and what to make of each code.

use std::time::Duration;

use fleetwright_core::cloud::CloudError;

/// A refusal, or a failure on the way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct AwsError {
    /// The code, such as `InsufficientInstanceCapacity`. The adapter makes [`AwsError::NO_ANSWER`] of what never got one.
    pub code: String,
    /// The text beside it.
    pub message: String,
    /// How long AWS asks to be left alone, where it says.
    pub retry_after: Option<Duration>,
}

/// What a code means to whoever called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It is not there.
    NotFound,
    /// There is no capacity, or no room in a quota: another offering may have some.
    Unfulfillable,
    /// Asked too often.
    Throttled,
    /// Not allowed.
    Unauthorized,
    /// AWS has a fault of its own, or no answer came: the call may have had its effect.
    Unknown,
    /// Anything else: repeating does not help.
    Refused,
}

impl AwsError {
    /// The code of a call that was sent and not answered.
    pub const NO_ANSWER: &'static str = "NoAnswer";

    /// An error of `code`.
    #[must_use]
    pub fn new(code: &str, message: &str) -> Self {
        Self { code: code.to_owned(), message: message.to_owned(), retry_after: None }
    }

    /// What the code means.
    #[must_use]
    pub fn class(&self) -> Class {
        classify(&self.code)
    }

    /// This error of `action` in the terms of the provider API.
    #[must_use]
    pub fn to_cloud_error(&self, action: &str) -> CloudError {
        match self.class() {
            Class::NotFound => CloudError::NotFound(self.to_string().into()),
            Class::Throttled => CloudError::RateLimited { after: self.wait() },
            Class::Unauthorized => CloudError::Unauthorized { action: action.into() },
            Class::Unfulfillable | Class::Unknown | Class::Refused => {
                CloudError::Unavailable(self.to_string().into())
            }
        }
    }

    /// Whether what was asked for is not there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.class() == Class::NotFound
    }

    /// Whether AWS does not accept who asks: no policy helps then.
    #[must_use]
    pub fn is_unidentified(&self) -> bool {
        UNIDENTIFIED.contains(&self.code.as_str())
    }

    /// Whether EC2 has seen the call's token before, with other parameters or for an instance that has ended since: this call did
    /// nothing, an earlier one had its effect.
    #[must_use]
    pub fn is_repeated(&self) -> bool {
        REPEATED.contains(&self.code.as_str())
    }

    /// How long to wait after a throttled call.
    #[must_use]
    pub fn wait(&self) -> Duration {
        const DEFAULT: Duration = Duration::from_secs(1);
        const LONGEST: Duration = Duration::from_secs(60);
        self.retry_after.unwrap_or(DEFAULT).clamp(Duration::from_millis(100), LONGEST)
    }
}

const NOT_FOUND: [&str; 10] = [
    "InvalidCapacityReservationId.NotFound",
    "InvalidInstanceID.NotFound",
    "InvalidInstanceID.Malformed",
    "InvalidLaunchTemplateName.NotFoundException",
    "InvalidLaunchTemplateId.NotFound",
    "AWS.SimpleQueueService.NonExistentQueue",
    "QueueDoesNotExist",
    "NoSuchEntity",
    "InvalidPlacementGroup.Unknown",
    "ParameterNotFound",
];
const UNFULFILLABLE: [&str; 8] = [
    "InsufficientInstanceCapacity",
    "MaxSpotInstanceCountExceeded",
    "VcpuLimitExceeded",
    "UnfulfillableCapacity",
    "Unsupported",
    "InsufficientFreeAddressesInSubnet",
    "MaxFleetCountExceeded",
    "ReservationCapacityExceeded",
];
const THROTTLED: [&str; 11] = [
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
    "EC2ThrottledException",
    "RequestThrottled",
    "ThrottledException",
    "RequestThrottledException",
    "BandwidthLimitExceeded",
    "PriorRequestNotComplete",
    "SlowDown",
];
const UNAUTHORIZED: [&str; 3] = ["UnauthorizedOperation", "AccessDenied", "AccessDeniedException"];
/// What is said of credentials that are over, wrong or missing, whatever their rights.
const UNIDENTIFIED: [&str; 13] = [
    "AuthFailure",
    "ExpiredToken",
    "UnrecognizedClientException",
    "ExpiredTokenException",
    "RequestExpired",
    "RequestTimeTooSkewed",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "SignatureDoesNotMatch",
    "IncompleteSignature",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "OptInRequired",
];
/// What is said of a token that was used for another request.
const REPEATED: [&str; 2] = ["IdempotentParameterMismatch", "IdempotentInstanceTerminated"];
const UNKNOWN: [&str; 7] = [
    AwsError::NO_ANSWER,
    "InternalError",
    "InternalFailure",
    "InternalServerError",
    "ServiceUnavailable",
    "Unavailable",
    "RequestTimeout",
];

/// What a code means.
#[must_use]
pub fn classify(code: &str) -> Class {
    let table: [(&[&str], Class); 7] = [
        (&NOT_FOUND, Class::NotFound),
        (&UNFULFILLABLE, Class::Unfulfillable),
        (&THROTTLED, Class::Throttled),
        (&UNAUTHORIZED, Class::Unauthorized),
        (&UNIDENTIFIED, Class::Unauthorized),
        (&UNKNOWN, Class::Unknown),
        (&REPEATED, Class::Unknown),
    ];
    table.iter().find(|(codes, _)| codes.contains(&code)).map_or(Class::Refused, |(_, class)| *class)
}

//! Errors of AWS calls, and what each code means.

use std::time::Duration;

use fleetwright_core::cloud::CloudError;

/// A refusal, or a failure in transit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct AwsError {
    /// The code, such as `InsufficientInstanceCapacity`. The adapter uses [`AwsError::NO_ANSWER`] for a call without an answer.
    pub code: String,
    /// The message.
    pub message: String,
    /// The delay before the next attempt, if AWS gave one.
    pub retry_after: Option<Duration>,
}

/// What a code means to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The resource does not exist.
    NotFound,
    /// No capacity, or a quota is exhausted: another offering may have some.
    Unfulfillable,
    /// Too many requests.
    Throttled,
    /// Not authorized.
    Unauthorized,
    /// AWS has a fault, or no answer was received: the call may have had its effect.
    Unknown,
    /// Anything else: a retry does not help.
    Refused,
}

impl AwsError {
    /// The code of a call that was sent and got no answer.
    pub const NO_ANSWER: &'static str = "NoAnswer";

    /// An error of `code`.
    #[must_use]
    pub fn new(code: &str, message: &str) -> Self {
        Self { code: code.to_owned(), message: message.to_owned(), retry_after: None }
    }

    /// What the error means.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        if self.is_image_denied() { ErrorClass::Refused } else { classify(&self.code) }
    }

    /// Whether the account may not launch the image: its owner does not share it, or its Marketplace product needs a subscription. EC2
    /// uses codes of rejected credentials for both.
    #[must_use]
    pub fn is_image_denied(&self) -> bool {
        match self.code.as_str() {
            "AuthFailure" => self.message.contains("Not authorized for images"),
            "OptInRequired" => self.message.contains("Marketplace"),
            _ => false,
        }
    }

    /// Converts this error of `action` to the provider API's.
    #[must_use]
    pub fn to_cloud_error(&self, action: &str) -> CloudError {
        match self.class() {
            ErrorClass::NotFound => CloudError::NotFound(self.to_string().into()),
            ErrorClass::Throttled => CloudError::RateLimited { after: self.wait() },
            ErrorClass::Unauthorized => CloudError::Unauthorized { action: action.into() },
            ErrorClass::Unfulfillable | ErrorClass::Unknown | ErrorClass::Refused => {
                CloudError::Unavailable(self.to_string().into())
            }
        }
    }

    /// Whether the requested resource does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.class() == ErrorClass::NotFound
    }

    /// Whether AWS rejects the caller's identity: no policy helps.
    #[must_use]
    pub fn is_unidentified(&self) -> bool {
        UNIDENTIFIED.contains(&self.code.as_str()) && !self.is_image_denied()
    }

    /// Whether EC2 has seen the call's token before, with other parameters or for an instance that was terminated since: this call did
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
/// Codes for expired, wrong or missing credentials, whatever their permissions.
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
/// Codes for a token that was used for another request.
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
pub fn classify(code: &str) -> ErrorClass {
    let table: [(&[&str], ErrorClass); 7] = [
        (&NOT_FOUND, ErrorClass::NotFound),
        (&UNFULFILLABLE, ErrorClass::Unfulfillable),
        (&THROTTLED, ErrorClass::Throttled),
        (&UNAUTHORIZED, ErrorClass::Unauthorized),
        (&UNIDENTIFIED, ErrorClass::Unauthorized),
        (&UNKNOWN, ErrorClass::Unknown),
        (&REPEATED, ErrorClass::Unknown),
    ];
    table.iter().find(|(codes, _)| codes.contains(&code)).map_or(ErrorClass::Refused, |(_, class)| *class)
}

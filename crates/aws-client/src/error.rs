//! Converts errors of the SDK to the one error type that decisions depend on.

use std::time::Duration;

use aws_sdk_ec2::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use fleetwright_aws::calls::AwsError;

/// The code of a request that was not sent because it was built incorrectly.
const NOT_SENT: &str = "InvalidRequest";
/// The code of a request without credentials.
const NO_CREDENTIALS: &str = "AuthFailure";

/// AWS' error, or the reason for a missing answer.
pub(crate) fn of<E>(error: SdkError<E>) -> AwsError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    match &error {
        SdkError::ServiceError(context) => {
            let refusal = context.err();
            let seconds = context.raw().headers().get("retry-after").and_then(|value| value.parse().ok());
            AwsError {
                // Without a code, only the status is known.
                code: refusal
                    .code()
                    .map_or_else(|| of_status(context.raw().status().as_u16()), str::to_owned),
                message: refusal.message().unwrap_or_default().to_owned(),
                retry_after: seconds.map(Duration::from_secs),
            }
        }
        SdkError::ConstructionFailure(_) => AwsError::new(NOT_SENT, &with_causes(&error)),
        SdkError::DispatchFailure(failure) => {
            let message = with_causes(&error);
            // Without credentials the connector is never called: an early retry does not help.
            let no_credentials = failure.as_connector_error().is_none_or(|failure| failure.is_other())
                && message.contains("credentials");
            AwsError::new(if no_credentials { NO_CREDENTIALS } else { AwsError::NO_ANSWER }, &message)
        }
        // A timeout, an unreadable answer, or a variant that the SDK adds later.
        _ => AwsError::new(AwsError::NO_ANSWER, &with_causes(&error)),
    }
}

/// The error with all its causes.
fn with_causes<E: std::error::Error + Send + Sync + 'static>(error: &SdkError<E>) -> String {
    DisplayErrorContext(error).to_string()
}

/// A code for an answer without one.
fn of_status(status: u16) -> String {
    match status {
        429 => "TooManyRequestsException",
        401 | 403 => "AccessDenied",
        500.. => "InternalError",
        _ => "Refused",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    //! The code of an answer without one.
    use fleetwright_aws::calls::{ErrorClass, classify};

    use super::*;

    #[test]
    fn a_status_alone_determines_the_class() {
        for (status, class) in [
            (400, ErrorClass::Refused),
            (403, ErrorClass::Unauthorized),
            (429, ErrorClass::Throttled),
            (500, ErrorClass::Unknown),
            (503, ErrorClass::Unknown),
        ] {
            assert_eq!(classify(&of_status(status)), class, "{status}");
        }
        assert_eq!(classify(NO_CREDENTIALS), ErrorClass::Unauthorized);
        assert_eq!(classify(NOT_SENT), ErrorClass::Refused);
    }
}

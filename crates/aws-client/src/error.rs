//! What the SDK reports, as the one error that decisions are made from.

use std::time::Duration;

use aws_sdk_ec2::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use fleetwright_aws::calls::AwsError;

/// The code of a request that never left: the adapter built it wrongly.
const NOT_SENT: &str = "InvalidRequest";
/// The code of a request that no credentials were found for.
const NO_CREDENTIALS: &str = "AuthFailure";

/// The refusal that AWS answered with, or what kept an answer from coming.
pub(crate) fn of<E>(error: SdkError<E>) -> AwsError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    match &error {
        SdkError::ServiceError(context) => {
            let refusal = context.err();
            let seconds = context.raw().headers().get("retry-after").and_then(|value| value.parse().ok());
            AwsError {
                // An answer without a code tells no more than its status does.
                code: refusal
                    .code()
                    .map_or_else(|| of_status(context.raw().status().as_u16()), str::to_owned),
                message: refusal.message().unwrap_or_default().to_owned(),
                retry_after: seconds.map(Duration::from_secs),
            }
        }
        SdkError::ConstructionFailure(_) => AwsError::new(NOT_SENT, &told(&error)),
        SdkError::DispatchFailure(failure) => {
            let message = told(&error);
            // The connector was never asked where an identity is missing: repeating soon does not help.
            let nobody = failure.as_connector_error().is_none_or(|failure| failure.is_other())
                && message.contains("credentials");
            AwsError::new(if nobody { NO_CREDENTIALS } else { AwsError::NO_ANSWER }, &message)
        }
        // A timeout, an answer that could not be read, or something that the SDK will know one day.
        _ => AwsError::new(AwsError::NO_ANSWER, &told(&error)),
    }
}

/// The error with all that caused it.
fn told<E: std::error::Error + Send + Sync + 'static>(error: &SdkError<E>) -> String {
    DisplayErrorContext(error).to_string()
}

/// A code for an answer that names none.
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
    //! Which code an answer without one gets.
    use fleetwright_aws::calls::{Class, classify};

    use super::*;

    #[test]
    fn a_status_alone_tells_the_class() {
        for (status, class) in [
            (400, Class::Refused),
            (403, Class::Unauthorized),
            (429, Class::Throttled),
            (500, Class::Unknown),
            (503, Class::Unknown),
        ] {
            assert_eq!(classify(&of_status(status)), class, "{status}");
        }
        assert_eq!(classify(NO_CREDENTIALS), Class::Unauthorized);
        assert_eq!(classify(NOT_SENT), Class::Refused);
    }
}

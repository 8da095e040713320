//! The provider's metrics, under Karpenter's names if Karpenter has the figure. They are recorded where they occur and exposed by a loop.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fleetwright_core::cloud::{Figure, FigureFamily, FigureShape};

use crate::calls::{AwsError, ErrorClass};

const fn family(
    name: &'static str,
    labels: &'static [&'static str],
    shape: FigureShape,
    help: &'static str,
) -> FigureFamily {
    FigureFamily::new(name, help, labels, shape)
}

const SIZES: &[f64] =
    &[1.0, 2.0, 4.0, 5.0, 10.0, 15.0, 20.0, 25.0, 50.0, 75.0, 100.0, 200.0, 300.0, 500.0, 1000.0];
const SECONDS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0, 120.0, 150.0, 300.0, 450.0, 600.0,
];

/// Buckets of request durations, from 10 ms to 22 s, each 1.5 times the one before: those of the library that Karpenter uses.
const REQUEST_SECONDS: &[f64] = &[
    0.01, 0.015, 0.0225, 0.03375, 0.050625, 0.075938, 0.113906, 0.170859, 0.256289, 0.384434, 0.57665,
    0.864976, 1.297463, 1.946195, 2.919293, 4.378939, 6.568408, 9.852613, 14.778919, 22.168378,
];
const RETRIES: &[f64] = &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];

/// Labels of requests: the service as the SDK names it, the operation, the status of the answer.
const REQUEST: &[&str] = &["service", "action", "code"];

/// Errors of fleets.
pub static LAUNCH_FAILURES: FigureFamily = family(
    "karpenter_cloudprovider_instance_launch_failures_total",
    &["zone", "zone_id", "capacity_type", "reason"],
    FigureShape::Counter,
    "Number of errors that EC2 returned for the overrides of a fleet, including fleets of which another override succeeded",
);
/// Refused terminations.
pub static TERMINATION_FAILURES: FigureFamily = family(
    "karpenter_cloudprovider_instance_termination_failures_total",
    &["zone", "zone_id"],
    FigureShape::Counter,
    "Number of instance terminations that EC2 refused",
);
/// How long the first call of a batch waited.
pub static BATCH_TIME: FigureFamily = family(
    "karpenter_cloudprovider_batcher_batch_time_seconds",
    &["batcher"],
    FigureShape::Histogram(SECONDS),
    "Duration of the batching window of calls for single instances, by batcher",
);
/// Batch sizes.
pub static BATCH_SIZE: FigureFamily = family(
    "karpenter_cloudprovider_batcher_batch_size",
    &["batcher"],
    FigureShape::Histogram(SIZES),
    "Number of instances in one batched call, by batcher",
);
/// Received messages.
pub static MESSAGES_RECEIVED: FigureFamily = family(
    "karpenter_interruption_received_messages_total",
    &["message_type"],
    FigureShape::Counter,
    "Number of messages of the interruption queue that were read, each once, by what they announce; whose instances they are about does \
     not matter",
);
/// Deleted messages.
pub static MESSAGES_DELETED: FigureFamily = family(
    "karpenter_interruption_deleted_messages_total",
    &[],
    FigureShape::Counter,
    "Number of messages deleted from the interruption queue",
);
/// The age of messages.
pub static MESSAGE_AGE: FigureFamily = family(
    "karpenter_interruption_message_queue_duration_seconds",
    &[],
    FigureShape::Histogram(SECONDS),
    "Age of messages about instances in the interruption queue when they were first read",
);
/// Unreadable messages.
pub static MESSAGES_UNREADABLE: FigureFamily = family(
    "fleetwright_aws_unreadable_messages_total",
    &[],
    FigureShape::Counter,
    "Number of messages of the interruption queue that are not events; they are deleted",
);
/// Prices that await confirmation.
pub static PRICES_DOUBTED: FigureFamily = family(
    "fleetwright_aws_doubtful_prices_total",
    &[],
    FigureShape::Counter,
    "Number of prices that differed from the previous one by more than a factor of ten; such a price is used once AWS reports it again",
);
/// Impaired instances.
pub static UNHEALTHY: FigureFamily = family(
    "karpenter_interruption_instance_status_unhealthy_total",
    &["category"],
    FigureShape::Counter,
    "Number of instances of NodeClaims that were found impaired or have a scheduled event that ends their use, by cause",
);
/// The size of user data.
pub static USER_DATA: FigureFamily = family(
    "karpenter_ec2nodeclasses_userdata_bytes",
    &["nodeclass"],
    FigureShape::Gauge,
    "Size of the last user data written for an EC2NodeClass, in bytes; EC2's limit is 16384",
);
/// Resources of another cluster of the same name.
pub static FOREIGN: FigureFamily = family(
    "fleetwright_aws_foreign_resources",
    &["resource"],
    FigureShape::Gauge,
    "Number of instances, launch templates and unused instance profiles with this cluster's name and another cluster's UID; they are \
     not changed",
);
/// Instances without an owner.
pub static UNOWNED: FigureFamily = family(
    "fleetwright_aws_unowned_instances",
    &[],
    FigureShape::Gauge,
    "Number of instances with this cluster's name that have no UID and that no NodeClaim names; they are not terminated",
);
/// Features that IAM refuses.
pub static FEATURES_OFF: FigureFamily = family(
    "fleetwright_aws_feature_off",
    &["action"],
    FigureShape::Gauge,
    "1 for each optional action that IAM refuses",
);
/// The proof of the cluster's identity.
pub static IDENTITY: FigureFamily = family(
    "fleetwright_aws_cluster_identity_proven",
    &[],
    FigureShape::Gauge,
    "1 if the cluster's certificate authority in EKS is the API server's, else 0",
);
/// All calls.
pub static CALLS: FigureFamily = family(
    "fleetwright_aws_calls_total",
    &["action", "outcome"],
    FigureShape::Counter,
    "Number of calls to AWS, by action and by the meaning of the answer's code",
);

/// Requests, retries included.
pub static REQUESTS: FigureFamily = family(
    "aws_sdk_go_request_total",
    REQUEST,
    FigureShape::Counter,
    "Number of requests to AWS, each page of a list counted separately, by the HTTP status of the last answer; 0 if there was none",
);
/// Retries of requests.
pub static REQUEST_RETRIES: FigureFamily = family(
    "aws_sdk_go_request_retry_count",
    REQUEST,
    FigureShape::Histogram(RETRIES),
    "Number of retries of a request to AWS by the SDK",
);
/// Durations of requests.
pub static REQUEST_TIME: FigureFamily = family(
    "aws_sdk_go_request_duration_seconds",
    REQUEST,
    FigureShape::Histogram(REQUEST_SECONDS),
    "Duration of requests to AWS, including retries and the delays between them",
);
/// Attempts, each retry counted.
pub static ATTEMPTS: FigureFamily = family(
    "aws_sdk_go_request_attempt_total",
    REQUEST,
    FigureShape::Counter,
    "Number of attempts at requests to AWS, by the HTTP status of each answer; 0 if there was none",
);
/// Durations of attempts.
pub static ATTEMPT_TIME: FigureFamily = family(
    "aws_sdk_go_request_attempt_duration_seconds",
    REQUEST,
    FigureShape::Histogram(REQUEST_SECONDS),
    "Duration of single attempts at requests to AWS",
);

/// All metric families, by name.
#[must_use]
pub fn all() -> Vec<&'static FigureFamily> {
    let mut all = vec![
        &LAUNCH_FAILURES,
        &TERMINATION_FAILURES,
        &BATCH_TIME,
        &BATCH_SIZE,
        &MESSAGES_RECEIVED,
        &MESSAGES_DELETED,
        &MESSAGE_AGE,
        &MESSAGES_UNREADABLE,
        &PRICES_DOUBTED,
        &UNHEALTHY,
        &USER_DATA,
        &FOREIGN,
        &UNOWNED,
        &FEATURES_OFF,
        &IDENTITY,
        &CALLS,
        &REQUESTS,
        &REQUEST_RETRIES,
        &REQUEST_TIME,
        &ATTEMPTS,
        &ATTEMPT_TIME,
    ];
    all.sort_by_key(|family| family.name);
    all
}

/// Most series and observations that are buffered: more than one interval of the loop can produce. Excess is dropped.
const WAITING_MAX: usize = 10_000;
/// Longest label value in bytes: codes come from AWS.
const LABEL_MAX: usize = 64;

/// The name of a family and the values of its labels.
type Series = (&'static str, Vec<String>);

#[derive(Debug, Default)]
struct Waiting {
    counted: BTreeMap<Series, (f64, Option<&'static FigureFamily>)>,
    seen: Vec<(Vec<String>, f64, Option<&'static FigureFamily>)>,
}

/// Figures that are not exposed yet.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Waiting>);

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a value: a counter adds it, a gauge is set to it, a histogram observes it.
    pub fn note(&self, family: &'static FigureFamily, labels: &[&str], value: f64) {
        let labels: Vec<String> =
            labels.iter().map(|label| label.chars().take(LABEL_MAX).collect()).collect();
        let mut waiting = self.lock();
        if let FigureShape::Histogram(_) = family.shape {
            if waiting.seen.len() < WAITING_MAX {
                waiting.seen.push((labels, value, Some(family)));
            }
            return;
        }
        let key = (family.name, labels);
        if waiting.counted.len() >= WAITING_MAX && !waiting.counted.contains_key(&key) {
            return;
        }
        let (sum, of) = waiting.counted.entry(key).or_default();
        *of = Some(family);
        *sum = if family.shape == FigureShape::Gauge { value } else { *sum + value };
    }

    /// Counts a call by its result.
    pub fn call<T>(&self, action: &'static str, answer: Result<T, AwsError>) -> Result<T, AwsError> {
        let outcome = match &answer {
            Ok(_) => "ok",
            Err(error) => match error.class() {
                ErrorClass::NotFound => "not_found",
                ErrorClass::Unfulfillable => "unfulfillable",
                ErrorClass::Throttled => "throttled",
                ErrorClass::Unauthorized => "unauthorized",
                ErrorClass::Unknown => "unknown",
                ErrorClass::Refused => "refused",
            },
        };
        self.note(&CALLS, &[action, outcome], 1.0);
        answer
    }

    /// Takes the figures that were recorded since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<Figure> {
        let Waiting { counted, seen } = std::mem::take(&mut *self.lock());
        let counted = counted.into_iter().map(|((_, labels), (value, family))| (labels, value, family));
        let figure = |(labels, value, family): (Vec<String>, f64, Option<&'static FigureFamily>)| {
            let labels = labels.iter().map(|label| label.as_str().into()).collect();
            Some(Figure::new(family?, labels, Some(value)))
        };
        counted.chain(seen).filter_map(figure).collect()
    }
}

#[cfg(test)]
mod tests;

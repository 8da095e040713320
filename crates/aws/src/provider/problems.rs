//! Features that do not work at the moment, by cause. Each cause is in a condition of every class that nothing depends on, and actions
//! that IAM denies are in metrics as well. Everything else keeps working.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fleetwright_aws_api::ec2nodeclass::condition;
use fleetwright_core::cloud::{CloudError, Notice};
use jiff::{SignedDuration, Timestamp};

use super::classes::{Classes, KnownClass, object};
use crate::calls::{AwsError, ErrorClass};
use crate::nodeclass::{ConditionResult, conditions};
use crate::permissions;
use crate::recent::is_recent;

/// How long a call must fail before it is reported; a minute of throttling is not.
const FAILING_FOR: SignedDuration = SignedDuration::from_mins(5);
/// How long an occurrence is reported after it happened last.
const REPORTED_FOR: SignedDuration = SignedDuration::from_hours(1);
/// Most classes that get an event about all of them.
const CLASSES_MAX: usize = 20;
/// Most causes in one message; there are not many more calls.
const CAUSES_MAX: usize = 10;

/// Why something does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// IAM denies the call, or AWS does not accept the credentials.
    Denied,
    /// AWS does not answer, or returns another error.
    Failing,
    /// An occurrence with this reason.
    Occurred(&'static str),
}

#[derive(Clone, Debug)]
struct Problem {
    cause: Cause,
    /// Contains nothing that differs from call to call.
    message: String,
    since: Timestamp,
    last: Timestamp,
}

/// The problems by IAM action or subject.
#[derive(Clone, Debug, Default)]
struct ProblemList(BTreeMap<&'static str, Problem>);

impl ProblemList {
    /// Keeps message and start of a problem that persists, so that its condition does not change.
    fn note(&mut self, subject: &'static str, cause: Cause, message: String, now: Timestamp) {
        let fresh = Problem { cause, message, since: now, last: now };
        let problem = self.0.entry(subject).or_insert_with(|| fresh.clone());
        let recent =
            problem.last <= now && (cause == Cause::Failing || is_recent(problem.last, now, REPORTED_FOR));
        if problem.cause == cause && recent {
            problem.last = now;
        } else {
            *problem = fresh;
        }
    }

    fn denied(&mut self, action: &'static str, error: &AwsError, now: Timestamp) {
        self.note(action, Cause::Denied, permissions::refusal(action, error), now);
    }

    fn failed(&mut self, action: &'static str, error: &AwsError, now: Timestamp) {
        let outcome = match error.class() {
            ErrorClass::Throttled | ErrorClass::Unknown => "is not answered",
            _ => "is refused",
        };
        self.note(action, Cause::Failing, format!("{action} {outcome}: {}", error.code), now);
    }

    fn occurred(
        &mut self,
        subject: &'static str,
        reason: &'static str,
        message: String,
        now: Timestamp,
    ) -> String {
        self.note(subject, Cause::Occurred(reason), message, now);
        self.0.get(subject).map(|problem| problem.message.clone()).unwrap_or_default()
    }

    fn resolved(&mut self, action: &'static str) {
        self.0.remove(action);
    }

    fn denials(&self) -> BTreeMap<&'static str, Timestamp> {
        let denied = self.0.iter().filter(|(_, problem)| problem.cause == Cause::Denied);
        denied.map(|(action, problem)| (*action, problem.last)).collect()
    }

    /// The reason of the first problem and the messages of all.
    fn summary(&self, now: Timestamp) -> Option<(&'static str, String)> {
        let is_reported = |problem: &&Problem| match problem.cause {
            Cause::Denied => true,
            Cause::Failing => now.duration_since(problem.since) >= FAILING_FOR,
            Cause::Occurred(_) => is_recent(problem.last, now, REPORTED_FOR),
        };
        let all: Vec<&Problem> = self.0.values().filter(is_reported).collect();
        let reason = match all.first()?.cause {
            Cause::Denied => conditions::UNAUTHORIZED,
            Cause::Failing => conditions::LOOKUP_FAILED,
            Cause::Occurred(reason) => reason,
        };
        let messages: Vec<&str> =
            all.iter().take(CAUSES_MAX).map(|problem| problem.message.as_str()).collect();
        Some((reason, messages.join("; ")))
    }
}

/// The problems of a provider, and the classes that report them.
pub(super) struct Problems {
    classes: Classes,
    list: Mutex<ProblemList>,
}

impl Problems {
    pub(super) fn new(classes: Classes) -> Self {
        Self { classes, list: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, ProblemList> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// IAM denies a call.
    pub(super) fn denied(&self, action: &'static str, error: &AwsError, now: Timestamp) {
        self.lock().denied(action, error, now);
    }

    /// A call fails for another reason.
    pub(super) fn failed(&self, action: &'static str, error: &AwsError, now: Timestamp) {
        self.lock().failed(action, error, now);
    }

    /// A call succeeds again.
    pub(super) fn resolved(&self, action: &'static str) {
        self.lock().resolved(action);
    }

    /// Records an occurrence that needs attention. Returns the message under which it is reported: the first one.
    pub(super) fn record(
        &self,
        subject: &'static str,
        reason: &'static str,
        message: String,
        now: Timestamp,
    ) -> String {
        self.lock().occurred(subject, reason, message, now)
    }

    /// The actions that IAM denies, and when it did last.
    pub(super) fn denials(&self) -> BTreeMap<&'static str, Timestamp> {
        self.lock().denials()
    }

    /// Records whether a call succeeded. `Ok(Err(_))` are the events of a call that IAM denies, with the statement that allows it.
    pub(super) fn permitted<T>(
        &self,
        action: &'static str,
        answer: Result<T, AwsError>,
        now: Timestamp,
    ) -> Result<Result<T, Vec<Notice>>, CloudError> {
        match answer {
            Ok(answer) => {
                self.resolved(action);
                Ok(Ok(answer))
            }
            Err(error) if error.class() == ErrorClass::Unauthorized => {
                self.denied(action, &error, now);
                let message = permissions::refusal(action, &error);
                Ok(Err(self.notices(conditions::UNAUTHORIZED, &message)))
            }
            Err(error) => {
                self.failed(action, &error, now);
                Err(error.to_cloud_error(action))
            }
        }
    }

    /// Records an occurrence, and returns events about it for the classes.
    pub(super) fn report(
        &self,
        subject: &'static str,
        reason: &'static str,
        message: String,
        now: Timestamp,
    ) -> Vec<Notice> {
        let message = self.record(subject, reason, message, now);
        self.notices(reason, &message)
    }

    /// Events about the provider as a whole, for its classes.
    pub(super) fn notices(&self, reason: &'static str, message: &str) -> Vec<Notice> {
        let classes = self.classes.all().unwrap_or_default();
        let notice = |known: &KnownClass| Notice::warning(object(&known.class), reason, message);
        classes.values().take(CLASSES_MAX).map(|known| notice(known)).collect()
    }

    /// The finding for the condition `FeaturesAvailable`: `None` if every feature works and the class has no such condition.
    pub(super) fn finding(&self, now: Timestamp, has_condition: bool) -> Option<ConditionResult> {
        const CONDITION: &str = condition::FEATURES_AVAILABLE;
        match self.lock().summary(now) {
            Some((reason, message)) => Some(ConditionResult::bad(CONDITION, reason, message)),
            None => has_condition.then(|| ConditionResult::good(CONDITION)),
        }
    }
}

#[cfg(test)]
mod tests {
    //! What is reported, from when, and for how long.
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
    }

    #[test]
    fn denials_are_reported_at_once_and_failures_after_five_minutes() {
        let mut problems = ProblemList::default();
        problems.failed("pricing:GetProducts", &AwsError::new("ThrottlingException", "1"), at(0));
        assert_eq!(problems.summary(at(4)), None);
        problems.failed("pricing:GetProducts", &AwsError::new("InternalError", "2"), at(4));
        let expected =
            ("LookupFailed", "pricing:GetProducts is not answered: ThrottlingException".to_owned());
        assert_eq!(problems.summary(at(5)), Some(expected), "from the first failure, with its message");
        problems.denied("ec2:CreateTags", &AwsError::new("AccessDenied", "no"), at(6));
        let (reason, message) = problems.summary(at(6)).unwrap();
        assert!(reason == "Unauthorized" && message.contains("; pricing:GetProducts"), "{message}");
        assert_eq!(problems.denials(), [("ec2:CreateTags", at(6))].into());
        problems.resolved("ec2:CreateTags");
        problems.resolved("pricing:GetProducts");
        assert_eq!(problems.summary(at(60)), None);
    }

    #[test]
    fn an_occurrence_is_reported_for_an_hour_in_the_same_words() {
        let mut problems = ProblemList::default();
        problems.occurred("queue", "UnreadableMessages", "first".to_owned(), at(0));
        let message = problems.occurred("queue", "UnreadableMessages", "second".to_owned(), at(30));
        assert_eq!(message, "first");
        assert_eq!(problems.summary(at(89)), Some(("UnreadableMessages", "first".to_owned())));
        assert_eq!(problems.summary(at(90)), None);
        problems.occurred("queue", "UnreadableMessages", "third".to_owned(), at(200));
        assert_eq!(problems.summary(at(200)), Some(("UnreadableMessages", "third".to_owned())));
    }

    /// A clock that is set back restarts the interval.
    #[test]
    fn a_clock_that_jumps_back_restarts_the_interval() {
        let mut problems = ProblemList::default();
        problems.failed("sqs:ReceiveMessage", &AwsError::new("InternalError", ""), at(1000));
        problems.failed("sqs:ReceiveMessage", &AwsError::new("InternalError", ""), at(0));
        assert!(problems.summary(at(4)).is_none() && problems.summary(at(5)).is_some());
    }
}

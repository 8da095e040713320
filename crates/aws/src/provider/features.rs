//! What the provider cannot do at the moment, cause by cause. Each cause stands in a condition of every class, which nothing depends
//! on, and what IAM refuses stands in metrics as well; the rest works on.

use std::collections::BTreeMap;

use fleetwright_aws_api::ec2nodeclass::condition;
use fleetwright_core::cloud::{CloudError, Notice};
use jiff::{SignedDuration, Timestamp};

use super::{AwsProvider, Known, steps};
use crate::calls::{AwsError, Class};
use crate::nodeclass::{Finding, conditions};
use crate::permissions;
use crate::recent::is_recent;

/// How long a call must have failed before it is told of: a minute of throttling is nobody's business.
const FAILING_FOR: SignedDuration = SignedDuration::from_mins(5);
/// For how long something that happened is told of after it has happened last.
const TOLD_FOR: SignedDuration = SignedDuration::from_hours(1);
/// Most classes that are told of what concerns all of them.
const TOLD_MAX: usize = 20;
/// Most causes that one message names; there are not many more calls.
const NAMED_MAX: usize = 10;

/// Why something is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// IAM refuses it, or AWS does not accept the credentials.
    Refused,
    /// AWS does not answer, or answers with something else than what was asked for.
    Failing,
    /// It was met: one occasion, which is told of for a while.
    Met(&'static str),
}

#[derive(Clone, Debug)]
struct Trouble {
    why: Why,
    /// Nothing that differs from call to call.
    message: String,
    since: Timestamp,
    last: Timestamp,
}

/// What is off, by the call or the thing that is.
#[derive(Clone, Debug, Default)]
pub(super) struct Troubles(BTreeMap<&'static str, Trouble>);

impl Troubles {
    /// IAM refuses a call.
    pub(super) fn refused(&mut self, action: &'static str, error: &AwsError, now: Timestamp) {
        self.note(action, Why::Refused, permissions::refusal(action, error), now);
    }

    /// A call goes wrong for another reason.
    pub(super) fn failed(&mut self, action: &'static str, error: &AwsError, now: Timestamp) {
        let what = match error.class() {
            Class::Throttled | Class::Unknown => "is not answered",
            _ => "is refused",
        };
        self.note(action, Why::Failing, format!("{action} {what}: {}", error.code), now);
    }

    /// Something was met that people should look at. Returns the words in which it is told.
    pub(super) fn met(
        &mut self,
        thing: &'static str,
        reason: &'static str,
        message: String,
        now: Timestamp,
    ) -> String {
        self.note(thing, Why::Met(reason), message, now);
        self.0.get(thing).map(|trouble| trouble.message.clone()).unwrap_or_default()
    }

    /// A call is answered again.
    pub(super) fn over(&mut self, action: &'static str) {
        self.0.remove(action);
    }

    /// What is the same trouble keeps its words and its beginning, so that nothing is written again for it.
    fn note(&mut self, thing: &'static str, why: Why, message: String, now: Timestamp) {
        let fresh = Trouble { why, message, since: now, last: now };
        let trouble = self.0.entry(thing).or_insert_with(|| fresh.clone());
        let recent = trouble.last <= now && (why == Why::Failing || is_recent(trouble.last, now, TOLD_FOR));
        if trouble.why == why && recent {
            trouble.last = now;
        } else {
            *trouble = fresh;
        }
    }

    /// The calls that IAM refuses, and when it did last.
    pub(super) fn refusals(&self) -> BTreeMap<&'static str, Timestamp> {
        let refused = self.0.iter().filter(|(_, trouble)| trouble.why == Why::Refused);
        refused.map(|(action, trouble)| (*action, trouble.last)).collect()
    }

    /// What people are told: the first reason, and every message.
    fn told(&self, now: Timestamp) -> Option<(&'static str, String)> {
        let lasts = |trouble: &&Trouble| match trouble.why {
            Why::Refused => true,
            Why::Failing => now.duration_since(trouble.since) >= FAILING_FOR,
            Why::Met(_) => is_recent(trouble.last, now, TOLD_FOR),
        };
        let all: Vec<&Trouble> = self.0.values().filter(lasts).collect();
        let reason = match all.first()?.why {
            Why::Refused => conditions::UNAUTHORIZED,
            Why::Failing => conditions::LOOKUP_FAILED,
            Why::Met(reason) => reason,
        };
        let messages: Vec<&str> =
            all.iter().take(NAMED_MAX).map(|trouble| trouble.message.as_str()).collect();
        Some((reason, messages.join("; ")))
    }
}

impl AwsProvider {
    /// What IAM refuses that the rest works without: actions, with the time of the last refusal.
    #[must_use]
    pub fn features_off(&self) -> BTreeMap<&'static str, Timestamp> {
        self.state().troubles.refusals()
    }

    /// Whether an action is allowed and answered. Where it is not allowed, every class is told which statement gives it; for other
    /// failures the error comes back.
    pub(super) fn permitted<T>(
        &self,
        action: &'static str,
        answer: Result<T, AwsError>,
        now: Timestamp,
    ) -> Result<Result<T, Vec<Notice>>, CloudError> {
        match answer {
            Ok(answer) => {
                self.state().troubles.over(action);
                Ok(Ok(answer))
            }
            Err(error) if error.class() == Class::Unauthorized => {
                self.state().troubles.refused(action, &error, now);
                Ok(Err(self.tell_classes(conditions::UNAUTHORIZED, &permissions::refusal(action, &error))))
            }
            Err(error) => {
                self.state().troubles.failed(action, &error, now);
                Err(error.to_cloud_error(action))
            }
        }
    }

    /// Takes note of something that people should look at, and tells them at the classes, in the words in which it was told first.
    pub(super) fn met(
        &self,
        thing: &'static str,
        reason: &'static str,
        message: String,
        now: Timestamp,
    ) -> Vec<Notice> {
        let told = self.state().troubles.met(thing, reason, message, now);
        self.tell_classes(reason, &told)
    }

    /// Tells people something that concerns the provider as a whole, at its classes.
    pub(super) fn tell_classes(&self, reason: &'static str, message: &str) -> Vec<Notice> {
        let notice = |known: &Known| Notice {
            object: steps::object(&known.class),
            warning: true,
            reason,
            message: message.into(),
        };
        self.classes.all().iter().take(TOLD_MAX).map(notice).collect()
    }

    /// Whether everything that is switched on works, for the condition of that name: `None` where all does, and always did as far
    /// as the class says.
    pub(super) fn features(&self, now: Timestamp, known: bool) -> Option<Finding> {
        const CONDITION: &str = condition::FEATURES_AVAILABLE;
        match self.state().troubles.told(now) {
            Some((reason, message)) => Some(Finding::bad(CONDITION, reason, message)),
            None => known.then(|| Finding::good(CONDITION)),
        }
    }
}

#[cfg(test)]
mod tests {
    //! What is told, from when on, and for how long.
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
    }

    #[test]
    fn refusals_are_told_at_once_and_failures_after_a_while() {
        let mut troubles = Troubles::default();
        troubles.failed("pricing:GetProducts", &AwsError::new("ThrottlingException", "1"), at(0));
        assert_eq!(troubles.told(at(4)), None);
        troubles.failed("pricing:GetProducts", &AwsError::new("InternalError", "2"), at(4));
        let told = ("LookupFailed", "pricing:GetProducts is not answered: ThrottlingException".to_owned());
        assert_eq!(troubles.told(at(5)), Some(told), "from the first failure, in its words");
        troubles.refused("ec2:CreateTags", &AwsError::new("AccessDenied", "no"), at(6));
        let (reason, message) = troubles.told(at(6)).unwrap();
        assert!(reason == "Unauthorized" && message.contains("; pricing:GetProducts"), "{message}");
        assert_eq!(troubles.refusals(), [("ec2:CreateTags", at(6))].into());
        troubles.over("ec2:CreateTags");
        troubles.over("pricing:GetProducts");
        assert_eq!(troubles.told(at(60)), None);
    }

    #[test]
    fn what_was_met_is_told_for_an_hour_in_the_same_words() {
        let mut troubles = Troubles::default();
        troubles.met("queue", "UnreadableMessages", "first".to_owned(), at(0));
        let words = troubles.met("queue", "UnreadableMessages", "second".to_owned(), at(30));
        assert_eq!(words, "first");
        assert_eq!(troubles.told(at(89)), Some(("UnreadableMessages", "first".to_owned())));
        assert_eq!(troubles.told(at(90)), None);
        troubles.met("queue", "UnreadableMessages", "third".to_owned(), at(200));
        assert_eq!(troubles.told(at(200)), Some(("UnreadableMessages", "third".to_owned())));
    }

    /// A clock that is set back puts nothing into a future that lasts.
    #[test]
    fn a_clock_that_jumps_back_begins_again() {
        let mut troubles = Troubles::default();
        troubles.failed("sqs:ReceiveMessage", &AwsError::new("InternalError", ""), at(1000));
        troubles.failed("sqs:ReceiveMessage", &AwsError::new("InternalError", ""), at(0));
        assert!(troubles.told(at(4)).is_none() && troubles.told(at(5)).is_some());
    }
}

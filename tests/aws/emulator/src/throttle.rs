//! Request throttling by EC2's token buckets: "Request rate limiting: each API is evaluated individually […]. Each request that you make removes
//! one token from the API's bucket." "Resource rate limiting: some API actions, such as RunInstances and TerminateInstances, use resource rate
//! limiting in addition" (<https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html>).

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::call::{Call, groups};

/// Size, and tokens per second.
pub type Limit = (u32, u32);

/// Most non-mutating actions.
const NON_MUTATING: Limit = (100, 20);
/// "Unfiltered and unpaginated non-mutating actions": neither `MaxResults` nor a filter.
const UNFILTERED: Limit = (50, 10);
/// Mutating actions that have no row of their own.
const MUTATING: Limit = (50, 5);
/// Rows of the table for single actions.
const SINGLE: [(&str, Limit); 3] =
    [("RunInstances", (5, 2)), ("TerminateInstances", (100, 5)), ("CreateTags", (100, 10))];
/// The bucket of instances that are launched, by fleets too.
pub(crate) const LAUNCHES: &str = "RunInstances/instances";
/// Its size and refill.
const LAUNCHED: Limit = (1000, 2);
/// Instances that are terminated.
const TERMINATED: Limit = (1000, 20);

/// The buckets of an account in a region. Unlike ours they count in fractions, so that a test of one does not repeat the other.
#[derive(Clone, Debug, Default)]
pub struct Buckets {
    /// Tokens in millionths, and when they were counted.
    by_name: BTreeMap<String, (u64, Timestamp)>,
}

impl Buckets {
    /// Takes at most `wanted` tokens of a bucket; how many there were.
    fn take(&mut self, name: &str, (size, per_second): Limit, wanted: u32, now: Timestamp) -> u32 {
        const ONE: u64 = 1_000_000;
        let full = u64::from(size) * ONE;
        let (tokens, counted) = self.by_name.get(name).copied().unwrap_or((full, now));
        let micros = u64::try_from(now.duration_since(counted).as_micros()).unwrap_or_default();
        let tokens = tokens.saturating_add(micros.saturating_mul(u64::from(per_second))).min(full);
        let taken = u32::try_from(tokens / ONE).unwrap_or(u32::MAX).min(wanted);
        self.by_name.insert(name.to_owned(), (tokens - u64::from(taken) * ONE, now));
        taken
    }

    /// Whether a call has its tokens; without them it takes none.
    pub fn admits(&mut self, call: &Call, now: Timestamp) -> bool {
        let action = call.action.as_str();
        let own = SINGLE.iter().find(|(name, _)| *name == action).map(|(_, limit)| *limit);
        let limit = own.unwrap_or_else(|| {
            if !action.starts_with("Describe") {
                MUTATING
            } else if call.params.contains_key("MaxResults") || !groups(&call.params, "Filter.").is_empty() {
                NON_MUTATING
            } else {
                UNFILTERED
            }
        });
        if self.take(action, limit, 1, now) == 0 {
            return false;
        }
        if action != "TerminateInstances" {
            return true;
        }
        let ids = call.params.keys().filter(|key| key.starts_with("InstanceId.")).count();
        let wanted = u32::try_from(ids).unwrap_or(u32::MAX);
        let before = self.by_name.clone();
        let admitted = self.take("TerminateInstances/instances", TERMINATED, wanted, now) == wanted;
        if !admitted {
            self.by_name = before;
        }
        admitted
    }

    /// Takes the tokens of instances that other tools of the account launch: "We throttle Amazon EC2 API requests for each AWS account on a
    /// per-Region basis." (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/query-api-troubleshooting.html>)
    #[must_use]
    pub fn after_launches_of_others(mut self, count: u32, now: Timestamp) -> Self {
        self.take(LAUNCHES, LAUNCHED, count, now);
        self
    }

    /// How many of `wanted` instances may be launched now.
    pub fn launches(&mut self, wanted: u32, now: Timestamp) -> u32 {
        self.take(LAUNCHES, LAUNCHED, wanted, now)
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::call::decode;

    fn call(action: &str, form: &str) -> Call {
        Call { service: "ec2".to_owned(), action: action.to_owned(), params: decode(form), ..Call::default() }
    }

    fn admitted(buckets: &mut Buckets, call: &Call, tries: usize, at: i64) -> usize {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(at);
        (0..tries).filter(|_| buckets.admits(call, now)).count()
    }

    /// "The bucket size for DescribeHosts, a non-mutating API action, is 100 tokens and the refill rate is 20 tokens per second. If you make 100
    /// DescribeHosts requests in one second, the bucket is reduced to zero tokens. The bucket is then refilled by 20 tokens every second."
    #[test]
    fn buckets_refill_as_documented() {
        let mut buckets = Buckets::default();
        let hosts = call("DescribeHosts", "MaxResults=5");
        assert_eq!(admitted(&mut buckets, &hosts, 150, 0), 100);
        assert_eq!(admitted(&mut buckets, &hosts, 150, 1), 20);
        assert_eq!(admitted(&mut buckets, &hosts, 150, 3), 40);
        assert_eq!(admitted(&mut buckets, &hosts, 150, 3600), 100, "it cannot hold more than its size");
        // "You are throttled on that API […] however, requests for other API are not affected."
        assert_eq!(admitted(&mut buckets, &call("CreateFleet", ""), 60, 3600), 50);
        assert_eq!(admitted(&mut buckets, &call("RunInstances", ""), 60, 3600), 5);
        assert_eq!(admitted(&mut buckets, &call("DescribeImages", ""), 150, 3600), 50, "unfiltered");
    }

    #[test]
    fn instances_are_counted_beside_calls() {
        let mut buckets = Buckets::default();
        let form: Vec<String> = (1..=600).map(|number| format!("InstanceId.{number}=i-{number}")).collect();
        let many = call("TerminateInstances", &form.join("&"));
        assert_eq!(admitted(&mut buckets, &many, 2, 0), 1, "600 of 1,000 instances");
        assert_eq!(admitted(&mut buckets, &many, 1, 9), 0, "580 are left");
        assert_eq!(admitted(&mut buckets, &many, 1, 10), 1);
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!((buckets.launches(1200, now), buckets.launches(5, now)), (1000, 0));
        assert_eq!(buckets.launches(100, now + SignedDuration::from_secs(30)), 60);
        let mut shared = Buckets::default().after_launches_of_others(300, now);
        assert_eq!(shared.launches(1000, now), 700, "the bucket is the account's");
    }
}

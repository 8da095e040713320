//! Rate limits of mutating EC2 calls: our own token buckets, so that this controller does not exhaust the account's buckets, which other
//! tools share.
//!
//! EC2 has one bucket per call, account and region, and one for the instances of `TerminateInstances`
//! (<https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html>). The sizes and refill rates here are the defaults of
//! accounts without a quota increase, with `CreateFleet` among mutating actions. EC2 throttles an account with less, and the callers back
//! off.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fleetwright_core::clock::SharedClock;
use fleetwright_core::rate::TokenBucket;

use crate::calls::AwsError;

/// Bucket size and refill per second of mutating actions.
const MUTATING: (u32, u32) = (50, 5);
/// The same of `TerminateInstances`.
const TERMINATE: (u32, u32) = (100, 5);
/// The same of the instances in `TerminateInstances`.
const ENDED: (u32, u32) = (1000, 20);
/// The same of `CreateTags`.
const TAGS: (u32, u32) = (100, 10);
/// The longest wait for tokens. A call that would wait longer fails with the delay.
const PATIENCE: Duration = Duration::from_secs(10);

/// A rate-limited call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paced {
    /// `CreateFleet` of any size.
    Fleet,
    /// `CreateTags`. It never waits: a wait would delay the result of a launch for a tag that a loop retries anyway.
    Tags,
    /// `TerminateInstances` of this many instances.
    Terminate(usize),
}

#[derive(Clone, Copy, Debug)]
struct Buckets {
    fleet: TokenBucket,
    tags: TokenBucket,
    terminate: TokenBucket,
    ended: TokenBucket,
}

/// The token buckets of a region.
pub(crate) struct Pace {
    clock: SharedClock,
    buckets: Mutex<Buckets>,
}

impl Pace {
    pub(crate) fn new(clock: SharedClock) -> Self {
        let bucket = |(burst, per_second)| TokenBucket::new(burst, per_second);
        let buckets = Buckets {
            fleet: bucket(MUTATING),
            tags: bucket(TAGS),
            terminate: bucket(TERMINATE),
            ended: bucket(ENDED),
        };
        Self { clock, buckets: Mutex::new(buckets) }
    }

    /// Reserves the tokens of a call, including those that arrive within [`PATIENCE`]. Returns the time until the last of them arrives;
    /// if that is longer, none is reserved and the time is the error.
    fn reserve(&self, what: Paced) -> Result<Duration, Duration> {
        let now = self.clock.steady();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let mut after = *buckets;
        let (wait, patience) = match what {
            Paced::Fleet => (after.fleet.owe(now), PATIENCE),
            Paced::Tags => (after.tags.owe(now), Duration::ZERO),
            Paced::Terminate(count) => {
                let instances = (0..count).map(|_| after.ended.owe(now)).max().unwrap_or_default();
                (after.terminate.owe(now).max(instances), PATIENCE)
            }
        };
        if wait > patience {
            return Err(wait);
        }
        *buckets = after;
        Ok(wait)
    }

    /// Waits for the tokens of a call.
    ///
    /// # Errors
    /// If the tokens do not arrive in time: a throttling error with the delay until the next attempt. EC2 was not called.
    pub(crate) async fn pass(&self, what: Paced) -> Result<(), AwsError> {
        match self.reserve(what) {
            Ok(Duration::ZERO) => Ok(()),
            Ok(wait) => {
                self.clock.sleep(wait).await;
                Ok(())
            }
            Err(wait) => {
                let error =
                    AwsError::new("RequestLimitExceeded", "delayed by our rate limit: EC2 would throttle it");
                Err(AwsError { retry_after: Some(wait), ..error })
            }
        }
    }
}

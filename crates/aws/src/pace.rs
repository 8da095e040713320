//! How fast what changes anything at EC2 is asked for: token buckets of our own, so that an account's buckets, which other tools
//! draw on, are not emptied by us.
//!
//! EC2 has a bucket for each call of an account in a region, and one for what `TerminateInstances` ends
//! (<https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html>). Sizes and refills here are of the size of the defaults of
//! accounts that asked for no other, with `CreateFleet` among mutating actions. An account with less is throttled by EC2, and its
//! callers back off.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fleetwright_core::clock::SharedClock;
use fleetwright_core::rate::TokenBucket;

use crate::calls::AwsError;

/// Bucket and refill a second of mutating actions.
const MUTATING: (u32, u32) = (50, 5);
/// Those of `TerminateInstances`.
const TERMINATE: (u32, u32) = (100, 5);
/// Those of the instances that `TerminateInstances` names.
const ENDED: (u32, u32) = (1000, 20);
/// Those of `CreateTags`.
const TAGS: (u32, u32) = (100, 10);
/// How long a call waits for its token. Where it would be longer, whoever calls is told when to come back.
const PATIENCE: Duration = Duration::from_secs(10);

/// What costs tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paced {
    /// `CreateFleet`, however large.
    Fleet,
    /// `CreateTags`. Nobody waits for it: a launch would be known later for a tag that a loop writes as well.
    Tags,
    /// `TerminateInstances` of so many.
    Terminate(usize),
}

#[derive(Clone, Copy, Debug)]
struct Buckets {
    fleet: TokenBucket,
    tags: TokenBucket,
    terminate: TokenBucket,
    ended: TokenBucket,
}

/// The buckets of a region.
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

    /// Takes the tokens of a call, those that come within [`PATIENCE`] included. How long until the last of them is there; where
    /// that is longer, nothing is taken.
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
    /// As a throttled call, with the time to come back, where they are not there soon; EC2 was not asked then.
    pub(crate) async fn pass(&self, what: Paced) -> Result<(), AwsError> {
        match self.reserve(what) {
            Ok(Duration::ZERO) => Ok(()),
            Ok(wait) => {
                self.clock.sleep(wait).await;
                Ok(())
            }
            Err(wait) => {
                let error = AwsError::new("RequestLimitExceeded", "held back here: EC2 would throttle it");
                Err(AwsError { retry_after: Some(wait), ..error })
            }
        }
    }
}

//! How fast what changes anything at EC2 is asked for: token buckets of our own, so that an account's buckets, which other tools
//! draw on, are not emptied by us.
//!
//! EC2 has a bucket for each call of an account in a region, one for what `TerminateInstances` ends, and one for what is launched
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
/// Those of the instances that fleets launch: those of `RunInstances`, by which EC2 throttles what a fleet launches.
const LAUNCHED: (u32, u32) = (1000, 2);
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
    /// `CreateFleet` for so many instances.
    Fleet(usize),
    /// `CreateTags`. Nobody waits for it: a launch would be known later for a tag that a loop writes as well.
    Tags,
    /// `TerminateInstances` of so many.
    Terminate(usize),
}

#[derive(Clone, Copy, Debug)]
struct Buckets {
    fleet: TokenBucket,
    launched: TokenBucket,
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
            launched: bucket(LAUNCHED),
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
            Paced::Fleet(count) => {
                let instances = (0..count).map(|_| after.launched.owe(now)).max().unwrap_or_default();
                (after.fleet.owe(now).max(instances), PATIENCE)
            }
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

#[cfg(test)]
mod tests {
    //! What fleets launch is paced, not only how many there are.
    use std::sync::Arc;

    use futures::FutureExt as _;

    use super::*;
    use crate::batch::Batched;
    use crate::calls::{AwsApi as _, Class, FleetKind, FleetRequest, Strategy, TagSet};
    use crate::testing::FakeAws;

    /// A clock that stands until it is set.
    struct Standing(Mutex<jiff::Timestamp>);

    impl fleetwright_core::clock::Clock for Standing {
        fn now(&self) -> jiff::Timestamp {
            *self.0.lock().unwrap()
        }
        fn sleep(&self, _: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(std::future::pending())
        }
    }

    /// A thousand at once and two a second; what has no token is not asked of EC2, and takes none.
    #[test]
    fn instances_that_fleets_launch_pass_a_token_bucket() {
        let clock = Arc::new(Standing(Mutex::default()));
        let cloud = Arc::new(FakeAws::new(clock.clone()));
        let batched = Batched::new(cloud.clone(), clock.clone());
        let ask = |count: usize| {
            let request = FleetRequest {
                token: cloud.count("CreateFleet").to_string(),
                count,
                kind: FleetKind::OnDemand,
                strategy: Strategy::LowestPrice,
                overrides: Vec::new(),
                tags: TagSet::new(),
                context: None,
            };
            batched.create_fleet(&request).now_or_never().map(|answer| {
                answer.err().filter(|error| error.class() == Class::Throttled).map(|error| error.wait())
            })
        };
        assert_eq!((ask(600), ask(400)), (Some(None), Some(None)));
        assert_eq!(ask(100), Some(Some(Duration::from_secs(50))));
        assert_eq!(cloud.count("CreateFleet"), 2);
        *clock.0.lock().unwrap() += jiff::SignedDuration::from_secs(50);
        assert_eq!((ask(100), cloud.count("CreateFleet")), (Some(None), 3));
        assert_eq!(ask(21), Some(Some(Duration::from_millis(10_500))));
        assert_eq!(ask(20), None, "it waits for ten seconds");
    }
}

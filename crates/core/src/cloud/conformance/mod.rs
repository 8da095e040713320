//! The suite that every [`CloudProvider`] must pass: its contract as named cases.
//!
//! A provider's tests implement [`Harness`] over their own stand-in for the cloud, and run each of [`cases`] against a
//! fresh one. The suite waits for nothing by itself: time passes when it asks the harness to let it pass.

mod catalogue;
mod launching;
mod owning;
mod support;

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;

use super::{CloudProvider, LaunchRequest};
use crate::model::{NodeClassRef, NodePool, ProviderId, Str, labels::CAPACITY_TYPE};

/// A provider under test and the cloud behind it.
#[async_trait]
pub trait Harness: Send + Sync {
    /// The provider, identified already. After [`Self::restart`] another one.
    fn provider(&self) -> Arc<dyn CloudProvider>;
    /// UID of the cluster that it was identified with.
    fn cluster_uid(&self) -> Str;
    /// An existing node class, ready until [`Self::set_class_ready`] changes it.
    fn class(&self) -> NodeClassRef;
    /// The time in the cloud.
    fn now(&self) -> Timestamp;
    /// After this long, get and list know of every launch.
    fn consistency(&self) -> Duration;
    /// After this long, an instance whose end was ordered is gone.
    fn termination(&self) -> Duration;
    /// Lets time pass.
    async fn advance(&self, by: Duration);
    /// Makes the class ready or not.
    async fn set_class_ready(&self, ready: bool);
    /// Lets something go wrong.
    async fn inject(&self, fault: Fault);
    /// Restarts the process; the cloud keeps its state.
    async fn restart(&self);
    /// Puts an instance of another cluster into the cloud.
    async fn foreign(&self) -> ProviderId;
}

/// A fault of the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The next launch is refused because of too many calls.
    ThrottleLaunch,
    /// The next launch does nothing, and its outcome is unknown.
    FailLaunch,
    /// The next launch takes effect, and its answer is lost.
    LoseLaunchAnswer,
    /// The next termination takes effect, and its answer is lost.
    LoseTerminateAnswer,
    /// The offerings of this zone (of all zones if `None`) are exhausted permanently.
    Exhaust {
        /// The zone.
        zone: Option<Str>,
    },
}

/// What a provider does against its contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

/// The result of a case.
pub type Verdict = Result<(), Failure>;

type Run = for<'a> fn(&'a dyn Harness) -> Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// A clause of the contract.
#[derive(Clone, Copy)]
pub struct Case {
    /// The clause in a few words.
    pub name: &'static str,
    run: Run,
}

impl Case {
    /// Checks the clause against a fresh harness.
    ///
    /// # Errors
    /// What the provider does against it.
    pub async fn run(&self, harness: &dyn Harness) -> Verdict {
        (self.run)(harness).await.map_err(|Failure(message)| Failure(format!("{}: {message}", self.name)))
    }
}

/// A pool that asks for nothing in particular, for tests of a provider's own.
#[must_use]
pub fn any_pool(harness: &dyn Harness) -> NodePool {
    support::pool(harness)
}

/// A request for a claim of this name, of whatever is sold as `capacity_type`, for tests of a provider's own.
#[must_use]
pub fn launch_request(harness: &dyn Harness, name: &str, capacity_type: &str) -> LaunchRequest {
    let requirements = [support::only(CAPACITY_TYPE, capacity_type)].into_iter().collect();
    support::request(&support::claim(harness, name, name, requirements), 1)
}

/// Every clause.
#[must_use]
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(catalogue::CASES);
    cases.extend(launching::CASES);
    cases.extend(owning::CASES);
    cases
}

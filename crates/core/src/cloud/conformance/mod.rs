//! The suite that every [`CloudProvider`] must pass: its contract as named cases.
//!
//! A provider's tests implement [`Harness`] over their own stand-in for the cloud, and let [`run_all`] run each of [`cases`] against a
//! fresh one. The suite does not wait: time passes when it asks the harness to let it pass.
//!
//! The stand-in should yield (`tokio::task::yield_now`) at the start of every call. Otherwise calls never overlap, and the cases of
//! concurrent calls show nothing.

mod birth;
mod catalogue;
mod classes;
mod failing;
mod interleaved;
mod launching;
mod owning;
mod reserved;
mod support;
mod upkeep;

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;

pub use super::stand_in::{CallFault, GroundTruth, Operation};
use super::{CloudProvider, LaunchRequest};
use crate::model::{NodeClassRef, NodePool, ProviderId, Str, labels::CAPACITY_TYPE};

/// A call of the provider, which the harness drives.
pub type Call<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A provider under test and the cloud behind it.
#[async_trait]
pub trait Harness: Send + Sync {
    /// The provider, identified already. After [`Self::restart`] another one.
    fn provider(&self) -> Arc<dyn CloudProvider>;
    /// UID of the cluster that it was identified with.
    fn cluster_uid(&self) -> Str;
    /// An existing node class, ready until [`Self::set_class_ready`] changes it.
    fn class(&self) -> NodeClassRef;
    /// Another class of the same kind, always ready.
    fn second_class(&self) -> NodeClassRef;
    /// The zones of the second class, fewer than those of the first. `None` if classes of this provider do not restrict zones.
    fn second_class_zones(&self) -> Option<Vec<Str>>;
    /// An id in this cloud's form that no instance has.
    fn unknown_id(&self) -> ProviderId;
    /// Maximum number of instances on one page of the cloud's list; 1 if it has no pages.
    fn page_size(&self) -> usize;
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
    /// Changes the class in a way that its instances differ from. `false` if instances of this provider never drift.
    async fn change_class(&self) -> bool;
    /// Injects a fault. `false` if this cloud does not have it.
    async fn inject(&self, fault: Fault) -> bool;
    /// Removes the injected faults.
    async fn heal(&self);
    /// Polls a call until it is complete or waits for an answer that never comes ([`Fault::Hang`]), and drops it.
    async fn abandon(&self, call: Call<'_>);
    /// Restarts the process; the cloud keeps its state.
    async fn restart(&self);
    /// Puts an instance of another cluster into the cloud.
    async fn foreign(&self) -> ProviderId;
    /// Puts an instance into the cloud that carries the UID of no cluster, as one made by hand.
    async fn unowned(&self) -> ProviderId;
    /// The provider of another cluster that has the same name and is in the same account: identified with another UID, over the same cloud.
    /// `None` if the harness has none, or the cloud does not know clusters by name.
    async fn namesake(&self) -> Option<Arc<dyn CloudProvider>> {
        None
    }
    /// All instances of the cloud that are not gone, read from the cloud and not by the provider.
    async fn ground_truth(&self) -> Vec<GroundTruth>;
}

/// A fault of the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The next call of an operation goes wrong.
    Call(Operation, CallFault),
    /// The second page of the next list fails.
    BreakPage,
    /// A mutating call takes effect and never answers: the one after this many others.
    Hang {
        /// How many mutating calls answer before.
        after: u32,
    },
    /// The offerings of this zone (of all zones if `None`) are exhausted permanently.
    Exhaust {
        /// The zone.
        zone: Option<Str>,
    },
    /// The account may not have more instances: launches are refused until [`Harness::heal`].
    Quota,
    /// The cloud accepts the next launch and answers before its instances can be used, which takes it a while.
    SlowLaunch,
}

/// Why a case does not pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// What the provider does against its contract.
    #[error("{0}")]
    Broken(String),
    /// The cloud lacks what the case is about.
    #[error("not applicable: {0}")]
    NotApplicable(&'static str),
}

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
    /// What the provider does against it, or that it does not apply.
    pub async fn run(&self, harness: &dyn Harness) -> Verdict {
        (self.run)(harness).await
    }
}

/// The cases that did not pass, each with its reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConformanceReport {
    /// What the provider does against its contract.
    pub failures: Vec<String>,
    /// The names of cases about something that the cloud lacks.
    pub not_applicable: Vec<&'static str>,
}

/// Runs every case against a fresh harness.
pub async fn run_all<H: Harness>(fresh: impl AsyncFn() -> H) -> ConformanceReport {
    let mut report = ConformanceReport::default();
    for case in cases() {
        match case.run(&fresh().await).await {
            Ok(()) => {}
            Err(Failure::Broken(message)) => report.failures.push(format!("{}: {message}", case.name)),
            Err(Failure::NotApplicable(_)) => report.not_applicable.push(case.name),
        }
    }
    report
}

/// A pool that asks for nothing in particular, for tests of a provider's own.
#[must_use]
pub fn any_pool(harness: &dyn Harness) -> NodePool {
    support::pool(harness, harness.class())
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
    cases.extend(birth::CASES);
    cases.extend(interleaved::CASES);
    cases.extend(owning::CASES);
    cases.extend(failing::CASES);
    cases.extend(classes::CASES);
    cases.extend(reserved::CASES);
    cases.extend(upkeep::CASES);
    cases
}

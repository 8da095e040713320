//! Batches calls for single instances: a burst of 500 DescribeInstances or TerminateInstances calls becomes one call.
//!
//! The first caller waits for others and makes the call for all of them; if it is dropped before that, the others make their own calls. A
//! call that names an instance that does not exist is halved until only that one fails. A throttled call is halved too, and its halves
//! are retried at different times.
//!
//! EC2 refuses a whole TerminateInstances call if one of its instances is protected, or if the IAM policy does not cover it. Such a call
//! is halved, one half after the other, which soon shows whether one instance or the action is refused: after [`REFUSED_IN_A_ROW`]
//! refused instances without a terminated one in between, the rest is not halved further. An instance that was refused in a call of its
//! own is not batched with others again until it was terminated.
//!
//! Calls that change something pass a token bucket first (`pace`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use fleetwright_core::clock::SharedClock;
use fleetwright_core::cloud::Figure;
use fleetwright_core::model::Price;
use futures::channel::oneshot;

use crate::cache::Cache;
use crate::calls::{
    AwsApi, AwsError, ClusterInfo, ErrorClass, Filter, FleetAnswer, FleetRequest, GroupInfo, Image,
    InstanceInfo, InstanceStatus, InstanceTrial, InstanceTypeDescription, LaunchTemplate, Message,
    PlacementGroup, ProfileInfo, ReservationInfo, SoldIn, SubnetInfo, TagSet, TemplateData, ZonalShift,
};
use crate::digest::digest;
use crate::figures::{BATCH_SIZE, BATCH_TIME, Ledger};
use crate::pace::{Pace, Paced};

/// How long a call waits after the last caller has joined it.
const IDLE: Duration = Duration::from_millis(100);
/// How long a call waits at most.
const LONGEST: Duration = Duration::from_secs(1);
/// Most instances of one call.
const TOGETHER: usize = 500;
/// How often a throttled call is repeated in smaller parts.
const TRIES: u32 = 3;
/// After this many instances that were refused in calls of their own, with none terminated in between, the action counts as refused.
const REFUSED_IN_A_ROW: u32 = 8;
/// Most refused instances that are remembered; a forgotten one costs a few more calls.
const REFUSED_MAX: u64 = 10_000;

/// A delay that differs by key: `wait` plus up to half of it.
#[must_use]
pub fn spread(wait: Duration, key: &str) -> Duration {
    let share = u32::from_str_radix(&digest(key)[28..], 16).unwrap_or(0);
    wait.saturating_add(wait.saturating_mul(share) / (2 * 0xffff))
}

/// What is done with instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Describe,
    Terminate,
}

impl Verb {
    /// The name in metrics.
    fn batcher(self) -> &'static str {
        match self {
            Self::Describe => "describe_instances",
            Self::Terminate => "terminate_instances",
        }
    }

    /// Whether one instance of the call may be the reason for the refusal. IAM does not scope DescribeInstances to instances, and invalid
    /// credentials fail for every instance.
    fn may_be_of_one(self, error: &AwsError) -> bool {
        let refused = matches!(error.class(), ErrorClass::Refused | ErrorClass::Unauthorized);
        self == Self::Terminate && refused && !error.is_unidentified()
    }
}

/// The result for each instance; a terminated or missing one has no description.
type Outcomes = BTreeMap<String, Result<Option<InstanceInfo>, AwsError>>;

/// The callers that wait for one call.
#[derive(Default)]
struct Gathering {
    waiting: Vec<(Vec<String>, oneshot::Sender<Outcomes>)>,
    led: bool,
}

impl Gathering {
    fn ids(&self) -> usize {
        self.waiting.iter().map(|(ids, _)| ids.len()).sum()
    }
}

/// Held by the caller that makes the call; if it is dropped before the call, the waiting callers are notified.
struct Lead<'a>(Option<&'a Mutex<Gathering>>);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        if let Some(gathering) = self.0 {
            let mut gathering = lock(gathering);
            gathering.led = false;
            gathering.waiting.clear();
        }
    }
}

fn lock(gathering: &Mutex<Gathering>) -> MutexGuard<'_, Gathering> {
    gathering.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The AWS API with batched calls.
pub struct Batched {
    api: Arc<dyn AwsApi>,
    clock: SharedClock,
    describe: Mutex<Gathering>,
    terminate: Mutex<Gathering>,
    pace: Pace,
    ledger: Ledger,
    /// Instances whose termination was refused in a call of their own.
    refused: Cache<String, (), REFUSED_MAX>,
}

impl Batched {
    /// Batches calls to `api`.
    #[must_use]
    pub fn new(api: Arc<dyn AwsApi>, clock: SharedClock) -> Self {
        Self {
            api,
            pace: Pace::new(clock.clone()),
            clock,
            describe: Mutex::default(),
            terminate: Mutex::default(),
            ledger: Ledger::default(),
            refused: Cache::default(),
        }
    }

    /// Returns the result for each instance, by a call that others may share.
    async fn together(&self, verb: Verb, ids: &[String]) -> Outcomes {
        let gathering = match verb {
            Verb::Describe => &self.describe,
            Verb::Terminate => &self.terminate,
        };
        let (reply, answer) = oneshot::channel();
        let leads = {
            let mut gathering = lock(gathering);
            gathering.waiting.push((ids.to_vec(), reply));
            !std::mem::replace(&mut gathering.led, true)
        };
        if leads {
            self.lead(verb, gathering).await;
        }
        match answer.await {
            Ok(outcomes) => outcomes,
            // The caller that was to make the call was dropped.
            Err(oneshot::Canceled) => self.call(verb, ids.iter().cloned().collect()).await,
        }
    }

    /// Waits until no caller joins any more, makes the call, and returns each caller its results.
    async fn lead(&self, verb: Verb, gathering: &Mutex<Gathering>) {
        let mut mark = Lead(Some(gathering));
        let mut waited = Duration::ZERO;
        loop {
            let before = lock(gathering).ids();
            self.clock.sleep(IDLE).await;
            waited += IDLE;
            let now = lock(gathering).ids();
            if now == before || now >= TOGETHER || waited >= LONGEST {
                break;
            }
        }
        let waiting = {
            let mut gathering = lock(gathering);
            gathering.led = false;
            std::mem::take(&mut gathering.waiting)
        };
        mark.0 = None;
        let ids: BTreeSet<String> = waiting.iter().flat_map(|(ids, _)| ids.iter().cloned()).collect();
        let size = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        self.ledger.note(&BATCH_TIME, &[verb.batcher()], waited.as_secs_f64());
        self.ledger.note(&BATCH_SIZE, &[verb.batcher()], f64::from(size));
        let outcomes = self.call(verb, ids).await;
        for (ids, reply) in waiting {
            let own = ids.into_iter().filter_map(|id| Some((id.clone(), outcomes.get(&id)?.clone())));
            // A caller that was dropped needs no answer.
            let _ = reply.send(own.collect());
        }
    }

    /// Makes the calls for a set of instances, in as few calls as possible.
    async fn call(&self, verb: Verb, ids: BTreeSet<String>) -> Outcomes {
        let is_refused = |id: &String| verb == Verb::Terminate && self.refused.peek(id).is_some();
        // A refused instance would fail the call of the others.
        let (refused, all): (Vec<String>, Vec<String>) = ids.into_iter().partition(is_refused);
        let chunks = all.chunks(TOGETHER).chain(refused.chunks(TOGETHER));
        let mut open: VecDeque<(Vec<String>, u32)> = chunks.map(|chunk| (chunk.to_vec(), 0)).collect();
        let (mut outcomes, mut in_a_row) = (Outcomes::new(), 0);
        while let Some((chunk, tries)) = open.pop_front() {
            if verb == Verb::Terminate
                && let Err(error) = self.pace.pass(Paced::Terminate(chunk.len())).await
            {
                // A chunk without tokens is split: a part may get tokens, and the rest is retried, each instance separately.
                if chunk.len() > 1 {
                    let (first, rest) = chunk.split_at(chunk.len() / 2);
                    open.push_front((rest.to_vec(), tries));
                    open.push_front((first.to_vec(), tries));
                } else {
                    let later = |id: &String| spread(error.wait(), id);
                    let held = |id: String| {
                        let error = AwsError { retry_after: Some(later(&id)), ..error.clone() };
                        (id, Err(error))
                    };
                    outcomes.extend(chunk.into_iter().map(held));
                }
                continue;
            }
            let error = match self.once(verb, &chunk).await {
                Ok(done) => {
                    in_a_row = 0;
                    self.forget_refused(verb, &chunk);
                    outcomes.extend(done);
                    continue;
                }
                Err(error) => error,
            };
            let halves = || chunk.chunks(chunk.len().div_ceil(2)).map(<[String]>::to_vec);
            let of_one = verb.may_be_of_one(&error);
            match error.class() {
                _ if of_one && chunk.len() > 1 && in_a_row < REFUSED_IN_A_ROW => {
                    halves().rev().for_each(|half| open.push_front((half, tries)));
                }
                ErrorClass::NotFound if chunk.len() > 1 => open.extend(halves().map(|half| (half, tries))),
                ErrorClass::Throttled if tries < TRIES => {
                    let key = chunk.first().map_or("", String::as_str);
                    self.clock.sleep(spread(error.wait(), key)).await;
                    open.extend(halves().map(|half| (half, tries + 1)));
                }
                _ => {
                    if let ([id], true) = (chunk.as_slice(), of_one) {
                        self.refused.keep(id.clone(), ());
                        in_a_row += 1;
                    }
                    outcomes.extend(chunk.into_iter().map(|id| (id, Err(error.clone()))));
                }
            }
        }
        outcomes
    }

    /// A terminated instance may be batched again.
    fn forget_refused(&self, verb: Verb, ended: &[String]) {
        if verb == Verb::Terminate && !self.refused.is_empty() {
            for id in ended {
                self.refused.remove(id);
            }
        }
    }

    async fn once(&self, verb: Verb, ids: &[String]) -> Result<Outcomes, AwsError> {
        let mut done: Outcomes = ids.iter().map(|id| (id.clone(), Ok(None))).collect();
        match verb {
            Verb::Terminate => self.ledger.call("TerminateInstances", self.api.terminate(ids).await)?,
            Verb::Describe => {
                let found = self.ledger.call("DescribeInstances", self.api.instances(ids, &[]).await)?;
                for info in found {
                    // Instances that were not requested are ignored.
                    if let Some(place) = done.get_mut(&info.id) {
                        *place = Ok(Some(info));
                    }
                }
            }
        }
        Ok(done)
    }
}

#[async_trait]
impl AwsApi for Batched {
    fn figures(&self) -> Vec<Figure> {
        let mut all = self.ledger.take();
        all.extend(self.api.figures());
        all
    }

    async fn instances(&self, ids: &[String], filters: &[Filter]) -> Result<Vec<InstanceInfo>, AwsError> {
        if ids.is_empty() || !filters.is_empty() {
            return self.ledger.call("DescribeInstances", self.api.instances(ids, filters).await);
        }
        let outcomes = self.together(Verb::Describe, ids).await;
        let found: Result<Vec<Option<InstanceInfo>>, AwsError> = outcomes.into_values().collect();
        Ok(found?.into_iter().flatten().collect())
    }

    async fn terminate(&self, ids: &[String]) -> Result<(), AwsError> {
        if ids.is_empty() {
            return Ok(());
        }
        let outcomes = self.together(Verb::Terminate, ids).await;
        outcomes.into_values().find_map(Result::err).map_or(Ok(()), Err)
    }

    async fn instance_types(&self) -> Result<Vec<InstanceTypeDescription>, AwsError> {
        self.ledger.call("DescribeInstanceTypes", self.api.instance_types().await)
    }
    async fn sold_in(&self) -> Result<Vec<SoldIn>, AwsError> {
        self.ledger.call("DescribeInstanceTypeOfferings", self.api.sold_in().await)
    }
    async fn subnets(&self, filters: &[Filter]) -> Result<Vec<SubnetInfo>, AwsError> {
        self.ledger.call("DescribeSubnets", self.api.subnets(filters).await)
    }
    async fn security_groups(&self, filters: &[Filter]) -> Result<Vec<GroupInfo>, AwsError> {
        self.ledger.call("DescribeSecurityGroups", self.api.security_groups(filters).await)
    }
    async fn placement_groups(
        &self,
        id: Option<&str>,
        name: Option<&str>,
    ) -> Result<Vec<PlacementGroup>, AwsError> {
        self.ledger.call("DescribePlacementGroups", self.api.placement_groups(id, name).await)
    }
    async fn images(&self, owners: &[String], filters: &[Filter]) -> Result<Vec<Image>, AwsError> {
        self.ledger.call("DescribeImages", self.api.images(owners, filters).await)
    }
    async fn reservations(
        &self,
        id: Option<&str>,
        filters: &[Filter],
    ) -> Result<Vec<ReservationInfo>, AwsError> {
        self.ledger.call("DescribeCapacityReservations", self.api.reservations(id, filters).await)
    }
    async fn parameter(&self, name: &str) -> Result<String, AwsError> {
        self.ledger.call("GetParameter", self.api.parameter(name).await)
    }
    async fn create_fleet(&self, request: &FleetRequest) -> Result<FleetAnswer, AwsError> {
        self.pace.pass(Paced::Fleet).await?;
        self.ledger.call("CreateFleet", self.api.create_fleet(request).await)
    }
    async fn try_fleet(&self, request: &FleetRequest) -> Result<(), AwsError> {
        self.ledger.call("CreateFleet (dry run)", self.api.try_fleet(request).await)
    }
    async fn try_instance(&self, trial: &InstanceTrial<'_>) -> Result<(), AwsError> {
        self.ledger.call("RunInstances (dry run)", self.api.try_instance(trial).await)
    }
    async fn instance_statuses(&self) -> Result<Vec<InstanceStatus>, AwsError> {
        self.ledger.call("DescribeInstanceStatus", self.api.instance_statuses().await)
    }
    async fn create_tags(&self, id: &str, tags: &TagSet) -> Result<(), AwsError> {
        self.pace.pass(Paced::Tags).await?;
        self.ledger.call("CreateTags", self.api.create_tags(id, tags).await)
    }
    async fn launch_templates(&self, filters: &[Filter]) -> Result<Vec<LaunchTemplate>, AwsError> {
        self.ledger.call("DescribeLaunchTemplates", self.api.launch_templates(filters).await)
    }
    async fn create_launch_template(
        &self,
        name: &str,
        data: &TemplateData,
        tags: &TagSet,
    ) -> Result<(), AwsError> {
        self.ledger.call("CreateLaunchTemplate", self.api.create_launch_template(name, data, tags).await)
    }
    async fn delete_launch_template(&self, name: &str) -> Result<(), AwsError> {
        self.ledger.call("DeleteLaunchTemplate", self.api.delete_launch_template(name).await)
    }
    async fn on_demand_prices(&self, region: &str) -> Result<Vec<(String, Price)>, AwsError> {
        self.ledger.call("GetProducts", self.api.on_demand_prices(region).await)
    }
    async fn spot_prices(&self) -> Result<Vec<((String, String), Price)>, AwsError> {
        self.ledger.call("DescribeSpotPriceHistory", self.api.spot_prices().await)
    }
    async fn cluster(&self, name: &str) -> Result<ClusterInfo, AwsError> {
        self.ledger.call("DescribeCluster", self.api.cluster(name).await)
    }
    async fn zonal_shifts(&self, cluster_arn: &str) -> Result<Vec<ZonalShift>, AwsError> {
        self.ledger.call("GetManagedResource", self.api.zonal_shifts(cluster_arn).await)
    }
    async fn receive(&self, queue: &str, wait: Duration) -> Result<Vec<Message>, AwsError> {
        self.ledger.call("ReceiveMessage", self.api.receive(queue, wait).await)
    }
    async fn delete_messages(
        &self,
        queue: &str,
        receipts: &[String],
    ) -> Result<Vec<Result<(), AwsError>>, AwsError> {
        self.ledger.call("DeleteMessageBatch", self.api.delete_messages(queue, receipts).await)
    }
    async fn profile(&self, name: &str) -> Result<ProfileInfo, AwsError> {
        self.ledger.call("GetInstanceProfile", self.api.profile(name).await)
    }
    async fn profiles(&self, path: &str) -> Result<Vec<ProfileInfo>, AwsError> {
        self.ledger.call("ListInstanceProfiles", self.api.profiles(path).await)
    }
    async fn create_profile(&self, name: &str, path: &str, tags: &TagSet) -> Result<(), AwsError> {
        self.ledger.call("CreateInstanceProfile", self.api.create_profile(name, path, tags).await)
    }
    async fn add_role(&self, profile: &str, role: &str) -> Result<(), AwsError> {
        self.ledger.call("AddRoleToInstanceProfile", self.api.add_role(profile, role).await)
    }
    async fn remove_role(&self, profile: &str, role: &str) -> Result<(), AwsError> {
        self.ledger.call("RemoveRoleFromInstanceProfile", self.api.remove_role(profile, role).await)
    }
    async fn delete_profile(&self, name: &str) -> Result<(), AwsError> {
        self.ledger.call("DeleteInstanceProfile", self.api.delete_profile(name).await)
    }
}

#[cfg(test)]
mod tests;

//! The state of a fake cloud and its events.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
    time::Duration,
};

use fleetwright_core::model::Offering;
use jiff::Timestamp;

use super::{
    birth::{self, Adopted},
    bucket::Bucket,
    config::CloudConfig,
    fault::{Faults, Op},
    market::Market,
};
use crate::{
    api::{
        ApiError, CloudInstance, InstancePage, InterruptionNotice, Launch, LaunchItem, LaunchOutcome,
        LaunchReply, Lifecycle, TagClaim, Tags, Terminate,
    },
    catalogue::{Catalogue, OfferingKey},
    dice,
    dice::below,
    time::later,
};

/// How long a gone instance and its token are remembered.
const MEMORY: Duration = Duration::from_secs(3600);

/// An event of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum InstanceEvent {
    /// It begins to run.
    Run,
    /// Its interruption is announced.
    Interrupt,
    /// It is interrupted.
    End,
    /// It is gone.
    Vanish,
    /// It is forgotten.
    Forget,
}

/// An instance with internal data of the cloud.
struct Entry {
    instance: Arc<CloudInstance>,
    visible_at: Timestamp,
    version: u64,
}

/// Identifies a launch: cluster, batch, attempt and claim. Launches of another cluster never match.
type Token = (String, String, u32, String);

/// The token of the launch of an instance with these tags.
fn token_of(tags: &Tags) -> Option<Token> {
    Some((tags.cluster_uid.clone()?, tags.batch.clone()?, tags.attempt, tags.claim.clone()?))
}

/// Identifies a launch whose instances carry no claim: cluster, batch and attempt.
type FleetToken = (String, String, u32);

/// A launched fleet: its instances by id, and the failures of the others.
type Fleet = (BTreeSet<String>, Vec<LaunchOutcome>);

/// The state of the cloud.
pub(super) struct CloudState {
    instances: BTreeMap<String, Entry>,
    by_version: BTreeMap<u64, String>,
    tokens: BTreeMap<Token, String>,
    fleets: BTreeMap<FleetToken, Fleet>,
    timers: BTreeSet<(Timestamp, String, InstanceEvent)>,
    used: BTreeMap<OfferingKey, u32>,
    node_names: BTreeSet<String>,
    pub(super) faults: Faults,
    pub(super) market: Market,
    mutating: Option<Bucket>,
    reading: Option<Bucket>,
    version: u64,
    calls: u64,
}

impl CloudState {
    pub(super) fn new(config: &CloudConfig, now: Timestamp) -> Self {
        Self {
            instances: BTreeMap::new(),
            by_version: BTreeMap::new(),
            tokens: BTreeMap::new(),
            fleets: BTreeMap::new(),
            timers: BTreeSet::new(),
            used: BTreeMap::new(),
            node_names: BTreeSet::new(),
            faults: Faults::default(),
            market: Market::new(config.seed, config.spot_price_interval_ms, config.spot_prices_since),
            mutating: config.mutating_rate_limit.map(|rate| Bucket::new(rate, now)),
            reading: config.read_rate_limit.map(|rate| Bucket::new(rate, now)),
            version: 0,
            calls: 0,
        }
    }

    // === reading ===

    pub(super) fn instances(&self) -> impl Iterator<Item = &Arc<CloudInstance>> {
        self.instances.values().map(|entry| &entry.instance)
    }

    pub(super) fn changes_since(&self, seen: u64) -> (Vec<Arc<CloudInstance>>, u64) {
        let ids = self.by_version.range(seen.saturating_add(1)..).map(|(_, id)| id);
        let changed = ids.filter_map(|id| Some(self.instances.get(id)?.instance.clone())).collect();
        (changed, self.version)
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.timers.first().map(|(at, _, _)| *at)
    }

    pub(super) fn get(&self, id: &str, now: Timestamp) -> Result<CloudInstance, ApiError> {
        let entry = self.instances.get(id).filter(|entry| entry.visible_at <= now);
        let instance =
            entry.map(|entry| &entry.instance).filter(|instance| instance.state != Lifecycle::Terminated);
        instance.map(|instance| (**instance).clone()).ok_or_else(|| ApiError::NotFound { id: id.to_owned() })
    }

    pub(super) fn list(
        &self,
        cluster_uid: &str,
        after: Option<&str>,
        page_size: usize,
        now: Timestamp,
    ) -> InstancePage {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.instances.range::<str, _>((start, Bound::Unbounded)).map(|(_, entry)| entry);
        let visible = entries.filter(|entry| entry.visible_at <= now);
        let mut ours = visible.map(|entry| &entry.instance).filter(|instance| {
            instance.state != Lifecycle::Terminated
                && instance.tags.cluster_uid.as_deref() == Some(cluster_uid)
        });
        let page = ours.by_ref().take(page_size.max(1));
        let instances: Vec<CloudInstance> = page.map(|instance| (**instance).clone()).collect();
        let last = instances.last().map(|instance| instance.id.clone());
        let next = ours.next().and(last);
        InstancePage { instances, next }
    }

    /// The interruption notices of an owner's instances, by id.
    pub(super) fn notices(&self, cluster_uid: &str) -> Vec<InterruptionNotice> {
        let running = self.instances().filter(|instance| instance.state <= Lifecycle::Running);
        let ours = running.filter(|instance| instance.tags.cluster_uid.as_deref() == Some(cluster_uid));
        let announced = ours.filter_map(|instance| {
            let at = instance.interrupted_at?;
            Some(InterruptionNotice { id: instance.id.clone(), offering: instance.offering.clone(), at })
        });
        announced.collect()
    }

    // === calls ===

    pub(super) fn take_token(&mut self, op: Op, now: Timestamp) -> Result<(), ApiError> {
        let bucket = match op {
            Op::Launch | Op::Tag | Op::Terminate => &mut self.mutating,
            Op::Get | Op::List | Op::Watch => &mut self.reading,
        };
        let taken = bucket.as_mut().map_or(Ok(()), |bucket| bucket.take(now));
        taken.map_err(|after_ms| ApiError::Throttled { after_ms })
    }

    /// The number of this call.
    pub(super) fn count_call(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }

    pub(super) fn launch(
        &mut self,
        catalogue: &Catalogue,
        config: &CloudConfig,
        call: &Launch,
        now: Timestamp,
    ) -> Result<LaunchReply, ApiError> {
        for (field, value) in [("clusterUid", &call.cluster_uid), ("batch", &call.batch)] {
            if value.is_empty() {
                let message = "is empty: every instance carries it from its launch".to_owned();
                return Err(ApiError::Invalid { field: field.to_owned(), message });
            }
        }
        if !config.tags_node_claims {
            return self.launch_fleet(catalogue, config, call, now);
        }
        // Instances are assigned to claims by name, in any order of the call.
        let mut order: Vec<usize> = (0..call.items.len()).collect();
        order.sort_by(|a, b| call.items[*a].claim.cmp(&call.items[*b].claim));
        let mut unavailable = BTreeSet::new();
        let mut outcomes: Vec<Option<LaunchOutcome>> = vec![None; call.items.len()];
        for at in order {
            let outcome = self.launch_one(catalogue, config, call, &call.items[at], &mut unavailable, now);
            outcomes[at] = Some(outcome);
        }
        let outcomes = outcomes.into_iter().flatten().collect();
        Ok(LaunchReply { outcomes, unavailable: unavailable.into_iter().collect(), fleet: false })
    }

    /// Launches a fleet by the first item of the call. A fleet without instances is not remembered.
    fn launch_fleet(
        &mut self,
        catalogue: &Catalogue,
        config: &CloudConfig,
        call: &Launch,
        now: Timestamp,
    ) -> Result<LaunchReply, ApiError> {
        let token = (call.cluster_uid.clone(), call.batch.clone(), call.attempt);
        let mut unavailable = BTreeSet::new();
        if !self.fleets.contains_key(&token)
            && let Some(first) = call.items.first()
        {
            let mut fleet = Fleet::default();
            for number in 0..call.size {
                let item = LaunchItem { claim: number.to_string(), ..first.clone() };
                match self.launch_new(catalogue, config, call, &item, &mut unavailable, now) {
                    LaunchOutcome::Launched(instance) => {
                        fleet.0.insert(instance.id);
                    }
                    failure => fleet.1.push(failure),
                }
            }
            self.fleets.insert(token.clone(), fleet);
        }
        let (ids, failures) = self.fleets.get(&token).cloned().unwrap_or_default();
        if ids.len() + failures.len() != call.size {
            let message = format!("the token was used with {} instances", ids.len() + failures.len());
            return Err(ApiError::Invalid { field: "size".to_owned(), message });
        }
        if ids.is_empty() {
            self.fleets.remove(&token);
        }
        let instances = ids.iter().filter_map(|id| self.instances.get(id));
        let launched = instances.map(|entry| LaunchOutcome::Launched(Box::new((*entry.instance).clone())));
        let outcomes = launched.chain(failures).collect();
        Ok(LaunchReply { outcomes, unavailable: unavailable.into_iter().collect(), fleet: true })
    }

    /// Tags an instance that carries no claim.
    pub(super) fn tag(&mut self, call: &TagClaim) -> Result<(), ApiError> {
        let owner = self.instances.get(&call.id).and_then(|entry| entry.instance.tags.cluster_uid.as_ref());
        if owner != Some(&call.cluster_uid) {
            return Err(ApiError::NotFound { id: call.id.clone() });
        }
        self.change(&call.id, |instance| instance.tags.claim = Some(call.claim.clone()));
        Ok(())
    }

    fn launch_one(
        &mut self,
        catalogue: &Catalogue,
        config: &CloudConfig,
        call: &Launch,
        item: &LaunchItem,
        unavailable: &mut BTreeSet<OfferingKey>,
        now: Timestamp,
    ) -> LaunchOutcome {
        let token = (call.cluster_uid.clone(), call.batch.clone(), call.attempt, item.claim.clone());
        if let Some(entry) = self.tokens.get(&token).and_then(|id| self.instances.get(id)) {
            return LaunchOutcome::Launched(Box::new((*entry.instance).clone()));
        }
        let outcome = self.launch_new(catalogue, config, call, item, unavailable, now);
        if let LaunchOutcome::Launched(instance) = &outcome {
            self.tokens.insert(token, instance.id.clone());
        }
        outcome
    }

    fn launch_new(
        &mut self,
        catalogue: &Catalogue,
        config: &CloudConfig,
        call: &Launch,
        item: &LaunchItem,
        unavailable: &mut BTreeSet<OfferingKey>,
        now: Timestamp,
    ) -> LaunchOutcome {
        if self.instances.len() >= config.max_instances {
            let message = format!(
                "{} instances exist: raise the cloud's limit, or terminate some",
                config.max_instances
            );
            return LaunchOutcome::Rejected("InstanceLimitExceeded".to_owned(), message);
        }
        let mut found = None;
        for choice in &item.offerings {
            let Some((instance_type, offering)) = catalogue.find(choice) else {
                let message = format!("{choice} is not offered: choose from the catalogue");
                return LaunchOutcome::Rejected("InvalidOffering".to_owned(), message);
            };
            if offering.available
                && !self.faults.is_exhausted(choice, now)
                && self.has_capacity(config, choice, offering)
            {
                found = Some((choice, instance_type, offering));
                break;
            }
            unavailable.insert(choice.clone());
        }
        let Some((choice, instance_type, offering)) = found else {
            let tried = item.offerings.len();
            return LaunchOutcome::InsufficientCapacity(format!("none of {tried} offerings has capacity"));
        };
        let (defects, joins) = self.faults.on_instance();
        let price = self.market.price(catalogue, instance_type, offering, now);
        let offering = &offering.clone().at_price(price);
        let order = birth::InstanceOrder { call, item, choice, instance_type, offering, defects, joins };
        let new_instance =
            match birth::instance(catalogue, config, order, now, |name| self.node_names.contains(name)) {
                Ok(new_instance) => new_instance,
                Err((reason, message)) => return LaunchOutcome::Rejected(reason, message),
            };
        *self.used.entry(choice.clone()).or_insert(0) += 1;
        let instance = Arc::new(new_instance.instance);
        let reply = LaunchOutcome::Launched(Box::new((*instance).clone()));
        self.timers.insert((new_instance.runs_at, instance.id.clone(), InstanceEvent::Run));
        if let Some(at) = new_instance.interrupted_at {
            self.timers.insert((at, instance.id.clone(), InstanceEvent::Interrupt));
        }
        self.insert(instance, new_instance.visible_at);
        reply
    }

    /// Whether a pool has capacity for another instance.
    fn has_capacity(&self, config: &CloudConfig, key: &OfferingKey, offering: &Offering) -> bool {
        let used = self.used.get(key).copied().unwrap_or(0);
        let range = match (offering.reservation_capacity, &*key.capacity_type) {
            (Some(capacity), _) => Some((capacity, capacity)),
            (None, "spot") => config.spot_pool,
            (None, _) => config.on_demand_pool,
        };
        range.is_none_or(|(low, high)| {
            let mut rng = dice(config.seed, &["pool", &key.to_string()]);
            let width = u64::from(high.saturating_sub(low)) + 1;
            u64::from(used) < u64::from(low) + below(&mut rng, width)
        })
    }

    pub(super) fn terminate(
        &mut self,
        config: &CloudConfig,
        call: &Terminate,
        now: Timestamp,
    ) -> Result<Lifecycle, ApiError> {
        let Some(entry) = self.instances.get(&call.id) else {
            return Ok(Lifecycle::Terminated);
        };
        let owned = match &entry.instance.tags.cluster_uid {
            Some(owner) if !call.cluster_uid.is_empty() => *owner == call.cluster_uid,
            Some(_) => false,
            None => call.has_node_claim,
        };
        if !owned {
            let owner = entry.instance.tags.cluster_uid.as_deref();
            let why = owner.map_or_else(
                || "it carries no cluster's UID, and no NodeClaim names it".to_owned(),
                |owner| format!("it carries the UID of cluster {owner}, not of {:?}", call.cluster_uid),
            );
            return Err(ApiError::NotOwned { id: call.id.clone(), why });
        }
        self.terminate_now(config, &call.id, now);
        Ok(self.instances.get(&call.id).map_or(Lifecycle::Terminated, |entry| entry.instance.state))
    }

    // === what happens to instances ===

    pub(super) fn interrupt(&mut self, config: &CloudConfig, id: &str, now: Timestamp) -> bool {
        let Some(entry) = self.instances.get(id) else { return false };
        if entry.instance.state > Lifecycle::Running || entry.instance.interrupted_at.is_some() {
            return false;
        }
        let ends = later(now, Duration::from_millis(config.interruption_notice_ms));
        self.timers.insert((ends, id.to_owned(), InstanceEvent::End));
        self.change(id, |instance| instance.interrupted_at = Some(ends));
        true
    }

    pub(super) fn lose(&mut self, id: &str, now: Timestamp) -> bool {
        let alive = self.instances.get(id).is_some_and(|entry| entry.instance.state != Lifecycle::Terminated);
        if alive {
            self.vanish(id, now);
        }
        alive
    }

    pub(super) fn mark_joined(&mut self, id: &str) {
        if self.instances.get(id).is_some_and(|entry| !entry.instance.joined) {
            self.change(id, |instance| instance.joined = true);
        }
    }

    pub(super) fn adopt(&mut self, catalogue: &Catalogue, adopted: Adopted, now: Timestamp) -> bool {
        if adopted.provider_id.is_empty() || self.instances.contains_key(&adopted.provider_id) {
            return false;
        }
        let mut instance = birth::adopted(catalogue, adopted, now);
        if !instance.joined {
            let (defects, joins) = self.faults.on_instance();
            instance.defects = defects;
            instance.joins_at = instance.joins_at.filter(|_| joins);
        }
        let instance = Arc::new(instance);
        if let Some(token) = token_of(&instance.tags) {
            self.tokens.insert(token, instance.id.clone());
        }
        if let Some(key) = &instance.offering {
            *self.used.entry(key.clone()).or_insert(0) += 1;
        }
        self.insert(instance, now);
        true
    }

    fn insert(&mut self, instance: Arc<CloudInstance>, visible_at: Timestamp) {
        self.version += 1;
        self.by_version.insert(self.version, instance.id.clone());
        self.node_names.insert(instance.node_name.clone());
        self.instances.insert(instance.id.clone(), Entry { instance, visible_at, version: self.version });
    }

    fn change(&mut self, id: &str, change: impl FnOnce(&mut CloudInstance)) {
        let Some(entry) = self.instances.get_mut(id) else { return };
        change(Arc::make_mut(&mut entry.instance));
        self.version += 1;
        self.by_version.remove(&entry.version);
        entry.version = self.version;
        self.by_version.insert(self.version, id.to_owned());
    }

    fn terminate_now(&mut self, config: &CloudConfig, id: &str, now: Timestamp) {
        let running = self.instances.get(id).is_some_and(|entry| entry.instance.state <= Lifecycle::Running);
        if !running {
            return;
        }
        let takes = config.terminate_latency.draw(&mut dice(config.seed, &["end", id]));
        self.change(id, |instance| {
            instance.state = Lifecycle::Terminating;
            instance.terminating_since = Some(now);
        });
        self.timers.insert((later(now, takes), id.to_owned(), InstanceEvent::Vanish));
    }

    fn vanish(&mut self, id: &str, now: Timestamp) {
        let Some(entry) = self.instances.get(id) else { return };
        if entry.instance.state == Lifecycle::Terminated {
            return;
        }
        if let Some(used) = entry.instance.offering.as_ref().and_then(|key| self.used.get_mut(key)) {
            *used = used.saturating_sub(1);
        }
        self.change(id, |instance| {
            instance.state = Lifecycle::Terminated;
            instance.terminating_since.get_or_insert(now);
        });
        self.timers.insert((later(now, MEMORY), id.to_owned(), InstanceEvent::Forget));
    }

    fn forget(&mut self, id: &str) {
        let Some(entry) = self.instances.remove(id) else { return };
        self.by_version.remove(&entry.version);
        self.node_names.remove(&entry.instance.node_name);
        let tags = &entry.instance.tags;
        if let Some(token) = token_of(tags) {
            self.tokens.remove(&token);
        }
        let token = (tags.cluster_uid.clone(), tags.batch.clone());
        if let (Some(cluster_uid), Some(batch)) = token {
            self.fleets.remove(&(cluster_uid, batch, tags.attempt));
        }
    }

    /// Processes all due events, in order.
    pub(super) fn advance(&mut self, config: &CloudConfig, now: Timestamp) {
        while let Some((at, _, _)) = self.timers.first() {
            if *at > now {
                return;
            }
            let Some((at, id, step)) = self.timers.pop_first() else { return };
            match step {
                InstanceEvent::Run => {
                    let pending = self.instances.get(&id).map(|entry| entry.instance.state);
                    if pending == Some(Lifecycle::Pending) {
                        self.change(&id, |instance| instance.state = Lifecycle::Running);
                    }
                }
                InstanceEvent::Interrupt => {
                    self.interrupt(config, &id, at);
                }
                InstanceEvent::End => self.terminate_now(config, &id, at),
                InstanceEvent::Vanish => self.vanish(&id, at),
                InstanceEvent::Forget => self.forget(&id),
            }
        }
    }
}

//! Launches an attempt: finds what an earlier call launched, calls EC2 otherwise, and assigns the instances by rank.

use std::sync::Arc;

use fleetwright_aws_api::labels;
use fleetwright_core::{
    cloud::{Instance, LaunchError, LaunchRequest},
    model::{NodeClaim, Str},
};
use futures::StreamExt as _;

use super::classes::{KnownClass, Readiness};
use super::in_flight::{Fleet, PendingCall, SentRequest};
use super::prepared::{Prepared, jittered};
use super::templates::ensure_templates;
use super::{AwsProvider, is_ending, recovery};
use crate::calls::{AwsError, ErrorClass, FleetAnswer, FleetRequest, InstanceInfo, TagSet};
use crate::digest::digest;
use crate::figures;
use crate::instancetype::{ClassView, listed_efas};
use crate::launch::{
    FleetPlan, FleetPlanInput, candidates, is_without_role, is_without_template, launch_error, overlaid,
    plan, reason, request, token,
};
use crate::tags::{Owner, owned, restricted};

/// How many instances are tagged with their NodeClaim concurrently.
const TAGGED_AT_ONCE: usize = 16;

/// Whether launch templates of a fleet were deleted: EC2 refuses the fleet as a whole, or single overrides.
fn lacks_templates(answer: &Result<FleetAnswer, AwsError>) -> bool {
    match answer {
        Ok(answer) => answer.errors.iter().any(|error| is_without_template(&error.code)),
        Err(error) => is_without_template(&error.code),
    }
}

impl AwsProvider {
    pub(super) async fn launch_all(&self, requests: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>> {
        self.launches.started();
        let Some(first) = requests.first() else { return Vec::new() };
        let fleet = match self.may_mutate() {
            Ok(uid) => {
                let token = token(&uid, &first.batch, first.attempt);
                let fleet = self.fleet(first, &uid, &token).await;
                fleet.map(|fleet| (token, fleet))
            }
            // No call is made, and the outcome of earlier calls is unknown.
            Err(error) => Err(LaunchError::Unknown(error.to_string().into())),
        };
        match fleet {
            Ok((token, fleet)) => self.assign(&token, (*fleet).clone(), requests).await,
            Err(error) => {
                let refused = |request: &LaunchRequest| Err(jittered(error.clone(), &request.claim.name));
                requests.iter().map(refused).collect()
            }
        }
    }

    /// What the call of a request launched. A call of this process without an answer is repeated as it was. What another process
    /// may have launched is found by its tags, unless no call was made; unless EC2 shows all of it, the call is made with the same token.
    async fn fleet(
        &self,
        first: &LaunchRequest,
        uid: &str,
        token: &String,
    ) -> Result<Arc<Fleet>, LaunchError> {
        if let Some(fleet) = self.launches.fleet(token) {
            return Ok(fleet);
        }
        if let Some(sent) = self.launches.kept(token) {
            return self.send(&sent).await;
        }
        // Before the first call of an attempt there is nothing to find.
        let found = if first.first_call { Vec::new() } else { recovery::find(self, first, uid).await? };
        if found.len() >= first.size {
            return Ok(self.found(token, found, recovery::none_left()));
        }
        let sent = match self.prepare(first, uid).await {
            Ok(prepared) => {
                let Prepared { plan, templates, tags, context, .. } = &prepared;
                let members = (&*first.claim, first.size);
                let request = request(plan, templates, members, tags, (token.clone(), context.as_deref()));
                Arc::new(SentRequest { request, prepared })
            }
            Err(error) if recovery::may_be_more(self, &found) => {
                return Err(LaunchError::Unknown(error.to_string().into()));
            }
            Err(error) if found.is_empty() => return Err(error),
            Err(error) => return Ok(self.found(token, found, error)),
        };
        self.launches.keep(&sent);
        match self.send(&sent).await {
            // EC2 does not accept the token again, and shows by now all that an earlier call launched.
            Err(error @ LaunchError::Failed { .. }) if !found.is_empty() => {
                Ok(self.found(token, found, error))
            }
            answer => answer,
        }
    }

    fn found(&self, token: &str, instances: Vec<InstanceInfo>, missing: LaunchError) -> Arc<Fleet> {
        let fleet = Arc::new(Fleet { instances, missing });
        self.launches.record_fleet(token, &fleet);
        fleet
    }

    /// Assigns the instances of a fleet by rank, and tags them.
    async fn assign(
        &self,
        token: &str,
        mut fleet: Fleet,
        requests: &[LaunchRequest],
    ) -> Vec<Result<Instance, LaunchError>> {
        let mut calls = Vec::with_capacity(requests.len());
        for request in requests {
            calls.push(self.assign_one(&fleet, request));
        }
        let assigned: Vec<_> = futures::stream::iter(calls).buffered(TAGGED_AT_ONCE).collect().await;
        for (request, answer) in requests.iter().zip(&assigned) {
            let name = answer.as_ref().ok().and_then(|instance| instance.claim.as_ref());
            if let (Some(info), Some(name)) = (fleet.instances.get_mut(request.rank), name) {
                info.tags.insert(labels::TAG_NODECLAIM.to_owned(), name.to_string());
            }
        }
        self.launches.record_fleet(token, &Arc::new(fleet));
        assigned
    }

    async fn assign_one(&self, fleet: &Fleet, request: &LaunchRequest) -> Result<Instance, LaunchError> {
        let name = &request.claim.name;
        let Some(info) = fleet.instances.get(request.rank) else {
            return Err(jittered(fleet.missing.clone(), name));
        };
        let failed =
            |message: String| LaunchError::Failed { reason: "LaunchFailed".into(), message: message.into() };
        if is_ending(info) {
            return Err(failed(format!("instance {} of this attempt has terminated", info.id)));
        }
        let instance = self.describe(info);
        match &instance.claim {
            None => Ok(self.tag_claim(&info.id, instance, request).await),
            Some(claim) if claim == name => Ok(instance),
            Some(claim) => Err(failed(format!("instance {} belongs to {claim}", info.id))),
        }
    }

    /// Tags an instance with its NodeClaim. If EC2 refuses, the instance keeps its batch, and the tagging step retries.
    pub(super) async fn tag_claim(
        &self,
        id: &str,
        mut instance: Instance,
        request: &LaunchRequest,
    ) -> Instance {
        let name = request.claim.name.to_string();
        let tags = TagSet::from([(labels::TAG_NODECLAIM.to_owned(), name)]);
        match self.api.create_tags(id, &tags).await {
            Ok(()) => instance.claim = Some(request.claim.name.clone()),
            Err(error) if error.class() == ErrorClass::Unauthorized => {
                self.problems.denied("ec2:CreateTags", &error, self.clock.now());
            }
            // The tagging step tries again.
            Err(_) => {}
        }
        instance
    }

    /// Decides the launch and creates its launch templates.
    async fn prepare(&self, request: &LaunchRequest, uid: &str) -> Result<Prepared, LaunchError> {
        let claim = &request.claim;
        let not_ready =
            |why: String| LaunchError::NodeClassNotReady(format!("{}: {why}", claim.class).into());
        let known = self.classes.get(&claim.class.name)?;
        usable(&known, claim)?;
        let group = self.catalogs.group(&claim.class.name);
        if known.class.spec.placement_group_selector.is_some() && group.is_none() {
            // An instance outside the requested group is worse than none.
            return Err(not_ready("its placement group is not known yet".to_owned()));
        }
        let catalog = self.catalogs.of_class(&known, self.clock.now());
        let unavailable = || {
            let message = "all requested instance types were unavailable during launch";
            LaunchError::InsufficientCapacity(message.into())
        };
        let choice = overlaid(&catalog.catalog, request.decided_by.as_deref());
        let filtered = candidates(claim, &choice, self.settings.min_values).ok_or_else(unavailable)?;
        let status = known.class.status.clone().unwrap_or_default();
        let view = ClassView {
            settings: &self.settings,
            spec: &known.class.spec,
            status: &status,
            kubelet: &known.kubelet,
            group: group.as_ref(),
        };
        let plan = {
            let addresses = &*self.addresses();
            plan(&FleetPlanInput { claim, filtered: &filtered, view: &view, catalog: &catalog, addresses })
        };
        let plan = plan.ok_or_else(unavailable)?;
        let owner = Owner {
            settings: &self.settings,
            cluster_uid: uid,
            class: &claim.class.name,
            pool: claim.pool.as_ref().map_or("", |pool| pool.as_str()),
        };
        let mut tags = owned(&owner, &known.class.spec);
        let template_tags = tags.clone();
        let templates = ensure_templates(self, &known, claim, &plan, &template_tags).await;
        let templates =
            templates.map_err(|error| self.launches.unless_open(None, request.first_call, error))?;
        let hash = known.class.spec.drift_hash(&self.settings.ca_bundle);
        tags.insert(labels::TAG_CLASS_HASH.to_owned(), hash);
        tags.insert(labels::TAG_BATCH.to_owned(), request.batch.to_string());
        tags.insert(labels::TAG_ATTEMPT.to_owned(), request.attempt.to_string());
        let relaxed = claim
            .annotations
            .get("karpenter.sh/nodeclaim-min-values-relaxed")
            .is_some_and(|v| &**v == "true");
        let context = known.class.spec.context.clone().filter(|_| !relaxed);
        let (claim, first_call) = (claim.clone(), request.first_call);
        Ok(Prepared { plan, templates, tags, template_tags, context, known, claim, first_call })
    }

    /// Launches a fleet.
    async fn send(&self, sent: &SentRequest) -> Result<Arc<Fleet>, LaunchError> {
        let SentRequest { request, prepared } = sent;
        let answer = self.create_fleet(request, prepared).await?;
        let mut launched = answer.instances;
        launched.sort_by(|a, b| a.id.cmp(&b.id));
        let mut instances: Vec<InstanceInfo> =
            launched.iter().map(|fleet| self.new_instance(request, prepared, fleet)).collect();
        self.partitions(&prepared.plan, &mut instances).await;
        Ok(self.found(&request.token, instances, launch_error(&answer.errors)))
    }

    /// Calls `CreateFleet` and records the effects of the answer.
    async fn create_fleet(
        &self,
        request: &FleetRequest,
        prepared: &Prepared,
    ) -> Result<FleetAnswer, LaunchError> {
        let plan = &prepared.plan;
        let count = i64::try_from(request.count).unwrap_or(i64::MAX);
        self.hold(plan, count);
        let size = u32::try_from(request.count).unwrap_or(u32::MAX);
        self.ledger.note(&figures::BATCH_SIZE, &["create_fleet"], f64::from(size));
        let pending = PendingCall::new(&self.launches, &request.token);
        let mut answer = self.api.create_fleet(request).await;
        if lacks_templates(&answer) {
            answer = self.recreate_templates(request, prepared, answer).await;
        }
        pending.answered();
        let answer = answer.map_err(|error| {
            self.release(plan, count, &[]);
            self.launches.record_error(&request.token, &error);
            self.launches.fleet_refused(&request.token, prepared.first_call, &error)
        })?;
        self.record(&answer, prepared);
        let subnets: Vec<&str> = answer.instances.iter().map(|instance| instance.subnet.as_str()).collect();
        self.release(plan, count, &subnets);
        Ok(answer)
    }

    /// Creates deleted launch templates again, and repeats the call once if it launched nothing. The name of a template follows from its
    /// content, so the new ones have the old names.
    async fn recreate_templates(
        &self,
        request: &FleetRequest,
        prepared: &Prepared,
        answer: Result<FleetAnswer, AwsError>,
    ) -> Result<FleetAnswer, AwsError> {
        let Prepared { known, claim, plan, template_tags, templates, .. } = prepared;
        templates.values().for_each(|deleted| self.templates.forget(deleted));
        let launched = answer.as_ref().is_ok_and(|answer| !answer.instances.is_empty());
        if ensure_templates(self, known, claim, plan, template_tags).await.is_err() || launched {
            return answer;
        }
        let token = match answer {
            // With the old token EC2 may repeat its old answer.
            Ok(_) => digest(&format!("{}/again", request.token)),
            // No fleet was created. With another token there could be two, if this answer is lost and the call repeated unchanged.
            Err(_) => request.token.clone(),
        };
        self.api.create_fleet(&FleetRequest { token, ..request.clone() }).await
    }

    /// Fills in the partitions that EC2 chose, as far as it shows them already; the partition step reads the others later.
    async fn partitions(&self, plan: &FleetPlan, assigned: &mut [InstanceInfo]) {
        let parted = assigned.first().is_some_and(|info| {
            let name = info.tags.get(labels::NODE_CLASS).map_or("", String::as_str);
            self.catalogs.group(name).is_some_and(|group| group.partitions > 0)
        });
        let open = plan.placement.as_ref().is_some_and(|(_, part)| part.is_none());
        if !parted || !open {
            return;
        }
        let ids: Vec<String> = assigned.iter().map(|info| info.id.clone()).collect();
        let Ok(seen) = self.api.instances(&ids, &[]).await else { return };
        for info in assigned {
            if let Some(fresh) = seen.iter().find(|fresh| fresh.id == info.id && fresh.placement.is_some()) {
                info.placement.clone_from(&fresh.placement);
            }
        }
    }

    /// A new instance as EC2 is going to describe it.
    fn new_instance(
        &self,
        request: &FleetRequest,
        prepared: &Prepared,
        fleet: &crate::calls::FleetInstance,
    ) -> InstanceInfo {
        let plan = &prepared.plan;
        let group = request.overrides.iter().find(|way| {
            way.instance_type == fleet.instance_type && way.zone == fleet.zone && way.image == fleet.image
        });
        let group = group.and_then(|way| plan.group_of(&way.instance_type, &way.zone));
        let status = prepared.known.class.status.clone().unwrap_or_default();
        let zone_id = status
            .subnets
            .iter()
            .find(|subnet| subnet.id == fleet.subnet)
            .map(|subnet| subnet.zone_id.clone());
        InstanceInfo {
            id: fleet.id.clone(),
            state: "pending".to_owned(),
            instance_type: fleet.instance_type.clone(),
            zone: fleet.zone.clone(),
            zone_id: zone_id.unwrap_or_default(),
            image: fleet.image.clone(),
            subnet: fleet.subnet.clone(),
            security_groups: status.security_groups.iter().map(|group| group.id.clone()).collect(),
            spot: plan.capacity_type == "spot",
            reservation: group.and_then(|group| group.reservation.as_ref().map(|(id, ..)| id.clone())),
            tenancy: plan.tenancy.to_owned(),
            placement: plan.placement.clone(),
            profile: Some(status.instance_profile.clone()),
            efa_interfaces: listed_efas(&prepared.known.class.spec)
                .unwrap_or_else(|| group.map_or(0, |group| group.efas)),
            launched: Some(self.clock.now()),
            tags: request.tags.clone(),
        }
    }

    fn hold(&self, plan: &FleetPlan, count: i64) {
        let mut addresses = self.addresses();
        for (subnet, each) in &plan.addresses {
            addresses.hold(subnet, each.saturating_mul(count));
        }
    }

    /// Releases the held addresses, except those that instances in the chosen subnets use.
    fn release(&self, plan: &FleetPlan, count: i64, chosen: &[&str]) {
        let mut addresses = self.addresses();
        for (subnet, each) in &plan.addresses {
            let taken = chosen.iter().filter(|name| **name == subnet.as_str()).count();
            let taken = i64::try_from(taken).unwrap_or(i64::MAX);
            addresses.release(subnet, each.saturating_mul(count.saturating_sub(taken)));
        }
    }

    /// Records failures and capacity of an answer.
    fn record(&self, answer: &FleetAnswer, prepared: &Prepared) {
        let Prepared { plan, known, .. } = prepared;
        for error in &answer.errors {
            let subnets = known.class.status.iter().flat_map(|status| &status.subnets);
            let zone_id = subnets.into_iter().find(|subnet| subnet.zone == error.zone);
            let zone_id = zone_id.map_or("", |subnet| subnet.zone_id.as_str());
            let reason = reason(&error.code, &error.message);
            let labels = [error.zone.as_str(), zone_id, plan.capacity_type, reason];
            self.ledger.note(&figures::LAUNCH_FAILURES, &labels, 1.0);
        }
        let now = self.clock.now();
        if answer.errors.iter().any(is_without_role) {
            let message = "spot capacity is off: IAM does not allow creating the service-linked role AWSServiceRoleForEC2Spot; \
                           create it once in the account";
            self.problems.record("spot capacity", "SpotSLRCreationFailed", message.to_owned(), now);
        }
        self.catalogs.record_fleet(answer, plan, &self.addresses, now);
    }
}

/// Whether a NodeClaim can be launched with its class.
fn usable(known: &KnownClass, claim: &NodeClaim) -> Result<(), LaunchError> {
    let because = |why: &str| -> Str { format!("{}: {why}", claim.class).into() };
    match known.readiness() {
        Readiness::Yes => {}
        Readiness::No(why) => return Err(LaunchError::NodeClassNotReady(because(&why))),
        Readiness::Unknown(why) => {
            let reason = "NodeClassReadinessUnknown".into();
            return Err(LaunchError::Failed { reason, message: because(&why) });
        }
    }
    if let Some(key) = restricted(&known.class.spec).first() {
        let why = format!("spec.tags has the restricted key {key}: remove it");
        return Err(LaunchError::NodeClassNotReady(because(&why)));
    }
    without_enclaves(known, claim).map_or(Ok(()), Err)
}

/// The error of a NodeClaim that needs an enclave, if its class disables enclaves.
fn without_enclaves(known: &KnownClass, claim: &NodeClaim) -> Option<LaunchError> {
    let refuses = known.class.spec.enclave_options.as_ref().is_some_and(|options| !options.enabled);
    let wants = claim.requests.get(&labels::RESOURCE_NITRO_SANDBOX.into()) > 0;
    let message =
        format!("{}: spec.enclaveOptions.enabled is false, and pods request a sandbox", claim.class);
    (refuses && wants)
        .then(|| LaunchError::Failed { reason: "NitroEnclavesDisabled".into(), message: message.into() })
}

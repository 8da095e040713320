//! Launches a batch: finds what was launched before, asks EC2 for the rest, and assigns instances to NodeClaims.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleetwright_aws_api::labels;
use fleetwright_core::{
    cloud::{Instance, LaunchError, LaunchRequest},
    model::{NodeClaim, Str},
};
use futures::StreamExt as _;

use super::classes::{Known, Readiness};
use super::in_flight::{PendingCall, SentRequest, is_open};
use super::prepared::{Answers, LaunchRequirements, Prepared, jittered, launch_requirements};
use super::templates::ensure_templates;
use super::{AwsProvider, provider_id, recovery};
use crate::calls::{AwsError, Class, FleetAnswer, FleetRequest, InstanceInfo, TagSet};
use crate::digest::digest;
use crate::figures;
use crate::instancetype::View;
use crate::launch::{
    Plan, PlanInput, candidates, is_throttled, is_without_role, is_without_template, launch_error, overlaid,
    plan, requests,
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
    pub(super) async fn launch_all(&self, batch: &[LaunchRequest]) -> Vec<Result<Instance, LaunchError>> {
        let mut answers: Answers = vec![None; batch.len()];
        let uid = match self.may_mutate() {
            Ok(uid) => uid,
            Err(error) => {
                // No call is made, and the outcome of earlier calls is unknown.
                let refused = LaunchError::Unknown(error.to_string().into());
                return batch.iter().map(|_| Err(refused.clone())).collect();
            }
        };
        self.launches.started();
        self.launches.fill_assigned(batch, &mut answers);
        if let Err(error) = recovery::fill_found(self, batch, &uid, &mut answers).await {
            return answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(error.clone()))).collect();
        }
        self.repeat_unanswered(batch, &mut answers).await;
        let mut groups: BTreeMap<LaunchRequirements, Vec<usize>> = BTreeMap::new();
        for (at, request) in batch.iter().enumerate().filter(|(at, _)| answers[*at].is_none()) {
            groups.entry(launch_requirements(&request.claim)).or_default().push(at);
        }
        for group in groups.into_values() {
            self.launch_group(batch, &group, &uid, &mut answers).await;
        }
        let short = || Err(LaunchError::Unknown("fewer instances were launched than requested".into()));
        answers.into_iter().map(|answer| answer.unwrap_or_else(short)).collect()
    }

    /// Repeats the unanswered calls of this process unchanged. A call that was made for more NodeClaims than the batch has now is
    /// repeated for all of them: with a token for fewer NodeClaims, a fleet would launch them a second time.
    async fn repeat_unanswered(&self, batch: &[LaunchRequest], answers: &mut Answers) {
        for sent in self.launches.kept() {
            let open = |at: &usize| is_open(answers[*at].as_ref()) && sent.is_for(&batch[*at]);
            let mut places: Vec<usize> = (0..batch.len()).filter(open).collect();
            if places.is_empty() {
                continue;
            }
            places.sort_by(|a, b| batch[*a].claim.name.cmp(&batch[*b].claim.name));
            // After a refusal the request is kept for as long as EC2 may not show what the earlier call launched.
            if self.send(&sent.request, &places, batch, &sent.prepared, answers).await {
                self.launches.drop_if_known(&sent, &places, answers);
            }
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
            Err(error) if error.class() == Class::Unauthorized => {
                self.problems.denied("ec2:CreateTags", &error, self.clock.now());
            }
            // The tagging step tries again.
            Err(_) => {}
        }
        instance
    }

    /// Launches NodeClaims with equal launch requirements.
    async fn launch_group(&self, batch: &[LaunchRequest], group: &[usize], uid: &str, answers: &mut Answers) {
        let Some(&first) = group.first() else { return };
        let prepared = match self.prepare(&batch[first], uid).await {
            Ok(prepared) => prepared,
            Err(error) => {
                for at in group {
                    answers[*at] = Some(Err(jittered(error.clone(), &batch[*at].claim.name)));
                }
                return;
            }
        };
        let claims: Vec<(usize, &NodeClaim)> = group.iter().map(|at| (*at, &*batch[*at].claim)).collect();
        let prepared = Arc::new(prepared);
        let Prepared { plan, templates, tags, context, .. } = &*prepared;
        for (mut request, places) in requests(plan, templates, &claims, tags, context.as_deref()) {
            request.token = self.launches.unthrottled_token(request.token);
            let sent = SentRequest::new(request, places.iter().map(|at| &batch[*at]), prepared.clone());
            self.launches.keep(&sent);
            self.send(&sent.request, &places, batch, &prepared, answers).await;
            // A refusal of the first call is an answer too.
            self.launches.drop_if_known(&sent, &places, answers);
        }
    }

    /// Decides the launch and creates its launch templates.
    async fn prepare(&self, request: &LaunchRequest, uid: &str) -> Result<Prepared, LaunchError> {
        let claim = &request.claim;
        let not_ready =
            |why: String| LaunchError::NodeClassNotReady(format!("{}: {why}", claim.class).into());
        let known =
            self.classes.get(&claim.class.name).ok_or_else(|| not_ready("it does not exist".to_owned()))?;
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
        let view = View {
            settings: &self.settings,
            spec: &known.class.spec,
            status: &status,
            kubelet: &known.kubelet,
            group: group.as_ref(),
        };
        let plan = {
            let addresses = &*self.addresses();
            plan(&PlanInput { claim, filtered: &filtered, view: &view, catalog: &catalog, addresses })
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
        let templates = templates.map_err(|error| self.launches.unless_open(None, error))?;
        let hash = known.class.spec.drift_hash(&self.settings.ca_bundle);
        tags.insert(labels::TAG_CLASS_HASH.to_owned(), hash);
        tags.insert(labels::TAG_BATCH.to_owned(), request.batch.to_string());
        tags.insert(labels::TAG_ATTEMPT.to_owned(), request.attempt.to_string());
        let relaxed = claim
            .annotations
            .get("karpenter.sh/nodeclaim-min-values-relaxed")
            .is_some_and(|v| &**v == "true");
        let context = known.class.spec.context.clone().filter(|_| !relaxed);
        Ok(Prepared { plan, templates, tags, template_tags, context, known, claim: claim.clone() })
    }

    /// Launches one fleet and assigns its instances. Returns whether EC2 answered with an outcome.
    async fn send(
        &self,
        request: &FleetRequest,
        places: &[usize],
        batch: &[LaunchRequest],
        prepared: &Prepared,
        answers: &mut Answers,
    ) -> bool {
        match self.create_fleet(request, prepared).await {
            Ok(answer) => {
                self.assign_fleet(answer, request, places, batch, prepared, answers).await;
                true
            }
            Err(error) => {
                for at in places {
                    answers[*at] = Some(Err(jittered(error.clone(), &batch[*at].claim.name)));
                }
                false
            }
        }
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
            self.launches.fleet_refused(&request.token, &error)
        })?;
        if answer.instances.is_empty() && answer.errors.iter().any(is_throttled) {
            self.launches.record_throttled(&request.token);
        }
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

    /// Assigns the instances of a fleet that no NodeClaim has yet.
    async fn assign_fleet(
        &self,
        answer: FleetAnswer,
        request: &FleetRequest,
        places: &[usize],
        batch: &[LaunchRequest],
        prepared: &Prepared,
        answers: &mut Answers,
    ) {
        let mut launched = answer.instances;
        launched.sort_by(|a, b| a.id.cmp(&b.id));
        launched.retain(|fleet| !self.launches.is_assigned(&provider_id(&fleet.zone, &fleet.id)));
        let mut assigned: Vec<(usize, InstanceInfo)> = Vec::new();
        for (at, fleet) in places.iter().zip(launched) {
            assigned.push((*at, self.new_instance(request, prepared, &fleet)));
        }
        self.partitions(&prepared.plan, &mut assigned).await;
        for at in &places[assigned.len()..] {
            answers[*at] = Some(Err(jittered(launch_error(&answer.errors), &batch[*at].claim.name)));
        }
        let alone = request.tags.contains_key(labels::TAG_NODECLAIM);
        let tagged = futures::stream::iter(assigned).map(|(at, info)| async move {
            let instance = self.describe(&info);
            let instance =
                if alone { instance } else { self.tag_claim(&info.id, instance, &batch[at]).await };
            (at, instance)
        });
        let tagged: Vec<(usize, Instance)> = tagged.buffer_unordered(TAGGED_AT_ONCE).collect().await;
        for (at, instance) in tagged {
            answers[at] = Some(Ok(self.launches.assign(&batch[at], instance)));
        }
    }

    /// Fills in the partitions that EC2 chose, as far as it shows them already; the partition step reads the others later.
    async fn partitions(&self, plan: &Plan, assigned: &mut [(usize, InstanceInfo)]) {
        let parted = assigned.first().is_some_and(|(_, info)| {
            let name = info.tags.get(labels::NODE_CLASS).map_or("", String::as_str);
            self.catalogs.group(name).is_some_and(|group| group.partitions > 0)
        });
        let open = plan.placement.as_ref().is_some_and(|(_, part)| part.is_none());
        if !parted || !open {
            return;
        }
        let ids: Vec<String> = assigned.iter().map(|(_, info)| info.id.clone()).collect();
        let Ok(seen) = self.api.instances(&ids, &[]).await else { return };
        for (_, info) in assigned {
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
            efa_interfaces: group.map_or(0, |group| group.efas),
            launched: Some(self.clock.now()),
            tags: request.tags.clone(),
        }
    }

    fn hold(&self, plan: &Plan, count: i64) {
        let mut addresses = self.addresses();
        for (subnet, each) in &plan.addresses {
            addresses.hold(subnet, each.saturating_mul(count));
        }
    }

    /// Releases the held addresses, except those that instances in the chosen subnets use.
    fn release(&self, plan: &Plan, count: i64, chosen: &[&str]) {
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
            let labels = [error.zone.as_str(), zone_id, plan.capacity_type, &error.code];
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
fn usable(known: &Known, claim: &NodeClaim) -> Result<(), LaunchError> {
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
fn without_enclaves(known: &Known, claim: &NodeClaim) -> Option<LaunchError> {
    let refuses = known.class.spec.enclave_options.as_ref().is_some_and(|options| !options.enabled);
    let wants = claim.requests.get(&labels::RESOURCE_NITRO_SANDBOX.into()) > 0;
    let message =
        format!("{}: spec.enclaveOptions.enabled is false, and pods request a sandbox", claim.class);
    (refuses && wants)
        .then(|| LaunchError::Failed { reason: "NitroEnclavesDisabled".into(), message: message.into() })
}

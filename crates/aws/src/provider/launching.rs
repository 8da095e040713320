//! Launching a batch: what is known of it already, what is asked of EC2, and which claim gets which instance.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleetwright_aws_api::{Family, labels};
use fleetwright_core::{
    cloud::{Instance, LaunchError, LaunchRequest},
    model::{Labels, NodeClaim, Requirements, Resources, Str, Taint},
};
use futures::StreamExt as _;

use super::classes::{Known, Readiness};
use super::open::{KEPT, Sent, UnderWay};
use super::{AwsProvider, provider_id};
use crate::batch::spread;
use crate::calls::{AwsError, Class, Filter, FleetAnswer, FleetRequest, InstanceInfo, TagSet};
use crate::digest::digest;
use crate::figures;
use crate::instancetype::View;
use crate::launch::{
    Effect, Group, Plan, PlanInput, TemplateInput, call_error, candidates, effects, has_metadata_ipv6,
    is_throttled, is_without_role, is_without_template, launch_error, overlaid, plan, requests,
    template_data, template_name,
};
use crate::tags::{Owner, owned, restricted};
use crate::userdata::{self, Bootstrap, UserData};

/// How many instances are told their claim's name at once.
const TAGGED_AT_ONCE: usize = 16;

/// What makes claims of one batch alike.
type Shape = (Requirements, Resources, Str, Labels, Vec<Taint>, Vec<Taint>);

/// An answer per claim of a batch, as far as there is one.
pub(super) type Answers = Vec<Option<Result<Instance, LaunchError>>>;

fn shape(claim: &NodeClaim) -> Shape {
    let NodeClaim { requirements, requests, class, labels, taints, startup_taints, .. } = claim;
    (
        requirements.clone(),
        requests.clone(),
        class.name.clone(),
        labels.clone(),
        taints.clone(),
        startup_taints.clone(),
    )
}

/// Whether launch templates of a fleet are not there any more: EC2 refuses the fleet as a whole, or those of its overrides.
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
                // Nothing is asked of EC2, which tells nothing of what was asked before.
                let refused = LaunchError::Unknown(error.to_string().into());
                return batch.iter().map(|_| Err(refused.clone())).collect();
            }
        };
        let now = self.clock.steady();
        self.state().began.get_or_insert(now);
        self.remembered(batch, &mut answers);
        if let Err(error) = self.found(batch, &uid, &mut answers).await {
            return answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(error.clone()))).collect();
        }
        self.repeat(batch, &mut answers).await;
        let mut shapes: BTreeMap<Shape, Vec<usize>> = BTreeMap::new();
        for (at, request) in batch.iter().enumerate().filter(|(at, _)| answers[*at].is_none()) {
            shapes.entry(shape(&request.claim)).or_default().push(at);
        }
        for alike in shapes.into_values() {
            self.launch_alike(batch, &alike, &uid, &mut answers).await;
        }
        let short = || Err(LaunchError::Unknown("fewer instances were launched than were asked for".into()));
        answers.into_iter().map(|answer| answer.unwrap_or_else(short)).collect()
    }

    pub(super) fn deal(&self, request: &LaunchRequest, instance: Instance) -> Instance {
        self.state().dealt.put(&request.batch, request.attempt, &request.claim.name, instance.clone());
        instance
    }

    /// Writes the claim's name on an instance. Where EC2 refuses, the instance keeps its batch, and the claim is told later.
    pub(super) async fn tell(&self, id: &str, mut instance: Instance, request: &LaunchRequest) -> Instance {
        let name = request.claim.name.to_string();
        let tags = TagSet::from([(labels::TAG_NODECLAIM.to_owned(), name)]);
        match self.api.create_tags(id, &tags).await {
            Ok(()) => instance.claim = Some(request.claim.name.clone()),
            Err(error) if error.class() == Class::Unauthorized => {
                self.state().troubles.refused("ec2:CreateTags", &error, self.clock.now());
            }
            // The loop that names instances tries again.
            Err(_) => {}
        }
        instance
    }

    /// Launches claims that are alike.
    async fn launch_alike(&self, batch: &[LaunchRequest], alike: &[usize], uid: &str, answers: &mut Answers) {
        let Some(&first) = alike.first() else { return };
        let prepared = match self.prepare(&batch[first], uid).await {
            Ok(prepared) => prepared,
            Err(error) => {
                for at in alike {
                    answers[*at] = Some(Err(apart(error.clone(), &batch[*at].claim.name)));
                }
                return;
            }
        };
        let claims: Vec<(usize, &NodeClaim)> = alike.iter().map(|at| (*at, &*batch[*at].claim)).collect();
        let prepared = Arc::new(prepared);
        let Prepared { plan, templates, tags, context, .. } = &*prepared;
        for (mut request, places) in requests(plan, templates, &claims, tags, context.as_deref()) {
            request.token = self.untried(request.token);
            let sent = Sent::new(request, places.iter().map(|at| &batch[*at]), prepared.clone());
            self.state().sent.insert(sent.request.token.clone(), sent.clone(), self.clock.now(), KEPT);
            self.send(&sent.request, &places, batch, &prepared, answers).await;
            // A refusal of the first call is an answer as well.
            self.settle(&sent, &places, answers);
        }
    }

    /// Everything that is decided and made before EC2 is asked to launch.
    async fn prepare(&self, request: &LaunchRequest, uid: &str) -> Result<Prepared, LaunchError> {
        let claim = &request.claim;
        let not_ready =
            |why: String| LaunchError::NodeClassNotReady(format!("{}: {why}", claim.class).into());
        let known =
            self.classes.get(&claim.class.name).ok_or_else(|| not_ready("it does not exist".to_owned()))?;
        usable(&known, claim)?;
        let group = self.group(&claim.class.name);
        if known.class.spec.placement_group_selector.is_some() && group.is_none() {
            // An instance outside of the group that was asked for would be worse than none.
            return Err(not_ready("its placement group is not known yet".to_owned()));
        }
        let catalog = self.class_catalog(&known);
        let dry = || {
            let message = "all requested instance types were unavailable during launch";
            LaunchError::InsufficientCapacity(message.into())
        };
        let choice = overlaid(&catalog.catalog, request.decided_by.as_deref());
        let filtered = candidates(claim, &choice, self.settings.min_values).ok_or_else(dry)?;
        let status = known.class.status.clone().unwrap_or_default();
        let view = View {
            settings: &self.settings,
            spec: &known.class.spec,
            status: &status,
            kubelet: &known.kubelet,
            group: group.as_ref(),
        };
        let plan = {
            let state = self.state();
            plan(&PlanInput {
                claim,
                filtered: &filtered,
                view: &view,
                catalog: &catalog,
                addresses: &state.addresses,
            })
        };
        let plan = plan.ok_or_else(dry)?;
        let owner = Owner {
            settings: &self.settings,
            cluster_uid: uid,
            class: &claim.class.name,
            pool: claim.pool.as_ref().map_or("", |pool| pool.as_str()),
        };
        let mut tags = owned(&owner, &known.class.spec);
        let template_tags = tags.clone();
        let templates = self.templates(&known, claim, &plan, &template_tags).await;
        let templates = templates.map_err(|error| self.unless_open(None, error))?;
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

    /// The launch templates of a plan, made where they are not there.
    pub(super) async fn templates(
        &self,
        known: &Known,
        claim: &NodeClaim,
        plan: &Plan,
        tags: &TagSet,
    ) -> Result<BTreeMap<Group, String>, LaunchError> {
        let mut names = BTreeMap::new();
        for group in &plan.groups {
            let user_data = self.user_data(known, claim, group, plan)?.base64();
            let status = known.class.status.clone().unwrap_or_default();
            let input = TemplateInput {
                spec: &known.class.spec,
                status: &status,
                user_data: &user_data,
                tags,
                tenancy: plan.tenancy,
                placement: plan.placement.as_ref().map(|(id, part)| (id.as_str(), *part)),
                ipv6: self.is_ipv6(),
                reserved_capacity: self.settings.reserved_capacity,
                sandboxed: claim.requests.get(&labels::RESOURCE_NITRO_SANDBOX.into()) > 0,
                metadata_ipv6: has_metadata_ipv6(&self.settings.region),
            };
            let data = template_data(group, &input);
            let name = template_name(&data);
            let known = self.state().templates.contains_key(&name);
            if !known {
                let there = self.api.launch_templates(&[Filter::new("launch-template-name", [&name])]).await;
                let there = there.map_err(|error| call_error(&error))?;
                if there.is_empty() {
                    match self.api.create_launch_template(&name, &data, tags).await {
                        // Another process was faster, with the same content.
                        Err(error) if error.code == "InvalidLaunchTemplateName.AlreadyExistsException" => {}
                        made => made.map_err(|error| call_error(&error))?,
                    }
                }
            }
            self.state().templates.insert(name.clone(), self.clock.now());
            names.insert(group.clone(), name);
        }
        Ok(names)
    }

    fn is_ipv6(&self) -> bool {
        self.state().cluster_dns.as_deref().is_some_and(|address| address.contains(':'))
    }

    pub(super) fn user_data(
        &self,
        known: &Known,
        claim: &NodeClaim,
        group: &Group,
        plan: &Plan,
    ) -> Result<UserData, LaunchError> {
        let spec = &known.class.spec;
        let family = spec.family();
        let amis = known.class.status.as_ref().map(|status| status.amis.clone()).unwrap_or_default();
        let dns = self.state().cluster_dns.clone();
        let cidr = self.service_cidr().ok();
        let block = spec.kubelet.clone().unwrap_or_default();
        let (kubelet, parsed) = userdata::resolve(&block, &known.kubelet, &group.kubelet, dns.as_deref());
        let bootstrap = Bootstrap {
            cluster_name: &self.settings.cluster_name,
            endpoint: &self.settings.cluster_endpoint,
            ca_bundle: &self.settings.ca_bundle,
            service_cidr: cidr.as_deref(),
            kubelet,
            parsed,
            taints: userdata::taints(&claim.taints, &claim.startup_taints),
            labels: userdata::labels(&claim.labels, plan.capacity_type, family),
            custom: spec.user_data.as_deref(),
            raid0: spec.instance_store_policy.as_deref() == Some("RAID0"),
            bind_by_default: family == Family::Bottlerocket && userdata::mounts_by_default(spec, &amis),
        };
        match userdata::render(family, &bootstrap) {
            Ok(data) => {
                let size = u32::try_from(data.text.len()).unwrap_or(u32::MAX);
                self.ledger.note(&figures::USER_DATA, &[&claim.class.name], f64::from(size));
                Ok(data)
            }
            Err(userdata::UserDataError::TooLarge { .. }) => Err(LaunchError::Failed {
                reason: "UserDataSizeLimitExceeded".into(),
                message: format!("EC2NodeClass/{}: user data is larger than EC2 takes", claim.class.name)
                    .into(),
            }),
            Err(error) => Err(LaunchError::NodeClassNotReady(format!("{}: {error}", claim.class).into())),
        }
    }

    /// Asks for one fleet and deals its instances. Returns whether EC2 told what came of it.
    pub(super) async fn send(
        &self,
        request: &FleetRequest,
        places: &[usize],
        batch: &[LaunchRequest],
        prepared: &Prepared,
        answers: &mut Answers,
    ) -> bool {
        match self.ask(request, prepared).await {
            Ok(answer) => {
                self.deal_fleet(answer, request, places, batch, prepared, answers).await;
                true
            }
            Err(error) => {
                for at in places {
                    answers[*at] = Some(Err(apart(error.clone(), &batch[*at].claim.name)));
                }
                false
            }
        }
    }

    /// One call, and what is observed of its answer.
    async fn ask(&self, request: &FleetRequest, prepared: &Prepared) -> Result<FleetAnswer, LaunchError> {
        let plan = &prepared.plan;
        let count = i64::try_from(request.count).unwrap_or(i64::MAX);
        self.hold(plan, count);
        let size = u32::try_from(request.count).unwrap_or(u32::MAX);
        self.ledger.note(&figures::BATCH_SIZE, &["create_fleet"], f64::from(size));
        let under_way = UnderWay::new(self, &request.token);
        let mut answer = self.api.create_fleet(request).await;
        if lacks_templates(&answer) {
            answer = self.ask_with_templates(request, prepared, answer).await;
        }
        under_way.over();
        let answer = answer.map_err(|error| {
            self.release(plan, count, &[]);
            self.note_open(&request.token, &error);
            self.fleet_refused(&request.token, &error)
        })?;
        if answer.instances.is_empty() && answer.errors.iter().any(is_throttled) {
            self.state().throttled.insert(request.token.clone(), self.clock.steady());
        }
        self.learn(&answer, prepared);
        let subnets: Vec<&str> = answer.instances.iter().map(|instance| instance.subnet.as_str()).collect();
        self.release(plan, count, &subnets);
        Ok(answer)
    }

    /// Somebody has deleted launch templates. Their names are their content: they are made again as they were, and a fleet that came to
    /// nothing for it is asked for again, once.
    async fn ask_with_templates(
        &self,
        request: &FleetRequest,
        prepared: &Prepared,
        answer: Result<FleetAnswer, AwsError>,
    ) -> Result<FleetAnswer, AwsError> {
        let Prepared { known, claim, plan, template_tags, templates, .. } = prepared;
        // Those of others keep their last use, by which they are deleted.
        self.state().templates.retain(|name, _| !templates.values().any(|gone| gone == name));
        let launched = answer.as_ref().is_ok_and(|answer| !answer.instances.is_empty());
        if self.templates(known, claim, plan, template_tags).await.is_err() || launched {
            return answer;
        }
        let token = match answer {
            // Under its old token EC2 may repeat its old answer.
            Ok(_) => digest(&format!("{}/again", request.token)),
            // No fleet was made by it. With another token there would be two, were this answer lost and the call repeated as it was.
            Err(_) => request.token.clone(),
        };
        self.api.create_fleet(&FleetRequest { token, ..request.clone() }).await
    }

    /// Deals a fleet's instances that no claim has yet.
    async fn deal_fleet(
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
        launched.retain(|fleet| !self.state().dealt.has(&provider_id(&fleet.zone, &fleet.id)));
        let mut dealt: Vec<(usize, InstanceInfo)> = Vec::new();
        for (at, fleet) in places.iter().zip(launched) {
            dealt.push((*at, self.born(request, prepared, &fleet)));
        }
        self.partitions(&prepared.plan, &mut dealt).await;
        for at in &places[dealt.len()..] {
            answers[*at] = Some(Err(apart(launch_error(&answer.errors), &batch[*at].claim.name)));
        }
        let alone = request.tags.contains_key(labels::TAG_NODECLAIM);
        let told = futures::stream::iter(dealt).map(|(at, info)| async move {
            let instance = self.seen(&info);
            let instance = if alone { instance } else { self.tell(&info.id, instance, &batch[at]).await };
            (at, instance)
        });
        let told: Vec<(usize, Instance)> = told.buffer_unordered(TAGGED_AT_ONCE).collect().await;
        for (at, instance) in told {
            answers[at] = Some(Ok(self.deal(&batch[at], instance)));
        }
    }

    /// The partitions that EC2 chose, as far as it tells them already; a loop asks again for the others.
    async fn partitions(&self, plan: &Plan, dealt: &mut [(usize, InstanceInfo)]) {
        let parted = dealt.first().is_some_and(|(_, info)| {
            let name = info.tags.get(labels::NODE_CLASS).map_or("", String::as_str);
            self.group(name).is_some_and(|group| group.partitions > 0)
        });
        let open = plan.placement.as_ref().is_some_and(|(_, part)| part.is_none());
        if !parted || !open {
            return;
        }
        let ids: Vec<String> = dealt.iter().map(|(_, info)| info.id.clone()).collect();
        let Ok(seen) = self.api.instances(&ids, &[]).await else { return };
        for (_, info) in dealt {
            if let Some(fresh) = seen.iter().find(|fresh| fresh.id == info.id && fresh.placement.is_some()) {
                info.placement.clone_from(&fresh.placement);
            }
        }
    }

    /// A new instance, as EC2 will describe it.
    fn born(
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
        let mut state = self.state();
        for (subnet, each) in &plan.addresses {
            state.addresses.hold(subnet, each.saturating_mul(count));
        }
    }

    /// Gives back the addresses that were held, less those of the subnets that were chosen.
    fn release(&self, plan: &Plan, count: i64, chosen: &[&str]) {
        let mut state = self.state();
        for (subnet, each) in &plan.addresses {
            let taken = chosen.iter().filter(|name| **name == subnet.as_str()).count();
            let taken = i64::try_from(taken).unwrap_or(i64::MAX);
            state.addresses.release(subnet, each.saturating_mul(count.saturating_sub(taken)));
        }
    }

    /// Remembers what failed, also where something was launched.
    fn learn(&self, answer: &FleetAnswer, prepared: &Prepared) {
        let Prepared { plan, known, .. } = prepared;
        for error in &answer.errors {
            let subnets = known.class.status.iter().flat_map(|status| &status.subnets);
            let zone_id = subnets.into_iter().find(|subnet| subnet.zone == error.zone);
            let zone_id = zone_id.map_or("", |subnet| subnet.zone_id.as_str());
            let labels = [error.zone.as_str(), zone_id, plan.capacity_type, &error.code];
            self.ledger.note(&figures::LAUNCH_FAILURES, &labels, 1.0);
        }
        let now = self.clock.now();
        let mut state = self.state();
        if answer.errors.iter().any(is_without_role) {
            let message = "spot capacity is off: IAM lets nobody create the service-linked role AWSServiceRoleForEC2Spot, \
                           create it once in the account";
            state.troubles.met("spot capacity", "SpotSLRCreationFailed", message.to_owned(), now);
        }
        for instance in &answer.instances {
            let group = plan.group_of(&instance.instance_type, &instance.zone);
            if let Some((id, ..)) = group.and_then(|group| group.reservation.as_ref()) {
                state.reservations.launched(id, 1);
            }
        }
        let group = plan.placement.as_ref().map(|(id, part)| (id.as_str(), *part));
        for error in &answer.errors {
            for effect in effects(error, plan.capacity_type, group) {
                match effect {
                    Effect::Unavailable(what) => state.unavailable.mark(what, now),
                    Effect::NoAddresses(subnet) => state.addresses.exhausted(&subnet),
                    Effect::ReservationFull => {
                        let group = plan.group_of(&error.instance_type, &error.zone);
                        if let Some((id, ..)) = group.and_then(|group| group.reservation.clone()) {
                            state.reservations.full(&id, now);
                        }
                    }
                }
            }
        }
    }
}

/// Whether a class can be launched with, for a claim.
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

/// Why a class that rules enclaves out launches nothing for a claim that needs one.
fn without_enclaves(known: &Known, claim: &NodeClaim) -> Option<LaunchError> {
    let refuses = known.class.spec.enclave_options.as_ref().is_some_and(|options| !options.enabled);
    let wants = claim.requests.get(&labels::RESOURCE_NITRO_SANDBOX.into()) > 0;
    let message =
        format!("{}: spec.enclaveOptions.enabled is false, and pods ask for a sandbox", claim.class);
    (refuses && wants)
        .then(|| LaunchError::Failed { reason: "NitroEnclavesDisabled".into(), message: message.into() })
}

/// A launch, decided and prepared.
pub(super) struct Prepared {
    plan: Plan,
    templates: BTreeMap<Group, String>,
    /// Tags of the instances.
    tags: TagSet,
    /// Tags of the launch templates.
    template_tags: TagSet,
    context: Option<String>,
    known: Known,
    claim: Arc<NodeClaim>,
}

/// Claims whose call was throttled come back at different times: up to half as late again, by their names.
fn apart(error: LaunchError, claim: &str) -> LaunchError {
    match error {
        LaunchError::RateLimited { after } => LaunchError::RateLimited { after: spread(after, claim) },
        other => other,
    }
}

/// Whether an instance may be a claim's.
pub(super) fn allowed(instance: &Instance, requirements: &Requirements) -> bool {
    instance.labels.iter().all(|(key, value)| requirements.allows(key, value))
}

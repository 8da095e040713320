//! The emulator: what AWS does and moto does not, as cases set it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::answer::{Answer, Refusal, described, managed_resource, parameter, products};
use crate::call::{Call, Params, tag_pairs};
use crate::capacity::{Launched, Supply, Way, filters, listed};
use crate::consistency::{
    Delays, PENDING, SHUTTING_DOWN, filter_states, hide_instances, is_unseen, no_instance, no_profile,
    no_template, set_state, terminating, unknown_profile,
};
use crate::fleet::{self, Allocation, Blocked, Fleets, allocate, ways};
use crate::iam::{self, AuthorizationRequest, Denial, Policies, ResourceTags};
use crate::images::Images;
use crate::settings::{Launch, TypeSupport, types_of};
use crate::templates::{self, Profile, Template};
use crate::throttle::{Buckets, LAUNCHES};
use crate::xml::Element;

/// Products of one page of the price list.
const PRODUCTS: usize = 100;
/// EC2's message about tags of spot requests where none is created, as in aws/karpenter-provider-aws#5850.
const NO_SPOT_REQUEST: &str = "You cannot specify tags for Spot instances requests if there are no Spot instances requests being created by the request.";
/// A signature is valid for this long, by the clock of AWS: "the request must reach AWS within five minutes of the time stamp"
/// (<https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html>).
const SIGNATURE_VALID: SignedDuration = SignedDuration::from_mins(5);

/// What the emulator does to calls, beside passing them on.
#[derive(Debug, Default)]
pub struct Rules {
    /// The region of every call.
    pub region: String,
    /// Name of the cluster whose tags IAM demands at birth; empty demands nothing.
    pub cluster: String,
    /// By access key, the policies of a caller; a caller without any may do everything.
    pub policies: BTreeMap<String, Policies>,
    /// Capacity, quotas, reservations, placement groups.
    pub supply: Supply,
    /// How late things are seen.
    pub delays: Delays,
    /// How much older instances are than they are, by their launch times.
    pub older: SignedDuration,
    /// What instance types support; one that is not here launches everything.
    pub types: BTreeMap<String, TypeSupport>,
    /// How many launch templates the account may have.
    pub templates_max: Option<usize>,
    /// How many more fleets the account may create.
    pub fleets_left: Option<u32>,
    /// EC2's token buckets, if requests are throttled by them.
    pub buckets: Option<Buckets>,
    /// By action, the number of consecutive throttled calls before one passes; `*` stands for every action.
    pub throttled: BTreeMap<&'static str, u32>,
    /// Actions that IAM refuses.
    pub denied: BTreeSet<&'static str>,
    /// How many answers of an action are lost on their way back, after their effect.
    pub lost: BTreeMap<&'static str, u32>,
    /// Access keys whose time is over.
    pub expired: BTreeSet<String>,
    /// How far the clock of AWS is ahead of the callers'.
    pub skew: SignedDuration,
    /// Items of a page, by action: moto answers with all at once.
    pub pages: BTreeMap<&'static str, usize>,
    /// SSM parameters of images; moto has few of them.
    pub parameters: BTreeMap<String, String>,
    /// Architectures of images, and images that the account may not use.
    pub images: Images,
    /// The price list: type and dollars an hour; moto has none.
    pub prices: Vec<(String, String)>,
    /// Zones, by id, that traffic is shifted away from; moto has none.
    pub away: Vec<String>,
    /// Zones, by id, that AWS itself shifts traffic away from.
    pub autoshifted: Vec<String>,
    /// What fleets were asked and answered.
    pub fleets: Fleets,
    /// Tags of resources, by the last part of their ARNs.
    pub tags: ResourceTags,
    templates: BTreeMap<String, Template>,
    profiles: BTreeMap<String, Profile>,
    /// Instances that are shutting down, since when.
    stopping: BTreeMap<String, Timestamp>,
    /// How often EC2's token buckets had nothing left, by action; `RunInstances/instances` counts instances of fleets.
    pub throttles: BTreeMap<String, u32>,
    /// How often each action was throttled since one passed.
    held: BTreeMap<String, u32>,
    /// Answers of `DescribeInstances` with more than one instance.
    listed: usize,
    /// Calls that were denied by policies.
    denials: u64,
}

/// What becomes of a `CreateFleet`.
#[derive(Debug)]
pub enum Decision {
    /// It was answered before.
    Again(String),
    /// It is refused.
    Refused(Refusal),
    /// These instances are launched by moto, and the errors go into the answer.
    Launch(Allocation),
}

/// The kinds of resources that an action makes and that are tagged by its request.
fn made_by(action: &str) -> &'static [&'static str] {
    match action {
        "CreateFleet" => &["fleet", "instance", "volume"],
        "RunInstances" => &["instance", "volume"],
        "CreateLaunchTemplate" => &["launch-template"],
        _ => &[],
    }
}

impl Rules {
    /// An empty account in a region.
    #[must_use]
    pub fn of(region: &str) -> Self {
        Self { region: region.to_owned(), ..Self::default() }
    }

    /// What is answered without asking moto.
    pub fn answer(&mut self, call: &Call, now: Timestamp) -> Option<Answer> {
        if let Some(refusal) = self.refuse(call, now) {
            return Some(Answer::refusal(call, &refusal));
        }
        match (call.service.as_str(), call.action.as_str()) {
            ("ssm", "GetParameter") => {
                let name = call.json["Name"].as_str()?;
                self.parameters.get(name).map(|value| parameter(name, value))
            }
            ("ec2", "DescribeCapacityReservations") => {
                let items = self.supply.reservations_for(call, now);
                Some(described(&call.action, "capacityReservationSet", items))
            }
            ("ec2", "DescribePlacementGroups") => {
                Some(described(&call.action, "placementGroupSet", self.supply.groups_for(call)))
            }
            ("ec2", "DescribeSpotPriceHistory") if !self.supply.spot_prices.is_empty() => {
                Some(described(&call.action, "spotPriceHistorySet", self.supply.spot_history(now)))
            }
            // moto knows no impaired instances and no events, and ignores the filters that ask for them.
            ("ec2", "DescribeInstanceStatus") if !filters(call).is_empty() => {
                Some(described(&call.action, "instanceStatusSet", Vec::new()))
            }
            ("ec2", "TerminateInstances") if self.stops_slowly(call) => {
                let items = terminating(&listed(call, "InstanceId."));
                Some(described(&call.action, "instancesSet", items))
            }
            ("pricing", "GetProducts") => {
                let page = self.pages.get("GetProducts").copied().unwrap_or(PRODUCTS);
                Some(products(call, &self.prices, page))
            }
            ("arc-zonal-shift", "GetManagedResource") => {
                Some(managed_resource(&self.away, &self.autoshifted))
            }
            _ => None,
        }
    }

    /// Why a call is refused: an identity that is over, a wrong clock, a permission that is missing, too many calls, and what EC2 does not
    /// accept, in this order.
    fn refuse(&mut self, call: &Call, now: Timestamp) -> Option<Refusal> {
        if self.expired.contains(&call.access_key) || self.is_signed_too_early(call) {
            return Some(Refusal::expired(call));
        }
        let known = iam::requests(call, &self.region, &self.tags);
        if let Some(refusal) = self.deny(call, &known) {
            return Some(refusal);
        }
        if self.denied.contains(call.action.as_str()) || self.is_untagged(call) {
            return Some(Refusal::denied(call));
        }
        if call.service == "ec2" && self.buckets.as_mut().is_some_and(|buckets| !buckets.admits(call, now)) {
            *self.throttles.entry(call.action.clone()).or_default() += 1;
            return Some(Refusal::throttled(call));
        }
        if self.holds_back(call) {
            return Some(Refusal::throttled(call));
        }
        match call.action.as_str() {
            "CreateLaunchTemplate" => templates::refused(call).or_else(|| {
                let is_full = self.templates_max.is_some_and(|most| self.templates.len() >= most);
                is_full.then(templates::too_many)
            }),
            "RunInstances" => self.refuse_instance(call, now),
            "CreateTags" => self.unseen(&listed(call, "ResourceId."), self.delays.changes, now),
            "TerminateInstances" => self.unseen(&listed(call, "InstanceId."), self.delays.changes, now),
            action if templates::OF_PROFILES.contains(&action) => {
                let name = call.param("InstanceProfileName");
                let is_young = self.profiles.get(name).is_some_and(|own| own.is_unseen(self.delays.iam, now));
                is_young.then(|| unknown_profile(name))
            }
            _ => None,
        }
    }

    /// The first request that the caller's policies deny.
    fn denial<'a>(
        &self,
        call: &Call,
        requests: &'a [AuthorizationRequest],
    ) -> Option<(&'a AuthorizationRequest, Denial)> {
        let policies = self.policies.get(&call.access_key)?;
        requests.iter().find_map(|request| Some((request, policies.decide(request).err()?)))
    }

    fn deny(&mut self, call: &Call, requests: &[AuthorizationRequest]) -> Option<Refusal> {
        let (request, denial) = self.denial(call, requests)?;
        self.denials += 1;
        Some(iam::refusal(call, request, denial, self.denials))
    }

    fn is_signed_too_early(&self, call: &Call) -> bool {
        self.skew.abs() > SIGNATURE_VALID && call.signed.is_some()
    }

    /// Whether a call is one of those that a case wants throttled.
    fn holds_back(&mut self, call: &Call) -> bool {
        let Some(each) = self.throttled.get(call.action.as_str()).or_else(|| self.throttled.get("*")) else {
            return false;
        };
        let held = self.held.entry(call.action.clone()).or_default();
        if *held >= *each {
            *held = 0;
            return false;
        }
        *held += 1;
        true
    }

    /// The refusal of a call about instances of which EC2 does not know all yet.
    fn unseen(&self, ids: &[String], delay: SignedDuration, now: Timestamp) -> Option<Refusal> {
        let young =
            |id: &&String| self.supply.launched.get(*id).is_some_and(|own| is_unseen(own.at, delay, now));
        let unseen: Vec<&str> = ids.iter().filter(young).map(String::as_str).collect();
        (!unseen.is_empty()).then(|| no_instance(&unseen))
    }

    /// A template that EC2 sees; `None` also for one that was not made through the emulator.
    fn template(&self, name: &str, now: Timestamp) -> Result<Option<&Params>, Refusal> {
        match self.templates.get(name) {
            Some(template) if is_unseen(template.created, self.delays.templates, now) => Err(no_template()),
            known => Ok(known.map(|template| &template.data)),
        }
    }

    /// The role of a template's profile, or why EC2 does not know the profile.
    fn role(&self, data: &Params, now: Timestamp) -> Result<Option<&str>, Refusal> {
        let Some(name) = data.get("LaunchTemplateData.IamInstanceProfile.Name") else { return Ok(None) };
        match self.profiles.get(name).map(|profile| profile.role.as_ref()) {
            // It was not made through the emulator.
            None => Ok(None),
            Some(Some((role, since))) if !is_unseen(*since, self.delays.profiles, now) => Ok(Some(role)),
            Some(_) => Err(no_profile(name)),
        }
    }

    /// Why EC2 would not launch by a template: permissions first, then the profile.
    fn refuse_launch(&self, call: &Call, name: &str, data: &Params, now: Timestamp) -> Option<Blocked> {
        let role = self.role(data, now);
        let passed = role.as_ref().ok().copied().flatten();
        let requests = iam::run_requests(call, &self.region, &self.tags, (name, data), passed);
        if let Some((request, denial)) = self.denial(call, &requests) {
            let refusal = iam::refusal(
                call,
                request,
                denial,
                self.denials + u64::from(now.subsec_nanosecond().unsigned_abs()),
            );
            return Some((refusal.code, refusal.message));
        }
        role.err().map(|refusal| (refusal.code, refusal.message))
    }

    /// Why a template is not launched on a type: its image first, then what the type does not support.
    fn unsupported(&self, instance_type: &str, image: &str, data: &Params) -> Option<Blocked> {
        let text = |key: &str| data.get(&format!("LaunchTemplateData.{key}")).map(String::as_str);
        let group =
            text("Placement.GroupId").and_then(|id| self.supply.groups.iter().find(|own| own.id == id));
        let image = if image.is_empty() { text("ImageId").unwrap_or_default() } else { image };
        if let Some(refused) = self.images.refusal(image) {
            return Some(refused);
        }
        let launch = Launch {
            instance_type,
            data,
            strategy: group.map(|group| group.strategy),
            architecture: self.images.architectures.get(image).copied(),
        };
        self.types.get(instance_type)?.refusal(&launch)
    }

    /// The types of a request of which it is not known what they support.
    #[must_use]
    pub fn unknown_types(&self, call: &Call) -> Vec<String> {
        types_of(&call.params).into_iter().filter(|name| !self.types.contains_key(name)).collect()
    }

    /// Takes in an answer of `DescribeInstanceTypes`.
    pub fn learn_types(&mut self, root: &Element) {
        let items = root.child("instanceTypeSet").map(|set| set.children.as_slice()).unwrap_or_default();
        let own = items.iter().map(|item| (item.at(&["instanceType"]).to_owned(), TypeSupport::of(item)));
        self.types.extend(own);
    }

    /// Whether instances are terminated some time after they are asked to be.
    fn stops_slowly(&self, call: &Call) -> bool {
        let ids = listed(call, "InstanceId.");
        !self.delays.stopping.is_zero() && ids.iter().all(|id| self.supply.launched.contains_key(id))
    }

    /// Why `RunInstances` is refused.
    fn refuse_instance(&mut self, call: &Call, now: Timestamp) -> Option<Refusal> {
        let name = call.param("LaunchTemplate.LaunchTemplateName");
        let data = match self.template(name, now) {
            Ok(data) => data?.clone(),
            Err(refusal) => return Some(refusal),
        };
        let refused = self.refuse_launch(call, name, &data, now);
        let (code, message) =
            refused.or_else(|| self.unsupported(call.param("InstanceType"), call.param("ImageId"), &data))?;
        let status = match &*code {
            "UnauthorizedOperation" => 403,
            "OptInRequired" => 401,
            _ => 400,
        };
        Some(Refusal::new(status, &code, &message))
    }

    /// Decides on a `CreateFleet`.
    pub fn decide(&mut self, call: &Call, now: Timestamp) -> Decision {
        match self.fleets.repeated(call) {
            Some(Ok(answer)) => return Decision::Again(answer),
            Some(Err(refusal)) => return Decision::Refused(refusal),
            None => {}
        }
        if let Some(refusal) = templates::tags(call) {
            return Decision::Refused(refusal);
        }
        match &mut self.fleets_left {
            Some(0) => return Decision::Refused(fleet::too_many()),
            Some(left) => *left -= 1,
            None => {}
        }
        let mut complete: Vec<Way> = Vec::new();
        for way in ways(&call.params) {
            match self.template(&way.template, now) {
                Ok(Some(data)) => complete.push(templates::complete(way, data)),
                Ok(None) => complete.push(way),
                Err(refusal) => return Decision::Refused(refusal),
            }
        }
        for way in &mut complete {
            way.price = self.price(way);
        }
        let blocked = |way: &Way| {
            let data = &self.templates.get(&way.template)?.data;
            let tagged = data.iter().any(|(key, value)| {
                key.starts_with("LaunchTemplateData.TagSpecification.") && value == "spot-instances-request"
            });
            if way.market != "spot" && tagged {
                return Some(("InvalidParameterValue".to_owned(), NO_SPOT_REQUEST.to_owned()));
            }
            let refused = self.refuse_launch(call, &way.template, data, now);
            refused.or_else(|| self.unsupported(&way.instance_type, &way.image, data))
        };
        let mut allocation = allocate(call, complete, &self.supply, blocked, now);
        if let Some(buckets) = &mut self.buckets {
            let wanted = allocation.count();
            let allowed = buckets.launches(wanted, now);
            if allowed < wanted {
                *self.throttles.entry(LAUNCHES.to_owned()).or_default() += wanted - allowed;
            }
            allocation.throttle(allowed);
        }
        Decision::Launch(allocation)
    }

    /// What EC2 charges for a way, in dollars an hour, where the case has prices.
    fn price(&self, way: &Way) -> Option<f64> {
        let listed = || {
            let own = self.prices.iter().find(|(name, _)| *name == way.instance_type);
            own.filter(|_| way.market == "on-demand").map(|(_, price)| price)
        };
        self.supply.spot_price(way).or_else(listed)?.parse().ok()
    }

    /// Notes what a call that succeeded made or ended.
    pub fn note(&mut self, call: &Call, now: Timestamp) {
        let profile = call.param("InstanceProfileName").to_owned();
        let of_profile = format!("instance-profile/{profile}");
        match call.action.as_str() {
            "CreateLaunchTemplate" if !call.is_dry_run() => {
                let name = call.param("LaunchTemplateName").to_owned();
                self.tags.insert(format!("launch-template/{name}"), call.tags("launch-template"));
                self.templates.insert(name, Template { data: call.params.clone(), created: now });
            }
            "DeleteLaunchTemplate" => {
                self.templates.remove(call.param("LaunchTemplateName"));
            }
            "CreateInstanceProfile" => {
                self.tags.insert(of_profile, tag_pairs(&call.params, "Tags.member."));
                self.profiles.insert(profile, Profile { created: now, role: None });
            }
            "AddRoleToInstanceProfile" => {
                let role = call.param("RoleName").to_owned();
                self.profiles.entry(profile).or_default().role = Some((role, now));
            }
            "RemoveRoleFromInstanceProfile" => self.profiles.entry(profile).or_default().role = None,
            "DeleteInstanceProfile" => {
                self.profiles.remove(&profile);
            }
            "TerminateInstances" => {
                let slowly = self.stops_slowly(call);
                for id in listed(call, "InstanceId.") {
                    if slowly {
                        self.stopping.entry(id).or_insert(now);
                    } else {
                        self.supply.terminate(&id);
                    }
                }
            }
            _ => {}
        }
    }

    /// Notes the instances of a share.
    pub fn launched(&mut self, way: &Way, ids: &[String], now: Timestamp) {
        self.supply.launch(way, ids, now);
    }

    /// Instances that AWS terminates now: those of capacity blocks that are over, and those that have shut down.
    pub fn reclaimed(&mut self, now: Timestamp) -> Vec<String> {
        let mut ids = self.supply.reclaimed(now);
        let delay = self.delays.stopping;
        ids.extend(self.stopping.extract_if(.., |_, since| !is_unseen(*since, delay, now)).map(|(id, _)| id));
        for id in &ids {
            self.supply.terminate(id);
        }
        ids
    }

    /// Changes an answer of moto to what AWS shows by now.
    ///
    /// # Errors
    /// If AWS refuses instead, because it does not know yet what was asked for.
    pub fn show(&mut self, call: &Call, root: &mut Element, now: Timestamp) -> Result<(), Refusal> {
        match call.action.as_str() {
            "DescribeInstances" => {
                self.show_instances(root, now);
                filter_states(call, root);
                let asked = listed(call, "InstanceId.");
                let (delay, launched) = (self.delays.instances, &self.supply.launched);
                let young = |id: &str| launched.get(id).is_some_and(|own| is_unseen(own.at, delay, now));
                let hidden = hide_instances(root, young);
                if !asked.is_empty() && !hidden.is_empty() {
                    let hidden: Vec<&str> = hidden.iter().map(String::as_str).collect();
                    return Err(no_instance(&hidden));
                }
                self.omit_one(&asked, root);
            }
            "DescribeLaunchTemplates" => {
                let (delay, templates) = (self.delays.templates, &self.templates);
                let young = |item: &Element| {
                    let name = item.at(&["launchTemplateName"]);
                    templates.get(name).is_some_and(|own| is_unseen(own.created, delay, now))
                };
                let sets = root.children.iter_mut().filter(|child| child.name() == "launchTemplates");
                for set in sets {
                    set.children.retain(|item| !young(item));
                }
            }
            // "By default, only running instances are described, unless you specifically indicate to return the status of all instances."
            // (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceStatus.html>)
            "DescribeInstanceStatus" if call.param("IncludeAllInstances") != "true" => {
                let sets = root.children.iter_mut().filter(|child| child.name() == "instanceStatusSet");
                for set in sets {
                    set.children.retain(|item| self.passing(item.at(&["instanceId"]), now).is_none());
                }
            }
            "DescribeImages" => self.images.show(root, self.delays.images, now),
            "ListInstanceProfiles" => {
                let (delay, profiles) = (self.delays.iam, &self.profiles);
                let young = |name: &str| profiles.get(name).is_some_and(|own| own.is_unseen(delay, now));
                templates::hide_profiles(root, young);
            }
            _ => {}
        }
        Ok(())
    }

    /// Leaves an instance out of a list now and then.
    fn omit_one(&mut self, asked: &[String], root: &mut Element) {
        let ids: Vec<String> = root.all("instanceId").iter().map(|id| id.text.clone()).collect();
        if self.delays.omits == 0 || ids.len() < 2 || !asked.is_empty() {
            return;
        }
        self.listed += 1;
        if self.listed.is_multiple_of(self.delays.omits)
            && let Some(omitted) = ids.get(self.listed % ids.len())
        {
            hide_instances(root, |id| id == omitted);
        }
    }

    /// The state of an instance that starts or stops; `None` of one that runs.
    fn passing(&self, id: &str, now: Timestamp) -> Option<(&'static str, &'static str)> {
        let starts = |own: &Launched| is_unseen(own.at, self.delays.starting, now);
        if self.stopping.contains_key(id) {
            return Some(SHUTTING_DOWN);
        }
        self.supply.launched.get(id).is_some_and(starts).then_some(PENDING)
    }

    /// Adds what instances have by their launch and moto does not know.
    fn show_instances(&self, root: &mut Element, now: Timestamp) {
        crate::answer::add_groups(root);
        crate::answer::age(root, self.older);
        crate::answer::each_instance(root, |instance| {
            let Some(Launched { way, partition, .. }) =
                self.supply.launched.get(instance.at(&["instanceId"]))
            else {
                return;
            };
            if let Some(state) = self.passing(instance.at(&["instanceId"]), now) {
                set_state(instance, "instanceState", state);
            }
            if let Some(id) = &way.reservation {
                let preference = Element::text("capacityReservationPreference", "capacity-reservations-only");
                instance.children.retain(|child| child.name() != "capacityReservationSpecification");
                instance.children.push(Element::text("capacityReservationId", id));
                instance.children.push(Element::of("capacityReservationSpecification", vec![preference]));
            }
            let placement = instance.children.iter_mut().find(|child| child.name() == "placement");
            if let (Some(placement), Some((id, _))) = (placement, &way.group) {
                placement
                    .children
                    .retain(|child| !["groupId", "groupName", "partitionNumber"].contains(&child.name()));
                placement.children.push(Element::text("groupId", id));
                placement
                    .children
                    .extend(partition.map(|number| Element::text("partitionNumber", &number.to_string())));
            }
            if let Some(set) =
                instance.children.iter_mut().find(|child| child.name() == "networkInterfaceSet")
            {
                let efa = || Element::of("item", vec![Element::text("interfaceType", "efa")]);
                set.children.extend(std::iter::repeat_with(efa).take(way.efas));
            }
        });
    }

    /// Whether a request creates a resource without the tags that the conditions of `deploy/iam` require, including the cluster's UID.
    fn is_untagged(&self, call: &Call) -> bool {
        if self.cluster.is_empty() {
            return false;
        }
        let owned = format!("kubernetes.io/cluster/{}", self.cluster);
        let complete = |tags: &BTreeMap<String, String>, also: &[&str]| {
            tags.get(&owned).is_some_and(|value| value == "owned")
                && tags.get("eks:eks-cluster-name") == Some(&self.cluster)
                && tags.get("fleetwright.dev/cluster-uid").is_some_and(|uid| !uid.is_empty())
                && also.iter().all(|key| tags.contains_key(*key))
        };
        if call.action == "CreateInstanceProfile" {
            return !complete(&tag_pairs(&call.params, "Tags.member."), &["topology.kubernetes.io/region"]);
        }
        made_by(&call.action).iter().any(|kind| !complete(&call.tags(kind), &["karpenter.sh/nodepool"]))
    }

    /// Whether this answer is lost.
    pub fn loses(&mut self, call: &Call) -> bool {
        match self.lost.get_mut(call.action.as_str()) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;

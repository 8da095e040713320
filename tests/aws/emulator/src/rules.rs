//! The emulator: what AWS does and moto does not, as cases set it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::answer::{Answer, Refusal, described, managed_resource, parameter, products};
use crate::call::{Call, Params, tag_pairs};
use crate::capacity::{Launched, Supply, Way, listed};
use crate::consistency::{Delays, hide_instances, is_unseen, no_instance, no_profile, no_template};
use crate::fleet::{Allocation, Fleets, allocate, ways};
use crate::iam::{self, AuthorizationRequest, Denial, Policies, ResourceTags};
use crate::templates::{self, Profile, Template};
use crate::throttle::Buckets;
use crate::xml::Element;

/// Products of one page of the price list.
const PRODUCTS: usize = 100;
/// EC2's message about tags of spot requests where none is created.
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
    /// Architectures of images by id; moto forgets those of images that were registered.
    pub architectures: BTreeMap<String, &'static str>,
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
            return Some(Refusal::throttled(call));
        }
        if self.holds_back(call) {
            return Some(Refusal::throttled(call));
        }
        match call.action.as_str() {
            "CreateLaunchTemplate" => templates::refused(call),
            "RunInstances" => self.refuse_instance(call, now),
            "CreateTags" => self.unseen(&listed(call, "ResourceId."), self.delays.changes, now),
            "TerminateInstances" => self.unseen(&listed(call, "InstanceId."), self.delays.changes, now),
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
    fn refuse_launch(
        &self,
        call: &Call,
        name: &str,
        data: &Params,
        now: Timestamp,
    ) -> Option<(String, String)> {
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

    /// Why `RunInstances` is refused.
    fn refuse_instance(&mut self, call: &Call, now: Timestamp) -> Option<Refusal> {
        let name = call.param("LaunchTemplate.LaunchTemplateName");
        let data = match self.template(name, now) {
            Ok(data) => data?.clone(),
            Err(refusal) => return Some(refusal),
        };
        let (code, message) = self.refuse_launch(call, name, &data, now)?;
        let status = if code == "UnauthorizedOperation" { 403 } else { 400 };
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
        let mut complete: Vec<Way> = Vec::new();
        for way in ways(&call.params) {
            match self.template(&way.template, now) {
                Ok(Some(data)) => complete.push(templates::complete(way, data)),
                Ok(None) => complete.push(way),
                Err(refusal) => return Decision::Refused(refusal),
            }
        }
        let blocked = |way: &Way| {
            let data = &self.templates.get(&way.template)?.data;
            let tagged = data.iter().any(|(key, value)| {
                key.starts_with("LaunchTemplateData.TagSpecification.") && value == "spot-instances-request"
            });
            if way.market != "spot" && tagged {
                return Some(("InvalidParameterValue".to_owned(), NO_SPOT_REQUEST.to_owned()));
            }
            self.refuse_launch(call, &way.template, data, now)
        };
        let mut allocation = allocate(call, complete, &self.supply, blocked, now);
        if let Some(buckets) = &mut self.buckets {
            let allowed = buckets.launches(allocation.count(), now);
            allocation.throttle(allowed);
        }
        Decision::Launch(allocation)
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
                self.profiles.insert(profile, Profile::default());
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
                for id in listed(call, "InstanceId.") {
                    self.supply.terminate(&id);
                }
            }
            _ => {}
        }
    }

    /// Notes the instances of a share.
    pub fn launched(&mut self, way: &Way, ids: &[String], now: Timestamp) {
        self.supply.launch(way, ids, now);
    }

    /// Instances that AWS terminates now: those of capacity blocks that are over.
    pub fn reclaimed(&mut self, now: Timestamp) -> Vec<String> {
        let ids = self.supply.reclaimed(now);
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
                self.show_instances(root);
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
            "DescribeImages" => self.add_architectures(root),
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

    /// Adds what instances have by their launch and moto does not know.
    fn show_instances(&self, root: &mut Element) {
        crate::answer::add_groups(root);
        crate::answer::each_instance(root, |instance| {
            let Some(Launched { way, partition, .. }) =
                self.supply.launched.get(instance.at(&["instanceId"]))
            else {
                return;
            };
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

    /// Tells the architectures of images that have none.
    fn add_architectures(&self, root: &mut Element) {
        let Some(set) = root.children.iter_mut().find(|child| child.name() == "imagesSet") else { return };
        for image in &mut set.children {
            let known = self.architectures.get(image.at(&["imageId"]));
            if let Some(architecture) = known.filter(|_| image.child("architecture").is_none()) {
                image.children.push(Element::text("architecture", architecture));
            }
        }
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

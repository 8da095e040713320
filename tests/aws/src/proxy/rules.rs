//! What AWS does and moto does not, as cases set it.

use std::collections::{BTreeMap, BTreeSet};

use super::answer::{Answer, Refusal, described, managed_resource, parameter, products};
use super::call::{Call, groups};
use super::fleet::{Dry, Fleets};
use super::xml::Element;

/// Products of one page of the price list.
const PRODUCTS: usize = 100;

/// What the proxy does to calls, beside passing them on.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// Name of the cluster whose tags IAM demands at birth; empty demands nothing.
    pub(crate) cluster: String,
    /// Capacity that has run dry.
    pub(crate) dry: Vec<Dry>,
    /// By action, the number of consecutive throttled calls before one passes; `*` stands for every action.
    pub(crate) throttled: BTreeMap<&'static str, u32>,
    /// Actions that IAM refuses.
    pub(crate) denied: BTreeSet<&'static str>,
    /// How many answers of an action are lost on their way back, after their effect.
    pub(crate) lost: BTreeMap<&'static str, u32>,
    /// Access keys whose time is over.
    pub(crate) expired: BTreeSet<String>,
    /// Items of a page, by action: moto answers with all at once.
    pub(crate) pages: BTreeMap<&'static str, usize>,
    /// SSM parameters of images; moto has few of them.
    pub(crate) parameters: BTreeMap<String, String>,
    /// Architectures of images by id; moto forgets those of images that were registered.
    pub(crate) architectures: BTreeMap<String, &'static str>,
    /// Capacity reservations, as items of the answer; moto has none.
    pub(crate) reservations: Vec<Element>,
    /// Placement groups, as items of the answer; moto has none.
    pub(crate) placement_groups: Vec<Element>,
    /// The price list: type and dollars an hour; moto has none.
    pub(crate) prices: Vec<(String, String)>,
    /// Zones, by id, that traffic is shifted away from; moto has none.
    pub(crate) away: Vec<String>,
    /// What fleets were asked and answered.
    pub(crate) fleets: Fleets,
    /// How often each action was throttled since one passed.
    held: BTreeMap<String, u32>,
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
    /// What is answered without asking moto.
    pub(crate) fn answer(&mut self, call: &Call) -> Option<Answer> {
        if let Some(refusal) = self.refuse(call) {
            return Some(Answer::refusal(call, &refusal));
        }
        if call.action == "CreateLaunchTemplate" {
            self.fleets.meet(call);
        }
        match (call.service.as_str(), call.action.as_str()) {
            ("ssm", "GetParameter") => {
                let name = call.json["Name"].as_str()?;
                self.parameters.get(name).map(|value| parameter(name, value))
            }
            ("ec2", "DescribeCapacityReservations") => {
                Some(described(&call.action, "capacityReservationSet", self.reservations.clone()))
            }
            ("ec2", "DescribePlacementGroups") => {
                Some(described(&call.action, "placementGroupSet", self.placement_groups.clone()))
            }
            ("pricing", "GetProducts") => {
                let page = self.pages.get("GetProducts").copied().unwrap_or(PRODUCTS);
                Some(products(call, &self.prices, page))
            }
            ("arc-zonal-shift", "GetManagedResource") => Some(managed_resource(&self.away)),
            _ => None,
        }
    }

    /// Why a call is refused: an identity that is over, a right that is missing, or too many calls, in this order.
    fn refuse(&mut self, call: &Call) -> Option<Refusal> {
        if self.expired.contains(&call.access_key) {
            return Some(Refusal::expired(call));
        }
        if self.denied.contains(call.action.as_str()) || self.is_untagged(call) {
            return Some(Refusal::denied(call));
        }
        let each = self.throttled.get(call.action.as_str()).or_else(|| self.throttled.get("*"))?;
        let held = self.held.entry(call.action.clone()).or_default();
        if *held >= *each {
            *held = 0;
            return None;
        }
        *held += 1;
        Some(Refusal::throttled(call))
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
            return !complete(&profile_tags(call), &["topology.kubernetes.io/region"]);
        }
        made_by(&call.action).iter().any(|kind| !complete(&call.tags(kind), &["karpenter.sh/nodepool"]))
    }

    /// Tells the architectures of images that have none.
    pub(crate) fn add_architectures(&self, root: &mut Element) {
        let Some(set) = root.children.iter_mut().find(|child| child.name() == "imagesSet") else { return };
        for image in &mut set.children {
            let known = self.architectures.get(image.at(&["imageId"]));
            if let Some(architecture) = known.filter(|_| image.child("architecture").is_none()) {
                image.children.push(Element::text("architecture", architecture));
            }
        }
    }

    /// Whether this answer is lost.
    pub(crate) fn loses(&mut self, call: &Call) -> bool {
        match self.lost.get_mut(call.action.as_str()) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }
}

/// Tags of an instance profile that is made.
fn profile_tags(call: &Call) -> BTreeMap<String, String> {
    let part = |key: String| call.params.get(&key).cloned().unwrap_or_default();
    let tag = |place: &String| (part(format!("{place}Key")), part(format!("{place}Value")));
    groups(&call.params, "Tags.member.").iter().map(tag).collect()
}

#[cfg(test)]
mod tests {
    use super::super::call::decode;
    use super::*;

    fn call(service: &str, action: &str, form: &str) -> Call {
        let params = decode(form);
        Call { service: service.to_owned(), action: action.to_owned(), params, ..Call::default() }
    }

    const TAGS: &str = "Tag.1.Key=kubernetes.io/cluster/prod&P.Tag.1.Value=owned&P.Tag.2.Key=eks:eks-cluster-name\
        &P.Tag.2.Value=prod&P.Tag.3.Key=fleetwright.dev/cluster-uid&P.Tag.3.Value=u&P.Tag.4.Key=karpenter.sh/nodepool\
        &P.Tag.4.Value=";

    #[test]
    fn what_is_made_without_tags_is_refused() {
        let rules = Rules { cluster: "prod".to_owned(), ..Rules::default() };
        let tagged = |kind: &str| {
            let place = "TagSpecification.1";
            format!("{place}.ResourceType={kind}&{place}.{}", TAGS.replace("P.", &format!("{place}.")))
        };
        let of = |form: &str| rules.is_untagged(&call("ec2", "CreateLaunchTemplate", form));
        assert!(!of(&tagged("launch-template")) && of(&tagged("instance")) && of(""));
        assert!(of(&tagged("launch-template").replace("=u&", "=&")), "the UID is empty");
        assert!(!Rules::default().is_untagged(&call("ec2", "CreateFleet", "")));
        assert!(!rules.is_untagged(&call("ec2", "TerminateInstances", "")));
    }

    #[test]
    fn so_many_are_throttled_before_one_passes() {
        let mut rules = Rules { throttled: [("CreateFleet", 2)].into(), ..Rules::default() };
        let fleet = call("ec2", "CreateFleet", "");
        let refused: Vec<bool> = (0..6).map(|_| rules.refuse(&fleet).is_some()).collect();
        assert_eq!(refused, [true, true, false, true, true, false]);
        assert!(rules.refuse(&call("ec2", "RunInstances", "")).is_none());
    }

    #[test]
    fn answers_are_lost_so_often() {
        let mut rules = Rules { lost: [("CreateFleet", 1)].into(), ..Rules::default() };
        let fleet = call("ec2", "CreateFleet", "");
        assert_eq!([rules.loses(&fleet), rules.loses(&fleet)], [true, false]);
    }

    #[test]
    fn images_get_their_architecture() {
        let rules = Rules { architectures: [("ami-1".to_owned(), "arm64")].into(), ..Rules::default() };
        let image = |id| Element::of("item", vec![Element::text("imageId", id)]);
        let mut root = Element::of("R", vec![Element::of("imagesSet", vec![image("ami-1"), image("ami-2")])]);
        rules.add_architectures(&mut root);
        assert_eq!(root.all("architecture"), [&Element::text("architecture", "arm64")]);
    }

    #[test]
    fn what_moto_has_not_is_answered_here() {
        let mut rules = Rules::default();
        rules.parameters.insert("/a".to_owned(), "ami-1".to_owned());
        let mut ask = call("ssm", "GetParameter", "");
        ask.json = serde_json::json!({"Name": "/a"});
        assert!(rules.answer(&ask).unwrap().body.contains("ami-1"));
        ask.json = serde_json::json!({"Name": "/b"});
        assert!(rules.answer(&ask).is_none(), "moto knows, or says that it does not");
        assert!(rules.answer(&call("ec2", "DescribeCapacityReservations", "")).is_some());
        assert!(rules.answer(&call("ec2", "DescribeSubnets", "")).is_none());
    }
}

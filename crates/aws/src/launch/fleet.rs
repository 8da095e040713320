//! Fleets: what is asked of CreateFleet for claims of one shape.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_aws_api::labels;
use fleetwright_core::model::{NodeClaim, Price, labels::SPOT};

use super::addresses::Addresses;
use super::filter::Filtered;
use super::template::{TemplateGroup, group_of};
use crate::calls::{FleetKind, FleetRequest, Override, Strategy, TagSet};
use crate::digest::digest;
use crate::instancetype::{ClassCatalog, ClassView};
use crate::nodeclass::placement;

/// Annotation of claims whose choice rests on a price that a NodeOverlay set.
const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
/// One way to launch: a type in a subnet, by the template of a group.
#[derive(Clone, Debug, PartialEq)]
struct Way {
    group: TemplateGroup,
    instance_type: String,
    zone: String,
    subnet: String,
    price: Price,
}

/// A launch of claims that are alike, decided.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetPlan {
    ways: Vec<Way>,
    /// What the instances cost by.
    pub capacity_type: &'static str,
    /// `default` or `dedicated`.
    pub tenancy: &'static str,
    /// Whether a NodeOverlay set a price: then EC2 is to go by ours.
    pub prioritized: bool,
    /// The groups, each of which needs a launch template.
    pub groups: BTreeSet<TemplateGroup>,
    /// Addresses that each instance takes at least, by subnet.
    pub addresses: BTreeMap<String, i64>,
    /// The placement group, and the partition where the claim asks for one.
    pub placement: Option<(String, Option<u32>)>,
}

/// What a plan is made from.
#[derive(Clone, Copy)]
pub struct FleetPlanInput<'a> {
    /// One of the claims; the others are like it.
    pub claim: &'a NodeClaim,
    /// What may be launched.
    pub filtered: &'a Filtered,
    /// The class.
    pub view: &'a ClassView<'a>,
    /// The class's types.
    pub catalog: &'a ClassCatalog,
    /// Free addresses.
    pub addresses: &'a Addresses,
}

/// Decides subnets, groups and tenancy. `None` where no type has an image, or no zone a subnet.
#[must_use]
pub fn plan(input: &FleetPlanInput<'_>) -> Option<FleetPlan> {
    let mut ways = Vec::new();
    let mut subnets: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut addresses: BTreeMap<String, i64> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for candidate in &input.filtered.candidates {
        let name = candidate.instance_type.name.to_string();
        let Some(resolved) = input.catalog.resolved.get(&name) else { continue };
        for offering in &candidate.offerings {
            let Some(zone) = offering.zone().map(ToString::to_string) else { continue };
            let of_zone = || input.view.subnets_in(&zone).map(|subnet| subnet.id.as_str());
            let roomiest = || input.addresses.roomiest(of_zone()).map(str::to_owned);
            let subnet = subnets.entry(zone.clone()).or_insert_with(roomiest).clone();
            let (Some(subnet), Some(group)) = (subnet, group_of(resolved, offering, input.claim)) else {
                continue;
            };
            if !seen.insert((group.clone(), name.clone(), zone.clone())) {
                continue;
            }
            let pods = resolved.kubelet.pods;
            let least = addresses.entry(subnet.clone()).or_insert(pods);
            *least = pods.min(*least);
            ways.push(Way { group, instance_type: name.clone(), zone, subnet, price: offering.price });
        }
    }
    if ways.is_empty() {
        return None;
    }
    let dedicated = !input.claim.requirements.allows(labels::INSTANCE_TENANCY, "default");
    let groups = ways.iter().map(|way| way.group.clone()).collect();
    Some(FleetPlan {
        ways,
        capacity_type: input.filtered.capacity_type,
        tenancy: if dedicated { "dedicated" } else { "default" },
        prioritized: input
            .claim
            .annotations
            .get(PRICE_OVERLAY_APPLIED)
            .is_some_and(|value| &**value == "true"),
        groups,
        addresses,
        placement: input
            .view
            .group
            .map(|group| (group.id.clone(), placement::partition(input.claim, group, input.filtered))),
    })
}

impl FleetPlan {
    /// The group by which a type is launched in a zone.
    #[must_use]
    pub fn group_of(&self, instance_type: &str, zone: &str) -> Option<&TemplateGroup> {
        let way = self.ways.iter().find(|way| way.instance_type == instance_type && way.zone == zone)?;
        Some(&way.group)
    }

    fn kind(&self) -> (FleetKind, Strategy) {
        let reservation = self.groups.iter().find_map(|group| group.reservation.as_ref());
        match reservation {
            Some((.., true)) => (FleetKind::InterruptibleReservation, Strategy::None),
            Some((_, kind, _)) if kind == "capacity-block" => (FleetKind::CapacityBlock, Strategy::None),
            _ if self.capacity_type == SPOT => match self.prioritized {
                true => (FleetKind::Spot, Strategy::CapacityOptimizedPrioritized),
                false => (FleetKind::Spot, Strategy::PriceCapacityOptimized),
            },
            _ if self.prioritized => (FleetKind::OnDemand, Strategy::Prioritized),
            _ => (FleetKind::OnDemand, Strategy::LowestPrice),
        }
    }
}

/// The token of a call: the same in any process.
#[must_use]
pub fn token(cluster_uid: &str, batch: &str, attempt: u32) -> String {
    digest(&format!("{cluster_uid}/{batch}/{attempt}"))
}

/// The fleet of a plan with `count` instances. The instance of a fleet of one carries its NodeClaim from birth.
#[must_use]
pub fn request(
    plan: &FleetPlan,
    templates: &BTreeMap<TemplateGroup, String>,
    (claim, count): (&NodeClaim, usize),
    tags: &TagSet,
    (token, context): (String, Option<&str>),
) -> FleetRequest {
    let overrides = plan.ways.iter().filter_map(|way| {
        Some(Override {
            template: templates.get(&way.group)?.clone(),
            instance_type: way.instance_type.clone(),
            subnet: way.subnet.clone(),
            zone: way.zone.clone(),
            image: way.group.image.clone(),
            price: way.price,
        })
    });
    let (kind, strategy) = plan.kind();
    let mut tags = tags.clone();
    if count == 1 {
        tags.insert(labels::TAG_NODECLAIM.to_owned(), claim.name.to_string());
    }
    FleetRequest {
        token,
        count,
        kind,
        strategy,
        overrides: overrides.collect(),
        tags,
        context: context.map(str::to_owned),
    }
}

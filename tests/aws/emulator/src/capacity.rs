//! What EC2 has left: pools of spare capacity, quotas, reservations, placement groups. What is not listed has no limit.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::call::{Call, groups};
use crate::xml::Element;

/// A pool: instance type, zone, market (`on-demand`, `spot`).
pub type Pool = (String, String, String);

/// "EC2 begins to terminate the instances 30 minutes before the end time of the Capacity Block"
/// (<https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html>).
const BLOCK_RECLAIM: SignedDuration = SignedDuration::from_mins(30);
/// "A spread placement group can span multiple Availability Zones […]. For rack level spread placement groups, you can have a maximum of seven
/// running instances per Availability Zone per group" (<https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html>).
const SPREAD_PER_ZONE: u32 = 7;

/// Capacity that has run dry; what is not named matches everything.
#[derive(Clone, Debug, Default)]
pub struct Dry {
    /// The instance type.
    pub instance_type: Option<&'static str>,
    /// The zone.
    pub zone: Option<&'static str>,
    /// `on-demand` or `spot`.
    pub capacity_type: Option<&'static str>,
}

/// A capacity reservation or a capacity block.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// Its id.
    pub id: String,
    /// The instance type.
    pub instance_type: String,
    /// The zone.
    pub zone: String,
    /// How many instances it is for.
    pub total: u32,
    /// Whether it is a capacity block.
    pub block: bool,
    /// `open` or `targeted`.
    pub criteria: &'static str,
    /// From when it can be used; `None`: at once.
    pub starts: Option<Timestamp>,
    /// Until when; `None`: without end.
    pub ends: Option<Timestamp>,
    /// Tags.
    pub tags: BTreeMap<String, String>,
}

impl Reservation {
    /// An ordinary, targeted reservation.
    #[must_use]
    pub fn new(id: &str, instance_type: &str, zone: &str, total: u32) -> Self {
        Self {
            id: id.to_owned(),
            instance_type: instance_type.to_owned(),
            zone: zone.to_owned(),
            total,
            block: false,
            criteria: "targeted",
            starts: None,
            ends: None,
            tags: BTreeMap::new(),
        }
    }

    /// A capacity block from `starts` to `ends`.
    #[must_use]
    pub fn block(self, starts: Timestamp, ends: Timestamp) -> Self {
        Self { block: true, starts: Some(starts), ends: Some(ends), ..self }
    }

    fn state(&self, now: Timestamp) -> &'static str {
        if self.starts.is_some_and(|starts| now < starts) {
            "scheduled"
        } else if self.ends.is_some_and(|ends| now >= ends) {
            "expired"
        } else {
            "active"
        }
    }

    /// Whether instances run in it. A block takes none in its last half hour.
    fn serves(&self, now: Timestamp) -> bool {
        let ends = self.ends.map(|ends| if self.block { ends - BLOCK_RECLAIM } else { ends });
        self.state(now) == "active" && ends.is_none_or(|ends| now < ends)
    }

    fn element(&self, used: u32, now: Timestamp) -> Element {
        let text = Element::text;
        let left = self.total.saturating_sub(used);
        let mut children = vec![
            text("capacityReservationId", &self.id),
            text("ownerId", crate::iam::ACCOUNT),
            text("instanceType", &self.instance_type),
            text("instancePlatform", "Linux/UNIX"),
            text("availabilityZone", &self.zone),
            text("tenancy", "default"),
            text("totalInstanceCount", &self.total.to_string()),
            text("availableInstanceCount", &left.to_string()),
            text("state", self.state(now)),
            text("instanceMatchCriteria", self.criteria),
            text("reservationType", if self.block { "capacity-block" } else { "default" }),
            text("endDateType", if self.ends.is_some() { "limited" } else { "unlimited" }),
        ];
        children.extend(self.starts.map(|at| text("startDate", &whole(at))));
        children.extend(self.ends.map(|at| text("endDate", &whole(at))));
        let tag = |(key, value): (&String, &String)| {
            Element::of("item", vec![text("key", key), text("value", value)])
        };
        children.push(Element::of("tagSet", self.tags.iter().map(tag).collect()));
        Element::of("item", children)
    }

    fn fits(&self, name: &str, values: &[String], now: Timestamp) -> bool {
        let own = match name {
            "state" => self.state(now),
            "owner-id" => crate::iam::ACCOUNT,
            "instance-match-criteria" => self.criteria,
            "instance-type" => &self.instance_type,
            "availability-zone" => &self.zone,
            "tag-key" => return values.iter().any(|key| self.tags.contains_key(key)),
            _ => name.strip_prefix("tag:").and_then(|key| self.tags.get(key)).map_or("", String::as_str),
        };
        values.iter().any(|value| value == own || value == "*" && !own.is_empty())
    }
}

/// EC2 tells seconds and milliseconds.
fn whole(at: Timestamp) -> String {
    let seconds = Timestamp::from_second(at.as_second()).unwrap_or(at);
    seconds.to_string().replace('Z', ".000Z")
}

/// A placement group.
#[derive(Clone, Debug)]
pub struct PlacementGroup {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `cluster`, `spread` or `partition`.
    pub strategy: &'static str,
    /// Number of partitions, of a partition group.
    pub partitions: u32,
}

impl PlacementGroup {
    fn element(&self) -> Element {
        let text = Element::text;
        let mut children = vec![
            text("groupId", &self.id),
            text("groupName", &self.name),
            text("strategy", self.strategy),
            text("state", "available"),
        ];
        if self.strategy == "spread" {
            children.push(text("spreadLevel", "rack"));
        }
        if self.strategy == "partition" {
            children.push(text("partitionCount", &self.partitions.to_string()));
        }
        Element::of("item", children)
    }
}

/// One way to launch, with what its launch template says of capacity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Way {
    /// The launch template.
    pub template: String,
    /// Its version.
    pub version: String,
    /// The instance type.
    pub instance_type: String,
    /// The zone.
    pub zone: String,
    /// The subnet.
    pub subnet: String,
    /// The image.
    pub image: String,
    /// The caller's priority, lowest first.
    pub priority: f64,
    /// `on-demand`, `spot`, `capacity-block`.
    pub market: String,
    /// The reservation that the template targets.
    pub reservation: Option<String>,
    /// The placement group, and the partition if the template names one.
    pub group: Option<(String, Option<u32>)>,
    /// EFA interfaces of the template.
    pub efas: usize,
    /// What EC2 charges for it, in dollars an hour; `None` if the case says nothing of prices.
    pub price: Option<f64>,
    /// The most that the caller pays for spot capacity, as it was written.
    pub price_max: Option<String>,
}

/// An instance that was launched through the emulator.
#[derive(Clone, Debug)]
pub(crate) struct Launched {
    pub(crate) way: Way,
    pub(crate) at: Timestamp,
    /// The partition that EC2 chose or was told.
    pub(crate) partition: Option<u32>,
}

/// Why no more instances are launched in some way: EC2's code and message.
pub(crate) type Shortage = (&'static str, String);

/// What there is, and who uses it.
#[derive(Clone, Debug, Default)]
pub struct Supply {
    /// Capacity that has run dry.
    pub dry: Vec<Dry>,
    /// Instances that are left in pools.
    pub pools: BTreeMap<Pool, u32>,
    /// Prices of spot pools: type and zone, dollars an hour.
    pub spot_prices: BTreeMap<(String, String), String>,
    /// Types that are not sold in a zone.
    pub unsold: BTreeSet<(String, String)>,
    /// vCPUs that the account's quota of a market leaves.
    pub vcpus: BTreeMap<String, u32>,
    /// Subnets without free addresses.
    pub full_subnets: BTreeSet<String>,
    /// Reservations.
    pub reservations: Vec<Reservation>,
    /// Placement groups.
    pub groups: Vec<PlacementGroup>,
    /// Instances by id.
    pub(crate) launched: BTreeMap<String, Launched>,
}

impl Supply {
    /// How an instance was launched, if that was through the emulator.
    #[must_use]
    pub fn way_of(&self, id: &str) -> Option<&Way> {
        self.launched.get(id).map(|own| &own.way)
    }

    /// How many more instances are to be had in a way, with what limits them.
    pub(crate) fn room(&self, way: &Way, now: Timestamp) -> (u32, Shortage) {
        let none = (u32::MAX, ("InternalError", String::new()));
        let limits = [
            self.sold(way),
            self.reserved(way, now),
            self.in_group(way),
            self.by_quota(way),
            self.in_pool(way),
            self.by_price(way),
            self.full_subnets.contains(&way.subnet).then(|| (0, no_addresses(&way.subnet))),
        ];
        limits.into_iter().flatten().fold(none, |least, limit| if limit.0 < least.0 { limit } else { least })
    }

    fn sold(&self, way: &Way) -> Option<(u32, Shortage)> {
        let place = (way.instance_type.clone(), way.zone.clone());
        // As in mludvig/aws-ethereum-miner#23.
        let message = format!(
            "Your requested instance type ({}) is not supported in your requested Availability Zone ({}).",
            way.instance_type, way.zone
        );
        self.unsold.contains(&place).then_some((0, ("InvalidFleetConfiguration", message)))
    }

    fn reserved(&self, way: &Way, now: Timestamp) -> Option<(u32, Shortage)> {
        let id = way.reservation.as_ref()?;
        let of = |reservation: &&Reservation| reservation.id == *id;
        let Some(reservation) = self.reservations.iter().find(of) else {
            // "InvalidCapacityReservationId.NotFound: The specified ID does not exist." (errors-overview.html, see `in_group`)
            let message = format!("The capacity reservation ID '{id}' does not exist");
            return Some((0, ("InvalidCapacityReservationId.NotFound", message)));
        };
        let matches = reservation.instance_type == way.instance_type && reservation.zone == way.zone;
        let left = reservation.total.saturating_sub(self.used(id));
        let left = if matches && reservation.serves(now) { left } else { 0 };
        // As in hashicorp/terraform-provider-aws#35745, of a targeted reservation that is full or does not match.
        let message = "The requested reservation does not have sufficient compatible and available capacity for this request.";
        Some((left, ("ReservationCapacityExceeded", message.to_owned())))
    }

    /// Codes as in <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html>. Unknown groups as in
    /// bcbio/bcbio-nextgen-vm#37, those of another zone as in hashicorp/terraform#16183. The words of a full spread group are those that Karpenter
    /// recognizes; their code is not documented.
    fn in_group(&self, way: &Way) -> Option<(u32, Shortage)> {
        let (id, _) = way.group.as_ref()?;
        let group = self.groups.iter().find(|group| group.id == *id);
        let members =
            || self.launched.values().filter(|own| own.way.group.as_ref().is_some_and(|(g, _)| g == id));
        match group.map(|group| group.strategy) {
            None => {
                let message = format!("The Placement Group '{id}' is unknown.");
                Some((0, ("InvalidPlacementGroup.Unknown", message)))
            }
            Some("spread") => {
                let in_zone = members().filter(|own| own.way.zone == way.zone).count();
                let left = SPREAD_PER_ZONE.saturating_sub(u32::try_from(in_zone).unwrap_or(u32::MAX));
                let message = "You have reached the limit of instances in this spread placement group in this Availability Zone.";
                Some((left, ("InstanceLimitExceeded", message.to_owned())))
            }
            // "A cluster placement group can't span multiple Availability Zones."
            Some("cluster") if members().any(|own| own.way.zone != way.zone) => {
                let message =
                    format!("The placement group '{id}' is in use in another availability zone: null");
                Some((0, ("InvalidPlacementGroup.InUse", message)))
            }
            Some(_) => None,
        }
    }

    /// On demand as in scrapoxy/scrapoxy#202, spot as in vrivellino/spoptimize#15.
    fn by_quota(&self, way: &Way) -> Option<(u32, Shortage)> {
        let left = *self.vcpus.get(&way.market)?;
        let shortage = if way.market == "spot" {
            ("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded".to_owned())
        } else {
            let message = format!(
                "You have requested more vCPU capacity than your current vCPU limit of {left} allows for the instance bucket that the \
                 specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment \
                 to this limit."
            );
            ("VcpuLimitExceeded", message)
        };
        Some((left / vcpus(&way.instance_type), shortage))
    }

    fn in_pool(&self, way: &Way) -> Option<(u32, Shortage)> {
        if way.reservation.is_some() {
            return None;
        }
        let hits = |dry: &&Dry| {
            let of = |dry: Option<&str>, own: &str| dry.is_none_or(|dry| dry == own);
            of(dry.instance_type, &way.instance_type)
                && of(dry.zone, &way.zone)
                && of(dry.capacity_type, &way.market)
        };
        let is_dry = self.dry.iter().find(hits).map(|_| 0);
        let left = is_dry.or_else(|| self.pools.get(&way.pool()).copied())?;
        Some((left, insufficient(way)))
    }

    /// As in aws/aws-parallelcluster-node#415. A fleet without a maximum pays at most the on-demand price, which EC2 does not exceed.
    fn by_price(&self, way: &Way) -> Option<(u32, Shortage)> {
        let (most, price) = (way.price_max.as_ref()?, self.spot_price(way)?);
        let is_low = most.parse::<f64>().is_ok_and(|most| price.parse().is_ok_and(|price: f64| most < price));
        let message = format!(
            "Your Spot request price of {most} is lower than the minimum required Spot request fulfillment price of {price}."
        );
        is_low.then_some((0, ("SpotMaxPriceTooLow", message)))
    }

    /// The price of the spot pool that a way is for.
    pub(crate) fn spot_price(&self, way: &Way) -> Option<&String> {
        let pool = (way.instance_type.clone(), way.zone.clone());
        self.spot_prices.get(&pool).filter(|_| way.market == "spot")
    }

    /// `DescribeSpotPriceHistory`: the current price of each pool.
    pub(crate) fn spot_history(&self, now: Timestamp) -> Vec<Element> {
        let text = Element::text;
        let item = |((instance_type, zone), price): (&(String, String), &String)| {
            let children = vec![
                text("instanceType", instance_type),
                text("productDescription", "Linux/UNIX"),
                text("spotPrice", price),
                text("timestamp", &whole(now)),
                text("availabilityZone", zone),
            ];
            Element::of("item", children)
        };
        self.spot_prices.iter().map(item).collect()
    }

    /// How many instances run in a reservation.
    fn used(&self, id: &str) -> u32 {
        let in_it = self.launched.values().filter(|own| own.way.reservation.as_deref() == Some(id));
        u32::try_from(in_it.count()).unwrap_or(u32::MAX)
    }

    /// Instances were launched.
    pub(crate) fn launch(&mut self, way: &Way, ids: &[String], now: Timestamp) {
        let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        if way.reservation.is_none() {
            self.change(way, |left, one| left.saturating_sub(count * one));
        }
        let partitions = way.group.as_ref().and_then(|(id, part)| {
            let group = self.groups.iter().find(|group| group.id == *id && group.strategy == "partition")?;
            Some((*part, group.partitions.max(1)))
        });
        for (number, id) in (0_u32..).zip(ids) {
            let partition = partitions.map(|(part, count)| part.unwrap_or(number % count + 1));
            self.launched.insert(id.clone(), Launched { way: way.clone(), at: now, partition });
        }
    }

    /// An instance is terminated.
    pub(crate) fn terminate(&mut self, id: &str) {
        if let Some(Launched { way, .. }) = self.launched.remove(id)
            && way.reservation.is_none()
        {
            self.change(&way, |left, one| left.saturating_add(one));
        }
    }

    fn change(&mut self, way: &Way, change: impl Fn(u32, u32) -> u32) {
        if let Some(left) = self.pools.get_mut(&way.pool()) {
            *left = change(*left, 1);
        }
        if let Some(left) = self.vcpus.get_mut(&way.market) {
            *left = change(*left, vcpus(&way.instance_type));
        }
    }

    /// Instances whose capacity block is over, or in its last half hour.
    pub(crate) fn reclaimed(&self, now: Timestamp) -> Vec<String> {
        let is_over = |own: &Launched| {
            let of = |reservation: &&Reservation| Some(&reservation.id) == own.way.reservation.as_ref();
            self.reservations.iter().find(of).is_some_and(|block| block.block && !block.serves(now))
        };
        self.launched.iter().filter(|(_, own)| is_over(own)).map(|(id, _)| id.clone()).collect()
    }

    /// `DescribeCapacityReservations`.
    pub(crate) fn reservations_for(&self, call: &Call, now: Timestamp) -> Vec<Element> {
        let ids = listed(call, "CapacityReservationId.");
        let filters = filters(call);
        let wanted = |reservation: &&Reservation| {
            (ids.is_empty() || ids.contains(&reservation.id))
                && filters.iter().all(|(name, values)| reservation.fits(name, values, now))
        };
        let found = self.reservations.iter().filter(wanted);
        found.map(|reservation| reservation.element(self.used(&reservation.id), now)).collect()
    }

    /// `DescribePlacementGroups`.
    pub(crate) fn groups_for(&self, call: &Call) -> Vec<Element> {
        let (ids, names) = (listed(call, "GroupId."), listed(call, "GroupName."));
        let wanted = |group: &&PlacementGroup| {
            (ids.is_empty() || ids.contains(&group.id)) && (names.is_empty() || names.contains(&group.name))
        };
        self.groups.iter().filter(wanted).map(PlacementGroup::element).collect()
    }
}

impl Way {
    fn pool(&self) -> Pool {
        (self.instance_type.clone(), self.zone.clone(), self.market.clone())
    }
}

/// As in aws/karpenter-provider-aws#3380.
fn no_addresses(subnet: &str) -> Shortage {
    let message = format!(
        "There are not enough free addresses in subnet '{subnet}' to satisfy the requested number of instances."
    );
    ("InsufficientFreeAddressesInSubnet", message)
}

/// On demand as in commonwarexyz/monorepo#2859, spot as in mludvig/aws-ethereum-miner#23.
fn insufficient(way: &Way) -> Shortage {
    let (instance_type, zone) = (&way.instance_type, &way.zone);
    if way.market == "spot" {
        let message = "Unable to fulfill capacity due to your request configuration. Please adjust your request and try again.";
        return ("UnfulfillableCapacity", message.to_owned());
    }
    let message = format!(
        "We currently do not have sufficient {instance_type} capacity in the Availability Zone you requested ({zone}). Our system will be \
         working on provisioning additional capacity. You can currently get {instance_type} capacity by not specifying an Availability \
         Zone in your request."
    );
    ("InsufficientInstanceCapacity", message)
}

/// vCPUs by the size in a type's name, as families of general purpose have them.
fn vcpus(instance_type: &str) -> u32 {
    let size = instance_type.rsplit('.').next().unwrap_or_default();
    match size.strip_suffix("xlarge") {
        Some("") => 4,
        Some(many) => many.parse::<u32>().map_or(4, |many| many * 4),
        None => 2,
    }
}

/// The values of `<prefix><n>`.
pub(crate) fn listed(call: &Call, prefix: &str) -> Vec<String> {
    let own = |key: &String| key.strip_prefix(prefix).is_some_and(|rest| rest.parse::<u32>().is_ok());
    call.params.iter().filter(|(key, _)| own(key)).map(|(_, value)| value.clone()).collect()
}

/// Filters with their values.
pub(crate) fn filters(call: &Call) -> Vec<(String, Vec<String>)> {
    let of = |place: &String| {
        let value = |place: String| call.params.get(&place).cloned().unwrap_or_default();
        let prefix = format!("{place}Value.");
        (value(format!("{place}Name")), listed(call, &prefix))
    };
    groups(&call.params, "Filter.").iter().map(of).collect()
}

#[cfg(test)]
mod tests;

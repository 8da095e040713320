//! `CreateFleet` of the type `instant`, as EC2 answers it: a repeated token returns the first answer, the ways with room are used in the order of
//! the allocation strategy, and each way that was tried and has not enough is an error of the fleet, beside the instances of the others.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::answer::Refusal;
use crate::call::{Call, Params, groups};
use crate::capacity::{Supply, Way};
use crate::xml::Element;

/// "The request uses the same client token as a previous, but non-identical request. Do not reuse a client token with different requests, unless
/// the requests are identical." (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html>)
const MISMATCH: &str = "The request uses the same client token as a previous, but non-identical request. Do not reuse a client token with different requests, unless the requests are identical.";

/// What EC2 remembers of requests.
#[derive(Debug, Default)]
pub struct Fleets {
    /// Answers by token, each with what was asked.
    tokens: BTreeMap<String, (Params, String)>,
}

/// Instances of one way.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// What is asked of moto.
    pub params: Params,
    /// The way.
    pub way: Way,
    /// How many instances.
    pub count: u32,
}

/// Why a way cannot be used at all: EC2's code and message.
pub(crate) type Blocked = (String, String);

/// What a fleet launches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocation {
    /// Instances by way.
    pub shares: Vec<Share>,
    /// The fleet's errors.
    pub errors: Vec<Element>,
}

impl Fleets {
    /// The answer to a token that was used before.
    pub(crate) fn repeated(&self, call: &Call) -> Option<Result<String, Refusal>> {
        let (asked, answer) = self.tokens.get(call.param("ClientToken"))?;
        Some(if *asked == call.params {
            Ok(answer.clone())
        } else {
            Err(Refusal::new(400, "IdempotentParameterMismatch", MISMATCH))
        })
    }

    /// Stores an answer for repeated calls.
    pub fn keep(&mut self, call: &Call, answer: &str) {
        if let Some(token) = call.params.get("ClientToken") {
            self.tokens.insert(token.clone(), (call.params.clone(), answer.to_owned()));
        }
    }
}

/// A quota of fleets that is used up, in the words of runs-on/runs-on#88.
pub(crate) fn too_many() -> Refusal {
    let message = "You've reached your quota for maximum Fleet Requests for this account.";
    Refusal::new(400, "MaxFleetCountExceeded", message)
}

/// How many instances a fleet is for.
pub(crate) fn target(call: &Call) -> u32 {
    call.param("TargetCapacitySpecification.TotalTargetCapacity").parse().unwrap_or(1)
}

/// The market of a fleet.
pub(crate) fn market(params: &Params) -> &str {
    params.get("TargetCapacitySpecification.DefaultTargetCapacityType").map_or("on-demand", String::as_str)
}

/// The overrides of a request, without what their templates say.
pub(crate) fn ways(params: &Params) -> Vec<Way> {
    let text = |key: String| params.get(&key).cloned().unwrap_or_default();
    let mut found = Vec::new();
    for config in groups(params, "LaunchTemplateConfigs.") {
        for way in groups(params, &format!("{config}Overrides.")) {
            found.push(Way {
                template: text(format!("{config}LaunchTemplateSpecification.LaunchTemplateName")),
                version: text(format!("{config}LaunchTemplateSpecification.Version")),
                instance_type: text(format!("{way}InstanceType")),
                zone: text(format!("{way}AvailabilityZone")),
                subnet: text(format!("{way}SubnetId")),
                image: text(format!("{way}ImageId")),
                priority: text(format!("{way}Priority")).parse().unwrap_or(f64::MAX),
                market: market(params).to_owned(),
                price_max: params.get(&format!("{way}MaxPrice")).cloned(),
                ..Way::default()
            });
        }
    }
    found
}

/// The order in which a fleet tries its ways.
///
/// "price-capacity-optimized: EC2 Fleet identifies the pools with the highest capacity availability for the number of instances that are launching.
/// […] EC2 Fleet then requests Spot Instances from the lowest priced of these pools." "capacity-optimized-prioritized: […] EC2 implements the
/// priorities on a best-effort basis, but optimizes for capacity first." "lowest-price: EC2 Fleet uses price to determine the order, launching
/// the lowest price first. prioritized: EC2 Fleet uses the priority that you assigned to each launch template override, launching the highest
/// priority first." (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_SpotOptions.html>, `API_OnDemandOptions.html`)
fn order(call: &Call, ways: &mut [Way], supply: &Supply, now: Timestamp) {
    let wanted = target(call);
    let strategy = |options: &str| call.param(&format!("{options}.AllocationStrategy")).to_owned();
    let (spot, on_demand) = (strategy("SpotOptions"), strategy("OnDemandOptions"));
    let by_capacity = ["price-capacity-optimized", "capacity-optimized-prioritized"].contains(&spot.as_str());
    let is_short = |way: &Way| by_capacity && way.market == "spot" && supply.room(way, now).0 < wanted;
    let by_priority = if market(&call.params) == "spot" {
        spot == "capacity-optimized-prioritized"
    } else {
        on_demand == "prioritized"
    };
    // Where a case says nothing of prices, the caller's priority is its price.
    let rank = |way: &Way| way.price.filter(|_| !by_priority).unwrap_or(way.priority);
    ways.sort_by(|a, b| is_short(a).cmp(&is_short(b)).then(rank(a).total_cmp(&rank(b))));
}

/// Divides the instances of a fleet among its ways, in the order of its allocation strategy.
pub(crate) fn allocate(
    call: &Call,
    mut ways: Vec<Way>,
    supply: &Supply,
    blocked: impl Fn(&Way) -> Option<Blocked>,
    now: Timestamp,
) -> Allocation {
    order(call, &mut ways, supply, now);
    let (mut allocation, mut left, mut planned) = (Allocation::default(), target(call), supply.clone());
    for way in ways {
        if left == 0 {
            break;
        }
        if let Some((code, message)) = blocked(&way) {
            allocation.errors.push(failure(&way, &code, &message));
            continue;
        }
        let (room, (code, message)) = planned.room(&way, now);
        let count = room.min(left);
        if count < left {
            allocation.errors.push(failure(&way, code, &message));
        }
        if count > 0 {
            left -= count;
            let number = allocation.shares.len();
            let ids: Vec<String> = (0..count).map(|own| format!("planned-{number}-{own}")).collect();
            planned.launch(&way, &ids, now);
            allocation.shares.push(Share { params: only(&call.params, &way, count), way, count });
        }
    }
    allocation
}

impl Allocation {
    /// Keeps the first `allowed` instances; the rest is an error of throttling, once per way.
    pub(crate) fn throttle(&mut self, allowed: u32) {
        let mut left = allowed;
        for share in &mut self.shares {
            let count = share.count.min(left);
            left -= count;
            if count < share.count {
                self.errors.push(failure(&share.way, "RequestLimitExceeded", "Request limit exceeded."));
                share.count = count;
                share.params.insert(TARGET.to_owned(), count.to_string());
            }
        }
        self.shares.retain(|share| share.count > 0);
    }

    /// The number of instances.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.shares.iter().map(|share| share.count).sum()
    }
}

const TARGET: &str = "TargetCapacitySpecification.TotalTargetCapacity";

/// The request with one override, for some of the instances.
fn only(params: &Params, way: &Way, count: u32) -> Params {
    let others = params.iter().filter(|(key, _)| !key.starts_with("LaunchTemplateConfigs."));
    let mut params: Params = others.map(|(key, value)| (key.clone(), value.clone())).collect();
    params.insert(TARGET.to_owned(), count.to_string());
    if way.market != "spot" {
        // moto launches nothing for the types of capacity that it does not know.
        params.insert(
            "TargetCapacitySpecification.DefaultTargetCapacityType".to_owned(),
            "on-demand".to_owned(),
        );
    }
    let config = "LaunchTemplateConfigs.1.";
    let own = [
        ("LaunchTemplateSpecification.LaunchTemplateName", &way.template),
        ("LaunchTemplateSpecification.Version", &way.version),
        ("Overrides.1.InstanceType", &way.instance_type),
        ("Overrides.1.AvailabilityZone", &way.zone),
        ("Overrides.1.SubnetId", &way.subnet),
        ("Overrides.1.ImageId", &way.image),
    ];
    let own = own.into_iter().filter(|(_, value)| !value.is_empty());
    params.extend(own.map(|(key, value)| (format!("{config}{key}"), value.clone())));
    params
}

/// An error of the fleet for an override.
fn failure(way: &Way, code: &str, message: &str) -> Element {
    let text = Element::text;
    let own = vec![
        text("instanceType", &way.instance_type),
        text("availabilityZone", &way.zone),
        text("subnetId", &way.subnet),
    ];
    let lifecycle = if way.market == "spot" { "spot" } else { "on-demand" };
    Element::of(
        "item",
        vec![
            text("errorCode", code),
            text("errorMessage", message),
            text("lifecycle", lifecycle),
            Element::of("launchTemplateAndOverrides", vec![Element::of("overrides", own)]),
        ],
    )
}

/// An answer with nothing but errors.
#[must_use]
pub fn nothing() -> Element {
    let children = vec![
        Element::text("requestId", "proxy"),
        Element::text("fleetId", "fleet-of-nothing"),
        Element::of("fleetInstanceSet", Vec::new()),
    ];
    Element::of("CreateFleetResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"", children)
}

/// Adds the instances of moto's answer to one share to the answer as a whole; their ids.
pub fn add(whole: &mut Element, part: &Element) -> Vec<String> {
    let ids =
        part.all("instanceIds").iter().flat_map(|set| set.all("item")).map(|id| id.text.clone()).collect();
    let items = part.child("fleetInstanceSet").map(|set| set.children.clone()).unwrap_or_default();
    if let Some(set) = whole.children.iter_mut().find(|child| child.name() == "fleetInstanceSet") {
        set.children.extend(items);
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::decode;
    use crate::capacity::Dry;

    fn call(form: &str) -> Call {
        Call { params: decode(form), ..Call::default() }
    }

    const TWO: &str = "ClientToken=t&TargetCapacitySpecification.TotalTargetCapacity=5\
        &LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=lt\
        &LaunchTemplateConfigs.1.Overrides.1.InstanceType=a&LaunchTemplateConfigs.1.Overrides.1.Priority=2.0\
        &LaunchTemplateConfigs.1.Overrides.2.InstanceType=b&LaunchTemplateConfigs.1.Overrides.2.Priority=1.5";

    /// Types with their counts, then the codes of the errors.
    fn allocated(form: &str, supply: &Supply, allowed: u32) -> String {
        let call = call(form);
        let mut found = allocate(&call, ways(&call.params), supply, |_| None, Timestamp::UNIX_EPOCH);
        found.throttle(allowed);
        let shares = found.shares.iter().map(|share| {
            assert_eq!(share.params[TARGET], share.count.to_string());
            format!("{}={}", share.params["LaunchTemplateConfigs.1.Overrides.1.InstanceType"], share.count)
        });
        let errors = found.errors.iter().map(|error| error.at(&["errorCode"]).to_owned());
        shares.chain(errors).collect::<Vec<_>>().join(" ")
    }

    fn pools(pools: &[(&str, u32)]) -> Supply {
        let pool = |(name, _): &(&str, u32)| ((*name).to_owned(), String::new(), "on-demand".to_owned());
        let all = pools.iter().map(|own| (pool(own), own.1));
        Supply { pools: all.collect(), ..Supply::default() }
    }

    #[test]
    fn the_cheapest_that_is_left_is_taken() {
        let dry = |instance_type| Dry { instance_type: Some(instance_type), ..Dry::default() };
        let with = |dry: Vec<Dry>| allocated(TWO, &Supply { dry, ..Supply::default() }, 100);
        assert_eq!(with(vec![]), "b=5");
        assert_eq!(with(vec![dry("b")]), "a=5 InsufficientInstanceCapacity");
        assert_eq!(
            with(vec![dry("a"), dry("b")]),
            "InsufficientInstanceCapacity InsufficientInstanceCapacity"
        );
        assert_eq!(with(vec![Dry { capacity_type: Some("spot"), ..Dry::default() }]), "b=5");
    }

    #[test]
    fn a_fleet_is_partly_launched_with_the_errors_of_the_rest() {
        assert_eq!(allocated(TWO, &pools(&[("b", 2)]), 100), "b=2 a=3 InsufficientInstanceCapacity");
        assert_eq!(
            allocated(TWO, &pools(&[("a", 1), ("b", 2)]), 100),
            "b=2 a=1 InsufficientInstanceCapacity InsufficientInstanceCapacity"
        );
        let vcpus = Supply { vcpus: [("on-demand".to_owned(), 7)].into(), ..pools(&[("b", 1)]) };
        assert_eq!(allocated(TWO, &vcpus, 100), "b=1 a=2 InsufficientInstanceCapacity VcpuLimitExceeded");
        assert_eq!(
            allocated(TWO, &pools(&[("b", 2)]), 3),
            "b=2 a=1 InsufficientInstanceCapacity RequestLimitExceeded"
        );
        assert_eq!(allocated(TWO, &Supply::default(), 0), "RequestLimitExceeded");
    }

    #[test]
    fn spot_prefers_pools_with_room() {
        let pool = ("b".to_owned(), String::new(), "spot".to_owned());
        let supply = Supply { pools: [(pool, 3)].into(), ..Supply::default() };
        for (strategy, expected) in [
            ("price-capacity-optimized", "a=5"),
            ("capacity-optimized-prioritized", "a=5"),
            ("lowest-price", "b=3 a=2 UnfulfillableCapacity"),
        ] {
            let spot = format!("{TWO}&{SPOT}&SpotOptions.AllocationStrategy={strategy}");
            assert_eq!(allocated(&spot, &supply, 100), expected, "{strategy}");
        }
    }

    const SPOT: &str = "TargetCapacitySpecification.DefaultTargetCapacityType=spot";

    /// The type that a fleet of one strategy takes where EC2's price and the caller's priority differ.
    #[test]
    fn a_strategy_goes_by_price_or_by_priority() {
        let of = |form: &str, options: &str, strategy: &str| {
            let call = call(&format!("{form}&{options}.AllocationStrategy={strategy}"));
            let mut ways = ways(&call.params);
            for way in &mut ways {
                way.price = Some(if way.instance_type == "a" { 0.1 } else { 0.2 });
            }
            let found = allocate(&call, ways, &Supply::default(), |_| None, Timestamp::UNIX_EPOCH);
            found.shares[0].way.instance_type.clone()
        };
        // By priority it is b.
        assert_eq!(of(TWO, "OnDemandOptions", "lowest-price"), "a");
        assert_eq!(of(TWO, "OnDemandOptions", "prioritized"), "b");
        let spot = format!("{TWO}&{SPOT}");
        assert_eq!(of(&spot, "SpotOptions", "price-capacity-optimized"), "a");
        assert_eq!(of(&spot, "SpotOptions", "lowest-price"), "a");
        assert_eq!(of(&spot, "SpotOptions", "capacity-optimized-prioritized"), "b");
    }

    #[test]
    fn a_maximum_below_the_price_of_the_pool_launches_nothing() {
        let spot_prices = [(("b".to_owned(), String::new()), "0.0374".to_owned())].into();
        let supply = Supply { spot_prices, ..Supply::default() };
        let with = |most: &str| {
            let call = call(&format!("{TWO}&{SPOT}&LaunchTemplateConfigs.1.Overrides.2.MaxPrice={most}"));
            allocate(&call, ways(&call.params), &supply, |_| None, Timestamp::UNIX_EPOCH)
        };
        let found = with("0.001");
        assert_eq!((found.count(), found.shares[0].way.instance_type.as_str()), (5, "a"));
        assert_eq!(found.errors[0].at(&["errorCode"]), "SpotMaxPriceTooLow");
        let message = "Your Spot request price of 0.001 is lower than the minimum required Spot request fulfillment price of 0.0374.";
        assert_eq!(found.errors[0].at(&["errorMessage"]), message);
        assert_eq!(with("0.0374").shares[0].way.instance_type, "b");
    }

    #[test]
    fn a_way_that_is_blocked_is_an_error() {
        let call = call(TWO);
        let blocked = |way: &Way| (way.instance_type == "b").then(|| ("X".to_owned(), "why".to_owned()));
        let found = allocate(&call, ways(&call.params), &Supply::default(), blocked, Timestamp::UNIX_EPOCH);
        assert_eq!((found.count(), found.errors[0].at(&["errorMessage"])), (5, "why"));
        assert_eq!(found.shares[0].way.instance_type, "a");
    }

    /// "If you retry a successful request using the same client token, but one or more of the parameters are different, […] the retry fails with an
    /// IdempotentParameterMismatch error." (<https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html>)
    #[test]
    fn a_token_gives_its_answer_again_and_serves_no_other_request() {
        let mut fleets = Fleets::default();
        assert_eq!(fleets.repeated(&call(TWO)), None);
        fleets.keep(&call(TWO), "answer");
        assert_eq!(fleets.repeated(&call(TWO)), Some(Ok("answer".to_owned())));
        let other = fleets.repeated(&call("ClientToken=t"));
        assert!(matches!(other, Some(Err(refusal)) if refusal.code == "IdempotentParameterMismatch"));
        assert_eq!(fleets.repeated(&call("")), None);
    }

    #[test]
    fn answers_of_several_shares_are_one() {
        let part = |id: &str| {
            let text = format!(
                "<R><fleetInstanceSet><item><instanceIds><item>{id}</item></instanceIds></item></fleetInstanceSet></R>"
            );
            crate::xml::parse(&text).unwrap()
        };
        let mut whole = nothing();
        assert_eq!(add(&mut whole, &part("i-1")), ["i-1"]);
        add(&mut whole, &part("i-2"));
        assert_eq!(whole.all("instanceIds").len(), 2);
    }
}

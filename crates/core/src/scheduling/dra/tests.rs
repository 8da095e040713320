//! The search against a model that tries everything, on universes that are small enough for it; inventories; amounts.

use std::{collections::BTreeMap, sync::Arc};

use proptest::prelude::*;
use rstest::rstest;
use smallvec::SmallVec;

use super::{
    Ref,
    allocated::AllocatedDevice,
    capacity,
    compiled_claim::{CompiledClaim, Expressions},
    inventory::Inventory,
    ledger::Ledger,
    search::{Failure, NodeReach, SearchSpace, search},
};
use crate::{
    model::{
        Device, DeviceTemplates, NamespacedName, Quantity, Str,
        device::{
            AllowedAmounts, Attribute, AttributeBinding, DeviceCapacity, DeviceId, Nodes, RequestPolicy,
        },
        resource_claim::{ClaimSpec, DeviceClass, DeviceCount},
    },
    scheduling::ids::{CompiledClaimId, Host, Id as _, IdVec},
    testing::{
        DRIVER, claim_spec, counters, device, devices::DeviceBuilder, exactly, having, matching, option,
        slice, templates,
    },
};

/// The choice of a node is a set of zones `0` to `3`; a place is a node's name that lists some of them.
struct Zones(Vec<Nodes>);

impl NodeReach for Zones {
    type At = u8;

    fn reach(&mut self, at: u8, place: usize, _: &Str) -> SmallVec<[u8; 2]> {
        let left = at & zones(&self.0[place]);
        (left != 0).then_some(left).into_iter().collect()
    }
}

fn zones(place: &Nodes) -> u8 {
    match place {
        Nodes::Named(name) => name.bytes().map(|zone| 1 << (zone - b'0')).sum(),
        _ => u8::MAX,
    }
}

/// A universe and what is asked of it.
#[derive(Clone, Debug, Default)]
struct Case {
    cluster: Vec<DeviceBuilder>,
    template: Vec<DeviceBuilder>,
    /// How much the cluster's counter has; devices name it in the set `set`.
    counter: Option<&'static str>,
    claims: Vec<ClaimSpec>,
}

impl Case {
    fn wants(&self) -> IdVec<CompiledClaimId, Arc<CompiledClaim>> {
        let class = DeviceClass { name: "gpu".into(), selectors: Vec::new() };
        let classes = BTreeMap::from([("gpu".into(), Arc::new(class))]);
        let mut expressions = Expressions::default();
        let id = NamespacedName::new("default", "claim");
        let of = |spec| {
            Arc::new(CompiledClaim::new(&id, spec, &classes, &mut expressions).expect("a sound claim"))
        };
        self.claims.iter().map(of).collect()
    }

    fn inventories(&self) -> (Inventory, Inventory) {
        let mut all = slice("pool", Nodes::All, &self.cluster);
        all.counters.extend(self.counter.map(|amount| counters("set", "slots", amount)));
        (Inventory::of_cluster([&all].into_iter()), Inventory::of_templates(&templates(&self.template)))
    }

    fn search(&self) -> Result<Vec<AllocatedDevice>, Failure> {
        let (mut cluster, mut template) = self.inventories();
        let ledger = Ledger::default();
        let lens =
            ledger.lens(Host::NewClaim(crate::scheduling::ids::NewClaimId::FIRST), 0, &cluster, &template);
        let mut ground = Zones(cluster.places.clone());
        let visible: Vec<usize> = (0..cluster.items.len()).collect();
        let pools: Vec<usize> = (0..cluster.pools.len()).collect();
        let mut field = SearchSpace {
            cluster: &mut cluster,
            visible: &visible,
            pools: &pools,
            template: &mut template,
            lens: &lens,
        };
        let (found, _) = search(&mut field, &mut ground, &self.wants(), 0b1111);
        found.map(|(_, given)| given)
    }

    /// Whether giving these devices to the slots, in order, breaks no rule.
    fn allows(&self, slots: &[(usize, usize)], devices: &[Ref]) -> bool {
        let (cluster, template) = self.inventories();
        let of = |device: &Ref| {
            if device.template { &template.items[device.at] } else { &cluster.items[device.at] }
        };
        let mut reach = 0b1111;
        let mut slots_left: i128 = cluster.counters.iter().sum();
        let mut used: BTreeMap<Ref, i128> = BTreeMap::new();
        for (position, device) in devices.iter().enumerate() {
            let (claim, request) = slots[position];
            let wanted = &self.claims[claim].requests[request].options[0];
            let item = of(device);
            let matches = |s: &crate::model::Selector| match &s.predicate {
                Ok(is) => is.matches(DRIVER, &item.device) == Ok(true),
                Err(_) => false,
            };
            if !wanted.selectors.iter().all(matches) {
                return false;
            }
            if !device.template {
                reach &= zones(&cluster.places[item.place]);
            }
            let first = !used.contains_key(device);
            if first {
                slots_left -= item.uses.iter().map(|(_, amount)| amount).sum::<i128>();
            }
            let take = item
                .device
                .capacity
                .get("memory")
                .map_or(0, |capacity| wanted.capacity.get("memory").unwrap_or(&capacity.value).nanos());
            let sum = used.entry(*device).or_default();
            *sum += take;
            let total = item.device.capacity.get("memory").map_or(0, |capacity| capacity.value.nanos());
            if (!item.device.shared && !first) || *sum > total || reach == 0 || slots_left < 0 {
                return false;
            }
        }
        (0..self.claims.len()).all(|claim| {
            let own = devices.iter().zip(slots).filter(|(_, slot)| slot.0 == claim).map(|(device, _)| device);
            let mut values = own.map(|device| of(device).device.attribute(DRIVER, "gpu.example.com/numa"));
            let first = values.next();
            self.claims[claim].constraints.is_empty()
                || (first != Some(None) && values.all(|value| Some(value) == first))
        })
    }

    /// Whether there is a way, by trying all.
    fn can(&self) -> bool {
        let mut slots = Vec::new();
        for (claim, spec) in self.claims.iter().enumerate() {
            for (request, wanted) in spec.requests.iter().enumerate() {
                let DeviceCount::Exactly(count) = wanted.options[0].count else { continue };
                slots.extend((0..count).map(|_| (claim, request)));
            }
        }
        let cluster = (0..self.cluster.len()).map(|at| Ref { template: false, at });
        let all: Vec<Ref> =
            cluster.chain((0..self.template.len()).map(|at| Ref { template: true, at })).collect();
        self.any(&slots, &all, &mut Vec::new())
    }

    fn any(&self, slots: &[(usize, usize)], all: &[Ref], chosen: &mut Vec<Ref>) -> bool {
        if chosen.len() == slots.len() {
            return self.allows(slots, chosen);
        }
        all.iter().any(|device| {
            chosen.push(*device);
            let found = self.any(slots, all, chosen);
            chosen.pop();
            found
        })
    }
}

fn any_device() -> impl Strategy<Value = DeviceBuilder> {
    let zones = prop_oneof![Just("0"), Just("1"), Just("01"), Just("0123")];
    (0..2_u8, 0..3_u8, zones, any::<bool>(), 0..3_u8).prop_map(|(kind, numa, zones, shared, slots)| {
        let mut builder = device("").attribute("kind", &kind.to_string()).capacity("memory", "2");
        if numa > 0 {
            builder = builder.attribute("numa", &numa.to_string());
        }
        if slots > 0 {
            builder = builder.uses("set", "slots", &slots.to_string());
        }
        builder.on(Nodes::Named(zones.into())).with(|device| device.shared = shared)
    })
}

fn any_claim() -> impl Strategy<Value = ClaimSpec> {
    let request = (1..=2_u32, proptest::option::of(0..2_u8), any::<bool>());
    (proptest::collection::vec(request, 1..=2), any::<bool>()).prop_map(|(requests, same)| {
        let requests: Vec<_> = requests
            .into_iter()
            .enumerate()
            .map(|(at, (count, kind, part))| {
                let mut wanted = option(count);
                wanted.selectors.extend(kind.map(|kind| having("kind", &kind.to_string())));
                if part {
                    wanted.capacity.insert("memory".into(), Quantity::from_milli(1000));
                }
                exactly(&format!("r{at}"), wanted)
            })
            .collect();
        let spec = claim_spec(&requests);
        if same { matching(spec, "gpu.example.com/numa") } else { spec }
    })
}

fn named(devices: Vec<DeviceBuilder>) -> Vec<DeviceBuilder> {
    let name = |(at, device): (usize, DeviceBuilder)| device.with(|d| d.name = format!("d{at}").into());
    devices.into_iter().enumerate().map(name).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn finds_an_allocation_where_there_is_one(
        cluster in proptest::collection::vec(any_device(), 0..4),
        template in proptest::collection::vec(any_device(), 0..3),
        claims in proptest::collection::vec(any_claim(), 1..=2),
    ) {
        let bare = |device: DeviceBuilder| device.with(|d| {
            d.consumes.clear();
            d.nodes = None;
        });
        let case = Case {
            cluster: named(cluster),
            template: named(template.into_iter().map(bare).collect()),
            counter: Some("3"),
            claims,
        };
        let found = case.search();
        prop_assert_eq!(found.is_ok(), case.can(), "{:?}", found);
        if let Ok(given) = found {
            let slots: Vec<_> = given.iter().map(|given| (given.claim.position(), given.request)).collect();
            let devices: Vec<Ref> = given.iter().map(|given| given.device).collect();
            prop_assert!(case.allows(&slots, &devices), "{:?}", given);
        }
    }
}

#[test]
fn devices_of_the_cluster_come_before_those_of_the_node() {
    let case = Case {
        cluster: vec![device("a")],
        template: vec![device("b"), device("c")],
        claims: vec![claim_spec(&[exactly("gpu", option(2))])],
        ..Case::default()
    };
    let devices: Vec<Ref> = case.search().expect("two").iter().map(|given| given.device).collect();
    assert_eq!(devices, [Ref { template: false, at: 0 }, Ref { template: true, at: 0 }]);
}

#[test]
fn the_second_choice_is_taken_where_the_first_leads_nowhere() {
    let mut request = exactly("gpu", option(1));
    request.options[0].name = "large".into();
    request.options[0].selectors.push(having("size", "large"));
    request.options.push(option(2));
    request.options[1].name = "small".into();
    let mut case = Case {
        template: vec![device("a").attribute("size", "large"), device("b"), device("c")],
        claims: vec![claim_spec(&[request, exactly("other", option(1))])],
        ..Case::default()
    };
    let options = |case: &Case| -> Vec<usize> {
        case.search().expect("enough").iter().map(|given| given.option).collect()
    };
    assert_eq!(options(&case), [0, 0]);
    // The other request needs the large device.
    case.claims[0].requests[1].options[0].selectors.push(having("size", "large"));
    assert_eq!(options(&case), [1, 1, 0]);
}

#[rstest]
#[case::all_that_match(&["x", "x", "y"], Some(2))]
#[case::at_least_one(&["y"], None)]
fn all_devices(#[case] kinds: &[&str], #[case] expected: Option<usize>) {
    let mut wanted = option(1);
    wanted.count = DeviceCount::All;
    wanted.selectors.push(having("kind", "x"));
    let each = |(at, kind): (usize, &&str)| device(&format!("d{at}")).attribute("kind", kind);
    let case = Case {
        template: kinds.iter().enumerate().map(each).collect(),
        claims: vec![claim_spec(&[exactly("gpu", wanted)])],
        ..Case::default()
    };
    assert_eq!(case.search().ok().map(|given| given.len()), expected);
}

#[test]
fn devices_for_administration_are_shared_with_anyone() {
    let mut admin = option(1);
    admin.admin = true;
    let claim = claim_spec(&[exactly("gpu", option(1))]);
    let case = Case {
        template: vec![device("a")],
        claims: vec![claim.clone(), claim_spec(&[exactly("admin", admin)])],
        ..Case::default()
    };
    assert_eq!(case.search().map(|given| given.len()), Ok(2));
    let both = Case { claims: vec![claim.clone(), claim], ..case };
    assert!(both.search().is_err());
}

#[test]
fn a_taint_keeps_claims_away_unless_tolerated() {
    let mut case = Case {
        template: vec![device("a").taint("broken")],
        claims: vec![claim_spec(&[exactly("gpu", option(1))])],
        ..Case::default()
    };
    assert!(case.search().is_err());
    let toleration =
        crate::model::device::DeviceToleration { key: "broken".into(), exists: true, ..Default::default() };
    case.claims[0].requests[0].options[0].tolerations.push(toleration);
    assert!(case.search().is_ok());
}

#[test]
fn unknown_attributes_are_bound() {
    let id = |device: &str| DeviceId { driver: DRIVER.into(), pool: "node".into(), device: device.into() };
    let binding = |devices: &[&str]| AttributeBinding {
        attribute: "example.com/root".into(),
        devices: devices.iter().map(|device| id(device)).collect(),
    };
    let templates = DeviceTemplates {
        // Two bindings that share a device are one group.
        bindings: vec![binding(&["a", "b"]), binding(&["d", "e"]), binding(&["b", "c"])],
        ..templates(&["a", "b", "c", "d", "e"].map(device))
    };
    let inventory = Inventory::of_templates(&templates);
    let group = |at| inventory.group(&"example.com/root".into(), at);
    assert_eq!(group(0), group(2));
    assert_eq!(group(3), group(4));
    assert_ne!(group(0), group(3));
}

#[test]
fn only_the_newest_generation_counts_and_all_of_it() {
    let old = slice("pool", Nodes::All, &[device("old")]);
    let mut new = slice("pool", Nodes::All, &[device("new")]);
    (new.generation, new.slices) = (2, 2);
    let inventory = Inventory::of_cluster([&new, &old].into_iter());
    assert_eq!(inventory.items.len(), 1);
    assert_eq!(&*inventory.items[0].id.device, "new");
    assert!(inventory.pools[0].incomplete && !inventory.pools[0].invalid);
}

#[rstest]
#[case::name_twice(&[device("a"), device("a")])]
#[case::unknown_counter(&[device("a").uses("none", "slots", "1")])]
fn a_pool_that_contradicts_itself_has_no_devices(#[case] devices: &[DeviceBuilder]) {
    let inventory = Inventory::of_cluster([&slice("pool", Nodes::All, devices)].into_iter());
    assert!(inventory.pools[0].invalid);
    assert!(inventory.items.is_empty());
}

#[test]
fn a_search_is_bounded() {
    // Pairs of one value each: no four go together, and no two devices are alike.
    let pair = |at: usize| {
        device(&format!("d{at}")).attribute("numa", &(at / 2).to_string()).attribute("n", &at.to_string())
    };
    let spec = matching(claim_spec(&[exactly("gpu", option(1))]), "gpu.example.com/numa");
    let mut claims = vec![spec; 12];
    claims.push(matching(claim_spec(&[exactly("gpu", option(4))]), "gpu.example.com/numa"));
    let case = Case { template: (0..40).map(pair).collect(), claims, ..Case::default() };
    assert!(matches!(case.search(), Err(Failure::TooWide { .. })));
}

#[rstest]
#[case::nothing_said("10", None, None, Some("10"))]
#[case::a_part("10", None, Some("3"), Some("3"))]
#[case::default("10", Some((Some("2"), None)), None, Some("2"))]
#[case::next_value("10", Some((None, Some(&["1", "4", "8"][..]))), Some("3"), Some("4"))]
#[case::no_value("10", Some((None, Some(&["1", "4", "8"][..]))), Some("9"), None)]
fn amounts_of_shared_devices(
    #[case] has: &str,
    #[case] policy: Option<(Option<&str>, Option<&[&str]>)>,
    #[case] asked: Option<&str>,
    #[case] expected: Option<&str>,
) {
    let amount = |text: &str| -> Quantity { text.parse().expect("a quantity") };
    let policy = policy.map(|(default, values)| RequestPolicy {
        default: default.map(amount),
        allowed: values.map(|values| AllowedAmounts::Values(values.iter().map(|v| amount(v)).collect())),
    });
    assert_eq!(taken(has, policy, asked), expected.map(|text| amount(text).nanos()));
}

#[rstest]
#[case::least("1", Some("2"))]
#[case::step("3", Some("5"))]
#[case::on_a_step("8", Some("8"))]
#[case::too_much("9", None)]
fn amounts_in_steps(#[case] asked: &str, #[case] expected: Option<&str>) {
    let amount = |text: &str| -> Quantity { text.parse().expect("a quantity") };
    let range = AllowedAmounts::Range { min: amount("2"), max: Some(amount("10")), step: Some(amount("3")) };
    let policy = RequestPolicy { default: None, allowed: Some(range) };
    assert_eq!(taken("20", Some(policy), Some(asked)), expected.map(|text| amount(text).nanos()));
}

fn taken(has: &str, policy: Option<RequestPolicy>, asked: Option<&str>) -> Option<i128> {
    let amount = |text: &str| -> Quantity { text.parse().expect("a quantity") };
    let capacity = DeviceCapacity { value: amount(has), policy };
    let device = Device { capacity: [("memory".into(), capacity)].into(), ..Device::default() };
    let asked = asked.map(|text| ("memory".into(), amount(text))).into_iter().collect();
    capacity::consumed(&device, &asked).and_then(|taken| taken.first().map(|(_, amount)| *amount))
}

#[test]
fn attributes_without_a_domain_are_the_drivers() {
    let device = device("a").attribute("numa", "1").build();
    let one = Attribute::String("1".into());
    assert_eq!(device.attribute(DRIVER, "gpu.example.com/numa"), Some(&one));
    assert_eq!(device.attribute("other.example.com", "gpu.example.com/numa"), None);
}

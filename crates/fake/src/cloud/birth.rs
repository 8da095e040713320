//! Creates instances: their names, labels, latencies and defects.

use std::{collections::BTreeMap, time::Duration};

use fleetwright_core::model::{
    InstanceType, Offering, Price, Requirements,
    labels::{CAPACITY_TYPE, INSTANCE_TYPE, SPOT, ZONE},
};
use jiff::Timestamp;
use rand_chacha::{ChaCha8Rng, rand_core::Rng};

use super::config::CloudConfig;
use crate::{
    api::{Bootstrap, CloudInstance, Defects, Launch, LaunchItem, Lifecycle, Tags},
    catalogue::{Catalogue, OfferingKey, REALISTIC_REGION, Vocabulary},
    dice,
    dice::below,
    labels,
    quantities::{QuantityMap, from_wire, to_quantities},
    time::later,
};

/// The inputs of a new instance.
pub(super) struct InstanceOrder<'a> {
    pub call: &'a Launch,
    pub item: &'a LaunchItem,
    pub choice: &'a OfferingKey,
    pub instance_type: &'a InstanceType,
    pub offering: &'a Offering,
    pub defects: Defects,
    pub joins: bool,
}

/// A new instance and its drawn fate.
pub(super) struct NewInstance {
    pub instance: CloudInstance,
    pub runs_at: Timestamp,
    pub visible_at: Timestamp,
    pub interrupted_at: Option<Timestamp>,
}

/// An existing instance, read from its NodeClaim and Node.
#[derive(Clone, Debug, Default)]
pub struct Adopted {
    /// The provider id; must not be empty.
    pub provider_id: String,
    /// The node's name; empty if none has joined.
    pub node_name: String,
    /// Its owner.
    pub tags: Tags,
    /// Labels of its node, or of its NodeClaim if no node has joined.
    pub labels: BTreeMap<String, String>,
    /// The initial labels, annotations and taints of its node, if it has yet to join.
    pub bootstrap: Bootstrap,
    /// The advertised capacity.
    pub capacity: QuantityMap,
    /// The advertised allocatable resources.
    pub allocatable: QuantityMap,
    /// When it was launched, if known.
    pub launched_at: Option<Timestamp>,
    /// Whether its node has joined.
    pub joined: bool,
}

/// Creates an instance, or returns the reason and message of the rejection.
pub(super) fn instance(
    catalogue: &Catalogue,
    config: &CloudConfig,
    order: InstanceOrder<'_>,
    now: Timestamp,
    taken: impl Fn(&str) -> bool,
) -> Result<NewInstance, (String, String)> {
    let InstanceOrder { call, item, choice, instance_type, offering, defects, joins } = order;
    let attempt = call.attempt.to_string();
    let mut rng = dice(config.seed, &["machine", &call.batch, &attempt, &item.claim]);
    let labels = labels_of(item, instance_type, offering)?;
    let (id, node_name, address) = names(catalogue.vocabulary, &mut rng, &item.claim, &choice.zone, taken);
    let mut bootstrap = item.bootstrap.clone();
    let hostname = match catalogue.vocabulary {
        Vocabulary::Kwok if config.tags_node_claims => item.claim.clone(),
        Vocabulary::Kwok | Vocabulary::Cloud => node_name.clone(),
    };
    let partition = usize::try_from(below(&mut rng, 10)).unwrap_or(0);
    for (key, value) in [
        (fleetwright_core::model::labels::HOSTNAME, hostname),
        (labels::NODE_VIEWER_PRICE, format!("{:.6}", offering.price)),
        (labels::PARTITION, labels::PARTITIONS[partition].to_owned()),
        (labels::FAKE_NODE, labels::FAKE_NODE_VALUE.to_owned()),
    ] {
        bootstrap.labels.insert(key.to_owned(), value);
    }
    let owned = [
        (labels::FAKE_NODE, labels::FAKE_NODE_VALUE),
        (labels::CLUSTER_UID, &call.cluster_uid),
        (labels::BATCH_ID, &call.batch),
        (labels::ATTEMPT, &attempt),
    ];
    let named = config.tags_node_claims.then_some((labels::CLAIM, item.claim.as_str()));
    let annotations = owned.into_iter().chain(named).map(|(key, value)| (key.to_owned(), value.to_owned()));
    bootstrap.annotations.extend(annotations);
    let runs_at = later(now, config.launch_latency.draw(&mut rng));
    let boots_at = later(runs_at, config.boot_latency.draw(&mut rng));
    let joins_at = joins.then(|| later(boots_at, Duration::from_millis(item.registration_delay_ms)));
    let visible_at = later(now, config.consistency.draw(&mut rng));
    let interrupted_at = (&*choice.capacity_type == SPOT)
        .then(|| interruption(&mut rng, config.interruptions_per_1000_hours))
        .flatten()
        .map(|after| later(now, after));
    let instance = CloudInstance {
        id,
        node_name,
        address,
        tags: Tags {
            cluster_uid: Some(call.cluster_uid.clone()),
            node_pool: item.node_pool.clone(),
            claim: config.tags_node_claims.then(|| item.claim.clone()),
            batch: Some(call.batch.clone()),
            attempt: call.attempt,
        },
        offering: Some(choice.clone()),
        price_nanos: offering.price.nanos(),
        labels,
        bootstrap,
        capacity: to_quantities(&instance_type.capacity),
        allocatable: to_quantities(&instance_type.allocatable_of(offering)),
        state: Lifecycle::Pending,
        launched_at: now,
        joins_at,
        joined: false,
        interrupted_at: None,
        terminating_since: None,
        defects,
    };
    Ok(NewInstance { instance, runs_at, visible_at, interrupted_at })
}

/// The labels that instance type, offering and requirements determine together. Of several values, the first is used.
fn labels_of(
    item: &LaunchItem,
    instance_type: &InstanceType,
    offering: &Offering,
) -> Result<BTreeMap<String, String>, (String, String)> {
    let wanted: Requirements = from_wire(&item.requirements).map_err(|(key, message)| {
        ("InvalidRequirement".to_owned(), format!("requirement on {key}: {message}"))
    })?;
    let mut own = instance_type.requirements.clone();
    own.add_all(&offering.requirements);
    let mut merged = own.clone();
    merged.add_all(&wanted);
    let mut labels = BTreeMap::new();
    for requirement in own.iter() {
        let key = requirement.key();
        let chosen = merged.get(key).and_then(fleetwright_core::model::Requirement::any);
        if let Some(value) = chosen {
            labels.insert(key.to_string(), value.to_string());
        } else if !requirement.allows_missing() && !requirement.is_complement() {
            let message = format!("{key} of {} does not meet the requirements", instance_type.name);
            return Err(("InvalidOffering".to_owned(), message));
        }
    }
    Ok(labels)
}

/// Provider id, node name and address. Duplicate names are drawn again, a bounded number of times.
fn names(
    vocabulary: Vocabulary,
    rng: &mut ChaCha8Rng,
    claim: &str,
    zone: &str,
    taken: impl Fn(&str) -> bool,
) -> (String, String, String) {
    const TRIES: usize = 64;
    let mut name = String::new();
    let mut address = String::new();
    for _ in 0..TRIES {
        let bits = rng.next_u64();
        let [a, b, c, d, e, f, ..] = bits.to_le_bytes();
        address = format!("10.{a}.{b}.{c}");
        name = match vocabulary {
            Vocabulary::Kwok => {
                // A node's name has at most 253 characters.
                let claim: String = claim.chars().take(200).collect();
                let number = u32::from_le_bytes([c, d, e, f]);
                format!("kwok-{claim}-{}-{number}", WORDS[usize::from(a) % WORDS.len()])
            }
            Vocabulary::Cloud => format!("ip-10-{a}-{b}-{c}.{REALISTIC_REGION}.compute.internal"),
        };
        if !taken(&name) {
            break;
        }
    }
    let id = match vocabulary {
        Vocabulary::Kwok => format!("kwok://{name}"),
        Vocabulary::Cloud => format!("fake://{zone}/i-{:017x}", rng.next_u64() >> 4),
    };
    (id, name, address)
}

/// Words that make node names easy to tell apart.
const WORDS: [&str; 16] = [
    "amber", "birch", "cedar", "dune", "ember", "fjord", "grove", "heath", "islet", "juniper", "kelp",
    "larch", "maple", "nimbus", "osier", "pine",
];

/// The time until a spot instance is reclaimed, drawn hour by hour.
fn interruption(rng: &mut ChaCha8Rng, per_1000_hours: u32) -> Option<Duration> {
    const HOURS: u64 = 24 * 90;
    if per_1000_hours == 0 {
        return None;
    }
    let hour = (0..HOURS).find(|_| below(rng, 1000) < u64::from(per_1000_hours))?;
    Some(Duration::from_millis(hour * 3_600_000 + below(rng, 3_600_000)))
}

/// An instance from its NodeClaim and Node.
pub(super) fn adopted(catalogue: &Catalogue, adopted: Adopted, now: Timestamp) -> CloudInstance {
    let label = |key: &str| adopted.labels.get(key).map(|value| value.as_str().into());
    let offering = (|| {
        let instance_type = label(INSTANCE_TYPE)?;
        Some(OfferingKey { instance_type, zone: label(ZONE)?, capacity_type: label(CAPACITY_TYPE)? })
    })();
    let sold = offering.as_ref().and_then(|key| catalogue.find(key));
    let price = sold.map_or(Price::ZERO, |(_, offering)| offering.price);
    let node_name = if adopted.node_name.is_empty() {
        // The kwok vocabulary has the node's name in the provider id; otherwise the last part of the id is used.
        adopted.provider_id.rsplit('/').next().unwrap_or_default().to_owned()
    } else {
        adopted.node_name
    };
    let mut rng = dice(0, &["adopted", &adopted.provider_id]);
    let [a, b, c, ..] = rng.next_u64().to_le_bytes();
    CloudInstance {
        id: adopted.provider_id,
        node_name,
        address: format!("10.{a}.{b}.{c}"),
        tags: adopted.tags,
        offering,
        price_nanos: price.nanos(),
        labels: adopted.labels,
        bootstrap: adopted.bootstrap,
        capacity: adopted.capacity,
        allocatable: adopted.allocatable,
        state: Lifecycle::Running,
        launched_at: adopted.launched_at.unwrap_or(now).min(now),
        joins_at: Some(now),
        joined: adopted.joined,
        interrupted_at: None,
        terminating_since: None,
        defects: Defects::default(),
    }
}

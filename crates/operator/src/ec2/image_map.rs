//! Which AMI each instance type runs, by the status of an EC2NodeClass: AMIs among which nothing decides, and those that no type runs.

use std::{collections::BTreeMap, sync::Arc};

use fleetwright_aws::images::choose;
use fleetwright_aws_api::ec2nodeclass::Ami;
use fleetwright_core::model::InstanceType;
use serde_json::Value;

use crate::{catalogue::MovingImage, figures};

/// The most AMIs of a map.
const MAX_SHOWN: usize = 8;
const FIELD: &str = "spec.amiSelectorTerms";

/// What is unclear about the AMIs in the status of a NodeClass, for the instance types that its NodePools allow. Without a status or types nothing is
/// known.
pub(super) fn unclear(class: &Value, types: &[Arc<InstanceType>]) -> Vec<MovingImage> {
    let amis = class.pointer("/status/amis").cloned().unwrap_or_default();
    let amis: Vec<Ami> = serde_json::from_value(amis).unwrap_or_default();
    if types.is_empty() || amis.is_empty() {
        return Vec::new();
    }
    let mut uses: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut rivals: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for known in types {
        let Some(choice) = choose(&known.requirements, &amis) else { continue };
        uses.entry(&choice.image.id).or_default().push(known.name.to_string());
        // Two entries of one AMI are no choice.
        if let Some(rival) = choice.rival.filter(|rival| rival.id != choice.image.id) {
            rivals.entry((&choice.image.id, &rival.id)).or_default().push(known.name.to_string());
        }
    }
    let map = map(&amis, &uses);
    let mut found: Vec<MovingImage> = Vec::new();
    for ((image, rival), types) in rivals {
        found.push(MovingImage::new(
            FIELD,
            format!(
                "the AMIs {image} and {rival} both serve {}, and neither is more specific: {image} is used, because it is the first in the status ({map})",
                some(&types)
            ),
            "select one of them, or use one EC2NodeClass for each",
        ));
    }
    // An alias brings AMIs of all architectures and kinds, whether they are wanted or not.
    let terms = class.pointer("/spec/amiSelectorTerms").and_then(Value::as_array);
    if !terms.into_iter().flatten().any(|term| term["alias"].is_string()) {
        let mut unused: Vec<&str> = amis.iter().map(|ami| ami.id.as_str()).collect();
        unused.sort_unstable();
        unused.dedup();
        for image in unused.into_iter().filter(|image| !uses.contains_key(image)) {
            found.push(MovingImage::new(
                FIELD,
                format!(
                    "no instance type that the NodePools of the class allow runs the AMI {image} ({map})"
                ),
                "select AMIs of the architecture that the NodePools allow, and only those",
            ));
        }
    }
    found
}

/// `AMI -> types: ami-1 (al2023): 12 types such as …; ami-2: no type`.
fn map(amis: &[Ami], uses: &BTreeMap<&str, Vec<String>>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for ami in amis {
        let types = uses.get(ami.id.as_str()).map_or_else(|| "no type".to_owned(), |types| some(types));
        let name = if ami.name.is_empty() { String::new() } else { format!(" ({})", ami.name) };
        let line = format!("{}{name}: {types}", ami.id);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let more = lines.len().saturating_sub(MAX_SHOWN);
    lines.truncate(MAX_SHOWN);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    format!("AMI -> types: {}", lines.join("; "))
}

/// `12 types, c5.large, c5.xlarge, m5.large and 9 more`.
fn some(types: &[String]) -> String {
    match types {
        [one] => one.clone(),
        many => format!("{} ({})", figures::count(many.len(), "type"), figures::names(many)),
    }
}

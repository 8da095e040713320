//! Which changes of an EC2NodeClass make its nodes drift, as far as the objects say it.

use fleetwright_aws_api::{Ec2NodeClass, labels::NODE_CLASS_KIND};
use fleetwright_kube_schema::Structural;
use serde_json::Value;

use crate::catalogue::ClassChange;

/// The fields of an EC2NodeClass that are no part of its hash: what they select is known to AWS alone.
const SELECTORS: [&str; 4] = [
    "amiSelectorTerms",
    "subnetSelectorTerms",
    "securityGroupSelectorTerms",
    "capacityReservationSelectorTerms",
];

/// What the change of an EC2NodeClass does to its nodes.
pub(super) fn change(old: &Value, new: &Value) -> ClassChange {
    let unreadable = || ClassChange::Unknown("it cannot be read, before or after the change".to_owned());
    let (Some(old), Some(new)) = (admitted(old), admitted(new)) else { return unreadable() };
    match (drift_hash(&old), drift_hash(&new)) {
        (Some(old), Some(new)) if old != new => return ClassChange::Drifts,
        (Some(_), Some(_)) => {}
        _ => return unreadable(),
    }
    let changed: Vec<&str> =
        SELECTORS.into_iter().filter(|field| old["spec"][*field] != new["spec"][*field]).collect();
    if changed.is_empty() {
        return ClassChange::Stays;
    }
    ClassChange::Unknown(format!(
        "which of its nodes drift by another {} is known to AWS alone",
        changed.join(", ")
    ))
}

/// The object as the API server would store it, with its defaults.
fn admitted(class: &Value) -> Option<Value> {
    let crds = fleetwright_aws_api::crds();
    let crd = crds.iter().find(|crd| crd.spec.names.kind == NODE_CLASS_KIND)?;
    let schema = crd.spec.versions.first()?.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    let schema = Structural::parse(&serde_json::to_value(schema).ok()?).ok()?;
    let mut value = class.clone();
    schema.prune_nulls(&mut value);
    schema.default(&mut value);
    Some(value)
}

/// The hash of a class. The certificate authority, which is part of it, is the same before and after.
fn drift_hash(class: &Value) -> Option<String> {
    serde_json::from_value::<Ec2NodeClass>(class.clone()).ok().map(|class| class.drift_hash(""))
}

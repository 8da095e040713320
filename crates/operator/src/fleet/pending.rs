//! Pods without a node, and why.

use std::{collections::HashMap, sync::Arc};

use fleetwright_core::{
    model::{Pod, PodUid, Price},
    scheduling::{NewClaim, Unplaced},
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{FleetInput, ResourceUse, money};
use crate::figures;

/// A pod without a node.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PendingPod {
    /// `namespace/name`.
    pub(crate) pod: String,
    /// When it was created.
    #[schemars(with = "String")]
    pub(crate) created: Timestamp,
    /// What it requests; `allocatable` is 0.
    pub(crate) requests: Vec<ResourceUse>,
    /// One word: `Nominated`, `ExistingNode`, `NewNode`, or why no node is created for it.
    pub(crate) reason: String,
    /// With figures.
    pub(crate) message: String,
    /// Whether no node, existing or new, can run it.
    pub(crate) unschedulable: bool,
    /// The NodePool of the node that the plan creates for it.
    pub(crate) node_pool: Option<String>,
    /// The list price of that node.
    #[serde(serialize_with = "money")]
    #[schemars(with = "Option<String>")]
    pub(crate) node_price: Option<Price>,
}

/// Where the plan puts a pod.
enum Verdict<'a> {
    Existing(&'a str),
    New(&'a NewClaim),
    Unplaced(&'a Unplaced),
}

/// Pods that wait for a node, and those that are set aside: the oldest first. Label selectors select nodes alone. Virtual pods of CapacityBuffers are not among them.
pub(super) fn of(input: &FleetInput<'_>) -> Vec<PendingPod> {
    let snapshot = input.snapshot;
    let verdicts = verdicts(input);
    let all = snapshot.pending.iter().chain(&snapshot.unscheduled);
    let wanted = all.filter(|pod| {
        let is_selected = input.select.namespace.as_ref().is_none_or(|wanted| **wanted == *pod.id.namespace);
        !pod.is_virtual && pod.deleting.is_none() && is_selected
    });
    let mut rows: Vec<PendingPod> = wanted.map(|pod| row(input, pod, verdicts.get(&pod.uid))).collect();
    rows.sort_by(|a, b| (a.created, &a.pod).cmp(&(b.created, &b.pod)));
    rows
}

fn verdicts<'a>(input: &FleetInput<'a>) -> HashMap<&'a PodUid, Verdict<'a>> {
    let mut found = HashMap::new();
    for placement in &input.plan.existing {
        found.extend(placement.pods.iter().map(|pod| (&pod.uid, Verdict::Existing(placement.node.name()))));
    }
    for new_claim in &input.plan.new_claims {
        found.extend(new_claim.pods.iter().map(|pod| (&pod.uid, Verdict::New(new_claim))));
    }
    found.extend(input.plan.unplaced.iter().map(|(pod, why)| (&pod.uid, Verdict::Unplaced(why))));
    found
}

fn row(input: &FleetInput<'_>, pod: &Arc<Pod>, verdict: Option<&Verdict<'_>>) -> PendingPod {
    let id = pod.id.to_string();
    let mut row = PendingPod {
        created: pod.created,
        requests: ResourceUse::requests(pod.requests()),
        reason: String::new(),
        message: String::new(),
        unschedulable: false,
        node_pool: None,
        node_price: None,
        pod: id,
    };
    let nominated = input.snapshot.nominated.get(&pod.uid);
    let aside = input.set_aside.get(&row.pod);
    let (reason, message) = match (nominated, aside, verdict) {
        (Some(claim), ..) => ("Nominated", format!("waits for NodeClaim {claim}")),
        (None, Some((reason, message)), None) => (*reason, message.clone()),
        (None, _, Some(Verdict::Existing(node))) => ("ExistingNode", format!("fits on node {node}")),
        (None, _, Some(Verdict::New(new_claim))) => {
            row.node_pool = Some(new_claim.pool.name.to_string());
            row.node_price = Some(new_claim.chosen.price).filter(|_| input.priced);
            ("NewNode", new_node(new_claim, input))
        }
        (None, _, Some(Verdict::Unplaced(why))) => {
            row.unschedulable = true;
            (why.as_str(), why.to_string())
        }
        (None, None, None) => ("NotScheduled", "the controller does not schedule it".to_owned()),
    };
    (row.reason, row.message) = (reason.to_owned(), message);
    row
}

fn new_node(new_claim: &NewClaim, input: &FleetInput<'_>) -> String {
    let chosen = &new_claim.chosen;
    let price = match input.priced {
        true => format!(", {}/h", figures::per_hour(input.snapshot.currency, chosen.price.dollars())),
        false => String::new(),
    };
    format!(
        "needs a new node of NodePool {}: {} in {}, {}{price}",
        new_claim.pool.name, chosen.instance_type, chosen.zone, chosen.capacity_type
    )
}

//! What a trial sent and received, and the results that followed, as a document that a test replays.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use fleetwright_aws_client::{Exchange, Listener};
use fleetwright_aws_emulator::call::decode;
use fleetwright_aws_emulator::xml;
use fleetwright_aws_tools::live::{Trial, TrialResult};
use serde_json::{Value, json};

/// Stands for the number of the account, which is nobody's concern.
const ACCOUNT: &str = "123456789012";

/// The calls of a trial.
#[derive(Default)]
pub(super) struct Recording(Mutex<Vec<Exchange>>);

impl Recording {
    /// Receives calls.
    pub(super) fn listener(self: &Arc<Self>) -> Listener {
        let recording = self.clone();
        Arc::new(move |exchange| {
            recording.0.lock().unwrap_or_else(PoisonError::into_inner).push(exchange);
        })
    }

    /// The document: without the account's number, and lists of instance types without those that no launch names.
    pub(super) fn document(&self, trial: &Trial, results: &[TrialResult]) -> String {
        let exchanges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let named: BTreeSet<String> = exchanges.iter().flat_map(types).collect();
        let calls: Vec<Value> = exchanges
            .iter()
            .map(|own| {
                json!({
                    "action": own.action,
                    "uri": own.uri,
                    "request": own.request,
                    "status": own.status,
                    "headers": own.headers,
                    "answer": thinned(own, &named),
                })
            })
            .collect();
        let results: Vec<Value> = results
            .iter()
            .map(|own| match &own.result {
                Ok(said) => json!({"name": own.name, "ok": said}),
                Err(why) => json!({"name": own.name, "refused": why}),
            })
            .collect();
        let trial = json!({
            "begins": trial.begins.to_string(),
            "spendNanoDollars": trial.spend.map(|limit| limit.nanos()),
            "cluster": trial.settings.cluster_name,
            "region": trial.settings.region,
            "discovery": [trial.discovery.0, trial.discovery.1],
            "role": trial.role,
            "windowsRole": trial.windows_role,
        });
        let lines = |all: &[Value]| all.iter().map(Value::to_string).collect::<Vec<_>>().join(",\n");
        // A call a line, so that versions of a recording can be compared.
        let text = format!(
            "{{\"trial\": {trial},\n\"calls\": [\n{}\n],\n\"results\": [\n{}\n]}}\n",
            lines(&calls),
            lines(&results)
        );
        match account(&exchanges) {
            Some(account) => text.replace(&account, ACCOUNT),
            None => text,
        }
    }
}

/// The account's number, from the name of its cluster.
fn account(exchanges: &[Exchange]) -> Option<String> {
    let cluster = exchanges.iter().find(|own| own.action == "DescribeCluster" && own.status == 200)?;
    let cluster: Value = serde_json::from_str(&cluster.answer).ok()?;
    let number = cluster["cluster"]["arn"].as_str()?.split(':').nth(4)?;
    (number.len() == ACCOUNT.len()).then(|| number.to_owned())
}

/// The instance types that a launch, or a dry run of one, names.
fn types(own: &Exchange) -> Vec<String> {
    if !["CreateFleet", "RunInstances"].contains(&own.action.as_str()) {
        return Vec::new();
    }
    let is_type = |key: &String| key == "InstanceType" || key.ends_with(".InstanceType");
    decode(&own.request).into_iter().filter(|(key, _)| is_type(key)).map(|(_, value)| value).collect()
}

/// An answer without the instance types that are not `named`.
fn thinned(own: &Exchange, named: &BTreeSet<String>) -> String {
    let set = match own.action.as_str() {
        "DescribeInstanceTypes" => "instanceTypeSet",
        "DescribeInstanceTypeOfferings" => "instanceTypeOfferingSet",
        "DescribeSpotPriceHistory" => "spotPriceHistorySet",
        "GetProducts" => return thinned_products(&own.answer, named),
        _ => return own.answer.clone(),
    };
    let Ok(mut root) = xml::parse(&own.answer) else { return own.answer.clone() };
    for child in root.children.iter_mut().filter(|child| child.name() == set) {
        child.children.retain(|item| named.contains(item.at(&["instanceType"])));
    }
    root.document()
}

fn thinned_products(answer: &str, named: &BTreeSet<String>) -> String {
    let Ok(mut page) = serde_json::from_str::<Value>(answer) else { return answer.to_owned() };
    if let Some(products) = page["PriceList"].as_array_mut() {
        products.retain(|product| {
            let product = product.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
            let of = product.unwrap_or_default();
            of["product"]["attributes"]["instanceType"].as_str().is_some_and(|name| named.contains(name))
        });
    }
    page.to_string()
}

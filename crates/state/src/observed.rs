//! Observations on the nodes of a NodePool, stored in its annotation `fleetwright.dev/observed`: they survive the nodes and this process.

use fleetwright_core::model::{
    Observed, ObservedCapacity, ObservedTaint, ResourceName, Resources, Str, Taint, TaintEffect,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::lower::{supply, text};

/// One entry, as it is written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    claim: String,
    since: Timestamp,
    until: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shape: Option<Shape>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    taint: Option<WrittenTaint>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shape {
    instance_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    promised: std::collections::BTreeMap<String, String>,
    found: std::collections::BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct WrittenTaint {
    key: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    value: String,
    effect: String,
}

/// Reads the annotation; entries that mean nothing are skipped.
#[must_use]
pub fn read(written: &str) -> Observed {
    let mut observed = Observed::default();
    let entries: Vec<serde_json::Value> = serde_json::from_str(written).unwrap_or_default();
    for entry in entries.into_iter().take(2 * Observed::MOST) {
        let Ok(Entry { claim, since, until, shape, taint }) = serde_json::from_value(entry) else { continue };
        let claim: Str = text(&claim);
        if let Some(shape) = shape.and_then(|shape| self::shape(&shape, &claim, since, until)) {
            observed.add_shape(shape);
        }
        if let Some(taint) = taint
            && let Some(effect) = TaintEffect::parse(&taint.effect)
        {
            let taint = Taint::new(taint.key, taint.value, effect);
            observed.add_taint(ObservedTaint { taint, claim, since, until });
        }
    }
    observed
}

fn shape(shape: &Shape, claim: &Str, since: Timestamp, until: Timestamp) -> Option<ObservedCapacity> {
    Some(ObservedCapacity {
        instance_type: text(&shape.instance_type),
        image: shape.image.as_deref().map(text),
        promised: amounts(&shape.promised)?,
        found: amounts(&shape.found)?,
        claim: claim.clone(),
        since,
        until,
    })
}

fn amounts(written: &std::collections::BTreeMap<String, String>) -> Option<Resources> {
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    let quantities = written.iter().map(|(name, amount)| (name.clone(), Quantity(amount.clone()))).collect();
    supply("observed", Some(&quantities)).ok()
}

/// The value of the annotation; `None` without observations.
#[must_use]
pub fn write(observed: &Observed) -> Option<String> {
    if observed.is_empty() {
        return None;
    }
    let shapes = observed.shapes.iter().map(|known| Entry {
        claim: known.claim.to_string(),
        since: known.since,
        until: known.until,
        shape: Some(Shape {
            instance_type: known.instance_type.to_string(),
            image: known.image.as_deref().map(str::to_owned),
            promised: written(&known.promised),
            found: written(&known.found),
        }),
        taint: None,
    });
    let taints = observed.taints.iter().map(|known| Entry {
        claim: known.claim.to_string(),
        since: known.since,
        until: known.until,
        shape: None,
        taint: Some(WrittenTaint {
            key: known.taint.key.to_string(),
            value: known.taint.value.to_string(),
            effect: known.taint.effect.as_str().to_owned(),
        }),
    });
    let entries: Vec<Entry> = shapes.chain(taints).collect();
    serde_json::to_string(&entries).ok()
}

fn written(amounts: &Resources) -> std::collections::BTreeMap<String, String> {
    let one = |(name, amount): (ResourceName, i64)| (name.to_string(), name.quantity(amount).to_string());
    amounts.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    //! What is written is read.
    use super::*;

    #[test]
    fn observations_survive_being_written() {
        let since = Timestamp::from_second(1_750_000_000).unwrap();
        let until = Timestamp::from_second(1_750_003_600).unwrap();
        let mut observed = Observed::default();
        observed.add_shape(ObservedCapacity {
            instance_type: "m5.large".into(),
            image: Some("ami-1".into()),
            promised: Resources::of(1930, 7 << 30).with("pods", 29),
            found: Resources::of(1930, (7 << 30) - 12_345).with("pods", 29),
            claim: "default-abcde".into(),
            since,
            until,
        });
        let taint = Taint::new("agent", "x", TaintEffect::NoExecute);
        observed.add_taint(ObservedTaint { taint, claim: "default-abcde".into(), since, until });
        let text = write(&observed).unwrap();
        assert_eq!(read(&text), observed, "{text}");
        assert_eq!(write(&Observed::default()), None);
    }

    #[test]
    fn what_means_nothing_is_skipped() {
        for bad in ["", "{}", "[1]", r#"[{"claim":"a"}]"#, "null", "[[]]"] {
            assert!(read(bad).is_empty(), "{bad}");
        }
        let negative = r#"[{"claim":"a","since":"2025-01-01T00:00:00Z","until":"2026-01-01T00:00:00Z",
            "shape":{"instanceType":"m","promised":{"cpu":"-1"},"found":{}}},
            {"claim":"a","since":"2025-01-01T00:00:00Z","until":"2026-01-01T00:00:00Z","taint":{"key":"k","effect":"Some"}},
            {"claim":"a","since":"2025-01-01T00:00:00Z","until":"2026-01-01T00:00:00Z","taint":{"key":"k","effect":"NoSchedule"}}]"#;
        let observed = read(negative);
        assert_eq!((observed.shapes.len(), observed.taints.len()), (0, 1));
    }
}

//! S1: instances of others are left alone. S2: one instance per claim. S3: the claim of an instance is held until the instance is
//! gone. S4: what an instance was launched for stands on its claim first. S6: one answer per pod.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetwright_fake::api::{CloudInstance, Lifecycle};
use serde_json::Value;

use super::{Check, Findings, Look, look::*};

const BATCH: &str = "fleetwright.dev/batch-id";
const ATTEMPT: &str = "fleetwright.dev/attempt";

/// S1 to S4.
#[derive(Default)]
pub(super) struct InstanceChecks {
    /// Instances that were judged at birth.
    born: BTreeSet<String>,
    /// Claims at the last look.
    claims: BTreeMap<String, Arc<Value>>,
    /// Instances of each launch that named no claim at birth.
    fleets: BTreeMap<(String, u32), usize>,
    /// Batches of claims whose finalizer a user removed.
    stripped: BTreeSet<String>,
}

impl InstanceChecks {
    /// S3 and S4 of instances that name no claim: they are as many as claims of their batch say at most.
    fn fleets(&mut self, look: &Look<'_>, found: &mut Findings) {
        let ours = |instance: &&Arc<CloudInstance>| !look.ledger.foreign.contains(&instance.id);
        let all: Vec<_> = look.instances.iter().filter(ours).collect();
        for name in &look.ledger.stripped {
            let object = self.claims.get(name).or_else(|| look.claims.iter().find(|c| self::name(c) == name));
            self.stripped.extend(object.map(|object| annotation(object, BATCH).to_owned()));
        }
        let mut saying: BTreeMap<&str, &Arc<Value>> = look.claims_by_name();
        self.claims.iter().for_each(|(name, object)| {
            saying.entry(name).or_insert(object);
        });
        for instance in all.iter().filter(|instance| instance.tags.claim.is_none()) {
            let batch = instance.tags.batch.clone().unwrap_or_default();
            if !self.born.insert(instance.id.clone()) || self.stripped.contains(&batch) {
                continue;
            }
            let attempt = instance.tags.attempt;
            let count = self.fleets.entry((batch.clone(), attempt)).or_default();
            *count += 1;
            let says = |object: &&&Arc<Value>| {
                annotation(object, BATCH) == batch
                    && annotation(object, ATTEMPT).parse::<u32>().is_ok_and(|number| number >= attempt)
            };
            let claims = saying.values().filter(says).count();
            if *count > claims {
                let what =
                    format!("{count} instances of {batch}, attempt {attempt}, which {claims} claims say");
                found.add("S4", what, []);
            }
        }
        let mut living: BTreeMap<&str, usize> = BTreeMap::new();
        for instance in all.into_iter().filter(|instance| lives(instance)) {
            let batch = instance.tags.batch.as_deref().filter(|batch| !self.stripped.contains(*batch));
            batch.into_iter().for_each(|batch| *living.entry(batch).or_default() += 1);
        }
        for (batch, count) in living {
            let of = |claim: &&Arc<Value>| is_held(claim) && annotation(claim, BATCH) == batch;
            let held = look.claims.iter().filter(of).count();
            if count > held {
                found.add(
                    "S3",
                    format!("{count} instances of {batch} live, for {held} claims that are held"),
                    [],
                );
            }
        }
    }
}

impl Check for InstanceChecks {
    fn step(&mut self, look: &Look<'_>, found: &mut Findings) {
        let claims = look.claims_by_name();
        let mut of_claim: BTreeMap<&str, usize> = BTreeMap::new();
        for instance in &look.instances {
            if look.ledger.foreign.contains(&instance.id) {
                if !lives(instance) {
                    found.add("S1", format!("instance {} of somebody else was ended", instance.id), []);
                }
                continue;
            }
            let Some(claim) = instance.tags.claim.as_deref() else { continue };
            let known = look.ledger.stripped.contains(claim);
            if self.born.insert(instance.id.clone()) && !known {
                let object = claims.get(claim).copied().or_else(|| self.claims.get(claim));
                let number = annotation_of(object, ATTEMPT).parse::<u32>();
                let batch = annotation_of(object, BATCH);
                let meant = number.is_ok_and(|number| number >= instance.tags.attempt)
                    && instance.tags.batch.as_deref() == Some(batch);
                if !meant {
                    let what = format!(
                        "instance {} was launched by {:?}, attempt {}, which claim {claim} does not say",
                        instance.id, instance.tags.batch, instance.tags.attempt
                    );
                    found.add("S4", what, object.map(|object| &**object));
                }
            }
            if instance.state == Lifecycle::Gone || known {
                continue;
            }
            if lives(instance) {
                *of_claim.entry(claim).or_default() += 1;
            }
            let object = claims.get(claim);
            if !object.is_some_and(|object| is_held(object)) {
                let what = format!("instance {} lives, and nothing holds its claim {claim}", instance.id);
                found.add("S3", what, object.map(|object| &***object));
            }
        }
        for (claim, count) in of_claim.into_iter().filter(|(_, count)| *count > 1) {
            found.add("S2", format!("{count} instances for claim {claim}"), claims.get(claim).map(|c| &***c));
        }
        self.fleets(look, found);
        self.claims = look.claims.iter().map(|claim| (name(claim).to_owned(), claim.clone())).collect();
    }
}

fn annotation_of<'a>(object: Option<&'a Arc<Value>>, key: &str) -> &'a str {
    object.map(|object| annotation(object, key)).unwrap_or_default()
}

/// S6: the claims of the API server say for which pods they were made.
pub(super) struct Answers;

impl Check for Answers {
    fn step(&mut self, look: &Look<'_>, found: &mut Findings) {
        let mut answered: BTreeMap<&str, Vec<&Arc<Value>>> = BTreeMap::new();
        for claim in look.claims.iter().filter(|claim| !is_deleting(claim) && !is(claim, "Initialized")) {
            let pods = annotation(claim, "fleetwright.dev/nominated-pods").split(',');
            for pod in pods.filter(|pod| !pod.is_empty()) {
                answered.entry(pod).or_default().push(claim);
            }
        }
        for (pod, by) in answered.into_iter().filter(|(_, by)| by.len() > 1) {
            let names: Vec<&str> = by.iter().map(|claim| name(claim)).collect();
            let what = format!("pod {pod} is answered by {}", names.join(" and "));
            found.add("S6", what, by.iter().map(|claim| &***claim));
        }
    }
}

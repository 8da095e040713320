//! S1: foreign instances are not changed. S2: one instance per claim. S3: the claim of an instance keeps its finalizer until the instance
//! is gone. S4: the claim records the attempt before the launch. S6: one claim per pod.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetwright_core::{cloud::GroundTruth, model::ProviderId};
use serde_json::Value;

use super::{Check, Findings, Observation, observation::*};

const BATCH: &str = "fleetwright.dev/batch-id";
const ATTEMPT: &str = "fleetwright.dev/attempt";

/// S1 to S4.
#[derive(Default)]
pub(super) struct InstanceChecks {
    /// Instances that were checked at their launch.
    born: BTreeSet<ProviderId>,
    /// Claims at the last step.
    claims: BTreeMap<String, Arc<Value>>,
    /// The number of instances of each launch without claim tags.
    fleets: BTreeMap<(String, u32), usize>,
    /// Batches of claims whose finalizer a user removed.
    stripped: BTreeSet<String>,
}

impl InstanceChecks {
    /// S3 and S4 of instances without claim tags: at most as many as claims of their batch.
    fn fleets(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        let ours =
            |instance: &&Arc<GroundTruth>| !observation.interventions.foreign.contains(&instance.provider_id);
        let all: Vec<_> = observation.instances.iter().filter(ours).collect();
        for name in &observation.interventions.stripped {
            let object =
                self.claims.get(name).or_else(|| observation.claims.iter().find(|c| self::name(c) == name));
            self.stripped.extend(object.map(|object| annotation(object, BATCH).to_owned()));
        }
        let mut saying: BTreeMap<&str, &Arc<Value>> = observation.claims_by_name();
        self.claims.iter().for_each(|(name, object)| {
            saying.entry(name).or_insert(object);
        });
        for instance in all.iter().filter(|instance| instance.claim.is_none()) {
            let (batch, attempt) = launched_by(instance);
            let batch = batch.to_owned();
            if !self.born.insert(instance.provider_id.clone()) || self.stripped.contains(&batch) {
                continue;
            }
            let count = self.fleets.entry((batch.clone(), attempt)).or_default();
            *count += 1;
            let says = |object: &&&Arc<Value>| {
                annotation(object, BATCH) == batch
                    && annotation(object, ATTEMPT).parse::<u32>().is_ok_and(|number| number >= attempt)
            };
            let claims = saying.values().filter(says).count();
            if *count > claims {
                let what =
                    format!("{count} instances of {batch}, attempt {attempt}, recorded on {claims} claims");
                found.add("S4", what, []);
            }
        }
        let mut living: BTreeMap<&str, usize> = BTreeMap::new();
        for instance in all.into_iter().filter(|instance| !instance.terminating) {
            let batch = instance.launched_by.as_ref().map(|(batch, _)| batch.as_str());
            let batch = batch.filter(|batch| !self.stripped.contains(*batch));
            batch.into_iter().for_each(|batch| *living.entry(batch).or_default() += 1);
        }
        let mut held: BTreeMap<&str, usize> = BTreeMap::new();
        for claim in observation.claims.iter().filter(|claim| is_held(claim)) {
            *held.entry(annotation(claim, BATCH)).or_default() += 1;
        }
        for (batch, count) in living {
            let held = held.get(batch).copied().unwrap_or_default();
            if count > held {
                found.add(
                    "S3",
                    format!("{count} instances of {batch} run for {held} claims with finalizer"),
                    [],
                );
            }
        }
    }
}

/// S1: instances of other owners are not terminated.
fn foreign(observation: &Observation<'_>, found: &mut Findings) {
    for id in &observation.interventions.foreign {
        let lives = observation.instances.iter().any(|one| one.provider_id == *id && !one.terminating);
        if !lives {
            found.add("S1", format!("instance {id} of another owner was terminated"), []);
        }
    }
}

/// Batch and attempt that an instance carries.
fn launched_by(instance: &GroundTruth) -> (&str, u32) {
    instance.launched_by.as_ref().map_or(("", 0), |(batch, attempt)| (batch.as_str(), *attempt))
}

impl Check for InstanceChecks {
    fn step(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        let claims = observation.claims_by_name();
        let mut of_claim: BTreeMap<&str, usize> = BTreeMap::new();
        foreign(observation, found);
        for instance in &observation.instances {
            if observation.interventions.foreign.contains(&instance.provider_id) {
                continue;
            }
            let Some(claim) = instance.claim.as_ref().map(|claim| claim.as_str()) else { continue };
            let known = observation.interventions.stripped.contains(claim);
            if self.born.insert(instance.provider_id.clone()) && !known {
                let object = claims.get(claim).copied().or_else(|| self.claims.get(claim));
                let number = annotation_of(object, ATTEMPT).parse::<u32>();
                let batch = annotation_of(object, BATCH);
                let (by, attempt) = launched_by(instance);
                let meant = number.is_ok_and(|number| number >= attempt) && by == batch;
                if !meant {
                    let what = format!(
                        "instance {} was launched by {by:?}, attempt {attempt}, which claim {claim} does not record",
                        instance.provider_id
                    );
                    found.add("S4", what, object.map(|object| &**object));
                }
            }
            if known {
                continue;
            }
            if !instance.terminating {
                *of_claim.entry(claim).or_default() += 1;
            }
            let object = claims.get(claim);
            if !object.is_some_and(|object| is_held(object)) {
                let what =
                    format!("instance {} runs, but claim {claim} has no finalizer", instance.provider_id);
                found.add("S3", what, object.map(|object| &***object));
            }
        }
        for (claim, count) in of_claim.into_iter().filter(|(_, count)| *count > 1) {
            found.add("S2", format!("{count} instances for claim {claim}"), claims.get(claim).map(|c| &***c));
        }
        self.fleets(observation, found);
        self.claims =
            observation.claims.iter().map(|claim| (name(claim).to_owned(), claim.clone())).collect();
    }
}

fn annotation_of<'a>(object: Option<&'a Arc<Value>>, key: &str) -> &'a str {
    object.map(|object| annotation(object, key)).unwrap_or_default()
}

/// S6: claims record the pods that they are for.
pub(super) struct Answers;

impl Check for Answers {
    fn step(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        let mut answered: BTreeMap<&str, Vec<&Arc<Value>>> = BTreeMap::new();
        for claim in
            observation.claims.iter().filter(|claim| !is_deleting(claim) && !is(claim, "Initialized"))
        {
            let pods = annotation(claim, "fleetwright.dev/nominated-pods").split(',');
            for pod in pods.filter(|pod| !pod.is_empty()) {
                answered.entry(pod).or_default().push(claim);
            }
        }
        for (pod, by) in answered.into_iter().filter(|(_, by)| by.len() > 1) {
            let names: Vec<&str> = by.iter().map(|claim| name(claim)).collect();
            let what = format!("pod {pod} is assigned to {}", names.join(" and "));
            found.add("S6", what, by.iter().map(|claim| &***claim));
        }
    }
}

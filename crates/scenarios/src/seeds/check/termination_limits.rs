//! S11: terminations without a request are limited: instances without a claim are terminated a few at a time.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use fleetwright_core::{cloud::GroundTruth, model::ProviderId};

use super::{Check, Findings, Observation, observation::*};

/// The maximum number of instances without a claim that are terminated within [`WINDOW`]: a run has far fewer than sixty.
const FEW: usize = 3;
/// See [`FEW`].
const WINDOW: Duration = Duration::from_secs(600);

/// S11.
#[derive(Default)]
pub(super) struct TerminationLimits {
    /// Running instances without a claim at the last step that are older than the recording of a launch takes.
    strays: BTreeSet<ProviderId>,
    /// The times of their terminations.
    ended: Vec<Duration>,
}

impl Check for TerminationLimits {
    fn step(&mut self, observation: &Observation<'_>, found: &mut Findings) {
        let claims: BTreeSet<&str> =
            observation.claims.iter().map(|claim| text(claim, "/status/providerID")).collect();
        let names: BTreeSet<&str> = observation.claims.iter().map(|claim| name(claim)).collect();
        let is_ours =
            |instance: &&Arc<GroundTruth>| !observation.interventions.foreign.contains(&instance.provider_id);
        for instance in observation.ended().filter(is_ours) {
            let id = &instance.provider_id;
            let by_itself = instance.interrupted || observation.interventions.lost.contains(id);
            if self.strays.contains(id) && !by_itself {
                self.ended.push(observation.at);
            }
        }
        self.ended.retain(|at| observation.at.saturating_sub(*at) < WINDOW);
        if self.ended.len() > FEW {
            let what =
                format!("{} instances without a claim were terminated within {WINDOW:?}", self.ended.len());
            found.add("S11", what, []);
            self.ended.clear();
        }
        let stray = observation.instances.iter().filter(is_ours).filter(|instance| {
            let named = instance.claim.as_ref().is_some_and(|claim| names.contains(claim.as_str()));
            !instance.terminating && !named && !claims.contains(instance.provider_id.as_str())
        });
        self.strays = stray.map(|instance| instance.provider_id.clone()).collect();
    }
}

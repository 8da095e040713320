//! S11: what nobody ordered has a brake: instances without a claim are ended a few at a time.

use std::{collections::BTreeSet, time::Duration};

use super::{Check, Findings, Look, look::*};

/// Instances that may be ended within [`WINDOW`] because no claim accounts for them: a run has far fewer than sixty.
const FEW: usize = 3;
/// See [`FEW`].
const WINDOW: Duration = Duration::from_secs(600);

/// S11.
#[derive(Default)]
pub(super) struct Brakes {
    /// Instances without a claim that lived at the last look, and were there longer than a launch takes to be noted.
    strays: BTreeSet<String>,
    /// When such ones were ended.
    ended: Vec<Duration>,
}

impl Check for Brakes {
    fn step(&mut self, look: &Look<'_>, found: &mut Findings) {
        let claims: BTreeSet<&str> =
            look.claims.iter().map(|claim| text(claim, "/status/providerID")).collect();
        let names: BTreeSet<&str> = look.claims.iter().map(|claim| name(claim)).collect();
        let ours = || look.instances.iter().filter(|instance| !look.ledger.foreign.contains(&instance.id));
        for instance in ours().filter(|instance| !lives(instance)) {
            let by_itself = instance.interrupted_at.is_some() || look.ledger.lost.contains(&instance.id);
            if self.strays.contains(&instance.id) && !by_itself {
                self.ended.push(look.at);
            }
        }
        self.ended.retain(|at| look.at.saturating_sub(*at) < WINDOW);
        if self.ended.len() > FEW {
            let what = format!("{} instances without a claim were ended within {WINDOW:?}", self.ended.len());
            found.add("S11", what, []);
            self.ended.clear();
        }
        let stray = ours().filter(|instance| {
            let named = instance.tags.claim.as_deref().is_some_and(|claim| names.contains(claim));
            lives(instance) && !named && !claims.contains(instance.id.as_str())
        });
        self.strays = stray.map(|instance| instance.id.clone()).collect();
    }
}

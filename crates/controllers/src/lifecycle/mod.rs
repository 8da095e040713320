//! NodeClaims from birth to death: what stages of `core::nodeclaim` decide is carried out here.
//!
//! [`node`] looks at a claim with what belongs to it, a stage says what to do next, and [`hand`] does it. What the
//! controllers [remember](memory) between passes spares calls; nothing of it is needed for safety.

pub(crate) mod claimed_node;
mod controller;
pub(crate) mod families;
pub(crate) mod hand;
mod launch;
pub(crate) mod memory;
mod node_patch;
pub(crate) mod refused;
mod tell;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use fleetwright_core::{cloud::ProviderStep, nodeclaim::Next};

use crate::{
    nodeclaim, nodepool, provider,
    runtime::{Controller, Requeue},
    settings::Settings,
    termination,
};

pub use controller::Lifecycle;
pub use memory::Memory;

/// The controllers of a NodeClaim's life and of its NodePool's status, and the loops that the provider hands out.
#[must_use]
pub fn controllers(settings: &Settings, steps: Vec<Arc<dyn ProviderStep>>) -> Vec<Arc<dyn Controller>> {
    let memory = Arc::new(Memory::default());
    let mut all: Vec<Arc<dyn Controller>> = vec![
        Arc::new(Lifecycle(memory.clone())),
        Arc::new(termination::NodeTermination(memory.clone())),
        Arc::new(termination::EvictionQueue(memory.clone())),
        Arc::new(nodeclaim::Expiration::new(memory.clone())),
        Arc::new(nodeclaim::GarbageCollection::new(memory.clone())),
        Arc::new(nodeclaim::Consistency(memory.clone())),
        Arc::new(nodeclaim::Disruption(memory.clone())),
        Arc::new(nodeclaim::PodEvents),
        Arc::new(nodeclaim::Validation),
        Arc::new(nodeclaim::ClaimHydration),
        Arc::new(nodeclaim::NodeHydration),
        Arc::new(nodepool::Hash),
        Arc::new(nodepool::Counter),
        Arc::new(nodepool::Validation),
        Arc::new(nodepool::Readiness),
        Arc::new(nodepool::Protection),
        Arc::new(nodepool::RegistrationHealth(memory.clone())),
        Arc::new(nodepool::ObservedReaper),
        Arc::new(nodeclaim::InitializationDeadline(memory.clone())),
    ];
    if settings.gates.static_capacity {
        all.push(Arc::new(nodepool::StaticProvisioning::default()));
        all.push(Arc::new(nodepool::StaticDeprovisioning));
    }
    if settings.gates.node_repair {
        all.push(Arc::new(nodeclaim::Repair::new(memory.clone())));
    }
    all.extend(provider::controllers(&memory, steps));
    all
}

/// When a key is due again by what a stage says.
pub(crate) fn requeue(again: Option<std::time::Duration>) -> Requeue {
    again.map_or(Requeue::No, Requeue::After)
}

/// The first answer that asks for something, waiting no longer than any of them.
pub(crate) fn first_busy(answers: impl IntoIterator<Item = Next>) -> Next {
    let mut chosen = Next::nothing();
    for answer in answers {
        chosen = match (chosen.is_idle(), answer.again) {
            (true, _) => chosen.and(answer),
            (false, Some(again)) => chosen.again(again),
            (false, None) => chosen,
        };
    }
    chosen
}

//! Objects of the API server, and what people write into them: each is read or refused, with a reason that names the field.
#![no_main]

use fleetwright_core::model::LabelSchema;
use fleetwright_state::lower::{claim, node, pdb, pod, pool};
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let schema = LabelSchema::default();
    if let Ok(object) = serde_json::from_slice::<Pod>(data) {
        let mut interner = pod::Interner::default();
        if let Err(why) = pod::pod(&object, &schema, &mut interner) {
            assert!(!why.to_string().is_empty());
            let _ = pod::unreadable(&object, &why, &mut interner);
        }
    }
    if let Ok(object) = serde_json::from_slice::<Node>(data) {
        let _ = node::node(&object);
    }
    if let Ok(object) = serde_json::from_slice::<PodDisruptionBudget>(data) {
        let _ = pdb::pdb(&object);
    }
    if let Ok(object) = serde_json::from_slice::<fleetwright_api::NodePool>(data) {
        let _ = pool::pool(&object, &schema);
    }
    if let Ok(object) = serde_json::from_slice::<fleetwright_api::NodeClaim>(data) {
        let _ = claim::claim(&object, &schema);
    }
});

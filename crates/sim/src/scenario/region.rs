//! What a scenario expects of a region of AWS and of who may act in it.

use serde_json::Value;

use super::Expect;
use crate::world::World;

/// What is expected and is not so.
pub(super) fn missing(world: &World, expect: &Expect) -> Vec<String> {
    let mut missing = Vec::new();
    let mut check = |what: &str, expected: Option<String>, found: String| {
        if let Some(expected) = expected.filter(|expected| *expected != found) {
            missing.push(format!("{what}: expected {expected}, found {found}"));
        }
    };
    let own = world.region().map_or(0, |region| region.guests().len());
    let all = world.region().map_or(0, |region| region.aws.guests().len());
    check("instances", expect.instances.map(|count| count.to_string()), own.to_string());
    check("all instances", expect.all_instances.map(|count| count.to_string()), all.to_string());
    let claims = world.server().list("karpenter.sh/v1", "NodeClaim", "");
    let image = |claim: &std::sync::Arc<Value>| {
        claim.pointer("/status/imageID").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut images: Vec<String> = claims.iter().map(image).collect();
    images.sort();
    let wanted = expect.images.clone().map(|mut wanted| {
        wanted.sort();
        format!("{wanted:?}")
    });
    check("images", wanted, format!("{images:?}"));
    if let Some(words) = &expect.refused {
        let refused = world.refused().unwrap_or("it runs");
        if !refused.contains(words.as_str()) {
            missing.push(format!("refused: expected {words:?}, found {refused:?}"));
        }
    }
    missing
}

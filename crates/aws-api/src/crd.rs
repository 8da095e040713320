//! The custom resources of a cluster on AWS: the common base with the rules of AWS' labels, and EC2NodeClass.

use fleetwright_api::crd;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::ec2nodeclass::{Ec2NodeClass, Ec2NodeClassSpec, Ec2NodeClassStatus};
use crate::labels::{GROUP, NODE_CLASS, NOT_FOR_OVERLAYS, WELL_KNOWN};

/// Every definition that a cluster on AWS needs, in a fixed order: EC2NodeClass first.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    let message = format!("label domain \"{GROUP}\" is restricted");
    let known = rule("self", &allowed(&[]));
    let of_overlay = rule("self", &allowed(NOT_FOR_OVERLAYS));
    let labels = format!("self.all(x, {})", rule("x", &allowed(&[])));
    let mut all = vec![node_class()];
    for mut definition in crd::base() {
        match definition.spec.names.kind.as_str() {
            "NodePool" => {
                crd::add_rules(&mut definition, crd::NODE_POOL_REQUIREMENT_KEYS, &[(&known, &message)]);
                crd::add_rules(&mut definition, crd::NODE_POOL_LABELS, &[(&labels, &message)]);
            }
            "NodeClaim" => crd::add_rules(&mut definition, crd::REQUIREMENT_KEYS, &[(&known, &message)]),
            "NodeOverlay" => {
                crd::add_rules(&mut definition, crd::REQUIREMENT_KEYS, &[(&of_overlay, &message)])
            }
            _ => {}
        }
        all.push(definition);
    }
    all
}

/// The definition of EC2NodeClass.
#[must_use]
pub fn node_class() -> CustomResourceDefinition {
    crd::definition::<Ec2NodeClass, Ec2NodeClassSpec, Ec2NodeClassStatus>(
        "An EC2NodeClass says how the instances of NodePools are launched on EC2.",
    )
}

/// The keys of the provider's domain that users may name, without `but`.
fn allowed(but: &[&str]) -> Vec<&'static str> {
    let domain = format!("{GROUP}/");
    let own = WELL_KNOWN.iter().copied().filter(|key| key.starts_with(&domain) && !but.contains(key));
    std::iter::once(NODE_CLASS).chain(own).collect()
}

/// Whether a key is one of `allowed`, or of another domain. The domain is matched by its suffix, as in Karpenter.
fn rule(key: &str, allowed: &[&str]) -> String {
    let quoted: Vec<String> = allowed.iter().map(|name| format!("\"{name}\"")).collect();
    format!("{key} in [{}] || !{key}.find(\"^([^/]+)\").endsWith(\"{GROUP}\")", quoted.join(", "))
}

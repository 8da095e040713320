//! Pods from templates.

use k8s_openapi::{
    api::core::v1::{Pod, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::Resource;

use super::fnv;

/// The owner reference of a controller.
pub(super) fn controller<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A pod from a template, with a generated name.
pub(super) fn pod<K: Resource<DynamicType = ()>>(owner: &K, template: &PodTemplateSpec) -> Pod {
    let given = template.metadata.clone().unwrap_or_default();
    let name = owner.meta().name.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: owner.meta().namespace.clone(),
            labels: given.labels,
            annotations: given.annotations,
            finalizers: given.finalizers,
            owner_references: Some(vec![controller(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// The hash of a template, with the characters that Kubernetes uses in names.
pub(super) fn hash(template: &PodTemplateSpec, collisions: i32) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let text = serde_json::to_string(template).unwrap_or_default();
    let number = fnv(&if collisions == 0 { text } else { format!("{text}{collisions}") }).to_string();
    let letter = |byte: u8| LETTERS.get(usize::from(byte) % LETTERS.len()).copied().unwrap_or(b'x');
    number.bytes().map(|byte| char::from(letter(byte))).collect()
}

//! CapacityBuffers of the input, with their PodTemplates and workloads.

use std::collections::BTreeMap;

use fleetwright_api as api;
use fleetwright_core::model::NamespacedName;
use fleetwright_state::lower::buffer;
use k8s_openapi::api::core::v1::{PodTemplateSpec, ResourceQuota};
use serde_json::Value;

use super::Loader;
use crate::input::Source;

/// Namespaced kinds of this module.
pub(super) const NAMESPACED: [&str; 4] = ["CapacityBuffer", "PodTemplate", "Deployment", "ResourceQuota"];

/// Buffers and the objects that they refer to, until all are read.
#[derive(Default)]
pub(super) struct Buffers {
    /// By kind, namespace and name: template and replicas of objects that buffers may refer to.
    shapes: BTreeMap<(String, NamespacedName), (PodTemplateSpec, Option<i32>)>,
    /// The position of each buffer in the input.
    places: BTreeMap<NamespacedName, Source>,
    /// Quotas by namespace.
    quotas: BTreeMap<String, Vec<ResourceQuota>>,
}

impl Loader {
    /// Records a PodTemplate or workload.
    pub(super) fn shape(&mut self, group: &str, kind: &str, value: &Value, source: &Source) {
        let (template, replicas) = match (group, kind) {
            ("", "PodTemplate") => (&value["template"], None),
            ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") => {
                // Unset means one to Kubernetes.
                let replicas = value["spec"]["replicas"].as_i64().unwrap_or(1);
                (&value["spec"]["template"], Some(i32::try_from(replicas).unwrap_or(i32::MAX)))
            }
            _ => return,
        };
        if !template.is_object() {
            return;
        }
        match super::parse::<PodTemplateSpec>(template.clone()) {
            Ok(template) => {
                self.buffers.shapes.insert((kind.to_owned(), id_of(value)), (template, replicas));
            }
            // The template has no kind and no name: those are of the object.
            Err(why) => self.leave_out_object(kind, &id_of(value), "malformed", &why, source),
        }
    }

    /// Records a ResourceQuota, which limits buffers of its namespace.
    pub(super) fn quota(&mut self, value: Value, source: &Source) {
        if let Some(quota) = self.read::<ResourceQuota>(value, source) {
            let namespace = quota.metadata.namespace.clone().unwrap_or_default();
            let quotas = self.buffers.quotas.entry(namespace).or_default();
            quotas.retain(|known| known.metadata.name != quota.metadata.name);
            quotas.push(quota);
        }
    }

    /// Reads a buffer.
    pub(super) fn buffer(&mut self, value: Value, source: &Source) {
        self.buffers.places.insert(id_of(&value), source.clone());
        self.custom::<api::CapacityBuffer>(value, source);
    }

    /// Resolves every buffer to its virtual pods, as its controller does.
    pub(super) fn resolve_buffers(&mut self) {
        let ids: Vec<NamespacedName> = self.loaded.index.buffers().cloned().collect();
        for id in ids {
            let Some(raw) = self.loaded.index.buffer(&id).map(|(raw, ..)| raw.clone()) else { continue };
            if let Err(why) = self.resolve(&id, &raw)
                && let Some(place) = self.buffers.places.get(&id).cloned()
            {
                self.note(place, format_args!("CapacityBuffer {id} has no chunks: {why}"));
            }
        }
    }

    fn resolve(&mut self, id: &NamespacedName, raw: &api::CapacityBuffer) -> Result<(), String> {
        let (kind, name) = match (&raw.spec.pod_template_ref, &raw.spec.scalable_ref) {
            (Some(reference), _) => ("PodTemplate", &reference.name),
            (None, Some(reference)) => (&*reference.kind, &reference.name),
            (None, None) => return Err("spec: set podTemplateRef or scalableRef".to_owned()),
        };
        let key = (kind.to_owned(), NamespacedName::new(id.namespace.clone(), name.as_str()));
        let missing = || format!("{kind} {name} is not in the input");
        let (template, scale) = self.buffers.shapes.get(&key).ok_or_else(missing)?;
        let shape = buffer::BufferTemplate { template, scale: *scale };
        let defaults = self.loaded.index.container_defaults(&id.namespace);
        let mut pods = buffer::pods(raw, &shape, &defaults, self.loaded.index.schema())?;
        let wanted = pods.len();
        let quotas = self.buffers.quotas.get(&*id.namespace).map(Vec::as_slice).unwrap_or_default();
        if let Some(quota) = buffer::within_quotas(&mut pods, quotas)
            && let Some(place) = self.buffers.places.get(id).cloned()
        {
            let left = pods.len();
            self.note(
                place,
                format_args!("CapacityBuffer {id} has {left} of {wanted} chunks: resourcequota {quota}"),
            );
        }
        self.loaded.index.set_buffer_pods(id, pods);
        Ok(())
    }
}

fn id_of(value: &Value) -> NamespacedName {
    let of = |at: &str| value.pointer(at).and_then(Value::as_str).unwrap_or_default();
    NamespacedName::new(of("/metadata/namespace"), of("/metadata/name"))
}

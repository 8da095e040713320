//! The watch that keeps a provider's [`NodeClasses`] current.
//!
//! The controllers follow the same objects for their condition `Ready` ([`runtime`](crate::runtime)): they know nothing of their fields.

use std::{pin::pin, time::Duration};

use fleetwright_core::{clock::SharedClock, cloud::NodeClasses, model::Str};
use futures::StreamExt as _;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::watcher::{self, Event},
};
use serde::de::DeserializeOwned;

use crate::runtime::{RateLimit, parse};

/// Delays after errors: the definition may be created after the controller.
const RETRY: RateLimit = RateLimit::new(Duration::from_secs(1), Duration::from_secs(60), 1, 1);

/// Watches the objects of the kind of `classes` for ever. An object that cannot be read is left out, as if it did not exist, and logged.
pub async fn follow<T>(client: Client, classes: NodeClasses<T>, clock: SharedClock)
where
    T: DeserializeOwned + PartialEq,
{
    let kind = classes.kind().clone();
    let gvk = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
    let api = Api::<DynamicObject>::all_with(client, &ApiResource::from_gvk_with_plural(&gvk, &kind.plural));
    let mut events = pin!(watcher::watcher(api, watcher::Config::default()));
    let (mut listed, mut failures) = (Vec::new(), 0_u32);
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                failures = failures.saturating_add(1);
                tracing::warn!(%error, failures, "the watch of {} was interrupted", kind.plural);
                clock.sleep(RETRY.delay(failures)).await;
                continue;
            }
        };
        failures = 0;
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => listed.extend(read(&object).map(|class| (name(&object), class))),
            Event::InitDone => classes.replace(std::mem::take(&mut listed)),
            Event::Apply(object) => match read(&object) {
                Some(class) => classes.set(&object.name_any(), class),
                None => classes.remove(&object.name_any()),
            },
            Event::Delete(object) => classes.remove(&object.name_any()),
        }
    }
}

fn name(object: &DynamicObject) -> Str {
    object.name_any().as_str().into()
}

fn read<T: DeserializeOwned>(object: &DynamicObject) -> Option<T> {
    let read = parse(object);
    read.inspect_err(|why| tracing::error!(name = object.name_any(), why, "ignoring invalid NodeClass")).ok()
}

#[cfg(test)]
mod tests {
    //! Objects come, change, become unreadable and go.
    use fleetwright_core::cloud::{NodeClassError, NodeClassKind};
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::Harness;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Class {
        spec: Spec,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Spec {
        image: String,
    }

    /// A NodeClass of a definition without schema, so that a field may have any type.
    fn class(name: &str, image: &Value) -> Value {
        json!({"apiVersion": "acme.example/v1", "kind": "AcmeNodeClass", "metadata": {"name": name},
            "spec": {"image": image}})
    }

    fn definition() -> Value {
        let schema =
            json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "acmenodeclasses.acme.example"},
            "spec": {"group": "acme.example", "scope": "Cluster",
                "names": {"kind": "AcmeNodeClass", "listKind": "AcmeNodeClassList", "plural": "acmenodeclasses",
                    "singular": "acmenodeclass"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}})
    }

    #[tokio::test(start_paused = true)]
    async fn a_view_follows_the_objects() {
        let harness = Harness::new();
        let kind = NodeClassKind::new("acme.example", "v1", "AcmeNodeClass", "acmenodeclasses");
        let classes = NodeClasses::<Class>::new(kind.clone());
        let image = |name: &str| classes.get(name).map(|class| class.spec.image.clone());
        let _task = tokio::spawn(follow(
            harness.ctx.client.client(),
            classes.clone(),
            harness.ctx.clocks.clock().clone(),
        ));
        harness.pass(5).await;
        assert_eq!(image("a"), Err(NodeClassError::Unlisted("AcmeNodeClass".into())), "no definition yet");
        harness.server.apply(definition()).unwrap();
        harness.server.apply(class("a", &json!("one"))).unwrap();
        harness.server.apply(class("invalid", &json!(7))).unwrap();
        let seen = classes.changes();
        assert_eq!(classes.changed(seen).await, 1);
        let missing = |name: &str| Err(NodeClassError::Missing(kind.named(name)));
        assert_eq!((image("a"), image("invalid")), (Ok("one".to_owned()), missing("invalid")));
        harness.server.apply(class("a", &json!("two"))).unwrap();
        harness.server.apply(class("b", &json!("three"))).unwrap();
        harness.pass(1).await;
        assert_eq!((image("a"), image("b")), (Ok("two".to_owned()), Ok("three".to_owned())));
        harness.server.apply(class("a", &json!(7))).unwrap();
        harness.server.delete("acme.example/v1", "AcmeNodeClass", "", "b").unwrap();
        harness.pass(1).await;
        assert_eq!((image("a"), image("b")), (missing("a"), missing("b")));
    }
}

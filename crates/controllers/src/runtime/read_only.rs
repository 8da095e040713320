//! A client of the API server that cannot write.

use http::{Method, Request, header};
use kube::{Client, client::Body};

/// A client that sends GET requests only (get, list, watch). Every other request fails before it is sent. What is built from this
/// type cannot write, whatever it tries.
#[derive(Clone)]
pub struct ReadOnlyClient(Client);

impl ReadOnlyClient {
    /// Wraps a client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let client = client.clone();
            async move {
                // An upgraded GET is `exec`, `attach` or `port-forward`.
                if request.method() != Method::GET || request.headers().contains_key(header::UPGRADE) {
                    let (method, path) = (request.method(), request.uri().path());
                    return Err(kube::Error::Service(format!("read-only client: {method} {path}").into()));
                }
                client.send(request).await
            }
        });
        Self(Client::new(service, namespace))
    }

    /// The client, which refuses writes.
    #[must_use]
    pub fn client(&self) -> Client {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    //! Every verb that writes.
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{
        Api,
        api::{DeleteParams, Patch, PatchParams, PostParams},
    };
    use serde_json::json;

    use super::*;
    use crate::testing::{Harness, Writes};

    #[tokio::test(start_paused = true)]
    async fn reads_pass_and_writes_do_not() {
        let writes = std::sync::Arc::new(Writes::default());
        let harness = Harness::with(Some(writes.clone()));
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}});
        harness.server.apply(object.clone()).unwrap();
        let object: ConfigMap = serde_json::from_value(object).unwrap();
        let client = Client::new(harness.server.service(), "default");
        let (free, barred): (Api<ConfigMap>, Api<ConfigMap>) = (
            Api::default_namespaced(client.clone()),
            Api::default_namespaced(ReadOnlyClient::new(client).client()),
        );
        assert_eq!(barred.get("a").await.unwrap().metadata.name.as_deref(), Some("a"));
        assert_eq!(barred.list(&kube::api::ListParams::default()).await.unwrap().items.len(), 1);
        let patch = Patch::Merge(json!({"data": {"a": "b"}}));
        let new = ConfigMap {
            metadata: kube::core::ObjectMeta { name: Some("b".into()), ..object.metadata.clone() },
            ..object.clone()
        };
        let refused = [
            barred.patch("a", &PatchParams::default(), &patch).await.err(),
            barred.create(&PostParams::default(), &new).await.err(),
            barred.replace("a", &PostParams::default(), &object).await.err(),
            barred.delete("a", &DeleteParams::default()).await.err(),
            barred.delete_collection(&DeleteParams::default(), &kube::api::ListParams::default()).await.err(),
        ];
        for error in refused {
            assert!(error.unwrap().to_string().contains("read-only client"));
        }
        assert_eq!(writes.all(), Vec::<String>::new());
        // The same call of a client that may write is counted.
        free.patch("a", &PatchParams::default(), &patch).await.unwrap();
        assert_eq!(writes.all(), ["patch configmaps"]);
    }
}

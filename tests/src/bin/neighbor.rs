//! `fleetwright-neighbor`: the operator of another cloud, for the case `neighbor`. The cloud is a fake one whose NodeClass is that of
//! `examples/provider`, so that the manifests of the example grant what its operator needs. The example itself takes minutes to build.

use std::process::ExitCode;
use std::sync::Arc;

use fleetwright_core::cloud::{CloudProvider, NodeClassKind, NodeClasses};
use fleetwright_fake::{FakeProvider, NodeClass, http::HttpCloud};
use fleetwright_operator::{
    CloudConnector, Environment, Operator, Setting, SettingKind, async_trait,
    k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};

struct Pebble;

#[async_trait]
impl CloudConnector for Pebble {
    async fn connect(&self, environment: &Environment) -> anyhow::Result<Arc<dyn CloudProvider>> {
        let clock = environment.clock.clone();
        let api = HttpCloud::new(environment.values.text("FAKE_CLOUD"), clock.clone())?;
        let kind = NodeClassKind::new("pebble.example", "v1", "PebbleNodeClass", "pebblenodeclasses");
        let classes = environment.follow(NodeClasses::<NodeClass>::new(kind));
        Ok(Arc::new(FakeProvider::new(Arc::new(api), classes, clock).await?))
    }

    fn settings(&self) -> Vec<Setting> {
        vec![Setting::new("FAKE_CLOUD", SettingKind::Text, "", "URL of the API of the cloud")]
    }

    /// That of a KWOKNodeClass, with other names.
    fn definitions(&self) -> Vec<CustomResourceDefinition> {
        let class = fleetwright_api::crd::kwok().into_iter().next();
        let text = class.and_then(|class| serde_json::to_string(&class).ok()).unwrap_or_default();
        let text = text.replace("karpenter.kwok.sh", "pebble.example").replace("v1alpha1", "v1");
        let text = text.replace("KWOK", "Pebble").replace("kwok", "pebble");
        serde_json::from_str(&text).into_iter().collect()
    }
}

fn main() -> ExitCode {
    Operator::new("fleetwright-neighbor", env!("CARGO_PKG_VERSION"))
        .cloud("fake", Pebble)
        .main(std::env::args_os())
}

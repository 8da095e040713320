//! `pebble-autoscaler`: the controller, and the tools `plan`, `disrupt`, `explain` and `crds`, for the cloud Pebble.

use std::{process::ExitCode, sync::Arc};

use fleetwright_core::cloud::CloudProvider;
use fleetwright_operator::{
    CloudConnector, Environment, Operator, Setting, SettingKind, anyhow, async_trait,
    k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use pebble_autoscaler::{PebbleApi, PebbleProvider, definitions, node_classes};

struct Pebble;

#[async_trait]
impl CloudConnector for Pebble {
    async fn connect(&self, environment: &Environment) -> anyhow::Result<Arc<dyn CloudProvider>> {
        let api =
            PebbleApi::new(environment.values.text("PEBBLE_URL"), environment.values.text("PEBBLE_TOKEN"))?;
        let classes = environment.follow(node_classes());
        Ok(Arc::new(PebbleProvider::connect(api, classes, environment.clock.clone()).await?))
    }

    fn settings(&self) -> Vec<Setting> {
        let text = |env, help| Setting::new(env, SettingKind::Text, "", help);
        vec![text("PEBBLE_URL", "URL of the cloud's API"), text("PEBBLE_TOKEN", "Token for it")]
    }

    fn definitions(&self) -> Vec<CustomResourceDefinition> {
        definitions()
    }
}

fn main() -> ExitCode {
    Operator::new("pebble-autoscaler", env!("CARGO_PKG_VERSION"))
        .cloud("pebble", Pebble)
        .default_cloud("pebble")
        .main(std::env::args_os())
}

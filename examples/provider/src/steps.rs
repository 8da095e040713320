//! The provider's loops, which the controllers run: prices, and the status of classes.

use std::{sync::Arc, time::Duration};

use fleetwright_core::{
    cloud::{
        CloudError, ConditionWrite, Object, Outlook, ProviderStep, Round, Write, async_trait,
    },
    model::{ConditionStatus, Str},
};

use crate::{
    api::PebbleApi,
    catalogue::{Catalogue, EVERY},
    class::{Classes, PebbleNodeClass},
};

/// How often new classes are looked for.
const CLASSES_EVERY: Duration = Duration::from_secs(2);

/// Reads types and prices.
pub struct Prices {
    pub(crate) api: PebbleApi,
    pub(crate) catalogue: Arc<Catalogue>,
}

#[async_trait]
impl ProviderStep for Prices {
    fn name(&self) -> &'static str {
        "pebble.prices"
    }

    async fn run(&self, outlook: &Outlook) -> Result<Round, CloudError> {
        let types = self.api.types().await.map_err(|error| error.into_cloud_error("list types"))?;
        self.catalogue.update(types, outlook.now);
        Ok(Round::quiet(EVERY))
    }
}

/// Makes classes ready: NodePools of a class without the condition `Ready` launch nothing.
pub struct ClassStatus {
    pub(crate) classes: Classes,
}

#[async_trait]
impl ProviderStep for ClassStatus {
    fn name(&self) -> &'static str {
        "pebble.class-status"
    }

    async fn run(&self, _: &Outlook) -> Result<Round, CloudError> {
        let kind = self.classes.kind();
        let write = |(name, class): (&Str, &Arc<PebbleNodeClass>)| {
            let uid = class.metadata.uid.as_deref().unwrap_or_default().into();
            let object = Object::NodeClass { class: kind.named(name), version: kind.version.clone(), uid };
            let (status, message) = match class.spec.image.as_str() {
                "" => (ConditionStatus::False, "spec.image is empty: name an image"),
                _ => (ConditionStatus::True, "the class can be used"),
            };
            let changes = class.readiness() != Some(status == ConditionStatus::True);
            changes.then(|| Write::to(object).condition(ConditionWrite::new("Ready", status, message)))
        };
        let all = self.classes.all().unwrap_or_default();
        Ok(Round::quiet(CLASSES_EVERY).with_writes(all.iter().filter_map(write).collect()))
    }
}

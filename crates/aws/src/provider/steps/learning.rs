//! Observes the capacity of all running nodes: again after a restart, and stored on EC2NodeClasses for nodes that are deleted by then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fleetwright_aws_api::labels;
use fleetwright_core::cloud::{CloudError, Outlook, ProviderStep, Round, Write};
use fleetwright_core::model::labels::{INITIALIZED, INSTANCE_TYPE, REGISTERED};
use fleetwright_core::model::{Labels, Resources};
use futures::lock::Mutex;

use super::super::AwsProvider;
use super::super::classes::object;
use crate::instancetype::ClassCatalog;
use crate::observed::ObservedNode;

/// How often nodes are observed.
const EVERY: Duration = Duration::from_secs(30);
/// Longest annotation in bytes; all annotations of an object may have 256 KiB.
const TEXT_MAX: usize = 64 * 1024;

/// An EC2NodeClass as it is now, to compare its predictions with the reports of nodes.
struct Current {
    hash: String,
    catalog: Arc<ClassCatalog>,
}

impl Current {
    fn of(provider: &AwsProvider, class: &str) -> Option<Self> {
        let known = provider.classes.get(class)?;
        let hash = known.class.spec.drift_hash(&provider.settings.ca_bundle);
        Some(Self { hash, catalog: provider.class_catalog(&known) })
    }

    /// The prediction for an instance of the current EC2NodeClass. For a node that was launched before an edit the prediction is unknown.
    fn predicted(&self, claim: &Labels, instance_type: &str) -> Option<&Resources> {
        let is = |key: &str, value: &str| claim.get(key).is_some_and(|own| **own == *value);
        let same = is(labels::HASH_VERSION, labels::CURRENT_HASH_VERSION) && is(labels::HASH, &self.hash);
        self.catalog.resolved.get(instance_type).filter(|_| same).map(|resolved| &resolved.predicted)
    }
}

/// Observes the capacity of nodes.
pub(super) struct Capacity {
    provider: AwsProvider,
    /// Classes by UID whose annotation was read.
    restored: Mutex<BTreeSet<String>>,
}

impl Capacity {
    pub(super) fn new(provider: AwsProvider) -> Self {
        Self { provider, restored: Mutex::default() }
    }

    /// Restores the observations of earlier processes; live nodes correct them.
    async fn restore(&self) {
        let mut restored = self.restored.lock().await;
        for known in self.provider.classes.all() {
            let uid = known.class.metadata.uid.clone().unwrap_or_default();
            if !restored.insert(uid) {
                continue;
            }
            let annotations = known.class.metadata.annotations.as_ref();
            if let Some(text) = annotations.and_then(|all| all.get(labels::OBSERVED)) {
                let text: String = text.chars().take(TEXT_MAX).collect();
                self.provider.with_observed(|observed| observed.restore(&text));
            }
        }
    }

    /// Observes every registered node, whatever its EC2NodeClass or image. All observations of a round are published together, so that no
    /// reader sees a part of them.
    fn observe(&self, outlook: &Outlook) {
        let mut classes: BTreeMap<&str, Option<Current>> = BTreeMap::new();
        let mut registered = Vec::new();
        for (claim, node) in &outlook.nodes {
            let (Some(node), Some(image)) = (node, &claim.image_id) else { continue };
            let label = |key: &str| node.labels.get(key).map(|value| &**value);
            let (Some("true"), Some(instance_type)) = (label(REGISTERED), label(INSTANCE_TYPE)) else {
                continue;
            };
            let class = &*claim.class.name;
            classes.entry(class).or_insert_with(|| Current::of(&self.provider, class));
            registered.push((claim, node, instance_type, image, label(INITIALIZED) == Some("true")));
        }
        self.provider.with_observed(|observed| {
            for (claim, node, instance_type, image, whole) in registered {
                let class = classes.get(&*claim.class.name).and_then(Option::as_ref).filter(|_| whole);
                let predicted = class.and_then(|class| class.predicted(&claim.annotations, instance_type));
                let who = ObservedNode { name: &node.name, born: claim.created };
                observed.observe(instance_type, image, who, &node.capacity, predicted);
            }
        });
    }

    /// Drops images that no EC2NodeClass selects and no NodeClaim runs. While an EC2NodeClass has no images, none is known to be unused.
    fn forget(&self, outlook: &Outlook) {
        let classes = self.provider.classes.all();
        let mut used: BTreeSet<&str> = BTreeSet::new();
        for known in &classes {
            let images = known.class.status.as_ref().map_or(&[][..], |status| &status.amis);
            if images.is_empty() {
                return;
            }
            used.extend(images.iter().map(|image| image.id.as_str()));
        }
        if classes.is_empty() {
            return;
        }
        used.extend(outlook.nodes.iter().filter_map(|(claim, _)| claim.image_id.as_deref()));
        self.provider.with_observed(|observed| observed.retain_images(|image| used.contains(image)));
    }

    /// The annotation of each EC2NodeClass: the pairs of its own images. A replaced image is dropped.
    fn writes(&self) -> Vec<Write> {
        let mut writes = Vec::new();
        for known in self.provider.classes.all() {
            let status = known.class.status.as_ref();
            let images: BTreeSet<&str> =
                status.into_iter().flat_map(|status| &status.amis).map(|ami| ami.id.as_str()).collect();
            // Without images, none is known to be outdated.
            if images.is_empty() {
                continue;
            }
            let text = self
                .provider
                .with_observed(|observed| observed.text_of(|image| images.contains(image), TEXT_MAX));
            let annotations = known.class.metadata.annotations.as_ref();
            let known_text = annotations.and_then(|all| all.get(labels::OBSERVED)).map_or("", String::as_str);
            if known_text == text || known.class.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let mut write = Write::to(object(&known.class));
            let value = (!text.is_empty()).then(|| text.as_str().into());
            write.annotations.insert(labels::OBSERVED.into(), value);
            writes.push(write);
        }
        writes
    }
}

#[async_trait]
impl ProviderStep for Capacity {
    fn name(&self) -> &'static str {
        "providers.instancetype.capacity"
    }

    async fn run(&self, outlook: &Outlook) -> Result<Round, CloudError> {
        self.restore().await;
        self.observe(outlook);
        self.forget(outlook);
        Ok(Round::quiet(EVERY).with_writes(self.writes()))
    }
}

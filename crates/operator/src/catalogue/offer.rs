//! The catalogue of each NodePool of an input.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use anyhow::{Context as _, bail};
use fleetwright_core::model::{Catalog, Currency, InstanceType, LabelSchema, NodeClassRef, Price};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    CatalogueOptions, ClassChange, ClassOffer, ClassRequest, MovingImage, OfflineCatalogue,
    definitions::{Definitions, Schemas},
    file,
};
use crate::{input::Item, settings::Values};

/// What the registered clouds say without a connection: instance types, and the definitions of their NodeClasses.
#[derive(Clone, Default)]
pub(crate) struct Catalogues {
    all: Vec<Arc<dyn OfflineCatalogue>>,
    definitions: Vec<(&'static str, Arc<Definitions>)>,
}

/// The instance types of an input, by NodePool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offer {
    /// What label keys mean to any of the clouds.
    pub(crate) schema: Arc<LabelSchema>,
    /// The instance types of each NodePool that has a catalogue.
    pub(crate) pools: BTreeMap<String, Arc<Catalog>>,
    /// Where they come from, by source.
    pub(crate) sources: Vec<SourceRow>,
    /// Whether the prices of all NodePools are known.
    pub(crate) priced: bool,
    /// What prices are in: those of all NodePools, unless a gap says otherwise.
    pub(crate) currency: Currency,
    /// What was assumed or left out.
    pub(crate) notes: Vec<String>,
    /// What the catalogues cannot answer.
    pub(crate) gaps: Vec<String>,
}

/// Where the instance types of NodePools come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SourceRow {
    /// The NodePools.
    pub(crate) node_pools: Vec<String>,
    /// Catalogue and prices, each with its day.
    pub(crate) source: String,
    /// Whether prices are known.
    pub(crate) priced: bool,
}

/// What of an input decides which instance types there are.
struct Scope<'a> {
    /// The NodePools of each NodeClass.
    classes: BTreeMap<NodeClassRef, Vec<&'a Value>>,
    nodes: Vec<&'a Value>,
    items: &'a [Item],
}

impl Catalogues {
    /// The same with another catalogue.
    pub(crate) fn with(mut self, catalogue: impl OfflineCatalogue) -> Self {
        self.all.push(Arc::new(catalogue));
        self
    }

    /// The same with definitions of a cloud.
    pub(crate) fn with_definitions(
        mut self,
        cloud: &'static str,
        definitions: impl Fn() -> Vec<CustomResourceDefinition> + Send + Sync + 'static,
    ) -> Self {
        self.definitions.push((cloud, Arc::new(Definitions::new(definitions))));
        self
    }

    /// The clouds that have definitions, in the order in which they were registered.
    pub(crate) fn defined(&self) -> Vec<&'static str> {
        let mut clouds: Vec<&'static str> = Vec::new();
        for (name, _) in &self.definitions {
            if !clouds.contains(name) {
                clouds.push(name);
            }
        }
        clouds
    }

    /// The custom resource definitions of a cloud.
    pub(crate) fn definitions_of(&self, cloud: &str) -> Vec<CustomResourceDefinition> {
        let of_cloud = self.definitions.iter().filter(|(name, _)| *name == cloud);
        of_cloud.flat_map(|(_, definitions)| definitions.all()).collect()
    }

    /// The schemas of these definitions, cloud by cloud.
    ///
    /// # Errors
    /// If one is invalid.
    pub(crate) fn schemas(&self) -> anyhow::Result<Vec<&Schemas>> {
        self.definitions.iter().map(|(_, definitions)| definitions.schemas()).collect()
    }

    fn serving(&self, group: &str, kind: &str) -> Option<&Arc<dyn OfflineCatalogue>> {
        let class = NodeClassRef { group: group.into(), kind: kind.into(), name: "".into() };
        self.all.iter().find(|known| known.serves(&class))
    }

    /// What is read of NodeClasses of this kind beside their conditions, if a cloud serves them.
    pub(crate) fn class_fields(&self, group: &str, kind: &str) -> Option<&'static str> {
        self.serving(group, kind).map(|known| known.fields())
    }

    /// Fields of a NodeClass that select an image which changes by itself.
    pub(crate) fn moving_images(&self, class: &Value) -> Vec<MovingImage> {
        self.serving_object(class).map_or_else(Vec::new, |known| known.moving_images(class))
    }

    /// What is unclear about the images of a NodeClass for instance types.
    pub(crate) fn unclear_images(&self, class: &Value, types: &[Arc<InstanceType>]) -> Vec<MovingImage> {
        self.serving_object(class).map_or_else(Vec::new, |known| known.unclear_images(class, types))
    }

    fn serving_object(&self, class: &Value) -> Option<&Arc<dyn OfflineCatalogue>> {
        let text = |key: &str| class[key].as_str().unwrap_or_default();
        let group = text("apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
        self.serving(group, text("kind"))
    }

    /// Instances that carry the cluster's name and are of none of its NodeClaims, as far as the catalogue that the settings name reads the account.
    ///
    /// # Errors
    /// If there is no such catalogue, or it cannot read the account.
    pub(crate) fn unclaimed(&self, claims: &[&Value], values: &Values) -> anyhow::Result<Vec<String>> {
        match values.text("CATALOG") {
            "" => Ok(Vec::new()),
            name => self.named(name).and_then(|(known, name)| known.unclaimed(name, claims, values)),
        }
    }

    /// What a change does to the nodes of a NodeClass.
    pub(crate) fn class_change(&self, class: &NodeClassRef, old: &Value, new: &Value) -> ClassChange {
        let known = self.all.iter().find(|known| known.serves(class));
        known.map_or_else(ClassChange::of_provider, |known| known.class_change(old, new))
    }

    /// What label keys mean to any of the clouds, whether or not an input has NodePools of it.
    pub(crate) fn labels(&self) -> LabelSchema {
        let mut all = LabelSchema::default();
        self.all.iter().for_each(|known| merge(&mut all, &known.labels()));
        all
    }

    /// The instance types of the NodePools in `items`.
    ///
    /// # Errors
    /// A file or an option cannot be used. A NodePool without a catalogue is a gap.
    pub(crate) fn offer(
        &self,
        items: &[Item],
        options: &CatalogueOptions,
        values: &Values,
    ) -> anyhow::Result<Offer> {
        let scope = Scope::new(items);
        let wanted = self.wanted(values.text("CATALOG"))?;
        let mut offer = Offer { priced: true, currency: values.currency, ..Offer::default() };
        let path = Path::new(values.text("INSTANCE_TYPES_FILE_PATH"));
        let text = if path.as_os_str().is_empty() {
            None
        } else {
            Some(std::fs::read_to_string(path).with_context(|| path.display().to_string())?)
        };
        let reader = text.as_deref().and_then(|text| self.all.iter().find(|known| known.reads(text)));
        if let (Some(text), None) = (&text, reader) {
            offer.of_kwok_file((path, text), &scope, values)?;
            return Ok(offer);
        }
        for (class, pools) in &scope.classes {
            let Some(known) = self.all.iter().find(|known| known.serves(class)) else {
                offer.unserved(class, pools);
                continue;
            };
            let is_reader = reader.is_some_and(|reader| Arc::ptr_eq(reader, known));
            let of_file = text.as_deref().filter(|_| is_reader).map(|text| (path, text));
            let names = known.names();
            let name = wanted.filter(|name| names.contains(name)).or_else(|| names.first().copied());
            let answer = known.offer(&ClassRequest {
                class,
                object: scope.object(class),
                pools,
                nodes: &scope.nodes,
                name: name.unwrap_or_default(),
                file: of_file,
                options,
                values,
            })?;
            offer.add(pools, answer, values.currency);
        }
        Ok(offer)
    }

    /// The catalogue that `--catalog` names, by its own name.
    pub(crate) fn named(&self, name: &str) -> anyhow::Result<(&Arc<dyn OfflineCatalogue>, &'static str)> {
        let all = self.all.iter().flat_map(|known| known.names().iter().map(move |name| (known, *name)));
        match all.clone().find(|(_, known)| *known == name) {
            Some(found) => Ok(found),
            None => {
                let names: Vec<&str> = all.map(|(_, name)| name).collect();
                bail!("--catalog {name}: there are {}", names.join(", "))
            }
        }
    }

    fn wanted(&self, name: &str) -> anyhow::Result<Option<&'static str>> {
        if name.is_empty() { Ok(None) } else { self.named(name).map(|(_, name)| Some(name)) }
    }
}

impl<'a> Scope<'a> {
    fn new(items: &'a [Item]) -> Self {
        let mut scope = Self { classes: BTreeMap::new(), nodes: Vec::new(), items };
        for Item { value, .. } in items {
            match value["kind"].as_str() {
                Some("Node") => scope.nodes.push(value),
                Some("NodePool") => {
                    if let Some(class) = value.pointer("/spec/template/spec/nodeClassRef") {
                        scope.classes.entry(reference(class)).or_default().push(value);
                    }
                }
                _ => {}
            }
        }
        scope
    }

    fn object(&self, class: &NodeClassRef) -> Option<&'a Value> {
        let is = |value: &Value| {
            let version = value["apiVersion"].as_str().unwrap_or_default();
            let group = version.split_once('/').map_or("", |(group, _)| group);
            group == &*class.group
                && value["kind"] == *class.kind
                && value.pointer("/metadata/name").and_then(Value::as_str) == Some(&*class.name)
        };
        self.items.iter().rev().map(|item| &item.value).find(|value| is(value))
    }

    fn pools(&self) -> Vec<&'a Value> {
        self.classes.values().flatten().copied().collect()
    }
}

impl Offer {
    /// The catalogues with every type that has no price, at price zero: for packing in an order that does not read prices.
    pub(crate) fn for_packing_without_prices(&self) -> BTreeMap<String, Arc<Catalog>> {
        let free = |instance_type: &Arc<InstanceType>| {
            let mut free = (**instance_type).clone();
            free.offerings.iter_mut().for_each(|offering| offering.price = Price::ZERO);
            Arc::new(free)
        };
        let all = |catalog: &Arc<Catalog>| {
            if catalog.unpriced.is_empty() || !catalog.instance_types.is_empty() {
                return catalog.clone();
            }
            Arc::new(Catalog::new(catalog.unpriced.iter().map(free).collect()))
        };
        self.pools.iter().map(|(name, catalog)| (name.clone(), all(catalog))).collect()
    }

    fn of_kwok_file(
        &mut self,
        (path, text): (&Path, &str),
        scope: &Scope<'_>,
        values: &Values,
    ) -> anyhow::Result<()> {
        let (catalogue, skipped) = file::of_text(path, text)?;
        let offer = ClassOffer {
            catalog: catalogue.types,
            schema: catalogue.schema,
            source: format!("instance types of {}", path.display()),
            priced: true,
            notes: skipped.iter().map(|skipped| format!("{skipped}; it is left out")).collect(),
            ..ClassOffer::default()
        };
        self.add(&scope.pools(), offer, values.currency);
        Ok(())
    }

    fn unserved(&mut self, class: &NodeClassRef, pools: &[&Value]) {
        // A NodePool without group or kind, such as one of v1beta1, is reported as invalid where it is loaded.
        if class.group.is_empty() || class.kind.is_empty() {
            return;
        }
        for pool in pools {
            let (name, group, kind) = (name_of(pool), &class.group, &class.kind);
            let why = format!(
                "no catalogue has the instance types of {kind} in {group}: give them with --instance-types FILE"
            );
            self.gaps.push(format!("NodePool {name}: {why}"));
            self.pools.insert(name.to_owned(), Arc::new(Catalog::missing(why)));
        }
    }

    /// Adds the instance types of some NodePools. `usual` is the currency of a catalogue that names none.
    fn add(&mut self, pools: &[&Value], answer: ClassOffer, usual: Currency) {
        let ClassOffer { catalog, schema, source, priced, currency, notes, mut gaps } = answer;
        let names: Vec<String> = pools.iter().map(|pool| name_of(pool).to_owned()).collect();
        if priced {
            let own = currency.unwrap_or(usual);
            if !self.sources.iter().any(|row| row.priced) {
                self.currency = own;
            } else if own != self.currency {
                let (names, own, all) = (names.join(", "), own.code(), self.currency.code());
                gaps.push(format!(
                    "NodePool {names}: prices are in {own} and those of other NodePools in {all}: nothing converts them"
                ));
            }
        }
        self.pools.extend(names.iter().map(|name| (name.clone(), catalog.clone())));
        merge(Arc::make_mut(&mut self.schema), &schema);
        self.priced &= priced;
        for (all, more) in [(&mut self.notes, notes), (&mut self.gaps, gaps)] {
            for line in more {
                if !all.contains(&line) {
                    all.push(line);
                }
            }
        }
        match self.sources.iter_mut().find(|row| row.source == source && row.priced == priced) {
            Some(row) => row.node_pools.extend(names),
            None => self.sources.push(SourceRow { node_pools: names, source, priced }),
        }
    }
}

/// Two clouds' labels have domains of their own: what one says of a key does not touch the other's.
fn merge(all: &mut LabelSchema, of: &LabelSchema) {
    all.well_known.extend(of.well_known.iter().cloned());
    all.restricted_domains.extend(of.restricted_domains.iter().cloned());
    all.restricted_labels.extend(of.restricted_labels.iter().cloned());
    all.normalized.extend(of.normalized.iter().map(|(old, new)| (old.clone(), new.clone())));
    if all.reservation_id.is_none() {
        all.reservation_id.clone_from(&of.reservation_id);
    }
}

fn reference(class: &Value) -> NodeClassRef {
    let of = |key: &str| class[key].as_str().unwrap_or_default().into();
    NodeClassRef { group: of("group"), kind: of("kind"), name: of("name") }
}

fn name_of(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// The lines below a table: which catalogue, and how old it is.
pub(crate) struct Footer<'a>(pub(crate) &'a [SourceRow]);

impl std::fmt::Display for Footer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for row in self.0 {
            match self.0 {
                [_] => writeln!(f, "catalogue: {}", row.source)?,
                _ => writeln!(f, "catalogue of NodePool {}: {}", row.node_pools.join(", "), row.source)?,
            }
        }
        Ok(())
    }
}

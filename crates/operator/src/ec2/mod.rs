//! The instance types of EC2NodeClasses without a connection to AWS: built in, from a file, or read once (`--catalog ec2-live`).

mod class_drift;
mod compat;
mod image_map;
mod images;
pub(crate) mod options;
mod place;
mod prices;
pub(crate) mod settings;
#[cfg(test)]
mod tests;
mod tools;
mod unknown;

use std::sync::{Arc, OnceLock};

pub use self::{
    compat::Ec2Compat,
    tools::{AwsAudit, AwsIam, AwsPrices},
};

use anyhow::{Context as _, bail};
use fleetwright_aws::{
    Settings,
    offline::{FoundReservations, OfflineClass, Table, catalog},
    prices::currency,
    provider::KnownClass,
    schema::schema,
};
use fleetwright_aws_api::{Ec2NodeClass, labels};
use fleetwright_core::model::{Catalog, InstanceType, LabelSchema, NodeClassRef, labels::OS};
use serde_json::{Value, json};

use crate::{
    catalogue::{CatalogueOptions, ClassChange, ClassOffer, ClassRequest, MovingImage, OfflineCatalogue},
    settings::{Values, table::Setting},
};

/// The memory overhead is a setting in millionths.
const MILLION: f64 = 1e6;
/// Name of the catalogue that is read from the account.
const LIVE: &str = "ec2-live";
/// Names of the built-in catalogue and of that of the account.
const NAMES: [&str; 2] = ["ec2", LIVE];

/// EC2's catalogue.
#[derive(Default)]
pub struct Ec2Catalogue {
    /// The data of the account, read once for all NodeClasses of a run.
    live: OnceLock<Arc<Figures>>,
}

/// Instance types, and their prices if the source has them.
#[derive(Clone, Debug)]
struct Figures {
    table: Table,
    /// The region of the prices; empty if the table has several.
    region: String,
}

impl OfflineCatalogue for Ec2Catalogue {
    fn names(&self) -> &'static [&'static str] {
        &NAMES
    }

    fn serves(&self, class: &NodeClassRef) -> bool {
        &*class.group == labels::GROUP && &*class.kind == labels::NODE_CLASS_KIND
    }

    fn reads(&self, text: &str) -> bool {
        Table::is_table(text)
    }

    fn settings(&self) -> Vec<Setting> {
        settings::SETTINGS.to_vec()
    }

    fn labels(&self) -> LabelSchema {
        schema()
    }

    fn fields(&self) -> &'static str {
        images::FIELDS
    }

    fn moving_images(&self, class: &Value) -> Vec<MovingImage> {
        let terms = class.pointer("/spec/amiSelectorTerms").and_then(Value::as_array);
        terms.into_iter().flatten().enumerate().filter_map(|(at, term)| images::moving(at, term)).collect()
    }

    fn unclear_images(&self, class: &Value, types: &[Arc<InstanceType>]) -> Vec<MovingImage> {
        image_map::unclear(class, types)
    }

    fn unclaimed(&self, name: &str, claims: &[&Value], values: &Values) -> anyhow::Result<Vec<String>> {
        if name == LIVE { unclaimed(claims, values) } else { Ok(Vec::new()) }
    }

    fn offer(&self, request: &ClassRequest<'_>) -> anyhow::Result<ClassOffer> {
        let figures = self.figures(request)?;
        let mut offer = ClassOffer { schema: Arc::new(self.labels()), ..ClassOffer::default() };
        let class = node_class(request, &mut offer);
        let Some(region) = place::region(request, &class, &figures.region) else {
            offer.source = types_of(&figures.table);
            let why =
                "neither nodes nor subnets nor zones of the input name a region: give it with --region NAME";
            offer.gaps.push(format!("{}: {why}", request.class));
            offer.catalog = Arc::new(Catalog::missing(why));
            return Ok(offer);
        };
        let zones = place::zones(request, &class, &region, &figures.table, &mut offer);
        let of_subnets = class.class.status.iter().flat_map(|status| &status.subnets);
        let all_zones = zones.iter().cloned().chain(of_subnets.map(|subnet| subnet.zone.clone())).collect();
        let (prices, of_region, says) = prices::of(&region, &all_zones, figures.table.prices(), request)?;
        offer.source = format!("{}; {says}", types_of(&figures.table));
        offer.currency = Some(currency(of_region));
        offer.priced = prices.has_on_demand();
        if !offer.priced {
            offer.gaps.push(format!(
                "no prices of {region} are known: give --prices-file FILE (`fleetwright prices export` writes it) or --prices-from us-east-1"
            ));
        }
        let settings = settings(request.values, &region);
        let uses_reservations = settings.reserved_capacity && selects_reservations(&class);
        let found = if uses_reservations { found_reservations(request, &class)? } else { None };
        let reservations = found.as_ref();
        let offline =
            OfflineClass { class: &class, settings: &settings, prices: &prices, reservations, zones: &zones };
        let made = catalog(&figures.table, &offline);
        if uses_reservations && found.is_none() {
            offer.gaps.push(format!(
                "{}: how much of its capacity reservations is left is not known: nodes are planned on-demand or spot",
                request.class
            ));
        }
        offer.notes.extend(windows(request.pools));
        offer.notes.extend(made.problems.iter().map(|problem| format!("{}: {problem}", request.class)));
        offer.catalog = made.catalog;
        unknown::note(request, &figures.table, &prices, &mut offer);
        Ok(offer)
    }

    fn class_change(&self, old: &Value, new: &Value) -> ClassChange {
        class_drift::change(old, new)
    }

    fn export(&self, name: &str, options: &CatalogueOptions, values: &Values) -> anyhow::Result<String> {
        let figures = if name == LIVE { self.live(values)? } else { built_in() };
        let region = options.region.clone().filter(|region| !region.is_empty());
        let live = Some(figures.region.clone()).filter(|region| !region.is_empty());
        let Some(region) = region.or(live) else { bail!("--region is not set: name the region to export") };
        if figures.table.zones(&region).is_empty() {
            bail!("--region {region}: the catalogue does not know this region; use --catalog ec2-live there");
        }
        Ok(figures.table.write(&region, &prices::text(&region, figures.table.prices())))
    }
}

impl Ec2Catalogue {
    fn figures(&self, request: &ClassRequest<'_>) -> anyhow::Result<Arc<Figures>> {
        if let Some((path, text)) = request.file {
            let table = Table::parse(text).with_context(|| path.display().to_string())?;
            return Ok(Arc::new(Figures { table, region: String::new() }));
        }
        if request.name == LIVE { self.live(request.values) } else { Ok(built_in()) }
    }

    fn live(&self, values: &Values) -> anyhow::Result<Arc<Figures>> {
        if let Some(known) = self.live.get() {
            return Ok(known.clone());
        }
        let read = Arc::new(read(values)?);
        Ok(self.live.get_or_init(|| read).clone())
    }
}

/// Notes on NodePools of Windows nodes.
fn windows(pools: &[&Value]) -> Vec<String> {
    let is_windows = |pool: &&&Value| place::values(pool, OS).any(|os| os == "windows");
    let note = |pool: &&Value| {
        let name = pool["metadata"]["name"].as_str().unwrap_or_default();
        let taints = pool.pointer("/spec/template/spec/taints").and_then(Value::as_array);
        let open = if taints.is_none_or(Vec::is_empty) {
            "; it has no taint, so pods that do not select kubernetes.io/os are placed on its nodes too"
        } else {
            ""
        };
        format!(
            "NodePool {name}: Windows nodes are priced as Linux nodes, as in Karpenter: the licence is not in the price{open}"
        )
    };
    pools.iter().filter(is_windows).map(note).collect()
}

fn built_in() -> Arc<Figures> {
    static BUILT_IN: OnceLock<Arc<Figures>> = OnceLock::new();
    let figures = || Arc::new(Figures { table: Table::built_in().clone(), region: String::new() });
    BUILT_IN.get_or_init(figures).clone()
}

#[cfg(feature = "aws")]
fn read(values: &Values) -> anyhow::Result<Figures> {
    let (table, region) = crate::account::live_catalogue(values).context("--catalog ec2-live")?;
    Ok(Figures { table, region })
}

#[cfg(feature = "aws")]
fn unclaimed(claims: &[&Value], values: &Values) -> anyhow::Result<Vec<String>> {
    crate::account::unclaimed(claims, values).context("--catalog ec2-live")
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unnecessary_wraps, reason = "with AWS it can fail")]
fn unclaimed(_claims: &[&Value], _values: &Values) -> anyhow::Result<Vec<String>> {
    Ok(Vec::new())
}

/// The reservations that a NodeClass selects; `None` where the source does not know them.
#[cfg(feature = "aws")]
fn found_reservations(
    request: &ClassRequest<'_>,
    class: &KnownClass,
) -> anyhow::Result<Option<FoundReservations>> {
    if request.name != LIVE || request.file.is_some() {
        return Ok(None);
    }
    crate::account::live_reservations(request.values, &class.class.spec).context("--catalog ec2-live")
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unnecessary_wraps, reason = "with AWS it can fail")]
fn found_reservations(_: &ClassRequest<'_>, _: &KnownClass) -> anyhow::Result<Option<FoundReservations>> {
    Ok(None)
}

#[cfg(not(feature = "aws"))]
fn read(_values: &Values) -> anyhow::Result<Figures> {
    bail!(
        "--catalog ec2-live: this binary is built without AWS: build it with `cargo build --release -p fleetwright-operator --features aws`"
    )
}

fn types_of(table: &Table) -> String {
    format!("EC2 instance types of {} ({})", table.date(), table.source())
}

/// Whether the NodeClass selects reservations, by its spec or by what a controller found.
fn selects_reservations(class: &KnownClass) -> bool {
    let named = class.class.status.as_ref().is_some_and(|status| !status.capacity_reservations.is_empty());
    named || !class.class.spec.capacity_reservation_selector_terms.is_empty()
}

/// The NodeClass as the provider reads it. If the input does not have it, the usual image family is assumed, which is a gap.
fn node_class(request: &ClassRequest<'_>, offer: &mut ClassOffer) -> KnownClass {
    let why = match request.object.cloned().map(serde_json::from_value::<Ec2NodeClass>) {
        Some(Ok(class)) => return KnownClass::from(class),
        Some(Err(error)) => format!("is malformed ({error})"),
        None => "is not in the input".to_owned(),
    };
    offer.gaps.push(format!(
        "{} {why}: pods per node and reserved resources are those of AL2023 with default settings",
        request.class
    ));
    let usual = json!({"amiSelectorTerms": [{"alias": "al2023@latest"}]});
    let mut class = Ec2NodeClass::new(&request.class.name, serde_json::from_value(usual).unwrap_or_default());
    // Subnets are in the status, which may be valid if the spec is not.
    let status = request.object.map_or(Value::Null, |object| object["status"].clone());
    class.status = serde_json::from_value(status).ok();
    KnownClass::from(class)
}

/// The provider settings that affect instance types.
fn settings(values: &Values, region: &str) -> Settings {
    Settings {
        memory_overhead_ppm: millionths(values.text("VM_MEMORY_OVERHEAD_PERCENT")),
        reserved_enis: values.integer("RESERVED_ENIS").max(0),
        node_class_cel: values.gate_of("AWS_FEATURE_GATES", "NodeClassCEL").unwrap_or(false),
        reserved_capacity: values.gate("ReservedCapacity"),
        ..Settings::new(values.text("CLUSTER_NAME"), region)
    }
}

/// Parses a share that was already validated.
#[expect(clippy::cast_possible_truncation, reason = "the setting is checked to be below one")]
pub(crate) fn millionths(share: &str) -> i64 {
    share.parse::<f64>().map_or(Settings::MEMORY_OVERHEAD_PPM, |share| (share * MILLION).round() as i64)
}

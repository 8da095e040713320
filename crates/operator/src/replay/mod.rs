//! `fleetwright replay`: plays what was recorded of a cluster in virtual time, with the production code, and compares settings.
//!
//! - [`formats`]: which format a file has; recordings and dumps ([`trace`]), audit logs ([`audit`]) and traces of other tools
//!   ([`kubereplay`], [`simkube`]) become changes with times.
//! - [`lives`]: the pods of a trace, each with the time in which it is wanted.
//! - [`cron_jobs`]: the Jobs that CronJobs create.
//! - [`objects`]: objects as the simulator's API server takes them.
//! - [`play`]: one variant in one simulator.
//! - [`agreement`]: how far its decisions are those of the recorded controller.
//! - [`report`]: the variants side by side.
//! - [`view`]: a variant in the terminal.

mod agreement;
mod audit;
mod cron_jobs;
mod formats;
mod kubereplay;
mod lives;
mod objects;
mod play;
mod report;
mod simkube;
#[cfg(test)]
mod tests;
mod trace;
mod view;

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use fleetwright_controllers::settings::SolveEffort;
use fleetwright_core::model::Currency;
use fleetwright_fake::{Catalogue, Vocabulary};
use fleetwright_sim::SimulatorConfig;

use self::{
    agreement::{AgreementRow, Owners},
    play::{Script, play},
    report::{ReplayReport, VariantRow},
    trace::{Change, Trace},
    view::ReplayView,
};
use crate::{
    catalogue::{Catalogues, Offer},
    cli::{ReplayFormat, ReplayOptions},
    figures,
    input::{Item, Source},
    lab::pace::Pace,
    outcome::Outcome,
    plan,
    settings::{self, Values},
    sheet::{self, Format},
};

/// Improvement rounds per plan: replays are reproducible.
const ROUNDS: u32 = 200;

/// Replays and prints.
///
/// # Errors
/// If the trace cannot be read, or a variant cannot be played.
pub(crate) fn run(
    options: &ReplayOptions,
    catalogues: &Catalogues,
    flags: &BTreeMap<String, String>,
    resolve: impl Fn(&BTreeMap<String, String>) -> anyhow::Result<Values>,
) -> anyhow::Result<Outcome> {
    let (report, gaps) = replay(options, catalogues, flags, resolve)?;
    plan::show_notes(&report.notes, &gaps)?;
    let format = match options.output {
        ReplayFormat::Table => Format::Table,
        ReplayFormat::Json => Format::Json,
    };
    sheet::print(format, &report, |_| report.page())?;
    Ok(Outcome::of(&gaps))
}

fn replay(
    options: &ReplayOptions,
    catalogues: &Catalogues,
    flags: &BTreeMap<String, String>,
    resolve: impl Fn(&BTreeMap<String, String>) -> anyhow::Result<Values>,
) -> anyhow::Result<(ReplayReport, Vec<String>)> {
    let trace = formats::read(&options.path, &options.files)?;
    let script = Script::new(&trace, options.until).context("the trace has no times")?;
    script.check(options.until.is_none()).with_context(|| options.path.display().to_string())?;
    let mut variants = vec![("as given".to_owned(), resolve(flags)?)];
    for against in &options.against {
        let mut flags = flags.clone();
        flags.extend(against_flags(against)?);
        variants.push((against.clone(), resolve(&flags).with_context(|| format!("--against {against}"))?));
    }
    let owners = Owners::of(&trace);
    let (mut rows, mut notes, mut gaps) = (Vec::new(), Vec::new(), Vec::new());
    let mut currency = Currency::default();
    for (name, values) in &variants {
        let (catalogue, offer) = catalogue(&trace, options, catalogues, values)
            .with_context(|| options.path.display().to_string())?;
        let view = options.top.then(|| ReplayView::new(options, &catalogue, values)).transpose()?;
        let mut config = SimulatorConfig::selling(options.seed, script.start, catalogue);
        config.settings = settings::controllers(values);
        config.settings.currency = offer.currency;
        config.settings.solve_effort = SolveEffort::Iterations(ROUNDS);
        let speed = options.speed.or_else(|| view.as_ref().map(|_| view::SPEED));
        let pace = speed.map_or(Pace::Fastest, Pace::Times);
        let playing = play(&script, config, pace, view);
        let played = pace.runtime()?.block_on(playing).with_context(|| name.clone())?;
        for (why, count) in &played.refused {
            notes.push(format!("{name}: {count} not played: {why}"));
        }
        if rows.is_empty() {
            (notes, gaps) = (offer.notes.into_iter().chain(notes).collect(), offer.gaps);
            currency = offer.currency;
        }
        let agreement = AgreementRow::of(&trace.decisions, &played.decisions(), &owners);
        let row = VariantRow::new(name, &played, agreement);
        if let Some(stopped) = played.stopped {
            let minutes = figures::count(usize::try_from(stopped.as_secs() / 60)?, "minute");
            notes.push(format!("{name}: ended by hand after {minutes} of virtual time"));
        }
        if row.pods_unbound > 0 && options.until.is_none() {
            let pods = figures::count(row.pods_unbound, "pod");
            notes.push(format!("{name}: {pods} without a node where the trace ends; --until plays on"));
        }
        rows.push(row);
    }
    let mut report = ReplayReport::new(&trace, &script, options.seed, rows, currency);
    report.notes.extend(script.notes.iter().cloned().chain(notes));
    Ok((report, gaps))
}

/// `PACKER=compatible,N_TO_M_CONSOLIDATION=false`, as flags.
fn against_flags(against: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let setting = |setting: &str| match setting.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_ascii_lowercase().replace('_', "-"), value.trim().to_owned()))
        }
        _ => bail!(
            "--against {against}: it takes SETTING=VALUE, such as PACKER=compatible; several with ';' between them"
        ),
    };
    against.split(';').map(setting).collect()
}

/// The instance types that the NodePools of a trace may use, as one cloud sells them.
fn catalogue(
    trace: &Trace,
    options: &ReplayOptions,
    catalogues: &Catalogues,
    values: &Values,
) -> anyhow::Result<(Catalogue, Offer)> {
    let puts = trace.changes.iter().filter_map(|(_, change)| match change {
        Change::Put(object) => Some(Item { value: object.clone(), source: Source::Cluster }),
        Change::Delete(_) => None,
    });
    let of_types = |item: &Item| {
        let kind = item.value["kind"].as_str().unwrap_or_default();
        matches!(kind, "NodePool" | "Node") || kind.ends_with("NodeClass")
    };
    let items: Vec<Item> = puts.filter(of_types).collect();
    let mut offer = catalogues.offer(&items, &options.catalogue, values)?;
    let mut types = offer.pools.values();
    let Some(first) = types.next() else {
        if !items.iter().any(|item| item.value["kind"] == "NodePool") {
            bail!("the trace has no NodePool: add NodePools and NodeClasses with -f");
        }
        bail!("no catalogue for the NodePools of the trace: {}", offer.gaps.join("; "));
    };
    let first = first.clone();
    if types.any(|other| other.instance_types.len() != first.instance_types.len()) {
        offer.notes.push("NodePools have different catalogues: the first one's is played for all".to_owned());
    }
    Ok((Catalogue { vocabulary: Vocabulary::Cloud, types: first, schema: offer.schema.clone() }, offer))
}

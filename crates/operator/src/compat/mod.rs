//! `fleetwright compat`: whether a cluster of Karpenter can move to Fleetwright, and what changes. Reads only.
//!
//! Each module is an area of findings; the identifier's first digit is the area.
//!
//! - [`definitions`] C1xx, [`fields`] C2xx, [`configuration`] C3xx, [`permissions`] C4xx, [`deployment`] C5xx, [`webhooks`] C6xx,
//!   [`other_controllers`] C7xx, [`plans`] C8xx, [`first_hour`] C9xx.
//! - [`cloud`]: what a cloud adds, registered with `Operator::compat`.
//! - [`clean`]: `compat clean`.

pub(crate) mod clean;
mod cloud;
mod configuration;
mod definitions;
pub(crate) mod deployment;
mod environment;
mod fields;
mod finding;
mod first_hour;
mod keywords;
pub(crate) mod objects;
mod other_controllers;
mod permissions;
mod plans;
mod report;
#[cfg(test)]
mod tests;
mod webhooks;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read as _, Write as _},
    path::Path,
};

use anyhow::Context as _;
use fleetwright_api::labels;
use fleetwright_core::clock::Clock as _;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

pub(crate) use self::configuration::REMOVED;
#[cfg(feature = "ec2")]
pub(crate) use self::fields::unreadable;
pub use self::{
    cloud::CloudCompat,
    finding::{Finding, Severity},
    first_hour::DriftHash,
    objects::ClusterObjects,
};
use self::{
    configuration::Configuration,
    deployment::Running,
    objects::ROOT_CERTIFICATE,
    report::{CompatReport, Planned, Table},
};
use crate::{
    catalogue::Catalogues,
    cli::{CompatOptions, PlanOptions, TableOrJson},
    clock::SystemClock,
    disrupt,
    input::{self, Item},
    outcome::Outcome,
    plan::show_notes,
    settings::{
        Values,
        table::{GATES, Setting},
    },
    sheet::plain_lines,
};

/// The parts of a binary that `compat` uses.
pub(crate) struct Build<'a> {
    /// The instance types of its clouds.
    pub(crate) catalogues: &'a Catalogues,
    /// The custom resource definitions of each of its clouds.
    pub(crate) definitions: Vec<Vec<CustomResourceDefinition>>,
    /// The checks of its clouds.
    pub(crate) clouds: &'a [Box<dyn CloudCompat>],
    /// Its settings beside those of the controller.
    pub(crate) settings: &'a [Setting],
    /// The settings of the command line and its environment.
    pub(crate) values: Values,
}

/// Checks and prints. `flags` are the settings among the arguments.
///
/// # Errors
/// If the input, an option or a policy is invalid. Problems of the cluster are findings.
pub(crate) fn run(
    options: &CompatOptions,
    build: &Build<'_>,
    flags: &BTreeMap<String, String>,
) -> anyhow::Result<Outcome> {
    let (mut items, denied) = input::read_all(&options.input)?;
    if options.input.files.is_empty() {
        let wanted = config_maps(&ClusterObjects::new(&items, Vec::new(), true, SystemClock.now()));
        items.extend(input::read_config_maps(&options.input, &wanted)?);
    }
    let report = check(items, denied, options, build, flags)?;
    show_notes(&report.notes, &report.incomplete)?;
    let mut out = anstream::stdout().lock();
    match options.output {
        TableOrJson::Json => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
        TableOrJson::Table => write!(out, "{}", plain_lines(&Table(&report).to_string()))?,
    }
    Ok(report.outcome())
}

/// Namespace and name of the config maps that `compat` reads: those with settings, and that of the API server's certificate authority.
fn config_maps(cluster: &ClusterObjects) -> BTreeSet<(String, String)> {
    let running = deployment::running(cluster);
    let of_settings = running.iter().flat_map(|running| {
        environment::config_maps(running.container)
            .map(|name| (running.namespace().to_owned(), name.to_owned()))
    });
    // Every namespace has it; a pod reads that of its own.
    let namespace = running.first().map_or("kube-system", Running::namespace);
    of_settings.chain([(namespace.to_owned(), ROOT_CERTIFICATE.to_owned())]).collect()
}

fn check(
    items: Vec<Item>,
    denied: Vec<String>,
    options: &CompatOptions,
    build: &Build<'_>,
    flags: &BTreeMap<String, String>,
) -> anyhow::Result<CompatReport> {
    let started = SystemClock.now();
    let at = options.at.unwrap_or(started);
    let cluster = ClusterObjects::new(&items, denied, plans::is_live(&items), at);
    let running = deployment::running(&cluster);
    let configured = running.first().map(|running| Configuration::of(running, &cluster)).unwrap_or_default();
    let values = configured.values(build.settings, flags, &build.values)?;
    let clouds = Clouds::new(build, &cluster);
    let mut findings = facts(&cluster, &running, &clouds, build, (&values, flags));
    // Settings that cannot be read are unknown rather than at their defaults; C300 and C500 say so.
    let is_given = !running.is_empty() || !flags.is_empty();
    let knows_settings = is_given && configured.unread(build.settings, flags).is_empty();
    let of_clouds = clouds.findings(build, &cluster, &values).into_iter();
    findings.extend(of_clouds.filter(|finding| knows_settings || finding.object != "settings"));
    findings.extend(policies(options, build, &clouds, &values)?);
    let items = plans::readable(items);
    let planned = decide(items, options, build, &values, ((at, started), &mut findings))?;
    Ok(CompatReport::new(findings, planned))
}

/// The definitions of this build, as far as the cluster is concerned.
struct Clouds {
    /// Those of the cloud that the NodePools use; of the first cloud if they use none.
    definitions: Vec<CustomResourceDefinition>,
    /// The API groups of NodeClasses of all clouds.
    groups: Vec<String>,
    /// The groups among them that NodePools use.
    used: BTreeSet<String>,
}

impl Clouds {
    fn new(build: &Build<'_>, cluster: &ClusterObjects) -> Self {
        let group = "/spec/template/spec/nodeClassRef/group";
        let used: BTreeSet<String> =
            cluster.of(labels::GROUP, "NodePool").map(|pool| objects::text(pool, group).to_owned()).collect();
        let all = &build.definitions;
        let groups: BTreeSet<String> =
            all.iter().flatten().filter(|crd| is_class(crd)).map(|crd| crd.spec.group.clone()).collect();
        let of_cluster = all.iter().find(|crds| crds.iter().any(|crd| used.contains(&crd.spec.group)));
        let definitions = of_cluster.or_else(|| all.first()).cloned().unwrap_or_default();
        Self { definitions, groups: groups.into_iter().collect(), used }
    }

    fn groups(&self) -> Vec<&str> {
        self.groups.iter().map(String::as_str).collect()
    }

    fn classes(&self) -> Vec<&CustomResourceDefinition> {
        self.definitions.iter().filter(|crd| is_class(crd)).collect()
    }

    /// The findings of the clouds that are in use.
    fn findings(&self, build: &Build<'_>, cluster: &ClusterObjects, values: &Values) -> Vec<Finding> {
        let clouds = build.clouds.iter().filter(|cloud| self.used.contains(cloud.group()));
        clouds.flat_map(|cloud| cloud.check(cluster, values)).collect()
    }
}

/// Whether a definition is that of a cloud's NodeClass.
fn is_class(definition: &CustomResourceDefinition) -> bool {
    let group = definition.spec.group.as_str();
    group != labels::GROUP && group != labels::BUFFER_GROUP
}

/// The findings that follow from the objects and settings alone. `flags` are those of the command line.
fn facts(
    cluster: &ClusterObjects,
    running: &[Running<'_>],
    clouds: &Clouds,
    build: &Build<'_>,
    (values, flags): (&Values, &BTreeMap<String, String>),
) -> Vec<Finding> {
    let gates: BTreeSet<&str> =
        GATES.iter().map(|(gate, _)| *gate).filter(|gate| values.gate(gate)).collect();
    let groups = clouds.groups();
    let mut found = definitions::check(cluster, &clouds.definitions, &gates);
    found.extend(fields::check(cluster, &clouds.definitions, &groups));
    found.extend(deployment::check(running));
    for one in running {
        found.extend(configuration::check(cluster, one, build.settings, (values, flags)));
        found.extend(permissions::check(cluster, one, &clouds.classes(), values));
    }
    found.extend(webhooks::check(cluster, &groups));
    found.extend(other_controllers::check(cluster));
    found.extend(other_controllers::leases(cluster, running, values));
    found.extend(other_controllers::traces(cluster));
    found.extend(first_hour::drift(cluster));
    found.extend(first_hour::expiration(cluster));
    for kind in &cluster.denied {
        let what = format!("{kind} may not be listed: what follows from it is not checked");
        found.push(Finding::warning("C400", "cluster", what).fix("run compat with permission to list it"));
    }
    found
}

/// The findings on the given policies.
fn policies(
    options: &CompatOptions,
    build: &Build<'_>,
    clouds: &Clouds,
    values: &Values,
) -> anyhow::Result<Vec<Finding>> {
    if options.iam_policy.is_empty() {
        return Ok(Vec::new());
    }
    let texts =
        options.iam_policy.iter().map(|path| policy(path)).collect::<anyhow::Result<Vec<String>>>()?;
    let cloud = build.clouds.iter().find(|cloud| clouds.used.contains(cloud.group()));
    let cloud = cloud.context("--iam-policy: no NodePool of the input uses a cloud that has policies")?;
    cloud.check_policies(&texts, values)
}

fn policy(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

/// The decisions of Fleetwright: the disruption passes of the first hour, and the nodes of each NodePool.
fn decide(
    items: Vec<Item>,
    options: &CompatOptions,
    build: &Build<'_>,
    values: &Values,
    (times, findings): ((Timestamp, Timestamp), &mut Vec<Finding>),
) -> anyhow::Result<Planned> {
    let asked = (&[][..], &options.catalogue);
    let mut surveyed = disrupt::decide(items.clone(), asked, build.catalogues, values, times)?;
    let (currency, priced) = (surveyed.currency, surveyed.loaded.priced);
    findings.extend(first_hour::commands(&surveyed.survey, priced, currency));
    let hour = (times.0, times.0.saturating_add(first_hour::HOUR).unwrap_or(Timestamp::MAX));
    let forecast = surveyed.later_passes(values, hour);
    findings.extend(first_hour::later(&forecast, priced.then_some(currency)));
    findings.extend(first_hour::waiting(&forecast.last));
    let today = first_hour::today(&surveyed.survey);
    let plan = PlanOptions::of_tool(options.budget, options.catalogue.clone());
    let compared = plans::compare(&items, &plan, build.catalogues, values, (times.0, &today))?;
    findings.extend(compared.findings);
    let mut notes = surveyed.loaded.notes;
    notes.extend(compared.notes.into_iter().filter(|note| !notes.contains(note)).collect::<Vec<_>>());
    let (node_pools, catalogues, incomplete) = (compared.pools, compared.sources, compared.gaps);
    Ok(Planned { node_pools, notes, catalogues, currency, incomplete })
}

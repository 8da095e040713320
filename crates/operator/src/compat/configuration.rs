//! C3xx: the settings of the running Karpenter, as Fleetwright would read them.

use std::collections::BTreeMap;

use fleetwright_api::labels;
use serde_json::Value;

use super::{
    deployment::Running,
    environment::Environment,
    finding::Finding,
    objects::{ClusterObjects, count, list, some},
};
use crate::settings::{
    Values,
    table::{Setting, SettingKind},
    unknown_gates,
};

/// Settings that name a file in the pod, or that only tools have: the command line determines them.
const OF_TOOLS: [&str; 3] = ["PRICES_FILE", "INSTANCE_TYPES_FILE_PATH", "CATALOG"];
/// Settings that Karpenter removed in 1.0.
pub(crate) const REMOVED: [&str; 6] = [
    "DISABLE_WEBHOOK",
    "WEBHOOK_PORT",
    "WEBHOOK_METRICS_PORT",
    "ASSUME_ROLE_ARN",
    "ASSUME_ROLE_DURATION",
    "ENABLE_POD_ENI",
];
/// Feature gates that have no effect without objects of a kind.
const OF_KIND: [(&str, &str, &str); 2] = [
    ("NodeOverlay", labels::GROUP, "NodeOverlay"),
    ("CapacityBuffer", labels::BUFFER_GROUP, "CapacityBuffer"),
];

/// The settings of a container: variables and flags.
#[derive(Debug, Default)]
pub(super) struct Configuration {
    environment: Environment,
    flags: BTreeMap<String, String>,
    /// Arguments that are not flags.
    stray: Vec<String>,
}

impl Configuration {
    pub(super) fn of(running: &Running<'_>, cluster: &ClusterObjects) -> Self {
        let container = running.container;
        let environment = Environment::of(container, cluster, running.namespace());
        let mut this = Self { environment, ..Self::default() };
        let arguments = list(container, "/command").skip(1).chain(list(container, "/args"));
        let mut arguments = arguments.filter_map(Value::as_str).peekable();
        while let Some(argument) = arguments.next() {
            let flag = argument.trim_start_matches('-');
            if flag.len() == argument.len() {
                this.stray.push(argument.to_owned());
                continue;
            }
            let (flag, value) = match flag.split_once('=') {
                Some((flag, value)) => (flag, value.to_owned()),
                None => {
                    let next = arguments.next_if(|next| !next.starts_with('-'));
                    (flag, next.map_or_else(|| "true".to_owned(), str::to_owned))
                }
            };
            this.flags.insert(flag.to_owned(), value);
        }
        this
    }

    /// The settings of the decision: those of the command line (`given`, by flag), then those of the Deployment that can be
    /// read, then the defaults.
    pub(super) fn values(
        &self,
        known: &[Setting],
        given: &BTreeMap<String, String>,
        shell: &Values,
    ) -> anyhow::Result<Values> {
        let mut flags = BTreeMap::new();
        for setting in known.iter().filter(|setting| !OF_TOOLS.contains(&setting.env)) {
            let value =
                self.flags.get(&setting.flag()).or_else(|| self.environment.variables.get(setting.env));
            if let Some(value) = value.filter(|value| !value.is_empty() && read(setting, value).is_ok()) {
                flags.insert(setting.flag(), written(setting, value));
            }
        }
        flags.extend(given.iter().map(|(flag, value)| (flag.clone(), value.clone())));
        let tools = |name: &str| OF_TOOLS.contains(&name).then(|| shell.text(name).to_owned());
        Ok(Values::of(known, &flags, tools)?.priced_in(shell.currency))
    }

    /// The settings that come from objects that are not read, unless a flag of the container or of the command line (`given`) has them:
    /// each with its source; `any` where that may set all of them.
    pub(super) fn unread(&self, known: &[Setting], given: &BTreeMap<String, String>) -> Vec<String> {
        let is_known = |variable: &str| {
            let setting = known.iter().find(|setting| setting.env == variable);
            setting.is_none_or(|setting| {
                self.flags.contains_key(&setting.flag()) || given.contains_key(&setting.flag())
            })
        };
        let unread = self.environment.unread.iter();
        unread
            .filter(|unread| unread.variable.as_deref().is_none_or(|variable| !is_known(variable)))
            .map(|unread| format!("{} ({})", unread.variable.as_deref().unwrap_or("any"), unread.object))
            .collect()
    }
}

/// Reads one setting as the controller does.
fn read(setting: &Setting, value: &str) -> Result<Values, String> {
    let variable = |name: &str| (name == setting.env).then(|| value.to_owned());
    let values = Values::of(std::slice::from_ref(setting), &BTreeMap::new(), variable);
    let values = values.map_err(|error| error.message)?;
    match values.warnings.first() {
        Some(warning) => Err(warning.clone()),
        None => Ok(values),
    }
}

/// Converts a value of a variable to that of a flag.
fn written(setting: &Setting, value: &str) -> String {
    match read(setting, value) {
        Ok(values) if setting.kind == SettingKind::Bool => values.bool(setting.env).to_string(),
        _ => value.to_owned(),
    }
}

/// Checks the settings of `running`; `values` are the same as Fleetwright reads them, `given` are the flags of the command line.
pub(super) fn check(
    cluster: &ClusterObjects,
    running: &Running<'_>,
    known: &[Setting],
    (values, given): (&Values, &BTreeMap<String, String>),
) -> Vec<Finding> {
    let configuration = Configuration::of(running, cluster);
    let object = running.object();
    let mut found = unreadable(&configuration, known, &object);
    found.extend(without_effect(&configuration, known, &object));
    found.extend(doubled(&configuration, known, &object));
    found.extend(gates(&configuration, &object));
    found.extend(contradictions(running, values, &object));
    found.extend(idle_features(cluster, values));
    let unread = configuration.unread(known, given);
    if !unread.is_empty() {
        let what = format!("settings are not read and not checked: {}", some(&unread));
        let fix =
            "give them to compat as flags; for a config map, add it to the input, or let compat read it";
        found.push(Finding::warning("C300", object, what).fix(fix));
    }
    found
}

fn unreadable(configuration: &Configuration, known: &[Setting], object: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for setting in known {
        let flag = configuration.flags.get(&setting.flag());
        if let Some(why) = flag.and_then(|value| refused(setting, value)) {
            let what = format!("--{}: {why}: the controller does not start", setting.flag());
            found.push(Finding::blocker("C301", object, what).fix("correct the flag"));
        }
        let variable = configuration.environment.variables.get(setting.env).filter(|value| !value.is_empty());
        let Some(Err(why)) = variable.map(|value| read(setting, value)) else { continue };
        let is_lenient = Values::of(std::slice::from_ref(setting), &BTreeMap::new(), |name| {
            variable.filter(|_| name == setting.env).cloned()
        })
        .is_ok();
        let fix = format!("correct {}", setting.env);
        found.push(if is_lenient {
            Finding::warning("C302", object, why).fix(fix)
        } else {
            let what = format!("{}: {why}: the controller does not start", setting.env);
            Finding::blocker("C301", object, what).fix(fix)
        });
    }
    let is_known = |flag: &str| known.iter().any(|setting| setting.flag() == flag);
    let unknown = configuration.flags.keys().filter(|flag| !is_known(flag));
    for argument in unknown.map(|flag| format!("--{flag}")).chain(configuration.stray.clone()) {
        let what = format!("the argument {argument} is unknown: the controller does not start");
        found.push(Finding::blocker("C301", object, what).fix("remove the argument"));
    }
    found
}

/// Why a flag is refused.
fn refused(setting: &Setting, value: &str) -> Option<String> {
    let flags = BTreeMap::from([(setting.flag(), value.to_owned())]);
    Values::of(std::slice::from_ref(setting), &flags, |_| None).err().map(|error| error.message)
}

fn without_effect(configuration: &Configuration, known: &[Setting], object: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let is_set = |setting: &&Setting| {
        let value = configuration
            .flags
            .get(&setting.flag())
            .or_else(|| configuration.environment.variables.get(setting.env));
        value.is_some_and(|value| !value.is_empty() && value != setting.default)
    };
    let all = known.iter().filter(|setting| !setting.has_effect());
    let idle: Vec<&str> = all.filter(is_set).map(|setting| setting.env).collect();
    if !idle.is_empty() {
        let what = format!("accepted without effect: {}", idle.join(", "));
        found.push(Finding::note("C303", object, what).fix("nothing; `fleetwright --help` says why at each"));
    }
    let removed: Vec<&str> =
        REMOVED.into_iter().filter(|name| configuration.environment.variables.contains_key(*name)).collect();
    if !removed.is_empty() {
        let what = format!("ignored, as by Karpenter since 1.1: {}", removed.join(", "));
        found.push(Finding::warning("C304", object, what).fix("remove the variables"));
    }
    found
}

fn doubled(configuration: &Configuration, known: &[Setting], object: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for name in &configuration.environment.doubled {
        let what = format!("sets {name} twice with different values; the last one counts");
        found.push(Finding::warning("C305", object, what).fix("remove one of them"));
    }
    for setting in known {
        let (flag, variable) =
            (configuration.flags.get(&setting.flag()), configuration.environment.variables.get(setting.env));
        if let (Some(flag), Some(variable)) = (flag, variable)
            && flag != variable
        {
            let what = format!(
                "--{} is {flag:?} and {} is {variable:?}; the flag counts",
                setting.flag(),
                setting.env
            );
            found.push(Finding::warning("C305", object, what).fix("remove one of them"));
        }
    }
    found
}

fn gates(configuration: &Configuration, object: &str) -> Vec<Finding> {
    let flag = configuration.flags.get("feature-gates");
    let Some(written) = flag.or_else(|| configuration.environment.variables.get("FEATURE_GATES")) else {
        return Vec::new();
    };
    let unknown = unknown_gates(written).into_iter().map(|(gate, meant)| {
        let what = format!("the feature gate {gate} is unknown and ignored, as by Karpenter");
        let fix = meant.map_or_else(|| "remove it".to_owned(), |meant| format!("did you mean {meant}?"));
        Finding::note("C306", object, what).fix(fix)
    });
    let mut found: Vec<Finding> = unknown.collect();
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for (gate, value) in written.split(',').filter_map(|pair| pair.split_once('=')) {
        let (gate, value) = (gate.trim(), value.trim());
        if seen.insert(gate, value).is_some_and(|known| known != value) {
            let what =
                format!("the feature gate {gate} is set twice with different values; the last one counts");
            found.push(Finding::warning("C305", object, what).fix("remove one of them"));
        }
    }
    found
}

/// Valid values that contradict each other.
fn contradictions(running: &Running<'_>, values: &Values, object: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let (metrics, health) = (values.integer("METRICS_PORT"), values.integer("HEALTH_PROBE_PORT"));
    if metrics == health && metrics != 0 {
        let what =
            format!("METRICS_PORT and HEALTH_PROBE_PORT are both {metrics}: the controller does not start");
        found.push(Finding::blocker("C307", object, what).fix("give each a port of its own"));
    }
    if values.bool("DISABLE_LEADER_ELECTION") && running.replicas() > 1 {
        let what = format!(
            "DISABLE_LEADER_ELECTION is true with {} replicas: all of them would act",
            running.replicas()
        );
        found.push(
            Finding::blocker("C307", object, what).fix("remove DISABLE_LEADER_ELECTION, or run one replica"),
        );
    }
    let (idle, max) = (values.duration("BATCH_IDLE_DURATION"), values.duration("BATCH_MAX_DURATION"));
    if idle > max {
        let what = format!(
            "BATCH_IDLE_DURATION ({idle:?}) is longer than BATCH_MAX_DURATION ({max:?}) and never counts"
        );
        found.push(
            Finding::warning("C307", object, what).fix("set BATCH_IDLE_DURATION below BATCH_MAX_DURATION"),
        );
    }
    found
}

/// Objects whose feature gate is off.
fn idle_features(cluster: &ClusterObjects, values: &Values) -> Vec<Finding> {
    let mut found = Vec::new();
    for (gate, group, kind) in OF_KIND {
        let objects: Vec<String> =
            cluster.of(group, kind).map(|object| super::objects::name(object).to_owned()).collect();
        if !objects.is_empty() && !values.gate(gate) {
            let what = format!(
                "{} ({}) without effect: the feature gate {gate} is off",
                count(objects.len(), kind),
                some(&objects)
            );
            found.push(
                Finding::note("C308", kind, what)
                    .fix(format!("set the feature gate {gate}=true, or delete them")),
            );
        }
    }
    let is_static =
        |pool: &&Value| pool.pointer("/spec/replicas").is_some_and(|replicas| !replicas.is_null());
    let pools: Vec<&str> =
        cluster.of(labels::GROUP, "NodePool").filter(is_static).map(super::objects::name).collect();
    if !pools.is_empty() && !values.gate("StaticCapacity") {
        let what = format!(
            "nothing is launched for {} with replicas ({}): the feature gate StaticCapacity is off",
            count(pools.len(), "NodePool"),
            some(&pools)
        );
        found.push(
            Finding::warning("C308", "NodePool", what)
                .fix("set the feature gate StaticCapacity=true, or remove spec.replicas"),
        );
    }
    found
}

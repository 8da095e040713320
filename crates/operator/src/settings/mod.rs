//! Flags and environment variables, read once: a flag wins over its variable, which wins over the default.

mod controllers;
mod go;
pub(crate) mod scheduler_config;
pub(crate) mod table;
#[cfg(test)]
pub(crate) mod tests;

use std::{collections::BTreeMap, time::Duration};

use fleetwright_core::{
    model::{Currency, Price, TopologySpread},
    suggest,
};

use self::table::{GATES, Setting, SettingKind};
pub(crate) use controllers::controllers;

/// The settings as text, each checked against its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values {
    values: BTreeMap<&'static str, String>,
    /// Warnings about ignored values.
    pub(crate) warnings: Vec<String>,
    /// What prices are in: no setting, but what the cloud says.
    pub(crate) currency: Currency,
}

/// An invalid setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SettingError {
    /// Flag or variable, as the user wrote it.
    pub(crate) source: String,
    /// The error and the fix.
    pub(crate) message: String,
}

impl std::fmt::Display for SettingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.source, self.message)
    }
}

impl std::error::Error for SettingError {}

/// The settings of this process.
///
/// # Errors
/// As [`Values::of`].
#[expect(clippy::disallowed_methods, reason = "the one place where the environment is read")]
pub(crate) fn from_environment(
    settings: &[Setting],
    flags: &BTreeMap<String, String>,
) -> Result<Values, SettingError> {
    Values::of(settings, flags, |name| std::env::var(name).ok())
}

#[cfg(test)]
impl Values {
    /// Resolves the settings of every operator and, where this build has them, those of AWS.
    pub(crate) fn resolve(
        flags: &BTreeMap<String, String>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, SettingError> {
        Self::of(&tests::all(), flags, env)
    }
}

impl Values {
    /// Resolves `settings` from flags (by name without dashes) and variables.
    ///
    /// A number, duration or boolean that cannot be read is an error in a flag; in a variable it is ignored with a warning,
    /// as in Karpenter. Anything else that cannot be read is an error in both.
    ///
    /// # Errors
    /// Names the flag or variable and what it takes.
    pub(crate) fn of(
        settings: &[Setting],
        flags: &BTreeMap<String, String>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, SettingError> {
        let mut this = Self { values: BTreeMap::new(), warnings: Vec::new(), currency: Currency::default() };
        for setting in settings {
            let value = match (flags.get(&setting.flag()), env(setting.env).filter(|text| !text.is_empty())) {
                (Some(text), _) => read(setting, text, Source::Flag)
                    .map_err(|message| SettingError { source: format!("--{}", setting.flag()), message })?,
                (None, Some(text)) => match read(setting, &text, Source::Variable) {
                    Ok(value) => value,
                    Err(message) if setting.kind.has_lenient_variable() => {
                        this.warnings.push(format!("{}: {message}; using {}", setting.env, setting.default));
                        setting.default.to_owned()
                    }
                    Err(message) => return Err(SettingError { source: setting.env.to_owned(), message }),
                },
                (None, None) => setting.default.to_owned(),
            };
            this.values.insert(setting.env, value);
        }
        Ok(this)
    }

    /// The same settings of a cloud with prices in `currency`.
    #[must_use]
    pub(crate) fn priced_in(self, currency: Currency) -> Self {
        Self { currency, ..self }
    }

    /// Warnings for the log, or for standard error: about ignored values, and about unknown feature gates.
    pub(crate) fn all_warnings(&self) -> Vec<String> {
        let unknown = unknown_gates(self.text("FEATURE_GATES")).into_iter().map(|(gate, meant)| {
            let fix = meant.map_or_else(
                || format!("valid: {}", GATES.iter().map(|(gate, _)| *gate).collect::<Vec<_>>().join(", ")),
                |meant| format!("did you mean {meant}?"),
            );
            format!("FEATURE_GATES: unknown feature gate {gate} is ignored; {fix}")
        });
        self.warnings.iter().cloned().chain(unknown).collect()
    }

    /// The text of a setting, by the name of its environment variable.
    #[must_use]
    pub fn text(&self, env: &str) -> &str {
        self.values.get(env).map_or("", String::as_str)
    }

    /// A whole number.
    #[must_use]
    pub fn integer(&self, env: &str) -> i64 {
        self.text(env).parse().unwrap_or_default()
    }

    /// A port; a value out of range disables it.
    pub(crate) fn port(&self, env: &str) -> u16 {
        self.text(env).parse().unwrap_or_default()
    }

    /// A switch.
    #[must_use]
    pub fn bool(&self, env: &str) -> bool {
        self.text(env) == "true"
    }

    /// A price per hour.
    pub(crate) fn price(&self, env: &str) -> Price {
        self.text(env)
            .parse::<f64>()
            .ok()
            .and_then(|dollars| Price::from_dollars(dollars).ok())
            .unwrap_or_default()
    }

    /// A duration.
    #[must_use]
    pub fn duration(&self, env: &str) -> Duration {
        let parsed = fleetwright_api::duration::parse(self.text(env)).ok();
        parsed.and_then(|duration| Duration::try_from(duration).ok()).unwrap_or_default()
    }

    /// The default spread constraints.
    pub(crate) fn default_spread(&self) -> Vec<TopologySpread> {
        scheduler_config::default_constraints(self.text("SCHEDULER_CONFIG")).unwrap_or_default()
    }

    /// Whether a feature gate of Karpenter is on; the last mention of a gate counts, unknown gates are ignored.
    pub(crate) fn gate(&self, name: &str) -> bool {
        let default = GATES.iter().any(|(gate, on)| *gate == name && *on);
        self.gate_of("FEATURE_GATES", name).unwrap_or(default)
    }

    /// The value of a gate in setting `env`, if it is there.
    pub(crate) fn gate_of(&self, env: &str, name: &str) -> Option<bool> {
        let gates = go::parse_gates(self.text(env)).unwrap_or_default();
        gates.into_iter().rfind(|(gate, _)| *gate == name).map(|(_, on)| on)
    }
}

/// The feature gates of a text that Karpenter does not have, each with the one that was probably meant. Karpenter ignores them in silence.
pub(crate) fn unknown_gates(text: &str) -> BTreeMap<&str, Option<&'static str>> {
    let known = || GATES.iter().map(|(gate, _)| *gate);
    let written = go::parse_gates(text).unwrap_or_default().into_iter().map(|(gate, _)| gate);
    let unknown = written.filter(|gate| !known().any(|name| name == *gate));
    unknown.map(|gate| (gate, suggest::nearest(gate, known()))).collect()
}

/// The source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Flag,
    Variable,
}

impl SettingKind {
    /// Whether an invalid variable takes the default.
    const fn has_lenient_variable(self) -> bool {
        matches!(self, Self::Integer | Self::Fraction | Self::Price | Self::Duration | Self::Bool)
    }
}

/// The value of a setting, booleans as `true` or `false`; an error names the valid values.
fn read(setting: &Setting, text: &str, source: Source) -> Result<String, String> {
    match (setting.kind, source) {
        (SettingKind::Bool, Source::Variable) => {
            let value = go::parse_bool(text).map(|on| on.to_string());
            value.ok_or_else(|| format!("{text:?} is not valid: it takes true or false"))
        }
        _ => check(setting, text).map(|()| text.to_owned()),
    }
}

/// Checks `text`; an error names the valid values.
fn check(setting: &Setting, text: &str) -> Result<(), String> {
    let fine = match setting.kind {
        SettingKind::Text => true,
        SettingKind::Integer => text.parse::<i64>().is_ok(),
        SettingKind::Fraction => text.parse::<f64>().is_ok_and(|share| (0.0..1.0).contains(&share)),
        SettingKind::Price => text.parse::<f64>().is_ok_and(|dollars| Price::from_dollars(dollars).is_ok()),
        SettingKind::Bool => matches!(text, "true" | "false"),
        SettingKind::Duration => {
            fleetwright_api::duration::parse(text).is_ok_and(|duration| Duration::try_from(duration).is_ok())
        }
        SettingKind::OneOf(words) => words.contains(&text),
        SettingKind::Gates => return go::parse_gates(text).map(drop),
        SettingKind::SchedulerConfig => return scheduler_config::default_constraints(text).map(drop),
    };
    let takes = || match setting.kind {
        SettingKind::Text | SettingKind::Gates | SettingKind::SchedulerConfig => "a text".to_owned(),
        SettingKind::Integer => "a whole number".to_owned(),
        SettingKind::Fraction => "a share from 0 to below 1".to_owned(),
        SettingKind::Price => "a price per hour, zero or more".to_owned(),
        SettingKind::Bool => "true or false".to_owned(),
        SettingKind::Duration => "a duration such as 10s or 1m30s".to_owned(),
        SettingKind::OneOf(words) => format!("one of {}", words.join(", ")),
    };
    if fine { Ok(()) } else { Err(format!("{text:?} is not valid: it takes {}", takes())) }
}

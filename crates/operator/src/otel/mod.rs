//! Traces for an OpenTelemetry collector: one per pod, from its creation until it is bound. On if `OTEL_EXPORTER_OTLP_ENDPOINT` or
//! `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is set and `OTEL_SDK_DISABLED` is not `true`; the crates read the other variables of the specification.
//!
//! - [`timeline`]: the stages of a pod, from the times on its objects.
//! - [`controller`]: follows pods, and hands the stages on when a pod is bound.
//! - [`exporter`]: sends them.

#[cfg(feature = "otel")]
mod controller;
#[cfg(feature = "otel")]
mod exporter;
#[cfg(any(test, feature = "otel"))]
mod timeline;

use std::sync::Arc;

use fleetwright_controllers::runtime::{Controller, Ctx};

/// The variables that switch traces on.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];

/// The controller that exports traces, if the environment asks for them. Requests run on the runtime of the caller.
///
/// # Errors
/// If a variable cannot be used.
#[expect(
    clippy::disallowed_methods,
    reason = "the variables are those of OpenTelemetry, which its crates read too"
)]
pub(crate) fn controller(ctx: &Ctx, version: &str) -> anyhow::Result<Option<Arc<dyn Controller>>> {
    if is_on(|name| std::env::var(name).ok()) { exporting(ctx, version) } else { Ok(None) }
}

#[cfg(feature = "otel")]
fn exporting(ctx: &Ctx, version: &str) -> anyhow::Result<Option<Arc<dyn Controller>>> {
    let exporter = exporter::Exporter::new(version)?;
    Ok(Some(Arc::new(controller::PodTraces::new(ctx, exporter))))
}

#[cfg(not(feature = "otel"))]
#[expect(clippy::unnecessary_wraps, reason = "as with the feature")]
fn exporting(_: &Ctx, _: &str) -> anyhow::Result<Option<Arc<dyn Controller>>> {
    tracing::warn!(
        "traces are asked for by OTEL_EXPORTER_OTLP_ENDPOINT, but this program was built without the feature otel"
    );
    Ok(None)
}

/// Whether the environment asks for traces.
fn is_on(env: impl Fn(&str) -> Option<String>) -> bool {
    let is_disabled = env("OTEL_SDK_DISABLED").is_some_and(|text| text.trim().eq_ignore_ascii_case("true"));
    !is_disabled && ENDPOINTS.into_iter().any(|name| env(name).is_some_and(|text| !text.trim().is_empty()))
}

#[cfg(test)]
mod tests {
    //! What switches traces on.
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing(&[], false)]
    #[case::endpoint(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")], true)]
    #[case::of_traces(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector:4318/v1/traces")], true)]
    #[case::empty(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")], false)]
    #[case::disabled(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318"), ("OTEL_SDK_DISABLED", "True")], false)]
    fn the_environment_decides(#[case] variables: &[(&str, &str)], #[case] expected: bool) {
        let env =
            |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
        assert_eq!(is_on(env), expected);
    }
}

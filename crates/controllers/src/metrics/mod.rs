//! Metrics: families are constants beside the code that updates them, under Karpenter's names.
//!
//! A family is exposed once it has a series. A wrong number of label values is a defect that tests find; in production the
//! value is dropped and logged.

pub mod cloud;
pub mod cluster;
pub mod pod_times;
pub mod pods;
pub mod requests;
pub mod runtime;
pub mod scheduling;
pub mod status;
mod summary;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use prometheus::{
    CounterVec, Encoder, GaugeVec, HistogramOpts, HistogramVec, Opts, Registry, TextEncoder, core::Collector,
    proto::MetricFamily,
};
use summary::SummaryVec;

/// Karpenter's buckets for durations, in seconds.
pub const DURATION_BUCKETS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0, 120.0, 150.0, 300.0, 450.0, 600.0,
];

tokio::task_local! {
    /// The name of the controller whose reconcile this task runs.
    pub(crate) static CURRENT_CONTROLLER: &'static str;
}

/// Returns the name of the controller that runs in this task; empty outside a reconcile.
fn current_controller() -> &'static str {
    CURRENT_CONTROLLER.try_with(|name| *name).unwrap_or_default()
}

/// The type of a family.
#[derive(Clone, Copy, Debug)]
pub enum MetricType {
    /// A value that only increases.
    Counter,
    /// A value that increases and decreases.
    Gauge,
    /// Counts per bucket.
    Histogram(&'static [f64]),
    /// Quantiles 0, 0.5, 0.9, 0.99 and 1.
    Summary,
}

/// The label names of a family.
#[derive(Clone, Debug)]
pub enum LabelNames {
    /// The same with every provider.
    Fixed(&'static [&'static str]),
    /// Including those of the provider's kinds and well-known labels.
    OfProvider(Arc<[String]>),
}

impl LabelNames {
    /// The names, in the order of the values.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Fixed(names) => names.to_vec(),
            Self::OfProvider(names) => names.iter().map(String::as_str).collect(),
        }
    }
}

/// A metric family: one metric with all values of its labels.
#[derive(Clone, Debug)]
pub struct Family {
    /// The full name.
    pub name: Cow<'static, str>,
    /// The help text.
    pub help: &'static str,
    /// The type.
    pub metric_type: MetricType,
    /// The label names.
    pub labels: LabelNames,
}

impl Family {
    const fn fixed(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        metric_type: MetricType,
    ) -> Self {
        Self { name: Cow::Borrowed(name), help, metric_type, labels: LabelNames::Fixed(labels) }
    }

    /// The family with `further` labels after its own.
    #[must_use]
    pub fn with_labels(&self, further: &[String]) -> Self {
        let own = self.labels.names().into_iter().map(str::to_owned);
        let labels = LabelNames::OfProvider(own.chain(further.iter().cloned()).collect());
        Self { labels, ..self.clone() }
    }

    /// A counter.
    #[must_use]
    pub const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self::fixed(name, labels, help, MetricType::Counter)
    }

    /// A gauge.
    #[must_use]
    pub const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self::fixed(name, labels, help, MetricType::Gauge)
    }

    /// A histogram over [`DURATION_BUCKETS`].
    #[must_use]
    pub const fn durations(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self::fixed(name, labels, help, MetricType::Histogram(DURATION_BUCKETS))
    }

    /// A histogram over `buckets`.
    #[must_use]
    pub const fn histogram(
        name: &'static str,
        labels: &'static [&'static str],
        buckets: &'static [f64],
        help: &'static str,
    ) -> Self {
        Self::fixed(name, labels, help, MetricType::Histogram(buckets))
    }

    /// A summary.
    #[must_use]
    pub const fn summary(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self::fixed(name, labels, help, MetricType::Summary)
    }
}

/// All metrics of the process.
#[derive(Default)]
pub struct Metrics {
    registry: Registry,
    families: Mutex<BTreeMap<String, Series>>,
}

#[derive(Clone)]
enum Series {
    Counter(CounterVec),
    Gauge(GaugeVec),
    Histogram(HistogramVec),
    Summary(SummaryVec),
}

impl Metrics {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Series>> {
        self.families.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one to a counter.
    pub fn inc(&self, family: &Family, labels: &[&str]) {
        self.add(family, labels, 1.0);
    }

    /// Adds to a counter or a gauge.
    pub fn add(&self, family: &Family, labels: &[&str], amount: f64) {
        let done = self.series(family).and_then(|series| match series {
            Series::Counter(counter) => {
                counter.get_metric_with_label_values(labels).map(|counter| counter.inc_by(amount))
            }
            Series::Gauge(gauge) => gauge.get_metric_with_label_values(labels).map(|gauge| gauge.add(amount)),
            Series::Histogram(_) | Series::Summary(_) => Err(wrong_type()),
        });
        log_failure(family, labels, done);
    }

    /// Sets a gauge.
    pub fn set(&self, family: &Family, labels: &[&str], value: f64) {
        let done = self.series(family).and_then(|series| match series {
            Series::Gauge(gauge) => gauge.get_metric_with_label_values(labels).map(|gauge| gauge.set(value)),
            _ => Err(wrong_type()),
        });
        log_failure(family, labels, done);
    }

    /// Adds an observation to a histogram or a summary.
    pub fn observe(&self, family: &Family, labels: &[&str], value: f64) {
        let done = self.series(family).and_then(|series| match series {
            Series::Histogram(histogram) => {
                histogram.get_metric_with_label_values(labels).map(|histogram| histogram.observe(value))
            }
            Series::Summary(summary) => summary.observe(labels, value),
            Series::Counter(_) | Series::Gauge(_) => Err(wrong_type()),
        });
        log_failure(family, labels, done);
    }

    /// Replaces all series of a gauge. Those that stay exist at every moment, so that no scrape misses them.
    pub fn replace(&self, family: &Family, series: impl IntoIterator<Item = (Vec<String>, f64)>) {
        let mut kept: BTreeSet<Vec<String>> = BTreeSet::new();
        for (labels, value) in series {
            self.set(family, &labels.iter().map(String::as_str).collect::<Vec<_>>(), value);
            kept.insert(labels);
        }
        let Ok(Series::Gauge(gauge)) = self.series(family) else { return };
        let names = family.labels.names();
        for metric in gauge.collect().iter().flat_map(MetricFamily::get_metric) {
            let value = |name: &&str| metric.get_label().iter().find(|label| label.name() == *name);
            let labels: Vec<String> =
                names.iter().filter_map(value).map(|label| label.value().to_owned()).collect();
            if !kept.contains(&labels) {
                self.remove(family, &labels.iter().map(String::as_str).collect::<Vec<_>>());
            }
        }
    }

    /// Removes a series, if it exists.
    pub fn remove(&self, family: &Family, labels: &[&str]) {
        // Removing a series that does not exist fails; that is fine.
        let _ = match self.lock().get(&*family.name) {
            Some(Series::Counter(counter)) => counter.remove_label_values(labels),
            Some(Series::Gauge(gauge)) => gauge.remove_label_values(labels),
            Some(Series::Histogram(histogram)) => histogram.remove_label_values(labels),
            Some(Series::Summary(summary)) => summary.remove(labels),
            None => Ok(()),
        };
    }

    /// The value of a counter or gauge, for tests and for the demo's view; zero if the series does not exist.
    #[must_use]
    pub fn value(&self, family: &Family, labels: &[&str]) -> f64 {
        match self.series(family) {
            Ok(Series::Counter(counter)) => {
                counter.get_metric_with_label_values(labels).map_or(0.0, |c| c.get())
            }
            Ok(Series::Gauge(gauge)) => gauge.get_metric_with_label_values(labels).map_or(0.0, |g| g.get()),
            _ => 0.0,
        }
    }

    /// All metrics in Prometheus' text format 0.0.4.
    ///
    /// # Errors
    /// The encoder's error.
    pub fn encode(&self) -> Result<String, prometheus::Error> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        String::from_utf8(text).map_err(|error| prometheus::Error::Msg(error.to_string()))
    }

    fn series(&self, family: &Family) -> prometheus::Result<Series> {
        let mut families = self.lock();
        if let Some(series) = families.get(&*family.name) {
            return Ok(series.clone());
        }
        let options = Opts::new(&*family.name, family.help);
        let labels = &*family.labels.names();
        let series = match family.metric_type {
            MetricType::Counter => Series::Counter(self.registered(CounterVec::new(options, labels)?)?),
            MetricType::Gauge => Series::Gauge(self.registered(GaugeVec::new(options, labels)?)?),
            MetricType::Histogram(buckets) => {
                let options = HistogramOpts::from(options).buckets(buckets.to_vec());
                Series::Histogram(self.registered(HistogramVec::new(options, labels)?)?)
            }
            MetricType::Summary => Series::Summary(self.registered(SummaryVec::new(family)?)?),
        };
        families.insert(family.name.to_string(), series.clone());
        Ok(series)
    }

    /// Adds a collector of other figures, such as those of the process.
    ///
    /// # Errors
    /// If a family of one of its names exists.
    pub fn register(&self, collector: Box<dyn Collector>) -> prometheus::Result<()> {
        self.registry.register(collector)
    }

    fn registered<C: Collector + Clone + 'static>(&self, collector: C) -> prometheus::Result<C> {
        self.registry.register(Box::new(collector.clone()))?;
        Ok(collector)
    }
}

fn wrong_type() -> prometheus::Error {
    prometheus::Error::Msg("wrong metric type".to_owned())
}

fn log_failure(family: &Family, labels: &[&str], done: prometheus::Result<()>) {
    if let Err(error) = done {
        debug_assert!(false, "metric {} {labels:?}: {error}", family.name);
        tracing::error!(metric = &*family.name, ?labels, %error, "failed to update a metric");
    }
}

#[cfg(test)]
mod tests;

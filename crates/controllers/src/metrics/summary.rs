//! Summaries: quantiles from sketches, in the shape that Prometheus' clients for Go produce.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use prometheus::{
    core::{Collector, Desc},
    proto,
};
use sketches_ddsketch::{Config, DDSketch};

use super::{Family, LabelNames};

/// The quantiles that Karpenter exposes.
const QUANTILES: [f64; 5] = [0.0, 0.5, 0.9, 0.99, 1.0];

/// Summaries by label values.
#[derive(Clone)]
pub(super) struct SummaryVec {
    desc: Desc,
    labels: LabelNames,
    sketches: Arc<Mutex<BTreeMap<Vec<String>, DDSketch>>>,
}

impl SummaryVec {
    pub(super) fn new(family: &Family) -> prometheus::Result<Self> {
        let labels = family.labels.names().into_iter().map(str::to_owned).collect();
        let desc = Desc::new(family.name.to_string(), family.help.to_owned(), labels, Default::default())?;
        Ok(Self { desc, labels: family.labels.clone(), sketches: Arc::default() })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Vec<String>, DDSketch>> {
        self.sketches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn observe(&self, labels: &[&str], value: f64) -> prometheus::Result<()> {
        let expected = self.labels.names().len();
        if labels.len() != expected {
            return Err(prometheus::Error::InconsistentCardinality { expect: expected, got: labels.len() });
        }
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        self.lock().entry(labels).or_insert_with(|| DDSketch::new(Config::defaults())).add(value);
        Ok(())
    }

    pub(super) fn remove(&self, labels: &[&str]) -> prometheus::Result<()> {
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        self.lock().remove(&labels);
        Ok(())
    }
}

impl Collector for SummaryVec {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<proto::MetricFamily> {
        let mut family = proto::MetricFamily::default();
        family.set_name(self.desc.fq_name.clone());
        family.set_help(self.desc.help.clone());
        family.set_field_type(proto::MetricType::SUMMARY);
        let metrics =
            self.lock().iter().map(|(values, sketch)| self.metric(values, sketch)).collect::<Vec<_>>();
        family.set_metric(metrics);
        vec![family]
    }
}

impl SummaryVec {
    fn metric(&self, values: &[String], sketch: &DDSketch) -> proto::Metric {
        let mut summary = proto::Summary::default();
        summary.set_sample_count(u64::try_from(sketch.count()).unwrap_or(u64::MAX));
        summary.set_sample_sum(sketch.sum().unwrap_or(0.0));
        let quantiles = QUANTILES.iter().map(|rank| {
            let mut quantile = proto::Quantile::default();
            quantile.set_quantile(*rank);
            // A sketch has a relative error of 1 %; clamp it to the observed range.
            let estimate = sketch.quantile(*rank).ok().flatten().unwrap_or(f64::NAN);
            let (least, most) = (sketch.min().unwrap_or(estimate), sketch.max().unwrap_or(estimate));
            quantile.set_value(estimate.max(least).min(most));
            quantile
        });
        summary.set_quantile(quantiles.collect());
        let labels = self.labels.names().into_iter().zip(values).map(|(name, value)| {
            let mut pair = proto::LabelPair::default();
            pair.set_name(name.to_owned());
            pair.set_value(value.clone());
            pair
        });
        let mut metric = proto::Metric::default();
        metric.set_label(labels.collect());
        metric.set_summary(summary);
        metric
    }
}

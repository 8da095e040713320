//! What a query asks for, against the metrics that there are: name, labels, and whether a rate is taken of a counter.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use promql_parser::parser::{Expr, VectorSelector, parse};

/// Where every metric is listed. Tests of the crates that define them compare it with the code.
const PAGE: &str = "docs/metrics.md";
/// Labels that Prometheus adds to each series.
const OF_PROMETHEUS: [&str; 2] = ["job", "instance"];
/// Functions whose argument has to be a counter.
const OF_COUNTERS: [&str; 2] = ["rate", "increase"];
/// The kind of the fake cloud's NodeClasses in the page, and that of AWS, whose families have other names and equal labels.
const CLASSES: [[&str; 2]; 2] =
    [["kwoknodeclass", "ec2nodeclass"], ["karpenter_kwok_sh", "karpenter_k8s_aws"]];

/// The metrics by the name of their series.
pub(super) struct Metrics(BTreeMap<String, Series>);

struct Series {
    labels: BTreeSet<String>,
    is_counter: bool,
}

impl Metrics {
    /// Reads the tables of `docs/metrics.md`.
    pub(super) fn documented(root: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(root.join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
        let mut all = Self(BTreeMap::new());
        for line in text.lines().filter(|line| line.starts_with("| `")) {
            all.add(line).with_context(|| format!("{PAGE}: {line}"))?;
            let aws = CLASSES.iter().fold(line.to_owned(), |line, [fake, aws]| line.replace(fake, aws));
            if aws != line {
                all.add(&aws)?;
            }
        }
        Ok(all)
    }

    /// Adds the series of a family: a row with name, type, labels.
    fn add(&mut self, row: &str) -> anyhow::Result<()> {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [name, shape, labels, ..] = cells.as_slice() else { bail!("not a row of a metric") };
        let name = name.trim_matches('`');
        let labels: BTreeSet<String> = labels
            .split(", ")
            .map(|label| label.trim_matches('`').to_owned())
            .filter(|label| !label.is_empty())
            .collect();
        let mut put = |suffix: &str, extra: &[&str], is_counter| {
            let labels = labels.iter().cloned().chain(extra.iter().map(|&label| label.to_owned())).collect();
            self.0.insert(format!("{name}{suffix}"), Series { labels, is_counter });
        };
        match *shape {
            "counter" => put("", &[], true),
            "gauge" => put("", &[], false),
            "histogram" | "summary" => {
                put("_sum", &[], true);
                put("_count", &[], true);
                match *shape {
                    "histogram" => put("_bucket", &["le"], true),
                    _ => put("", &["quantile"], false),
                }
            }
            other => bail!("unknown type {other}"),
        }
        Ok(())
    }

    /// How many series there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Checks a query of PromQL, without Grafana's variables.
    ///
    /// # Errors
    /// It is not PromQL, or names a metric or a label that does not exist, or takes a rate of a gauge.
    pub(super) fn check(&self, query: &str) -> anyhow::Result<()> {
        let tree = parse(query).map_err(|error| anyhow::anyhow!("no PromQL: {error}"))?;
        let mut selectors = Vec::new();
        self.walk(&tree, false, &mut selectors)?;
        if selectors.is_empty() {
            bail!("asks for no metric");
        }
        let allowed: BTreeSet<&str> = selectors
            .iter()
            .flat_map(|series| series.labels.iter().map(String::as_str))
            .chain(OF_PROMETHEUS)
            .collect();
        for label in grouped_by(&tree) {
            if !allowed.contains(label.as_str()) {
                bail!("groups by `{label}`, a label that none of its metrics has");
            }
        }
        Ok(())
    }

    fn walk<'s>(&'s self, tree: &Expr, of_counter: bool, found: &mut Vec<&'s Series>) -> anyhow::Result<()> {
        match tree {
            Expr::VectorSelector(selector) => found.push(self.series(selector, of_counter)?),
            Expr::MatrixSelector(selector) => found.push(self.series(&selector.vs, of_counter)?),
            Expr::Call(call) => {
                let of_counter = OF_COUNTERS.contains(&call.func.name);
                for argument in &call.args.args {
                    self.walk(argument, of_counter, found)?;
                }
            }
            other => {
                for part in parts(other) {
                    self.walk(part, of_counter, found)?;
                }
            }
        }
        Ok(())
    }

    fn series(&self, selector: &VectorSelector, of_counter: bool) -> anyhow::Result<&Series> {
        let name = selector.name.as_deref().context("a selector without a metric")?;
        let series =
            self.0.get(name).with_context(|| format!("the metric `{name}` does not exist ({PAGE})"))?;
        for matcher in &selector.matchers.matchers {
            let label = matcher.name.as_str();
            if label != "__name__" && !OF_PROMETHEUS.contains(&label) && !series.labels.contains(label) {
                bail!("the metric `{name}` has no label `{label}`");
            }
        }
        if of_counter && !series.is_counter {
            bail!("takes a rate of `{name}`, which is a gauge");
        }
        Ok(series)
    }
}

/// Whether a query has results only while something is wrong: a comparison, or that a metric is absent.
pub(super) fn is_conditional(query: &str) -> bool {
    fn holds(tree: &Expr) -> bool {
        match tree {
            Expr::Paren(paren) => holds(&paren.expr),
            Expr::Call(call) => call.func.name == "absent",
            Expr::Binary(binary) => {
                binary.op.is_comparison_operator() || (binary.op.is_set_operator() && holds(&binary.lhs))
            }
            _ => false,
        }
    }
    parse(query).is_ok_and(|tree| holds(&tree))
}

/// The expressions directly below one, except those of calls and selectors.
fn parts(tree: &Expr) -> Vec<&Expr> {
    match tree {
        Expr::Aggregate(aggregate) => {
            std::iter::once(&*aggregate.expr).chain(aggregate.param.as_deref()).collect()
        }
        Expr::Unary(unary) => vec![&unary.expr],
        Expr::Binary(binary) => vec![&binary.lhs, &binary.rhs],
        Expr::Paren(paren) => vec![&paren.expr],
        Expr::Subquery(subquery) => vec![&subquery.expr],
        Expr::Call(call) => call.args.args.iter().map(|argument| &**argument).collect(),
        _ => Vec::new(),
    }
}

/// The labels that a query groups or matches by.
fn grouped_by(tree: &Expr) -> Vec<String> {
    use promql_parser::parser::LabelModifier::{Exclude, Include};
    let mut labels = match tree {
        Expr::Aggregate(aggregate) => match &aggregate.modifier {
            Some(Include(labels) | Exclude(labels)) => labels.labels.clone(),
            None => Vec::new(),
        },
        Expr::Binary(binary) => {
            match binary.modifier.as_ref().and_then(|modifier| modifier.matching.as_ref()) {
                Some(Include(labels) | Exclude(labels)) => labels.labels.clone(),
                None => Vec::new(),
            }
        }
        _ => Vec::new(),
    };
    labels.extend(parts(tree).into_iter().flat_map(grouped_by));
    labels
}

//! Resource usage and metrics of a process at one moment.

use std::collections::BTreeMap;

use anyhow::Context as _;

use crate::e2e::world::LaneWorld;

/// Figures of the operator at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    /// Requests by HTTP method.
    requests: BTreeMap<String, f64>,
    /// Requests by verb and resource, as `PATCH nodeclaims/status`.
    by_target: BTreeMap<String, f64>,
    solver_seconds: f64,
    cpu_seconds: f64,
    /// Resident set in bytes: now, and the most that it ever was.
    pub(super) memory: u64,
    pub(super) memory_peak: u64,
}

/// What was used between two moments.
#[derive(Debug, Clone, Default)]
pub(super) struct Used {
    /// Requests that change something.
    pub(super) writes: f64,
    /// All others, watches among them.
    pub(super) reads: f64,
    pub(super) by_target: BTreeMap<String, f64>,
    pub(super) solver_seconds: f64,
    pub(super) cpu_seconds: f64,
}

impl Figures {
    /// The operator's figures now.
    pub(super) async fn read(world: &LaneWorld) -> anyhow::Result<Self> {
        let id = world.operator.id().context("the operator does not run")?;
        let mut figures = Self::parse(&world.operator.metrics().await?);
        let status = std::fs::read_to_string(format!("/proc/{id}/status"));
        let status = status.context("memory is read from /proc, which this system does not have")?;
        figures.memory = kibibytes(&status, "VmRSS:").context("no VmRSS")? << 10;
        figures.memory_peak = kibibytes(&status, "VmHWM:").context("no VmHWM")? << 10;
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
        figures.cpu_seconds = cpu_seconds(&stat).context("/proc/ID/stat cannot be read")?;
        Ok(figures)
    }

    fn parse(metrics: &str) -> Self {
        let mut figures = Self::default();
        for (name, labels, value) in metrics.lines().filter_map(sample) {
            match name {
                "client_go_request_total" => {
                    *figures.requests.entry(label(labels, "method").to_owned()).or_default() += value;
                }
                "client_go_request_duration_seconds_count" => {
                    let mut target = format!("{} {}", label(labels, "verb"), label(labels, "kind"));
                    let subresource = label(labels, "subresource");
                    if !subresource.is_empty() {
                        target = format!("{target}/{subresource}");
                    }
                    *figures.by_target.entry(target).or_default() += value;
                }
                "karpenter_scheduler_scheduling_duration_seconds_sum" => figures.solver_seconds += value,
                _ => {}
            }
        }
        figures
    }

    /// What was used since `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Used {
        let mut used = Used {
            solver_seconds: self.solver_seconds - earlier.solver_seconds,
            cpu_seconds: self.cpu_seconds - earlier.cpu_seconds,
            ..Used::default()
        };
        for (method, count) in &self.requests {
            let count = count - earlier.requests.get(method).unwrap_or(&0.0);
            match &**method {
                "GET" | "HEAD" => used.reads += count,
                _ => used.writes += count,
            }
        }
        let targets = self
            .by_target
            .iter()
            .map(|(target, count)| (target.clone(), count - earlier.by_target.get(target).unwrap_or(&0.0)));
        used.by_target = targets.filter(|(_, count)| *count > 0.0).collect();
        used
    }
}

/// Name, labels and value of a line of metrics; nothing for comments.
fn sample(line: &str) -> Option<(&str, &str, f64)> {
    let (series, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    match series.split_once('{') {
        Some((name, labels)) => Some((name, labels.trim_end_matches('}'), value)),
        None => Some((series, "", value)),
    }
}

/// The value of a label; none of ours has a quote or a comma in it.
fn label<'a>(labels: &'a str, name: &str) -> &'a str {
    let found = labels.split(',').find_map(|label| label.strip_prefix(name)?.strip_prefix("=\""));
    found.map_or("", |value| value.trim_end_matches('"'))
}

fn kibibytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// User and system time, in the hundredths of a second that Linux counts in for every program.
fn cpu_seconds(stat: &str) -> Option<f64> {
    // The name of the program, in parentheses, may have spaces; what follows does not.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let (user, system): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((f64::from(user) + f64::from(system)) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = r#"# HELP client_go_request_total Number
client_go_request_total{code="200",method="GET"} 7
client_go_request_total{code="201",method="POST"} 3
client_go_request_total{code="409",method="POST"} 1
client_go_request_duration_seconds_count{group="",kind="nodes",subresource="status",verb="PATCH",version="v1"} 4
karpenter_scheduler_scheduling_duration_seconds_sum{controller="provisioner"} 0.25
"#;

    #[test]
    fn metrics_are_read_and_subtracted() {
        let used = Figures::parse(METRICS).since(&Figures::default());
        assert_eq!((used.reads, used.writes, used.solver_seconds), (7.0, 4.0, 0.25));
        assert_eq!(used.by_target, BTreeMap::from([("PATCH nodes/status".to_owned(), 4.0)]));
        let none = Figures::parse(METRICS).since(&Figures::parse(METRICS));
        assert_eq!((none.reads, none.writes, none.by_target.len()), (0.0, 0.0, 0));
    }

    #[test]
    fn processes_are_read() {
        assert_eq!(kibibytes("Name:\tx\nVmRSS:\t   1234 kB\n", "VmRSS:"), Some(1234));
        let stat = "7 (a b) c) S 1 1 1 0 -1 4194560 1 0 0 0 150 50 0 0 20 0";
        assert_eq!(cpu_seconds(stat), Some(2.0));
    }
}

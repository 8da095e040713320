//! Process metrics under the names of Prometheus' client for Go: `process_*`, from `/proc`, on Linux.
//!
//! The `process` feature of the `prometheus` crate needs a second version of rustix; this module reads eight numbers.

use std::fs;

use prometheus::{
    Counter, Gauge,
    core::{Collector, Desc},
    proto::MetricFamily,
};

/// Clock ticks per second in `/proc`: `USER_HZ`, which is 100 on every architecture that is built for.
const TICKS: f64 = 100.0;

/// Name, help, whether it is a counter, and how it is read. A metric that cannot be read is omitted.
type ProcessMetric = (&'static str, &'static str, bool, fn() -> Option<f64>);

const METRICS: [ProcessMetric; 9] = [
    ("process_cpu_seconds_total", "Total user and system CPU time spent in seconds", true, cpu_seconds),
    ("process_open_fds", "Number of open file descriptors", false, open_fds),
    ("process_max_fds", "Maximum number of open file descriptors", false, || limit("Max open files")),
    ("process_virtual_memory_bytes", "Virtual memory size in bytes", false, || status("VmSize:")),
    (
        "process_virtual_memory_max_bytes",
        "Maximum amount of virtual memory available in bytes",
        false,
        || limit("Max address space"),
    ),
    ("process_resident_memory_bytes", "Resident memory size in bytes", false, || status("VmRSS:")),
    ("process_start_time_seconds", "Start time of the process since unix epoch in seconds", false, start),
    (
        "process_network_receive_bytes_total",
        "Number of bytes received by the process over the network",
        true,
        || network("InOctets"),
    ),
    (
        "process_network_transmit_bytes_total",
        "Number of bytes sent by the process over the network",
        true,
        || network("OutOctets"),
    ),
];

/// Reads the metrics at each scrape.
pub(crate) struct ProcessCollector {
    descriptions: Vec<Desc>,
}

impl ProcessCollector {
    /// A collector of the process metrics.
    pub(crate) fn new() -> Self {
        let families = METRICS.iter().filter_map(|(name, help, ..)| Gauge::new(*name, *help).ok());
        Self {
            descriptions: families
                .flat_map(|gauge| gauge.desc().into_iter().cloned().collect::<Vec<_>>())
                .collect(),
        }
    }
}

impl Collector for ProcessCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let figure = |(name, help, increases, read): &ProcessMetric| {
            let value = read()?;
            if *increases {
                let counter = Counter::new(*name, *help).ok()?;
                counter.inc_by(value);
                return Some(counter.collect());
            }
            let gauge = Gauge::new(*name, *help).ok()?;
            gauge.set(value);
            Some(gauge.collect())
        };
        METRICS.iter().filter_map(figure).flatten().collect()
    }
}

/// The fields of `/proc/self/stat` behind the name of the program, which may contain anything: the first is the state.
fn stat(field: usize) -> Option<f64> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    fields.split_whitespace().nth(field)?.parse().ok()
}

fn cpu_seconds() -> Option<f64> {
    // Fields 14 and 15 of proc_pid_stat(5).
    Some((stat(11)? + stat(12)?) / TICKS)
}

fn start() -> Option<f64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let boot: f64 = text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    // Field 22.
    Some(boot + stat(19)? / TICKS)
}

#[expect(clippy::cast_precision_loss, reason = "a figure for a gauge")]
fn open_fds() -> Option<f64> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count() as f64)
}

/// A size of `/proc/self/status`, which is written in KiB, in bytes.
fn status(key: &str) -> Option<f64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

/// A soft limit. Go shows an unlimited one as the largest number of 64 bits.
fn limit(key: &str) -> Option<f64> {
    let text = fs::read_to_string("/proc/self/limits").ok()?;
    let soft = text.lines().find_map(|line| line.strip_prefix(key))?.split_whitespace().next()?;
    if soft == "unlimited" { Some(18_446_744_073_709_551_615.0) } else { soft.parse().ok() }
}

/// A counter of the network namespace: two lines of each protocol, names and values.
fn network(key: &str) -> Option<f64> {
    let text = fs::read_to_string("/proc/self/net/netstat").ok()?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("IpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    pairs.find(|(name, _)| *name == key)?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    //! The metrics of the test process.
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    #[expect(
        clippy::disallowed_methods,
        clippy::cast_precision_loss,
        reason = "the kernel's clock is what is compared"
    )]
    fn every_metric_is_read_and_plausible() {
        let families = ProcessCollector::new().collect();
        let value = |name: &str| {
            let family =
                families.iter().find(|family| family.name() == name).unwrap_or_else(|| panic!("{name}"));
            let metric = &family.get_metric()[0];
            if name.ends_with("_total") {
                metric.get_counter().get_value()
            } else {
                metric.get_gauge().get_value()
            }
        };
        assert_eq!(families.len(), METRICS.len());
        assert!(value("process_open_fds") >= 3.0 && value("process_open_fds") < value("process_max_fds"));
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
        let now = jiff::Timestamp::now().as_second() as f64;
        let age = now - value("process_start_time_seconds");
        assert!((-2.0..3600.0).contains(&age), "{age}");
        assert!((0.0..36_000.0).contains(&value("process_cpu_seconds_total")));
    }
}

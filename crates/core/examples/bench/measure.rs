//! Time, allocations, memory and instructions.

use std::{
    alloc::System,
    fs,
    process::{Command, Stdio},
    time::Duration,
};

use cpu_time::ThreadTime;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The cost of some work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// CPU time, so that other load on the host has little effect.
    pub(crate) time: Duration,
    /// Calls of the allocator, reallocations included.
    pub(crate) allocations: usize,
}

/// Does some work and returns its cost. The caller frees the result, outside the measurement.
pub(crate) fn cost<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    let region = Region::new(ALLOCATOR);
    let begin = ThreadTime::now();
    let result = work();
    let time = begin.elapsed();
    let change = region.change();
    (result, Cost { time, allocations: change.allocations + change.reallocations })
}

/// Bytes that are allocated and not freed.
pub(crate) fn live_bytes() -> i64 {
    let stats = ALLOCATOR.stats();
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    number(stats.bytes_allocated) - number(stats.bytes_deallocated)
}

/// The largest resident size so far in bytes, if the system reports it.
pub(crate) fn peak_rss() -> Option<i64> {
    status("VmHWM:")
}

/// The current resident size in bytes, if the system reports it.
pub(crate) fn rss() -> Option<i64> {
    status("VmRSS:")
}

fn status(field: &str) -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The instructions of one run of a case, if `perf` can count them.
pub(crate) fn instructions(case: &str) -> Option<u64> {
    let count = |mode: &str| -> Option<u64> {
        let this = std::env::current_exe().ok()?;
        let mut perf = Command::new("perf");
        perf.args(["stat", "-x", ",", "-e", "instructions:u", "--"]).arg(this).args([mode, case]);
        let output = perf.stdout(Stdio::null()).output().ok()?;
        let text = String::from_utf8(output.stderr).ok()?;
        let line = text.lines().find(|line| line.contains("instructions"))?;
        line.split(',').next()?.parse().ok()
    };
    count("--once")?.checked_sub(count("--idle")?)
}

/// The name of the processor, if the system reports it.
pub(crate) fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split(':').nth(1));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {cores} cores", model.map_or("unknown processor", str::trim))
}

/// The median and the 99th percentile of some times.
pub(crate) fn quantiles(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or_default();
    (at(50), at(99))
}

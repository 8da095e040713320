//! The figures of a run, as a row of a table, and their limits.

use std::time::Duration;

use fleetwright_core::model::{Currency, Price};

/// The head of a table of [`RealizedFigures::row`].
pub const HEADER: &str = "\
| mix, packer, seed | planned at once, bound | all bound | at rest after the last arrival | NodeClaims, nodes | pods moved | \
saved per moved pod | pending p50, p99 |
|---|---|---|---|---|---|---|---|";

/// The figures of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RealizedFigures {
    /// Number of pods.
    pub pods: usize,
    /// Price per hour of the nodes of one plan for all pods.
    pub planned: Price,
    /// Price per hour when the pods of that plan were bound: more where kube-scheduler left no room for some of them. Absent where the plan
    /// was not carried out.
    pub planned_bound: Option<Price>,
    /// Price per hour when all pods were bound for the first time, and the time since the first arrival.
    pub bound: (Price, Duration),
    /// Price per hour at the end, and the time since the last arrival at which the fleet changed for the last time.
    pub rest: (Price, Duration),
    /// Nodes at the end.
    pub nodes: usize,
    /// NodeClaims created.
    pub claims: u64,
    /// Evictions.
    pub moved: usize,
    /// Times from arrival to binding, sorted.
    pub waits: Vec<Duration>,
    /// Whether the fleet came to rest before the run ended.
    pub rested: bool,
}

impl RealizedFigures {
    /// How far `price` is above the price planned at once, in tenths of a percent.
    #[must_use]
    pub fn above_plan(&self, price: Price) -> i64 {
        let planned = self.planned.nanos().max(1);
        (price.nanos() - planned).saturating_mul(1000) / planned
    }

    /// Savings per hour after all pods were bound, for each moved pod.
    #[must_use]
    pub fn saved_per_moved_pod(&self) -> Price {
        let moved = i64::try_from(self.moved.max(1)).unwrap_or(i64::MAX);
        Price::from_nanos((self.bound.0.nanos() - self.rest.0.nanos()) / moved)
    }

    /// The time from arrival to binding below which `percent` of the pods are.
    #[must_use]
    pub fn wait(&self, percent: usize) -> Duration {
        self.waits
            .get(self.waits.len() * percent / 100)
            .or_else(|| self.waits.last())
            .copied()
            .unwrap_or_default()
    }

    /// The figures as a row of a table below [`HEADER`], which begins with `name`.
    #[must_use]
    pub fn row(&self, name: &str) -> String {
        let percent = |price| {
            let tenths = self.above_plan(price);
            let sign = if tenths < 0 { '-' } else { '+' };
            format!("{sign}{}.{} %", tenths.abs() / 10, tenths.abs() % 10)
        };
        let amount = |price: Price| Currency::USD.amount(format_args!("{price:.2}"));
        let (bound, at) = self.bound;
        let (rest, since) = self.rest;
        let share = self.moved * 1000 / self.pods.max(1);
        format!(
            "| {name} | {}, {} | {} ({}) at {} s | {} ({}) at {}{} s | {}, {} | {} ({}.{} %) | {}/h | {} s, {} s |",
            amount(self.planned),
            self.planned_bound.map_or_else(|| "not run".to_owned(), percent),
            amount(bound),
            percent(bound),
            at.as_secs(),
            amount(rest),
            percent(rest),
            if self.rested { "" } else { "more than " },
            since.as_secs(),
            self.claims,
            self.nodes,
            self.moved,
            share / 10,
            share % 10,
            Currency::USD.amount(format_args!("{:.4}", self.saved_per_moved_pod())),
            self.wait(50).as_secs(),
            self.wait(99).as_secs(),
        )
    }
}

/// What the figures of a case may be at most.
#[derive(Clone, Copy, Debug)]
pub struct RealizedLimits {
    /// Price when all pods are bound, in tenths of a percent above the plan.
    pub bound: i64,
    /// Price at rest, in tenths of a percent above the plan.
    pub rest: i64,
    /// Time from the last arrival to rest.
    pub rest_after: Duration,
    /// NodeClaims created.
    pub claims: u64,
    /// Evictions.
    pub moved: usize,
}

impl RealizedLimits {
    /// The figures whose median over `runs` is above these limits, as text. A run without rest counts with the time at which it ended.
    #[must_use]
    pub fn exceeded_by_medians(&self, runs: &[RealizedFigures]) -> Vec<String> {
        let count = |number: usize| i128::try_from(number).unwrap_or(i128::MAX);
        let seconds = |time: Duration| i128::from(time.as_secs());
        let median = |figure: &dyn Fn(&RealizedFigures) -> i128| {
            let mut all: Vec<i128> = runs.iter().map(figure).collect();
            all.sort_unstable();
            all.get(all.len() / 2).copied().unwrap_or(i128::MAX)
        };
        let bound = median(&|found| i128::from(found.above_plan(found.bound.0)));
        let rest = median(&|found| i128::from(found.above_plan(found.rest.0)));
        let figures = [
            ("price when all pods are bound, in 0.1 % above the plan", bound, i128::from(self.bound)),
            ("price at rest, in 0.1 % above the plan", rest, i128::from(self.rest)),
            (
                "seconds from the last arrival to rest",
                median(&|found| seconds(found.rest.1)),
                seconds(self.rest_after),
            ),
            ("NodeClaims", median(&|found| i128::from(found.claims)), i128::from(self.claims)),
            ("pods moved", median(&|found| count(found.moved)), count(self.moved)),
        ];
        let above = figures.into_iter().filter(|(_, found, limit)| found > limit);
        above.map(|(what, found, limit)| format!("{what}: {found}, at most {limit} allowed")).collect()
    }
}

//! The Jobs that CronJobs of a trace create: the simulator has no clock of its own for them.

use std::collections::BTreeMap;

use fleetwright_core::disruption::{Schedule, zone};
use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Value, json};

use super::{
    objects,
    trace::{Change, Id},
};
use crate::input::select::identity;

/// The most runs of one CronJob that are played: each minute for a day and a half, some KiB each.
const MAX_RUNS: usize = 2000;

/// Jobs by time, and notes on what is not played as in a cluster.
pub(super) struct CronRuns {
    pub(super) jobs: Vec<(Timestamp, Change)>,
    pub(super) notes: Vec<String>,
}

/// Whether a change is about a CronJob.
pub(super) fn is_of(change: &Change) -> bool {
    match change {
        Change::Put(object) => object["kind"] == "CronJob",
        Change::Delete(id) => id.1 == "CronJob",
    }
}

/// The runs of the CronJobs among changes until `end`.
pub(super) fn runs(changes: &[(Timestamp, Change)], end: Timestamp) -> CronRuns {
    let mut runs = CronRuns { jobs: Vec::new(), notes: Vec::new() };
    let mut current: BTreeMap<Id, (Timestamp, &Value)> = BTreeMap::new();
    for (at, change) in changes.iter().filter(|(_, change)| is_of(change)) {
        let (id, next) = match change {
            Change::Put(object) => (identity(object), Some((*at, object))),
            Change::Delete(id) => (id.clone(), None),
        };
        // What was valid until now has run until now.
        let before = match next {
            Some(next) => current.insert(id, next),
            None => current.remove(&id),
        };
        if let Some((from, object)) = before {
            runs.add(object, from, *at);
        }
    }
    for (from, object) in current.into_values() {
        runs.add(object, from, end);
    }
    runs.jobs.sort_by_key(|(at, _)| *at);
    runs
}

impl CronRuns {
    /// Adds the runs of one version of a CronJob.
    fn add(&mut self, object: &Value, from: Timestamp, until: Timestamp) {
        let (.., name) = identity(object);
        let spec = &object["spec"];
        if spec["suspend"] == true {
            return;
        }
        let schedule = Schedule::parse(spec["schedule"].as_str().unwrap_or_default());
        let zone = spec["timeZone"].as_str().map_or(Some(TimeZone::UTC), zone);
        let (Ok(schedule), Some(zone)) = (schedule, zone) else {
            return self
                .notes
                .push(format!("CronJob {name} is not played: its schedule or time zone is invalid"));
        };
        let next = |at| schedule.next_after_in(&zone, at);
        let mut number = 0;
        let mut at = next(from).filter(|at| *at <= until);
        while let Some(time) = at {
            if number == MAX_RUNS {
                return self.notes.push(format!("CronJob {name}: its first {MAX_RUNS} runs are played"));
            }
            number += 1;
            let after = next(time);
            self.jobs.push((time, Change::Put(job(object, time, after))));
            at = after.filter(|at| *at <= until);
        }
        if number == 0 {
            self.notes.push(format!("CronJob {name} has no run between {from} and {until}"));
        }
    }
}

/// The Job of a run, as the CronJob controller names it. Its pods run until the next one, if nothing says how long.
fn job(object: &Value, at: Timestamp, next: Option<Timestamp>) -> Value {
    let (_, _, namespace, name) = identity(object);
    let template = &object["spec"]["jobTemplate"];
    let mut spec = template["spec"].clone();
    let is_known =
        spec.pointer("/template/metadata/annotations").is_some_and(|all| !all[objects::RUN_FOR].is_null());
    let time = next.and_then(|next| std::time::Duration::try_from(next.duration_since(at)).ok());
    if let (Some(time), false, true) = (time, is_known, spec["template"].is_object()) {
        objects::runs_for(&mut spec["template"], time);
    }
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": format!("{name}-{}", at.as_second() / 60),
            "namespace": namespace,
            "labels": template["metadata"]["labels"].as_object().cloned().unwrap_or_default(),
        },
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    //! When CronJobs run.
    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2026-01-01T{text}:00Z").parse().unwrap()
    }

    fn cron_job(schedule: &str) -> Change {
        Change::Put(json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "clean", "namespace": "ops"},
            "spec": {"schedule": schedule, "jobTemplate": {"spec": {"template": {"spec": {"containers": []}}}}},
        }))
    }

    fn times(changes: &[(Timestamp, Change)]) -> (Vec<String>, Vec<String>) {
        let CronRuns { jobs, notes } = runs(changes, at("01:00"));
        (jobs.iter().map(|(at, _)| at.to_string()).collect(), notes)
    }

    #[test]
    fn a_changed_schedule_counts_from_its_change() {
        let deleted =
            Change::Delete(("batch".to_owned(), "CronJob".to_owned(), "ops".to_owned(), "clean".to_owned()));
        let changes = [
            (at("00:00"), cron_job("*/15 * * * *")),
            (at("00:31"), cron_job("40 * * * *")),
            (at("00:45"), deleted),
        ];
        let expected = ["00:15", "00:30", "00:40"].map(|text| at(text).to_string());
        assert_eq!(times(&changes), (expected.to_vec(), Vec::new()));
    }

    #[test]
    fn a_run_has_its_name_and_lasts_until_the_next() {
        let found = runs(&[(at("00:00"), cron_job("*/30 * * * *"))], at("00:30"));
        let [(time, Change::Put(job))] = found.jobs.as_slice() else { panic!("{:?}", found.jobs) };
        assert_eq!(job["metadata"]["name"], format!("clean-{}", time.as_second() / 60));
        assert_eq!(job["spec"]["template"]["metadata"]["annotations"][objects::RUN_FOR], "1800s");
    }

    #[test]
    fn what_does_not_run_is_said() {
        let mut suspended = cron_job("* * * * *");
        if let Change::Put(object) = &mut suspended {
            object["spec"]["suspend"] = json!(true);
        }
        assert_eq!(times(&[(at("00:00"), suspended)]), (Vec::new(), Vec::new()));
        for (schedule, note) in [("0 9 * * *", "has no run"), ("hourly", "is not played")] {
            let (found, notes) = times(&[(at("00:00"), cron_job(schedule))]);
            assert!(found.is_empty() && notes[0].contains(note), "{notes:?}");
        }
        let (found, _) = times(&[(at("00:00"), cron_job("* * * * *"))]);
        assert_eq!(found.len(), 60);
    }
}

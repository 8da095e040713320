//! The Jobs that CronJobs of a trace create: the simulator has no clock of its own for them.

use std::collections::BTreeMap;

use fleetwright_api::duration;
use fleetwright_core::disruption::{Schedule, zone};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
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
        let mut starts = Starts::new(object);
        let mut number = 0;
        let mut at = next(from).filter(|at| *at <= until);
        while let Some(time) = at {
            if number == MAX_RUNS {
                return self.notes.push(format!("CronJob {name}: its first {MAX_RUNS} runs are played"));
            }
            number += 1;
            let after = next(time);
            starts.run(time, job(object, time, after));
            at = after.filter(|at| *at <= until);
        }
        self.jobs.extend(starts.end(until));
        if number == 0 {
            self.notes.push(format!("CronJob {name} has no run between {from} and {until}"));
        }
    }
}

/// The runs of a CronJob by its `concurrencyPolicy`, as far as the trace says how long a run lasts; without that, one lasts until the next.
struct Starts<'a> {
    policy: &'a str,
    /// How long a run lasts.
    lasts: Option<SignedDuration>,
    /// How long after its time a run may start.
    deadline: Option<SignedDuration>,
    /// The last run that was started, and its end.
    running: Option<(Id, Timestamp)>,
    /// The last time at which a run had to wait for another one, with its Job.
    missed: Option<(Timestamp, Value)>,
    changes: Vec<(Timestamp, Change)>,
}

impl<'a> Starts<'a> {
    fn new(object: &'a Value) -> Self {
        let spec = &object["spec"];
        let annotations = &spec["jobTemplate"]["spec"]["template"]["metadata"]["annotations"];
        Self {
            policy: spec["concurrencyPolicy"].as_str().unwrap_or("Allow"),
            lasts: annotations[objects::RUN_FOR].as_str().and_then(|text| duration::parse(text).ok()),
            deadline: spec["startingDeadlineSeconds"].as_i64().map(SignedDuration::from_secs),
            running: None,
            missed: None,
            changes: Vec::new(),
        }
    }

    /// A run at its time.
    fn run(&mut self, time: Timestamp, job: Value) {
        self.start_missed(|end| end < time);
        // Of the times that were missed, the latest counts.
        self.missed = None;
        let running = self.running.clone().filter(|(_, end)| *end > time);
        match (self.policy, running) {
            ("Forbid", Some(_)) => self.missed = Some((time, job)),
            ("Replace", Some((id, _))) => {
                self.changes.push((time, Change::Delete(id)));
                self.start(time, job);
            }
            _ => self.start(time, job),
        }
    }

    /// Starts the run that waited for another one, if that `has_ended` and the run is not too late.
    fn start_missed(&mut self, has_ended: impl Fn(Timestamp) -> bool) {
        let end = self.running.as_ref().map(|(_, end)| *end);
        let Some(end) = end.filter(|end| has_ended(*end)) else { return };
        if let Some((due, job)) = self.missed.take()
            && self.deadline.is_none_or(|deadline| end.duration_since(due) <= deadline)
        {
            self.start(end, job);
        }
    }

    fn start(&mut self, time: Timestamp, job: Value) {
        let end = self.lasts.and_then(|lasts| time.checked_add(lasts).ok());
        self.running = end.map(|end| (identity(&job), end));
        self.changes.push((time, Change::Put(job)));
    }

    fn end(mut self, until: Timestamp) -> Vec<(Timestamp, Change)> {
        self.start_missed(|end| end <= until);
        self.changes
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
        objects::runs_for(&mut spec, &["template"], time);
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
    /// `+` is a Job that starts and `-` one that is deleted, with its minute and the one that it is named for.
    fn with_policy(policy: &str, lasts: &str, more: &Value) -> Vec<String> {
        let mut object = cron_job("*/10 * * * *");
        if let Change::Put(object) = &mut object {
            object["spec"]["concurrencyPolicy"] = json!(policy);
            let all = object["spec"].as_object_mut().unwrap();
            all.extend(more.as_object().unwrap().clone());
            let template = &mut object["spec"]["jobTemplate"]["spec"]["template"];
            template["metadata"]["annotations"] = json!({objects::RUN_FOR: lasts});
        }
        let zero = at("00:00");
        let minute = |at: Timestamp| at.duration_since(zero).as_mins();
        let of =
            |name: &str| name.rsplit_once('-').unwrap().1.parse::<i64>().unwrap() - zero.as_second() / 60;
        let line = |(at, change): &(Timestamp, Change)| match change {
            Change::Put(job) => format!("+{}:{}", minute(*at), of(job["metadata"]["name"].as_str().unwrap())),
            Change::Delete(id) => format!("-{}:{}", minute(*at), of(&id.3)),
        };
        runs(&[(zero, object)], at("00:40")).jobs.iter().map(line).collect()
    }

    #[test]
    fn runs_overlap_as_the_policy_says() {
        let none = json!({});
        assert_eq!(with_policy("Allow", "15m", &none), ["+10:10", "+20:20", "+30:30", "+40:40"]);
        assert_eq!(
            with_policy("Replace", "15m", &none),
            ["+10:10", "-20:10", "+20:20", "-30:20", "+30:30", "-40:30", "+40:40"]
        );
        // A run that had to wait starts when the other one has ended: the latest of several.
        assert_eq!(with_policy("Forbid", "15m", &none), ["+10:10", "+25:20", "+40:40"]);
        assert_eq!(with_policy("Forbid", "25m", &none), ["+10:10", "+35:30"]);
        let short = json!({"startingDeadlineSeconds": 60});
        assert_eq!(with_policy("Forbid", "15m", &short), ["+10:10", "+30:30"]);
        assert_eq!(with_policy("Forbid", "10m", &none), ["+10:10", "+20:20", "+30:30", "+40:40"]);
    }
}

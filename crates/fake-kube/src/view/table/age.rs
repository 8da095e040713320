//! Durations as kubectl prints them.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// The short form that is readable at a glance: two units at most, and only one where the second says little.
#[must_use]
pub fn human_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    match seconds {
        // A clock that is a little ahead is as good as equal.
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => pair(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

fn pair(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

/// The time since a timestamp; `<unknown>` if there is none.
pub(super) fn since(timestamp: Option<&str>, now: Timestamp) -> String {
    match timestamp.and_then(|text| text.parse::<Timestamp>().ok()) {
        Some(then) => human_duration(now.duration_since(then)),
        None => "<unknown>".to_owned(),
    }
}

/// The cell of an `Age` column.
pub(super) fn cell(object: &Value, now: Timestamp) -> Value {
    json!(since(object.pointer("/metadata/creationTimestamp").and_then(Value::as_str), now))
}

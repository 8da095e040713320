//! docs/safety.md has the table of the code.

use std::{fmt::Write as _, fs, path::Path};

use fleetwright_core::{
    cloud::InterruptionKind,
    safety::{Cause, Limit, Share, WINDOW, limits_of},
};

use super::*;

const CAUSES: [Cause; 13] = [
    Cause::Expired,
    Cause::Unhealthy,
    Cause::GarbageCollected,
    Cause::RegistrationTimeout,
    Cause::InitializationTimeout,
    Cause::LaunchTimeout,
    Cause::InsufficientCapacity,
    Cause::NodeClassNotReady,
    Cause::NodeDeleted,
    Cause::Surplus,
    Cause::Interrupted(InterruptionKind::InstanceStatus),
    Cause::Interrupted(InterruptionKind::SystemStatus),
    Cause::Interrupted(InterruptionKind::Spot),
];

/// The table of docs/safety.md.
fn table() -> String {
    let mut text = String::from("| act | limits, in the order in which they are checked |\n|---|---|\n");
    let acts = [Act::CreateClaim].into_iter().chain(CAUSES.map(Act::DeleteClaim));
    for act in acts.chain([Act::Evict, Act::Terminate, Act::TerminateOrphan, Act::Taint]) {
        let limits: Vec<String> =
            limits_of(act).iter().map(|limit| format!("`{}`", limit.as_str())).collect();
        let limits = if limits.is_empty() { "none".to_owned() } else { limits.join(", ") };
        let name = match act {
            Act::DeleteClaim(cause) => {
                format!("`delete_claim`: {}", cause.word())
            }
            other => format!("`{}`", other.as_str()),
        };
        let _ = writeln!(text, "| {name} | {limits} |");
    }
    text.push_str("\n| limit | at most |\n|---|---|\n");
    for limit in Limit::ALL.into_iter().filter(|limit| limit.share().is_some()) {
        let Some(Share { percent, few, parts }) = limit.share() else { continue };
        let parts = if parts > 1 { format!(", one part in {parts} at a time") } else { String::new() };
        let _ = writeln!(
            text,
            "| `{}` | the larger of {few} and {percent}% of all within {} minutes{parts} |",
            limit.as_str(),
            WINDOW.as_secs() / 60
        );
    }
    text
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the switch that writes the table again")]
fn the_documented_table_is_current() {
    const BEGIN: &str =
        "<!-- table: written by `UPDATE_DOCS=1 cargo test -p fleetwright-controllers safety` -->\n";
    const END: &str = "<!-- end of the table -->\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/safety.md");
    let text = fs::read_to_string(&path).expect("docs/safety.md");
    let (head, rest) = text.split_once(BEGIN).expect("the start of the table");
    let (shown, tail) = rest.split_once(END).expect("the end of the table");
    if shown != table() && std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{head}{BEGIN}{}{END}{tail}", table())).expect("docs/safety.md is written");
        return;
    }
    assert_eq!(shown, table(), "UPDATE_DOCS=1 writes it");
}

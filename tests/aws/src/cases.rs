//! The cases in the order of their runs, basic ones first.

use crate::case::{Case, Run};

mod basics;
mod commands;
mod faults;
mod flow;
mod interruption;
mod ownership;
mod pages;

/// All cases. A new one is a function and a line below.
pub(crate) fn all() -> Vec<Case> {
    [basics(), faults(), ownership(), processes()].concat()
}

fn case(name: &'static str, shows: &'static str, run: Run) -> Case {
    Case { name, shows, run }
}

/// What a controller does all day.
fn basics() -> Vec<Case> {
    vec![
        case(
            "nodeclass",
            "selectors, the alias and the role are resolved, the dry run passes, and then nothing changes",
            |cx| Box::pin(basics::nodeclass(cx)),
        ),
        case(
            "selectors",
            "a selector that matches nothing makes its condition false, and true again when it matches",
            |cx| Box::pin(basics::selectors(cx)),
        ),
        case(
            "types",
            "hundreds of types with their figures, sold where there are subnets, at the prices that AWS tells",
            |cx| Box::pin(basics::types(cx)),
        ),
        case(
            "launch",
            "a batch is one fleet of the cheapest type, and each instance is born with every tag",
            |cx| Box::pin(basics::launch(cx)),
        ),
        case(
            "life",
            "instances are described, listed, named after their nodes, and ended, each once",
            |cx| Box::pin(basics::life(cx)),
        ),
        case("together", "sixty launches are one fleet, sixty looks and ends are a call or two", |cx| {
            Box::pin(basics::together(cx))
        }),
        case("pages", "every list is read to its last page", |cx| Box::pin(pages::run(cx))),
        case(
            "interruption",
            "messages of the queue are told of our instances, left to others, and cleared away",
            |cx| Box::pin(interruption::run(cx)),
        ),
    ]
}

/// Faults.
fn faults() -> Vec<Case> {
    vec![
        case(
            "capacity",
            "what has run dry is avoided, remembered, told by type, and tried again later",
            |cx| Box::pin(faults::capacity(cx)),
        ),
        case(
            "throttling",
            "throttled calls are repeated, then given back with a time to wait, and launch nothing twice",
            |cx| Box::pin(faults::throttling(cx)),
        ),
        case("lost", "a launch whose answer is lost is found again, and never made twice", |cx| {
            Box::pin(faults::lost(cx))
        }),
        case("restart", "a new process finds what the old one launched, by token and tags", |cx| {
            Box::pin(faults::restart(cx))
        }),
        case(
            "credentials",
            "an expired token stops launches with a word for it, loses no status, and is over when renewed",
            |cx| Box::pin(faults::credentials(cx)),
        ),
        case(
            "denied",
            "a right that is missing is named with its statement, and only its own feature stands still",
            |cx| Box::pin(faults::denied(cx)),
        ),
    ]
}

/// Whose is what.
fn ownership() -> Vec<Case> {
    vec![
        case(
            "garbage",
            "an instance without a claim is collected by its UID; one without a UID never is",
            |cx| Box::pin(ownership::garbage(cx)),
        ),
        case(
            "two-clusters",
            "two clusters of one name in one account delete nothing of each other's",
            |cx| Box::pin(ownership::two_clusters(cx)),
        ),
        case("identity", "behind another cluster's API server nothing is changed at all", |cx| {
            Box::pin(ownership::identity(cx))
        }),
    ]
}

/// The operator as a process.
fn processes() -> Vec<Case> {
    vec![
        case(
            "flow",
            "a class gets ready, a pending pod gets an instance, and a deleted claim ends it",
            |cx| Box::pin(flow::run(cx)),
        ),
        case("audit", "fleetwright audit tells whose each instance is, and changes nothing", |cx| {
            Box::pin(commands::audit(cx))
        }),
        case("iam", "fleetwright iam check names the rights that policies and roles lack", |cx| {
            Box::pin(commands::iam(cx))
        }),
        case("prices", "fleetwright prices export writes what AWS tells, and says what it does not", |cx| {
            Box::pin(commands::prices(cx))
        }),
    ]
}

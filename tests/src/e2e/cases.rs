//! The cases, in the order in which they run: what a later one builds on comes first.

use super::arguments::Tier;
use super::case::Case;

mod bad_input;
mod hundred_pods;
mod kill;
mod kubectl_verbs;
mod pdb_drain;
mod printer_columns;
mod refusals;
mod restart;
mod scale_to_zero;
mod server_restart;
mod watch;

/// All cases. A new one is a file and a line here.
pub(crate) fn all() -> Vec<Case> {
    let case = |name, shows, run| Case { name, shows, only: None, run };
    vec![
        case("crds", "the CRDs are accepted, established, served and fill in their defaults", |cx| {
            Box::pin(refusals::crds(cx))
        }),
        case("refusals", "every CEL rule refuses what it should, in the same words on both servers", |cx| {
            Box::pin(refusals::refusals(cx))
        }),
        case("kubectl", "stock kubectl applies, reads, waits, scales, explains and deletes", |cx| {
            Box::pin(kubectl_verbs::run(cx))
        }),
        case("kubectl-watch", "stock kubectl watches a NodePool change", |cx| Box::pin(watch::run(cx))),
        case("hundred-pods", "a Deployment of 100 pods gets nodes and is bound by the scheduler", |cx| {
            Box::pin(hundred_pods::run(cx))
        }),
        case("scale-to-zero", "a Deployment scaled to zero leaves an empty fleet", |cx| {
            Box::pin(scale_to_zero::run(cx))
        }),
        case("printer-columns", "kubectl shows in every column what the operator wrote", |cx| {
            Box::pin(printer_columns::run(cx))
        }),
        case("pdb-drain", "a drain waits for a PodDisruptionBudget and goes on when it permits", |cx| {
            Box::pin(pdb_drain::run(cx))
        }),
        case("kill", "kill -9 at random moments of a scale-up leaves no duplicate and no orphan", |cx| {
            Box::pin(kill::run(cx))
        }),
        case("unknown-nodeclass", "a NodePool with an unknown NodeClass says so, and others work on", |cx| {
            Box::pin(bad_input::unknown_node_class(cx))
        }),
        case("impossible-pods", "pods and pools that ask for the impossible do not hold up others", |cx| {
            Box::pin(bad_input::impossible_pods(cx))
        }),
        case("bad-catalogue", "a catalogue with bad prices is refused with the field's name", |cx| {
            Box::pin(bad_input::catalogue(cx))
        }),
        case("restart", "SIGTERM ends the operator cleanly, and the next one takes over", |cx| {
            Box::pin(restart::run(cx))
        }),
        Case {
            name: "server-restart",
            shows: "the operator outlives a killed API server and works on",
            only: Some(Tier::Kube),
            run: |cx| Box::pin(server_restart::run(cx)),
        },
    ]
}

//! The cases in the order of their start: basic ones first, then the longest ones.

pub(super) use nominated_pods::grant_nominations;

use super::arguments::Tier;
use super::case::{Case, Run};

mod bad_input;
mod do_not_disrupt;
mod drift_budget;
mod foreseen;
mod hundred_pods;
mod installed;
mod karpenter;
mod kill;
mod kubectl_verbs;
mod leader;
mod neighbor;
mod nominated_pods;
mod pdb_blocks;
mod pdb_drain;
mod permissions;
mod phases;
mod printer_columns;
mod probes;
mod read_only;
mod refusals;
mod replacement;
mod restart;
mod scale_to_zero;
mod server_restart;
mod shadow;
mod watch;

/// All cases. A new one is a file and a line below.
pub(crate) fn all() -> Vec<Case> {
    [first(), disruption(), whole(), install(), beside_karpenter()].concat()
}

fn case(name: &'static str, shows: &'static str, run: Run) -> Case {
    Case { name, shows, only: None, run }
}

/// Before the first pod: what is applied, and what is in its way. Each has an API server of its own.
fn install() -> Vec<Case> {
    let case = |name, shows, run| Case { name, shows, only: Some(Tier::Kube), run };
    vec![
        case(
            "install",
            "deploy/ is accepted as it is, its permissions suffice, compat agrees, and plan has a node for each example",
            |cx| Box::pin(installed::manifests(cx)),
        ),
        case(
            "compat-leases",
            "compat names two leaders' leases, a chart of 1.0 and settings that it may not read",
            |cx| Box::pin(installed::leftovers(cx)),
        ),
        case(
            "compat-definitions",
            "half-installed definitions and stored v1beta1 objects: compat and the start say what to do",
            |cx| Box::pin(installed::definitions(cx)),
        ),
    ]
}

/// Beside Karpenter itself, or in its place.
fn beside_karpenter() -> Vec<Case> {
    let case = |name, shows, run| Case { name, shows, only: Some(Tier::Karpenter), run };
    vec![
        case(
            "karpenter-switch",
            "from Karpenter to Fleetwright and back: no node is lost, replaced or drifted, and nothing stays",
            |cx| Box::pin(karpenter::switch(cx)),
        ),
        case(
            "karpenter-shadow",
            "shadow mode beside a leading Karpenter writes nothing, and reports that both agree",
            |cx| Box::pin(karpenter::shadow(cx)),
        ),
        case(
            "karpenter-contract",
            "metrics, event reasons and log messages are those that Karpenter shows of the same work",
            |cx| Box::pin(karpenter::contract(cx)),
        ),
    ]
}

/// What all others build on.
fn first() -> Vec<Case> {
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
        case("probes", "probes and metrics answer over IPv4 and IPv6", |cx| Box::pin(probes::run(cx))),
        case("kubectl-watch", "stock kubectl watches a NodePool change", |cx| Box::pin(watch::run(cx))),
    ]
}

/// What takes long: instances that go, and operators that are killed.
fn disruption() -> Vec<Case> {
    vec![
        case(
            "kill-end",
            "kill -9 at each step of a replacement and of an end leaves nothing marked or lost",
            |cx| Box::pin(phases::end(cx)),
        ),
        case(
            "kill-birth",
            "kill -9 at each step from pod to initialized node leaves one instance for each",
            |cx| Box::pin(phases::birth(cx)),
        ),
        case("kill-undo", "a command that was interrupted and is not wanted any more leaves no mark", |cx| {
            Box::pin(phases::undo(cx))
        }),
        case("leader", "of two operators one acts; killed or paused, the other takes over", |cx| {
            Box::pin(leader::run(cx))
        }),
        case("drift-budget", "drift of 20 nodes never exceeds a budget of 10 %, at no moment", |cx| {
            Box::pin(drift_budget::run(cx))
        }),
        case(
            "do-not-disrupt",
            "a protected pod goes at the deadline of its node, or when its time is over",
            |cx| Box::pin(do_not_disrupt::run(cx)),
        ),
        case("replacement", "a node whose replacement never initializes stays, without taint", |cx| {
            Box::pin(replacement::run(cx))
        }),
        case(
            "pdb-blocks",
            "a PodDisruptionBudget keeps a drifted node, says so, and lets it go when lifted",
            |cx| Box::pin(pdb_blocks::run(cx)),
        ),
    ]
}

/// The whole flow, and what disturbs it.
fn whole() -> Vec<Case> {
    vec![
        case("hundred-pods", "a Deployment of 100 pods gets nodes and is bound by the scheduler", |cx| {
            Box::pin(hundred_pods::run(cx))
        }),
        case("shadow", "shadow mode beside a leader writes nothing, and agrees with it", |cx| {
            Box::pin(shadow::run(cx))
        }),
        case(
            "neighbor",
            "an operator of another cloud runs beside ours, and neither touches the other's",
            |cx| Box::pin(neighbor::run(cx)),
        ),
        case(
            "foreseen",
            "plan, disrupt and a replay of the recording agree with what the controller does",
            |cx| Box::pin(foreseen::run(cx)),
        ),
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
            name: "permissions",
            shows: "without a permission its feature is off, nothing else, and it comes back without a restart",
            only: Some(Tier::Kube),
            run: |cx| Box::pin(permissions::run(cx)),
        },
        Case {
            name: "read-only",
            shows: "top, report, lint, plan and dump work for a reader who may list some kinds, and say what they lack",
            only: Some(Tier::Kube),
            run: |cx| Box::pin(read_only::run(cx)),
        },
        Case {
            name: "nominated-pods",
            shows: "kube-scheduler binds pods to the nodes that were planned for them",
            only: Some(Tier::Kube),
            run: |cx| Box::pin(nominated_pods::run(cx)),
        },
        Case {
            name: "server-restart",
            shows: "the operator outlives a killed API server and works on",
            only: Some(Tier::Kube),
            run: |cx| Box::pin(server_restart::run(cx)),
        },
    ]
}

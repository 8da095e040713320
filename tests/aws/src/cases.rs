//! The cases in the order of their runs, basic ones first.

use crate::case::{Case, Run};

mod basics;
mod chaos;
mod commands;
mod consistency;
mod crowd;
mod devices;
mod faults;
mod fleets;
mod flow;
mod images;
mod interruption;
mod limits;
mod load;
mod operators;
mod owned;
mod ownership;
mod pages;
mod plan;
mod policies;
mod refusals;
mod reserved;
mod trial;
mod windows;

/// All cases. A new one is a function and a line below.
pub(crate) fn all() -> Vec<Case> {
    [
        basics(),
        faults(),
        late(),
        partial(),
        refused(),
        permissions(),
        limited(),
        owned(),
        ownership(),
        processes(),
        load(),
        trials(),
    ]
    .concat()
}

fn case(name: &'static str, shows: &'static str, run: Run) -> Case {
    Case { name, shows, run, is_long: false }
}

/// A case that runs by hand alone.
fn long(name: &'static str, shows: &'static str, run: Run) -> Case {
    Case { is_long: true, ..case(name, shows, run) }
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
        case(
            "windows",
            "a class of Windows images launches Windows nodes, and claims for Linux none",
            |cx| Box::pin(windows::run(cx)),
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

/// Eventual consistency.
fn late() -> Vec<Case> {
    vec![
        case(
            "profile-late",
            "a new instance profile is waited for, is no refusal, and the first scale-up is one fleet",
            |cx| Box::pin(consistency::profile(cx)),
        ),
        case(
            "profile-unseen",
            "an instance profile that IAM itself does not show yet is waited for, and is not deleted",
            |cx| Box::pin(consistency::profile_unseen(cx)),
        ),
        case(
            "instances-late",
            "an instance that EC2 does not show yet is not taken for a terminated one",
            |cx| Box::pin(consistency::instances(cx)),
        ),
        case(
            "lost-and-late",
            "a lost launch that EC2 does not show is not launched again by a new process",
            |cx| Box::pin(consistency::lost_and_late(cx)),
        ),
        case("templates-late", "a launch template that launches do not know yet is waited for", |cx| {
            Box::pin(consistency::templates(cx))
        }),
        case(
            "slow-instances",
            "instances that take a minute to start and to stop are waited for, and ended once",
            |cx| Box::pin(consistency::slow(cx)),
        ),
        case("instances-omitted", "an instance that a list lacks now and then is not given up", |cx| {
            Box::pin(consistency::omitted(cx))
        }),
        case(
            "all-late",
            "thirty instances are launched and ended once each while everything is late",
            |cx| Box::pin(consistency::strange(cx)),
        ),
    ]
}

/// Fleets that EC2 fulfils in part.
fn partial() -> Vec<Case> {
    vec![
        case("fleet-partial", "a fleet takes what its pools have, and the rest has no capacity", |cx| {
            Box::pin(fleets::partial(cx))
        }),
        case("fleet-mixed", "shortage and a quota in one fleet are told both", |cx| {
            Box::pin(fleets::mixed(cx))
        }),
        case(
            "fleet-throttled",
            "instances that EC2 throttles within a fleet are the next attempt's, as one fleet",
            |cx| Box::pin(fleets::throttled(cx)),
        ),
        case(
            "spot-quota",
            "a quota of spot capacity is told, remembered, and leaves on-demand alone",
            |cx| Box::pin(fleets::spot_quota(cx)),
        ),
        case("spot-pools", "spot capacity comes from a pool with room for all", |cx| {
            Box::pin(fleets::spot_pools(cx))
        }),
        case("spot-prices", "spot capacity comes from the cheapest pool with room for all", |cx| {
            Box::pin(fleets::spot_prices(cx))
        }),
        case("fleet-unsold", "a type that a zone does not have is an error of its own only", |cx| {
            Box::pin(fleets::unsold(cx))
        }),
        case("fleet-addresses", "a subnet without addresses is left out", |cx| {
            Box::pin(fleets::addresses(cx))
        }),
        case(
            "token-mismatch",
            "a token launches nothing twice while its call is under way, nor with another request",
            |cx| Box::pin(fleets::mismatch(cx)),
        ),
        case(
            "template-deleted",
            "a launch template that was deleted by hand is made again within the launch",
            |cx| Box::pin(fleets::template_deleted(cx)),
        ),
    ]
}

/// Launches that EC2 refuses by type or by quota.
fn refused() -> Vec<Case> {
    vec![
        case(
            "type-settings",
            "a class is launched on types that support its settings, and on no others",
            |cx| Box::pin(refusals::settings_of_types(cx)),
        ),
        case(
            "type-refused",
            "a setting that EC2 refuses for a type is told in its words, and another type is launched",
            |cx| Box::pin(refusals::surprise(cx)),
        ),
        case(
            "image-withheld",
            "an image without launch permission or subscription is named by claims and class, and rules out no type",
            |cx| Box::pin(images::withheld(cx)),
        ),
        long(
            "image-unsubscribed",
            "the operator says that a Marketplace image needs a subscription, and launches once there is one",
            |cx| Box::pin(images::unsubscribed_operator(cx)),
        ),
        case("fleet-quota", "a quota of fleets is named, and rules out no type", |cx| {
            Box::pin(refusals::fleet_quota(cx))
        }),
        case("template-quota", "a quota of launch templates is named, and known templates launch", |cx| {
            Box::pin(refusals::template_quota(cx))
        }),
    ]
}

/// IAM.
fn permissions() -> Vec<Case> {
    vec![
        case(
            "iam-fleet",
            "a missing statement for fleets is told with the action, and no encoded text",
            |cx| Box::pin(policies::fleet(cx)),
        ),
        case("iam-organization", "a denial of a service control policy is told as such", |cx| {
            Box::pin(policies::organization(cx))
        }),
        case("iam-boundary", "what a permissions boundary leaves out is told as such", |cx| {
            Box::pin(policies::boundary(cx))
        }),
        case("iam-role", "a role that may not be passed is told as such", |cx| Box::pin(policies::role(cx))),
        case(
            "iam-metadata",
            "an organization that demands IMDSv2 lets the dry run and launches pass",
            |cx| Box::pin(policies::metadata(cx)),
        ),
        case("iam-strict", "the strict policy allows the whole life of a node", |cx| {
            Box::pin(policies::strict(cx))
        }),
        case("iam-other-cluster", "with the permissions of another cluster nothing is made", |cx| {
            Box::pin(policies::other_cluster(cx))
        }),
        case(
            "iam-fleet-errors",
            "launches that are denied within a fleet say which policy denies them",
            |cx| Box::pin(policies::fleet_errors(cx)),
        ),
        case("iam-untagged", "one instance that may not be ended holds up no other", |cx| {
            Box::pin(policies::untagged(cx))
        }),
        case("iam-own-boundary", "our policy as a boundary allows what it allows as a policy", |cx| {
            Box::pin(policies::all_allowed(cx))
        }),
    ]
}

/// Rates, pages, clocks.
fn limited() -> Vec<Case> {
    vec![
        case("buckets", "forty launches of their own stay within EC2's token buckets", |cx| {
            Box::pin(limits::buckets(cx))
        }),
        case("bucket-terminations", "120 ends stay within EC2's buckets for calls and instances", |cx| {
            Box::pin(limits::terminations(cx))
        }),
        case("odd-pages", "lists are complete whatever the size of a page", |cx| {
            Box::pin(limits::odd_pages(cx))
        }),
        case(
            "clock-skew",
            "a clock that AWS does not accept is named, and four minutes do not matter",
            |cx| Box::pin(limits::skew(cx)),
        ),
    ]
}

/// Capacity with an owner.
fn owned() -> Vec<Case> {
    vec![
        case("reserved", "a reservation is used first, and on-demand capacity once it is full", |cx| {
            Box::pin(reserved::used_first(cx))
        }),
        case("reserved-taken", "a reservation that others have filled is told, and known", |cx| {
            Box::pin(reserved::taken(cx))
        }),
        case(
            "capacity-block",
            "a block is used from its start, drained before its end, and then not used",
            |cx| Box::pin(reserved::block(cx)),
        ),
        case("spread-group", "a spread group holds seven instances per zone", |cx| {
            Box::pin(reserved::spread(cx))
        }),
        case("cluster-group", "a cluster group stays in one zone", |cx| {
            Box::pin(reserved::cluster_group(cx))
        }),
        case("partition-group", "a partition that a claim asks for is the instance's", |cx| {
            Box::pin(reserved::partitions(cx))
        }),
        case("efa", "a claim for EFA gets an interface of that kind, and no other does", |cx| {
            Box::pin(reserved::efa(cx))
        }),
        long(
            "block-ends",
            "the operator drains the node of a capacity block before EC2 terminates it, and launches none",
            |cx| Box::pin(owned::block_ends(cx)),
        ),
        case(
            "cluster-group-full",
            "the operator launches into one zone of a cluster group, and says why the rest is not launched",
            |cx| Box::pin(owned::cluster_group(cx)),
        ),
        case(
            "efa-operator",
            "a pod that requests EFA gets an instance with an EFA interface, and no other pod does",
            |cx| Box::pin(owned::efa(cx)),
        ),
        case("zonal-shift", "a zone that traffic is shifted away from is not used meanwhile", |cx| {
            Box::pin(reserved::shift(cx))
        }),
        case("autoshift", "nor is one that AWS itself shifts traffic away from", |cx| {
            Box::pin(reserved::autoshift(cx))
        }),
    ]
}

/// The tier for a real account.
fn trials() -> Vec<Case> {
    vec![
        case(
            "trial",
            "the trial of a real account tries all families, spends no more than it may, leaves nothing",
            |cx| Box::pin(trial::spends(cx)),
        ),
        long(
            "trial-killed",
            "a trial that is killed as it launches leaves nothing, with its guard and without",
            |cx| Box::pin(trial::killed(cx)),
        ),
    ]
}

/// Load, chaos and GPUs.
fn load() -> Vec<Case> {
    vec![
        case(
            "two-operators",
            "two operators of one name as processes launch once each, and delete nothing of each other's",
            |cx| Box::pin(operators::two(cx)),
        ),
        long(
            "kills",
            "the operator is killed before and after each call that changes something, and nothing is left",
            |cx| Box::pin(chaos::kills(cx)),
        ),
        case("plan", "what fleetwright plan says of pools of a class is what the operator launches", |cx| {
            Box::pin(plan::agrees(cx))
        }),
        case("steady-hour", "a steady hour changes nothing and takes few calls", |cx| {
            Box::pin(load::steady(cx))
        }),
        long("thousand", "a thousand nodes go up and down under throttling and shortage", |cx| {
            Box::pin(load::thousand(cx))
        }),
        case("devices", "pods with resource claims get nodes with the GPUs that they claim", |cx| {
            Box::pin(devices::claimed(cx))
        }),
        case(
            "crowd",
            "the operator launches forty nodes and ends them under throttling and shortage",
            |cx| Box::pin(crowd::up_and_down(cx, crowd::FORTY)),
        ),
        long("crowd-thousand", "the operator does the same with a thousand nodes", |cx| {
            Box::pin(crowd::up_and_down(cx, crowd::THOUSAND))
        }),
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

//! The suite catches broken providers: each bug fails the case that is about it. A bug that its case does not catch is a defect of the suite.

use fleetwright_core::cloud::conformance::{self, Failure};
use fleetwright_fake::catalogue::kwok;

use crate::{
    bugs::Bug,
    harness::{Fake, Options},
};

/// Each bug and the case that catches it.
const CAUGHT_BY: [(Bug, &str); 59] = [
    (Bug::NewTokenForEachCall, "a repeated call launches nothing more"),
    (Bug::ChecksThenCreates, "two calls of one attempt at a time launch once"),
    (Bug::NewTokenWhileACallRuns, "a launch that is dropped at any await is repeated"),
    (Bug::OneCallAtATime, "a launch that is not answered holds up no other"),
    (Bug::ReversesAnswers, "answers stand in the order of requests"),
    (Bug::ThrottledLaunchIsUnknown, "a throttled launch launches nothing"),
    (Bug::LostLaunchIsFailed, "a call whose answer was lost is repeated without effect"),
    (Bug::DeniedLaunchIsNoCapacity, "a launch that is not permitted fails and launches nothing"),
    (Bug::QuotaIsNoCapacity, "a launch above a quota names it and launches nothing"),
    (Bug::PendingLaunchIsUnknown, "a launch that is under way is asked for again"),
    (Bug::NewTokenAfterPending, "a launch that is under way is asked for again"),
    (Bug::FailsLargeLaunches, "five thousand requests get five thousand instances"),
    (Bug::OneInstanceForManyClaims, "five thousand requests get five thousand instances"),
    (Bug::IgnoresRequests, "an instance has room for what its claim requests"),
    (Bug::IgnoresReadiness, "a class that is not ready launches nothing"),
    (Bug::LaunchIgnoresClass, "a class restricts the instances of its claims"),
    (Bug::LeaksAnInstance, "a repeated call launches nothing more"),
    (Bug::TellsNoBatch, "an instance carries claim, batch and cluster from birth"),
    (Bug::TellsAnotherZone, "the cloud runs what the provider tells"),
    (Bug::TellsNoZone, "an instance tells type, zone and capacity type"),
    (Bug::TellsCapacityAsAllocatable, "an instance has the resources of the catalogue"),
    (Bug::AnotherType, "the cloud runs what the provider tells"),
    (Bug::NoUnregisteredTaint, "a node is born with the labels and taints of its claim"),
    (Bug::NoTaintsOfTheClaim, "a node is born with the labels and taints of its claim"),
    (Bug::NoLabelsOfTheClaim, "a node is born with the labels and taints of its claim"),
    (Bug::LabelsOfTheLaunchAlone, "an instance keeps the labels of its launch"),
    (Bug::HoldsNodesForEver, "a node is let be registered, and so it stays"),
    (Bug::HoldsNodesAgainAfterARestart, "a node is let be registered, and so it stays"),
    (Bug::EndsForeign, "another cluster's instance is never ended"),
    (Bug::EndsForeignOrphans, "another cluster's instance is no orphan"),
    (Bug::EndsUnownedOrphans, "an instance that nobody owns is no orphan"),
    (Bug::RefusesToEndTwice, "termination is repeated until gone, and gone for good"),
    (Bug::RefusesToEndWhatIsGone, "termination is repeated until gone, and gone for good"),
    (Bug::FailedTerminationIsGone, "a termination that fails is an error and ends nothing"),
    (Bug::FailedGetIsNotFound, "a get that fails is an error and not the end of an instance"),
    (Bug::FailedListIsEmpty, "a list that fails is an error"),
    (Bug::DeniedIsUnavailable, "a get that fails is an error and not the end of an instance"),
    (Bug::ThrottledIsUnavailable, "the end of an orphan that fails is an error"),
    (Bug::FirstPageOnly, "a list has all pages, or it fails"),
    (Bug::BrokenPageIsTheLast, "a list has all pages, or it fails"),
    (Bug::ListsForeign, "list is complete and ours alone"),
    (Bug::ListsNothingThatTerminates, "a terminating instance is listed as such"),
    (Bug::GetsFromMemory, "a get that fails is an error and not the end of an instance"),
    (Bug::NeverDrifts, "a changed class drifts its own instances"),
    (Bug::AlwaysDrifts, "nothing is drifted right after launch"),
    (Bug::AnyClassDrifts, "a changed class drifts its own instances"),
    (Bug::FailureIsDrift, "a failure is not drift"),
    (Bug::CatalogIgnoresClass, "a class restricts the catalogue of its pools"),
    (Bug::CopiesTheCatalog, "an unchanged catalogue is the same Arc"),
    (Bug::CountsByType, "what instance types share is counted once"),
    (Bug::CountsNoLaunches, "what instance types share is counted once"),
    (Bug::ProvesAnyCluster, "identity is proven again for the same cluster only"),
    (Bug::IdentifiesByName, "two clusters of one name do not touch each other's instances"),
    (Bug::StepInterruptsAll, "a step waits before its next round, and lets a healthy instance be"),
    (Bug::StepNeverRests, "a step waits before its next round, and lets a healthy instance be"),
    (Bug::FailedListInterruptsAll, "a step whose calls fail lets a healthy instance be"),
    (Bug::RepairsAtOnce, "a repair policy gives a node time"),
    (Bug::ReservedAsOnDemand, "reserved capacity is launched as reserved, as far as it goes"),
    (Bug::ReservationsWithoutCount, "a reserved offering tells its reservation and what is left"),
];

#[tokio::test]
async fn every_bug_is_caught_by_its_case() {
    let cases = conformance::cases();
    let mut survivors = Vec::new();
    for (bug, name) in CAUGHT_BY {
        let case = cases.iter().find(|case| case.name == name).unwrap();
        let options = Options { class_rules: true, bug: Some(bug), ..Options::of(kwok()) };
        match case.run(&Fake::new(options).await).await {
            Err(Failure::Broken(_)) => {}
            survived => survivors.push(format!("{bug:?} survives {name:?}: {survived:?}")),
        }
    }
    assert!(survivors.is_empty(), "{}", survivors.join("\n"));
}

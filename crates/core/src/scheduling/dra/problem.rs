//! Why the claims of a pod keep it from having a place.

use std::fmt;

use crate::model::{NamespacedName, Str};

/// A problem of a claim on every node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimProblem {
    /// The API server refuses a kind that claims need; says which, and how to mend it.
    Refused(Str),
    /// There is no such ResourceClaim.
    NotFound(NamespacedName),
    /// There is no such ResourceClaimTemplate.
    TemplateNotFound(NamespacedName),
    /// It is being deleted.
    Deleting(NamespacedName),
    /// There is no such DeviceClass.
    NoClass {
        /// The claim.
        claim: NamespacedName,
        /// The request, or `request/subrequest`.
        request: Str,
        /// The class.
        class: Str,
    },
    /// A selector does not compile, or costs too much.
    Selector {
        /// The claim.
        claim: NamespacedName,
        /// The request, or `request/subrequest`.
        request: Str,
        /// The expression.
        expression: Str,
        /// The error.
        why: Str,
    },
    /// A constraint of an unknown kind.
    Constraint {
        /// The claim.
        claim: NamespacedName,
        /// The field of the constraint.
        field: Str,
    },
    /// A request without a known field.
    Request {
        /// The claim.
        claim: NamespacedName,
        /// The request.
        request: Str,
    },
    /// More devices than one claim can have.
    TooMany {
        /// The claim.
        claim: NamespacedName,
        /// How many it asks for at least.
        devices: usize,
    },
}

impl fmt::Display for ClaimProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "its resource claims cannot be decided: {refusal}"),
            Self::NotFound(claim) => write!(f, "resourceclaim {claim} not found: create it"),
            Self::TemplateNotFound(template) => {
                write!(f, "resourceclaimtemplate {template} not found: create it")
            }
            Self::Deleting(claim) => write!(f, "resourceclaim {claim} is being deleted: create it again"),
            Self::NoClass { claim, request, class } => write!(
                f,
                "resourceclaim {claim}: deviceclass {class} of request {request} not found: create it"
            ),
            Self::Selector { claim, request, expression, why } => write!(
                f,
                "resourceclaim {claim}: selector {expression:?} of request {request} cannot be used, {why}: correct it"
            ),
            Self::Constraint { claim, field } => {
                write!(f, "resourceclaim {claim}: constraint {field} is not supported: use matchAttribute")
            }
            Self::Request { claim, request } => write!(
                f,
                "resourceclaim {claim}: request {request} is neither exactly nor firstAvailable: use one of them"
            ),
            Self::TooMany { claim, devices } => write!(
                f,
                "resourceclaim {claim} asks for {devices} devices, a claim can have {}: divide it",
                super::MAX_DEVICES
            ),
        }
    }
}

/// Why there are no devices for a pod on a node, or on a new one of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceShortage {
    /// The claim has its devices already, where this is not.
    Elsewhere {
        /// The claim.
        claim: NamespacedName,
    },
    /// The claim gets its devices in this pass on another node, which has no room for the pod.
    Shared {
        /// The claim.
        claim: NamespacedName,
    },
    /// A pool of devices cannot be relied on, and all of its devices are asked for.
    Pool {
        /// The claim.
        claim: NamespacedName,
        /// The request.
        request: Str,
        /// The driver.
        driver: Str,
        /// The pool.
        pool: Str,
        /// Whether it contradicts itself; else slices of it are missing.
        invalid: bool,
    },
    /// Too few devices.
    Devices {
        /// The claim.
        claim: NamespacedName,
        /// The request, or `request/subrequest`.
        request: Str,
        /// The DeviceClass.
        class: Str,
        /// How many more are wanted; `None` is all.
        wanted: Option<u32>,
        /// What became of the devices that are there.
        tally: Tally,
    },
    /// The search was given up: there are too many ways to try.
    TooWide {
        /// The claim.
        claim: NamespacedName,
    },
}

/// How many devices each condition leaves, in the order of the conditions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Devices that are there or will be.
    pub seen: u32,
    /// Of these, those that match the selectors.
    pub matching: u32,
    /// Of these, those whose taints are tolerated.
    pub tolerated: u32,
    /// Of these, those that are not given to others, and have the capacity.
    pub free: u32,
    /// Of these, those that go with the claim's other devices.
    pub matched: u32,
    /// Of these, those that the node can reach.
    pub reached: u32,
}

impl fmt::Display for DeviceShortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elsewhere { claim } => {
                write!(f, "resourceclaim {claim} has its devices elsewhere: let the pod run there")
            }
            Self::Shared { claim } => write!(
                f,
                "resourceclaim {claim} gets its devices on the node of another pod, which has no room for both: give \
                 each pod a claim of its own"
            ),
            Self::Pool { claim, request, driver, pool, invalid } => {
                let what = if *invalid { "contradicts itself" } else { "is incomplete" };
                write!(
                    f,
                    "resourceclaim {claim}: request {request} asks for all devices, but pool {pool} of driver {driver} \
                     {what}: see its resourceslices"
                )
            }
            Self::Devices { claim, request, class, wanted, tally } => {
                let wanted = wanted.map_or_else(|| "all devices".to_owned(), |count| format!("{count} more"));
                write!(
                    f,
                    "resourceclaim {claim}: request {request} wants {wanted} of class {class}, of {} devices {} match, \
                     {} of them have no taint that keeps it away, {} of those are free, {} go with its other devices, \
                     {} can be reached",
                    tally.seen, tally.matching, tally.tolerated, tally.free, tally.matched, tally.reached
                )
            }
            Self::TooWide { claim } => write!(
                f,
                "resourceclaim {claim}: too many combinations of devices were tried: make its selectors narrower"
            ),
        }
    }
}

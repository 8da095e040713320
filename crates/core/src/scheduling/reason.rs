//! Why a pod cannot be placed: typed, with figures; rendered here for events, `explain` and JSON alike.

use std::fmt;

use crate::model::{Incompatible, PoolName, ResourceName, Resources, Str, Taint};

/// Why a pod has no place.
#[derive(Clone, Debug, PartialEq)]
pub enum Unplaced {
    /// There is no NodePool that could help anyone.
    NoPools,
    /// No NodePool can help this pod; the first constraint that eliminated each, in the order tried.
    NoPoolFits(Vec<PoolVerdict>),
    /// Something about the pod itself keeps it from being scheduled at all.
    Invalid(Str),
    /// It waits for something else first (a volume that binds immediately); named.
    Waiting(Str),
    /// Compatible reserved capacity exists but is taken: the next pass tries again.
    ReservedCapacityTaken,
    /// The bound on the work was reached before this pod: the next pass takes it first.
    NotReached,
}

/// Why one pool cannot help a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolVerdict {
    /// The pool.
    pub pool: PoolName,
    /// The first constraint that eliminated it.
    pub eliminated: Eliminated,
}

/// The constraint that eliminated a pool for a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Eliminated {
    /// The pool has no instance types (yet).
    NoInstanceTypes,
    /// The pod does not tolerate a taint of the pool.
    Taint(Taint),
    /// The requirements of pool and pod exclude each other.
    Requirements(Incompatible),
    /// A limit of the pool leaves no room.
    Limit {
        /// Resource name, or `nodes`.
        resource: Str,
        /// In use.
        usage: i64,
        /// The limit.
        limit: i64,
    },
    /// No domain satisfies a topology constraint.
    Topology {
        /// `topology spread`, `pod affinity` or `pod anti-affinity`.
        kind: &'static str,
        /// The topology key.
        key: Str,
    },
    /// No instance type is left.
    InstanceTypes {
        /// How many there were.
        total: usize,
        /// How many of them the requirements allow.
        allowed: usize,
        /// How many of those are large enough.
        large_enough: usize,
        /// How many of those can be bought now.
        available: usize,
        /// What is asked for, daemons included.
        requests: Resources,
    },
    /// minValues of a key cannot be met.
    MinValues {
        /// The label key.
        key: Str,
        /// What is demanded.
        wanted: u32,
        /// What there is.
        found: u32,
    },
    /// A host port is taken.
    HostPort(u16),
}

impl Unplaced {
    /// The reason as one word.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::NoPools => "NoNodePools",
            Self::NoPoolFits(_) => "NoNodePoolFits",
            Self::Invalid(_) => "Invalid",
            Self::Waiting(_) => "Waiting",
            Self::ReservedCapacityTaken => "ReservedCapacityTaken",
            Self::NotReached => "NotReached",
        }
    }
}

impl Eliminated {
    /// The constraint as one word.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::NoInstanceTypes => "NoInstanceTypes",
            Self::Taint(_) => "Taint",
            Self::Requirements(_) => "Requirements",
            Self::Limit { .. } => "Limit",
            Self::Topology { .. } => "Topology",
            Self::InstanceTypes { allowed: 0, .. } => "InstanceTypeRequirements",
            Self::InstanceTypes { large_enough: 0, .. } => "Resources",
            Self::InstanceTypes { .. } => "Offering",
            Self::MinValues { .. } => "MinValues",
            Self::HostPort(_) => "HostPort",
        }
    }
}

/// Karpenter's words where it has some, then the nearest fix.
impl fmt::Display for Unplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPools => {
                f.write_str("no dynamic nodepools found: create a NodePool, or see why none is ready")
            }
            Self::NoPoolFits(verdicts) => {
                // An event has a size.
                const SHOWN: usize = 5;
                for (at, verdict) in verdicts.iter().take(SHOWN).enumerate() {
                    let separator = if at == 0 { "" } else { "; " };
                    write!(f, "{separator}{verdict}")?;
                }
                match verdicts.len().saturating_sub(SHOWN) {
                    0 => Ok(()),
                    more => write!(f, "; and {more} more nodepools"),
                }
            }
            Self::Invalid(why) => f.write_str(why),
            Self::Waiting(what) => write!(f, "waits for {what}"),
            Self::ReservedCapacityTaken => f.write_str(
                "one or more instance types with compatible reserved offerings are available, but could not be reserved",
            ),
            Self::NotReached => f.write_str("not reached in this pass: it comes first in the next one"),
        }
    }
}

/// `incompatible with nodepool "default", …`.
impl fmt::Display for PoolVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.eliminated {
            Eliminated::Limit { resource, usage, limit } if &**resource == "nodes" => write!(
                f,
                "node limits have been exhausted for nodepool {:?} ({usage} of {limit} nodes): raise spec.limits.nodes",
                &*self.pool
            ),
            Eliminated::Limit { resource, usage, limit } => {
                let name = ResourceName::from(&**resource);
                write!(
                    f,
                    "all available instance types exceed limits for nodepool {:?} ({resource}: {} of {} in use): raise \
                     spec.limits.{resource}",
                    &*self.pool,
                    name.quantity(*usage),
                    name.quantity(*limit)
                )
            }
            Eliminated::NoInstanceTypes => {
                write!(f, "nodepool {:?} has no instance types that can be bought", &*self.pool)
            }
            other => write!(f, "incompatible with nodepool {:?}, {other}", &*self.pool),
        }
    }
}

impl fmt::Display for Eliminated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoInstanceTypes => f.write_str("no instance types"),
            Self::Taint(taint) => write!(f, "did not tolerate taint {taint}: add a toleration"),
            Self::Requirements(why) => write!(f, "incompatible requirements, {why}"),
            Self::Limit { resource, usage, limit } => write!(f, "limit of {resource}: {usage} of {limit}"),
            Self::Topology { kind, key } => {
                write!(f, "unsatisfiable topology constraint for {kind}, key={key}")
            }
            Self::InstanceTypes { total, allowed, large_enough, available, requests } => {
                let why = match (*allowed, *large_enough, *available) {
                    (0, ..) => "no instance type met all requirements",
                    (_, 0, _) if requests.cpu() >= MILLION_CPUS => {
                        "no instance type has enough resources (CPU request >= 1 Million, m vs M typo?)"
                    }
                    (_, 0, _) => "no instance type has enough resources",
                    (_, _, 0) => "no instance type has the required offering",
                    _ => "no instance type met the requirements/resources/offering tuple",
                };
                write!(
                    f,
                    "{why}, of {total} types {allowed} met the requirements, {large_enough} of them are large enough, \
                     {available} of those can be bought, resources={{{requests}}}"
                )
            }
            Self::MinValues { key, wanted, found } => write!(
                f,
                "minValues requirement is not met for label(s) (label(s)=[{key}]), {found} of {wanted} values"
            ),
            Self::HostPort(port) => write!(f, "host port {port} is taken by a daemon on every instance type"),
        }
    }
}

/// A request of so many milli-CPUs is a typing error.
const MILLION_CPUS: i64 = 1_000_000_000;

//! Why a pod cannot be placed: typed, with figures; rendered here for events, `explain` and JSON alike.

use crate::model::{Incompatible, PoolName, Resources, Str, Taint};

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

//! Why a pod cannot be placed: typed, with figures; rendered here for events, `explain` and JSON.

use std::{fmt, sync::Arc, time::Duration};

use jiff::Timestamp;

use crate::{
    clock::written,
    model::{
        Incompatible, PoolName, Requirement, ResourceName, Resources, Rounding, Str, Taint,
        figures::{Requested, amount},
        labels::{HOSTNAME, NODEPOOL},
    },
    scheduling::dra::problem::{ClaimProblem, DeviceShortage},
};

/// Why a pod is unschedulable.
#[derive(Clone, Debug, PartialEq)]
pub enum Unplaced {
    /// No NodePool takes part in scheduling.
    NoPools,
    /// No NodePool can help this pod; the first constraint that eliminated each, in the order tried: first the NodePools that the
    /// pod selects, then those that its node selector, affinity or tolerations exclude.
    NoPoolFits(Arc<[PoolVerdict]>),
    /// One of its resource claims can be satisfied nowhere.
    Claims(Box<ClaimProblem>),
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
    /// The pool has no instance types (yet): why, where the catalogue says so.
    NoInstanceTypes(Option<Str>),
    /// Launches for the pool are halted: the reason.
    Halted(Str),
    /// The pod does not tolerate a taint of the pool.
    Taint(Taint),
    /// The requirements of pool and pod exclude each other.
    Requirements {
        /// On which key, and how.
        why: Incompatible,
        /// The label key that was probably meant, where this one is known nowhere, or else the value.
        meant: Option<Str>,
    },
    /// The pod's volumes can be reached from no node of the pool.
    Volumes(Incompatible),
    /// A limit of the pool leaves no room.
    Limit {
        /// Resource name, or `nodes`.
        resource: Str,
        /// In use, with what this plan opens.
        usage: i64,
        /// The limit.
        limit: i64,
        /// By how much it would have to be higher for the smallest node that holds the pod.
        needed: i64,
        /// What of `usage` is reserved by NodeClaims that are not launched yet, those of this plan included: each counts as
        /// the largest instance type that it may become.
        reserved: i64,
        /// How many such NodeClaims there are.
        claims: usize,
    },
    /// No domain satisfies a topology constraint.
    Topology {
        /// `topology spread`, `pod affinity` or `pod anti-affinity`.
        kind: &'static str,
        /// The topology key.
        key: Str,
        /// Whether there is no pod at all that an affinity names.
        unused: bool,
        /// Pods that count by domain, where pods are to be spread or together, for keys other than the hostname.
        counts: Vec<(Str, u32)>,
    },
    /// Other new NodeClaims of the plan take what is left of the capacity that its offerings share.
    SharedCapacity,
    /// No instance type is left.
    InstanceTypes {
        /// How many there were.
        total: usize,
        /// How many of them the requirements allow.
        allowed: usize,
        /// How many of those are large enough.
        large_enough: usize,
        /// How many of those are available now.
        available: usize,
        /// The requests of the pod and of daemons.
        requests: Resources,
        /// The change that comes nearest to a solution.
        nearest: Box<Nearest>,
    },
    /// minValues of a key cannot be met.
    MinValues {
        /// The label key.
        key: Str,
        /// The number of values that minValues demands.
        wanted: u32,
        /// The number of values that are available.
        available: u32,
    },
    /// A host port is taken.
    HostPort(u16),
    /// A resource claim gets no devices.
    Devices(Box<DeviceShortage>),
}

/// The first change that would leave an instance type.
#[derive(Clone, Debug, PartialEq)]
pub enum Nearest {
    /// A requirement that no instance type meets.
    Requirement {
        /// The requirement.
        wanted: Box<Requirement>,
        /// The value that was probably meant.
        meant: Option<Str>,
    },
    /// Requirements of nodepool and pod that instance types meet one by one, and none meets together: as few as contradict each other.
    Requirements(Vec<Requirement>),
    /// A resource of which the pod alone asks for more than any allowed type leaves for pods.
    Resource {
        /// The resource.
        name: ResourceName,
        /// The request of the pod.
        requested: i64,
        /// The most that an allowed type leaves for pods; zero where none has it.
        most: i64,
        /// That type.
        instance_type: Str,
    },
    /// A resource of which daemons alone request more than any allowed type has.
    Daemons {
        /// The resource.
        name: ResourceName,
        /// By how much they exceed the type that is nearest.
        missing: i64,
        /// That type.
        instance_type: Str,
    },
    /// Each resource can be had, but no allowed type has all of them.
    Combination,
    /// Types are there, and cannot be bought now where they are allowed.
    Offering,
    /// Capacity that was bought for later, the first that starts.
    Scheduled {
        /// What the cloud calls it.
        name: Str,
        /// When it starts.
        starts: Timestamp,
        /// How long that is from now.
        after: Duration,
    },
}

impl Unplaced {
    /// The reason as one word.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::NoPools => "NoNodePools",
            Self::NoPoolFits(_) => "NoNodePoolFits",
            Self::Claims(_) => "ResourceClaims",
            Self::Invalid(_) => "Invalid",
            Self::Waiting(_) => "Waiting",
            Self::ReservedCapacityTaken => "ReservedCapacityTaken",
            Self::NotReached => "NotReached",
        }
    }
}

impl Eliminated {
    /// Whether labels or taints exclude the NodePool or all of its instance types: as a rule the pod does not select it.
    pub(crate) fn is_by_labels_or_taints(&self) -> bool {
        matches!(self, Self::Taint(_) | Self::Requirements { .. } | Self::InstanceTypes { allowed: 0, .. })
    }

    /// The constraint as one word.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::NoInstanceTypes(_) => "NoInstanceTypes",
            Self::Halted(_) => "Halted",
            Self::Taint(_) => "Taint",
            Self::Requirements { .. } => "Requirements",
            Self::Limit { .. } => "Limit",
            Self::Volumes(_) => "Volumes",
            Self::Topology { .. } => "Topology",
            Self::InstanceTypes { allowed: 0, .. } => "InstanceTypeRequirements",
            Self::InstanceTypes { large_enough: 0, .. } => "Resources",
            Self::InstanceTypes { .. } => "Offering",
            Self::MinValues { .. } => "MinValues",
            Self::HostPort(_) => "HostPort",
            Self::Devices(_) => "Devices",
            Self::SharedCapacity => "SharedCapacity",
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
                for (index, verdict) in verdicts.iter().take(SHOWN).enumerate() {
                    let separator = if index == 0 { "" } else { "; " };
                    write!(f, "{separator}{verdict}")?;
                }
                match verdicts.len().saturating_sub(SHOWN) {
                    0 => Ok(()),
                    more => write!(f, "; and {more} more nodepools"),
                }
            }
            Self::Claims(problem) => write!(f, "{problem}"),
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
            Eliminated::Limit { resource, usage, limit, needed, .. } if &**resource == "nodes" => write!(
                f,
                "node limits have been exhausted for nodepool {:?} ({usage} of {limit} nodes): raise \
                 spec.limits.nodes by {needed}",
                &*self.pool
            ),
            Eliminated::Limit { resource, usage, limit, needed, reserved, claims } => {
                let name = ResourceName::from(&**resource);
                let by = if *claims == 1 { "NodeClaim" } else { "NodeClaims" };
                let by = format!("{claims} {by} not launched yet (largest candidate types)");
                let of_it = match *reserved {
                    0 => "in use".to_owned(),
                    all if all >= *usage => format!("reserved by {by}"),
                    some => {
                        format!("in use, {} of it reserved by {by}", amount(&name, some, Rounding::Nearest))
                    }
                };
                write!(
                    f,
                    "all available instance types exceed limits for nodepool {:?} ({resource}: {} of {} {of_it}): raise \
                     spec.limits.{resource} by {}",
                    &*self.pool,
                    amount(&name, *usage, Rounding::Nearest),
                    amount(&name, *limit, Rounding::Nearest),
                    amount(&name, *needed, Rounding::Up)
                )
            }
            Eliminated::NoInstanceTypes(why) => {
                write!(f, "nodepool {:?} has no available instance types", &*self.pool)?;
                why.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
            }
            other => write!(f, "incompatible with nodepool {:?}, {other}", &*self.pool),
        }
    }
}

impl fmt::Display for Eliminated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoInstanceTypes(None) => f.write_str("no instance types"),
            Self::NoInstanceTypes(Some(why)) => write!(f, "no instance types: {why}"),
            Self::Halted(why) => f.write_str(why),
            Self::Taint(taint) => write!(f, "did not tolerate taint {taint}: add a toleration"),
            Self::Requirements { why, meant } => {
                write!(f, "incompatible requirements, {why}")?;
                requirements_fix(f, why, meant.as_deref())
            }
            Self::Volumes(why) if &**why.key() == HOSTNAME => {
                write!(
                    f,
                    "incompatible volumes, {why}: one is tied to its host, and no new node has its name"
                )
            }
            Self::Volumes(why) => {
                write!(f, "incompatible volumes, {why}: allow nodes of the nodepool where the volumes are")
            }
            Self::Limit { resource, usage, limit, .. } => {
                let name = ResourceName::from(&**resource);
                let shown = |of: i64| amount(&name, of, Rounding::Nearest);
                write!(f, "limit of {resource}: {} of {}", shown(*usage), shown(*limit))
            }
            Self::Topology { kind, key, unused, counts } => {
                write!(f, "unsatisfiable topology constraint for {kind}, key={key}")?;
                // Anti-affinity needs no domains, and nodes always have a name.
                if counts.is_empty() && *kind != "pod anti-affinity" && **key != *HOSTNAME {
                    return write!(
                        f,
                        ": no node and no nodepool has this label; add it to the nodepools that should count"
                    );
                }
                topology_fix(f, kind, *unused, counts)
            }
            Self::InstanceTypes { total, allowed, large_enough, available, requests, nearest } => {
                let why = match (*allowed, *large_enough, *available) {
                    (0, ..) => "no instance type met all requirements",
                    (_, 0, _) if requests.cpu() >= MILLION_CPUS => {
                        "no instance type has enough resources (CPU request >= 1 Million, m vs M typo?)"
                    }
                    (_, 0, _) => "no instance type has enough resources",
                    (_, _, 0) => "no instance type has the required offering",
                    _ => "no instance type met the requirements/resources/offering tuple",
                };
                write!(f, "{why}, {total} instance types: {allowed} match the requirements")?;
                // What is left of none says nothing.
                if *allowed > 0 {
                    write!(f, ", {large_enough} of them have enough resources")?;
                }
                if *large_enough > 0 {
                    write!(f, ", {available} of those are available")?;
                }
                write!(f, ", resources={{{}}}: {nearest}", Requested(requests))
            }
            Self::MinValues { key, wanted, available } => write!(
                f,
                "minValues requirement is not met for label(s) (label(s)=[{key}]), {available} of {wanted} values: allow \
                 more of them, lower minValues, or set MIN_VALUES_POLICY=BestEffort"
            ),
            Self::Devices(shortage) => write!(f, "{shortage}"),
            Self::SharedCapacity => f.write_str(
                "the capacity that is left for compatible instance types is taken by other new nodeclaims: add capacity, or allow others",
            ),
            Self::HostPort(port) => {
                write!(f, "host port {port} is taken by a daemon on every instance type: use another port")
            }
        }
    }
}

/// Writes the change that makes requirements compatible.
fn requirements_fix(f: &mut fmt::Formatter<'_>, why: &Incompatible, meant: Option<&str>) -> fmt::Result {
    match (why, meant) {
        (Incompatible::Disjoint { offered, .. }, Some(meant)) if !offered.has(meant) => {
            write!(f, " (did you mean {meant:?}? The nodepool does not allow that either)")
        }
        (_, Some(meant)) => write!(f, " (did you mean {meant:?}?)"),
        (Incompatible::Undefined(wanted), None) if &**wanted.key() == HOSTNAME => {
            f.write_str(": no new node has the name of one that exists")
        }
        (Incompatible::Undefined(wanted), None) => {
            write!(f, ": add {} to the labels or requirements of the nodepool", wanted.key())
        }
        (Incompatible::Disjoint { wanted, .. }, _) if &**wanted.key() == NODEPOOL => f.write_str(
            ": the pod selects another nodepool; if there is none of that name, create it or change the pod",
        ),
        (Incompatible::Disjoint { offered, .. }, _) if !offered.is_complement() && !offered.is_empty() => {
            f.write_str(": require a value that the nodepool allows, or allow more values there")
        }
        (Incompatible::Disjoint { .. }, _) => f.write_str(": change one of them"),
    }
}

/// Writes the distribution of pods, and the change that would help.
fn topology_fix(f: &mut fmt::Formatter<'_>, kind: &str, unused: bool, counts: &[(Str, u32)]) -> fmt::Result {
    // An event has a size.
    const SHOWN: usize = 8;
    if !counts.is_empty() {
        let shown: Vec<String> =
            counts.iter().take(SHOWN).map(|(domain, count)| format!("{domain}:{count}")).collect();
        let more = if counts.len() > SHOWN { " …" } else { "" };
        write!(f, " (counts = {}{more})", shown.join(" "))?;
    }
    f.write_str(match kind {
        "pod affinity" if unused => {
            ": no pod that it selects is scheduled; if such pods are pending too, let one of them match its own term"
        }
        "pod affinity" => {
            ": it may use none of the domains that have such pods; evict those pods so that all are scheduled together, or \
             allow it in their domains"
        }
        "pod anti-affinity" => ": every domain has a pod that it avoids, or one that avoids it; add domains",
        _ => ": every domain that it may use would exceed maxSkew; add domains, or raise maxSkew",
    })
}

impl fmt::Display for Nearest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requirement { wanted, .. } if wanted.is_empty() => write!(
                f,
                "every type has {}, and nodepool and pod together allow none of the values",
                wanted.key()
            ),
            Self::Requirement { wanted, meant } => {
                write!(f, "no type has {wanted}")?;
                meant.as_ref().map_or(Ok(()), |meant| write!(f, " (did you mean {meant:?}?)"))
            }
            Self::Requirements(wanted) => {
                let all: Vec<String> = wanted.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "no type has {} together: change one of them, of the pod or the nodepool",
                    all.join(" and ")
                )
            }
            Self::Resource { name, most: 0, .. } => write!(f, "no allowed type has {name}"),
            Self::Resource { name, most, instance_type, .. } => write!(
                f,
                "largest matching type: {instance_type}, {} {name} for pods{}",
                amount(name, *most, Rounding::Down),
                match name {
                    ResourceName::EphemeralStorage => ": let the NodeClass give nodes larger volumes",
                    _ => "",
                }
            ),
            Self::Daemons { name, missing, instance_type } => write!(
                f,
                "daemons alone request {} more {name} than {instance_type} has: allow larger types, or lower their requests",
                amount(name, *missing, Rounding::Up)
            ),
            Self::Combination => f.write_str("no allowed type has enough of all resources at once"),
            Self::Offering => {
                f.write_str("allow other zones or capacity types, or wait until the cloud has them again")
            }
            Self::Scheduled { name, starts, after } => {
                write!(f, "{name} starts in {} ({starts})", written(coarse(*after)))
            }
        }
    }
}

/// A duration in whole hours, in its last hour in tens of minutes, rounded up: an event with it is a new one as often.
fn coarse(after: Duration) -> Duration {
    const HOUR: u64 = 3600;
    let unit = if after.as_secs() > HOUR { HOUR } else { 600 };
    Duration::from_secs(after.as_secs().div_ceil(unit).saturating_mul(unit))
}

/// A request of at least this many milli-CPUs is a typing error.
const MILLION_CPUS: i64 = 1_000_000_000;

//! Why the nodes that exist do not take a pod: typed, with figures, counted over all of them.

use std::fmt;

use crate::model::{ResourceName, Str, Taint};

/// What keeps a pod off the nodes that exist or are on their way, as they stand once the plan is carried out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeObstacles {
    /// How many were asked; none where the bound on such questions was reached.
    pub total: usize,
    /// The first obstacle of each, and how many have it, the most common first.
    pub obstacles: Vec<(Obstacle, usize)>,
}

/// The first thing that keeps a pod off a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Obstacle {
    /// The node is going away.
    Leaving,
    /// The pod does not tolerate a taint.
    Taint(Taint),
    /// The node has no value of a label that the pod asks for.
    Label(Str),
    /// There is too little of a resource.
    Resource {
        /// The resource.
        name: ResourceName,
        /// What the pod asks for.
        asked: i64,
        /// The most that any of the nodes has left.
        most: i64,
    },
    /// A host port is taken.
    HostPort(u16),
    /// The pod's volumes cannot be reached from there, or no more can be attached.
    Volumes,
    /// Spread, affinity or anti-affinity forbids it.
    Topology,
}

impl Obstacle {
    /// The obstacle as one word.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Leaving => "Leaving",
            Self::Taint(_) => "Taint",
            Self::Label(_) => "Requirements",
            Self::Resource { .. } => "Resources",
            Self::HostPort(_) => "HostPort",
            Self::Volumes => "Volumes",
            Self::Topology => "Topology",
        }
    }

    /// Whether both are counted as one.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Resource { name, .. }, Self::Resource { name: other, .. }) => name == other,
            _ => self == other,
        }
    }

    /// Takes in another that is like it: the most that is left is that of any.
    pub(super) fn widen(&mut self, other: &Self) {
        if let (Self::Resource { most, .. }, Self::Resource { most: other, .. }) = (self, other) {
            *most = (*most).max(*other);
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaving => f.write_str("going away"),
            Self::Taint(taint) => write!(f, "taint {taint}"),
            Self::Label(key) => write!(f, "other or no label {key}"),
            Self::Resource { name, asked, most } => write!(
                f,
                "too little {} (most free {} of {})",
                name.as_str(),
                name.quantity(*most),
                name.quantity(*asked)
            ),
            Self::HostPort(port) => write!(f, "host port {port} taken"),
            Self::Volumes => f.write_str("volumes out of reach"),
            Self::Topology => f.write_str("spread or affinity"),
        }
    }
}

/// `12 nodes: 7 too little cpu (most free 1200m of 4), 5 taint gpu=true:NoSchedule`.
impl fmt::Display for NodeObstacles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.total == 1 { "" } else { "s" };
        write!(f, "{} node{plural}", self.total)?;
        for (at, (obstacle, count)) in self.obstacles.iter().enumerate() {
            let separator = if at == 0 { ":" } else { "," };
            write!(f, "{separator} {count} {obstacle}")?;
        }
        Ok(())
    }
}

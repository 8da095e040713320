//! Why existing nodes do not take a pod: typed, with figures, counted over all nodes.

use std::fmt;

use crate::model::{ResourceName, Rounding, Str, Taint, figures::amount};

/// The obstacles of a pod on existing and in-flight nodes after the plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeObstacles {
    /// The number of nodes; zero if the bound on this work was reached.
    pub total: usize,
    /// The first obstacle of each node with the number of nodes, the most common first.
    pub obstacles: Vec<(Obstacle, usize)>,
}

/// The first reason why a node does not take a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Obstacle {
    /// The node is being deleted.
    Leaving,
    /// The pod does not tolerate a taint.
    Taint(Taint),
    /// The node has no value of a label that the pod requires.
    Label(Str),
    /// There is too little of a resource.
    Resource {
        /// The resource.
        name: ResourceName,
        /// The request of the pod.
        requested: i64,
        /// The most that any of the nodes has free.
        most: i64,
    },
    /// A host port is taken.
    HostPort(u16),
    /// The node cannot reach the pod's volumes, or attach more.
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
    pub(super) fn is_same_obstacle(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Resource { name, .. }, Self::Resource { name: other, .. }) => name == other,
            _ => self == other,
        }
    }

    /// Merges an equal obstacle: the largest free amount counts.
    pub(super) fn widen(&mut self, other: &Self) {
        if let (Self::Resource { most, .. }, Self::Resource { most: other, .. }) = (self, other) {
            *most = (*most).max(*other);
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaving => f.write_str("being deleted"),
            Self::Taint(taint) => write!(f, "taint {taint}"),
            Self::Label(key) => write!(f, "other or no label {key}"),
            Self::Resource { name, requested, most } => write!(
                f,
                "too little {} (most free {} of {})",
                name.as_str(),
                amount(name, *most, Rounding::Down),
                amount(name, *requested, Rounding::Up)
            ),
            Self::HostPort(port) => write!(f, "host port {port} taken"),
            Self::Volumes => f.write_str("volumes not reachable or attachable"),
            Self::Topology => f.write_str("spread or affinity"),
        }
    }
}

/// `12 nodes: 7 too little cpu (most free 1200m of 4), 5 taint gpu=true:NoSchedule`.
impl fmt::Display for NodeObstacles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.total == 1 { "" } else { "s" };
        write!(f, "{} node{plural}", self.total)?;
        for (index, (obstacle, count)) in self.obstacles.iter().enumerate() {
            let separator = if index == 0 { ":" } else { "," };
            write!(f, "{separator} {count} {obstacle}")?;
        }
        Ok(())
    }
}

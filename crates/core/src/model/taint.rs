//! Taints and tolerations.

use std::fmt;

use super::{
    ids::Str,
    labels::{
        NOT_READY_TAINT, READINESS_TAINT_PREFIX, UNINITIALIZED_TAINT, UNREACHABLE_TAINT, UNREGISTERED_TAINT,
    },
};

/// Taints that report the state of a node.
const STATE_TAINT_PREFIXES: [&str; 4] =
    ["node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "karpenter.sh/", READINESS_TAINT_PREFIX];

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaintEffect {
    /// Keeps new pods away.
    NoSchedule,
    /// New pods avoid the node if possible.
    PreferNoSchedule,
    /// Keeps new pods away and evicts those that run.
    NoExecute,
}

impl TaintEffect {
    /// The effect as Kubernetes writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }

    /// Reads an effect as Kubernetes writes it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::NoSchedule, Self::PreferNoSchedule, Self::NoExecute]
            .into_iter()
            .find(|effect| effect.as_str() == text)
    }
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    /// The key.
    pub key: Str,
    /// The value; may be empty.
    pub value: Str,
    /// The effect.
    pub effect: TaintEffect,
}

impl Taint {
    /// A taint of `key=value:effect`.
    pub fn new(key: impl Into<Str>, value: impl Into<Str>, effect: TaintEffect) -> Self {
        Self { key: key.into(), value: value.into(), effect }
    }

    /// Whether both have the same key and effect, which identify a taint in Kubernetes.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }

    /// Whether the taint is how Kubernetes and node lifecycle write down the state of one node (not ready, out of reach,
    /// under pressure, cordoned, disrupted), whatever its effect.
    #[must_use]
    pub fn is_of_node_state(&self) -> bool {
        STATE_TAINT_PREFIXES.iter().any(|prefix| self.key.starts_with(prefix))
    }

    /// Whether the taint is removed automatically while a node starts, so that launches ignore it.
    #[must_use]
    pub fn is_ephemeral(&self) -> bool {
        use TaintEffect::{NoExecute, NoSchedule};
        match (&*self.key, self.effect) {
            (NOT_READY_TAINT, NoSchedule | NoExecute)
            | (UNREACHABLE_TAINT | UNINITIALIZED_TAINT, NoSchedule)
            | (UNREGISTERED_TAINT, NoExecute) => true,
            (key, _) => key.starts_with(READINESS_TAINT_PREFIX),
        }
    }
}

/// `key=value:Effect`, or `key:Effect` without a value.
impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let equals = if self.value.is_empty() { "" } else { "=" };
        write!(f, "{}{equals}{}:{}", self.key, self.value, self.effect.as_str())
    }
}

/// How a toleration compares values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TolerationOperator {
    /// The value must be equal.
    Equal,
    /// Any value.
    Exists,
    /// The taint's value, an integer, must be below the toleration's.
    Lt,
    /// The taint's value, an integer, must be above the toleration's.
    Gt,
}

/// What a pod puts up with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "provider-api", doc(hidden))]
pub struct Toleration {
    /// The key; empty means every key (with [`TolerationOperator::Exists`] alone).
    pub key: Str,
    /// How values are compared.
    pub operator: TolerationOperator,
    /// The value.
    pub value: Str,
    /// The effect; `None` means every effect.
    pub effect: Option<TaintEffect>,
    /// For how many seconds it holds; `None` means forever. Decides no placement.
    pub seconds: Option<i64>,
}

impl Toleration {
    /// Tolerates everything.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            key: "".into(),
            operator: TolerationOperator::Exists,
            value: "".into(),
            effect: None,
            seconds: None,
        }
    }

    /// Whether the toleration covers `taint`.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        let numbers = || Some((taint.value.parse::<i64>().ok()?, self.value.parse::<i64>().ok()?));
        match self.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => !self.key.is_empty() && self.value == taint.value,
            TolerationOperator::Lt => numbers().is_some_and(|(taint, bound)| taint < bound),
            TolerationOperator::Gt => numbers().is_some_and(|(taint, bound)| taint > bound),
        }
    }
}

/// The first taint that keeps a pod with these tolerations from being scheduled. PreferNoSchedule counts too: whether
/// it may be looked past is a preference that scheduling relaxes.
#[must_use]
pub fn first_untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Option<&'a Taint> {
    taints.iter().find(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

#[cfg(test)]
mod tests {
    //! Which toleration covers which taint.
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("a", TolerationOperator::Equal, "1", None, true)]
    #[case("a", TolerationOperator::Equal, "2", None, false)]
    #[case("a", TolerationOperator::Exists, "", None, true)]
    #[case("b", TolerationOperator::Exists, "", None, false)]
    #[case("", TolerationOperator::Exists, "", None, true)]
    #[case("a", TolerationOperator::Exists, "", Some(TaintEffect::NoExecute), false)]
    #[case("a", TolerationOperator::Gt, "0", None, true)]
    #[case("a", TolerationOperator::Gt, "1", None, false)]
    #[case("a", TolerationOperator::Lt, "2", None, true)]
    #[case("a", TolerationOperator::Lt, "x", None, false)]
    fn tolerates(
        #[case] key: &str,
        #[case] operator: TolerationOperator,
        #[case] value: &str,
        #[case] effect: Option<TaintEffect>,
        #[case] expected: bool,
    ) {
        let toleration = Toleration { key: key.into(), operator, value: value.into(), effect, seconds: None };
        assert_eq!(toleration.tolerates(&Taint::new("a", "1", TaintEffect::NoSchedule)), expected);
    }

    #[rstest]
    #[case(UNREACHABLE_TAINT, true)]
    #[case("node.kubernetes.io/unschedulable", true)]
    #[case("node.cloudprovider.kubernetes.io/shutdown", true)]
    #[case("karpenter.sh/disrupted", true)]
    #[case("readiness.k8s.io/network", true)]
    #[case("node.kubernetes.io", false)]
    #[case("example.com/late", false)]
    fn of_node_state(#[case] key: &str, #[case] expected: bool) {
        assert_eq!(Taint::new(key, "", TaintEffect::NoSchedule).is_of_node_state(), expected);
    }

    #[rstest]
    #[case(NOT_READY_TAINT, TaintEffect::NoExecute, true)]
    #[case(UNREACHABLE_TAINT, TaintEffect::NoExecute, false)]
    #[case(UNREGISTERED_TAINT, TaintEffect::NoSchedule, false)]
    #[case("readiness.k8s.io/network", TaintEffect::NoSchedule, true)]
    #[case("team", TaintEffect::NoSchedule, false)]
    fn ephemeral(#[case] key: &str, #[case] effect: TaintEffect, #[case] expected: bool) {
        assert_eq!(Taint::new(key, "", effect).is_ephemeral(), expected);
    }
}

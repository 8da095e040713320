//! The gates: rules that keep consolidation from moving pods back and forth, or for too small a saving. One file each.
//!
//! A pass applies them at these points, always in the order of [`GATES`]:
//! 1. [`admits_method`], before any method runs;
//! 2. [`admit_candidate`], when consolidation considers a node, and [`admits_merge`], when it considers it together with
//!    others;
//! 3. [`admits_set`], before a set is packed by price;
//! 4. [`narrow`] and [`admit`], when a command is complete.

mod balanced;
mod displaced;
mod drift_at_start;
mod net_benefit;
mod price_age;
mod recent_replacement;
mod recreate;
mod refused;
mod unchanged;
mod undo;

pub use displaced::DisplacedPods;
pub use refused::RefusedSets;
pub(super) use refused::{PricedSet, SimulationDigest};

use jiff::Timestamp;

use super::{BalancedScore, Candidate, Command, Context, MethodSpec, PassStart, Unconsolidatable};
use crate::scheduling::NewClaim;

/// A rule against churn. It overrides the points at which it applies.
trait Gate: Sync {
    /// Whether a pass runs a method.
    fn admits_method(&self, _pass: &PassStart, _method: &MethodSpec) -> bool {
        true
    }

    /// Whether consolidation considers a node.
    fn admit_candidate(
        &self,
        _context: &Context<'_>,
        _candidate: &Candidate,
    ) -> Result<(), Unconsolidatable> {
        Ok(())
    }

    /// Whether a node may be removed together with others that have fewer replacements.
    fn admit_merge(&self, _context: &Context<'_>, _candidate: &Candidate) -> Result<(), Unconsolidatable> {
        Ok(())
    }

    /// Whether a set is packed by price.
    fn admits_set(&self, _refused: &RefusedSets, _set: &PricedSet, _now: Timestamp) -> bool {
        true
    }

    /// Removes instance types that a replacement of `candidates` may not launch.
    fn narrow(
        &self,
        _context: &Context<'_>,
        _candidates: &[&Candidate],
        _new_claim: &mut NewClaim,
    ) -> Result<(), Unconsolidatable> {
        Ok(())
    }

    /// Whether a command may start.
    fn admit_command(&self, _context: &Context<'_>, _command: &mut Command) -> Result<(), Unconsolidatable> {
        Ok(())
    }
}

/// All gates, in the order in which they apply.
static GATES: &[&dyn Gate] = &[
    &unchanged::UnchangedCluster,
    &drift_at_start::DriftAtStart,
    &price_age::PriceAge,
    &recent_replacement::RecentReplacement,
    &refused::UnchangedRefusal,
    &recreate::WouldRecreate,
    &undo::WouldUndo,
    &net_benefit::NetBenefit,
    &balanced::Balanced,
];

/// Whether a pass runs a method.
pub(super) fn admits_method(pass: &PassStart, method: &MethodSpec) -> bool {
    GATES.iter().all(|gate| gate.admits_method(pass, method))
}

/// Whether consolidation considers a node.
///
/// # Errors
/// The reason of the first gate that rejects it.
pub(super) fn admit_candidate(context: &Context<'_>, candidate: &Candidate) -> Result<(), Unconsolidatable> {
    GATES.iter().try_for_each(|gate| gate.admit_candidate(context, candidate))
}

/// Whether a node may be removed together with others that have fewer replacements.
pub(super) fn admits_merge(context: &Context<'_>, candidate: &Candidate) -> bool {
    GATES.iter().all(|gate| gate.admit_merge(context, candidate).is_ok())
}

/// Whether a set is packed by price.
pub(super) fn admits_set(refused: &RefusedSets, set: &PricedSet, now: Timestamp) -> bool {
    GATES.iter().all(|gate| gate.admits_set(refused, set, now))
}

/// Removes instance types that a replacement of `candidates` may not launch.
///
/// # Errors
/// The reason of the first gate that leaves too few instance types.
pub(super) fn narrow(
    context: &Context<'_>,
    candidates: &[&Candidate],
    new_claim: &mut NewClaim,
) -> Result<(), Unconsolidatable> {
    GATES.iter().try_for_each(|gate| gate.narrow(context, candidates, new_claim))
}

/// The command with its scores, if every gate admits it.
///
/// # Errors
/// The reason of the first gate that rejects it, with the scores so far.
pub(super) fn admit(
    context: &Context<'_>,
    mut command: Command,
) -> Result<Command, (Unconsolidatable, Vec<BalancedScore>)> {
    for gate in GATES {
        if let Err(reason) = gate.admit_command(context, &mut command) {
            return Err((reason, command.scores));
        }
    }
    Ok(command)
}

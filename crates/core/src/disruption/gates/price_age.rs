//! Prices that are older than a day do not justify moving pods.

use std::time::Duration;

use super::Gate;
use crate::disruption::{Candidate, Context, Unconsolidatable};

/// Maximum age of prices.
const MAX_PRICE_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Rejects all candidates of consolidation while prices are too old.
pub(super) struct PriceAge;

impl Gate for PriceAge {
    fn admit_candidate(&self, context: &Context<'_>, _: &Candidate) -> Result<(), Unconsolidatable> {
        match context.rules.prices_as_of {
            Some(as_of) if as_of.checked_add(MAX_PRICE_AGE).is_ok_and(|end| end < context.now) => {
                Err(Unconsolidatable::PricesTooOld { as_of })
            }
            _ => Ok(()),
        }
    }
}

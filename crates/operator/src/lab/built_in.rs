//! Built-in instance types.

use fleetwright_fake::{
    Catalogue,
    catalogue::{kwok, realistic},
};

use crate::cli;

/// Seed of the realistic catalogue's spot prices: the same in every process.
const MARKET: u64 = 1;

/// Built-in instance types.
pub(crate) fn built_in(name: cli::Catalog) -> Catalogue {
    match name {
        cli::Catalog::Kwok => kwok(),
        cli::Catalog::Realistic => realistic(MARKET),
    }
}

//! The settings of disruption.

use jiff::Timestamp;

use crate::scheduling;

/// The settings that disruption reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How replacements are scheduled.
    pub scheduling: scheduling::Rules,
    /// Whether a spot node may be replaced by a cheaper spot node (feature gate `SpotToSpotConsolidation`).
    pub spot_to_spot: bool,
    /// How many simulations a pass may run. One takes microseconds on a quiet cluster and milliseconds on a difficult one,
    /// so the default limits a pass to about a minute. Nodes that are not reached come first in the next pass.
    pub simulations_max: u32,
    /// When prices were last read, if they age ([`CloudProvider::prices_as_of`](crate::cloud::CloudProvider::prices_as_of)).
    pub prices_as_of: Option<Timestamp>,
}

impl Rules {
    /// The default of `simulations_max`.
    pub const SIMULATIONS_MAX: u32 = 50_000;
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            scheduling: scheduling::Rules::default(),
            spot_to_spot: false,
            simulations_max: Self::SIMULATIONS_MAX,
            prices_as_of: None,
        }
    }
}

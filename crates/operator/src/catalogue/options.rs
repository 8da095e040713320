//! Options of the tools that choose instance types and prices.

/// Which prices and which region an offline catalogue uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct CatalogueOptions {
    /// The region. Defaults to that of the nodes, subnets or zones of the input.
    #[arg(long, value_name = "NAME")]
    pub region: Option<String>,
    /// Use the built-in list prices of this region where those of the cluster's region are unknown. Every report says so.
    #[arg(long, value_name = "REGION")]
    pub prices_from: Option<String>,
    /// Without spot prices from a file, assume that spot costs this many percent less than on-demand [default: 60].
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=99))]
    pub spot_discount: Option<u8>,
}

impl CatalogueOptions {
    /// AWS advertises discounts of up to 90 %; most types are offered at 50 % to 70 % less.
    const SPOT_DISCOUNT: u8 = 60;

    /// The assumed discount of spot in percent.
    #[must_use]
    pub fn spot_discount(&self) -> u8 {
        self.spot_discount.unwrap_or(Self::SPOT_DISCOUNT)
    }
}

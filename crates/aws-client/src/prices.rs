//! The queries of the price list.

/// The queries of the price list: shared instances, and bare metal, which is listed as dedicated.
pub(crate) const KINDS: [(&str, &str); 2] =
    [("Shared", "Compute Instance"), ("Dedicated", "Compute Instance (bare metal)")];

/// The filters of one query in a region: field and value.
pub(crate) fn filters<'a>(
    region: &'a str,
    (tenancy, family): (&'a str, &'a str),
) -> [(&'static str, &'a str); 8] {
    [
        ("regionCode", region),
        ("serviceCode", "AmazonEC2"),
        ("preInstalledSw", "NA"),
        ("operatingSystem", "Linux"),
        ("capacitystatus", "Used"),
        ("marketoption", "OnDemand"),
        ("tenancy", tenancy),
        ("productFamily", family),
    ]
}

//! Files, invalid options, and differences between two catalogues.

use std::{collections::BTreeMap, path::Path};

use fleetwright_core::model::Currency;

use crate::{
    catalogue::{CatalogueOptions, Offer},
    input,
    scenarios::catalogues,
    settings::Values,
};

const POOL: &str = "
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec: {amiSelectorTerms: [{alias: al2023@latest}]}
status: {subnets: [{id: subnet-1, zone: REGIONa, zoneID: z-1}]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}}}
";

fn values(flags: &[(&str, &str)]) -> Values {
    let flags: BTreeMap<String, String> =
        flags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Values::resolve(&flags, |_| None).unwrap()
}

fn offer(region: &str, flags: &[(&str, &str)], options: &CatalogueOptions) -> anyhow::Result<Offer> {
    let mut items = Vec::new();
    input::parse(Path::new("in.yaml"), &POOL.replace("REGION", region), &mut items)?;
    catalogues().offer(&items, options, &values(flags))
}

#[test]
fn an_exported_file_has_the_same_offerings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("types.txt");
    let options = CatalogueOptions { region: Some("us-east-1".to_owned()), ..CatalogueOptions::default() };
    let all = catalogues();
    let (ec2, name) = all.named("ec2").unwrap();
    std::fs::write(&path, ec2.export(name, &options, &values(&[])).unwrap()).unwrap();
    let plain = CatalogueOptions::default();
    let built_in = offer("us-east-1", &[], &plain).unwrap();
    let file = offer("us-east-1", &[("instance-types-file-path", path.to_str().unwrap())], &plain).unwrap();
    assert_eq!(built_in.pools, file.pools);
    assert!(built_in.priced && built_in.pools["default"].instance_types.len() > 1000);
    assert!(file.sources[0].source.contains("prices of the same source"), "{:?}", file.sources);
}

#[test]
fn prices_come_from_a_file_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prices.txt");
    std::fs::write(&path, "[eu-north-1]\nm5.large 0.5\nm5.large eu-north-1a 0.1\n").unwrap();
    let flags = [("prices-file", path.to_str().unwrap())];
    let offer_of = |region| offer(region, &flags, &CatalogueOptions::default());
    let offered = offer_of("eu-north-1").unwrap();
    let types = &offered.pools["default"].instance_types;
    assert_eq!(types.iter().map(|known| &*known.name).collect::<Vec<_>>(), ["m5.large"]);
    let spot = offered.pools["default"].price("m5.large", "eu-north-1a", "spot");
    assert_eq!(spot.map(|price| price.nanos()), Some(100_000_000));
    let refused = format!("{:#}", offer_of("eu-west-1").unwrap_err());
    assert!(refused.contains("PRICES_FILE") && refused.contains("[eu-west-1]"), "{refused}");
}

#[test]
fn invalid_options_are_reported() {
    let other = CatalogueOptions { prices_from: Some("mars-1".to_owned()), ..CatalogueOptions::default() };
    let refused =
        |flags: &[(&str, &str)], options| offer("us-east-1", flags, options).unwrap_err().to_string();
    assert!(refused(&[], &other).contains("us-east-1, cn-north-1"));
    let plain = CatalogueOptions::default();
    assert_eq!(
        refused(&[("catalog", "gce")], &plain),
        "--catalog gce: there are kwok, realistic, ec2, ec2-live"
    );
    #[cfg(not(feature = "aws"))]
    assert!(refused(&[("catalog", "ec2-live")], &plain).contains("built without AWS"));
    let all = catalogues();
    let (ec2, name) = all.named("ec2").unwrap();
    assert!(ec2.export(name, &plain, &values(&[])).unwrap_err().to_string().contains("--region is not set"));
}

const KWOK: &str = "
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: other}
spec: {template: {spec: {nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}}}
";

/// The currency of NodePools of EC2 in `region` and of the kwok provider, and the gaps about it.
fn in_two_clouds(region: &str, options: &CatalogueOptions) -> (Currency, Vec<String>) {
    let mut items = Vec::new();
    let text = format!("{}{KWOK}", POOL.replace("REGION", region));
    input::parse(Path::new("in.yaml"), &text, &mut items).unwrap();
    let offer = catalogues().offer(&items, options, &values(&[])).unwrap();
    (offer.currency, offer.gaps)
}

#[test]
fn amounts_in_two_currencies_are_a_gap() {
    let plain = CatalogueOptions::default();
    assert_eq!(in_two_clouds("us-east-1", &plain), (Currency::USD, Vec::new()));
    let gap = "NodePool other: prices are in USD and those of other NodePools in CNY: nothing converts them";
    assert_eq!(in_two_clouds("cn-north-1", &plain), (Currency::CNY, vec![gap.to_owned()]));
    // Without prices of the region, its currency says nothing.
    let (currency, gaps) = in_two_clouds("cn-northwest-1", &plain);
    assert!(
        currency == Currency::USD && gaps.len() == 1 && gaps[0].contains("no prices of cn-northwest-1"),
        "{gaps:?}"
    );
    let dollars = CatalogueOptions { prices_from: Some("us-east-1".to_owned()), ..plain };
    assert_eq!(in_two_clouds("cn-north-1", &dollars), (Currency::USD, Vec::new()));
}

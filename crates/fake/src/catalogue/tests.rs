//! Counts and figures of the built-in catalogues.

use fleetwright_core::model::{
    Price, Requirement, Requirements, Resources,
    labels::{ARCH, OS},
};
use rstest::rstest;

use super::*;
use crate::labels;

#[test]
fn kwok_has_the_generic_types() {
    let catalogue = kwok();
    assert_eq!(catalogue.types.instance_types.len(), 144);
    let small = catalogue.types.get("c-1x-amd64-linux").unwrap();
    assert_eq!(small.offerings.len(), 8);
    assert_eq!(
        catalogue.types.price("c-1x-amd64-linux", "test-zone-a", "on-demand"),
        Some(Price::from_nanos(27_147_484))
    );
    assert_eq!(
        catalogue.types.price("c-1x-amd64-linux", "test-zone-d", "spot"),
        Some(Price::from_nanos(19_003_239))
    );
    assert_eq!(
        small.capacity,
        Resources::of(1000, 2 << 30).with("ephemeral-storage", 20 << 30).with("pods", 16)
    );
    assert_eq!(small.allocatable().cpu(), 900);
    assert_eq!(small.allocatable().memory(), (2 << 30) - (10 << 20));
    let labels = small.requirements.labels();
    for (key, value) in [
        (labels::INSTANCE_SIZE, "1"),
        (labels::INSTANCE_FAMILY, "c"),
        (labels::INSTANCE_CPU, "1"),
        (labels::INSTANCE_MEMORY, "2Gi"),
        (OS, "linux"),
        (ARCH, "amd64"),
    ] {
        assert_eq!(&*labels[key], value, "{key}");
    }
    let large = catalogue.types.get("m-256x-arm64-windows").unwrap();
    assert_eq!((large.capacity.pods(), large.capacity.memory()), (1024, 2048 << 30));
    // `Lt 32` selects among the generic types.
    let below =
        Requirement::new(labels::INSTANCE_SIZE, fleetwright_core::model::Operator::Lt, ["32"]).unwrap();
    let wanted: Requirements = [below].into_iter().collect();
    let fitting = catalogue.types.instance_types.iter().filter(|t| t.requirements.overlaps(&wanted));
    assert_eq!(fitting.count(), 5 * 12);
}

#[test]
fn realistic_is_large_plausible_and_seeded() {
    let catalogue = realistic(7);
    let types = &catalogue.types.instance_types;
    assert!(types.len() >= 300, "{}", types.len());
    let price = |name: &str, kind: &str| catalogue.types.price(name, ZONE_A, kind).unwrap();
    const ZONE_A: &str = "us-fake-1a";
    assert_eq!(price("m5.large", "on-demand").to_string(), "0.096");
    assert_eq!(price("g5.xlarge", "on-demand").to_string(), "1.006");
    assert_eq!(price("t3.medium", "on-demand").to_string(), "0.0416");
    for instance_type in types {
        let allocatable = instance_type.allocatable();
        let memory = instance_type.capacity.memory();
        assert!(allocatable.cpu() > 0 && allocatable.memory() >= memory / 2, "{}", instance_type.name);
        assert!(allocatable.pods() >= 4, "{}", instance_type.name);
        for pair in instance_type.offerings.chunks(2) {
            let (spot, on_demand) = (pair[0].price.nanos(), pair[1].price.nanos());
            assert!(
                spot * 10 >= on_demand * 2 - 10 && spot * 10 <= on_demand * 7 + 10,
                "{}",
                instance_type.name
            );
        }
    }
    let arm = types.iter().filter(|t| t.requirements.allows(ARCH, "arm64")).count();
    assert!(arm >= 80 && types.len() - arm >= 200, "{arm} of {}", types.len());
    assert_eq!(realistic(7).types, catalogue.types);
    assert_ne!(realistic(8).types, catalogue.types);
    assert_eq!(
        &*catalogue.types.get("m7g.xlarge").unwrap().requirements.labels()[labels::INSTANCE_SIZE],
        "xlarge"
    );
}

#[rstest]
#[case(kwok())]
#[case(realistic(3))]
fn a_written_catalogue_is_read_back(#[case] catalogue: Catalogue) {
    let loaded = load(&dump(&catalogue).to_string(), catalogue.vocabulary).unwrap();
    assert_eq!(loaded.skipped, []);
    assert_eq!(loaded.catalogue.types, catalogue.types);
    assert_eq!(loaded.catalogue.schema, catalogue.schema);
}

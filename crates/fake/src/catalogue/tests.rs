//! Counts, figures and files of the catalogues.

use fleetwright_core::model::{Price, Requirements};
use rstest::rstest;
use serde_json::json;

use super::*;

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
    // "Smaller than 32" works on the generic types.
    let below =
        Requirement::new(labels::INSTANCE_SIZE, fleetwright_core::model::Operator::Lt, ["32"]).unwrap();
    let wanted: Requirements = [below].into_iter().collect();
    let fitting =
        catalogue.types.instance_types.iter().filter(|t| t.requirements.intersects(&wanted).is_ok());
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
fn what_is_dumped_loads_the_same(#[case] catalogue: Catalogue) {
    let loaded = load(&dump(&catalogue).to_string(), catalogue.vocabulary).unwrap();
    assert_eq!(loaded.skipped, []);
    assert_eq!(loaded.catalogue.types, catalogue.types);
    assert_eq!(loaded.catalogue.schema, catalogue.schema);
}

fn good() -> serde_json::Value {
    json!({
        "name": "g5.4xlarge",
        "offerings": [{"capacityType": "on-demand", "zone": "z1", "price": 1.624}],
        "architecture": "amd64",
        "operatingSystems": {"linux": {}},
        "resources": {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "1"},
    })
}

#[test]
fn old_and_new_spellings_are_read() {
    let mut new = good();
    new["name"] = json!("new.large");
    new["operatingSystems"] = json!(["linux", "windows"]);
    new["requirements"] = json!([{"key": "example.com/rack", "operator": "In", "values": ["r1"]}]);
    new["overhead"] = json!({"cpu": "1"});
    new["offerings"] = json!([{"Price": 0.5, "Available": false, "ReservationCapacity": 3, "Requirements": [
        {"key": CAPACITY_TYPE, "operator": "In", "values": ["reserved"]},
        {"key": ZONE, "operator": "In", "values": ["z2"]},
        {"key": "example.com/reservation", "operator": "In", "values": ["r-1"]},
    ]}]);
    let loaded = load(&json!([good(), new]).to_string(), Vocabulary::Kwok).unwrap();
    assert_eq!(loaded.skipped, []);
    let old = loaded.catalogue.types.get("g5.4xlarge").unwrap();
    assert_eq!((old.capacity.pods(), old.allocatable().cpu()), (110, 15_900));
    assert_eq!(old.offerings[0].price.to_string(), "1.624");
    let new = loaded.catalogue.types.get("new.large").unwrap();
    assert_eq!((new.allocatable().cpu(), new.overhead.total().memory()), (15_000, 0));
    assert_eq!((new.offerings[0].available, new.offerings[0].reservation_capacity), (false, Some(3)));
    assert!(loaded.catalogue.schema.is_well_known("example.com/reservation"));
    assert!(loaded.catalogue.schema.is_well_known("example.com/rack"));
}

#[rstest]
#[case("/name", json!(""), "name")]
#[case("/offerings", json!([]), "offerings")]
#[case("/offerings/0/price", json!(-1), "offerings[0].Price")]
#[case("/offerings/0/price", json!(null), "offerings[0].Price")]
#[case("/offerings/0/price", json!("NaN"), "offerings[0].Price")]
#[case("/offerings/0/zone", json!(null), "offerings[0].Requirements[topology.kubernetes.io/zone]")]
#[case("/offerings/0/capacityType", json!("cheap"), "offerings[0].Requirements[karpenter.sh/capacity-type]")]
#[case("/resources/cpu", json!("-1"), "resources.cpu")]
#[case("/resources/cpu", json!("0"), "resources.cpu")]
#[case("/resources/memory", json!("1e400"), "resources.memory")]
#[case("/resources/memory", json!("9E9E"), "resources.memory")]
#[case("/resources", json!(null), "resources")]
#[case("/operatingSystems", json!([1]), "operatingSystems")]
#[case("/architecture", json!(3), "architecture")]
#[case("/requirements", json!([{"key": "a", "operator": "Near"}]), "requirements[a]")]
#[case("/requirements", json!([{"key": ARCH, "operator": "In", "values": ["arm64"]}]), "requirements[kubernetes.io/arch]")]
fn a_broken_type_is_skipped_and_named(
    #[case] at: &str,
    #[case] value: serde_json::Value,
    #[case] field: &str,
) {
    let mut broken = good();
    broken["requirements"] = json!(null);
    *broken.pointer_mut(at).unwrap() = value;
    let mut fine = good();
    fine["name"] = json!("fine.large");
    let loaded = load(&json!([broken, fine]).to_string(), Vocabulary::Kwok).unwrap();
    assert_eq!(loaded.catalogue.types.instance_types.len(), 1);
    assert_eq!(loaded.skipped.len(), 1);
    assert_eq!(loaded.skipped[0].error.field, field, "{}", loaded.skipped[0]);
}

#[test]
fn twins_and_broken_files_are_told() {
    let loaded = load(&json!([good(), good()]).to_string(), Vocabulary::Kwok).unwrap();
    assert_eq!(loaded.skipped[0].error.field, "name");
    assert!(matches!(load("[", Vocabulary::Kwok), Err(CatalogueError::Json(_))));
    assert!(matches!(load("{}", Vocabulary::Kwok), Err(CatalogueError::NotAList)));
    assert!(matches!(load("[]", Vocabulary::Kwok), Err(CatalogueError::Nothing(_))));
    let error = load("[{}]", Vocabulary::Kwok).unwrap_err();
    assert!(error.to_string().contains("name: is missing"), "{error}");
}

//! Files of instance types: both forms of offerings, and what is rejected.

use rstest::rstest;
use serde_json::json;

use super::*;

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
fn duplicates_and_invalid_files_are_reported() {
    let loaded = load(&json!([good(), good()]).to_string(), Vocabulary::Kwok).unwrap();
    assert_eq!(loaded.skipped[0].error.field, "name");
    assert!(matches!(load("[", Vocabulary::Kwok), Err(CatalogueError::Json(_))));
    assert!(matches!(load("{}", Vocabulary::Kwok), Err(CatalogueError::NotAList)));
    assert!(matches!(load("[]", Vocabulary::Kwok), Err(CatalogueError::Nothing(_))));
    let error = load("[{}]", Vocabulary::Kwok).unwrap_err();
    assert!(error.to_string().contains("name: is missing"), "{error}");
}

//! Which key and which value was meant.
use super::*;

#[test]
fn misspelt_keys_are_recognised() {
    let known: Vec<Str> =
        ["karpenter.sh/capacity-type", "team", "topology.kubernetes.io/zone", "rack"].map(Str::from).into();
    for (key, meant) in [
        ("karpenter.sh/capacitytype", Some("karpenter.sh/capacity-type")),
        ("zone", Some("topology.kubernetes.io/zone")),
        ("teams", Some("team")),
        ("colour", None),
        ("ram", None),
        ("rock", Some("rack")),
        ("topology.kubernetes.io/home", None),
        ("eks.amazonaws.com/capacityType", Some("karpenter.sh/capacity-type")),
        ("node.kubernetes.io/lifecycle", Some("karpenter.sh/capacity-type")),
    ] {
        assert_eq!(nearest(key, known.iter()).map(|found| &**found), meant, "{key}");
    }
    assert_eq!(nearest(&"x".repeat(10_000), known.iter()), None);
}

#[test]
fn misspelt_values_are_recognised() {
    let known: Vec<Str> = ["amd64", "on-demand", "us-east-1a", "m5.large"].map(Str::from).into();
    for (key, value, meant) in [
        ("kubernetes.io/arch", "x86_64", Some("amd64")),
        ("kubernetes.io/arch", "amd64", None),
        ("karpenter.sh/capacity-type", "on_demand", Some("on-demand")),
        (ZONE, "us-east-1b", None),
        (ZONE, "us-east1a", Some("us-east-1a")),
        (INSTANCE_TYPE, "m6.large", None),
        (INSTANCE_TYPE, "M5.Large", Some("m5.large")),
    ] {
        let wanted = Requirement::is_in(key, [value]);
        assert_eq!(nearest_value(&wanted, known.iter()).as_deref(), meant, "{key}={value}");
    }
}

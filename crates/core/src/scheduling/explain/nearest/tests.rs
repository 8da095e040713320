//! Which key was meant.
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
    ] {
        assert_eq!(nearest(key, known.iter()).map(|found| &**found), meant, "{key}");
    }
    assert_eq!(nearest(&"x".repeat(10_000), known.iter()), None);
    assert_eq!((edits(b"kitten", b"sitting"), edits(b"", b"abc"), edits(b"a", b"a")), (3, 3, 0));
}

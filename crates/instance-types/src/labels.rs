//! Labels of Karpenter's kwok provider.

use std::sync::Arc;

use fleetwright_core::model::{LabelSchema, Str};

/// The API group of the kwok provider, and the domain of its labels.
pub const GROUP: &str = "karpenter.kwok.sh";
/// The size: the part of the name after the dot, as in EC2, else the number of CPUs.
pub const INSTANCE_SIZE: &str = "karpenter.kwok.sh/instance-size";
/// The family: the part of the name before the first dot or dash.
pub const INSTANCE_FAMILY: &str = "karpenter.kwok.sh/instance-family";
/// CPUs, as a quantity.
pub const INSTANCE_CPU: &str = "karpenter.kwok.sh/instance-cpu";
/// Memory, as a quantity.
pub const INSTANCE_MEMORY: &str = "karpenter.kwok.sh/instance-memory";

/// The label schema: Karpenter's labels, the kwok labels, and `keys`. The first key that is named
/// `reservation-id`, or ends with it, identifies capacity reservations: each provider has its own
/// domain for that label, and the kwok provider has none.
#[must_use]
pub fn schema(keys: impl IntoIterator<Item = Str>) -> Arc<LabelSchema> {
    let mut schema = LabelSchema::default();
    let keys: Vec<Str> = keys.into_iter().collect();
    let names_a_reservation =
        |key: &&Str| key.rsplit('/').next().is_some_and(|name| name.ends_with("reservation-id"));
    schema.reservation_id = keys.iter().find(names_a_reservation).cloned();
    schema.restricted_domains.insert(GROUP.into());
    let own = [INSTANCE_SIZE, INSTANCE_FAMILY, INSTANCE_CPU, INSTANCE_MEMORY];
    schema.well_known.extend(own.into_iter().map(Str::from));
    schema.well_known.extend(keys);
    Arc::new(schema)
}

/// The size in the name of an instance type, else its CPUs: `xlarge` for `m7g.xlarge`, `4` for `c-4x-amd64-linux`.
pub(crate) fn size_of<'a>(name: &'a str, cpu: &'a str) -> &'a str {
    match name.split_once('.') {
        Some((family, size)) if !family.is_empty() && is_size(size) => size,
        _ => cpu,
    }
}

/// `nano`, `4xlarge`, `metal`, `metal-24xl`.
fn is_size(size: &str) -> bool {
    let numbered = |suffix: &str| {
        size.strip_suffix(suffix).is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    ["nano", "micro", "small", "medium", "large", "metal"].contains(&size)
        || numbered("xlarge")
        || size.strip_prefix("metal-").is_some_and(|rest| rest.ends_with("xl"))
}

/// The part of the name before the first dot or dash, else its first character.
pub(crate) fn family_of(name: &str) -> &str {
    let first = name.chars().next().map_or(0, char::len_utf8);
    name.find(['.', '-']).map_or(&name[..first], |end| &name[..end])
}

#[cfg(test)]
mod tests {
    //! Sizes and families of names.
    use super::*;

    #[test]
    fn size_and_family() {
        for (name, size, family) in [
            ("c-4x-amd64-linux", "4", "c"),
            ("m7g.xlarge", "xlarge", "m7g"),
            ("m7g.12xlarge", "12xlarge", "m7g"),
            ("m7i.metal-24xl", "metal-24xl", "m7i"),
            ("a.b.c", "4", "a"),
            ("standard", "4", "s"),
            ("", "4", ""),
            (".large", "4", ""),
        ] {
            assert_eq!((size_of(name, "4"), family_of(name)), (size, family), "{name}");
        }
    }

    #[test]
    fn own_labels_are_well_known_and_their_domain_is_closed() {
        let schema = schema(["example.com/rack".into()]);
        assert!(schema.is_well_known(INSTANCE_CPU) && schema.is_well_known("example.com/rack"));
        assert!(schema.is_restricted("karpenter.kwok.sh/other"));
        assert!(!schema.is_restricted(INSTANCE_CPU));
    }

    #[test]
    fn a_reservation_is_told_by_its_id_whatever_the_domain() {
        for (keys, id) in [
            (vec!["example.com/rack"], None),
            (
                vec!["karpenter.k8s.aws/capacity-reservation-id"],
                Some("karpenter.k8s.aws/capacity-reservation-id"),
            ),
            (vec!["a/rack", "karpenter.test.sh/reservation-id"], Some("karpenter.test.sh/reservation-id")),
            (vec!["reservation-id.example.com/type"], None),
        ] {
            assert_eq!(schema(keys.into_iter().map(Str::from)).reservation_id.as_deref(), id);
        }
    }
}

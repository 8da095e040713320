//! Selects one image for each set of requirements.

use std::collections::BTreeMap;

use fleetwright_aws_api::ec2nodeclass::{Ami, AmiRequirement};
use fleetwright_core::model::labels::ARCH;
use jiff::Timestamp;

use super::alias::Variant;
use crate::calls::Image;

/// An image and its known purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The image.
    pub image: Image,
    /// The kinds of instances that it serves, if an alias or its name shows them; each becomes an entry.
    pub variants: Vec<Variant>,
}

/// The purpose of an EKS-optimized image that was not selected by an alias, by its name. Only special instances are recognized: user data
/// may adapt a plain image to anything.
#[must_use]
pub fn variant_of_name(name: &str) -> Option<Variant> {
    let eks = name.starts_with("amazon-eks-") || name.starts_with("bottlerocket-aws-k8s-");
    if !eks {
        return None;
    }
    let says = |word: &str| name.split('-').any(|part| part == word);
    if says("nvidia") || says("gpu") {
        Some(Variant::Nvidia)
    } else if says("neuron") {
        Some(Variant::Neuron)
    } else {
        None
    }
}

/// Returns the selected images, newest first. Of several with the same requirements, one that is not deprecated is preferred, then the
/// newer one, then the greater name.
#[must_use]
pub fn select(candidates: &[Candidate], now: Timestamp) -> Vec<Ami> {
    let mut best: BTreeMap<Vec<AmiRequirement>, &Image> = BTreeMap::new();
    for candidate in candidates {
        let Some(arch) = architecture(&candidate.image) else { continue };
        for demands in demands(&candidate.variants, arch) {
            let better =
                best.get(&demands).is_none_or(|known| rank(&candidate.image, now) > rank(known, now));
            if better {
                best.insert(demands, &candidate.image);
            }
        }
    }
    let mut found: Vec<(&Image, Vec<AmiRequirement>)> =
        best.into_iter().map(|(demands, image)| (image, demands)).collect();
    found.sort_by(|(a, x), (b, y)| b.created.cmp(&a.created).then_with(|| (&a.id, x).cmp(&(&b.id, y))));
    let ami = |(image, requirements): (&Image, Vec<AmiRequirement>)| Ami {
        id: image.id.clone(),
        name: image.name.clone(),
        deprecated: deprecated(image, now),
        requirements,
    };
    found.into_iter().map(ami).collect()
}

fn deprecated(image: &Image, now: Timestamp) -> bool {
    image.deprecated_at.is_some_and(|time| time <= now)
}

fn rank(image: &Image, now: Timestamp) -> (bool, Option<Timestamp>, &str) {
    (!deprecated(image, now), image.created, &image.name)
}

fn architecture(image: &Image) -> Option<&'static str> {
    match image.architecture.as_str() {
        "x86_64" => Some("amd64"),
        "arm64" => Some("arm64"),
        _ => None,
    }
}

/// The requirements of each variant with the architecture, sorted; the architecture alone if no variant is known.
fn demands(variants: &[Variant], arch: &str) -> Vec<Vec<AmiRequirement>> {
    let on =
        AmiRequirement { key: ARCH.to_owned(), operator: "In".to_owned(), values: vec![arch.to_owned()] };
    let with = |mut demands: Vec<AmiRequirement>| {
        demands.push(on.clone());
        demands.sort();
        demands
    };
    if variants.is_empty() {
        return vec![with(Vec::new())];
    }
    variants.iter().map(|variant| with(variant.requirements())).collect()
}

#[cfg(test)]
mod tests {
    //! Which image is selected.
    use rstest::rstest;

    use super::*;

    fn day(day: i64) -> Timestamp {
        Timestamp::from_second(day * 86_400).unwrap()
    }

    fn candidate(id: &str, name: &str, made: i64, deprecated: Option<i64>) -> Candidate {
        let image = Image {
            id: id.to_owned(),
            name: name.to_owned(),
            architecture: "x86_64".to_owned(),
            created: Some(day(made)),
            deprecated_at: deprecated.map(day),
        };
        Candidate { image, variants: Vec::new() }
    }

    fn ids(candidates: &[Candidate]) -> Vec<String> {
        select(candidates, day(100)).into_iter().map(|ami| ami.id).collect()
    }

    #[test]
    fn the_newest_image_that_is_not_deprecated() {
        let (old, new) = (candidate("ami-1", "a", 1, None), candidate("ami-2", "b", 2, None));
        assert_eq!(ids(&[old.clone(), new]), ["ami-2"]);
        let gone = candidate("ami-3", "c", 3, Some(100));
        assert_eq!(ids(&[old.clone(), gone.clone()]), ["ami-1"]);
        assert!(select(&[gone], day(100))[0].deprecated, "a deprecated image is used if it is the only one");
        assert_eq!(ids(&[old, candidate("ami-4", "d", 4, Some(101))]), ["ami-4"], "not deprecated yet");
        let twins = [candidate("ami-5", "e", 5, None), candidate("ami-6", "f", 5, None)];
        assert_eq!(ids(&twins), ["ami-6"], "the greater name");
    }

    #[test]
    fn variants_and_architectures_stand_beside_each_other() {
        let mut plain = candidate("ami-1", "a", 1, None);
        plain.variants = vec![Variant::Standard, Variant::Neuron];
        let mut arm = candidate("ami-2", "b", 2, None);
        arm.image.architecture = "arm64".to_owned();
        let mut strange = candidate("ami-3", "c", 3, None);
        strange.image.architecture = "mips".to_owned();
        assert_eq!(ids(&[plain, arm, strange]), ["ami-2", "ami-1", "ami-1"]);
    }

    #[rstest]
    #[case("amazon-eks-node-al2023-x86_64-nvidia-1.35-v20251101", Some(Variant::Nvidia))]
    #[case("amazon-eks-node-al2023-x86_64-neuron-1.35-v20251101", Some(Variant::Neuron))]
    #[case("amazon-eks-gpu-node-1.30-v20240807", Some(Variant::Nvidia))]
    #[case("bottlerocket-aws-k8s-1.35-nvidia-x86_64-v1.50.0", Some(Variant::Nvidia))]
    #[case("bottlerocket-aws-k8s-1.35-x86_64-v1.50.0", None)]
    #[case("amazon-eks-node-al2023-x86_64-standard-1.35", None)]
    #[case("our-own-nvidia-image", None)]
    fn names_show_the_purpose_of_images(#[case] name: &str, #[case] expected: Option<Variant>) {
        assert_eq!(variant_of_name(name), expected);
    }
}

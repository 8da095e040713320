//! Which image an instance type runs.
//!
//! The most specific compatible image is used: the one that requires the presence of most properties, then the one that requires the
//! absence of most, then the first in the status, which has the newest first. So an image for GPUs never runs on an instance without
//! GPUs, and a plain one runs on an instance with GPUs only if there is no image for GPUs.

use fleetwright_aws_api::ec2nodeclass::{Ami, AmiRequirement};
use fleetwright_core::model::{Operator, Requirement, Requirements};

/// The image of an instance type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageChoice<'a> {
    /// The image.
    pub image: &'a Ami,
    /// Another image of equal specificity with other requirements: only the user can decide between them.
    pub rival: Option<&'a Ami>,
}

/// The requirements of an image; `None` if one cannot be read: then no instance matches.
#[must_use]
pub fn demands(requirements: &[AmiRequirement]) -> Option<Requirements> {
    let read = |requirement: &AmiRequirement| {
        let operator = Operator::parse(&requirement.operator)?;
        Requirement::new(requirement.key.as_str(), operator, requirement.values.iter().map(String::as_str))
            .ok()
    };
    requirements.iter().map(read).collect()
}

/// The numbers of properties that must be present and absent.
fn specificity(demands: &Requirements) -> (usize, usize) {
    let absent = demands.iter().filter(|requirement| requirement.allows_missing()).count();
    (demands.len() - absent, absent)
}

/// Chooses the image for an instance type with these requirements.
#[must_use]
pub fn choose<'a>(instance_type: &Requirements, images: &'a [Ami]) -> Option<ImageChoice<'a>> {
    let mut best: Option<(ImageChoice<'a>, Requirements)> = None;
    for image in images {
        let Some(wanted) = demands(&image.requirements) else { continue };
        if instance_type.compatible(&wanted, |_| false).is_err() {
            continue;
        }
        match &mut best {
            Some((choice, known)) => {
                let (new, old) = (specificity(&wanted), specificity(known));
                if new > old {
                    best = Some((ImageChoice { image, rival: None }, wanted));
                } else if new == old && wanted != *known && choice.rival.is_none() {
                    choice.rival = Some(image);
                }
            }
            None => best = Some((ImageChoice { image, rival: None }, wanted)),
        }
    }
    best.map(|(choice, _)| choice)
}

#[cfg(test)]
mod tests {
    //! Which image serves which instance.
    use fleetwright_aws_api::labels::{INSTANCE_ACCELERATOR_COUNT, INSTANCE_GPU_COUNT};
    use fleetwright_core::model::labels::ARCH;

    use super::*;

    fn ami(id: &str, requirements: &[(&str, &str, &[&str])]) -> Ami {
        let requirement = |(key, operator, values): &(&str, &str, &[&str])| AmiRequirement {
            key: (*key).to_owned(),
            operator: (*operator).to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let requirements = requirements.iter().map(requirement).collect();
        Ami { id: id.to_owned(), requirements, ..Ami::default() }
    }

    fn instance_type(gpus: Option<&str>, accelerators: Option<&str>) -> Requirements {
        [
            Requirement::is_in(ARCH, ["amd64"]),
            Requirement::is_in(INSTANCE_GPU_COUNT, gpus),
            Requirement::is_in(INSTANCE_ACCELERATOR_COUNT, accelerators),
        ]
        .into_iter()
        .collect()
    }

    fn chosen(instance_type: &Requirements, images: &[Ami]) -> Option<(String, Option<String>)> {
        choose(instance_type, images)
            .map(|choice| (choice.image.id.clone(), choice.rival.map(|rival| rival.id.clone())))
    }

    #[test]
    fn one_alias_of_four_variants() {
        let amd64: (&str, &str, &[&str]) = (ARCH, "In", &["amd64"]);
        let arm64: (&str, &str, &[&str]) = (ARCH, "In", &["arm64"]);
        let no_gpu: (&str, &str, &[&str]) = (INSTANCE_GPU_COUNT, "DoesNotExist", &[]);
        let no_neuron: (&str, &str, &[&str]) = (INSTANCE_ACCELERATOR_COUNT, "DoesNotExist", &[]);
        let images = [
            ami("nvidia", &[amd64, (INSTANCE_GPU_COUNT, "Exists", &[])]),
            ami("neuron", &[amd64, (INSTANCE_ACCELERATOR_COUNT, "Exists", &[])]),
            ami("arm", &[arm64, no_gpu, no_neuron]),
            ami("plain", &[amd64, no_gpu, no_neuron]),
        ];
        assert_eq!(chosen(&instance_type(None, None), &images), Some(("plain".to_owned(), None)));
        assert_eq!(chosen(&instance_type(Some("1"), None), &images), Some(("nvidia".to_owned(), None)));
        assert_eq!(chosen(&instance_type(None, Some("1")), &images), Some(("neuron".to_owned(), None)));
        let both = chosen(&instance_type(Some("1"), Some("1")), &images);
        assert_eq!(both, Some(("nvidia".to_owned(), Some("neuron".to_owned()))), "both are equally specific");
    }

    #[test]
    fn a_special_image_is_preferred_in_any_order() {
        let general = ami("general", &[(ARCH, "In", &["amd64"])]);
        let gpu = ami("gpu", &[(ARCH, "In", &["amd64"]), (INSTANCE_GPU_COUNT, "Exists", &[])]);
        for images in [[general.clone(), gpu.clone()], [gpu, general]] {
            assert_eq!(chosen(&instance_type(Some("4"), None), &images), Some(("gpu".to_owned(), None)));
            assert_eq!(chosen(&instance_type(None, None), &images), Some(("general".to_owned(), None)));
        }
    }

    #[test]
    fn an_unreadable_image_matches_nothing() {
        let broken = ami("broken", &[(ARCH, "Is", &["amd64"])]);
        assert_eq!(chosen(&instance_type(None, None), &[broken]), None);
        let two = [ami("new", &[(ARCH, "In", &["amd64"])]), ami("old", &[(ARCH, "In", &["amd64"])])];
        assert_eq!(
            chosen(&instance_type(None, None), &two),
            Some(("new".to_owned(), None)),
            "the newest is first"
        );
    }
}

//! Launch templates and instance profiles as EC2 validates and remembers them.

use jiff::{SignedDuration, Timestamp};

use crate::answer::Refusal;
use crate::call::{Call, Params, groups};
use crate::capacity::Way;
use crate::consistency::is_unseen;
use crate::xml::Element;

/// Bytes of user data: "User data is limited to 16 KB, in raw form, before it is base64-encoded"
/// (<https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-add-user-data.html>).
const USER_DATA_MAX: usize = 16_384;
/// "Maximum number of tags per resource – 50" (<https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html>).
const TAGS_MAX: usize = 50;
/// Lengths of keys and values of tags, of the same page.
const TAG_LENGTHS: (usize, usize) = (128, 256);

/// A launch template.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    /// The parameters of its creation.
    pub(crate) data: Params,
    pub(crate) created: Timestamp,
}

/// An instance profile.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profile {
    /// The epoch for one that was not made through the emulator.
    pub(crate) created: Timestamp,
    /// Its role, and since when.
    pub(crate) role: Option<(String, Timestamp)>,
}

impl Profile {
    /// Whether IAM does not show it yet.
    pub(crate) fn is_unseen(&self, delay: SignedDuration, now: Timestamp) -> bool {
        is_unseen(self.created, delay, now)
    }
}

/// The calls about one instance profile, beside its creation.
pub(crate) const OF_PROFILES: [&str; 4] = [
    "AddRoleToInstanceProfile",
    "DeleteInstanceProfile",
    "GetInstanceProfile",
    "RemoveRoleFromInstanceProfile",
];

/// Takes the profiles out of an answer of `ListInstanceProfiles` for whose names `hides` holds.
pub(crate) fn hide_profiles(root: &mut Element, hides: impl Fn(&str) -> bool) {
    let results = root.children.iter_mut().filter(|child| child.name() == "ListInstanceProfilesResult");
    for set in results.flat_map(|result| result.children.iter_mut()) {
        set.children.retain(|profile| !hides(profile.at(&["InstanceProfileName"])));
    }
}

/// Why EC2 refuses to create a launch template.
pub(crate) fn refused(call: &Call) -> Option<Refusal> {
    let name = call.param("LaunchTemplateName");
    let valid = |c: char| c.is_ascii_alphanumeric() || "().-/_".contains(c);
    // "Length Constraints: Minimum length of 3. Maximum length of 128. Pattern: [a-zA-Z0-9\(\)\.\-/_]+"
    // (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateLaunchTemplate.html>).
    if !(3..=128).contains(&name.len()) || !name.chars().all(valid) {
        // As in github-aws-runners/terraform-aws-github-runner#932.
        let message = "A launch template name must be between 3 and 128 characters, and may contain letters, numbers, and the following characters: - ( ) . / _.";
        return Some(Refusal::new(400, "InvalidLaunchTemplateName.MalformedException", message));
    }
    // "InvalidUserData.Malformed", in the words that Karpenter recognizes.
    let user_data = call.param("LaunchTemplateData.UserData");
    let padding = user_data.bytes().rev().take_while(|byte| *byte == b'=').count();
    if user_data.len() / 4 * 3 - padding.min(user_data.len()) > USER_DATA_MAX {
        return Some(Refusal::new(400, "InvalidUserData.Malformed", "User data is limited to 16384 bytes"));
    }
    tags(call).or_else(|| devices(&call.params))
}

/// "Launch templates per Region: 5,000" (<https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/launch-template-restrictions.html>), in the words of
/// aws/karpenter-provider-aws#8686.
pub(crate) fn too_many() -> Refusal {
    Refusal::new(400, "MaxTemplateLimitExceeded", "Account has already reached max permitted templates")
}

/// Tags of any specification of a call.
pub(crate) fn tags(call: &Call) -> Option<Refusal> {
    let specifications = ["TagSpecification.", "LaunchTemplateData.TagSpecification."];
    for place in specifications.iter().flat_map(|prefix| groups(&call.params, prefix)) {
        let tags = crate::call::tag_pairs(&call.params, &format!("{place}Tag."));
        if tags.len() > TAGS_MAX {
            // "TagLimitExceeded: You've reached the limit on the number of tags that you can assign to the specified resource."
            // (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html>)
            let message = "You've reached the limit on the number of tags that you can assign to the specified resource.";
            return Some(Refusal::new(400, "TagLimitExceeded", message));
        }
        for (key, value) in &tags {
            if key.starts_with("aws:") {
                // As in kubernetes-sigs/cluster-api-provider-aws#5461.
                let message = format!(
                    "Value ( {key} ) for parameter key is invalid. Tag keys starting with 'aws:' are reserved for internal use"
                );
                return Some(Refusal::new(400, "InvalidParameterValue", &message));
            }
            if key.chars().count() > TAG_LENGTHS.0 || value.chars().count() > TAG_LENGTHS.1 {
                // As in iriusrisk/GoCD-EC2-Elastic-Agent-Plugin#24.
                let message = if value.chars().count() > TAG_LENGTHS.1 {
                    "Tag value exceeds the maximum length of 256 characters"
                } else {
                    "Tag key exceeds the maximum length of 128 characters"
                };
                return Some(Refusal::new(400, "InvalidParameterValue", message));
            }
        }
    }
    None
}

/// Each interface has a device of its own on its card. "InvalidParameterValue: A value specified in a parameter is not valid, is unsupported, or
/// cannot be used." (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html>); EC2's words are not documented.
fn devices(params: &Params) -> Option<Refusal> {
    let mut seen = Vec::new();
    for place in groups(params, "LaunchTemplateData.NetworkInterface.") {
        let number = |name: &str| params.get(&format!("{place}{name}")).map_or("0", String::as_str);
        let device = (number("NetworkCardIndex"), number("DeviceIndex"));
        if seen.contains(&device) {
            let message = "Each network interface requires a unique device index.";
            return Some(Refusal::new(400, "InvalidParameterValue", message));
        }
        seen.push(device);
    }
    None
}

/// Completes a way by what its template says.
pub(crate) fn complete(way: Way, data: &Params) -> Way {
    let text = |key: &str| data.get(&format!("LaunchTemplateData.{key}")).cloned();
    let reservation =
        text("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId");
    let price_max = way.price_max.clone().or_else(|| text("InstanceMarketOptions.SpotOptions.MaxPrice"));
    let group = text("Placement.GroupId")
        .map(|id| (id, text("Placement.PartitionNumber").and_then(|number| number.parse().ok())));
    let efa = |place: &String| {
        data.get(&format!("{place}InterfaceType")).is_some_and(|kind| kind.starts_with("efa"))
    };
    let efas = groups(data, "LaunchTemplateData.NetworkInterface.").iter().filter(|place| efa(place)).count();
    Way { reservation, group, efas, price_max, ..way }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::decode;

    fn code(form: &str) -> Option<String> {
        let call = Call { params: decode(form), ..Call::default() };
        refused(&call).map(|refusal| refusal.code)
    }

    #[test]
    fn templates_are_validated() {
        let data =
            |size: usize| format!("LaunchTemplateName=abc&LaunchTemplateData.UserData={}", "A".repeat(size));
        let tags = |count: usize| -> String {
            let place = "TagSpecification.1.Tag";
            (1..=count).map(|n| format!("&{place}.{n}.Key=k{n}&{place}.{n}.Value=v")).collect()
        };
        let tagged =
            |tags: &str| format!("LaunchTemplateName=abc&TagSpecification.1.ResourceType=instance{tags}");
        for (form, expected) in [
            ("LaunchTemplateName=karpenter.k8s.aws/1".to_owned(), None),
            ("LaunchTemplateName=ab".to_owned(), Some("InvalidLaunchTemplateName.MalformedException")),
            ("LaunchTemplateName=a b c".to_owned(), Some("InvalidLaunchTemplateName.MalformedException")),
            (data(21_844), None),
            (data(21_848), Some("InvalidUserData.Malformed")),
            (tagged(&tags(50)), None),
            (tagged(&tags(51)), Some("TagLimitExceeded")),
            (tagged("&TagSpecification.1.Tag.1.Key=aws:x"), Some("InvalidParameterValue")),
            (
                "LaunchTemplateName=abc&LaunchTemplateData.NetworkInterface.1.DeviceIndex=1\
                 &LaunchTemplateData.NetworkInterface.2.DeviceIndex=1"
                    .to_owned(),
                Some("InvalidParameterValue"),
            ),
            (
                "LaunchTemplateName=abc&LaunchTemplateData.NetworkInterface.1.DeviceIndex=1\
                 &LaunchTemplateData.NetworkInterface.2.DeviceIndex=1&LaunchTemplateData.NetworkInterface.2.NetworkCardIndex=1"
                    .to_owned(),
                None,
            ),
        ] {
            assert_eq!(code(&form).as_deref(), expected, "{}", form.get(..80).unwrap_or(&form));
        }
    }

    #[test]
    fn a_way_has_what_its_template_says() {
        let data = decode(
            "LaunchTemplateData.Placement.GroupId=pg-1&LaunchTemplateData.Placement.PartitionNumber=2\
             &LaunchTemplateData.NetworkInterface.1.InterfaceType=efa&LaunchTemplateData.NetworkInterface.2.InterfaceType=interface\
             &LaunchTemplateData.CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId=cr-1",
        );
        let way = complete(Way::default(), &data);
        assert_eq!(way.group, Some(("pg-1".to_owned(), Some(2))));
        assert_eq!((way.reservation.as_deref(), way.efas), (Some("cr-1"), 1));
    }
}

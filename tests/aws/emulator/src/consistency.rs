//! Eventual consistency: "the result of an API command you run that affects your Amazon EC2 resources might not be immediately visible to all
//! subsequent commands you run" (<https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html>). IAM is eventually consistent too
//! (<https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html#troubleshoot_general_eventual-consistency>).

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use crate::answer::{Refusal, each_instance};
use crate::call::Call;
use crate::capacity::filters;
use crate::xml::Element;

/// How late things are seen. Zero everywhere is moto's own behaviour.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delays {
    /// IAM itself knows an instance profile this long after `CreateInstanceProfile`.
    pub iam: SignedDuration,
    /// EC2 knows an instance profile with its role this long after `AddRoleToInstanceProfile`.
    pub profiles: SignedDuration,
    /// `DescribeInstances` shows an instance this long after its launch.
    pub instances: SignedDuration,
    /// `CreateTags` and `TerminateInstances` know an instance this long after its launch.
    pub changes: SignedDuration,
    /// Launches and `DescribeLaunchTemplates` know a launch template this long after its creation.
    pub templates: SignedDuration,
    /// `DescribeImages` shows an image this long after its launch permission was withdrawn.
    pub images: SignedDuration,
    /// An instance is `pending` this long after its launch.
    pub starting: SignedDuration,
    /// An instance is `shutting-down` this long after `TerminateInstances`.
    pub stopping: SignedDuration,
    /// One in this number of `DescribeInstances` responses with several instances omits one; zero: none does.
    pub omits: usize,
}

impl Delays {
    /// As AWS is on a bad day.
    #[must_use]
    pub fn strange() -> Self {
        let seconds = SignedDuration::from_secs;
        Self {
            iam: seconds(5),
            profiles: seconds(10),
            instances: seconds(10),
            changes: seconds(1),
            templates: seconds(1),
            images: seconds(60),
            starting: seconds(30),
            stopping: seconds(20),
            omits: 3,
        }
    }
}

/// Whether what was made at `made` is still unseen.
#[must_use]
pub(crate) fn is_unseen(made: Timestamp, delay: SignedDuration, now: Timestamp) -> bool {
    now.duration_since(made) < delay
}

/// "InvalidInstanceID.NotFound: The specified instance does not exist." (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html>)
#[must_use]
pub(crate) fn no_instance(ids: &[&str]) -> Refusal {
    let message = match ids {
        [one] => format!("The instance ID '{one}' does not exist"),
        many => format!("The instance IDs '{}' do not exist", many.join(", ")),
    };
    Refusal::new(400, "InvalidInstanceID.NotFound", &message)
}

/// "InvalidLaunchTemplateName.NotFoundException" (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html>), as in
/// aws/karpenter-provider-aws#7941.
#[must_use]
pub(crate) fn no_template() -> Refusal {
    let message = "At least one of the launch templates specified in the request does not exist.";
    Refusal::new(400, "InvalidLaunchTemplateName.NotFoundException", message)
}

/// EC2 on an instance profile that it does not see, as in aws/karpenter-provider-aws#3051.
#[must_use]
pub(crate) fn no_profile(name: &str) -> Refusal {
    let message = format!(
        "Value ({name}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
    );
    Refusal::new(400, "InvalidParameterValue", &message)
}

/// IAM on an instance profile that it does not see yet: "NoSuchEntity: The request was rejected because it referenced a resource entity that does not
/// exist. The error message describes the resource. HTTP Status Code: 404"
/// (<https://docs.aws.amazon.com/IAM/latest/APIReference/API_AddRoleToInstanceProfile.html>), in the words of DataBiosphere/toil#4836.
#[must_use]
pub(crate) fn unknown_profile(name: &str) -> Refusal {
    Refusal::new(404, "NoSuchEntity", &format!("Instance Profile {name} cannot be found."))
}

/// "pending: The instance is preparing to enter the running state." (code 0) "shutting-down: The instance is preparing to be terminated." (code 32)
/// (<https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-lifecycle.html>,
/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceState.html>)
pub(crate) const PENDING: (&str, &str) = ("0", "pending");
/// See [`PENDING`].
pub(crate) const SHUTTING_DOWN: (&str, &str) = ("32", "shutting-down");

/// Sets the state that an element has under `name`.
pub(crate) fn set_state(of: &mut Element, name: &str, (code, state): (&str, &str)) {
    of.children.retain(|child| child.name() != name);
    let children = vec![Element::text("code", code), Element::text("name", state)];
    of.children.push(Element::of(name, children));
}

/// `TerminateInstances` of instances that run: they are shutting down.
pub(crate) fn terminating(ids: &[String]) -> Vec<Element> {
    let item = |id: &String| {
        let mut item = Element::of("item", vec![Element::text("instanceId", id)]);
        set_state(&mut item, "currentState", SHUTTING_DOWN);
        set_state(&mut item, "previousState", ("16", "running"));
        item
    };
    ids.iter().map(item).collect()
}

/// Takes the instances out of an answer of `DescribeInstances` for which `hides` holds; their ids.
pub(crate) fn hide_instances(root: &mut Element, mut hides: impl FnMut(&str) -> bool) -> Vec<String> {
    let mut hidden = Vec::new();
    let sets = root.children.iter_mut().filter(|child| child.name() == "reservationSet");
    for set in sets {
        for reservation in &mut set.children {
            let sets = reservation.children.iter_mut().filter(|child| child.name() == "instancesSet");
            for instances in sets {
                instances.children.retain(|instance| {
                    let id = instance.at(&["instanceId"]);
                    let hide = hides(id);
                    if hide {
                        hidden.push(id.to_owned());
                    }
                    !hide
                });
            }
        }
        set.children.retain(|reservation| {
            reservation.child("instancesSet").is_none_or(|instances| !instances.children.is_empty())
        });
    }
    hidden
}

/// Takes the instances out of a list whose state it does not ask for: moto knows other states.
pub(crate) fn filter_states(call: &Call, root: &mut Element) {
    let asked = filters(call).into_iter().find(|(name, _)| name == "instance-state-name");
    let Some((_, states)) = asked else { return };
    let mut others = BTreeSet::new();
    each_instance(root, |own| {
        if !states.iter().any(|state| state == own.at(&["instanceState", "name"])) {
            others.insert(own.at(&["instanceId"]).to_owned());
        }
    });
    hide_instances(root, |id| others.contains(id));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::parse;

    #[test]
    fn hidden_instances_leave_with_their_reservation() {
        let item = |id: &str| format!("<item><instanceId>{id}</instanceId></item>");
        let reservation = |items: &str| format!("<item><instancesSet>{items}</instancesSet></item>");
        let text = format!(
            "<R><reservationSet>{}{}</reservationSet></R>",
            reservation(&(item("i-1") + &item("i-2"))),
            reservation(&item("i-3"))
        );
        let mut root = parse(&text).unwrap();
        assert_eq!(hide_instances(&mut root, |id| id != "i-2"), ["i-1", "i-3"]);
        assert_eq!(root.document().matches("<instancesSet>").count(), 1);
        assert_eq!(root.all("instanceId").len(), 1);
    }

    #[test]
    fn errors_are_worded_as_documented() {
        assert_eq!(no_instance(&["i-1"]).message, "The instance ID 'i-1' does not exist");
        assert_eq!(no_instance(&["i-1", "i-2"]).message, "The instance IDs 'i-1, i-2' do not exist");
        assert!(no_profile("p").message.contains("Invalid IAM Instance Profile name"));
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(10);
        assert!(is_unseen(Timestamp::UNIX_EPOCH, SignedDuration::from_secs(11), now));
        assert!(!is_unseen(Timestamp::UNIX_EPOCH, SignedDuration::from_secs(10), now));
    }
}

//! The IAM actions that each AWS call needs, the statement of `deploy/iam` that grants each, and the feature that is off without it.

use crate::calls::AwsError;

/// What does not work without a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// Launching and terminating instances.
    Core,
    /// `spec.role` of node classes.
    InstanceProfiles,
    /// Messages of the interruption queue.
    Interruption,
    /// Current prices. Without them the built-in price tables apply.
    Pricing,
    /// Avoiding zones that traffic is shifted away from.
    ZonalShift,
    /// Discovery of capacity reservations.
    Reservations,
    /// Node classes with a placement group.
    PlacementGroups,
    /// Replacement of nodes whose instance EC2 reports as impaired.
    InstanceStatus,
    /// Tags with node names on instances.
    LateTags,
}

impl Feature {
    /// The feature as reports name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Core => "launching and terminating nodes",
            Self::InstanceProfiles => "instance profiles for spec.role",
            Self::Interruption => "interruption messages",
            Self::Pricing => "current prices",
            Self::ZonalShift => "zonal shift",
            Self::Reservations => "capacity reservations",
            Self::PlacementGroups => "placement groups",
            Self::InstanceStatus => "instance status checks",
            Self::LateTags => "node name tags",
        }
    }

    /// Whether everything else works without it.
    #[must_use]
    pub fn is_optional(self) -> bool {
        self != Self::Core
    }
}

/// An IAM action that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    /// The method of [`crate::calls::AwsApi`].
    pub call: &'static str,
    /// The action as IAM names it.
    pub action: &'static str,
    /// The statement of `deploy/iam` that grants it; the name is Karpenter's.
    pub statement: &'static str,
    /// The feature that is off without it.
    pub feature: Feature,
}

const fn permission(
    call: &'static str,
    action: &'static str,
    statement: &'static str,
    feature: Feature,
) -> Permission {
    Permission { call, action, statement, feature }
}

/// Every action of every call.
pub const PERMISSIONS: &[Permission] = &[
    permission("instance_types", "ec2:DescribeInstanceTypes", "AllowRegionalReadActions", Feature::Core),
    permission("sold_in", "ec2:DescribeInstanceTypeOfferings", "AllowRegionalReadActions", Feature::Core),
    permission("subnets", "ec2:DescribeSubnets", "AllowRegionalReadActions", Feature::Core),
    permission("security_groups", "ec2:DescribeSecurityGroups", "AllowRegionalReadActions", Feature::Core),
    permission(
        "placement_groups",
        "ec2:DescribePlacementGroups",
        "AllowRegionalReadActions",
        Feature::PlacementGroups,
    ),
    permission("images", "ec2:DescribeImages", "AllowRegionalReadActions", Feature::Core),
    permission(
        "reservations",
        "ec2:DescribeCapacityReservations",
        "AllowRegionalReadActions",
        Feature::Reservations,
    ),
    permission("parameter", "ssm:GetParameter", "AllowSSMReadActions", Feature::Core),
    permission("create_fleet", "ec2:CreateFleet", "AllowScopedEC2InstanceActionsWithTags", Feature::Core),
    permission("create_fleet", "ec2:RunInstances", "AllowScopedEC2InstanceActionsWithTags", Feature::Core),
    permission("create_fleet", "ec2:CreateTags", "AllowScopedResourceCreationTagging", Feature::Core),
    permission("create_fleet", "iam:PassRole", "AllowPassingInstanceRole", Feature::Core),
    permission("try_fleet", "ec2:CreateFleet", "AllowScopedEC2InstanceActionsWithTags", Feature::Core),
    permission("try_instance", "ec2:RunInstances", "AllowScopedEC2InstanceActionsWithTags", Feature::Core),
    permission("instances", "ec2:DescribeInstances", "AllowRegionalReadActions", Feature::Core),
    permission(
        "instance_statuses",
        "ec2:DescribeInstanceStatus",
        "AllowRegionalReadActions",
        Feature::InstanceStatus,
    ),
    permission("terminate", "ec2:TerminateInstances", "AllowScopedDeletion", Feature::Core),
    permission("create_tags", "ec2:CreateTags", "AllowScopedResourceTagging", Feature::LateTags),
    permission("launch_templates", "ec2:DescribeLaunchTemplates", "AllowRegionalReadActions", Feature::Core),
    permission(
        "create_launch_template",
        "ec2:CreateLaunchTemplate",
        "AllowScopedEC2InstanceActionsWithTags",
        Feature::Core,
    ),
    permission(
        "create_launch_template",
        "ec2:CreateTags",
        "AllowScopedResourceCreationTagging",
        Feature::Core,
    ),
    permission("delete_launch_template", "ec2:DeleteLaunchTemplate", "AllowScopedDeletion", Feature::Core),
    permission("on_demand_prices", "pricing:GetProducts", "AllowPricingReadActions", Feature::Pricing),
    permission("spot_prices", "ec2:DescribeSpotPriceHistory", "AllowRegionalReadActions", Feature::Pricing),
    permission("cluster", "eks:DescribeCluster", "AllowAPIServerEndpointDiscovery", Feature::Core),
    permission(
        "zonal_shifts",
        "arc-zonal-shift:GetManagedResource",
        "AllowZonalShiftReadActions",
        Feature::ZonalShift,
    ),
    permission("receive", "sqs:ReceiveMessage", "AllowInterruptionQueueActions", Feature::Interruption),
    permission("receive", "sqs:GetQueueUrl", "AllowInterruptionQueueActions", Feature::Interruption),
    permission(
        "delete_messages",
        "sqs:DeleteMessage",
        "AllowInterruptionQueueActions",
        Feature::Interruption,
    ),
    permission(
        "profile",
        "iam:GetInstanceProfile",
        "AllowInstanceProfileReadActions",
        Feature::InstanceProfiles,
    ),
    permission(
        "profiles",
        "iam:ListInstanceProfiles",
        "AllowUnscopedInstanceProfileListAction",
        Feature::InstanceProfiles,
    ),
    permission(
        "create_profile",
        "iam:CreateInstanceProfile",
        "AllowScopedInstanceProfileCreationActions",
        Feature::InstanceProfiles,
    ),
    permission(
        "create_profile",
        "iam:TagInstanceProfile",
        "AllowScopedInstanceProfileTagActions",
        Feature::InstanceProfiles,
    ),
    permission(
        "add_role",
        "iam:AddRoleToInstanceProfile",
        "AllowScopedInstanceProfileActions",
        Feature::InstanceProfiles,
    ),
    permission("add_role", "iam:PassRole", "AllowPassingInstanceRole", Feature::InstanceProfiles),
    permission(
        "remove_role",
        "iam:RemoveRoleFromInstanceProfile",
        "AllowScopedInstanceProfileActions",
        Feature::InstanceProfiles,
    ),
    permission(
        "delete_profile",
        "iam:DeleteInstanceProfile",
        "AllowScopedInstanceProfileActions",
        Feature::InstanceProfiles,
    ),
];

/// The message for an action that IAM denies, with the statement that grants it.
#[must_use]
pub fn denial(action: &str) -> String {
    match statement_of(action) {
        Some(statement) => {
            format!("IAM does not allow {action}: add the statement {statement} of deploy/iam")
        }
        None => format!("IAM does not allow {action}"),
    }
}

/// The message for a launch that IAM denies, with what EC2 says about it: the action (a launch needs `iam:PassRole` and others beside its
/// own), the resource, and the kind of policy. Without such words it is [`denial`]'s.
#[must_use]
pub fn explained(action: &str, said: &str) -> String {
    // Documented as "… is not authorized to perform: ACTION on resource: ARN because no identity-based policy allows the ACTION action.
    // Encoded authorization failure message: …" (IAM user guide, "Troubleshoot access denied error messages").
    let said = said.split("Encoded authorization failure message").next().unwrap_or_default().trim();
    let Some((_, reason)) = said.split_once("is not authorized to perform: ") else { return denial(action) };
    let reason = reason.trim_end_matches('.');
    let denied = reason.split_whitespace().next().unwrap_or(action);
    let fix = if reason.contains("service control policy") || reason.contains("resource control policy") {
        "change the policy of the organization".to_owned()
    } else if reason.contains("permissions boundary") {
        "allow it in the permissions boundary of the controller's role".to_owned()
    } else if reason.contains("explicit deny") {
        "remove the statement that denies it".to_owned()
    } else {
        match statement_of(denied) {
            Some(statement) => format!("add the statement {statement} of deploy/iam"),
            None => "allow it in a policy of the controller's role".to_owned(),
        }
    };
    format!("IAM does not allow {reason}: {fix}")
}

/// The statement of `deploy/iam` that grants an action. Of several it is the one of an optional feature: a denied launch reports its own
/// error.
fn statement_of(action: &str) -> Option<&'static str> {
    let of_action = || PERMISSIONS.iter().filter(|permission| permission.action == action);
    let found =
        of_action().find(|permission| permission.feature.is_optional()).or_else(|| of_action().next());
    found.map(|permission| permission.statement)
}

/// The message for an action that is not allowed: IAM denies it, or AWS does not accept the credentials.
#[must_use]
pub fn refusal(action: &str, error: &AwsError) -> String {
    match error.is_unidentified() {
        true => format!(
            "AWS does not accept the credentials for {action} ({}): renew them, or set this host's clock",
            error.code
        ),
        false => denial(action),
    }
}

#[cfg(test)]
mod tests {
    //! Every call is in the table, and denials name their statement.
    use std::collections::BTreeSet;

    use super::*;

    const CALLS: &str = include_str!("calls/mod.rs");

    #[test]
    fn every_call_has_its_permissions() {
        let methods = CALLS.split("async fn ").skip(1);
        let calls: BTreeSet<&str> = methods.filter_map(|text| text.split('(').next()).collect();
        let in_table: BTreeSet<&str> = PERMISSIONS.iter().map(|permission| permission.call).collect();
        assert_eq!(in_table, calls);
    }

    #[test]
    fn denials_name_the_statement() {
        assert!(denial("sqs:ReceiveMessage").ends_with("AllowInterruptionQueueActions of deploy/iam"));
    }

    #[test]
    fn what_ec2_says_about_a_denial_is_kept() {
        let said = |action: &str, why: &str| {
            format!(
                "You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/k/s is not authorized to \
                 perform: {action} on resource: arn:aws:iam::1:role/node {why}. Encoded authorization failure message: 4XmQ"
            )
        };
        let none = |kind: &str| format!("because no {kind} allows the iam:PassRole action");
        for (why, fix) in [
            (none("identity-based policy"), "add the statement AllowPassingInstanceRole of deploy/iam"),
            (none("permissions boundary"), "allow it in the permissions boundary of the controller's role"),
            (
                "with an explicit deny in a service control policy".to_owned(),
                "change the policy of the organization",
            ),
            (
                "with an explicit deny in an identity-based policy".to_owned(),
                "remove the statement that denies it",
            ),
        ] {
            let expected =
                format!("IAM does not allow iam:PassRole on resource: arn:aws:iam::1:role/node {why}: {fix}");
            assert_eq!(explained("ec2:RunInstances", &said("iam:PassRole", &why)), expected);
        }
        let plain = "You are not authorized to perform this operation.";
        assert_eq!(explained("ec2:CreateFleet", plain), denial("ec2:CreateFleet"));
    }

    #[test]
    fn rejected_credentials_are_not_a_policy_problem() {
        let message = |code: &str| refusal("ec2:DescribeImages", &AwsError::new(code, "no"));
        assert!(message("UnauthorizedOperation").contains("AllowRegionalReadActions"));
        for code in ["RequestExpired", "ExpiredTokenException", "AuthFailure", "InvalidClientTokenId"] {
            let text = message(code);
            assert!(
                text.contains("credentials") && text.contains(code) && !text.contains("statement"),
                "{text}"
            );
        }
    }
}

//! Which rights at AWS each call needs, by which statement of `deploy/iam` they are given, and what is lost without them.

use crate::calls::AwsError;

/// What stands still where a right is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// Everything: without it no node is launched, or none is ended.
    Core,
    /// `spec.role` of node classes.
    InstanceProfiles,
    /// Announcements of the interruption queue.
    Interruption,
    /// Current prices: without them the tables count.
    Pricing,
    /// Avoiding zones that traffic is shifted away from.
    ZonalShift,
    /// Capacity reservations that are not known yet.
    Reservations,
    /// Node classes with a placement group.
    PlacementGroups,
    /// Replacing nodes whose instance EC2 finds impaired.
    InstanceStatus,
    /// Names of nodes on instances.
    LateTags,
}

impl Feature {
    /// What people are told is off.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Core => "launching and ending nodes",
            Self::InstanceProfiles => "instance profiles for spec.role",
            Self::Interruption => "interruption messages",
            Self::Pricing => "current prices",
            Self::ZonalShift => "zonal shift",
            Self::Reservations => "capacity reservations",
            Self::PlacementGroups => "placement groups",
            Self::InstanceStatus => "instance status checks",
            Self::LateTags => "tags with the names of nodes",
        }
    }

    /// Whether the rest works without it.
    #[must_use]
    pub fn is_optional(self) -> bool {
        self != Self::Core
    }
}

/// That a call needs a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// The method of [`crate::calls::AwsApi`].
    pub call: &'static str,
    /// The action as IAM names it.
    pub action: &'static str,
    /// The statement of `deploy/iam` that gives it; the name is Karpenter's.
    pub statement: &'static str,
    /// What stands still without it.
    pub feature: Feature,
}

const fn right(call: &'static str, action: &'static str, statement: &'static str, feature: Feature) -> Right {
    Right { call, action, statement, feature }
}

/// Every right of every call.
pub const RIGHTS: &[Right] = &[
    right("machines", "ec2:DescribeInstanceTypes", "AllowRegionalReadActions", Feature::Core),
    right("sold_in", "ec2:DescribeInstanceTypeOfferings", "AllowRegionalReadActions", Feature::Core),
    right("subnets", "ec2:DescribeSubnets", "AllowRegionalReadActions", Feature::Core),
    right("security_groups", "ec2:DescribeSecurityGroups", "AllowRegionalReadActions", Feature::Core),
    right(
        "placement_groups",
        "ec2:DescribePlacementGroups",
        "AllowRegionalReadActions",
        Feature::PlacementGroups,
    ),
    right("images", "ec2:DescribeImages", "AllowRegionalReadActions", Feature::Core),
    right(
        "reservations",
        "ec2:DescribeCapacityReservations",
        "AllowRegionalReadActions",
        Feature::Reservations,
    ),
    right("parameter", "ssm:GetParameter", "AllowSSMReadActions", Feature::Core),
    right("create_fleet", "ec2:CreateFleet", "AllowScopedEC2InstanceActionsWithTags", Feature::Core),
    right("create_fleet", "ec2:RunInstances", "AllowScopedEC2InstanceActionsWithTags", Feature::Core),
    right("create_fleet", "ec2:CreateTags", "AllowScopedResourceCreationTagging", Feature::Core),
    right("create_fleet", "iam:PassRole", "AllowPassingInstanceRole", Feature::Core),
    right("try_fleet", "ec2:CreateFleet", "AllowScopedEC2InstanceActionsWithTags", Feature::Core),
    right("try_instance", "ec2:RunInstances", "AllowScopedEC2InstanceActionsWithTags", Feature::Core),
    right("instances", "ec2:DescribeInstances", "AllowRegionalReadActions", Feature::Core),
    right(
        "instance_statuses",
        "ec2:DescribeInstanceStatus",
        "AllowRegionalReadActions",
        Feature::InstanceStatus,
    ),
    right("terminate", "ec2:TerminateInstances", "AllowScopedDeletion", Feature::Core),
    right("create_tags", "ec2:CreateTags", "AllowScopedResourceTagging", Feature::LateTags),
    right("launch_templates", "ec2:DescribeLaunchTemplates", "AllowRegionalReadActions", Feature::Core),
    right(
        "create_launch_template",
        "ec2:CreateLaunchTemplate",
        "AllowScopedEC2InstanceActionsWithTags",
        Feature::Core,
    ),
    right("create_launch_template", "ec2:CreateTags", "AllowScopedResourceCreationTagging", Feature::Core),
    right("delete_launch_template", "ec2:DeleteLaunchTemplate", "AllowScopedDeletion", Feature::Core),
    right("on_demand_prices", "pricing:GetProducts", "AllowPricingReadActions", Feature::Pricing),
    right("spot_prices", "ec2:DescribeSpotPriceHistory", "AllowRegionalReadActions", Feature::Pricing),
    right("cluster", "eks:DescribeCluster", "AllowAPIServerEndpointDiscovery", Feature::Core),
    right(
        "zonal_shifts",
        "arc-zonal-shift:GetManagedResource",
        "AllowZonalShiftReadActions",
        Feature::ZonalShift,
    ),
    right("receive", "sqs:ReceiveMessage", "AllowInterruptionQueueActions", Feature::Interruption),
    right("receive", "sqs:GetQueueUrl", "AllowInterruptionQueueActions", Feature::Interruption),
    right("delete_message", "sqs:DeleteMessage", "AllowInterruptionQueueActions", Feature::Interruption),
    right("profile", "iam:GetInstanceProfile", "AllowInstanceProfileReadActions", Feature::InstanceProfiles),
    right(
        "profiles",
        "iam:ListInstanceProfiles",
        "AllowUnscopedInstanceProfileListAction",
        Feature::InstanceProfiles,
    ),
    right(
        "create_profile",
        "iam:CreateInstanceProfile",
        "AllowScopedInstanceProfileCreationActions",
        Feature::InstanceProfiles,
    ),
    right(
        "create_profile",
        "iam:TagInstanceProfile",
        "AllowScopedInstanceProfileTagActions",
        Feature::InstanceProfiles,
    ),
    right(
        "add_role",
        "iam:AddRoleToInstanceProfile",
        "AllowScopedInstanceProfileActions",
        Feature::InstanceProfiles,
    ),
    right("add_role", "iam:PassRole", "AllowPassingInstanceRole", Feature::InstanceProfiles),
    right(
        "remove_role",
        "iam:RemoveRoleFromInstanceProfile",
        "AllowScopedInstanceProfileActions",
        Feature::InstanceProfiles,
    ),
    right(
        "delete_profile",
        "iam:DeleteInstanceProfile",
        "AllowScopedInstanceProfileActions",
        Feature::InstanceProfiles,
    ),
];

/// What to say where IAM refuses an action: the statement that gives it. Of several, the one of an optional feature: what a launch
/// is refused is told by the launch.
#[must_use]
pub fn denial(action: &str) -> String {
    let of_action = || RIGHTS.iter().filter(|right| right.action == action);
    match of_action().find(|right| right.feature.is_optional()).or_else(|| of_action().next()) {
        Some(right) => {
            format!("IAM does not allow {action}: add the statement {} of deploy/iam", right.statement)
        }
        None => format!("IAM does not allow {action}"),
    }
}

/// What to say where an action is not allowed: by IAM, or because AWS does not accept the credentials.
#[must_use]
pub fn refusal(action: &str, error: &AwsError) -> String {
    match error.is_unidentified() {
        true => format!(
            "AWS does not accept the credentials for {action} ({}): renew them, or set this machine's clock",
            error.code
        ),
        false => denial(action),
    }
}

/// The rights that are needed with some features switched on, each action and statement once, in order.
#[must_use]
pub fn needed(on: impl Fn(Feature) -> bool) -> Vec<Right> {
    let mut all: Vec<Right> = RIGHTS.iter().filter(|right| on(right.feature)).copied().collect();
    all.sort_by_key(|right| (right.action, right.statement, right.feature));
    all.dedup_by_key(|right| (right.action, right.statement));
    all
}

/// What `fleetwright iam check` tells: rights that no statement of the given policies gives. Conditions and resources are not
/// evaluated; a right that is given only for other resources is found by the dry runs of node classes.
///
/// # Errors
/// Where a policy is not JSON.
pub fn missing(policies: &[&str], on: impl Fn(Feature) -> bool) -> Result<Vec<Right>, serde_json::Error> {
    let mut given = Vec::new();
    for policy in policies {
        let document: serde_json::Value = serde_json::from_str(policy)?;
        given.extend(statements(&document));
    }
    let allows = |action: &str| given.iter().any(|pattern| matches(pattern, action));
    Ok(needed(on).into_iter().filter(|right| !allows(right.action)).collect())
}

/// The actions that a policy's statements allow, as patterns.
fn statements(document: &serde_json::Value) -> Vec<String> {
    let one_or_many = |value: &serde_json::Value| match value {
        serde_json::Value::Array(all) => all.clone(),
        serde_json::Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    let allowing = one_or_many(&document["Statement"]).into_iter().filter(|s| s["Effect"] == "Allow");
    let actions = allowing.flat_map(|statement| one_or_many(&statement["Action"]));
    actions.filter_map(|action| action.as_str().map(str::to_owned)).collect()
}

/// IAM's wildcard: `*` stands for anything. Actions do not mind case.
fn matches(pattern: &str, action: &str) -> bool {
    let (pattern, action) = (pattern.to_ascii_lowercase(), action.to_ascii_lowercase());
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| action.strip_prefix(first)) else { return false };
    let mut last = None;
    for part in parts {
        last = Some(part);
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    last.map_or(rest.is_empty(), |last| last.is_empty() || action.ends_with(last))
}

#[cfg(test)]
mod tests {
    //! Every call is allowed by the policies that come with the program.
    use std::collections::BTreeSet;

    use rstest::rstest;
    use serde_json::Value;

    use super::*;

    const CALLS: &str = include_str!("calls/mod.rs");
    const SCOPED: &str = include_str!("../../../deploy/iam/controller-policy.json");
    const STRICT: &str = include_str!("../../../deploy/iam/controller-policy-strict.json");

    fn calls() -> BTreeSet<&'static str> {
        let methods = CALLS.split("async fn ").skip(1);
        methods.filter_map(|text| text.split('(').next()).collect()
    }

    #[test]
    fn every_call_has_its_rights() {
        let in_table: BTreeSet<&str> = RIGHTS.iter().map(|right| right.call).collect();
        assert_eq!(in_table, calls());
    }

    #[rstest]
    #[case::scoped(SCOPED)]
    #[case::strict(STRICT)]
    fn every_right_is_given_by_its_statement(#[case] policy: &str) {
        let document: Value = serde_json::from_str(policy).unwrap();
        let mut used = BTreeSet::new();
        for right in RIGHTS {
            let all = document["Statement"].as_array().unwrap();
            let statement = all.iter().find(|statement| statement["Sid"] == right.statement);
            let statement = statement.unwrap_or_else(|| panic!("no statement {}", right.statement));
            let single = serde_json::json!({"Statement": statement});
            let given = statements(&single);
            assert!(given.iter().any(|given| given == right.action), "{right:?}");
            used.insert(right.action);
        }
        // Nothing is asked for that nothing uses.
        let given: BTreeSet<String> = statements(&document).into_iter().collect();
        let used: BTreeSet<String> = used.into_iter().map(str::to_owned).collect();
        assert_eq!(given, used);
        assert_eq!(missing(&[policy], |_| true).unwrap(), []);
    }

    /// Whatever changes anything is bound to the cluster; in the strict policy by its UID, where EC2 can tell it.
    #[rstest]
    #[case::scoped(SCOPED, "eks:eks-cluster-name")]
    #[case::strict(STRICT, "fleetwright.dev/cluster-uid")]
    fn what_is_made_and_ended_is_bound_to_the_cluster(#[case] policy: &str, #[case] by: &str) {
        let document: Value = serde_json::from_str(policy).unwrap();
        for sid in [
            "AllowScopedEC2InstanceActionsWithTags",
            "AllowScopedResourceCreationTagging",
            "AllowScopedDeletion",
            "AllowScopedResourceTagging",
        ] {
            let all = document["Statement"].as_array().unwrap();
            let statement = all.iter().find(|statement| statement["Sid"] == sid).unwrap();
            let condition = statement["Condition"].to_string();
            let bound = condition.contains(by) || condition.contains("kubernetes.io/cluster/");
            assert!(bound && (by != "fleetwright.dev/cluster-uid" || condition.contains(by)), "{sid}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let policy = r#"{"Statement": [
            {"Effect": "Allow", "Action": ["ec2:Describe*", "EC2:createfleet", "ec2:RunInstances", "ec2:*Tags"], "Resource": "*"},
            {"Effect": "Deny", "Action": "*", "Resource": "*"},
            {"Effect": "Allow", "Action": "ssm:*", "Resource": "*"}]}"#;
        let core = missing(&[policy], |feature| feature == Feature::Core).unwrap();
        let actions: Vec<&str> = core.iter().map(|right| right.action).collect();
        let expected = [
            "ec2:CreateLaunchTemplate",
            "ec2:DeleteLaunchTemplate",
            "ec2:TerminateInstances",
            "eks:DescribeCluster",
            "iam:PassRole",
        ];
        assert_eq!(actions, expected);
        assert!(missing(&["{"], |_| true).is_err());
        assert!(missing(&["null"], |_| true).is_ok_and(|all| !all.is_empty()));
        assert!(denial("sqs:ReceiveMessage").ends_with("AllowInterruptionQueueActions of deploy/iam"));
    }

    #[test]
    fn credentials_are_no_matter_of_policies() {
        let told = |code: &str| refusal("ec2:DescribeImages", &AwsError::new(code, "no"));
        assert!(told("UnauthorizedOperation").contains("AllowRegionalReadActions"));
        for code in ["RequestExpired", "ExpiredTokenException", "AuthFailure", "InvalidClientTokenId"] {
            let text = told(code);
            assert!(
                text.contains("credentials") && text.contains(code) && !text.contains("statement"),
                "{text}"
            );
        }
    }

    #[rstest]
    #[case("ec2:Describe*", "ec2:DescribeImages", true)]
    #[case("*", "ec2:DescribeImages", true)]
    #[case("ec2:*Images", "ec2:DescribeImages", true)]
    #[case("ec2:*Image", "ec2:DescribeImages", false)]
    #[case("ec2:DescribeImages", "ec2:DescribeImage", false)]
    #[case("ec2:DescribeImage", "ec2:DescribeImages", false)]
    #[case("iam:*", "ec2:DescribeImages", false)]
    fn wildcards(#[case] pattern: &str, #[case] action: &str, #[case] expected: bool) {
        assert_eq!(matches(pattern, action), expected);
    }
}

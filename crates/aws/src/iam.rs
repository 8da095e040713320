//! Which rights at AWS each call needs, by which statement of `deploy/iam` they are given, and what is lost without them.

mod glob;
mod policy;
mod request;

pub use request::Place;

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
    right("instance_types", "ec2:DescribeInstanceTypes", "AllowRegionalReadActions", Feature::Core),
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
    right("delete_messages", "sqs:DeleteMessage", "AllowInterruptionQueueActions", Feature::Interruption),
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
            "AWS does not accept the credentials for {action} ({}): renew them, or set this host's clock",
            error.code
        ),
        false => denial(action),
    }
}

/// A right that policies do not give, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The right, with the statement that would give it.
    pub right: Right,
    /// What the policies say instead.
    pub why: String,
}

/// What policies say of everything that is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Rights that are missing, by action and statement, each with its first reason.
    pub missing: Vec<Lack>,
    /// What only a real call would tell, in words, the first [`DOUBTS_MAX`].
    pub unclear: Vec<String>,
}

/// Most doubts that are told.
pub const DOUBTS_MAX: usize = 50;

/// What no policy document tells, whatever is in it.
pub const NOT_EVALUATED: &str =
    "permission boundaries, policies of the organisation, of sessions and of resources, and the account";

/// What identity policies say of the rights that are needed: denials, actions, resources, and conditions on what is known of the
/// calls before they are made.
///
/// # Errors
/// Where a policy is not JSON.
pub fn check(
    policies: &[&str],
    place: &Place,
    on: impl Fn(Feature) -> bool,
) -> Result<Checked, serde_json::Error> {
    let mut given = Vec::new();
    for policy in policies {
        given.extend(policy::statements(&serde_json::from_str(policy)?));
    }
    let mut checked = Checked::default();
    for right in RIGHTS.iter().filter(|right| on(right.feature)) {
        for asked in request::asked(right, place) {
            let statement = asked.statement.unwrap_or(right.statement);
            let answer = policy::answer(&given, &asked, place, statement);
            let told = |why: &String| format!("{} on {}: {why}", right.action, asked.resource);
            let mut unclear: Vec<String> = answer.doubts.iter().map(told).collect();
            match &answer.allowed {
                policy::Holds::Yes => {}
                policy::Holds::Perhaps(why) => unclear.push(told(why)),
                policy::Holds::No(why) => {
                    checked.lacks(Right { statement, ..*right }, why);
                }
            }
            let room = DOUBTS_MAX.saturating_sub(checked.unclear.len());
            let new: Vec<String> =
                unclear.into_iter().filter(|doubt| !checked.unclear.contains(doubt)).take(room).collect();
            checked.unclear.extend(new);
        }
    }
    checked.missing.sort_by_key(|lack| (lack.right.action, lack.right.statement));
    Ok(checked)
}

impl Checked {
    fn lacks(&mut self, right: Right, why: &str) {
        let same = |lack: &Lack| (lack.right.action, lack.right.statement) == (right.action, right.statement);
        match self.missing.iter_mut().find(|lack| same(lack)) {
            // What more depends on it is told.
            Some(known) => known.right.feature = known.right.feature.min(right.feature),
            None => self.missing.push(Lack { right, why: why.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests;

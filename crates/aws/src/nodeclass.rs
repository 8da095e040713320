//! The status of an EC2NodeClass: each step takes an AWS answer and returns a status field and a condition.
//!
//! If AWS does not answer, the known values and the condition remain: a failed look-up is never taken for an empty one.

pub mod cadence;
pub mod conditions;
pub mod lookups;
pub mod placement;
pub mod profile;
pub mod reservations;

use std::collections::BTreeMap;
use std::time::Duration;

use fleetwright_aws_api::ec2nodeclass::{
    Ec2NodeClassSpec, Ec2NodeClassStatus, SecurityGroup, SecurityGroupSelectorTerm, Subnet,
    SubnetSelectorTerm, condition,
};
use fleetwright_aws_api::{KubeletConfig, MaxPods, kubelet};

use crate::calls::{AwsError, ErrorClass, Filter, GroupInfo, SubnetInfo};
use crate::families::traits;
use crate::images::{ImageError, Resolved};
use crate::instancetype::expressions::{Expression, is_expression};
use crate::lists::first_names;
use crate::permissions;
use crate::settings::Settings;
use crate::tags::{CLASS_TAGS_MAX, restricted};
use crate::userdata::{self, UserDataError};

/// A step's result for a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionOutcome {
    /// The condition is True.
    True,
    /// The condition is True, with a limitation that users should know.
    Limited {
        /// The reason.
        reason: &'static str,
        /// The message.
        message: String,
    },
    /// The result depends on something that is not known yet.
    Waiting {
        /// The reason.
        reason: &'static str,
        /// The message.
        message: String,
    },
    /// The condition is False.
    False {
        /// The reason.
        reason: &'static str,
        /// The message.
        message: String,
    },
    /// AWS did not answer: the condition remains as it is, and the step is retried.
    Unanswered {
        /// The call and the code of the refusal: nothing that differs from call to call.
        message: String,
        /// When to retry.
        after: Duration,
        /// Whether IAM refused the call.
        denied: bool,
    },
}

/// Most subnets or security groups of an EC2NodeClass; a selector that matches more is wrong. All lists together fit into an object of at
/// most 1.5 MiB: 1,000 subnets of 80 bytes, security groups of 300, and reservations of 350.
pub const MATCHES_MAX: usize = 1000;

/// When a call that IAM refused is retried.
const DENIED_AGAIN: Duration = Duration::from_secs(60);

/// A condition and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionResult {
    /// The condition's type.
    pub condition: &'static str,
    /// The result.
    pub outcome: ConditionOutcome,
}

impl ConditionResult {
    pub(crate) fn good(condition: &'static str) -> Self {
        Self { condition, outcome: ConditionOutcome::True }
    }

    pub(crate) fn bad(condition: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { condition, outcome: ConditionOutcome::False { reason, message: message.into() } }
    }

    pub(crate) fn waiting(condition: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { condition, outcome: ConditionOutcome::Waiting { reason, message: message.into() } }
    }

    pub(crate) fn limited(condition: &'static str, reason: &'static str, message: String) -> Self {
        Self { condition, outcome: ConditionOutcome::Limited { reason, message } }
    }

    pub(crate) fn unanswered(condition: &'static str, action: &str, error: &AwsError) -> Self {
        let denied = error.class() == ErrorClass::Unauthorized;
        let message = match denied {
            true => permissions::refusal(action, error),
            false => format!("{action} is not answered: {}", error.code),
        };
        // A corrected policy takes effect after more than seconds.
        let after = if denied { DENIED_AGAIN } else { error.wait() };
        Self { condition, outcome: ConditionOutcome::Unanswered { message, after, denied } }
    }

    /// Whether AWS answered.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        !matches!(self.outcome, ConditionOutcome::Unanswered { .. })
    }
}

/// The queries of subnet terms: one for all ids, and one for each term by tags.
#[must_use]
pub fn subnet_queries(terms: &[SubnetSelectorTerm]) -> Vec<Vec<Filter>> {
    let ids: Vec<&String> = terms.iter().filter_map(|term| term.id.as_ref()).collect();
    let by_id = (!ids.is_empty()).then(|| vec![Filter::new("subnet-id", ids)]);
    let by_tags = terms.iter().filter(|term| term.id.is_none()).filter_map(|term| term.tags.as_ref());
    by_id.into_iter().chain(by_tags.map(Filter::of_tags)).collect()
}

/// The queries of security group terms: one for all ids, one for all names, and one for each term by tags.
#[must_use]
pub fn security_group_queries(terms: &[SecurityGroupSelectorTerm]) -> Vec<Vec<Filter>> {
    let ids: Vec<&String> = terms.iter().filter_map(|term| term.id.as_ref()).collect();
    let names: Vec<&String> =
        terms.iter().filter(|term| term.id.is_none()).filter_map(|term| term.name.as_ref()).collect();
    let of = |name: &str, values: Vec<&String>| (!values.is_empty()).then(|| vec![Filter::new(name, values)]);
    let plain = terms.iter().filter(|term| term.id.is_none() && term.name.is_none());
    let by_tags = plain.filter_map(|term| term.tags.as_ref()).map(Filter::of_tags);
    of("group-id", ids).into_iter().chain(of("group-name", names)).chain(by_tags).collect()
}

/// Subnets, the one with the most free addresses first, each once.
pub fn subnets(found: Result<Vec<SubnetInfo>, AwsError>, status: &mut Ec2NodeClassStatus) -> ConditionResult {
    const CONDITION: &str = condition::SUBNETS_READY;
    let mut found = match found {
        Ok(found) => found,
        Err(error) => return ConditionResult::unanswered(CONDITION, "ec2:DescribeSubnets", &error),
    };
    found.sort_by(|a, b| b.free_addresses.cmp(&a.free_addresses).then_with(|| a.id.cmp(&b.id)));
    found.dedup_by(|a, b| a.id == b.id);
    let count = found.len();
    keep_first(&mut found, |info| &info.id);
    let subnet = |info: SubnetInfo| Subnet { id: info.id, zone: info.zone, zone_id: info.zone_id };
    status.subnets = found.into_iter().map(subnet).collect();
    match status.subnets.is_empty() {
        true => {
            ConditionResult::bad(CONDITION, "SubnetsNotFound", "no subnet matches spec.subnetSelectorTerms")
        }
        false => counted(CONDITION, count, "spec.subnetSelectorTerms"),
    }
}

/// Security groups by id, each once.
pub fn security_groups(
    found: Result<Vec<GroupInfo>, AwsError>,
    status: &mut Ec2NodeClassStatus,
) -> ConditionResult {
    const CONDITION: &str = condition::SECURITY_GROUPS_READY;
    let found = match found {
        Ok(found) => found,
        Err(error) => return ConditionResult::unanswered(CONDITION, "ec2:DescribeSecurityGroups", &error),
    };
    let mut by_id: BTreeMap<String, String> = found.into_iter().map(|group| (group.id, group.name)).collect();
    let count = by_id.len();
    while by_id.len() > MATCHES_MAX {
        by_id.pop_last();
    }
    status.security_groups = by_id.into_iter().map(|(id, name)| SecurityGroup { id, name }).collect();
    match status.security_groups.is_empty() {
        true => {
            let message = "no security group matches spec.securityGroupSelectorTerms";
            ConditionResult::bad(CONDITION, "SecurityGroupsNotFound", message)
        }
        false => counted(CONDITION, count, "spec.securityGroupSelectorTerms"),
    }
}

/// Keeps as many as a status may hold, those with the first ids: any other choice would change with the state of the account, and nodes
/// would drift. The rest keep their order.
fn keep_first<T>(found: &mut Vec<T>, id: impl Fn(&T) -> &String) {
    if found.len() <= MATCHES_MAX {
        return;
    }
    let mut ids: Vec<String> = found.iter().map(|item| id(item).clone()).collect();
    ids.sort_unstable();
    ids.truncate(MATCHES_MAX);
    found.retain(|item| ids.binary_search(id(item)).is_ok());
}

/// The finding of a condition that is True, with a limitation if more was found than a status may hold.
fn counted(condition: &'static str, count: usize, field: &str) -> ConditionResult {
    if count <= MATCHES_MAX {
        return ConditionResult::good(condition);
    }
    let message = format!(
        "{field} matches more than {MATCHES_MAX}; only the first {MATCHES_MAX} by id are used: select fewer"
    );
    ConditionResult::limited(condition, "TooManyMatches", message)
}

/// Images. The known ones remain while AWS does not answer; an alias that does not support this cluster, or an empty result, clears them.
pub fn images(found: Result<Resolved, ImageError>, status: &mut Ec2NodeClassStatus) -> ConditionResult {
    const CONDITION: &str = condition::AMIS_READY;
    match found {
        Ok(resolved) => {
            status.amis = resolved.amis;
            if resolved.of_alias || resolved.missing.is_empty() {
                return ConditionResult::good(CONDITION);
            }
            let message = format!("the other terms are used: there is no {}", first_names(&resolved.missing));
            ConditionResult::limited(CONDITION, "TermsWithoutImages", message)
        }
        Err(ImageError::Unanswered(error)) => {
            ConditionResult::unanswered(CONDITION, "ec2:DescribeImages", &error)
        }
        Err(ImageError::Parameter(error)) => {
            ConditionResult::unanswered(CONDITION, "ssm:GetParameter", &error)
        }
        Err(error @ ImageError::Alias(_)) => {
            status.amis.clear();
            ConditionResult::bad(CONDITION, "UnsupportedAlias", error.to_string())
        }
        Err(error @ ImageError::NoneFound(_)) => {
            status.amis.clear();
            ConditionResult::bad(CONDITION, "AMINotFound", error.to_string())
        }
    }
}

/// Validates a spec without calls, in Karpenter's order; the first error is returned.
#[must_use]
pub fn validate(spec: &Ec2NodeClassSpec, settings: &Settings) -> ConditionResult {
    const CONDITION: &str = condition::VALIDATION_SUCCEEDED;
    let block = spec.kubelet.clone().unwrap_or_default();
    let bad = |reason: &'static str, message: String| ConditionResult::bad(CONDITION, reason, message);
    let problems = kubelet::validate(&block);
    if !problems.is_empty() {
        let all: Vec<String> = problems.iter().take(10).map(ToString::to_string).collect();
        return bad("InvalidKubeletConfiguration", all.join("; "));
    }
    let texts = expressions(&block);
    if let Some((field, _)) = texts.first().filter(|_| !settings.node_class_cel) {
        return bad(
            "KubeletExpressionsDisabled",
            format!("spec.kubelet.{field}: expressions need the gate NodeClassCEL"),
        );
    }
    for (field, text) in &texts {
        if let Err(error) = Expression::compile(text) {
            return bad("KubeletExpressionInvalid", format!("spec.kubelet.{field}: {error}"));
        }
    }
    if let Some(message) = unsupported(spec, &block) {
        return bad("UnsupportedKubeletConfiguration", message);
    }
    if let Some(key) = restricted(spec).first() {
        return bad("TagValidationFailed", format!("spec.tags has the restricted key {key}: remove it"));
    }
    let count = spec.tags.as_ref().map_or(0, BTreeMap::len);
    if count > CLASS_TAGS_MAX {
        let message = format!(
            "spec.tags has {count} tags: use at most {CLASS_TAGS_MAX}, EC2 allows 50 with the controller's 10"
        );
        return bad("TagValidationFailed", message);
    }
    match userdata::check(spec.family(), spec.user_data.as_deref().unwrap_or_default()) {
        Ok(dropped) if dropped.is_empty() => ConditionResult::good(CONDITION),
        Ok(dropped) => {
            let message = format!("spec.userData: unknown settings are dropped: {}", first_names(&dropped));
            ConditionResult::limited(CONDITION, "UserDataSettingsDropped", message)
        }
        Err(error @ UserDataError::TooLarge { .. }) => bad("UserDataSizeLimitExceeded", error.to_string()),
        Err(error) => bad("UserDataInvalid", error.to_string()),
    }
}

/// The expressions of a kubelet block with their fields.
fn expressions(block: &KubeletConfig) -> Vec<(String, String)> {
    let Ok(parsed) = block.parse() else { return Vec::new() };
    let mut all = Vec::new();
    if let Some(MaxPods::Expression(text)) = parsed.max_pods {
        all.push(("maxPods".to_owned(), text));
    }
    for (field, map) in [("kubeReserved", parsed.kube_reserved), ("systemReserved", parsed.system_reserved)] {
        let entries = map.into_iter().flatten().filter(|(_, value)| is_expression(value));
        all.extend(entries.map(|(key, value)| (format!("{field}[{key}]"), value)));
    }
    all
}

/// Fields that the family's nodes do not support.
fn unsupported(spec: &Ec2NodeClassSpec, block: &KubeletConfig) -> Option<String> {
    let family = spec.family();
    let parsed = block.parse().ok()?;
    let traits = traits(family);
    if traits.any_kubelet_field {
        return None;
    }
    let fields: Vec<&str> = block.unmanaged_fields().collect();
    if !fields.is_empty() {
        return Some(format!("spec.kubelet: {family} does not apply {}", fields.join(", ")));
    }
    if parsed.pods_per_core.is_some() && !traits.pods_per_core {
        return Some(format!("spec.kubelet.podsPerCore: {family} does not apply it, use maxPods"));
    }
    let addresses = parsed.cluster_dns.map_or(0, |addresses| addresses.len());
    (addresses > 1).then(|| format!("spec.kubelet.clusterDNS: {family} takes one address"))
}

#[cfg(test)]
mod tests {
    //! The result of each step.
    use fleetwright_aws_api::ec2nodeclass::Ami;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn throttled() -> AwsError {
        AwsError::new("RequestLimitExceeded", "slow down")
    }

    #[test]
    fn a_failed_look_up_changes_nothing() {
        let mut status = Ec2NodeClassStatus {
            subnets: vec![Subnet::default()],
            security_groups: vec![SecurityGroup::default()],
            amis: vec![Ami::default()],
            ..Ec2NodeClassStatus::default()
        };
        let before = status.clone();
        let found = [
            subnets(Err(throttled()), &mut status),
            security_groups(Err(throttled()), &mut status),
            images(Err(ImageError::Unanswered(throttled())), &mut status),
        ];
        assert!(found.iter().all(|finding| matches!(finding.outcome, ConditionOutcome::Unanswered { .. })));
        assert_eq!(status, before);
    }

    #[test]
    fn results_are_ordered() {
        let subnet = |id: &str, free_addresses: i64| SubnetInfo {
            id: id.to_owned(),
            free_addresses,
            ..SubnetInfo::default()
        };
        let mut status = Ec2NodeClassStatus::default();
        let found = vec![subnet("b", 10), subnet("c", 20), subnet("a", 10), subnet("c", 20)];
        assert_eq!(subnets(Ok(found), &mut status).outcome, ConditionOutcome::True);
        assert_eq!(
            status.subnets.iter().map(|subnet| subnet.id.as_str()).collect::<Vec<_>>(),
            ["c", "a", "b"]
        );
        let bad = subnets(Ok(Vec::new()), &mut status);
        assert!(matches!(bad.outcome, ConditionOutcome::False { reason: "SubnetsNotFound", .. }));
        let bad = security_groups(Ok(Vec::new()), &mut status);
        assert!(matches!(bad.outcome, ConditionOutcome::False { reason: "SecurityGroupsNotFound", .. }));
        let bad = images(Err(ImageError::NoneFound(Vec::new())), &mut status);
        assert!(matches!(bad.outcome, ConditionOutcome::False { reason: "AMINotFound", .. }));
    }

    #[test]
    fn terms_are_queried_together() {
        let terms: Vec<SecurityGroupSelectorTerm> = serde_json::from_value(
            json!([{"id": "sg-1"}, {"name": "a"}, {"id": "sg-2"}, {"tags": {"k": "*"}}]),
        )
        .unwrap();
        let expected = [
            vec![Filter::new("group-id", ["sg-1", "sg-2"])],
            vec![Filter::new("group-name", ["a"])],
            vec![Filter::new("tag-key", ["k"])],
        ];
        assert_eq!(security_group_queries(&terms), expected);
        let terms: Vec<SubnetSelectorTerm> =
            serde_json::from_value(json!([{"tags": {"k": "v"}}, {"id": "subnet-1"}])).unwrap();
        assert_eq!(
            subnet_queries(&terms),
            [vec![Filter::new("subnet-id", ["subnet-1"])], vec![Filter::new("tag:k", ["v"])]]
        );
    }

    #[rstest]
    #[case(json!({"amiFamily": "AL2023"}), None)]
    #[case(json!({"amiFamily": "AL2023", "kubelet": {"topologyManagerPolicy": "none"}}), None)]
    #[case(json!({"amiFamily": "AL2", "kubelet": {"topologyManagerPolicy": "none"}}), Some("UnsupportedKubeletConfiguration"))]
    #[case(json!({"amiFamily": "Bottlerocket", "kubelet": {"podsPerCore": 2}}), Some("UnsupportedKubeletConfiguration"))]
    #[case(json!({"amiFamily": "AL2", "kubelet": {"clusterDNS": ["a", "b"]}}), Some("UnsupportedKubeletConfiguration"))]
    #[case(json!({"amiFamily": "Custom", "kubelet": {"topologyManagerPolicy": "none"}}), None)]
    #[case(json!({"kubelet": {"maxPod": 1}}), Some("InvalidKubeletConfiguration"))]
    #[case(json!({"amiFamily": "AL2023", "kubelet": {"maxPods": "vcpus +"}}), Some("KubeletExpressionInvalid"))]
    #[case(json!({"amiFamily": "AL2023", "kubelet": {"kubeReserved": {"cpu": "vcpus * 10"}}}), None)]
    #[case(json!({"tags": {"fleetwright.dev/batch-id": "x"}}), Some("TagValidationFailed"))]
    #[case(json!({"amiFamily": "Bottlerocket", "userData": "[settings"}), Some("UserDataInvalid"))]
    #[case(json!({"amiFamily": "AL2023", "userData": "MIME-Version: 1.0\n\nbroken"}), Some("UserDataInvalid"))]
    #[case(json!({"amiFamily": "AL2", "userData": "x".repeat(16_384)}), Some("UserDataSizeLimitExceeded"))]
    #[case(json!({"amiFamily": "Custom", "userData": "x".repeat(16_384)}), None)]
    #[case(json!({"amiFamily": "Bottlerocket", "userData": "[settings.kubernetes]\nmagic = 1"}), Some("UserDataSettingsDropped"))]
    fn validation(#[case] spec: Value, #[case] expected: Option<&str>) {
        let spec: Ec2NodeClassSpec = serde_json::from_value(spec).unwrap();
        let settings = Settings { node_class_cel: true, ..Settings::new("c", "r") };
        let found = match validate(&spec, &settings).outcome {
            ConditionOutcome::False { reason, .. } | ConditionOutcome::Limited { reason, .. } => Some(reason),
            _ => None,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn expressions_need_their_gate() {
        let spec: Ec2NodeClassSpec =
            serde_json::from_value(json!({"kubelet": {"maxPods": "vcpus"}})).unwrap();
        let found = validate(&spec, &Settings::new("c", "r"));
        assert!(matches!(
            found.outcome,
            ConditionOutcome::False { reason: "KubeletExpressionsDisabled", .. }
        ));
    }
}

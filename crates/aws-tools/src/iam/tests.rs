//! The policies of `deploy/iam` grant every permission, and policies are evaluated as IAM evaluates them.
use std::collections::BTreeSet;

use rstest::rstest;
use serde_json::{Value, json};

mod eks;

use super::*;

const SCOPED: &str = include_str!("../../../../deploy/iam/controller-policy.json");
const STRICT: &str = include_str!("../../../../deploy/iam/controller-policy-strict.json");

/// The actions that a policy's statements name.
fn actions(document: &Value) -> Vec<String> {
    policy::statements(document).iter().flat_map(|statement| policy::texts(&statement["Action"])).collect()
}

#[rstest]
#[case::scoped(SCOPED)]
#[case::strict(STRICT)]
fn every_permission_is_granted_by_its_statement(#[case] policy: &str) {
    let document: Value = serde_json::from_str(policy).unwrap();
    let mut used = BTreeSet::new();
    for permission in PERMISSIONS {
        let all = document["Statement"].as_array().unwrap();
        let statement = all.iter().find(|statement| statement["Sid"] == permission.statement);
        let statement = statement.unwrap_or_else(|| panic!("no statement {}", permission.statement));
        let single = serde_json::json!({"Statement": statement});
        let given = actions(&single);
        assert!(given.iter().any(|given| given == permission.action), "{permission:?}");
        used.insert(permission.action);
    }
    // No unused action is granted.
    let given: BTreeSet<String> = actions(&document).into_iter().collect();
    let used: BTreeSet<String> = used.into_iter().map(str::to_owned).collect();
    assert_eq!(given, used);
    assert_eq!(check(&[policy], &Place::default(), |_| true).unwrap(), Checked::default());
    assert_eq!(
        check(&[policy], &place(), |_| true).unwrap(),
        Checked::default(),
        "nothing is missing or undecided"
    );
}

/// Mutating actions are bound to the cluster, in the strict policy by its UID where EC2 knows it.
#[rstest]
#[case::scoped(SCOPED, "eks:eks-cluster-name")]
#[case::strict(STRICT, "fleetwright.dev/cluster-uid")]
fn mutating_actions_are_bound_to_the_cluster(#[case] policy: &str, #[case] by: &str) {
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

/// A policy of `deploy/iam` with its variables filled in.
fn filled(policy: &str) -> String {
    let blanks = [
        ("${AWS_PARTITION}", "aws"),
        ("${AWS_REGION}", "eu-west-1"),
        ("${AWS_ACCOUNT_ID}", "123456789012"),
        ("${CLUSTER_NAME}", "prod"),
        ("${CLUSTER_UID}", "uid-1"),
        ("${NODE_ROLE_NAME}", "nodes"),
    ];
    blanks.iter().fold(policy.to_owned(), |text, (blank, value)| text.replace(blank, value))
}

fn place() -> Place {
    let text = |text: &str| Some(text.to_owned());
    Place { cluster: text("prod"), region: text("eu-west-1"), queue: text("prod") }
}

/// The scoped policy with a change; `Null` removes a field.
fn changed(sid: &str, pointer: &str, value: Value) -> String {
    let mut document: Value = serde_json::from_str(&filled(SCOPED)).unwrap();
    let all = document["Statement"].as_array_mut().unwrap();
    let statement = all.iter_mut().find(|statement| statement["Sid"] == sid).unwrap();
    *statement.pointer_mut(pointer).unwrap() = value;
    document.to_string()
}

/// One line for each missing and each undecided permission.
fn lines_of(policies: &[&str], place: &Place) -> Vec<String> {
    let checked = check(policies, place, |_| true).unwrap();
    let lack = |lack: &MissingPermission| {
        format!("{} {}: {}", lack.permission.action, lack.permission.statement, lack.why)
    };
    checked.missing.iter().map(lack).chain(checked.undecided).collect()
}

#[test]
fn a_policy_that_is_filled_in_leaves_the_role_open() {
    let scoped = filled(SCOPED);
    let role = "iam:PassRole on arn:*:iam::*:role/*: the statement AllowPassingInstanceRole allows it, \
                for arn:aws:iam::123456789012:role/nodes only";
    assert_eq!(lines_of(&[&scoped], &place()), [role]);
    let strict = lines_of(&[&filled(STRICT)], &place());
    assert!(strict.contains(&role.to_owned()) && !strict.iter().any(|line| line.contains("does not hold")));
    assert!(strict.iter().any(|line| line.contains("fleetwright.dev/cluster-uid")), "{strict:?}");
}

/// A policy of another cluster, region or queue grants nothing, and the report names the failing condition.
#[rstest]
#[case::cluster(Place { cluster: Some("test".to_owned()), ..place() }, &["ec2:CreateFleet", "ec2:RunInstances", "ec2:TerminateInstances", "ec2:CreateTags", "eks:DescribeCluster", "iam:CreateInstanceProfile"], "does not hold")]
#[case::region(Place { region: Some("us-east-1".to_owned()), ..place() }, &["ec2:DescribeImages", "ssm:GetParameter", "sqs:ReceiveMessage"], "aws:RequestedRegion")]
#[case::queue(Place { queue: Some("https://sqs/123/other".to_owned()), ..place() }, &["sqs:ReceiveMessage"], "not for arn:*:sqs:eu-west-1:*:other")]
fn another_place(#[case] place: Place, #[case] actions: &[&str], #[case] why: &str) {
    let lines = lines_of(&[&filled(SCOPED)], &place);
    for action in actions {
        assert!(lines.iter().any(|line| line.starts_with(action)), "{action}: {lines:#?}");
    }
    assert!(lines.iter().any(|line| line.contains(why)), "{lines:#?}");
}

#[test]
fn two_statements_of_one_kind_are_undecided_once() {
    let deny = json!({"Effect": "Deny", "Action": "*", "Resource": "*", "Condition": {"ArnNotLike": {"aws:PrincipalArn": "arn:*"}}});
    let lines = lines_of(&[&json!({"Statement": [deny, deny]}).to_string()], &place());
    let distinct: BTreeSet<&String> = lines.iter().collect();
    assert_eq!(distinct.len(), lines.len(), "{lines:#?}");
}

/// Deletions of what another cluster launched, which the policies of `deploy/iam` refuse, filled in or not.
#[rstest]
#[case::scoped(SCOPED.to_owned(), &[])]
#[case::strict(STRICT.to_owned(), &[])]
#[case::filled(filled(SCOPED), &[])]
#[case::strict_filled(filled(STRICT), &[])]
#[case::without_conditions(changed("AllowScopedDeletion", "/Condition", Value::Null), &["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"])]
#[case::of_any_nodepool(changed("AllowScopedDeletion", "/Condition/StringEquals", json!({})), &["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"])]
#[case::of_any_cluster(changed("AllowScopedDeletion", "/Condition", json!({"StringLike": {"aws:ResourceTag/eks:eks-cluster-name": "*"}})), &["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"])]
#[case::of_a_name(changed("AllowScopedDeletion", "/Condition", json!({"StringEquals": {"ec2:ResourceTag/eks:eks-cluster-name": "prod"}})), &[])]
#[case::of_some_names(changed("AllowScopedDeletion", "/Condition", json!({"StringLike": {"ec2:ResourceTag/eks:eks-cluster-name": "prod*"}})), &[])]
#[case::of_all_but_one(changed("AllowScopedDeletion", "/Condition", json!({"StringNotEquals": {"ec2:ResourceTag/fleetwright.dev/cluster-uid": "uid-2"}})), &["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"])]
fn what_another_cluster_launched(#[case] policy: String, #[case] expected: &[&str]) {
    for place in [Place::default(), place()] {
        assert_eq!(check(&[&policy], &place, |_| true).unwrap().unscoped, expected, "{place:?}");
    }
}

#[rstest]
#[case::of_everything(json!({"Effect": "Deny", "Action": "*", "Resource": "*"}), "ec2:CreateFleet AllowScopedEC2InstanceAccessActions: the statement No denies it")]
#[case::of_one(json!({"Effect": "Deny", "Action": "ec2:terminate*", "Resource": "arn:aws:ec2:*:*:instance/*"}), "ec2:TerminateInstances AllowScopedDeletion: the statement No denies it")]
#[case::of_all_others(json!({"Effect": "Deny", "NotAction": ["ec2:*", "iam:*", "eks:*", "sqs:*", "ssm:*", "arc-zonal-shift:*"], "Resource": "*"}), "pricing:GetProducts AllowPricingReadActions: the statement No denies it")]
#[case::of_other_resources(json!({"Effect": "Deny", "Action": "ec2:RunInstances", "NotResource": ["arn:aws:ec2:*:*:instance/*", "arn:aws:ec2:*::image/*"]}), "ec2:RunInstances AllowScopedEC2InstanceAccessActions: the statement No denies it")]
#[case::of_other_regions(json!({"Effect": "Deny", "Action": "ec2:Describe*", "Resource": "*", "Condition": {"StringNotEquals": {"aws:RequestedRegion": ["us-east-1", "us-west-2"]}}}), "ec2:DescribeSubnets AllowRegionalReadActions: the statement No denies it")]
#[case::of_what_has_no_tag(json!({"Effect": "Deny", "Action": "sqs:*", "Resource": "*", "Condition": {"Null": {"aws:RequestTag/team": "true"}}}), "sqs:DeleteMessage AllowInterruptionQueueActions: the statement No denies it")]
#[case::perhaps(json!({"Effect": "Deny", "Action": "ec2:RunInstances", "Resource": "*", "Condition": {"StringNotEquals": {"ec2:MetadataHttpTokens": "required"}}}), "ec2:RunInstances on arn:*:ec2:eu-west-1:*:subnet/*: the statement No denies it, depending on StringNotEquals of ec2:MetadataHttpTokens")]
fn denials(#[case] mut statement: Value, #[case] expected: &str) {
    statement["Sid"] = "No".into();
    let deny = json!({"Statement": statement}).to_string();
    let lines = lines_of(&[&filled(SCOPED), &deny], &place());
    assert!(lines.iter().any(|line| line == expected), "{lines:#?}");
}

#[rstest]
#[case::of_another_region(json!({"Effect": "Deny", "Action": "*", "Resource": "*", "Condition": {"StringEquals": {"aws:RequestedRegion": "us-east-1"}}}))]
#[case::of_what_is_not_ours(json!({"Effect": "Deny", "Action": "ec2:TerminateInstances", "Resource": "*", "Condition": {"StringNotEquals": {"aws:ResourceTag/eks:eks-cluster-name": "prod"}}}))]
#[case::of_users(json!({"Effect": "Deny", "Action": ["iam:CreateUser", "ec2:CreateVpc"], "Resource": "*"}))]
#[case::of_untagged(json!({"Effect": "Deny", "Action": "ec2:CreateLaunchTemplate", "Resource": "*", "Condition": {"Null": {"aws:RequestTag/karpenter.sh/nodepool": "true"}}}))]
fn denials_of_others(#[case] statement: Value) {
    let deny = json!({"Statement": [statement]}).to_string();
    // Outside one region, the calls of IAM and pricing are undecided.
    let lines = lines_of(&[&filled(SCOPED), &deny], &place());
    assert!(
        !lines.iter().any(|line| line.contains("denies it") && !line.contains("depending")),
        "{lines:#?}"
    );
}

/// A grant that is removed from a policy is missing, under the statement that would grant it.
#[rstest]
#[case("AllowScopedEC2InstanceAccessActions", "/Resource", json!(["arn:aws:ec2:eu-west-1::image/*", "arn:aws:ec2:*:*:security-group/*"]), "ec2:CreateFleet AllowScopedEC2InstanceAccessActions: the statement AllowScopedEC2InstanceAccessActions allows it, not for arn:*:ec2:eu-west-1:*:subnet/*")]
#[case("AllowScopedEC2InstanceAccessActions", "/Resource/3", json!("arn:aws:ec2:*:*:subnet/subnet-1"), "ec2:RunInstances on arn:*:ec2:eu-west-1:*:subnet/*: the statement AllowScopedEC2InstanceAccessActions allows it, for arn:aws:ec2:*:*:subnet/subnet-1 only")]
#[case("AllowScopedEC2LaunchTemplateAccessActions", "/Effect", json!("Deny"), "ec2:RunInstances AllowScopedEC2LaunchTemplateAccessActions: the statement AllowScopedEC2LaunchTemplateAccessActions denies it")]
#[case("AllowScopedResourceCreationTagging", "/Condition/StringEquals/ec2:CreateAction", json!(["RunInstances", "CreateFleet"]), "ec2:CreateTags AllowScopedResourceCreationTagging: the statement AllowScopedResourceCreationTagging allows it, but StringEquals of ec2:CreateAction does not hold")]
#[case("AllowScopedResourceTagging", "/Condition/ForAllValues:StringEquals/aws:TagKeys", json!(["Name"]), "ec2:CreateTags AllowScopedResourceTagging: the statement AllowScopedResourceTagging allows it, but ForAllValues:StringEquals of aws:TagKeys does not hold")]
#[case("AllowPassingInstanceRole", "/Condition/StringEquals/iam:PassedToService", json!("eks.amazonaws.com"), "iam:PassRole AllowPassingInstanceRole: the statement AllowPassingInstanceRole allows it, but StringEquals of iam:PassedToService does not hold")]
#[case("AllowPricingReadActions", "/Action", json!("pricing:Describe*"), "pricing:GetProducts AllowPricingReadActions: no statement allows it")]
#[case("AllowRegionalReadActions", "/Resource", json!("arn:aws:ec2:*:*:instance/*"), "ec2:DescribeSubnets AllowRegionalReadActions: the statement AllowRegionalReadActions allows it, not for *")]
fn a_removed_grant_is_missing(
    #[case] sid: &str,
    #[case] pointer: &str,
    #[case] value: Value,
    #[case] expected: &str,
) {
    let lines = lines_of(&[&changed(sid, pointer, value)], &place());
    assert!(lines.iter().any(|line| line == expected), "{lines:#?}");
}

#[test]
fn an_invalid_policy_grants_nothing() {
    assert!(check(&["{"], &place(), |_| true).is_err());
    for document in ["null", "[]", "{}", r#"{"Statement": [null, 1, {"Effect": "Allow"}]}"#] {
        let core = check(&[document], &place(), |feature| feature == Feature::Core).unwrap();
        assert!(core.missing.iter().all(|lack| lack.why == "no statement allows it"), "{document}");
        assert!(core.missing.len() > 15 && core.undecided.is_empty(), "{document}");
        assert!(core.missing.iter().all(|lack| lack.permission.feature == Feature::Core), "{document}");
    }
}

/// A hundred undecidable denials yield a bounded list.
#[test]
fn undecided_permissions_are_bounded() {
    let deny = |number: usize| {
        json!({"Sid": format!("D{number}"), "Effect": "Deny", "Action": "*", "Resource": "*",
               "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}})
    };
    let all: Vec<Value> = (0..100).map(deny).collect();
    let policy = json!({"Statement": all}).to_string();
    let checked = check(&[&filled(SCOPED), &policy], &place(), |_| true).unwrap();
    assert_eq!((checked.missing.len(), checked.undecided.len()), (0, UNDECIDED_MAX));
}

//! `fleetwright iam check`, which evaluates policies without a request, and the emulator's IAM, which evaluates the requests of real calls, share no
//! code. On a table of documented cases both must find the same actions missing.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_aws_emulator::call::{Call, decode};
use fleetwright_aws_emulator::iam::{AuthorizationRequest, Policies, requests, run_requests};
use fleetwright_aws_tools::iam::{Place, check};
use serde_json::{Value, json};

const SCOPED: &str = include_str!("../../deploy/iam/controller-policy.json");
const STRICT: &str = include_str!("../../deploy/iam/controller-policy-strict.json");
const REGION: &str = "us-west-2";

fn filled(policy: &str) -> String {
    let blanks = [
        ("${AWS_PARTITION}", "aws"),
        ("${AWS_REGION}", REGION),
        ("${AWS_ACCOUNT_ID}", "123456789012"),
        ("${CLUSTER_NAME}", "prod"),
        ("${CLUSTER_UID}", "uid-1"),
        ("${NODE_ROLE_NAME}", "nodes"),
    ];
    blanks.iter().fold(policy.to_owned(), |text, (blank, value)| text.replace(blank, value))
}

/// Tags of everything that is launched.
fn tags() -> BTreeMap<String, String> {
    let tags = [
        ("kubernetes.io/cluster/prod", "owned"),
        ("eks:eks-cluster-name", "prod"),
        ("fleetwright.dev/cluster-uid", "uid-1"),
        ("karpenter.sh/nodepool", "general"),
        ("karpenter.k8s.aws/ec2nodeclass", "default"),
    ];
    tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn profile_tags() -> BTreeMap<String, String> {
    let mut tags = tags();
    tags.remove("karpenter.sh/nodepool");
    tags.insert("topology.kubernetes.io/region".to_owned(), REGION.to_owned());
    tags
}

fn form(prefix: &str, tags: &BTreeMap<String, String>) -> String {
    let one = |(number, (key, value)): (usize, (&String, &String))| {
        format!("&{prefix}{number}.Key={key}&{prefix}{number}.Value={value}")
    };
    (1..).zip(tags).map(one).collect()
}

fn specification(number: usize, kind: &str) -> String {
    let place = format!("TagSpecification.{number}.");
    format!("&{place}ResourceType={kind}{}", form(&format!("{place}Tag."), &tags()))
}

fn call(service: &str, action: &str, form: &str, json: Value) -> Call {
    Call {
        service: service.to_owned(),
        action: action.to_owned(),
        path: "/clusters/prod".to_owned(),
        params: decode(form),
        json,
        ..Call::default()
    }
}

/// What IAM is asked for the calls of a controller, one of each.
fn asked() -> Vec<AuthorizationRequest> {
    let mut known =
        BTreeMap::from([("launch-template/t".to_owned(), tags()), ("instance/i-1".to_owned(), tags())]);
    known.insert("instance-profile/p".to_owned(), profile_tags());
    let fleet = format!(
        "TargetCapacitySpecification.DefaultTargetCapacityType=spot&LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=t\
         &LaunchTemplateConfigs.1.Overrides.1.SubnetId=subnet-1&LaunchTemplateConfigs.1.Overrides.1.ImageId=ami-1{}{}{}",
        specification(1, "fleet"),
        specification(2, "instance"),
        specification(3, "volume")
    );
    let of_template = |number: usize, kind: &str| {
        specification(number, kind).replace("&TagSpecification", "&LaunchTemplateData.TagSpecification")
    };
    let template = format!(
        "LaunchTemplateName=t&LaunchTemplateData.ImageId=ami-1{}{}{}",
        specification(1, "launch-template"),
        of_template(1, "network-interface"),
        of_template(2, "spot-instances-request")
    );
    let late = [("Name", "ip-10-0-0-1"), ("karpenter.sh/nodeclaim", "a"), ("eks:eks-cluster-name", "prod")];
    let late: BTreeMap<String, String> = late.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let none = Value::Null;
    let mut calls = vec![
        call("ec2", "CreateFleet", &fleet, none.clone()),
        call("ec2", "CreateLaunchTemplate", &template, none.clone()),
        call("ec2", "DeleteLaunchTemplate", "LaunchTemplateName=t", none.clone()),
        call("ec2", "TerminateInstances", "InstanceId.1=i-1", none.clone()),
        call("ec2", "CreateTags", &format!("ResourceId.1=i-1{}", form("Tag.", &late)), none.clone()),
        call("eks", "DescribeCluster", "", none.clone()),
        call("ssm", "GetParameter", "", json!({"Name": "/aws/service/eks/optimized-ami/x"})),
        call("sqs", "GetQueueUrl", "", json!({"QueueName": "prod"})),
        call("sqs", "ReceiveMessage", "", json!({"QueueUrl": "https://sqs/123456789012/prod"})),
        call("sqs", "DeleteMessageBatch", "", json!({"QueueUrl": "https://sqs/123456789012/prod"})),
        call("pricing", "GetProducts", "", none.clone()),
        call("arc-zonal-shift", "GetManagedResource", "", none.clone()),
        call("iam", "ListInstanceProfiles", "", none.clone()),
    ];
    let reads = [
        "CapacityReservations",
        "Images",
        "Instances",
        "InstanceStatus",
        "InstanceTypeOfferings",
        "InstanceTypes",
    ];
    let more = ["LaunchTemplates", "PlacementGroups", "SecurityGroups", "SpotPriceHistory", "Subnets"];
    for name in reads.iter().chain(&more) {
        calls.push(call("ec2", &format!("Describe{name}"), "", none.clone()));
    }
    for action in ["Create", "Tag", "Delete", "Get"] {
        let own = form("Tags.member.", &profile_tags());
        let tagged = ["Create", "Tag"].contains(&action);
        let params = format!("InstanceProfileName=p{}", if tagged { &own } else { "" });
        calls.push(call("iam", &format!("{action}InstanceProfile"), &params, none.clone()));
    }
    for action in ["AddRoleToInstanceProfile", "RemoveRoleFromInstanceProfile"] {
        calls.push(call("iam", action, "InstanceProfileName=p&RoleName=nodes", none.clone()));
    }
    let launch = run_requests(&calls[0], REGION, &known, ("t", &decode(&template)), Some("nodes"));
    calls.iter().flat_map(|call| requests(call, REGION, &known)).chain(launch).collect()
}

/// The actions that the emulator denies.
fn denied(policies: &[&str]) -> BTreeSet<String> {
    let policies = Policies::of(policies).expect("policies parse");
    let all = asked();
    all.into_iter()
        .filter(|request| policies.decide(request).is_err())
        .map(|request| request.action)
        .collect()
}

/// The actions that `iam check` finds missing.
fn missing(policies: &[&str]) -> BTreeSet<String> {
    let text = |text: &str| Some(text.to_owned());
    let place = Place { cluster: text("prod"), region: text(REGION), queue: text("prod") };
    let checked = check(policies, &place, |_| true).expect("policies parse");
    checked.missing.iter().map(|missing| missing.permission.action.to_owned()).collect()
}

/// The scoped policy with a change of a statement; `Null` removes the statement.
fn changed(sid: &str, pointer: &str, value: Value) -> String {
    let mut document: Value = serde_json::from_str(&filled(SCOPED)).expect("the policy is JSON");
    let all = document["Statement"].as_array_mut().expect("statements are a list");
    let at = all.iter().position(|statement| statement["Sid"] == sid).expect("the policy has the statement");
    if value.is_null() {
        all.remove(at);
    } else {
        *all[at].pointer_mut(pointer).expect("the statement has the field") = value;
    }
    document.to_string()
}

fn without(sid: &str) -> Vec<String> {
    vec![changed(sid, "", Value::Null)]
}

fn with_denial(statement: Value) -> Vec<String> {
    let mut statement = statement;
    statement["Effect"] = "Deny".into();
    vec![filled(SCOPED), json!({"Statement": [statement]}).to_string()]
}

const DESCRIBES: &str = "ec2:DescribeCapacityReservations ec2:DescribeImages ec2:DescribeInstanceStatus ec2:DescribeInstanceTypeOfferings \
    ec2:DescribeInstanceTypes ec2:DescribeInstances ec2:DescribeLaunchTemplates ec2:DescribePlacementGroups ec2:DescribeSecurityGroups \
    ec2:DescribeSpotPriceHistory ec2:DescribeSubnets";

/// Statements that are missing.
fn statements() -> Vec<(&'static str, Vec<String>, &'static str)> {
    vec![
        ("the policy as it is", vec![filled(SCOPED)], ""),
        ("the strict policy", vec![filled(STRICT)], ""),
        ("nothing", vec![json!({"Statement": []}).to_string()], "*"),
        (
            "no use of images, subnets and groups",
            without("AllowScopedEC2InstanceAccessActions"),
            "ec2:CreateFleet ec2:RunInstances",
        ),
        (
            "no use of templates",
            without("AllowScopedEC2LaunchTemplateAccessActions"),
            "ec2:CreateFleet ec2:RunInstances",
        ),
        (
            "no creation",
            without("AllowScopedEC2InstanceActionsWithTags"),
            "ec2:CreateFleet ec2:CreateLaunchTemplate ec2:RunInstances",
        ),
        ("no tags at birth", without("AllowScopedResourceCreationTagging"), "ec2:CreateTags"),
        ("no tags later", without("AllowScopedResourceTagging"), "ec2:CreateTags"),
        ("no deletion", without("AllowScopedDeletion"), "ec2:DeleteLaunchTemplate ec2:TerminateInstances"),
        ("no role", without("AllowPassingInstanceRole"), "iam:PassRole"),
        ("no profiles", without("AllowScopedInstanceProfileCreationActions"), "iam:CreateInstanceProfile"),
        ("no reading", without("AllowRegionalReadActions"), DESCRIBES),
        ("no prices", without("AllowPricingReadActions"), "pricing:GetProducts"),
        (
            "no queue",
            without("AllowInterruptionQueueActions"),
            "sqs:DeleteMessage sqs:GetQueueUrl sqs:ReceiveMessage",
        ),
        ("no cluster", without("AllowAPIServerEndpointDiscovery"), "eks:DescribeCluster"),
    ]
}

/// Conditions and resources that do not fit.
fn conditions() -> Vec<(&'static str, Vec<String>, &'static str)> {
    let one = |sid: &str, pointer: &str, value: Value| vec![changed(sid, pointer, value)];
    vec![
        (
            "ForAllValues: every key has to be listed",
            one(
                "AllowScopedResourceTagging",
                "/Condition/ForAllValues:StringEquals/aws:TagKeys",
                json!(["Name"]),
            ),
            "ec2:CreateTags",
        ),
        (
            "a key of a creating action that is not listed",
            one(
                "AllowScopedResourceCreationTagging",
                "/Condition/StringEquals/ec2:CreateAction",
                json!(["RunInstances", "CreateFleet"]),
            ),
            "ec2:CreateTags",
        ),
        (
            "another service",
            one(
                "AllowPassingInstanceRole",
                "/Condition/StringEquals/iam:PassedToService",
                json!("eks.amazonaws.com"),
            ),
            "iam:PassRole",
        ),
        ("a wildcard within an action", one("AllowPricingReadActions", "/Action", json!("pricing:Get*")), ""),
        (
            "actions in other case",
            one("AllowPricingReadActions", "/Action", json!("Pricing:getPRODUCTS")),
            "",
        ),
        ("a single character", one("AllowPricingReadActions", "/Action", json!("pricing:GetProduct?")), ""),
        (
            "resources of an action that has none",
            one("AllowRegionalReadActions", "/Resource", json!("arn:aws:ec2:*:*:instance/*")),
            DESCRIBES,
        ),
    ]
}

/// Places that do not fit.
fn places() -> Vec<(&'static str, Vec<String>, &'static str)> {
    let one = |sid: &str, pointer: &str, value: Value| vec![changed(sid, pointer, value)];
    vec![
        (
            "another region",
            one(
                "AllowRegionalReadActions",
                "/Condition/StringEquals/aws:RequestedRegion",
                json!("eu-west-1"),
            ),
            DESCRIBES,
        ),
        (
            "one of several regions",
            one(
                "AllowRegionalReadActions",
                "/Condition/StringEquals/aws:RequestedRegion",
                json!(["eu-west-1", REGION]),
            ),
            "",
        ),
        (
            "another queue",
            one(
                "AllowInterruptionQueueActions",
                "/Resource",
                json!("arn:aws:sqs:us-west-2:123456789012:test"),
            ),
            "sqs:DeleteMessage sqs:GetQueueUrl sqs:ReceiveMessage",
        ),
    ]
}

/// Statements that deny.
fn denials() -> Vec<(&'static str, Vec<String>, &'static str)> {
    let deny = with_denial;
    vec![
        (
            "a denial outweighs",
            deny(json!({"Action": "ec2:terminate*", "Resource": "*"})),
            "ec2:TerminateInstances",
        ),
        ("of everything", deny(json!({"Action": "*", "Resource": "*"})), "*"),
        (
            "NotAction",
            deny(
                json!({"NotAction": ["ec2:*", "iam:*", "eks:*", "sqs:*", "ssm:*", "arc-zonal-shift:*"], "Resource": "*"}),
            ),
            "pricing:GetProducts",
        ),
        (
            "NotResource",
            deny(json!({"Action": "ec2:TerminateInstances", "NotResource": "arn:aws:ec2:*:*:volume/*"})),
            "ec2:TerminateInstances",
        ),
    ]
}

/// Statements that deny under conditions.
fn conditional_denials() -> Vec<(&'static str, Vec<String>, &'static str)> {
    let deny = with_denial;
    vec![
        (
            "a negated operator",
            deny(json!({"Action": "ec2:Describe*", "Resource": "*",
                "Condition": {"StringNotEquals": {"aws:RequestedRegion": ["us-east-1", "eu-west-1"]}}})),
            DESCRIBES,
        ),
        (
            "a negated operator that does not hold",
            deny(json!({"Action": "ec2:Describe*", "Resource": "*",
                "Condition": {"StringNotEquals": {"aws:RequestedRegion": [REGION]}}})),
            "",
        ),
        (
            "a negated operator on a key that is absent",
            deny(json!({"Action": "sqs:ReceiveMessage", "Resource": "*",
                "Condition": {"StringNotLike": {"aws:RequestTag/karpenter.sh/nodepool": "x*"}}})),
            "sqs:ReceiveMessage",
        ),
        (
            "an operator on a key that is absent",
            deny(json!({"Action": "sqs:ReceiveMessage", "Resource": "*",
                "Condition": {"StringLike": {"aws:RequestTag/karpenter.sh/nodepool": "*"}}})),
            "",
        ),
        (
            "IfExists on a key that is absent",
            deny(json!({"Action": "sqs:ReceiveMessage", "Resource": "*",
                "Condition": {"StringEqualsIfExists": {"aws:RequestTag/karpenter.sh/nodepool": "x"}}})),
            "sqs:ReceiveMessage",
        ),
        (
            "Null of a tag that is there",
            deny(json!({"Action": "ec2:CreateLaunchTemplate", "Resource": "*",
                "Condition": {"Null": {"aws:RequestTag/karpenter.sh/nodepool": "true"}}})),
            "",
        ),
        (
            "not null",
            deny(json!({"Action": "ec2:CreateLaunchTemplate", "Resource": "*",
                "Condition": {"Null": {"aws:RequestTag/karpenter.sh/nodepool": "false"}}})),
            "ec2:CreateLaunchTemplate",
        ),
        (
            "of what belongs to others",
            deny(json!({"Action": "ec2:TerminateInstances", "Resource": "*",
                "Condition": {"StringNotEquals": {"aws:ResourceTag/eks:eks-cluster-name": "prod"}}})),
            "",
        ),
        (
            "two operators, of which one does not hold",
            deny(json!({"Action": "ec2:TerminateInstances", "Resource": "*", "Condition": {
                "StringEquals": {"aws:RequestedRegion": REGION}, "Null": {"aws:ResourceTag/eks:eks-cluster-name": "true"}}})),
            "",
        ),
        (
            "keys in other case",
            deny(json!({"Action": "ec2:TerminateInstances", "Resource": "*",
                "Condition": {"StringEquals": {"AWS:requestedregion": REGION}}})),
            "ec2:TerminateInstances",
        ),
    ]
}

#[test]
fn both_evaluators_find_the_same_actions_missing() {
    let everything: BTreeSet<String> = asked().into_iter().map(|request| request.action).collect();
    for (name, policies, expected) in
        [statements(), conditions(), places(), denials(), conditional_denials()].concat()
    {
        let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
        let expected: BTreeSet<String> = match expected {
            "*" => everything.clone(),
            some => some.split_whitespace().map(str::to_owned).collect(),
        };
        assert_eq!(denied(&policies), expected, "the emulator: {name}");
        assert_eq!(missing(&policies), expected, "iam check: {name}");
    }
}

/// What is asked of IAM for one call of each kind is what the controller needs, and nothing else.
#[test]
fn every_permission_is_asked_for() {
    let everything: BTreeSet<String> = asked().into_iter().map(|request| request.action).collect();
    let permissions = fleetwright_aws::permissions::PERMISSIONS;
    let needed: BTreeSet<String> =
        permissions.iter().map(|permission| permission.action.to_owned()).collect();
    assert_eq!(everything, needed);
}

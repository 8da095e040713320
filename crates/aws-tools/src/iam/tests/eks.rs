//! `deploy/eks`: its policies are those of `deploy/iam`, and its rules send what the controller understands.

use fleetwright_aws::interruption::{MessageKind, parse};

use super::*;

const STACK: &str = include_str!("../../../../../deploy/eks/cloudformation.yaml");
const MODULE: &str = include_str!("../../../../../deploy/eks/terraform/main.tf");
const RULES: &str = include_str!("../../../../../deploy/eks/terraform/rules.json");

/// CloudFormation takes templates of so many bytes from a file.
const TEMPLATE_MAX: usize = 51_200;
/// IAM takes inline policies of so many characters for one role, without white space.
const INLINE_MAX: usize = 10_240;

fn stack() -> Value {
    serde_saphyr::from_str(STACK).unwrap()
}

/// A policy of the stack, with CloudFormation's names for the variables of `deploy/iam`.
fn of_stack(policy: &Value) -> String {
    let names = [
        ("${AWS::Partition}", "${AWS_PARTITION}"),
        ("${AWS::Region}", "${AWS_REGION}"),
        ("${AWS::AccountId}", "${AWS_ACCOUNT_ID}"),
        ("${ClusterName}", "${CLUSTER_NAME}"),
        ("${ClusterUid}", "${CLUSTER_UID}"),
        ("${NodeRole}", "${NODE_ROLE_NAME}"),
    ];
    let text = policy["Fn::Sub"].as_str().unwrap().to_owned();
    names.iter().fold(text, |text, (theirs, ours)| text.replace(theirs, ours))
}

#[test]
fn the_stack_has_the_policies_of_deploy_iam() {
    let stack = stack();
    let chosen = &stack["Resources"]["ControllerPolicy"]["Properties"]["PolicyDocument"]["Fn::If"];
    assert_eq!(chosen[0], "IsStrict");
    for (policy, ours) in [(&chosen[1], STRICT), (&chosen[2], SCOPED)] {
        let theirs = of_stack(policy);
        let [theirs_read, ours_read]: [Value; 2] =
            [&*theirs, ours].map(|text| serde_json::from_str(text).unwrap());
        assert_eq!(theirs_read, ours_read);
        // With the longest name that the stack takes, and the role of Windows nodes beside it.
        let longest = "c".repeat(38);
        let filled = filled(&theirs).replace("prod", &longest).replace("uid-1", &"u".repeat(36));
        let dense = serde_json::from_str::<Value>(&filled).unwrap().to_string();
        assert!(dense.len() + 500 < INLINE_MAX, "{} characters", dense.len());
        assert_eq!(lines_of(&[&theirs], &place()), [""; 0]);
    }
    assert!(STACK.len() < TEMPLATE_MAX, "{} bytes", STACK.len());
}

/// The module reads the files of `deploy/iam`, and gives each of their variables a value.
#[test]
fn the_module_fills_in_the_policies_of_deploy_iam() {
    assert!(MODULE.contains("templatefile(\"${path.module}/../../iam/${local.policy}\", {"));
    assert!(MODULE.contains("\"controller-policy.json\" : \"controller-policy-strict.json\""));
    let variables = |policy: &str| -> BTreeSet<String> {
        policy.split("${").skip(1).filter_map(|rest| Some(rest.split_once('}')?.0.to_owned())).collect()
    };
    for variable in variables(STRICT).union(&variables(SCOPED)) {
        let given = MODULE
            .lines()
            .any(|line| line.trim().split_once('=').is_some_and(|(name, _)| name.trim() == variable));
        assert!(given, "{variable}");
    }
}

/// Both have the same five rules, and the controller acts on a message of each.
#[test]
fn rules_send_what_the_controller_understands() {
    let rules: Value = serde_json::from_str(RULES).unwrap();
    let rules = rules.as_object().unwrap();
    let stack = stack();
    let resources = stack["Resources"].as_object().unwrap();
    let of_stack: BTreeSet<&String> = resources
        .iter()
        .filter(|(_, resource)| resource["Type"] == "AWS::Events::Rule")
        .map(|(name, _)| name)
        .collect();
    assert_eq!(of_stack, rules.keys().collect());
    let mut kinds = BTreeSet::new();
    for (name, rule) in rules {
        let properties = &resources[name]["Properties"];
        assert_eq!(properties["EventPattern"], *rule, "{name}");
        assert_eq!(properties["Targets"][0]["Arn"], json!({"Fn::GetAtt": ["Queue", "Arn"]}), "{name}");
        let event = json!({
            "version": "0", "source": rule["source"][0], "detail-type": rule["detail-type"][0],
            "time": "2026-01-01T00:00:00Z",
            "detail": {
                "instance-id": "i-1", "state": "stopping", "service": "EC2",
                "eventTypeCategory": "scheduledChange", "affectedEntities": [{"entityValue": "i-1"}],
            },
        });
        let message = parse(&event.to_string()).unwrap();
        assert!(message.kind != MessageKind::NoOp && message.instances == ["i-1"], "{name}: {message:?}");
        kinds.insert(message.kind);
    }
    assert_eq!(kinds.len(), 5);
}

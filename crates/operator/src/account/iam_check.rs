//! `fleetwright iam check`: checks that IAM policies grant every action that the settings require.

use std::io::{Read as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use fleetwright_aws::permissions::Feature;
use fleetwright_aws_tools::iam::{IamReport, Place, check};

use super::{block_on, connect};
use crate::{cli::TableOrJson, ec2::options::IamCheckOptions, settings::Values};

/// Checks the policies and prints the report.
///
/// # Errors
/// If a policy cannot be read, or a required action is missing.
pub(crate) fn run(options: &IamCheckOptions, values: &Values) -> anyhow::Result<()> {
    let mut region = options.region.clone();
    let policies = match &options.role {
        Some(role) => block_on(async {
            let sdk = connect(values).await?;
            region.get_or_insert_with(|| sdk.region().to_owned());
            Ok(sdk.role_policies(role).await?)
        })?,
        None => options.files.iter().map(|file| read(file)).collect::<anyhow::Result<Vec<String>>>()?,
    };
    ensure!(!policies.is_empty(), "no policy to check: pass files with -f, or --role");
    let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
    let report = report(&policies, values, region)?;
    let mut out = anstream::stdout().lock();
    match options.output {
        TableOrJson::Json => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
        TableOrJson::Table => write!(out, "{report}")?,
    }
    match report.required_missing() {
        0 => Ok(()),
        count => bail!("{count} required actions are not granted: nodes cannot be launched or terminated"),
    }
}

/// The actions that the settings require and `policies` do not grant.
///
/// # Errors
/// A policy is not JSON.
pub(super) fn report(
    policies: &[&str],
    values: &Values,
    region: Option<String>,
) -> anyhow::Result<IamReport> {
    let place = place(values, region);
    let checked = check(policies, &place, |feature| is_enabled(feature, values));
    Ok(checked.context("a policy is not JSON")?.into())
}

fn read(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| file.display().to_string())
}

/// Account, region and cluster of the controller, as far as the settings have them.
fn place(values: &Values, region: Option<String>) -> Place {
    let text = |name: &str| Some(values.text(name).to_owned()).filter(|text| !text.is_empty());
    Place { cluster: text("CLUSTER_NAME"), region, queue: text("INTERRUPTION_QUEUE") }
}

/// Whether the settings enable a feature.
fn is_enabled(feature: Feature, values: &Values) -> bool {
    match feature {
        Feature::Core | Feature::PlacementGroups | Feature::InstanceStatus | Feature::LateTags => true,
        Feature::InstanceProfiles | Feature::Pricing => !values.bool("ISOLATED_VPC"),
        Feature::Interruption => !values.text("INTERRUPTION_QUEUE").is_empty(),
        Feature::ZonalShift => values.bool("ENABLE_ZONAL_SHIFT"),
        Feature::Reservations => values.gate("ReservedCapacity"),
    }
}

#[cfg(test)]
mod tests {
    //! The permissions that settings require.
    use super::*;

    const POLICY: &str = include_str!("../../../../deploy/iam/controller-policy.json");

    fn values(pairs: &[(&str, &str)]) -> Values {
        let env =
            |key: &str| pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned());
        Values::resolve(&std::collections::BTreeMap::new(), env).unwrap()
    }

    fn checked(policy: &str, pairs: &[(&str, &str)]) -> IamReport {
        let values = values(pairs);
        let place = place(&values, Some("eu-west-1".to_owned()));
        check(&[policy], &place, |feature| is_enabled(feature, &values)).unwrap().into()
    }

    #[test]
    fn our_own_policy_grants_everything() {
        let everything = [("INTERRUPTION_QUEUE", "q"), ("ENABLE_ZONAL_SHIFT", "true")];
        let report = checked(POLICY, &everything);
        let text = report.to_string();
        let expected = "the policies grant every required action\nnot evaluated: permission boundaries, and policies of the \
                        organization, sessions, resources and the account\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_policy_of_another_cluster_grants_nothing() {
        let policy = POLICY.replace("${CLUSTER_NAME}", "test");
        let report = checked(&policy, &[("CLUSTER_NAME", "prod")]);
        let termination =
            report.missing.iter().find(|missing| missing.action == "ec2:TerminateInstances").unwrap();
        assert!(termination.why.contains("kubernetes.io/cluster/test does not hold"), "{}", termination.why);
        assert_eq!(checked(&policy, &[("CLUSTER_NAME", "test")]).missing, []);
    }

    #[test]
    fn undecided_permissions_are_listed() {
        let policy = POLICY.replace("${NODE_ROLE_NAME}", "nodes");
        let text = checked(&policy, &[]).to_string();
        assert!(text.contains("undecided without a real call:\n- iam:PassRole on "), "{text}");
    }

    #[test]
    fn disabled_features_need_no_permissions() {
        let without = |pairs: &[(&str, &str)]| {
            let report = checked("{}", pairs);
            report.missing.iter().map(|missing| missing.action).collect::<Vec<_>>()
        };
        let plain = without(&[]);
        assert!(plain.contains(&"ec2:CreateFleet") && plain.contains(&"pricing:GetProducts"));
        assert!(!plain.contains(&"sqs:ReceiveMessage"));
        assert!(without(&[("INTERRUPTION_QUEUE", "q")]).contains(&"sqs:ReceiveMessage"));
        assert!(!without(&[("ISOLATED_VPC", "true")]).contains(&"pricing:GetProducts"));
    }

    #[test]
    fn the_report_names_statement_and_feature() {
        let text = checked("{}", &[]).to_string();
        assert!(
            text.contains("AllowScopedEC2InstanceActionsWithTags") && text.contains("current prices"),
            "{text}"
        );
    }
}

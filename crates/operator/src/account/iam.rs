//! `fleetwright iam check`: rights that the controller needs by its settings and that no policy gives.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use fleetwright_aws::iam::{Checked, Feature, Lack, NOT_EVALUATED, Place, check};
use serde::Serialize;

use super::{block_on, connect};
use crate::{
    cli::{IamCheckOptions, TableOrJson},
    plan::grid,
    settings::Values,
};

/// What is printed.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
struct Report {
    missing: Vec<Missing>,
    /// What only a real call would tell.
    unclear: Vec<String>,
    /// What is in no policy.
    not_evaluated: &'static str,
}

#[derive(Debug, Serialize, PartialEq, Eq)]
struct Missing {
    action: &'static str,
    /// The statement of `deploy/iam` that gives it.
    statement: &'static str,
    /// What the policies say instead.
    why: String,
    /// What stands still without it.
    feature: &'static str,
    /// Whether the rest works without it.
    optional: bool,
}

/// Checks and prints.
///
/// # Errors
/// Where a policy cannot be read, or where one is missing without which no node is launched or ended.
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
    ensure!(!policies.is_empty(), "there is no policy to check: give files with -f, or --role");
    let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
    let place = place(values, region);
    let found = check(&policies, &place, |feature| is_on(feature, values)).context("a policy is not JSON")?;
    let report = report(found);
    let mut out = anstream::stdout().lock();
    match options.output {
        TableOrJson::Json => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
        TableOrJson::Table => write!(out, "{report}")?,
    }
    match report.missing.iter().filter(|missing| !missing.optional).count() {
        0 => Ok(()),
        count => bail!("{count} rights are missing without which nodes are not launched or not ended"),
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| file.display().to_string())
}

/// Where the controller works, as far as the settings say.
fn place(values: &Values, region: Option<String>) -> Place {
    let told = |name: &str| Some(values.text(name).to_owned()).filter(|text| !text.is_empty());
    Place { cluster: told("CLUSTER_NAME"), region, queue: told("INTERRUPTION_QUEUE") }
}

/// Whether the settings switch a feature on.
fn is_on(feature: Feature, values: &Values) -> bool {
    match feature {
        Feature::Core | Feature::PlacementGroups | Feature::InstanceStatus | Feature::LateTags => true,
        Feature::InstanceProfiles | Feature::Pricing => !values.bool("ISOLATED_VPC"),
        Feature::Interruption => !values.text("INTERRUPTION_QUEUE").is_empty(),
        Feature::ZonalShift => values.bool("ENABLE_ZONAL_SHIFT"),
        Feature::Reservations => values.gate("ReservedCapacity"),
    }
}

fn report(found: Checked) -> Report {
    let missing = |Lack { right, why }| Missing {
        action: right.action,
        statement: right.statement,
        why,
        feature: right.feature.as_str(),
        optional: right.feature.is_optional(),
    };
    Report {
        missing: found.missing.into_iter().map(missing).collect(),
        unclear: found.unclear,
        not_evaluated: NOT_EVALUATED,
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.missing.is_empty() {
            writeln!(f, "nothing is missing")?;
        } else {
            let mut grid = grid(&["ACTION", "STATEMENT OF deploy/iam", "WITHOUT IT THERE IS NO", "WHY"]);
            for missing in &self.missing {
                grid.add_row([missing.action, missing.statement, missing.feature, &missing.why]);
            }
            writeln!(f, "{}", grid.trim_fmt())?;
        }
        if !self.unclear.is_empty() {
            writeln!(f, "only a real call would tell:")?;
        }
        for doubt in &self.unclear {
            writeln!(f, "- {doubt}")?;
        }
        writeln!(f, "not evaluated: {}", self.not_evaluated)
    }
}

#[cfg(test)]
mod tests {
    //! Which settings ask for which rights.
    use super::*;

    const POLICY: &str = include_str!("../../../../deploy/iam/controller-policy.json");

    fn values(pairs: &[(&str, &str)]) -> Values {
        let env =
            |key: &str| pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned());
        Values::resolve(&std::collections::BTreeMap::new(), env).unwrap()
    }

    fn found(policy: &str, pairs: &[(&str, &str)]) -> Report {
        let values = values(pairs);
        let place = place(&values, Some("eu-west-1".to_owned()));
        report(check(&[policy], &place, |feature| is_on(feature, &values)).unwrap())
    }

    #[test]
    fn our_own_policy_lacks_nothing() {
        let everything = [("INTERRUPTION_QUEUE", "q"), ("ENABLE_ZONAL_SHIFT", "true")];
        let report = found(POLICY, &everything);
        let text = report.to_string();
        let expected = "nothing is missing\nnot evaluated: permission boundaries, policies of the organisation, \
                        of sessions and of resources, and the account\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_policy_of_another_cluster_is_told_apart() {
        let policy = POLICY.replace("${CLUSTER_NAME}", "test");
        let report = found(&policy, &[("CLUSTER_NAME", "prod")]);
        let ending =
            report.missing.iter().find(|missing| missing.action == "ec2:TerminateInstances").unwrap();
        assert!(ending.why.contains("kubernetes.io/cluster/test does not hold"), "{}", ending.why);
        assert_eq!(found(&policy, &[("CLUSTER_NAME", "test")]).missing, []);
    }

    #[test]
    fn what_only_a_call_would_tell_is_told() {
        let policy = POLICY.replace("${NODE_ROLE_NAME}", "nodes");
        let text = found(&policy, &[]).to_string();
        assert!(text.contains("only a real call would tell:\n- iam:PassRole on "), "{text}");
    }

    #[test]
    fn what_is_switched_off_needs_no_rights() {
        let without = |pairs: &[(&str, &str)]| {
            let report = found("{}", pairs);
            report.missing.iter().map(|missing| missing.action).collect::<Vec<_>>()
        };
        let plain = without(&[]);
        assert!(plain.contains(&"ec2:CreateFleet") && plain.contains(&"pricing:GetProducts"));
        assert!(!plain.contains(&"sqs:ReceiveMessage"));
        assert!(without(&[("INTERRUPTION_QUEUE", "q")]).contains(&"sqs:ReceiveMessage"));
        assert!(!without(&[("ISOLATED_VPC", "true")]).contains(&"pricing:GetProducts"));
    }

    #[test]
    fn the_statement_is_named() {
        let text = found("{}", &[]).to_string();
        assert!(
            text.contains("AllowScopedEC2InstanceActionsWithTags") && text.contains("current prices"),
            "{text}"
        );
    }
}

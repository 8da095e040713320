//! `fleetwright iam check`: rights that the controller needs by its settings and that no policy gives.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use fleetwright_aws::iam::{Feature, Right, missing};
use serde::Serialize;

use super::{block_on, connect};
use crate::{
    cli::{IamCheckOptions, TableOrJson},
    plan::grid,
    settings::Values,
};

/// What is printed.
#[derive(Debug, Serialize, PartialEq, Eq)]
struct Report {
    missing: Vec<Missing>,
}

#[derive(Debug, Serialize, PartialEq, Eq)]
struct Missing {
    action: &'static str,
    /// The statement of `deploy/iam` that gives it.
    statement: &'static str,
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
    let policies = match &options.role {
        Some(role) => block_on(async { Ok(connect(values).await?.role_policies(role).await?) })?,
        None => options.files.iter().map(|file| read(file)).collect::<anyhow::Result<Vec<String>>>()?,
    };
    ensure!(!policies.is_empty(), "there is no policy to check: give files with -f, or --role");
    let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
    let found = missing(&policies, |feature| is_on(feature, values)).context("a policy is not JSON")?;
    let report = report(&found);
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

fn report(found: &[Right]) -> Report {
    let missing = |right: &Right| Missing {
        action: right.action,
        statement: right.statement,
        feature: right.feature.as_str(),
        optional: right.feature.is_optional(),
    };
    Report { missing: found.iter().map(missing).collect() }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.missing.is_empty() {
            return writeln!(f, "nothing is missing");
        }
        let mut grid = grid(&["ACTION", "STATEMENT OF deploy/iam", "WITHOUT IT THERE IS NO"]);
        for missing in &self.missing {
            grid.add_row([missing.action, missing.statement, missing.feature]);
        }
        writeln!(f, "{}", grid.trim_fmt())
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
        report(&missing(&[policy], |feature| is_on(feature, &values(pairs))).unwrap())
    }

    #[test]
    fn our_own_policy_lacks_nothing() {
        let everything = [("INTERRUPTION_QUEUE", "q"), ("ENABLE_ZONAL_SHIFT", "true")];
        let report = found(POLICY, &everything);
        assert_eq!(report.to_string(), "nothing is missing\n");
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

//! Checks that IAM policies grant every action that the controller needs, and no deletion of what another cluster launched.

mod glob;
mod policy;
mod report;
mod request;

use fleetwright_aws::permissions::{Feature, PERMISSIONS, Permission};

pub use report::{IamReport, MissingAction};
pub use request::Place;

/// An IAM action that the policies do not grant, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingPermission {
    /// The permission, with the statement that would grant it.
    pub permission: Permission,
    /// Why the policies do not grant it.
    pub why: String,
}

/// The result of comparing policies with what the controller needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Missing permissions by action and statement, each with its first reason.
    pub missing: Vec<MissingPermission>,
    /// Permissions that cannot be decided without a real call, the first [`UNDECIDED_MAX`].
    pub undecided: Vec<String>,
    /// Deletions that the policies allow of what another cluster launched.
    pub unscoped: Vec<&'static str>,
}

/// Most undecided permissions in a result.
pub const UNDECIDED_MAX: usize = 50;

/// What decides about a call and is not part of identity policies.
pub const NOT_EVALUATED: &str =
    "permission boundaries, and policies of the organization, sessions, resources and the account";

/// Compares identity policies with the permissions of the features that `is_enabled` accepts: denials, actions, resources, and
/// conditions on keys that are known before a call.
///
/// # Errors
/// If a policy is not JSON.
pub fn check(
    policies: &[&str],
    place: &Place,
    is_enabled: impl Fn(Feature) -> bool,
) -> Result<Checked, serde_json::Error> {
    let mut statements = Vec::new();
    for policy in policies {
        statements.extend(policy::statements(&serde_json::from_str(policy)?));
    }
    let mut checked = Checked::default();
    for permission in PERMISSIONS.iter().filter(|permission| is_enabled(permission.feature)) {
        for request in request::requests(permission, place) {
            let statement = request.statement.unwrap_or(permission.statement);
            let answer = policy::answer(&statements, &request, place, statement);
            let describe = |why: &String| format!("{} on {}: {why}", permission.action, request.resource);
            let mut undecided: Vec<String> = answer.doubts.iter().map(describe).collect();
            match &answer.allowed {
                policy::Holds::Yes => {}
                policy::Holds::Perhaps(why) => undecided.push(describe(why)),
                policy::Holds::No(why) => {
                    checked.add_missing(Permission { statement, ..*permission }, why);
                }
            }
            for why in undecided {
                if checked.undecided.len() < UNDECIDED_MAX && !checked.undecided.contains(&why) {
                    checked.undecided.push(why);
                }
            }
        }
    }
    for request in request::deletions_of_another(place) {
        let answer = policy::answer(&statements, &request, place, "");
        if answer.allowed == policy::Holds::Yes && answer.doubts.is_empty() {
            checked.unscoped.push(request.action);
        }
    }
    checked.missing.sort_by_key(|missing| (missing.permission.action, missing.permission.statement));
    Ok(checked)
}

impl Checked {
    fn add_missing(&mut self, permission: Permission, why: &str) {
        let same = |known: &MissingPermission| {
            (known.permission.action, known.permission.statement) == (permission.action, permission.statement)
        };
        match self.missing.iter_mut().find(|known| same(known)) {
            // The report names the feature that matters most.
            Some(known) => known.permission.feature = known.permission.feature.min(permission.feature),
            None => self.missing.push(MissingPermission { permission, why: why.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests;

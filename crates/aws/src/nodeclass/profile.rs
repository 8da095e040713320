//! Instance profiles: created for `spec.role`, adopted, replaced when the role changes, and deleted only with proof of ownership.
//!
//! The name of a profile is derived from cluster, EC2NodeClass and role, so that a process that exits between the creation of a profile
//! and the write of its name finds it again. Roles are compared by name: a path in `spec.role` makes no difference.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fleetwright_aws_api::ec2nodeclass::condition;
use fleetwright_aws_api::{Ec2NodeClass, labels};
use jiff::{SignedDuration, Timestamp};

use super::{ConditionOutcome, ConditionResult};
use crate::cache::Cache;
use crate::calls::{AwsApi, AwsError, ErrorClass, ProfileInfo, TagSet};
use crate::digest::digest;
use crate::settings::Settings;

/// How long a new profile is not looked up: IAM is eventually consistent.
const SETTLING: SignedDuration = SignedDuration::from_secs(60);
/// How long a role that IAM does not find is not tried again.
const ROLE_MISSING: SignedDuration = SignedDuration::from_secs(60);
/// Most entries of a cache in this module: more than there are EC2NodeClasses.
const REMEMBERED: u64 = 10_000;
/// How long a profile must be unused before it is deleted: a NodeClaim may be in flight.
pub const UNUSED_FOR: SignedDuration = SignedDuration::from_hours(1);
/// How often unused profiles are collected.
pub const COLLECT_EVERY: Duration = Duration::from_secs(30 * 60);
/// Most profiles that one round deletes.
const DELETED_MAX: usize = 20;

/// The account and the cluster.
#[derive(Clone, Copy)]
pub struct Account<'a> {
    /// The calls to AWS.
    pub api: &'a dyn AwsApi,
    /// The settings of the controller.
    pub settings: &'a Settings,
    /// UID of the cluster.
    pub cluster_uid: &'a str,
}

/// What this process remembers of its calls.
#[derive(Debug, Default)]
pub struct ProfileMemory {
    /// Profiles that were just created, by EC2NodeClass and role: IAM may not show them yet.
    created: Cache<(String, String), String, REMEMBERED>,
    /// Roles that IAM did not find.
    missing_roles: Cache<String, (), REMEMBERED>,
}

/// Since when profiles are unused, by name. This is state rather than a cache, because profiles are deleted by it. It has only profiles
/// that IAM lists.
pub type UnusedSince = BTreeMap<String, Timestamp>;

/// A role's name without its path.
#[must_use]
pub fn role_name(role: &str) -> &str {
    role.rsplit('/').next().unwrap_or(role)
}

/// The path of a cluster's profiles, below which all its EC2NodeClasses have theirs.
#[must_use]
pub fn cluster_path(settings: &Settings) -> String {
    format!("/karpenter/{}/{}/", settings.region, settings.cluster_name)
}

fn class_path(settings: &Settings, class_uid: &str) -> String {
    format!("{}{class_uid}/", cluster_path(settings))
}

/// The name of an EC2NodeClass's profile for a role.
#[must_use]
pub fn profile_name(account: &Account<'_>, class_uid: &str, role: &str) -> String {
    let from = format!("{}/{}/{class_uid}/{}", account.settings.region, account.cluster_uid, role_name(role));
    let digest = digest(&from);
    // IAM allows 128 characters, and EKS 100 for the name of a cluster: 27 remain.
    let cluster: String = account.settings.cluster_name.chars().take(100).collect();
    format!("{cluster}_{}", &digest[5..])
}

fn tags(account: &Account<'_>, class: &Ec2NodeClass) -> TagSet {
    let mut all = class.spec.tags.clone().unwrap_or_default();
    let cluster = account.settings.cluster_name.to_string();
    all.insert(format!("{}{cluster}", labels::TAG_CLUSTER_PREFIX), "owned".to_owned());
    let name = class.metadata.name.clone().unwrap_or_default();
    all.insert(labels::TAG_CLUSTER_NAME.to_owned(), cluster);
    all.insert(labels::NODE_CLASS.to_owned(), name);
    all.insert(labels::TAG_REGION.to_owned(), account.settings.region.to_string());
    all.insert(labels::TAG_CLUSTER_UID.to_owned(), account.cluster_uid.to_owned());
    all
}

/// Whether a profile is ours by its UID tag. One without the tag is ours if its path is that of one of our EC2NodeClasses, whose UID no
/// other cluster has.
fn is_ours(account: &Account<'_>, profile: &ProfileInfo, class_uids: &BTreeSet<String>) -> bool {
    match profile.tags.get(labels::TAG_CLUSTER_UID) {
        Some(uid) => uid == account.cluster_uid,
        None => class_uids.iter().any(|uid| profile.path == class_path(account.settings, uid)),
    }
}

/// Reconciles the profile of an EC2NodeClass, and writes its name to the status.
pub async fn reconcile(
    account: &Account<'_>,
    class: &mut Ec2NodeClass,
    memory: &ProfileMemory,
    now: Timestamp,
) -> ConditionResult {
    const CONDITION: &str = condition::INSTANCE_PROFILE_READY;
    let uid = class.metadata.uid.clone().unwrap_or_default();
    let role = class.spec.role.clone().unwrap_or_default();
    if role.is_empty() {
        let own = class.spec.instance_profile.clone().unwrap_or_default();
        class.status.get_or_insert_default().instance_profile = own;
        return ConditionResult::good(CONDITION);
    }
    if let Some(name) = memory.created.get(&(uid.clone(), role_name(&role).to_owned()), now) {
        class.status.get_or_insert_default().instance_profile = name;
        return ConditionResult::good(CONDITION);
    }
    if memory.missing_roles.get(&role, now).is_some() {
        return role_missing(&role);
    }
    match find_or_create(account, class, &uid, &role).await {
        Ok(EnsuredProfile { name, new }) => {
            if new {
                memory.created.insert((uid, role_name(&role).to_owned()), name.clone(), now, SETTLING);
            }
            memory.missing_roles.remove(&role);
            class.status.get_or_insert_default().instance_profile = name;
            ConditionResult::good(CONDITION)
        }
        Err(ProfileError::NoRole) => {
            memory.missing_roles.insert(role.clone(), (), now, ROLE_MISSING);
            role_missing(&role)
        }
        Err(ProfileError::NotOurs(name)) => {
            let message = format!("instance profile {name} exists and is not this cluster's: delete it");
            ConditionResult::bad(CONDITION, "InstanceProfileNotOwned", message)
        }
        Err(ProfileError::Refused(action, error)) if error.class() == ErrorClass::Refused => {
            let message = format!("{action}: {}", error.code);
            ConditionResult::bad(CONDITION, "InstanceProfileFailed", message)
        }
        Err(ProfileError::Refused(action, error)) => ConditionResult::unanswered(CONDITION, action, &error),
    }
}

fn role_missing(role: &str) -> ConditionResult {
    let message = format!("IAM knows no role {role}: create it, or change spec.role");
    ConditionResult::bad(condition::INSTANCE_PROFILE_READY, "RoleNotFound", message)
}

struct EnsuredProfile {
    name: String,
    new: bool,
}

enum ProfileError {
    NoRole,
    NotOurs(String),
    Refused(&'static str, AwsError),
}

fn refused(action: &'static str) -> impl Fn(AwsError) -> ProfileError {
    move |error| ProfileError::Refused(action, error)
}

/// The profile of the status if it still has the role, else the one whose name is derived from the role.
async fn find_or_create(
    account: &Account<'_>,
    class: &Ec2NodeClass,
    uid: &str,
    role: &str,
) -> Result<EnsuredProfile, ProfileError> {
    let current = class.status.as_ref().map(|status| status.instance_profile.clone()).unwrap_or_default();
    let name = profile_name(account, uid, role);
    if !current.is_empty() && current != name {
        match account.api.profile(&current).await {
            Ok(found) if has_role(&found, role) => return Ok(EnsuredProfile { name: current, new: false }),
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(ProfileError::Refused(GET, error)),
        }
    }
    match account.api.profile(&name).await {
        Ok(found) => adopt(account, found, uid, role).await,
        Err(error) if error.is_not_found() => {
            let path = class_path(account.settings, uid);
            match account.api.create_profile(&name, &path, &tags(account, class)).await {
                Ok(()) => {}
                Err(error) if error.code == "EntityAlreadyExists" => {}
                Err(error) => return Err(ProfileError::Refused("iam:CreateInstanceProfile", error)),
            }
            attach_role(account, &name, role).await
        }
        Err(error) => Err(ProfileError::Refused(GET, error)),
    }
}

fn has_role(profile: &ProfileInfo, role: &str) -> bool {
    profile.roles.first().is_some_and(|known| role_name(known) == role_name(role))
}

/// Adopts an existing profile, for example of an interrupted process.
async fn adopt(
    account: &Account<'_>,
    found: ProfileInfo,
    uid: &str,
    role: &str,
) -> Result<EnsuredProfile, ProfileError> {
    if !is_ours(account, &found, &BTreeSet::from([uid.to_owned()])) {
        return Err(ProfileError::NotOurs(found.name));
    }
    if has_role(&found, role) {
        return Ok(EnsuredProfile { name: found.name, new: false });
    }
    for other in &found.roles {
        let removed = account.api.remove_role(&found.name, other).await;
        removed.map_err(refused(REMOVE_ROLE))?;
    }
    attach_role(account, &found.name, role).await
}

/// Adds the role to a profile. A profile without a role is useless and is deleted if the role does not exist.
async fn attach_role(account: &Account<'_>, name: &str, role: &str) -> Result<EnsuredProfile, ProfileError> {
    match account.api.add_role(name, role_name(role)).await {
        Ok(()) => Ok(EnsuredProfile { name: name.to_owned(), new: true }),
        // Another process was faster, with the same role: the name proves it.
        Err(error) if error.code == "LimitExceeded" => {
            Ok(EnsuredProfile { name: name.to_owned(), new: true })
        }
        // IAM is eventually consistent: what it does not find may be the new profile.
        Err(error) if error.is_not_found() && error.message.to_lowercase().contains("the role ") => {
            let _ = account.api.delete_profile(name).await;
            Err(ProfileError::NoRole)
        }
        Err(error) => Err(ProfileError::Refused("iam:AddRoleToInstanceProfile", error)),
    }
}

/// The result of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectedProfiles {
    /// Deleted profiles.
    pub deleted: Vec<String>,
    /// Profiles below our path that are not ours, with their tags.
    pub foreign: Vec<ProfileInfo>,
    /// The result of each action, by name: the first refusal if there was one. An action that was not needed counts as successful.
    pub answers: BTreeMap<&'static str, Result<(), AwsError>>,
}

impl CollectedProfiles {
    fn nothing() -> Self {
        Self { answers: [GET, REMOVE_ROLE, DELETE].map(|action| (action, Ok(()))).into(), ..Self::default() }
    }

    /// Records a refusal; `true` if IAM will refuse the action for other profiles too.
    fn refused(&mut self, action: &'static str, error: &AwsError) -> bool {
        let denied = error.class() == ErrorClass::Unauthorized;
        let answer = self.answers.entry(action).or_insert(Ok(()));
        if answer.is_ok() {
            *answer = Err(error.clone());
        }
        denied
    }
}

const GET: &str = "iam:GetInstanceProfile";
const REMOVE_ROLE: &str = "iam:RemoveRoleFromInstanceProfile";
const DELETE: &str = "iam:DeleteInstanceProfile";

/// Deletes profiles that no EC2NodeClass and no NodeClaim has used for an hour, as far as this process observed.
///
/// # Errors
/// If IAM does not list the profiles. A profile that cannot be deleted is retried in the next round.
pub async fn collect(
    account: &Account<'_>,
    class_uids: &BTreeSet<String>,
    used: &BTreeSet<String>,
    unused_since: &mut UnusedSince,
    now: Timestamp,
) -> Result<CollectedProfiles, AwsError> {
    let all = account.api.profiles(&cluster_path(account.settings)).await?;
    unused_since.retain(|name, _| all.iter().any(|profile| profile.name == *name));
    let mut collected = CollectedProfiles::nothing();
    for profile in &all {
        if used.contains(&profile.name) {
            unused_since.remove(&profile.name);
            continue;
        }
        let since = unused_since.entry(profile.name.clone()).or_insert(now);
        // A clock that was set back restarts the interval.
        *since = (*since).min(now);
        let since = *since;
        if now.duration_since(since) < UNUSED_FOR || collected.deleted.len() >= DELETED_MAX {
            continue;
        }
        // The list has no tags, and it is minutes old.
        let fresh = match account.api.profile(&profile.name).await {
            Ok(fresh) => fresh,
            Err(error) if error.is_not_found() => continue,
            Err(error) if collected.refused(GET, &error) => break,
            Err(_) => continue,
        };
        if !is_ours(account, &fresh, class_uids) {
            collected.foreign.push(fresh);
            continue;
        }
        match delete(account, &fresh).await {
            Ok(()) => {
                unused_since.remove(&fresh.name);
                collected.deleted.push(fresh.name);
            }
            Err((action, error)) if collected.refused(action, &error) => break,
            Err(_) => {}
        }
    }
    Ok(collected)
}

/// Lists the profiles below the cluster's path, with whether each is ours.
///
/// # Errors
/// If IAM does not list them.
pub async fn owners(
    account: &Account<'_>,
    class_uids: &BTreeSet<String>,
) -> Result<Vec<(ProfileInfo, bool)>, AwsError> {
    let mut all = Vec::new();
    for profile in account.api.profiles(&cluster_path(account.settings)).await? {
        match account.api.profile(&profile.name).await {
            Ok(fresh) => {
                let ours = is_ours(account, &fresh, class_uids);
                all.push((fresh, ours));
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

async fn delete(account: &Account<'_>, profile: &ProfileInfo) -> Result<(), (&'static str, AwsError)> {
    for role in &profile.roles {
        let removed = gone_is_ok(account.api.remove_role(&profile.name, role).await);
        removed.map_err(|error| (REMOVE_ROLE, error))?;
    }
    gone_is_ok(account.api.delete_profile(&profile.name).await).map_err(|error| (DELETE, error))
}

fn gone_is_ok(result: Result<(), AwsError>) -> Result<(), AwsError> {
    match result {
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    }
}

/// Deletes the profiles of a deleted EC2NodeClass: those below its path, and the one of older releases if its status names it.
///
/// # Errors
/// If IAM refuses; nothing is lost, because the finalizer remains.
pub async fn delete_all(account: &Account<'_>, class: &Ec2NodeClass) -> Result<(), (&'static str, AwsError)> {
    let uid = class.metadata.uid.clone().unwrap_or_default();
    if uid.is_empty() {
        return Ok(());
    }
    // An EC2NodeClass with `spec.instanceProfile` needs no IAM permission, and in an isolated network IAM is unreachable. A profile that
    // it had for a role before is collected once unused.
    let needed = class.spec.role.is_some();
    if !needed && account.settings.isolated_vpc {
        return Ok(());
    }
    let list = match account.api.profiles(&class_path(account.settings, &uid)).await {
        Err(_) if !needed => return Ok(()),
        list => list.map_err(|error| ("iam:ListInstanceProfiles", error))?,
    };
    let uids = BTreeSet::from([uid]);
    for profile in list {
        let Some(fresh) = read(account, &profile.name).await? else { continue };
        if is_ours(account, &fresh, &uids) {
            delete(account, &fresh).await?;
        }
    }
    let named = class.status.as_ref().map(|status| status.instance_profile.clone()).unwrap_or_default();
    let name = class.metadata.name.clone().unwrap_or_default();
    let legacy = labels::legacy_profile_name(&account.settings.cluster_name, &account.settings.region, &name);
    if named == legacy && class.spec.role.is_some() {
        let Some(fresh) = read(account, &legacy).await? else { return Ok(()) };
        let theirs = fresh.tags.get(labels::TAG_CLUSTER_UID).is_some_and(|uid| uid != account.cluster_uid);
        let cluster = fresh.tags.get(labels::TAG_CLUSTER_NAME);
        let owned = format!("{}{}", labels::TAG_CLUSTER_PREFIX, account.settings.cluster_name);
        let named = cluster.is_some_and(|name| **name == *account.settings.cluster_name)
            || fresh.tags.contains_key(&owned);
        if named && !theirs {
            delete(account, &fresh).await?;
        }
    }
    Ok(())
}

async fn read(account: &Account<'_>, name: &str) -> Result<Option<ProfileInfo>, (&'static str, AwsError)> {
    match account.api.profile(name).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err((GET, error)),
    }
}

/// The delay until the profile of an EC2NodeClass is reconciled again.
#[must_use]
pub fn again(finding: &ConditionResult, every: Duration) -> Duration {
    match &finding.outcome {
        ConditionOutcome::True => every,
        ConditionOutcome::Unanswered { after, .. } => *after,
        _ => Duration::from_secs(60),
    }
}

#[cfg(test)]
mod tests;

//! Profiles after crashes, with other owners, and with paths.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use fleetwright_aws_api::Ec2NodeClassStatus;
use fleetwright_core::clock::{Clock, SharedClock};

use super::*;
use crate::testing::{CLUSTER, Call, FakeAws, Fault, REGION, class};

struct FixedClock(Mutex<Timestamp>);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }
}

struct FakeAccount {
    cloud: FakeAws,
    settings: Settings,
    class: Ec2NodeClass,
    memory: ProfileMemory,
    now: Timestamp,
}

impl FakeAccount {
    fn new() -> Self {
        let clock: SharedClock = Arc::new(FixedClock(Mutex::new(Timestamp::UNIX_EPOCH)));
        let mut class = class("default", true);
        class.metadata.uid = Some("class-uid".to_owned());
        class.status = Some(Ec2NodeClassStatus::default());
        Self {
            cloud: FakeAws::new(clock),
            settings: Settings::new(CLUSTER, REGION),
            class,
            memory: ProfileMemory::default(),
            now: Timestamp::UNIX_EPOCH,
        }
    }

    async fn look(&mut self) -> &'static str {
        let who = Account { api: &self.cloud, settings: &self.settings, cluster_uid: "uid" };
        let finding = reconcile(&who, &mut self.class, &self.memory, self.now).await;
        match finding.outcome {
            ConditionOutcome::True => "True",
            ConditionOutcome::False { reason, .. } => reason,
            ConditionOutcome::Unanswered { .. } => "Unanswered",
            _ => "other",
        }
    }

    fn named(&self) -> String {
        self.class.status.as_ref().unwrap().instance_profile.clone()
    }

    /// Simulates a process that exits before the status is written: status and memory are lost.
    fn crash(&mut self) {
        self.memory = ProfileMemory::default();
        self.class.status = Some(Ec2NodeClassStatus::default());
    }
}

/// After an exit at any point, the next process gets the same profile, with its role.
#[tokio::test]
async fn an_interrupted_making_is_finished() {
    for call in [Call::CreateProfile, Call::AddRole] {
        let mut account = FakeAccount::new();
        let lost = AwsError::new(AwsError::NO_ANSWER, "reset");
        let fault = if call == Call::CreateProfile { Fault::Lose } else { Fault::Refuse(lost) };
        account.cloud.inject(call, fault);
        assert_eq!(account.look().await, "Unanswered", "{call:?}");
        account.crash();
        assert_eq!(account.look().await, "True", "{call:?}");
        let name = account.named();
        account.crash();
        assert_eq!((account.look().await, account.named()), ("True", name.clone()));
        let all = account.cloud.profiles_now();
        assert_eq!((all.len(), all[&name].roles.as_slice()), (1, ["node".to_owned()].as_slice()));
        assert_eq!(all[&name].path, format!("/karpenter/{REGION}/{CLUSTER}/class-uid/"));
        assert_eq!(all[&name].tags[labels::TAG_CLUSTER_UID], "uid");
    }
}

/// A path in `spec.role` does not change the role: the profile remains.
#[tokio::test]
async fn a_path_is_no_difference() {
    let mut account = FakeAccount::new();
    account.class.spec.role = Some("/teams/a/node".to_owned());
    for minutes in [0, 1, 16, 32] {
        account.now = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes);
        assert_eq!(account.look().await, "True");
    }
    assert_eq!(account.cloud.count("CreateInstanceProfile"), 1);
    account.class.spec.role = Some("node".to_owned());
    assert_eq!(account.look().await, "True");
    assert_eq!(account.cloud.profiles_now().len(), 1);
}

/// A profile that Karpenter created is kept while it has the role. Another role gets its own profile, and the old one remains for the
/// instances that use it.
#[tokio::test]
async fn karpenters_profile_is_adopted() {
    let mut account = FakeAccount::new();
    let theirs = ProfileInfo {
        name: "test-cluster_123".to_owned(),
        path: format!("/karpenter/{REGION}/{CLUSTER}/class-uid/"),
        roles: vec!["node".to_owned()],
        ..ProfileInfo::default()
    };
    account.cloud.adopt_profile(theirs.clone());
    account.class.status.as_mut().unwrap().instance_profile = theirs.name.clone();
    assert_eq!((account.look().await, account.named()), ("True", theirs.name.clone()));
    account.cloud.with(|inner| inner.roles.insert("new".to_owned()));
    account.class.spec.role = Some("new".to_owned());
    assert_eq!(account.look().await, "True");
    assert_ne!(account.named(), theirs.name);
    assert_eq!(account.cloud.profiles_now().len(), 2);
}

#[tokio::test]
async fn a_role_that_is_not_there_leaves_nothing_and_is_not_asked_for_at_once() {
    let mut account = FakeAccount::new();
    account.class.spec.role = Some("nobody".to_owned());
    assert_eq!((account.look().await, account.look().await), ("RoleNotFound", "RoleNotFound"));
    assert_eq!((account.cloud.count("AddRoleToInstanceProfile"), account.cloud.profiles_now().len()), (1, 0));
    account.cloud.with(|inner| inner.roles.insert("nobody".to_owned()));
    account.now += SignedDuration::from_secs(60);
    assert_eq!(account.look().await, "True");
}

/// IAM shows a new profile late: what it does not find is the profile, which is kept and gets its role at the next look.
#[tokio::test]
async fn a_profile_that_iam_does_not_show_yet_is_kept() {
    let mut account = FakeAccount::new();
    let late = AwsError::new("NoSuchEntity", "Instance Profile test-cluster_1 cannot be found.");
    account.cloud.inject(Call::AddRole, Fault::Refuse(late));
    assert_eq!(account.look().await, "Unanswered");
    assert_eq!(account.cloud.profiles_now().len(), 1);
    account.now += SignedDuration::from_secs(60);
    assert_eq!((account.look().await, account.cloud.count("CreateInstanceProfile")), ("True", 1));
}

#[tokio::test]
async fn a_foreign_profile_of_our_name_is_not_changed() {
    let mut account = FakeAccount::new();
    let who = Account { api: &account.cloud, settings: &account.settings, cluster_uid: "uid" };
    let name = profile_name(&who, "class-uid", "node");
    let tags = [(labels::TAG_CLUSTER_UID.to_owned(), "another".to_owned())].into();
    let theirs = ProfileInfo { name: name.clone(), path: "/".to_owned(), tags, ..ProfileInfo::default() };
    account.cloud.adopt_profile(theirs.clone());
    assert_eq!(account.look().await, "InstanceProfileNotOwned");
    assert_eq!(account.cloud.profiles_now()[&name], theirs);
}

/// The profile of older releases is shared by all clusters of a name: it is deleted only with the EC2NodeClass whose status names it.
#[tokio::test]
async fn legacy_profiles_are_deleted_with_the_class_that_names_them() {
    for named in [true, false] {
        let mut account = FakeAccount::new();
        let legacy = labels::legacy_profile_name(CLUSTER, REGION, "default");
        let tags = [(format!("{}{CLUSTER}", labels::TAG_CLUSTER_PREFIX), "owned".to_owned())].into();
        let profile = ProfileInfo {
            name: legacy.clone(),
            path: "/".to_owned(),
            roles: vec!["node".to_owned()],
            tags,
            ..ProfileInfo::default()
        };
        account.cloud.adopt_profile(profile);
        if named {
            account.class.status.as_mut().unwrap().instance_profile = legacy;
        }
        let who = Account { api: &account.cloud, settings: &account.settings, cluster_uid: "uid" };
        delete_all(&who, &account.class).await.unwrap();
        assert_eq!(account.cloud.profiles_now().is_empty(), named);
    }
}

//! What is cleared away: launch templates and instance profiles that nothing uses, by proof of ownership; and what is told of
//! another cluster that has our name.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use fleetwright_aws_api::labels;
use fleetwright_core::cloud::{CloudError, Figure, Notice, Object, Outlook, ProviderStep, Round};
use fleetwright_core::model::ProviderId;
use futures::lock::Mutex;
use jiff::Timestamp;

use super::super::template_use::UNUSED_FOR;
use super::super::{AwsProvider, instance_id};
use crate::calls::{Filter, LaunchTemplate, ProfileInfo};
use crate::figures;
use crate::foreign::{ResourceType, namesake, unowned};
use crate::nodeclass::profile::{self, Account};
use crate::tags::{Ownership, ownership};

/// How often launch templates are looked through.
const TEMPLATES_EVERY: Duration = Duration::from_secs(300);
/// Most templates that one round deletes.
const DELETED_MAX: usize = 50;
/// When what IAM refuses is tried again.
const DENIED_AGAIN: Duration = Duration::from_secs(600);

/// Deletes launch templates that no launch has used for a while.
pub(super) struct Templates {
    provider: AwsProvider,
    /// When this process began to observe: earlier uses are unknown.
    since: Mutex<Option<Timestamp>>,
}

impl Templates {
    pub(super) fn new(provider: AwsProvider) -> Self {
        Self { provider, since: Mutex::default() }
    }

    fn is_unused(&self, template: &LaunchTemplate, since: Timestamp, now: Timestamp) -> bool {
        let used = self.provider.templates.last_use(&template.name);
        // A last use in the future was recorded before the clock was set back, so its age is unknown.
        let last = [Some(since), used, template.created].into_iter().flatten().map(|at| at.min(now)).max();
        let last = last.unwrap_or(now);
        now.duration_since(last) >= UNUSED_FOR
    }
}

#[async_trait]
impl ProviderStep for Templates {
    fn name(&self) -> &'static str {
        "launchtemplate.garbagecollection"
    }

    async fn run(&self, outlook: &Outlook) -> Result<Round, CloudError> {
        let provider = &self.provider;
        let uid = provider.may_mutate()?;
        let since = *self.since.lock().await.get_or_insert(outlook.now);
        let cluster = &provider.settings.cluster_name;
        let filter = Filter::new(format!("tag:{}", labels::TAG_CLUSTER_NAME), [&**cluster]);
        let all = provider.api.launch_templates(&[filter]).await;
        let all = all.map_err(|error| error.to_cloud_error("ec2:DescribeLaunchTemplates"))?;
        let mut round = Round::quiet(TEMPLATES_EVERY);
        let others =
            all.iter().filter_map(|template| namesake(&template.name, &template.tags, cluster, &uid));
        provider.unowned().foreign.replace(ResourceType::LaunchTemplate, others);
        provider.templates.retain_listed(&all, outlook.now);
        let ours: Vec<&LaunchTemplate> = all
            .iter()
            .filter(|template| ownership(&template.tags, cluster, &uid) == Ownership::Ours)
            .collect();
        let unused = ours.iter().filter(|template| self.is_unused(template, since, outlook.now));
        for template in unused.take(DELETED_MAX) {
            // Forgotten first: a concurrent launch creates it again.
            provider.templates.forget(&template.name);
            let answer = match provider.api.delete_launch_template(&template.name).await {
                Err(error) if error.is_not_found() => Ok(()),
                answer => answer,
            };
            if let Err(notices) =
                provider.problems.permitted("ec2:DeleteLaunchTemplate", answer, outlook.now)?
            {
                return Ok(Round::quiet(DENIED_AGAIN).with_notices(notices));
            }
        }
        if ours.len() > DELETED_MAX {
            round.again = TEMPLATES_EVERY / 5;
        }
        Ok(round)
    }
}

/// Deletes instance profiles that no class and no NodeClaim uses.
pub(super) struct Profiles {
    provider: AwsProvider,
    unused_since: Mutex<profile::UnusedSince>,
}

impl Profiles {
    pub(super) fn new(provider: AwsProvider) -> Self {
        Self { provider, unused_since: Mutex::default() }
    }

    /// Events about profiles below the cluster's path that have no UID and that no class of ours created.
    fn unstamped(&self, foreign: &[ProfileInfo]) -> Vec<Notice> {
        let unstamped = |known: &&ProfileInfo| !known.tags.contains_key(labels::TAG_CLUSTER_UID);
        let names: Vec<&str> = foreign.iter().filter(unstamped).map(|known| known.name.as_str()).collect();
        if names.is_empty() {
            return Vec::new();
        }
        let message = format!(
            "{} instance profiles below the cluster's path have no owner ({}) and are not changed",
            names.len(),
            names[..names.len().min(3)].join(", ")
        );
        self.provider.problems.notices("UnownedInstanceProfiles", &message)
    }
}

#[async_trait]
impl ProviderStep for Profiles {
    fn name(&self) -> &'static str {
        "instanceprofile.garbagecollection"
    }

    async fn run(&self, outlook: &Outlook) -> Result<Round, CloudError> {
        let uid = self.provider.may_mutate()?;
        let Ok(classes) = self.provider.classes.all() else {
            return Ok(Round::quiet(Duration::from_secs(1)));
        };
        let class_uids: BTreeSet<String> =
            classes.values().filter_map(|known| known.class.metadata.uid.clone()).collect();
        let of_claims = outlook.nodes.iter().filter_map(|(claim, _)| {
            claim.annotations.get(labels::INSTANCE_PROFILE_NAME).map(ToString::to_string)
        });
        let of_classes = classes.values().filter_map(|known| {
            let status = known.class.status.as_ref()?;
            (!status.instance_profile.is_empty()).then(|| status.instance_profile.clone())
        });
        let used: BTreeSet<String> = of_claims.chain(of_classes).collect();
        let account =
            Account { api: &*self.provider.api, settings: &self.provider.settings, cluster_uid: &uid };
        let mut unused_since = self.unused_since.lock().await;
        let answer = profile::collect(&account, &class_uids, &used, &mut unused_since, outlook.now).await;
        let answer = self.provider.problems.permitted("iam:ListInstanceProfiles", answer, outlook.now)?;
        let notices = match answer {
            Err(notices) => notices,
            Ok(collected) => {
                // The path has our name, whatever other tags the profiles have.
                let others = collected.foreign.iter().filter_map(|known| {
                    Some((known.name.clone(), known.tags.get(labels::TAG_CLUSTER_UID)?.clone()))
                });
                self.provider.unowned().foreign.replace(ResourceType::InstanceProfile, others);
                let mut notices = self.unstamped(&collected.foreign);
                for (action, answer) in collected.answers {
                    // A profile that could not be deleted is retried in the next round, and the error is reported until then.
                    if let Ok(Err(refused)) = self.provider.problems.permitted(action, answer, outlook.now) {
                        notices.extend(refused);
                    }
                }
                notices
            }
        };
        Ok(Round::quiet(profile::COLLECT_EVERY).with_notices(notices))
    }
}

/// Reports resources of another cluster with our name, and instances without an owner.
pub(super) struct Foreigners(pub(super) AwsProvider);

impl Foreigners {
    /// Instances of our name without a UID that no NodeClaim names: they are counted and reported, never terminated.
    fn unowned(&self, outlook: &Outlook) -> (usize, Vec<Notice>) {
        let claimed: BTreeSet<ProviderId> =
            outlook.nodes.iter().filter_map(|(claim, _)| claim.provider_id.clone()).collect();
        let unstamped = self.0.unowned().unstamped.clone();
        let found = unowned(&unstamped, &claimed, outlook.now);
        if found.is_empty() {
            return (0, Vec::new());
        }
        let some: Vec<&str> = found.iter().take(3).filter_map(|found| instance_id(&found.id)).collect();
        let more = if found.len() > some.len() { ", ..." } else { "" };
        let message = format!(
            "{} instances carry the name {} and no UID, and no NodeClaim names them ({}{more}); they are not terminated: \
             terminate them manually if they are not needed",
            found.len(),
            self.0.settings.cluster_name,
            some.join(", ")
        );
        (found.len(), self.0.problems.notices("UnownedInstances", &message))
    }
}

#[async_trait]
impl ProviderStep for Foreigners {
    fn name(&self) -> &'static str {
        "ownership"
    }

    async fn run(&self, outlook: &Outlook) -> Result<Round, CloudError> {
        let foreign = self.0.foreign();
        let (count, mut notices) = self.unowned(outlook);
        for (reason, message) in foreign.messages(&self.0.settings.cluster_name) {
            let pools = outlook.pools.iter().map(|pool| Object::NodePool(pool.name.clone()));
            let per_pool = pools.map(|pool| Notice::warning(pool, reason, message.as_str()));
            notices.extend(per_pool.take(5));
        }
        let gauge = |count: usize| Some(f64::from(u32::try_from(count).unwrap_or(u32::MAX)));
        let of = |resource: ResourceType| {
            Figure::new(&figures::FOREIGN, vec![resource.as_str().into()], gauge(foreign.count(resource)))
        };
        let mut shown: Vec<Figure> = ResourceType::ALL.map(of).into();
        shown.push(Figure::new(&figures::UNOWNED, Vec::new(), gauge(count)));
        Ok(Round::quiet(TEMPLATES_EVERY).with_notices(notices).with_figures(shown))
    }
}

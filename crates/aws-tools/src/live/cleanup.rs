//! Removing what trials created, by its tags.

use std::time::Duration;

use fleetwright_aws::calls::{AwsApi, AwsError, Filter, InstanceInfo, TagSet};
use fleetwright_aws::nodeclass::profile::cluster_path;
use fleetwright_aws::{Settings, SharedClock};
use fleetwright_aws_api::labels;
use jiff::{SignedDuration, Timestamp};

use super::UID_PREFIX;

/// How long nothing more may be found until a sweep is over: EC2 may show an instance seconds after its launch, and the call of a process that was
/// killed may still be launching. The provider waits as long before it takes a lost launch for one that made nothing.
const QUIET: SignedDuration = SignedDuration::from_secs(60);
/// Time between two looks.
const PAUSE: Duration = Duration::from_secs(5);
/// After this time a sweep reports the last refusal.
const GIVE_UP: SignedDuration = SignedDuration::from_mins(15);

/// When the trial that created a resource expires; `None` for what no trial created.
fn expiry(tags: &TagSet) -> Option<Timestamp> {
    let second = tags.get(labels::TAG_CLUSTER_UID)?.strip_prefix(UID_PREFIX)?.parse().ok()?;
    Timestamp::from_second(second).ok()
}

/// Terminates and removes once what trials created whose expiry is `chosen`, and returns its names. Nothing else is touched.
///
/// # Errors
/// The first refusal; the next call continues.
pub async fn clean(
    api: &dyn AwsApi,
    settings: &Settings,
    chosen: impl Fn(Timestamp) -> bool,
) -> Result<Vec<String>, AwsError> {
    let is_chosen = |tags: &TagSet| expiry(tags).is_some_and(&chosen);
    let of_cluster = [Filter::new(format!("tag:{}", labels::TAG_CLUSTER_NAME), [&*settings.cluster_name])];
    let mut gone = Vec::new();
    let instances = api.instances(&[], &of_cluster).await?;
    let ending = |own: &InstanceInfo| own.state == "shutting-down";
    let ids: Vec<String> =
        instances.into_iter().filter(|own| is_chosen(&own.tags) && !ending(own)).map(|own| own.id).collect();
    if !ids.is_empty() {
        api.terminate(&ids).await?;
        gone.extend(ids);
    }
    for template in api.launch_templates(&of_cluster).await? {
        if is_chosen(&template.tags) {
            api.delete_launch_template(&template.name).await?;
            gone.push(template.name);
        }
    }
    for listed in api.profiles(&cluster_path(settings)).await? {
        // The list has no tags.
        let profile = match api.profile(&listed.name).await {
            Ok(profile) => profile,
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error),
        };
        if is_chosen(&profile.tags) {
            for role in &profile.roles {
                api.remove_role(&profile.name, role).await?;
            }
            api.delete_profile(&profile.name).await?;
            gone.push(profile.name);
        }
    }
    Ok(gone)
}

/// Repeats [`clean`] until it has found nothing for a minute, and hands the names of what is gone to `say`. A refused pass is repeated.
///
/// # Errors
/// The last refusal, if there was no quiet minute in a quarter of an hour.
pub async fn sweep(
    api: &dyn AwsApi,
    clock: &SharedClock,
    settings: &Settings,
    chosen: impl Fn(Timestamp) -> bool,
    mut say: impl FnMut(&str),
) -> Result<(), AwsError> {
    let began = clock.now();
    let mut quiet_since = began;
    let mut refusal = AwsError::new("TrialCleanup", "there is always more to remove");
    while clock.now().duration_since(began) < GIVE_UP {
        match clean(api, settings, &chosen).await {
            Ok(gone) if gone.is_empty() && clock.now().duration_since(quiet_since) >= QUIET => return Ok(()),
            Ok(gone) if gone.is_empty() => {}
            Ok(gone) => {
                gone.iter().for_each(|name| say(name));
                quiet_since = clock.now();
            }
            Err(error) => (refusal, quiet_since) = (error, clock.now()),
        }
        clock.sleep(PAUSE).await;
    }
    Err(refusal)
}

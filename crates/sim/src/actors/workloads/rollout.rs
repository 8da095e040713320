//! The arithmetic of a rollout: sizes of ReplicaSets within `maxSurge` and `maxUnavailable`, and the status. Pure.

use std::sync::Arc;

use k8s_openapi::{
    api::apps::v1::{Deployment, DeploymentCondition, DeploymentSpec, DeploymentStatus, ReplicaSet},
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::portion;

/// A Deployment with its ReplicaSets.
pub(super) struct DeploymentState {
    /// The Deployment.
    pub(super) deployment: Arc<Deployment>,
    /// Its specification.
    pub(super) spec: DeploymentSpec,
    /// The ReplicaSet of the current template.
    pub(super) new: Option<Arc<ReplicaSet>>,
    /// The others, oldest first.
    pub(super) old: Vec<Arc<ReplicaSet>>,
}

impl DeploymentState {
    /// All ReplicaSets.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.old.iter().chain(&self.new)
    }
}

/// The desired number of pods.
pub(super) fn wanted(family: &DeploymentState) -> i32 {
    family.spec.replicas.unwrap_or(1).max(0)
}

fn size(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0)
}

fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

/// `maxSurge` and `maxUnavailable` as numbers; if both are zero, one pod may be unavailable.
fn bounds(family: &DeploymentState) -> (i32, i32) {
    let rolling = family.spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
    let wanted = wanted(family);
    let quarter = |up: bool| portion(Some(&quarter_text()), wanted, up, 0);
    let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref());
    let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
    let surge = portion(surge, wanted, true, quarter(true)).max(0);
    let unavailable = portion(unavailable, wanted, false, quarter(false)).clamp(0, wanted);
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

fn quarter_text() -> k8s_openapi::apimachinery::pkg::util::intstr::IntOrString {
    k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String("25%".to_owned())
}

fn total(family: &DeploymentState) -> i32 {
    family.all().map(|set| size(set)).fold(0, i32::saturating_add)
}

/// The initial size of the new ReplicaSet.
pub(super) fn initial_size(family: &DeploymentState) -> i32 {
    let recreate =
        family.spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate");
    if recreate { wanted(family) } else { size_of_new(family) }
}

/// The target size of the new ReplicaSet.
pub(super) fn size_of_new(family: &DeploymentState) -> i32 {
    let wanted = wanted(family);
    let own = family.new.as_ref().map_or(0, |set| size(set));
    if own >= wanted {
        return wanted;
    }
    let (surge, _) = bounds(family);
    let room = wanted.saturating_add(surge).saturating_sub(total(family)).max(0);
    own.saturating_add(room.min(wanted.saturating_sub(own)))
}

/// The target sizes of the old ReplicaSets: unavailable pods are removed first, then others as far as enough stay available.
pub(super) fn sizes_of_old(family: &DeploymentState) -> Vec<(Arc<ReplicaSet>, i32)> {
    let (_, unavailable) = bounds(family);
    let least = wanted(family).saturating_sub(unavailable);
    let missing = family.new.as_ref().map_or(0, |set| size(set).saturating_sub(available(set)));
    let mut room = total(family).saturating_sub(least).saturating_sub(missing).max(0);
    let mut sizes: Vec<(Arc<ReplicaSet>, i32)> =
        family.old.iter().map(|set| (set.clone(), size(set))).collect();
    for (set, size) in &mut sizes {
        let give = size.saturating_sub(available(set)).clamp(0, room);
        *size = size.saturating_sub(give);
        room = room.saturating_sub(give);
    }
    let all_available = family.all().map(|set| available(set)).fold(0, i32::saturating_add);
    let mut spare = all_available.saturating_sub(least).clamp(0, room);
    for (_, size) in &mut sizes {
        let give = spare.min(*size);
        *size = size.saturating_sub(give);
        spare = spare.saturating_sub(give);
    }
    sizes.retain(|(set, new)| size(set) != *new);
    sizes
}

/// The status of a Deployment.
pub(super) fn status(family: &DeploymentState, now: Time) -> DeploymentStatus {
    let sum = |of: &dyn Fn(&ReplicaSet) -> i32| family.all().map(|set| of(set)).fold(0, i32::saturating_add);
    let replicas = sum(&|set| set.status.as_ref().map_or(0, |status| status.replicas));
    let ready = sum(&|set| set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0));
    let all_available = sum(&|set| available(set));
    let updated = family.new.as_ref().and_then(|set| set.status.as_ref()).map_or(0, |status| status.replicas);
    let missing = total(family).saturating_sub(all_available).max(0);
    let (wanted, (_, unavailable)) = (wanted(family), bounds(family));
    let enough = all_available >= wanted.saturating_sub(unavailable);
    let done = updated == wanted && replicas == wanted && all_available == wanted;
    let known = family.deployment.status.clone().unwrap_or_default();
    let name = family.new.as_ref().and_then(|set| set.metadata.name.clone()).unwrap_or_default();
    let judged = [
        if enough {
            ("Available", true, "MinimumReplicasAvailable", "Deployment has minimum availability.".to_owned())
        } else {
            let text = "Deployment does not have minimum availability.".to_owned();
            ("Available", false, "MinimumReplicasUnavailable", text)
        },
        if done {
            let text = format!("ReplicaSet {name:?} has successfully progressed.");
            ("Progressing", true, "NewReplicaSetAvailable", text)
        } else {
            ("Progressing", true, "ReplicaSetUpdated", format!("ReplicaSet {name:?} is progressing."))
        },
    ];
    let before = known.conditions.as_deref().unwrap_or_default();
    let some = |number: i32| (number != 0).then_some(number);
    DeploymentStatus {
        observed_generation: family.deployment.metadata.generation,
        replicas: Some(replicas),
        updated_replicas: Some(updated),
        ready_replicas: Some(ready),
        available_replicas: Some(all_available),
        unavailable_replicas: some(missing).or(Some(0)),
        conditions: Some(judged.into_iter().map(|verdict| condition(before, verdict, &now)).collect()),
        collision_count: known.collision_count,
        ..DeploymentStatus::default()
    }
}

/// A condition that keeps its times if nothing changed.
fn condition(
    before: &[DeploymentCondition],
    (name, holds, reason, message): (&str, bool, &str, String),
    now: &Time,
) -> DeploymentCondition {
    let status = if holds { "True" } else { "False" };
    let known = before.iter().find(|condition| condition.type_ == name);
    let same_status = known.filter(|known| known.status == status);
    let same = same_status.filter(|known| known.reason.as_deref() == Some(reason));
    DeploymentCondition {
        type_: name.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: same_status
            .map_or_else(|| Some(now.clone()), |known| known.last_transition_time.clone()),
        last_update_time: same.map_or_else(|| Some(now.clone()), |known| known.last_update_time.clone()),
    }
}

/// Whether a status has changed. Zero equals absent.
pub(super) fn differs(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let known = deployment.status.clone().unwrap_or_default();
    let number = |value: Option<i32>| value.unwrap_or(0);
    known.observed_generation != status.observed_generation
        || number(known.replicas) != number(status.replicas)
        || number(known.updated_replicas) != number(status.updated_replicas)
        || number(known.ready_replicas) != number(status.ready_replicas)
        || number(known.available_replicas) != number(status.available_replicas)
        || number(known.unavailable_replicas) != number(status.unavailable_replicas)
        || known.conditions != status.conditions
}

#[cfg(test)]
mod tests {
    //! Sizes within bounds, step by step.
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    /// Sizes and available pods of the ReplicaSets, the new one last.
    fn family(wanted: i32, surge: &str, unavailable: &str, sets: &[(i32, i32)]) -> DeploymentState {
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": { "name": "d" },
            "spec": {
                "replicas": wanted, "selector": {}, "template": {},
                "strategy": { "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable } },
            },
        }))
        .unwrap();
        let set = |(at, (size, available)): (usize, &(i32, i32))| -> Arc<ReplicaSet> {
            let set = json!({
                "metadata": { "name": at.to_string() },
                "spec": { "replicas": size, "selector": {} },
                "status": { "replicas": size, "availableReplicas": available },
            });
            Arc::new(serde_json::from_value(set).unwrap())
        };
        let mut old: Vec<Arc<ReplicaSet>> = sets.iter().enumerate().map(set).collect();
        let new = old.pop();
        let spec = deployment.spec.clone().unwrap();
        DeploymentState { deployment: Arc::new(deployment), spec, new, old }
    }

    #[rstest]
    #[case::first_surge(4, "25%", "0%", &[(4, 4), (0, 0)], 1, &[])]
    #[case::wait_for_the_surge(4, "25%", "0%", &[(4, 4), (1, 0)], 1, &[])]
    #[case::old_ones_that_are_not_available_stay_while_new_ones_are_not(4, "25%", "0%", &[(4, 3), (1, 0)], 1, &[])]
    #[case::swap(4, "25%", "0%", &[(4, 4), (1, 1)], 1, &[3])]
    #[case::next(4, "25%", "0%", &[(3, 3), (1, 1)], 2, &[])]
    #[case::unavailable_allowed(4, "0%", "50%", &[(4, 4), (0, 0)], 0, &[2])]
    #[case::broken_old_ones_first(4, "0%", "50%", &[(2, 1), (2, 2), (0, 0)], 0, &[0])]
    #[case::neither_allowed_means_one_unavailable(4, "0%", "0%", &[(4, 4), (0, 0)], 0, &[3])]
    #[case::surge_rounds_up(3, "10%", "0%", &[(3, 3), (0, 0)], 1, &[])]
    #[case::scaled_down(2, "25%", "25%", &[(4, 4)], 2, &[])]
    fn sizes(
        #[case] wanted: i32,
        #[case] surge: &str,
        #[case] unavailable: &str,
        #[case] sets: &[(i32, i32)],
        #[case] new: i32,
        #[case] old: &[i32],
    ) {
        let family = family(wanted, surge, unavailable, sets);
        assert_eq!(size_of_new(&family), new);
        let sizes: Vec<i32> = sizes_of_old(&family).into_iter().map(|(_, size)| size).collect();
        assert_eq!(sizes, old);
    }
}

//! One EC2NodeClass: results of selectors, conditions, hashes, finalizer and deletion.
//!
//! Each part of an EC2NodeClass is looked up at its own interval, and a failed look-up degrades its own condition only. Results are kept
//! until the API server has them, so that a rejected write loses nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fleetwright_aws_api::ec2nodeclass::{Ec2NodeClassStatus, condition};
use fleetwright_aws_api::{Condition, Ec2NodeClass, labels};
use fleetwright_core::cloud::{Identity, Notice, Object, Outlook, Round, Write};
use fleetwright_core::model::{Labels, NodeClaim, Str};
use fleetwright_core::nodeclaim::pool_hash::keeps_hash;
use jiff::{SignedDuration, Timestamp};

use super::super::classes::object;
use super::super::dry_run::{DryRun, LAUNCH_REFUSED};
use super::super::{AwsProvider, KnownClass};
use crate::calls::Filter;
use crate::digest::digest;
use crate::drift;
use crate::images;
use crate::instancetype::{self, ClassView};
use crate::lists::first_names;
use crate::nodeclass::cadence::{Cadence, ClassLookup};
use crate::nodeclass::profile::{self, Account};
use crate::nodeclass::{ConditionOutcome, ConditionResult, conditions, lookups, placement, reservations};
use crate::nodeclass::{images as found_images, security_groups, subnets, validate};
use crate::recent::is_recent;
use crate::tags::{Ownership, ownership};

/// The longest interval between two reconciles of a class.
pub(super) const AT_LEAST: Duration = Duration::from_secs(30);
/// The delay after a write before it is compared with the stored object.
const WRITTEN: Duration = Duration::from_secs(5);
/// The interval of events about an EC2NodeClass that waits for its NodeClaims.
const WARN_EVERY: SignedDuration = SignedDuration::from_mins(10);
/// How long the result of a dry run is valid.
const TRIED_FOR: SignedDuration = SignedDuration::from_mins(30);
/// The delay before a missing resource is looked up again.
const MISSING_AGAIN: Duration = Duration::from_secs(60);
/// Most NodeClaims whose hash one round updates.
const STAMPED_MAX: usize = 500;

/// Reconciles an EC2NodeClass.
pub(super) struct ClassReconciler {
    provider: AwsProvider,
    profiles: profile::ProfileMemory,
}

/// What is remembered of an EC2NodeClass.
#[derive(Default)]
pub(super) struct ClassMemory {
    cadence: Cadence,
    /// The desired status, and the generation that it is of.
    desired: Option<(i64, Ec2NodeClassStatus)>,
    /// A successful dry run: the inputs, the time, and the finding.
    tried: Option<(String, Timestamp, ConditionResult)>,
    warned_at: Option<Timestamp>,
}

/// The NodeClaims of an EC2NodeClass.
fn claims_of<'a>(outlook: &'a Outlook, name: &'a str) -> impl Iterator<Item = &'a Arc<NodeClaim>> {
    let of_class = move |claim: &&Arc<NodeClaim>| {
        *claim.class.name == *name && *claim.class.kind == *labels::NODE_CLASS_KIND
    };
    outlook.nodes.iter().map(|(claim, _)| claim).filter(of_class)
}

impl ClassReconciler {
    pub(super) fn new(provider: AwsProvider) -> Self {
        Self { provider, profiles: profile::ProfileMemory::default() }
    }

    fn account<'a>(&'a self, uid: &'a str) -> Account<'a> {
        Account { api: &*self.provider.api, settings: &self.provider.settings, cluster_uid: uid }
    }

    /// Reconciles one EC2NodeClass.
    pub(super) async fn reconcile(
        &self,
        class: &Ec2NodeClass,
        outlook: &Outlook,
        cluster_uid: &str,
        memory: &mut ClassMemory,
    ) -> Round {
        let mut round = Round::quiet(AT_LEAST);
        if class.metadata.deletion_timestamp.is_some() {
            self.finalize(class, outlook, cluster_uid, memory, &mut round).await;
            return round;
        }
        let ca_bundle = &self.provider.settings.ca_bundle;
        let hash = class.drift_hash(ca_bundle);
        // A class keeps its older hash until it was compared with those of all its NodeClaims.
        let migrated =
            migrate_claims(class, outlook, (&hash, drift::stored_hash(class, ca_bundle)), &mut round);
        let mut write = stamp(class, migrated.then_some(&*hash));
        let generation = class.metadata.generation.unwrap_or(0);
        let mut next = class.clone();
        if let Some((_, status)) = memory.desired.as_ref().filter(|(of, _)| *of == generation) {
            next.status = Some(status.clone());
        }
        let reserved = self.provider.settings.reserved_capacity;
        let due = memory.cadence.due(generation, outlook.now);
        for part in due.into_iter().filter(|part| reserved || *part != ClassLookup::Reservations) {
            let (finding, again) = self.part(part, &mut next, outlook, cluster_uid, memory).await;
            if let Some(notice) = warned(&next, &finding) {
                round.notices.push(notice);
            }
            memory.cadence.again(part, again, outlook.now);
            conditions::apply(&mut next, &[finding], &self.provider.settings, outlook.now);
        }
        let identity: Option<ConditionResult> = self.provider.cluster.identity().as_ref().map(identity);
        let has_features = conditions::is_there(&next, condition::FEATURES_AVAILABLE);
        let of_all = self.provider.problems.finding(outlook.now, has_features);
        let of_provider: Vec<ConditionResult> = identity.into_iter().chain(of_all).collect();
        conditions::apply(&mut next, &of_provider, &self.provider.settings, outlook.now);
        let status = next.status.clone().unwrap_or_default();
        if let Some(patch) = status_patch(class.status.as_ref(), &status) {
            write.version = class.metadata.resource_version.as_deref().map(Str::from);
            write.status = Some(patch.into());
            round.notices.extend(transitions(class, &next));
        }
        // One write: the version of a second one would be outdated by the first.
        if !write.is_empty() {
            round.writes.push(write);
            round.again = WRITTEN;
        }
        memory.desired = Some((generation, status));
        round.again = memory.cadence.next(outlook.now, round.again);
        round
    }

    /// If EKS knows another cluster by our name, the conditions report it and nothing else is done.
    pub(super) fn mismatched(
        &self,
        all: &BTreeMap<Str, Arc<KnownClass>>,
        why: &Str,
        now: Timestamp,
    ) -> Round {
        let mut round = Round::quiet(AT_LEAST);
        for known in all.values().filter(|known| known.class.metadata.deletion_timestamp.is_none()) {
            let class = &known.class;
            let mut next = class.clone();
            let of_identity = identity(&Identity::Mismatch(why.clone()));
            let of_class =
                ConditionResult { condition: condition::VALIDATION_SUCCEEDED, ..of_identity.clone() };
            conditions::apply(&mut next, &[of_identity, of_class], &self.provider.settings, now);
            let status = next.status.clone().unwrap_or_default();
            if let Some(patch) = status_patch(class.status.as_ref(), &status) {
                let version = class.metadata.resource_version.as_deref().map(Str::from);
                round.writes.push(Write::to(object(class)).at_version(version).with_status(patch));
                round.notices.extend(transitions(class, &next));
            }
        }
        round
    }

    /// Looks up one part: returns the finding and the delay until the next look-up.
    async fn part(
        &self,
        part: ClassLookup,
        class: &mut Ec2NodeClass,
        outlook: &Outlook,
        cluster_uid: &str,
        memory: &mut ClassMemory,
    ) -> (ConditionResult, Duration) {
        let (provider, now) = (&self.provider, outlook.now);
        let every = part.every(&provider.settings);
        let api = &*provider.api;
        let spec = class.spec.clone();
        let finding = match part {
            ClassLookup::Subnets => {
                let found = lookups::subnets(api, &spec).await;
                if let Ok(found) = &found {
                    let free_addresses_by_subnet =
                        found.iter().map(|subnet| (subnet.id.clone(), subnet.free_addresses));
                    provider.refresh_addresses(free_addresses_by_subnet);
                }
                subnets(found, class.status.get_or_insert_default())
            }
            ClassLookup::SecurityGroups => {
                let found = lookups::security_groups(api, &spec).await;
                security_groups(found, class.status.get_or_insert_default())
            }
            ClassLookup::Images => match provider.cluster.kubernetes_version() {
                Some(version) => {
                    let lookup = images::Lookup { api, parameters: &provider.parameters, now };
                    let found = images::resolve(lookup, &spec, &version).await;
                    found_images(found, class.status.get_or_insert_default())
                }
                None => ConditionResult {
                    condition: condition::AMIS_READY,
                    outcome: ConditionOutcome::Waiting {
                        reason: "KubernetesVersionUnknown",
                        message: "the version of the control plane is not known yet".to_owned(),
                    },
                },
            },
            ClassLookup::Reservations => {
                let found = lookups::reservations(api, &spec).await;
                let scheduled = provider.catalogs.set_reservations(class, &found, now);
                let status = class.status.get_or_insert_default();
                let finding = reservations::reservations(&found, status, now);
                let again = reservations::again(status, &scheduled, every, now);
                return (finding, again);
            }
            ClassLookup::PlacementGroup => return self.placement_group(class, now).await,
            ClassLookup::InstanceProfile => {
                let account = self.account(cluster_uid);
                let finding = profile::reconcile(&account, class, &self.profiles, now).await;
                let again = profile::again(&finding, every);
                return (finding, again);
            }
            ClassLookup::Validation => return self.validation(class, outlook, cluster_uid, memory).await,
        };
        let again = match &finding.outcome {
            ConditionOutcome::Unanswered { after, .. } => *after,
            ConditionOutcome::True | ConditionOutcome::Limited { .. } => every,
            ConditionOutcome::False { .. } => every.min(MISSING_AGAIN),
            ConditionOutcome::Waiting { .. } => WRITTEN,
        };
        (finding, again)
    }

    async fn placement_group(&self, class: &Ec2NodeClass, now: Timestamp) -> (ConditionResult, Duration) {
        let selector = class.spec.placement_group_selector.as_ref();
        let name = class.metadata.name.clone().unwrap_or_default();
        let found = match selector {
            Some(selector) => lookups::placement_group(&*self.provider.api, selector).await,
            None => Ok(None),
        };
        let finding = self.provider.catalogs.resolve_group(name, selector, found, now);
        let again = placement::again(&finding, ClassLookup::PlacementGroup.every(&self.provider.settings));
        (finding, again)
    }

    /// Checks the spec, then the other conditions, then expressions on every type, then runs dry runs.
    async fn validation(
        &self,
        class: &Ec2NodeClass,
        outlook: &Outlook,
        cluster_uid: &str,
        memory: &mut ClassMemory,
    ) -> (ConditionResult, Duration) {
        let every = ClassLookup::Validation.every(&self.provider.settings);
        let of_spec = validate(&class.spec, &self.provider.settings);
        if !matches!(of_spec.outcome, ConditionOutcome::True | ConditionOutcome::Limited { .. }) {
            return (of_spec, every);
        }
        if let Some(waiting) = dependencies(class) {
            return (waiting, WRITTEN);
        }
        if let Some(failed) = self.expressions(class) {
            return (failed, every);
        }
        let key = tried_by(class);
        // Findings about the spec come first, those about single types last.
        let both = |found: ConditionResult| {
            let said = [of_spec.clone(), found]
                .into_iter()
                .find(|finding| finding.outcome != ConditionOutcome::True);
            said.unwrap_or_else(|| self.of_types(class))
        };
        let lately = memory.tried.as_ref();
        let lately = lately.filter(|(known, at, _)| *known == key && is_recent(*at, outlook.now, TRIED_FOR));
        if let Some((.., found)) = lately {
            return (both(found.clone()), every);
        }
        let finding = DryRun(&self.provider).run(class, &outlook.pools, cluster_uid).await;
        let again = match &finding.outcome {
            // What EC2 refuses now it may accept soon.
            ConditionOutcome::Limited { reason: LAUNCH_REFUSED, .. } => {
                return (both(finding), MISSING_AGAIN);
            }
            ConditionOutcome::True | ConditionOutcome::Limited { .. } => {
                memory.tried = Some((key, outlook.now, finding.clone()));
                return (both(finding), every);
            }
            ConditionOutcome::Waiting { .. } => WRITTEN,
            ConditionOutcome::Unanswered { after, .. } => *after,
            // A corrected IAM policy or a new profile should take effect soon.
            _ => MISSING_AGAIN,
        };
        (finding, again)
    }

    /// Reports instance types that are left out of the catalogue, or that two images match equally. They are no error of the
    /// EC2NodeClass, and other types are launched.
    fn of_types(&self, class: &Ec2NodeClass) -> ConditionResult {
        const CONDITION: &str = condition::VALIDATION_SUCCEEDED;
        let catalog = self.provider.catalogs.of_draft(&class.clone().into());
        match catalog.problems.is_empty() {
            true => ConditionResult::good(CONDITION),
            false => {
                ConditionResult::limited(CONDITION, "InstanceTypesUnclear", first_names(&catalog.problems))
            }
        }
    }

    /// Evaluates kubelet expressions on every known type: an expression that fails for any type is an error here, before a node is
    /// launched with it.
    fn expressions(&self, class: &Ec2NodeClass) -> Option<ConditionResult> {
        let kubelet = class.spec.kubelet.as_ref()?.parse().ok()?;
        let status = class.status.clone().unwrap_or_default();
        let settings = &self.provider.settings;
        let view = ClassView { settings, spec: &class.spec, status: &status, kubelet: &kubelet, group: None };
        let known = self.provider.catalogs.instance_types();
        let mut problems = Vec::new();
        for info in known.types.values() {
            if let Err(error) = instancetype::resolve_kubelet(info, &view, &mut problems) {
                problems.push(error.to_string());
            }
            if let Some(first) = problems.into_iter().next() {
                let reason = "KubeletExpressionEvaluationFailed";
                return Some(ConditionResult::bad(condition::VALIDATION_SUCCEEDED, reason, first));
            }
            problems = Vec::new();
        }
        None
    }

    /// Finalizes a deleted EC2NodeClass once its NodeClaims are deleted, with the instance profiles and launch templates that were
    /// created for it.
    async fn finalize(
        &self,
        class: &Ec2NodeClass,
        outlook: &Outlook,
        cluster_uid: &str,
        memory: &mut ClassMemory,
        round: &mut Round,
    ) {
        let all = class.metadata.finalizers.clone().unwrap_or_default();
        if !all.iter().any(|name| name == labels::TERMINATION_FINALIZER) {
            return;
        }
        let name = class.metadata.name.clone().unwrap_or_default();
        let mut waiting: Vec<&str> = claims_of(outlook, &name).map(|claim| claim.name.as_str()).collect();
        if !waiting.is_empty() {
            let due = memory.warned_at.is_none_or(|at| !is_recent(at, outlook.now, WARN_EVERY));
            if due {
                memory.warned_at = Some(outlook.now);
                waiting.sort_unstable();
                let more = waiting.len().saturating_sub(5);
                waiting.truncate(5);
                let more = if more > 0 { format!(" and {more} other(s)") } else { String::new() };
                let message = format!("Waiting on NodeClaim termination for {}{more}", waiting.join(", "));
                round.notices.push(Notice::normal(object(class), "WaitingOnNodeClaimTermination", message));
            }
            round.again = WRITTEN;
            return;
        }
        if let Err((action, error)) = self.clean(class, &name, cluster_uid).await {
            let message = format!(
                "the launch templates and instance profiles of the class cannot be deleted, {action}: {}",
                error.code
            );
            round.notices.push(Notice::warning(object(class), "FailedCleanup", message));
            round.again = error.wait().max(WRITTEN);
            return;
        }
        let version = class.metadata.resource_version.as_deref().map(Str::from);
        let kept = all.iter().filter(|name| *name != labels::TERMINATION_FINALIZER);
        let finalizers = Some(kept.map(|name| Str::from(name.as_str())).collect());
        let mut write = Write::to(object(class)).at_version(version);
        write.finalizers = finalizers;
        round.writes.push(write);
        round.again = WRITTEN;
    }

    async fn clean(
        &self,
        class: &Ec2NodeClass,
        name: &str,
        cluster_uid: &str,
    ) -> Result<(), (&'static str, crate::calls::AwsError)> {
        let provider = &self.provider;
        let filters = [
            Filter::new(format!("tag:{}", labels::TAG_CLUSTER_UID), [cluster_uid]),
            Filter::new(format!("tag:{}", labels::NODE_CLASS), [name]),
        ];
        let templates = provider.api.launch_templates(&filters).await;
        for template in templates.map_err(|error| ("ec2:DescribeLaunchTemplates", error))? {
            // If a filter were ignored, this must not delete another cluster's template.
            let cluster = &provider.settings.cluster_name;
            if ownership(&template.tags, cluster, cluster_uid) != Ownership::Ours {
                continue;
            }
            match provider.api.delete_launch_template(&template.name).await {
                Err(error) if !error.is_not_found() => return Err(("ec2:DeleteLaunchTemplate", error)),
                _ => provider.templates.forget(&template.name),
            };
        }
        profile::delete_all(&self.account(cluster_uid), class).await
    }
}

/// The inputs of a dry run: everything but conditions and our own annotations.
fn tried_by(class: &Ec2NodeClass) -> String {
    let mut status = class.status.clone().unwrap_or_default();
    status.conditions.clear();
    let mut annotations = class.metadata.annotations.clone().unwrap_or_default();
    for own in [labels::HASH, labels::HASH_VERSION, labels::PRICES] {
        annotations.remove(own);
    }
    digest(&format!("{status:?}/{:?}/{annotations:?}", class.spec))
}

/// The conditions for which validation has to wait; `None` if all are True.
fn dependencies(class: &Ec2NodeClass) -> Option<ConditionResult> {
    const NEEDED: [&str; 4] = [
        condition::AMIS_READY,
        condition::INSTANCE_PROFILE_READY,
        condition::SECURITY_GROUPS_READY,
        condition::SUBNETS_READY,
    ];
    let known = class.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let is_false = |name: &&str| known.iter().any(|c| c.type_ == *name && c.is_false());
    let open: Vec<&str> = NEEDED.into_iter().filter(|name| !conditions::holds(class, name)).collect();
    if open.is_empty() {
        return None;
    }
    let reason = "DependenciesNotReady";
    let message = format!("waiting for {}", open.join(", "));
    let outcome = match open.iter().any(is_false) {
        true => ConditionOutcome::False { reason, message },
        false => ConditionOutcome::Waiting { reason, message },
    };
    Some(ConditionResult { condition: condition::VALIDATION_SUCCEEDED, outcome })
}

/// The finding about the cluster's identity. An unproven identity blocks nothing, and is reported.
fn identity(identity: &Identity) -> ConditionResult {
    const CONDITION: &str = condition::CLUSTER_IDENTITY_PROVEN;
    match identity {
        Identity::Proven => ConditionResult::good(CONDITION),
        Identity::Mismatch(why) => ConditionResult::bad(CONDITION, "ClusterMismatch", why.to_string()),
        Identity::Unproven(why) => {
            let (reason, message) = ("ClusterUnproven", why.to_string());
            ConditionResult { condition: CONDITION, outcome: ConditionOutcome::Waiting { reason, message } }
        }
        // This provider has no other.
        other => ConditionResult::bad(CONDITION, "ClusterMismatch", format!("{other:?}")),
    }
}

/// The warning event for a look-up that IAM denies, or for a limitation of a condition that is True.
fn warned(class: &Ec2NodeClass, finding: &ConditionResult) -> Option<Notice> {
    let (reason, message) = match &finding.outcome {
        ConditionOutcome::Unanswered { message, denied: true, .. } => (conditions::UNAUTHORIZED, message),
        ConditionOutcome::Limited { reason, message } => (*reason, message),
        _ => return None,
    };
    Some(Notice::warning(object(class), reason, message.as_str()))
}

/// An event for each condition whose status changes, in Karpenter's words.
fn transitions(before: &Ec2NodeClass, after: &Ec2NodeClass) -> Vec<Notice> {
    let transition = |(kind, was, now): (&'static str, &str, &Condition)| {
        let mut message = format!(
            "Status condition transitioned, Type: {kind}, Status: {was} -> {}, Reason: {}",
            now.status.as_str(),
            now.reason
        );
        if !now.message.is_empty() {
            message = format!("{message}, Message: {}", now.message);
        }
        Notice::normal(object(after), kind, message)
    };
    conditions::changed(before, after).into_iter().map(transition).collect()
}

/// Writes the finalizer and hash of an EC2NodeClass; `None` keeps its hash.
fn stamp(class: &Ec2NodeClass, hash: Option<&str>) -> Write {
    let mut write = Write::to(object(class));
    let finalizers = class.metadata.finalizers.clone().unwrap_or_default();
    if !finalizers.iter().any(|name| name == labels::TERMINATION_FINALIZER) {
        let all = finalizers.iter().map(String::as_str).chain([labels::TERMINATION_FINALIZER]);
        write.finalizers = Some(all.map(Str::from).collect());
        write.version = class.metadata.resource_version.as_deref().map(Str::from);
    }
    let known = class.metadata.annotations.clone().unwrap_or_default();
    let both = |hash| [(labels::HASH, hash), (labels::HASH_VERSION, labels::CURRENT_HASH_VERSION)];
    for (key, value) in hash.into_iter().flat_map(both) {
        if known.get(key).map(String::as_str) != Some(value) {
            write.annotations.insert(key.into(), Some(value.into()));
        }
    }
    write
}

/// Migrates NodeClaims whose hash has another version. `of_class` is the class's hash of the version of its annotation. Returns whether none
/// of them has a hash that can be compared with it.
fn migrate_claims(
    class: &Ec2NodeClass,
    outlook: &Outlook,
    (hash, of_class): (&str, Option<(String, String)>),
    round: &mut Round,
) -> bool {
    let name = class.metadata.name.as_deref().unwrap_or_default();
    let of_class = of_class.as_ref().map(|(hash, version)| (&**hash, &**version));
    let of_claim = |claim: &NodeClaim| -> Option<(Str, Str)> {
        Some((
            claim.annotations.get(labels::HASH)?.clone(),
            claim.annotations.get(labels::HASH_VERSION)?.clone(),
        ))
    };
    // A NodeClaim without an instance gets its hash at launch.
    let launched = claims_of(outlook, name).filter(|claim| claim.provider_id.is_some());
    let older: Vec<_> = launched
        .map(|claim| (claim, of_claim(claim)))
        .filter(|(_, stored)| stored.as_ref().is_none_or(|(_, of)| **of != *labels::CURRENT_HASH_VERSION))
        .collect();
    for (claim, stored) in older.iter().take(STAMPED_MAX) {
        let stored = stored.as_ref().map(|(hash, version)| (&**hash, &**version));
        let mut annotations = Labels::new();
        annotations.insert(labels::HASH_VERSION.into(), labels::CURRENT_HASH_VERSION.into());
        if !keeps_hash(claim, stored, of_class) {
            annotations.insert(labels::HASH.into(), hash.into());
        }
        round.writes.push(Write::to(Object::NodeClaim(claim.name.clone())).annotate(&annotations));
    }
    let comparable = |(_, stored): &(_, Option<(Str, Str)>)| {
        stored.as_ref().zip(of_class).is_some_and(|(claim, class)| *claim.1 == *class.1)
    };
    !older.iter().any(comparable)
}

/// The merge patch from one status to another; `None` if they are equal.
fn status_patch(old: Option<&Ec2NodeClassStatus>, new: &Ec2NodeClassStatus) -> Option<String> {
    let fields = |status: &Ec2NodeClassStatus| match serde_json::to_value(status) {
        Ok(serde_json::Value::Object(map)) => map,
        _ => serde_json::Map::new(),
    };
    let (old, new) = (old.map(fields).unwrap_or_default(), fields(new));
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let changed = keys.into_iter().filter(|key| old.get(*key) != new.get(*key));
    let patch: serde_json::Map<String, serde_json::Value> =
        changed.map(|key| (key.clone(), new.get(key).cloned().unwrap_or_default())).collect();
    (!patch.is_empty()).then(|| serde_json::Value::Object(patch).to_string())
}

//! Launch dry runs: whether IAM allows a class to launch. One launch of one ordinary instance type is tried; only denials, and errors in
//! the class itself, count against the class.

use std::sync::Arc;
use std::time::Duration;

use fleetwright_aws_api::ec2nodeclass::condition;
use fleetwright_aws_api::{Ec2NodeClass, Family, labels};
use fleetwright_core::cloud::LaunchError;
use fleetwright_core::model::{
    NodeClaim, NodeClassRef, NodePool, Offering, Requirement, Resources, labels::ON_DEMAND,
};

use super::templates::{content, ensure_templates, user_data};
use super::{AwsProvider, KnownClass, cluster::DESCRIBE};
use crate::calls::{AwsError, ErrorClass, FleetRequest, InstanceTrial, TemplateData};
use crate::instancetype::{ClassCatalog, ClassView};
use crate::launch::{Candidate, Filtered, FleetPlan, FleetPlanInput, TEMPLATE_QUOTA, plan, request, token};
use crate::nodeclass::{ConditionOutcome, ConditionResult};
use crate::permissions;
use crate::tags::{Owner, owned};
use crate::userdata::{SIZE_MAX, SIZE_WARNING};

const CONDITION: &str = condition::VALIDATION_SUCCEEDED;

/// The reason for a launch that EC2 would refuse for another reason than permissions or capacity.
pub(super) const LAUNCH_REFUSED: &str = "LaunchRefused";

/// Types that accept what most types accept; Karpenter tries them too.
const ORDINARY: [&str; 2] = ["m5.large", "m6g.large"];

/// Most subnets that one instance is tried in: each needs the same permission.
const SUBNETS_MAX: usize = 10;

/// A NodeClaim without requests. It asks for dedicated tenancy if a NodePool of the class names it: IAM policies may deny that tenancy alone.
fn probe(name: &str, pools: &[&Arc<NodePool>], now: jiff::Timestamp) -> NodeClaim {
    let class =
        NodeClassRef { group: labels::GROUP.into(), kind: labels::NODE_CLASS_KIND.into(), name: name.into() };
    let tenancies = pools.iter().filter_map(|pool| pool.template.requirements.get(labels::INSTANCE_TENANCY));
    let dedicated = tenancies.into_iter().any(|tenancy| tenancy.has("dedicated"));
    let wanted = dedicated.then(|| Requirement::is_in(labels::INSTANCE_TENANCY, ["dedicated"]));
    NodeClaim { requirements: wanted.into_iter().collect(), ..NodeClaim::new("dry-run", class, now) }
}

/// The type on demand to try: one that can be launched now and that some pool of the class allows, an ordinary one, one of
/// [`ORDINARY`], the cheapest; in this order of importance. EC2 refuses small types with settings that others accept.
fn choose(catalog: &ClassCatalog, pools: &[&Arc<NodePool>]) -> Option<Candidate> {
    let exotic =
        |capacity: &Resources| labels::EXOTIC_RESOURCES.iter().any(|name| capacity.get(&(*name).into()) > 0);
    let usable = |offering: &&Offering| {
        offering.available && offering.capacity_type().is_some_and(|own| &**own == ON_DEMAND)
    };
    let candidates = catalog.catalog.instance_types.iter().filter_map(|instance_type| {
        catalog.resolved.get(&*instance_type.name)?.image.as_ref()?;
        let offering = instance_type.offerings.iter().filter(usable).min_by_key(|offering| offering.price)?;
        let wanted =
            pools.iter().any(|pool| pool.template.requirements.overlaps(&instance_type.requirements));
        let rank = (
            !wanted,
            exotic(&instance_type.capacity),
            !ORDINARY.contains(&&*instance_type.name),
            offering.price,
            instance_type.name.clone(),
        );
        Some((rank, Candidate { instance_type: instance_type.clone(), offerings: vec![offering.clone()] }))
    });
    candidates.min_by(|(a, _), (b, _)| a.cmp(b)).map(|(_, candidate)| candidate)
}

/// The finding of a dry run's error; `None` if it does not concern the class.
fn verdict(
    error: &AwsError,
    reason: &'static str,
    action: &str,
    own_profile: bool,
) -> Option<ConditionResult> {
    match error.class() {
        // AWS rejects the credentials: this does not concern the class.
        ErrorClass::Unauthorized if error.is_unidentified() => {
            Some(ConditionResult::unanswered(CONDITION, action, error))
        }
        ErrorClass::Unauthorized => {
            Some(ConditionResult::bad(CONDITION, reason, permissions::explained(action, &error.message)))
        }
        ErrorClass::Throttled | ErrorClass::Unknown => {
            Some(ConditionResult::unanswered(CONDITION, action, error))
        }
        ErrorClass::Refused if error.message.contains("Invalid IAM Instance Profile") => {
            Some(if own_profile {
                let message = "spec.instanceProfile: there is no such instance profile";
                ConditionResult::bad(CONDITION, "InstanceProfileNotFound", message)
            } else {
                // EC2 sees a new profile after 5 to 15 seconds; until then every launch would fail.
                let message = "EC2 does not know the instance profile yet, which was created for spec.role";
                ConditionResult::waiting(CONDITION, "InstanceProfileSettling", message)
            })
        }
        ErrorClass::Refused if error.is_image_denied() => {
            let reason = match error.code.as_str() {
                "OptInRequired" => "MarketplaceSubscriptionRequired",
                _ => "AMIAuthorizationFailure",
            };
            Some(ConditionResult::bad(CONDITION, reason, first_line(&error.message)))
        }
        // EC2 may refuse such launches in general: the condition shows it.
        ErrorClass::Refused => {
            let (code, said) = (&error.code, first_line(&error.message));
            let message = format!("{action} would be refused at the moment: {code}: {said}");
            Some(ConditionResult::limited(CONDITION, LAUNCH_REFUSED, message))
        }
        // Missing capacity for this type is not an error of the class.
        ErrorClass::NotFound | ErrorClass::Unfulfillable => None,
    }
}

/// The first line of an error's message, of at most 300 characters.
fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().chars().take(300).collect()
}

/// The finding of a launch template's error.
fn of_template(error: &LaunchError) -> ConditionResult {
    const ACTION: &str = "ec2:CreateLaunchTemplate";
    match error {
        LaunchError::Failed { reason, message } if &**reason == "Unauthorized" => ConditionResult::bad(
            CONDITION,
            "CreateLaunchTemplateAuthCheckFailed",
            permissions::explained(ACTION, message),
        ),
        LaunchError::Failed { reason, message } if &**reason == "UserDataSizeLimitExceeded" => {
            ConditionResult::bad(CONDITION, "UserDataSizeLimitExceeded", message.to_string())
        }
        // Launches by templates that exist go on.
        LaunchError::Failed { reason, message } if &**reason == TEMPLATE_QUOTA => {
            let message = format!("{ACTION} would be refused at the moment: {}", first_line(message));
            ConditionResult::limited(CONDITION, LAUNCH_REFUSED, message)
        }
        LaunchError::NodeClassNotReady(message) => {
            ConditionResult::bad(CONDITION, "UserDataInvalid", message.to_string())
        }
        LaunchError::RateLimited { after } => unanswered(ACTION, *after),
        // The text of other errors differs from call to call and would change the condition each time.
        _ => unanswered(ACTION, Duration::from_secs(30)),
    }
}

fn unanswered(action: &str, after: Duration) -> ConditionResult {
    let message = format!("{action} is not answered");
    ConditionResult {
        condition: CONDITION,
        outcome: ConditionOutcome::Unanswered { message, after, denied: false },
    }
}

/// Tries a launch of a class.
pub(super) struct DryRun<'a>(pub(super) &'a AwsProvider);

impl DryRun<'_> {
    /// The finding for the condition of that class.
    pub(super) async fn run(
        &self,
        class: &Ec2NodeClass,
        pools: &[Arc<NodePool>],
        uid: &str,
    ) -> ConditionResult {
        let provider = self.0;
        let good = ConditionResult::good(CONDITION);
        if class.spec.family() == Family::Al2023
            && let Err(missing) = provider.cluster.service_cidr()
        {
            let message = "the service CIDR is unknown: EKS returns none";
            return match missing {
                Some(error) => ConditionResult::unanswered(CONDITION, DESCRIBE, &error),
                None => ConditionResult::bad(CONDITION, "ClusterCIDRResolutionFailed", message),
            };
        }
        let known = KnownClass::from(class.clone());
        let name = class.metadata.name.clone().unwrap_or_default();
        let catalog = provider.catalogs.of_draft(&known);
        let pools: Vec<&Arc<NodePool>> =
            pools.iter().filter(|pool| *pool.template.class.name == *name).collect();
        let Some(candidate) = choose(&catalog, &pools) else { return good };
        let claim = probe(&name, &pools, provider.clock.now());
        let filtered = Filtered { candidates: vec![candidate], capacity_type: ON_DEMAND };
        let status = class.status.clone().unwrap_or_default();
        let group = provider.catalogs.group(&name);
        let view = ClassView {
            settings: &provider.settings,
            spec: &class.spec,
            status: &status,
            kubelet: &known.kubelet,
            group: group.as_ref(),
        };
        let plan = {
            let addresses = &*provider.addresses();
            plan(&FleetPlanInput {
                claim: &claim,
                filtered: &filtered,
                view: &view,
                catalog: &catalog,
                addresses,
            })
        };
        let Some(plan) = plan else { return good };
        let good = self.near_limit(&known, &claim, &plan).unwrap_or(good);
        if !provider.settings.dry_runs {
            return good;
        }
        let owner = Owner { settings: &provider.settings, cluster_uid: uid, class: &name, pool: "" };
        let tags = owned(&owner, &class.spec);
        let templates = match ensure_templates(provider, &known, &claim, &plan, &tags).await {
            Ok(templates) => templates,
            Err(error) => return of_template(&error),
        };
        let request = request(&plan, &templates, (&claim, 1), &tags, (token(uid, "dry-run", 0), None));
        let Some(way) = request.overrides.first() else { return good };
        let group = templates.iter().find(|(_, template)| **template == way.template).map(|(group, _)| group);
        let data = group.map(|group| content(provider, &known, &claim, group, &plan, &tags));
        let Some(Ok(data)) = data else { return good };
        self.try_launch(class, &request, &data).await.unwrap_or(good)
    }

    /// The finding for user data near the limit of EC2: labels and taints of a NodePool are added to it.
    fn near_limit(&self, known: &KnownClass, claim: &NodeClaim, plan: &FleetPlan) -> Option<ConditionResult> {
        let sizes = plan.groups.iter().filter_map(|group| user_data(self.0, known, claim, group, plan).ok());
        let size = sizes.map(|data| data.text.len()).max().filter(|size| *size >= SIZE_WARNING)?;
        let message = format!(
            "user data has {size} bytes without labels and taints of NodePools; the limit is {SIZE_MAX} bytes: shorten spec.userData"
        );
        Some(ConditionResult::limited(CONDITION, "UserDataNearLimit", message))
    }

    /// Tries a fleet, then one instance in each subnet until one would be launched. The error of the first subnet counts.
    async fn try_launch(
        &self,
        class: &Ec2NodeClass,
        request: &FleetRequest,
        data: &TemplateData,
    ) -> Option<ConditionResult> {
        let own_profile = class.spec.instance_profile.is_some();
        if let Err(error) = self.0.api.try_fleet(request).await
            && let Some(finding) =
                verdict(&error, "CreateFleetAuthCheckFailed", "ec2:CreateFleet", own_profile)
        {
            return Some(finding);
        }
        let way = request.overrides.first()?;
        let mut first = None;
        for subnet in class.status.iter().flat_map(|status| &status.subnets).take(SUBNETS_MAX) {
            let trial = InstanceTrial {
                template: &way.template,
                data,
                instance_type: &way.instance_type,
                subnet: &subnet.id,
                tags: &request.tags,
            };
            match self.0.api.try_instance(&trial).await {
                Ok(()) => return None,
                // Further calls would be throttled too.
                Err(error) if error.class() == ErrorClass::Throttled => {
                    first = Some(error);
                    break;
                }
                Err(error) => {
                    first.get_or_insert(error);
                }
            }
        }
        verdict(&first?, "RunInstancesAuthCheckFailed", "ec2:RunInstances", own_profile)
    }
}

//! A trial of the provider in a real account: look-ups, a dry run per image family and feature, and on demand a node of each.
//!
//! 1. Remove what earlier trials left, once it has expired.
//! 2. Make each look-up of the provider once.
//! 3. Let the provider reconcile an EC2NodeClass per family and feature, as the controller does. That creates launch templates and an
//!    instance profile per class, which cost nothing, and asks EC2 for `CreateFleet` and `RunInstances` as dry runs.
//! 4. Where the trial may spend, launch a node per class, as long as the hour in which the trial expires is paid for ([`spend`]).
//! 5. Remove what the trial created.
//!
//! What a trial creates carries a cluster UID that no cluster has: [`UID_PREFIX`] and the second at which it expires. The provider tags
//! everything with the UID at birth, so that a trial that ends within a step leaves nothing that [`clean`] does not find.

mod cleanup;
mod spend;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fleetwright_aws::calls::{AwsApi, AwsError, Filter};
use fleetwright_aws::nodeclass::profile::cluster_path;
use fleetwright_aws::{AwsProvider, Classes, Settings, SharedClock, node_classes, set_class};
use fleetwright_aws_api::ec2nodeclass::condition::VALIDATION_SUCCEEDED;
use fleetwright_aws_api::{Ec2NodeClass, HasConditions as _, labels};
use fleetwright_core::cloud::{CloudError, CloudProvider as _, Object, Outlook, Write};
use fleetwright_core::model::{NodeClassRef, NodePool, Price, Requirement};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

pub use cleanup::{clean, sweep};

/// What the cluster UID of every trial begins with.
pub const UID_PREFIX: &str = "fleetwright-trial-";
/// After this time a trial is over, however it ended, and the next one removes what it left.
const EXPIRES_AFTER: SignedDuration = SignedDuration::from_hours(1);
/// How often classes are looked at until they are ready. EC2 knows a new instance profile after 5 to 15 seconds.
const ROUNDS: usize = 24;
/// Time between two looks.
const PAUSE: Duration = Duration::from_secs(5);

/// Where to try, and as whom.
#[derive(Clone, Debug)]
pub struct Trial {
    /// When it begins.
    pub begins: Timestamp,
    /// The most that its nodes may cost, if it may launch any.
    pub spend: Option<Price>,
    /// Name of an EKS cluster of the account, and its region.
    pub settings: Settings,
    /// Tag of the subnets and security groups to use.
    pub discovery: (String, String),
    /// Role of Linux nodes.
    pub role: String,
    /// Role of Windows nodes; without one, Windows is not tried.
    pub windows_role: Option<String>,
}

impl Trial {
    /// The second at which it is over, however it ended.
    #[must_use]
    pub fn expires(&self) -> Timestamp {
        let expires = self.begins.checked_add(EXPIRES_AFTER).unwrap_or(Timestamp::MAX);
        Timestamp::from_second(expires.as_second()).unwrap_or(Timestamp::MAX)
    }
}

/// What one part of a trial showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialResult {
    /// The look-up, or the family or feature.
    pub name: String,
    /// What AWS returned, or why it refused.
    pub result: Result<String, String>,
}

/// A class to try: its name, the fields of its spec beside selectors and role, and requirements of its NodePool.
type TrialClass = (&'static str, Value, &'static [(&'static str, &'static str)]);

/// One class per image family, and one per feature that changes what is sent to EC2.
fn trial_classes(windows: bool) -> Vec<TrialClass> {
    let alias = |name: &str| json!({"amiSelectorTerms": [{"alias": format!("{name}@latest")}]});
    let with = |field: &str, value: Value| {
        let mut spec = alias("al2023");
        spec[field] = value;
        spec
    };
    let encrypted = json!([{"deviceName": "/dev/xvda", "rootVolume": true,
        "ebs": {"volumeSize": "20Gi", "volumeType": "gp3", "encrypted": true}}]);
    let efa = json!([
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"},
    ]);
    let mut all: Vec<TrialClass> = vec![
        ("al2023", alias("al2023"), &[]),
        ("bottlerocket", alias("bottlerocket"), &[]),
        ("al2023-gpu", alias("al2023"), &[(labels::INSTANCE_GPU_MANUFACTURER, "nvidia")]),
        ("encrypted-volume", with("blockDeviceMappings", encrypted), &[]),
        ("efa-interface", with("networkInterfaces", efa), &[]),
        ("enclave", with("enclaveOptions", json!({"enabled": true})), &[]),
        ("public-address", with("associatePublicIPAddress", json!(true)), &[]),
        ("monitoring", with("detailedMonitoring", json!(true)), &[]),
        ("prefixes", with("ipPrefixCount", json!(1)), &[]),
    ];
    if windows {
        all.push(("windows2022", alias("windows2022"), &[]));
    }
    all
}

fn is_windows(name: &str) -> bool {
    name.starts_with("windows")
}

fn class(trial: &Trial, (name, spec, _): &TrialClass) -> Result<Ec2NodeClass, serde_json::Error> {
    let (key, value) = &trial.discovery;
    let found = json!([{"tags": {key.as_str(): value}}]);
    let mut spec = spec.clone();
    let is_windows = is_windows(name);
    if trial.spend.is_some()
        && let Some(script) = spend::shutdown(&spec)
    {
        spec["userData"] = script.into();
    }
    let role = trial.windows_role.as_ref().filter(|_| is_windows).unwrap_or(&trial.role);
    spec["role"] = json!(role);
    spec["subnetSelectorTerms"] = found.clone();
    spec["securityGroupSelectorTerms"] = found;
    let mut class = Ec2NodeClass::new(name, serde_json::from_value(spec)?);
    class.metadata.uid = Some(format!("{UID_PREFIX}{name}"));
    class.metadata.generation = Some(1);
    Ok(class)
}

fn pool((name, _, requirements): &TrialClass, now: Timestamp) -> NodePool {
    let class = NodeClassRef {
        group: labels::GROUP.into(),
        kind: labels::NODE_CLASS_KIND.into(),
        name: (*name).into(),
    };
    let mut pool = NodePool::new(name, class, now);
    for (key, value) in *requirements {
        pool.template.requirements.add(Requirement::is_in(*key, [*value]));
    }
    pool
}

/// Tries everything, and removes what it created.
///
/// # Errors
/// If EKS does not return the cluster, or the provider cannot be started.
pub async fn run(
    api: Arc<dyn AwsApi>,
    clock: SharedClock,
    trial: &Trial,
) -> Result<Vec<TrialResult>, TrialError> {
    clean(&*api, &trial.settings, |expires| expires <= trial.begins).await?;
    let cluster = api.cluster(&trial.settings.cluster_name).await?;
    let settings = Settings {
        cluster_endpoint: cluster.endpoint.clone(),
        ca_bundle: cluster.ca_bundle.clone(),
        ..trial.settings.clone()
    };
    let mut results = lookups(&*api, &settings, &cluster.arn).await;
    let tried = try_classes(&api, &clock, trial, settings, &cluster.version).await;
    // Also where the provider could not be started.
    let cleaned = clean(&*api, &trial.settings, |own| own == trial.expires()).await;
    results.extend(tried?);
    results.push(TrialResult {
        name: "cleanup".to_owned(),
        result: cleaned.map(|gone| format!("{} removed", gone.len())).map_err(|error| error.to_string()),
    });
    Ok(results)
}

/// Why a trial could not begin.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// AWS refused a call that everything else needs.
    #[error("{0}")]
    Aws(#[from] AwsError),
    /// The provider refused to start.
    #[error("{0}")]
    Provider(#[from] CloudError),
    /// A class of the trial is broken.
    #[error("{0}")]
    Class(#[from] serde_json::Error),
}

/// Each look-up of the provider, once.
async fn lookups(api: &dyn AwsApi, settings: &Settings, arn: &str) -> Vec<TrialResult> {
    let none: &[Filter] = &[];
    let of = |name: &str, found: Result<usize, AwsError>| TrialResult {
        name: name.to_owned(),
        result: found.map(|count| format!("{count} found")).map_err(|error| error.to_string()),
    };
    vec![
        of("ec2:DescribeInstanceTypes", api.instance_types().await.map(|all| all.len())),
        of("ec2:DescribeInstanceTypeOfferings", api.sold_in().await.map(|all| all.len())),
        of("ec2:DescribeSubnets", api.subnets(none).await.map(|all| all.len())),
        of("ec2:DescribeSecurityGroups", api.security_groups(none).await.map(|all| all.len())),
        of("ec2:DescribePlacementGroups", api.placement_groups(None, None).await.map(|all| all.len())),
        of("ec2:DescribeCapacityReservations", api.reservations(None, none).await.map(|all| all.len())),
        of("ec2:DescribeInstances", api.instances(&[], none).await.map(|all| all.len())),
        of("ec2:DescribeInstanceStatus", api.instance_statuses().await.map(|all| all.len())),
        of("ec2:DescribeLaunchTemplates", api.launch_templates(none).await.map(|all| all.len())),
        of("ec2:DescribeSpotPriceHistory", api.spot_prices().await.map(|all| all.len())),
        of("pricing:GetProducts", api.on_demand_prices(&settings.region).await.map(|all| all.len())),
        of("arc-zonal-shift:GetManagedResource", api.zonal_shifts(arn).await.map(|all| all.len())),
        of("iam:ListInstanceProfiles", api.profiles(&cluster_path(settings)).await.map(|all| all.len())),
    ]
}

async fn try_classes(
    api: &Arc<dyn AwsApi>,
    clock: &SharedClock,
    trial: &Trial,
    settings: Settings,
    version: &str,
) -> Result<Vec<TrialResult>, TrialError> {
    let tried = trial_classes(trial.windows_role.is_some());
    let classes = node_classes();
    for one in &tried {
        set_class(&classes, class(trial, one)?);
    }
    let provider = AwsProvider::new(api.clone(), classes.clone(), settings, clock.clone()).await?;
    provider.identify(&format!("{UID_PREFIX}{}", trial.expires().as_second())).await?;
    provider.set_kubernetes_version(version);
    let pools: Vec<_> = tried.iter().map(|one| Arc::new(pool(one, clock.now()))).collect();
    reconcile(&provider, clock, &classes, Outlook::at(clock.now()).with_pools(pools.clone())).await?;
    let mut results = Vec::with_capacity(tried.len());
    let mut accepted = Vec::new();
    for pool in pools {
        let known = classes.get(&pool.name).ok();
        let open = || Err(known.as_ref().map_or_else(String::new, |known| unmet(&known.class)));
        let mut result = known.as_ref().and_then(|known| verdict(&known.class)).unwrap_or_else(open);
        let cheapest = spend::cheapest(&provider, &pool).await?;
        match cheapest {
            // The provider has nothing to try then, and no reason to refuse the class.
            None if result.is_ok() => {
                result = Err("the region offers no instance type for it: not tried".to_owned());
            }
            Some(cheapest) if result.is_ok() => accepted.push((pool.clone(), cheapest)),
            _ => {}
        }
        results.push(TrialResult { name: pool.name.to_string(), result });
    }
    if let Some(limit) = trial.spend {
        results.extend(spend::launch_each(&provider, &**api, clock, accepted, limit).await);
    }
    Ok(results)
}

/// Runs the provider's loop for classes until each of them is accepted or refused.
async fn reconcile(
    provider: &AwsProvider,
    clock: &SharedClock,
    classes: &Classes,
    mut outlook: Outlook,
) -> Result<(), TrialError> {
    let Some(step) = provider.steps().into_iter().find(|step| step.name() == "nodeclass") else {
        return Ok(());
    };
    for _ in 0..ROUNDS {
        let round = step.run(&outlook).await?;
        for write in &round.writes {
            apply(classes, write)?;
        }
        if classes.all().map_err(CloudError::from)?.values().all(|known| verdict(&known.class).is_some()) {
            break;
        }
        clock.sleep(PAUSE).await;
        outlook.now = clock.now();
    }
    Ok(())
}

/// What became of a class; `None` while it is open.
fn verdict(class: &Ec2NodeClass) -> Option<Result<String, String>> {
    let conditions = class.conditions();
    let refused = conditions.iter().any(|known| known.type_ != "Ready" && known.status.as_str() == "False");
    if refused {
        return Some(Err(unmet(class)));
    }
    let ready = conditions.iter().any(|known| known.type_ == "Ready" && known.is_true());
    let tried = conditions.iter().find(|known| known.type_ == VALIDATION_SUCCEEDED)?;
    match (ready, tried.reason.as_str()) {
        (true, "LaunchRefused") => Some(Err(tried.message.clone())),
        (true, _) => Some(Ok("EC2 would launch it".to_owned())),
        (false, _) => None,
    }
}

/// The conditions that are not True, with their reasons.
fn unmet(class: &Ec2NodeClass) -> String {
    let open = class.conditions().iter().filter(|known| known.type_ != "Ready" && !known.is_true());
    let texts: Vec<String> =
        open.map(|known| format!("{} {}: {}", known.type_, known.reason, known.message)).collect();
    texts.join("; ")
}

/// Applies what the provider writes to a class.
fn apply(classes: &Classes, write: &Write) -> Result<(), serde_json::Error> {
    let Object::NodeClass { class, .. } = &write.object else { return Ok(()) };
    let Ok(known) = classes.get(&class.name) else { return Ok(()) };
    let mut class = known.class.clone();
    if let Some(patch) = &write.status {
        let mut status = serde_json::to_value(class.status.unwrap_or_default())?;
        let patch: BTreeMap<String, Value> = serde_json::from_str(patch)?;
        for (key, value) in patch {
            status[key.as_str()] = value;
        }
        if let Some(fields) = status.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        class.status = Some(serde_json::from_value(status)?);
    }
    if let Some(finalizers) = &write.finalizers {
        class.metadata.finalizers = Some(finalizers.iter().map(ToString::to_string).collect());
    }
    set_class(classes, class);
    Ok(())
}

#[cfg(test)]
mod tests;

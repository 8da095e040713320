//! A node per class of a trial, launched, seen running and terminated, under a hard cap.
//!
//! A launch is paid for before it is made: with an hour of its instance type, volume and address, although the node is terminated within minutes. Whoever
//! ends the trial, what it launched is terminated within that hour: by the trial, by the process that guards it, by `--cleanup`, and at
//! last by itself ([`shutdown`]).

use std::sync::Arc;
use std::time::Duration;

use fleetwright_aws::calls::AwsApi;
use fleetwright_aws::{AwsProvider, SharedClock};
use fleetwright_core::cloud::{CloudError, CloudProvider as _, Instance, LaunchRequest};
use fleetwright_core::model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND};
use fleetwright_core::model::{InstanceType, NodeClaim, NodePool, Offering, Price, Requirement, Resources};
use serde_json::Value;

use super::{TrialResult, is_windows};

/// What a node may cost beside its instance type in an hour: volume, address and traffic. 20 GiB of gp3 and an address are 0.0072.
const BESIDE: Price = Price::from_nanos(10_000_000);
/// What the licence of Windows may cost beside that, per vCPU and hour; prices of the catalogue are those of Linux.
const WINDOWS_PER_CPU: Price = Price::from_nanos(46_000_000);
/// What a node must have for pods: smaller ones cannot join a cluster in earnest.
const SMALLEST: (i64, i64) = (1000, 1 << 30);
/// How often an instance is looked at until it runs, and how often until it ends.
const LOOKS: u32 = 60;
/// Time between two looks.
const PAUSE: Duration = Duration::from_secs(5);

/// The script with which a node ends its costs 55 minutes after its start, whatever became of the trial: EC2 bills no instance that is stopped. Bottlerocket
/// runs no scripts.
pub(super) fn shutdown(spec: &Value) -> Option<&'static str> {
    match spec["amiSelectorTerms"][0]["alias"].as_str()?.split('@').next()? {
        "al2023" => Some("#!/bin/bash\nshutdown -h +55\n"),
        family if is_windows(family) => Some("shutdown.exe /s /t 3300"),
        _ => None,
    }
}

/// What a NodePool of the trial would launch.
pub(super) struct Cheapest {
    instance_type: Arc<InstanceType>,
    price: Price,
}

/// The cheapest instance type that the pool can launch on demand now.
pub(super) async fn cheapest(
    provider: &AwsProvider,
    pool: &NodePool,
) -> Result<Option<Cheapest>, CloudError> {
    let catalog = provider.catalog(pool).await?;
    let is_on_demand = |offering: &&Offering| {
        offering.available && offering.capacity_type().is_some_and(|own| &**own == ON_DEMAND)
    };
    let wanted = requests();
    let priced = catalog.instance_types.iter().filter_map(|own| {
        let price = own.offerings.iter().filter(is_on_demand).map(|offering| offering.price).min()?;
        let fits = wanted.fits(&own.allocatable()) && pool.template.requirements.overlaps(&own.requirements);
        fits.then(|| Cheapest { instance_type: own.clone(), price })
    });
    Ok(priced.min_by(|a, b| (a.price, &a.instance_type.name).cmp(&(b.price, &b.instance_type.name))))
}

fn requests() -> Resources {
    Resources::of(SMALLEST.0, SMALLEST.1)
}

/// The most that a node of the pool costs in an hour.
fn bound(pool: &NodePool, cheapest: &Cheapest) -> Price {
    let cpus = cheapest.instance_type.capacity.cpu() / 1000;
    let licence = if is_windows(&pool.name) { WINDOWS_PER_CPU.times(cpus) } else { Price::ZERO };
    cheapest.price + BESIDE + licence
}

/// Launches a node per pool, one after the other, as long as `limit` pays for an hour of each.
pub(super) async fn launch_each(
    provider: &AwsProvider,
    api: &dyn AwsApi,
    clock: &SharedClock,
    pools: Vec<(Arc<NodePool>, Cheapest)>,
    limit: Price,
) -> Vec<TrialResult> {
    let mut left = limit;
    let mut results = Vec::with_capacity(pools.len());
    for (pool, cheapest) in pools {
        let (bound, name) = (bound(&pool, &cheapest), cheapest.instance_type.name.clone());
        let result = if bound > left {
            Ok(format!(
                "not launched: an hour of {name} may cost {bound} USD, and {left} of {limit} USD are left"
            ))
        } else {
            left = left.saturating_sub(bound);
            launch(provider, api, clock, &pool, &name).await
        };
        results.push(TrialResult { name: format!("launch {}", pool.name), result });
    }
    results
}

/// Launches a node, waits until EC2 says that it runs, and terminates it.
async fn launch(
    provider: &AwsProvider,
    api: &dyn AwsApi,
    clock: &SharedClock,
    pool: &NodePool,
    instance_type: &str,
) -> Result<String, String> {
    let only = [(INSTANCE_TYPE, instance_type), (CAPACITY_TYPE, ON_DEMAND)];
    let mut requirements = pool.template.requirements.clone();
    for (key, value) in only {
        requirements.add(Requirement::is_in(key, [value]));
    }
    let name = format!("trial-{}", pool.name);
    let claim = NodeClaim {
        uid: format!("{name}-uid").into(),
        pool: Some(pool.name.clone()),
        requirements,
        requests: requests(),
        batch: name.as_str().into(),
        attempt: 1,
        ..NodeClaim::new(&name, pool.template.class.clone(), clock.now())
    };
    let claim = Arc::new(claim);
    let request = LaunchRequest::new(claim.clone()).first_call(true);
    let launched = provider.launch(&[request]).await.pop().ok_or("the provider does not answer")?;
    let instance = launched.map_err(|error| error.to_string())?;
    let runs = until(api, clock, &instance, |state| state == Some("running")).await;
    let ends = provider.terminate(&claim, &instance.provider_id).await;
    let seconds = runs?;
    ends.map_err(|error| error.to_string())?;
    let ended = until(api, clock, &instance, |state| !matches!(state, Some("pending" | "running"))).await?;
    Ok(format!("{instance_type} ran after {seconds} s and ended after {ended} s"))
}

/// Looks at an instance until its state is `right`; `None` is that of an instance that EC2 does not show. Returns how many seconds that took.
async fn until(
    api: &dyn AwsApi,
    clock: &SharedClock,
    instance: &Instance,
    right: impl Fn(Option<&str>) -> bool,
) -> Result<i64, String> {
    let id = instance.provider_id.rsplit('/').next().unwrap_or_default().to_owned();
    let began = clock.now();
    let mut last = "EC2 does not show it".to_owned();
    for _ in 0..LOOKS {
        match api.instances(std::slice::from_ref(&id), &[]).await {
            Ok(found) => {
                let state = found.first().map(|own| own.state.as_str());
                if right(state) {
                    return Ok(clock.now().duration_since(began).as_secs());
                }
                last = format!("its state is {}", state.unwrap_or("unknown"));
            }
            Err(error) if error.is_not_found() && right(None) => {
                return Ok(clock.now().duration_since(began).as_secs());
            }
            Err(error) => last = error.to_string(),
        }
        clock.sleep(PAUSE).await;
    }
    Err(format!("{id}: {last} after {} s", clock.now().duration_since(began).as_secs()))
}

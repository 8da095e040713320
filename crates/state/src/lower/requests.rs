//! Effective requests of a pod, as in kube-scheduler (`resourcehelper.PodRequests`): containers run together, init containers one after
//! the other beside the sidecars started so far, pod-level requests replace the sum, overhead is added, and during a resize the larger of
//! old and new counts.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_core::model::{ResourceName, Resources};
use k8s_openapi::{
    api::core::v1::{Container, ContainerStatus, Pod, PodSpec, PodStatus, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};

use super::{Invalid, demand};

/// Effective requests of a pod, `pods: 1` included.
///
/// # Errors
/// If a quantity is invalid.
pub fn of_pod(pod: &Pod) -> Result<Resources, Invalid> {
    let Some(spec) = &pod.spec else { return Err(Invalid::Missing("spec")) };
    of_spec(spec, pod.status.as_ref())
}

/// Effective requests of a pod with this spec and status.
///
/// # Errors
/// If a quantity is invalid.
pub fn of_spec(spec: &PodSpec, status: Option<&PodStatus>) -> Result<Resources, Invalid> {
    let infeasible = status.is_some_and(is_infeasible);
    let statuses = |of: fn(&PodStatus) -> &Option<Vec<ContainerStatus>>| {
        status.and_then(|status| of(status).as_deref()).unwrap_or_default()
    };
    let running = statuses(|status| &status.container_statuses);
    let initial = statuses(|status| &status.init_container_statuses);

    let mut together = Resources::new();
    for container in &spec.containers {
        together.add_assign(&of_container(container, running, infeasible, "spec.containers")?);
    }
    let (mut sidecars, mut peak) = (Resources::new(), Resources::new());
    for container in spec.init_containers.iter().flatten() {
        let wants = of_container(container, initial, infeasible, "spec.initContainers")?;
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars.add_assign(&wants);
            together.add_assign(&wants);
            peak = peak.component_max(&sidecars);
        } else {
            peak = peak.component_max(&sidecars.plus(&wants));
        }
    }
    let mut total = together.component_max(&peak);
    if let Some(resources) = &spec.resources {
        replace_by_pod_level(&mut total, resources, status, infeasible)?;
    }
    total.add_assign(&demand("spec.overhead", spec.overhead.as_ref())?);
    total.set(&ResourceName::Pods, 1);
    Ok(total)
}

/// A spec with the API server's defaults for pods: requests from limits, and host ports of containers in the host network. Pods have
/// them, pod templates do not.
#[must_use]
pub fn defaulted(spec: &PodSpec) -> PodSpec {
    let mut spec = spec.clone();
    let on_host = spec.host_network.unwrap_or_default();
    let mut requested: BTreeSet<String> = BTreeSet::new();
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        if let Some(resources) = &mut container.resources {
            limits_as_requests(resources, |_| true);
            requested.extend(resources.requests.iter().flat_map(BTreeMap::keys).cloned());
        }
        for port in container.ports.iter_mut().flatten().filter(|_| on_host) {
            port.host_port.get_or_insert(port.container_port);
        }
    }
    // At pod level, a limit is the request of what no container asks for.
    if let Some(resources) = &mut spec.resources {
        limits_as_requests(resources, |name| !requested.contains(name));
    }
    spec
}

fn limits_as_requests(resources: &mut ResourceRequirements, wanted: impl Fn(&str) -> bool) {
    let ResourceRequirements { limits, requests, .. } = resources;
    for (name, limit) in limits.iter().flatten().filter(|(name, _)| wanted(name)) {
        let requests = requests.get_or_insert_default();
        requests.entry(name.clone()).or_insert_with(|| limit.clone());
    }
}

/// Effective limits of a pod with this spec: computed like its requests, without resizes. An invalid limit counts as none, because no
/// decision depends on limits.
#[must_use]
pub fn limits_of_spec(spec: &PodSpec) -> Resources {
    let of = |container: &Container| {
        let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        demand("resources.limits", limits).unwrap_or_default()
    };
    let mut together = Resources::new();
    for container in &spec.containers {
        together.add_assign(&of(container));
    }
    let (mut sidecars, mut peak) = (Resources::new(), Resources::new());
    for container in spec.init_containers.iter().flatten() {
        let may = of(container);
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars.add_assign(&may);
            together.add_assign(&may);
            peak = peak.component_max(&sidecars);
        } else {
            peak = peak.component_max(&sidecars.plus(&may));
        }
    }
    together.component_max(&peak)
}

/// Whether a requested resize does not fit on the node, so that the allocated resources still count.
fn is_infeasible(status: &PodStatus) -> bool {
    status.resize.as_deref() == Some("Infeasible")
        || status.conditions.iter().flatten().any(|condition| {
            condition.type_ == "PodResizePending"
                && condition.status == "True"
                && condition.reason.as_deref() == Some("Infeasible")
        })
}

fn requests_of(resources: Option<&ResourceRequirements>) -> Option<&BTreeMap<String, Quantity>> {
    resources.and_then(|resources| resources.requests.as_ref())
}

fn of_container(
    container: &Container,
    statuses: &[ContainerStatus],
    infeasible: bool,
    list: &str,
) -> Result<Resources, Invalid> {
    let field = format!("{list}[{}].resources.requests", container.name);
    let wanted = demand(&field, requests_of(container.resources.as_ref()))?;
    let Some(status) = statuses.iter().find(|status| status.name == container.name) else {
        return Ok(wanted);
    };
    let actual = requests_of(status.resources.as_ref());
    if actual.is_none() && status.allocated_resources.is_none() {
        return Ok(wanted);
    }
    let held = demand("status.containerStatuses[].resources.requests", actual)?.component_max(&demand(
        "status.containerStatuses[].allocatedResources",
        status.allocated_resources.as_ref(),
    )?);
    Ok(if infeasible { held } else { wanted.component_max(&held) })
}

/// Pod-level requests of cpu, memory and hugepages stand in place of the containers' sum.
fn replace_by_pod_level(
    total: &mut Resources,
    resources: &ResourceRequirements,
    status: Option<&PodStatus>,
    infeasible: bool,
) -> Result<(), Invalid> {
    let wanted = demand("spec.resources.requests", resources.requests.as_ref())?;
    let actual = status.and_then(|status| requests_of(status.resources.as_ref()));
    let allocated = status.and_then(|status| status.allocated_resources.as_ref());
    let held = demand("status.resources.requests", actual)?
        .component_max(&demand("status.allocatedResources", allocated)?);
    for (name, amount) in wanted.iter() {
        let pod_level = match &name {
            ResourceName::Cpu | ResourceName::Memory => true,
            ResourceName::Other(name) => name.starts_with("hugepages-"),
            ResourceName::EphemeralStorage | ResourceName::Pods => false,
        };
        if pod_level {
            let held = held.get(&name);
            let effective = if infeasible && held > 0 { held } else { amount.max(held) };
            total.set(&name, effective);
        }
    }
    Ok(())
}

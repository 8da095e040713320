//! Whether every resource claim of a placed pod has its devices: naively, device by device.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    model::{
        Device, DeviceId, NamespacedName, Pod, Snapshot, Str,
        resource_claim::{
            ClaimSource, ClaimSpec, DeviceConstraint, DeviceCount, RequestOption, ResourceClaim,
        },
    },
    scheduling::{NewClaim, Plan, PlannedClaim, PlannedDevice, Request},
};

/// A host of the plan: its name, its pods, their claims, and the types that it may become.
struct Site<'a> {
    name: String,
    pods: &'a [Arc<Pod>],
    claims: &'a [PlannedClaim],
    new_claim: Option<&'a NewClaim>,
    node: Option<&'a str>,
}

pub(super) fn check(snapshot: &Snapshot, request: &Request<'_>, plan: &Plan, violations: &mut Vec<String>) {
    let bound = request.pods.iter().filter(|pod| pod.node.is_some());
    let requested: BTreeSet<&str> = bound.map(|pod| &*pod.uid).collect();
    let keeps = |claim: &ResourceClaim| {
        claim.reserved_for.is_empty() || claim.reserved_for.iter().any(|pod| !requested.contains(&**pod))
    };
    let sites = sites(plan);
    for site in &sites {
        for pod in site.pods {
            for claim in &pod.spec.resource_claims {
                let Some(id) = claim_id(pod, &claim.name, &claim.source) else { continue };
                let known = snapshot.devices.claims.get(&id);
                if !known.is_some_and(|known| known.allocation.is_some() && keeps(known)) {
                    has_devices(site, &sites, &id, violations);
                }
            }
        }
        for claim in site.claims {
            satisfies(snapshot, site, claim, violations);
        }
    }
    given_once(snapshot, &sites, keeps, violations);
}

fn sites(plan: &Plan) -> Vec<Site<'_>> {
    let existing = plan.existing.iter().map(|placement| {
        let node = &placement.node;
        let (pods, claims) = (&placement.pods[..], &placement.claims[..]);
        let node_name = node.node_name().map(|name| &**name);
        Site { name: node.name().to_owned(), pods, claims, new_claim: None, node: node_name }
    });
    let new_claims = plan.new_claims.iter().enumerate().map(|(index, new_claim)| Site {
        name: format!("new NodeClaim #{index}"),
        pods: &new_claim.pods,
        claims: &new_claim.claims,
        new_claim: Some(new_claim),
        node: None,
    });
    existing.chain(new_claims).collect()
}

fn claim_id(pod: &Pod, name: &Str, source: &ClaimSource) -> Option<NamespacedName> {
    let text = match (source, pod.generated_claims.iter().find(|made| made.name == *name)) {
        (ClaimSource::Claim(claim), _) => claim.to_string(),
        (ClaimSource::Template(_), Some(made)) => made.claim.as_ref()?.to_string(),
        (ClaimSource::Template(_), None) => format!("{}-{name}", pod.id.name),
    };
    Some(NamespacedName::new(pod.id.namespace.clone(), text))
}

/// A claim has devices where its pod is, whatever that becomes, or elsewhere such that they can be reached.
fn has_devices(site: &Site<'_>, sites: &[Site<'_>], id: &NamespacedName, violations: &mut Vec<String>) {
    let own: Vec<&PlannedClaim> = site.claims.iter().filter(|claim| claim.claim == *id).collect();
    let elsewhere = sites.iter().flat_map(|site| site.claims).filter(|claim| claim.claim == *id);
    if own.is_empty() {
        let mut any = false;
        for claim in elsewhere {
            any = true;
            if claim.devices.iter().any(|device| device.template) {
                violations.push(format!("{id} has devices of another node than {}", site.name));
            }
        }
        if !any {
            violations.push(format!("{id} has no devices on {}", site.name));
        }
        return;
    }
    for named in site.new_claim.iter().flat_map(|new_claim| new_claim.instance_types.iter()) {
        if !own.iter().any(|claim| claim.instance_types.contains(&named.name)) {
            violations.push(format!("{id} has no devices where {} becomes {}", site.name, named.name));
        }
    }
}

fn spec_of<'a>(snapshot: &'a Snapshot, site: &Site<'_>, id: &NamespacedName) -> Option<&'a ClaimSpec> {
    if let Some(claim) = snapshot.devices.claims.get(id) {
        return Some(&claim.spec);
    }
    let claims =
        site.pods.iter().flat_map(|pod| pod.spec.resource_claims.iter().map(move |claim| (pod, claim)));
    let mut ours =
        claims.filter(|(pod, claim)| claim_id(pod, &claim.name, &claim.source).as_ref() == Some(id));
    let ClaimSource::Template(template) = &ours.next()?.1.source else { return None };
    let template = NamespacedName::new(id.namespace.clone(), template.clone());
    snapshot.devices.templates.get(&template).map(|spec| &**spec)
}

/// What a device is, by its name.
fn device_of<'a>(
    snapshot: &'a Snapshot,
    site: &'a Site<'a>,
    claim: &PlannedClaim,
    planned: &PlannedDevice,
) -> Option<&'a Device> {
    let DeviceId { driver, pool, device } = &planned.id;
    if !planned.template {
        let slices = snapshot.devices.slices.values().filter(|s| s.driver == *driver && s.pool == *pool);
        let newest = slices.clone().map(|slice| slice.generation).max();
        let mut devices =
            slices.filter(|slice| Some(slice.generation) == newest).flat_map(|slice| &slice.devices);
        return devices.find(|known| known.name == *device).map(|known| &**known);
    }
    let named = |name: &Str| claim.instance_types.is_empty() || claim.instance_types.contains(name);
    let of_new_claim = site.new_claim.iter().flat_map(|new_claim| new_claim.instance_types.iter());
    let all = snapshot.catalogs.values().flat_map(|catalog| &catalog.instance_types);
    let mut types = of_new_claim.chain(all).filter(|known| named(&known.name));
    types.find_map(|known| {
        let slices = known.devices.slices.iter().filter(|s| s.driver == *driver && s.pool == *pool);
        slices.flat_map(|slice| &slice.devices).find(|known| known.name == *device).map(|known| &**known)
    })
}

/// The right number of devices for each request, each of the right sort.
fn satisfies(snapshot: &Snapshot, site: &Site<'_>, claim: &PlannedClaim, violations: &mut Vec<String>) {
    let id = &claim.claim;
    let Some(spec) = spec_of(snapshot, site, id) else {
        violations.push(format!("{id} is not known"));
        return;
    };
    if claim.devices.len() > 32 {
        violations.push(format!("{id} has {} devices", claim.devices.len()));
    }
    for request in &spec.requests {
        let name = |option: &RequestOption| match &*option.name {
            "" => request.name.to_string(),
            sub => format!("{}/{sub}", request.name),
        };
        let of = |option: &RequestOption| -> Vec<&PlannedDevice> {
            claim.devices.iter().filter(|device| *device.request == name(option)).collect()
        };
        let used: Vec<&RequestOption> =
            request.options.iter().filter(|option| !of(option).is_empty()).collect();
        let [option] = used[..] else {
            violations.push(format!(
                "{id}: request {} has {} answers on {}",
                request.name,
                used.len(),
                site.name
            ));
            continue;
        };
        if let DeviceCount::Exactly(count) = option.count
            && of(option).len() != usize::try_from(count).unwrap_or(usize::MAX)
        {
            violations.push(format!(
                "{id}: request {} has {} of {count} devices",
                name(option),
                of(option).len()
            ));
        }
        let class = snapshot.devices.classes.get(&option.class);
        let class = class.map_or(&[][..], |class| &class.selectors);
        for planned in of(option) {
            let device = device_of(snapshot, site, claim, planned);
            let fits = device.is_some_and(|device| {
                class.iter().chain(&option.selectors).all(|selector| {
                    let is = selector.predicate.as_ref().ok();
                    is.is_some_and(|is| is.matches(&planned.id.driver, device) == Ok(true))
                })
            });
            if !fits {
                violations.push(format!("{id}: {} is not what {} asks for", planned.id, name(option)));
            }
        }
    }
    for constraint in &spec.constraints {
        let DeviceConstraint::Match { attribute, requests } = constraint else { continue };
        let meant = |device: &&PlannedDevice| {
            let parent = device.request.split('/').next().unwrap_or_default();
            requests.is_empty() || requests.iter().any(|of| *of == device.request || **of == *parent)
        };
        let values = claim.devices.iter().filter(meant).filter_map(|planned| {
            Some(device_of(snapshot, site, claim, planned)?.attribute(&planned.id.driver, attribute).cloned())
        });
        let values: BTreeSet<_> = values.collect();
        if values.len() > 1 {
            violations.push(format!("{id}: devices differ in {attribute}"));
        }
    }
}

/// No device that cannot be shared is given twice, and none of another node.
fn given_once(
    snapshot: &Snapshot,
    sites: &[Site<'_>],
    keeps: impl Fn(&ResourceClaim) -> bool,
    violations: &mut Vec<String>,
) {
    let mut held: BTreeMap<&DeviceId, BTreeSet<String>> = BTreeMap::new();
    for claim in snapshot.devices.claims.values().filter(|claim| keeps(claim)) {
        let devices = claim.allocation.iter().flat_map(|allocation| &allocation.devices);
        for device in devices.filter(|device| !device.admin && !device.shared) {
            held.entry(&device.id).or_default().insert(claim.id.to_string());
        }
    }
    for site in sites {
        let mut own: BTreeMap<(&DeviceId, &[Str]), usize> = BTreeMap::new();
        for claim in site.claims {
            for planned in &claim.devices {
                let admin = spec_of(snapshot, site, &claim.claim)
                    .is_some_and(|spec| spec.requests.iter().any(|r| r.options.iter().any(|o| o.admin)));
                let shared = device_of(snapshot, site, claim, planned).is_some_and(|device| device.shared);
                if admin || shared {
                    continue;
                }
                *own.entry((&planned.id, &claim.instance_types)).or_default() += 1;
                if !planned.template {
                    held.entry(&planned.id).or_default().insert(site.name.clone());
                    let slices = snapshot.devices.slices.values();
                    let elsewhere =
                        slices.filter(|s| s.driver == planned.id.driver && s.pool == planned.id.pool);
                    let named = elsewhere.filter_map(|slice| match &slice.nodes {
                        crate::model::device::Nodes::Named(node) => Some(&**node),
                        _ => None,
                    });
                    if named.into_iter().any(|node| Some(node) != site.node) {
                        violations.push(format!("{} is not a device of {}", planned.id, site.name));
                    }
                }
            }
        }
        let twice = own.into_iter().filter(|(_, count)| *count > 1);
        violations
            .extend(twice.map(|((id, _), count)| format!("{id} is given {count} times on {}", site.name)));
    }
    let twice = held.into_iter().filter(|(_, holders)| holders.len() > 1);
    violations.extend(twice.map(|(id, holders)| format!("{id} is given to {holders:?}")));
}

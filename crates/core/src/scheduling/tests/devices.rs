//! Pods with resource claims: where their devices are decides where they can be.

use super::*;
use crate::{
    model::{Catalog, InstanceType, NamespacedName, device::Nodes},
    scheduling::dra::problem::{ClaimProblem, DeviceShortage},
};

fn rules() -> Rules {
    Rules { ignore_dra: false, ..Rules::default() }
}

/// `plain` without devices is the cheapest; `one` has one, `four` has four.
fn catalog() -> Arc<Catalog> {
    let build = |name: &str, devices: u8, price: i64| -> Arc<InstanceType> {
        let devices: Vec<_> = (0..devices).map(|index| device(&format!("gpu-{index}"))).collect();
        let mut builder = instance_type(name, 16, 64);
        if !devices.is_empty() {
            builder = builder.devices(templates(&devices));
        }
        builder.offer("a", ON_DEMAND, price).offer("b", ON_DEMAND, price).build()
    };
    Arc::new(Catalog::new(vec![build("plain", 0, 100), build("one", 1, 200), build("four", 4, 700)]))
}

fn builder() -> ClusterBuilder {
    ClusterBuilder::new().catalog(catalog()).pool(pool("default")).gpu_class()
}

fn claiming(name: &str, claims: &[PodClaim]) -> PodBuilder {
    pod(name).with_spec(|spec| spec.resource_claims.extend(claims.iter().cloned()))
}

fn gpus(count: u32) -> crate::model::resource_claim::ClaimSpec {
    claim_spec(&[exactly("gpu", option(count))])
}

fn planned(builder: ClusterBuilder) -> Vec<String> {
    let snapshot = builder.build();
    let plan = plan_with(&snapshot, &rules());
    let request = Request {
        pods: &snapshot.pending,
        without: &[],
        purpose: Purpose::Provisioning,
        effort: Effort::First,
    };
    assert_eq!(validator::violations(&snapshot, &request, &rules(), &plan), Vec::<String>::new());
    report(&snapshot, &plan)
}

#[test]
fn a_template_of_claims_gets_each_pod_its_own_device() {
    let builder = builder()
        .claim_template("gpu", gpus(1))
        .pending(claiming("p1", &[uses_template("gpu")]))
        .pending(claiming("p2", &[uses_template("gpu")]));
    assert_eq!(planned(builder), ["+default four a on-demand: p1 p2"]);
}

#[test]
fn pods_share_a_node_with_enough_devices() {
    let pods = ["p1", "p2", "p3", "p4", "p5"];
    let builder = pods.iter().fold(builder().claim_template("gpu", gpus(2)), |builder, name| {
        builder.pending(claiming(name, &[uses_template("gpu")]))
    });
    let (snapshot, plan) = (builder.clone().build(), planned(builder));
    assert_eq!(plan.len(), 3, "{plan:?}");
    assert_eq!(snapshot.pending.len(), 5);
}

#[test]
fn pods_of_one_claim_stay_together() {
    let builder = builder()
        .resource_claim("shared", gpus(1))
        .pending(claiming("p1", &[uses_claim("shared")]))
        .pending(claiming("p2", &[uses_claim("shared")]));
    assert_eq!(planned(builder), ["+default one a on-demand: p1 p2"]);
}

#[test]
fn the_drivers_that_a_node_has_to_wait_for_are_named() {
    let snapshot = builder()
        .claim_template("gpu", gpus(1))
        .pending(claiming("p1", &[uses_template("gpu")]))
        .pending(pod("p2").cpu(15_500))
        .build();
    let plan = plan_with(&snapshot, &rules());
    let drivers: Vec<_> = plan
        .new_claims
        .iter()
        .map(|o| o.annotations.get("karpenter.sh/requested-dra-drivers").cloned())
        .collect();
    assert_eq!(plan.new_claims.len(), 2);
    assert!(drivers.contains(&Some(DRIVER.into())) && drivers.contains(&None), "{drivers:?}");
}

#[test]
fn a_device_of_the_network_decides_the_zone() {
    let builder = builder()
        .resource_slice(slice("fabric", in_zone("b"), &[device("f0")]))
        .resource_claim("fabric", gpus(1))
        .pending(claiming("p1", &[uses_claim("fabric")]));
    assert_eq!(planned(builder), ["+default plain b on-demand: p1"]);
}

#[test]
fn devices_of_a_node_are_used_before_anything_is_bought() {
    let builder = builder()
        .node(node("n1").size("one", 16, 64).zone("a").build())
        .resource_slice(slice("n1", Nodes::Named("n1".into()), &[device("gpu-0")]))
        .claim_template("gpu", gpus(1))
        .pending(claiming("p1", &[uses_template("gpu")]))
        .pending(claiming("p2", &[uses_template("gpu")]));
    assert_eq!(planned(builder), ["n1: p1", "+default one a on-demand: p2"]);
}

#[test]
fn a_device_that_is_held_is_not_given_again() {
    let builder = builder()
        .node(node("n1").size("one", 16, 64).zone("a").build())
        .resource_slice(slice("n1", Nodes::Named("n1".into()), &[device("gpu-0")]))
        .allocated_claim("held", &[("n1", "gpu-0")], Nodes::Named("n1".into()), &["other"])
        .resource_claim("mine", gpus(1))
        .pending(claiming("p1", &[uses_claim("mine")]))
        .pending(claiming("p2", &[uses_claim("held")]));
    assert_eq!(planned(builder), ["n1: p2", "+default one a on-demand: p1"]);
}

#[test]
fn devices_of_moving_pods_are_allocated_again() {
    let bound = claiming("p1", &[uses_claim("held")]).bound("n1");
    let snapshot = builder()
        .node(node("n1").size("one", 16, 64).zone("a").pod(Arc::clone(&bound)).build())
        .resource_slice(slice("n1", Nodes::Named("n1".into()), &[device("gpu-0")]))
        .allocated_claim("held", &[("n1", "gpu-0")], Nodes::Named("n1".into()), &["p1"])
        .build();
    let request =
        Request { pods: &[bound], without: &[0], purpose: Purpose::Simulation, effort: Effort::First };
    let plan = solve(&snapshot, &request, &rules());
    assert_eq!(report(&snapshot, &plan), ["+default one a on-demand: p1"]);
}

#[test]
fn a_device_goes_to_the_moved_pod_or_to_the_pending_one() {
    let on_n1 = Nodes::Named("n1".into());
    let bound = claiming("p1", &[uses_claim("held")]).bound("n1");
    let snapshot = builder()
        .node(node("n1").size("one", 16, 64).zone("a").pod(Arc::clone(&bound)).build())
        .node(node("n2").size("one", 16, 64).zone("a").build())
        .resource_slice(slice("n1", on_n1.clone(), &[device("gpu-0")]))
        .resource_slice(slice("n2", Nodes::Named("n2".into()), &[device("gpu-1")]))
        .allocated_claim("held", &[("n1", "gpu-0")], on_n1, &["p1"])
        .resource_claim("mine", gpus(1))
        .pending(claiming("p2", &[uses_claim("mine")]))
        .build();
    let prepared = PreparedSnapshot::new(&snapshot, &rules());
    let plan = Removals::new(prepared).without(&[bound], &[0], Purpose::Simulation);
    assert_eq!(report(&snapshot, &plan), ["n2: p1", "+default one a on-demand: p2"]);
}

#[test]
fn a_pod_is_relaxed_after_one_that_lacked_devices_on_a_node() {
    let builder = builder()
        .node(node("n1").size("plain", 3, 64).zone("a").build())
        .claim_template("gpu", gpus(1))
        .pending(claiming("p1", &[uses_template("gpu")]).cpu(3_000))
        .pending(pod("p2").cpu(2_000).prefer(1, ZONE, Operator::In, &["elsewhere"]))
        .pending(pod("p3").cpu(1_500));
    assert_eq!(planned(builder), ["n1: p2", "+default one a on-demand: p1 p3"]);
}

#[test]
fn a_node_that_is_not_ready_has_what_its_type_will_have() {
    let builder = builder()
        .node(node("n1").size("four", 16, 64).zone("a").uninitialized().build())
        .claim_template("gpu", gpus(3))
        .pending(claiming("p1", &[uses_template("gpu")]))
        .pending(claiming("p2", &[uses_template("gpu")]));
    assert_eq!(planned(builder), ["n1: p1", "+default four a on-demand: p2"]);
}

#[test]
fn reasons_name_claim_and_request() {
    let snapshot = builder()
        .claim_template("many", gpus(5))
        .claim_template("odd", {
            let mut wanted = option(1);
            wanted.class = "tpu".into();
            claim_spec(&[exactly("tpu", wanted)])
        })
        .pending(claiming("p1", &[uses_template("many")]))
        .pending(claiming("p2", &[uses_template("odd")]))
        .pending(claiming("p3", &[uses_claim("none")]))
        .build();
    let plan = plan_with(&snapshot, &rules());
    let why = |name: &str| &plan.unplaced.iter().find(|(pod, _)| &*pod.id.name == name).expect("unplaced").1;
    let Unplaced::NoPoolFits(verdicts) = why("p1") else { panic!("{:?}", why("p1")) };
    let Eliminated::Devices(shortage) = &verdicts[0].eliminated else { panic!("{verdicts:?}") };
    assert!(
        matches!(&**shortage, DeviceShortage::Devices { request, .. } if &**request == "gpu"),
        "{shortage}"
    );
    assert!(
        matches!(why("p2"), Unplaced::Claims(p) if matches!(&**p, ClaimProblem::NoClass { class, .. } if &**class == "tpu"))
    );
    let missing = ClaimProblem::NotFound(NamespacedName::new("default", "none"));
    assert_eq!(*why("p3"), Unplaced::Claims(Box::new(missing)));
}

#[test]
fn without_all_kinds_no_claim_is_decided() {
    // A node has a free device, but its ResourceSlice cannot be read: a new node would be one too many.
    let mut snapshot = builder()
        .claim_template("gpu", gpus(1))
        .pending(claiming("p1", &[uses_template("gpu")]))
        .pending(pod("p2").cpu(15_500))
        .build();
    Arc::make_mut(&mut snapshot.devices).refused = Some("resourceslices.resource.k8s.io is forbidden".into());
    let plan = plan_with(&snapshot, &rules());
    let [(pod, why)] = &plan.unplaced[..] else { panic!("{:?}", plan.unplaced) };
    assert_eq!(
        (&*pod.id.name, &*why.to_string()),
        ("p1", "its resource claims cannot be decided: resourceslices.resource.k8s.io is forbidden")
    );
    assert_eq!(plan.new_claims.len(), 1);
}

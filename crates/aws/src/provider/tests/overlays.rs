//! What NodeOverlays and enclaves change of a launch.

use fleetwright_core::model::{Catalog, Price, Requirement, labels::INSTANCE_TYPE};
use serde_json::json;

use super::*;
use crate::calls::Strategy;

const TYPES: [&str; 2] = ["m5.large", "m5.xlarge"];

/// A claim of two types with the marks of an overlay, and the request for it.
fn request(claim: NodeClaim, decided_by: Catalog) -> LaunchRequest {
    let mut claim = claim;
    claim.requirements.add(Requirement::is_in(INSTANCE_TYPE, TYPES));
    let batch = claim.batch.clone();
    LaunchRequest { claim: Arc::new(claim), batch, attempt: 1, decided_by: Some(Arc::new(decided_by)) }
}

async fn launched(aws: &Aws, request: LaunchRequest) -> Result<String, LaunchError> {
    let instance = aws.provider().launch(&[request]).await.remove(0)?;
    Ok(instance.labels[INSTANCE_TYPE].to_string())
}

async fn corrected(aws: &Aws, change: impl Fn(&mut fleetwright_core::model::InstanceType)) -> Catalog {
    let mut catalog = (*aws.provider().catalog(&pool()).await.unwrap()).clone();
    for machine in &mut catalog.instance_types {
        change(Arc::make_mut(machine));
    }
    catalog
}

#[tokio::test]
async fn a_price_that_an_overlay_sets_decides() {
    let aws = Aws::new(settings()).await;
    let plain = corrected(&aws, |_| {}).await;
    assert_eq!(launched(&aws, request(claim("a", "a"), plain)).await.unwrap(), "m5.large");
    let cheap = corrected(&aws, |machine| {
        if &*machine.name == "m5.xlarge" {
            for offering in &mut machine.offerings {
                (offering.price, offering.overlaid) = (Price::from_nanos(1), true);
            }
        }
    });
    let mut marked = claim("b", "b");
    marked.annotations.insert("karpenter.sh/price-overlay-applied".into(), "true".into());
    assert_eq!(launched(&aws, request(marked, cheap.await)).await.unwrap(), "m5.xlarge");
    let strategies: Vec<Strategy> = aws.cloud.fleets().into_iter().map(|fleet| fleet.strategy).collect();
    let [Strategy::PriceCapacityOptimized, Strategy::CapacityOptimizedPrioritized] = strategies[..] else {
        panic!("{strategies:?}");
    };
}

#[tokio::test]
async fn a_resource_that_an_overlay_promises_can_be_asked_for() {
    let aws = Aws::new(settings()).await;
    let name = "example.com/fuse";
    let mut wants = claim("a", "a");
    wants.requests.set(&name.into(), 1);
    let plain = corrected(&aws, |_| {}).await;
    let dry = launched(&aws, request(wants.clone(), plain)).await;
    assert!(matches!(dry, Err(LaunchError::InsufficientCapacity(_))), "{dry:?}");
    let mut promised = corrected(&aws, |machine| {
        if &*machine.name == "m5.xlarge" {
            machine.capacity.set(&name.into(), 2);
        }
    })
    .await;
    promised.overlaid.insert("m5.xlarge".into());
    assert_eq!(launched(&aws, request(wants, promised)).await.unwrap(), "m5.xlarge");
}

/// A sandbox is an enclave: on where pods ask for one and the class says nothing, refused where the class says no.
#[tokio::test]
async fn sandboxes_turn_enclaves_on() {
    let name = "eks.amazonaws.com/nitro-sandbox";
    for (options, expected) in [(None, Some(true)), (Some(true), Some(true)), (Some(false), None)] {
        let aws = Aws::new(settings()).await;
        let mut own = class("default", true);
        own.spec.enclave_options = options.map(|on| serde_json::from_value(json!({"enabled": on})).unwrap());
        aws.cloud.with(|inner| inner.machines.iter_mut().for_each(|machine| machine.enclaves = true));
        let provider = aws.provider.lock().unwrap().clone();
        provider.refresh_machines().await.unwrap();
        aws.classes.set(own);
        let mut promised = corrected(&aws, |machine| machine.capacity.set(&name.into(), 1)).await;
        promised.overlaid.extend(TYPES.map(Into::into));
        let mut wants = claim("a", "a");
        wants.requests.set(&name.into(), 1);
        let answer = launched(&aws, request(wants, promised)).await;
        let on = aws.cloud.templates_now().into_values().find_map(|(_, data)| data).map(|data| data.enclaves);
        assert_eq!(on, expected, "{answer:?}");
        if expected.is_none() {
            let Err(LaunchError::Failed { reason, .. }) = answer else { panic!("{answer:?}") };
            assert_eq!(&*reason, "NitroEnclavesDisabled");
        }
    }
}

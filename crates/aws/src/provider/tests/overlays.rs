//! How NodeOverlays and enclaves change a launch.

use fleetwright_core::model::{Catalog, Price, Requirement, labels::INSTANCE_TYPE};
use fleetwright_core::overlay::{NodeOverlay, PriceChange, evaluate};
use serde_json::json;

use super::*;
use crate::calls::{SoldIn, Strategy};

const TYPES: [&str; 2] = ["m5.large", "m5.xlarge"];

/// A NodeClaim with two types and an overlay's annotations, and its launch request.
fn request(claim: NodeClaim, decided_by: Catalog) -> LaunchRequest {
    let mut claim = claim;
    claim.requirements.add(Requirement::is_in(INSTANCE_TYPE, TYPES));
    LaunchRequest::new(claim).decided_by(Arc::new(decided_by))
}

async fn launched(aws: &Aws, request: LaunchRequest) -> Result<String, LaunchError> {
    let instance = aws.provider().launch(&[request]).await.remove(0)?;
    Ok(instance.labels[INSTANCE_TYPE].to_string())
}

async fn corrected(aws: &Aws, change: impl Fn(&mut fleetwright_core::model::InstanceType)) -> Catalog {
    let mut catalog = (*aws.provider().catalog(&pool()).await.unwrap()).clone();
    for instance_type in &mut catalog.instance_types {
        change(Arc::make_mut(instance_type));
    }
    catalog
}

#[tokio::test]
async fn a_price_that_an_overlay_sets_decides() {
    let aws = Aws::new(settings()).await;
    let plain = corrected(&aws, |_| {}).await;
    assert_eq!(launched(&aws, request(claim("a", "a"), plain)).await.unwrap(), "m5.large");
    let cheap = corrected(&aws, |instance_type| {
        if &*instance_type.name == "m5.xlarge" {
            for offering in &mut instance_type.offerings {
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

/// The decision's catalogue is as old as the decision: only the values of overlays in it are used.
#[tokio::test]
async fn a_price_without_an_overlay_is_the_market_s() {
    let aws = Aws::new(settings()).await;
    let stale = corrected(&aws, |instance_type| {
        for offering in &mut instance_type.offerings {
            let (price, overlaid) = match &*instance_type.name {
                // The cheapest at the time of the decision, but no longer.
                "m5.xlarge" => (1, false),
                // Makes the catalogue an overlaid one.
                "c5.large" => (2, true),
                _ => continue,
            };
            (offering.price, offering.overlaid) = (Price::from_nanos(price), overlaid);
        }
    });
    assert_eq!(launched(&aws, request(claim("a", "a"), stale.await)).await.unwrap(), "m5.large");
}

/// A type without a price is listed separately, and launched once an overlay sets a price.
#[tokio::test]
async fn a_type_priced_by_an_overlay_is_launched() {
    let aws = Aws::new(settings()).await;
    aws.cloud.with(|inner| {
        let mut dark = inner
            .instance_types
            .iter()
            .find(|instance_type| instance_type.name == "m5.large")
            .unwrap()
            .clone();
        dark.name = "m99.large".to_owned();
        inner.instance_types.push(dark);
        let zones = ["us-west-2a", "us-west-2b"];
        inner.sold_in.extend(
            zones.map(|zone| SoldIn { instance_type: "m99.large".to_owned(), zone: zone.to_owned() }),
        );
    });
    let provider = aws.provider.lock().unwrap().clone();
    provider.refresh_instance_types().await.unwrap();
    let catalog = provider.catalog(&pool()).await.unwrap();
    assert!(catalog.get("m99.large").is_none());
    let [dark] = catalog.unpriced.as_slice() else { panic!("{:?}", catalog.unpriced) };
    assert_eq!((&*dark.name, dark.offerings.len()), ("m99.large", 4));
    let only = |name: &str| {
        let mut claim = claim(name, name);
        claim.requirements.add(Requirement::is_in(INSTANCE_TYPE, ["m99.large"]));
        claim
    };
    let ask = |claim: NodeClaim, seen: &Arc<Catalog>| LaunchRequest::new(claim).decided_by(seen.clone());
    let answer = launched(&aws, ask(only("a"), &catalog)).await;
    assert!(matches!(answer, Err(LaunchError::InsufficientCapacity(_))), "{answer:?}");
    let overlay = NodeOverlay {
        name: "o".into(),
        weight: 0,
        requirements: [Requirement::is_in(INSTANCE_TYPE, ["m99.large"])].into_iter().collect(),
        price: Some(PriceChange::To(Price::from_nanos(7))),
        capacity: Resources::new(),
    };
    let pools = [Arc::new(pool())];
    let catalogs = [(pools[0].name.clone(), catalog)].into();
    let seen = evaluate(&pools, &catalogs, &[overlay]).catalogs.remove(&pools[0].name).unwrap();
    assert_eq!(launched(&aws, ask(only("b"), &seen)).await.unwrap(), "m99.large");
    let fleet = aws.cloud.fleets().pop().unwrap();
    assert!(fleet.overrides.iter().all(|way| way.price == Price::from_nanos(7)), "{fleet:?}");
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
    let mut promised = corrected(&aws, |instance_type| {
        if &*instance_type.name == "m5.xlarge" {
            instance_type.capacity.set(&name.into(), 2);
        }
    })
    .await;
    promised.overlaid.insert("m5.xlarge".into());
    assert_eq!(launched(&aws, request(wants, promised)).await.unwrap(), "m5.xlarge");
}

/// A sandbox is an enclave: enabled if pods request one and the class does not set it, refused if the class disables it.
#[tokio::test]
async fn sandboxes_turn_enclaves_on() {
    let name = "eks.amazonaws.com/nitro-sandbox";
    for (options, expected) in [(None, Some(true)), (Some(true), Some(true)), (Some(false), None)] {
        let aws = Aws::new(settings()).await;
        let mut own = class("default", true);
        own.spec.enclave_options = options.map(|on| serde_json::from_value(json!({"enabled": on})).unwrap());
        aws.cloud.with(|inner| {
            inner.instance_types.iter_mut().for_each(|instance_type| instance_type.enclaves = true)
        });
        let provider = aws.provider.lock().unwrap().clone();
        provider.refresh_instance_types().await.unwrap();
        set_class(&aws.classes, own);
        let mut promised = corrected(&aws, |instance_type| instance_type.capacity.set(&name.into(), 1)).await;
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

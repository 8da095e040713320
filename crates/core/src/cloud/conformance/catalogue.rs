//! A provider's description of itself and its catalogue.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Case, Failure, Fault, Harness, Verdict,
    support::{catalog, check, claim, good, inject, launch, launched, on_demand, only, zones},
};
use crate::{
    cloud::Identity,
    model::{
        Catalog, Price, Requirements, Str,
        labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, OS, ZONE},
    },
};

pub(super) const CASES: [Case; 7] = [
    Case { name: "info stays the same and names a node class", run: |h| Box::pin(info(h)) },
    Case { name: "identity is proven again for the same cluster only", run: |h| Box::pin(identity(h)) },
    Case { name: "every type can be bought, priced and described", run: |h| Box::pin(described(h)) },
    Case { name: "an unchanged catalogue is the same Arc", run: |h| Box::pin(unchanged(h)) },
    Case { name: "what ran dry is shown as unavailable and still listed", run: |h| Box::pin(dry(h)) },
    Case { name: "what instance types share is counted once", run: |h| Box::pin(shared(h)) },
    Case { name: "the schema knows every label of the catalogue", run: |h| Box::pin(schema(h)) },
];

async fn info(harness: &dyn Harness) -> Verdict {
    let provider = harness.provider();
    let (first, second) = (provider.info().clone(), provider.info().clone());
    check(first.name == second.name && first.schema == second.schema, || {
        "info changed between calls".to_owned()
    })?;
    let class = harness.class();
    let known = first.node_classes.iter().any(|known| known.group == class.group && known.kind == class.kind);
    check(known, || format!("{class} is not among the supported node classes"))
}

async fn identity(harness: &dyn Harness) -> Verdict {
    let provider = harness.provider();
    let same = good("identify", provider.identify(&harness.cluster_uid()).await)?;
    check(same != Identity::Mismatch("".into()) && !matches!(same, Identity::Mismatch(_)), || {
        format!("the same cluster is {same:?}")
    })?;
    let other = provider.identify("another-cluster-uid").await;
    check(!matches!(other, Ok(Identity::Proven)), || "another cluster is proven too".to_owned())
}

async fn described(harness: &dyn Harness) -> Verdict {
    let catalog = catalog(harness).await?;
    check(!catalog.instance_types.is_empty(), || "the catalogue is empty".to_owned())?;
    check(catalog.instance_types.is_sorted_by(|a, b| a.name < b.name), || {
        "types are not sorted by name".to_owned()
    })?;
    for instance_type in &catalog.instance_types {
        let wrong = |what: &str| Err(Failure::Broken(format!("{}: {what}", instance_type.name)));
        for key in [ARCH, OS, ZONE, INSTANCE_TYPE] {
            if !instance_type.requirements.contains_key(key) {
                return wrong(&format!("does not say its {key}"));
            }
        }
        if instance_type.offerings.is_empty() {
            return wrong("has no offering");
        }
        for offering in &instance_type.offerings {
            if offering.zone().is_none() || offering.capacity_type().is_none() {
                return wrong("has an offering without zone or capacity type");
            }
            if offering.price == Price::MAX {
                return wrong("has an offering without a price");
            }
            // Nodes of an offering may lack a label that those of another one have, such as a reservation.
            let values = offering.requirements.iter().filter(|wanted| !wanted.allows_missing());
            if !instance_type.requirements.overlaps(&values.cloned().collect()) {
                return wrong("has an offering that contradicts it");
            }
        }
        let allocatable = instance_type.allocatable();
        if !allocatable.fits(&instance_type.capacity) || allocatable.pods() <= 0 {
            return wrong("offers more than it has, or no pods");
        }
    }
    Ok(())
}

async fn unchanged(harness: &dyn Harness) -> Verdict {
    let (first, second) = (catalog(harness).await?, catalog(harness).await?);
    check(Arc::ptr_eq(&first, &second), || "a second look copies the catalogue".to_owned())
}

async fn dry(harness: &dyn Harness) -> Verdict {
    let before = catalog(harness).await?;
    let zone =
        zones(&before).into_iter().next().ok_or_else(|| Failure::Broken("no zone is sold".to_owned()))?;
    inject(harness, Fault::Exhaust { zone: Some(zone.clone()) }).await?;
    let mut requirements = on_demand();
    requirements.add(only(ZONE, &zone));
    let answer = launch(harness, &claim(harness, "dry", "dry", requirements), 1).await?;
    check(answer.is_err(), || format!("launched in exhausted zone {zone}"))?;
    let after = catalog(harness).await?;
    check(after.instance_types.len() == before.instance_types.len(), || {
        "types have left the catalogue".to_owned()
    })?;
    let count = |of: &Catalog, available: bool| {
        let offerings = of.instance_types.iter().flat_map(|t| &t.offerings);
        offerings.filter(|offering| !available || offering.available).count()
    };
    check(count(&after, false) == count(&before, false), || "offerings have left the catalogue".to_owned())?;
    check(count(&after, true) < count(&before, true), || "nothing is shown as unavailable".to_owned())
}

/// How many instances are left of each shared capacity.
fn capacities(catalog: &Catalog) -> Result<BTreeMap<Str, u32>, Failure> {
    let mut all: BTreeMap<Str, u32> = BTreeMap::new();
    for offering in catalog.instance_types.iter().flat_map(|t| &t.offerings) {
        let Some(shared) = &offering.shared_capacity else { continue };
        let (name, left) = (&shared.name, shared.instances);
        let known = *all.entry(name.clone()).or_insert(left);
        check(known == left, || {
            format!("{known} instances are left of {name}, and {left} for another type")
        })?;
        check(left > 0 || !offering.available, || {
            format!("nothing is left of {name}, and an offering of it is available")
        })?;
    }
    Ok(all)
}

/// The requirements of an available offering that draws on a shared capacity, and the name of that.
fn sharing(catalog: &Catalog) -> Option<(Requirements, Str)> {
    for instance_type in &catalog.instance_types {
        for offering in instance_type.offerings.iter().filter(|offering| offering.available) {
            let (zone, capacity_type) = (offering.zone()?, offering.capacity_type()?);
            let wanted = [(INSTANCE_TYPE, &instance_type.name), (ZONE, zone), (CAPACITY_TYPE, capacity_type)];
            let requirements = wanted.into_iter().map(|(key, value)| only(key, value)).collect();
            if let Some(shared) = &offering.shared_capacity {
                return Some((requirements, shared.name.clone()));
            }
        }
    }
    None
}

async fn shared(harness: &dyn Harness) -> Verdict {
    let known = catalog(harness).await?;
    let before = capacities(&known)?;
    let (requirements, name) =
        sharing(&known).ok_or(Failure::NotApplicable("instance types share no finite capacity"))?;
    launched(harness, &claim(harness, "a", "shared", requirements), 1).await?;
    harness.advance(harness.consistency()).await;
    let after = capacities(&*catalog(harness).await?)?;
    let left = |of: &BTreeMap<Str, u32>| of.get(&name).copied();
    let expected = left(&before).map(|left| left.saturating_sub(1));
    check(left(&after) == expected, || {
        format!("{:?} were left of {name}, and after a launch {:?}", left(&before), left(&after))
    })
}

async fn schema(harness: &dyn Harness) -> Verdict {
    let provider = harness.provider();
    for instance_type in &catalog(harness).await?.instance_types {
        let offered = instance_type.offerings.iter().flat_map(|offering| offering.requirements.iter());
        for requirement in instance_type.requirements.iter().chain(offered) {
            let key = requirement.key();
            check(provider.info().schema.is_well_known(key), || format!("{key} is not well known"))?;
        }
    }
    Ok(())
}

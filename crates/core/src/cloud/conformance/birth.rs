//! What is launched, compared with the cloud itself, and what its node is born with.

use super::{
    Case, Failure, Harness, Verdict,
    support::{catalog, check, claim, good, launched, on_demand, only, owned, truth, zones},
};
use crate::{
    cloud::Instance,
    model::{
        Node, NodeClaim, Requirement, Resources, Taint, TaintEffect,
        labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE},
    },
};

pub(super) const CASES: [Case; 6] = [
    Case { name: "the cloud runs what the provider tells", run: |h| Box::pin(told_truly(h)) },
    Case { name: "an instance has room for what its claim requests", run: |h| Box::pin(roomy(h)) },
    Case { name: "an instance has the resources of the catalogue", run: |h| Box::pin(as_in_catalogue(h)) },
    Case { name: "an instance keeps the labels of its launch", run: |h| Box::pin(labels_stay(h)) },
    Case { name: "a node is born with the labels and taints of its claim", run: |h| Box::pin(born(h)) },
    Case { name: "a node is let be registered, and so it stays", run: |h| Box::pin(registrable(h)) },
];

fn label<'a>(instance: &'a Instance, key: &str) -> &'a str {
    instance.labels.get(key).map_or("", |value| value)
}

async fn told_truly(harness: &dyn Harness) -> Verdict {
    let mut requirements = on_demand();
    let zone = zones(&*catalog(harness).await?).pop();
    requirements.add(only(ZONE, &zone.ok_or_else(|| Failure::Broken("no zone is sold".to_owned()))?));
    let launched = launched(harness, &claim(harness, "a", "truth", requirements), 1).await?;
    harness.advance(harness.consistency()).await;
    let read = good("get", harness.provider().get(&launched.provider_id).await)?;
    let listed = good("list", harness.provider().list().await)?;
    let real = truth(harness, &launched.provider_id).await?;
    let uid = harness.cluster_uid();
    check(real.cluster_uid.as_ref() == Some(&uid), || {
        format!("the cloud has it as of cluster {:?}", real.cluster_uid)
    })?;
    for (by, told) in [("launch", Some(&launched)), ("get", Some(&read)), ("list", listed.first())] {
        let told = told.ok_or_else(|| Failure::Broken(format!("{by} tells nothing")))?;
        let labels =
            [(INSTANCE_TYPE, &real.instance_type), (ZONE, &real.zone), (CAPACITY_TYPE, &real.capacity_type)];
        for (key, real) in labels {
            let told = label(told, key);
            check(told == &**real, || format!("{by} tells {key}={told}, the cloud runs {real}"))?;
        }
    }
    Ok(())
}

/// The catalogue need not know the labels that a launch tells (a rack, a partition). A launch that is repeated tells them again, and so do get and
/// list: a controller that crashed before it wrote the first answer down has no other source.
async fn labels_stay(harness: &dyn Harness) -> Verdict {
    let claim = claim(harness, "a", "labels", on_demand());
    let first = launched(harness, &claim, 1).await?;
    harness.restart().await;
    harness.advance(harness.consistency()).await;
    let repeated = launched(harness, &claim, 1).await?;
    let read = good("get", harness.provider().get(&first.provider_id).await)?;
    let listed = good("list", harness.provider().list().await)?;
    for (by, told) in [("a repeated launch", Some(&repeated)), ("get", Some(&read)), ("list", listed.first())]
    {
        let told = told.ok_or_else(|| Failure::Broken(format!("{by} tells nothing")))?;
        for (key, value) in &first.labels {
            let now = told.labels.get(key);
            check(now == Some(value), || format!("the launch told {key}={value}, {by} tells {now:?}"))?;
        }
    }
    Ok(())
}

async fn roomy(harness: &dyn Harness) -> Verdict {
    let (catalog, requirements) = (catalog(harness).await?, on_demand());
    let sold = || catalog.instance_types.iter().filter_map(|t| Some((t, t.cheapest(&requirements)?)));
    let cheapest = sold().min_by_key(|(_, offering)| offering.price);
    let small = cheapest.map_or(0, |(t, offering)| t.allocatable_of(offering).cpu());
    let requests = Resources::of(small + 1, 0);
    if !sold().any(|(t, offering)| requests.fits(&t.allocatable_of(offering))) {
        return Err(Failure::NotApplicable("the cheapest instance type is the largest"));
    }
    let claim = NodeClaim { requests: requests.clone(), ..claim(harness, "a", "room", requirements) };
    let instance = launched(harness, &claim, 1).await?;
    let real = truth(harness, &instance.provider_id).await?;
    let fits = catalog.get(&real.instance_type).is_some_and(|t| requests.fits(&t.allocatable()));
    check(fits && requests.fits(&instance.allocatable), || {
        format!("{} millicores are requested, and {} is launched", small + 1, real.instance_type)
    })
}

async fn as_in_catalogue(harness: &dyn Harness) -> Verdict {
    let catalog = catalog(harness).await?;
    let instance = launched(harness, &claim(harness, "a", "resources", on_demand()), 1).await?;
    let name = label(&instance, INSTANCE_TYPE);
    let of_catalogue = catalog.get(name);
    let of_catalogue =
        of_catalogue.ok_or_else(|| Failure::Broken(format!("{name} is not in the catalogue")))?;
    let (zone, capacity_type) = (label(&instance, ZONE), label(&instance, CAPACITY_TYPE));
    let is = |value: Option<&crate::model::Str>, wanted: &str| value.is_some_and(|value| **value == *wanted);
    let mut offerings = of_catalogue.offerings.iter();
    let offering = offerings.find(|o| is(o.zone(), zone) && is(o.capacity_type(), capacity_type));
    let expected = offering.map_or_else(|| of_catalogue.allocatable(), |o| of_catalogue.allocatable_of(o));
    check(instance.capacity == of_catalogue.capacity, || {
        format!("its capacity is {:?}, the catalogue has {:?}", instance.capacity, of_catalogue.capacity)
    })?;
    check(instance.allocatable == expected, || {
        format!("{:?} are allocatable, the catalogue has {expected:?}", instance.allocatable)
    })
}

async fn born(harness: &dyn Harness) -> Verdict {
    let mut requirements = on_demand();
    requirements.add(Requirement::is_in("conformance.example/tier", ["gold"]));
    let own = Taint::new("conformance.example/dedicated", "a", TaintEffect::NoSchedule);
    let startup = Taint::new("conformance.example/agent", "", TaintEffect::NoExecute);
    let claim = NodeClaim {
        labels: [("conformance.example/team".into(), "a".into())].into(),
        taints: vec![own.clone()],
        startup_taints: vec![startup.clone()],
        ..claim(harness, "a", "born", requirements)
    };
    let instance = launched(harness, &claim, 1).await?;
    let real = truth(harness, &instance.provider_id).await?;
    let unregistered = Taint::new("karpenter.sh/unregistered", "", TaintEffect::NoExecute);
    let mut taints = vec![unregistered, own];
    taints.extend(harness.provider().info().bootstraps_startup_taints.then_some(startup));
    for taint in &taints {
        check(real.node_taints.contains(taint), || {
            format!("it is born without the taint {}:{}", taint.key, taint.effect.as_str())
        })?;
    }
    let labels = [
        ("conformance.example/team", "a"),
        ("conformance.example/tier", "gold"),
        ("karpenter.sh/nodepool", "conformance"),
    ];
    for (key, value) in labels {
        let real = real.node_labels.get(key);
        check(real.is_some_and(|real| **real == *value), || {
            format!("it is born with {key}={real:?} instead of {value}")
        })?;
    }
    Ok(())
}

/// The controllers may ask again after an answer that was not written down, also in another process.
async fn registrable(harness: &dyn Harness) -> Verdict {
    /// How often a node may be held.
    const TIMES: usize = 60;
    let (claim, instance) = owned(harness, claim(harness, "a", "registrable", on_demand())).await?;
    let real = truth(harness, &instance.provider_id).await?;
    let node = Node {
        provider_id: Some(instance.provider_id.clone()),
        labels: real.node_labels,
        taints: real.node_taints,
        ..Node::new(&*real.node_name, harness.now())
    };
    let ask =
        async || good("before_registration", harness.provider().before_registration(&claim, &node).await);
    let mut held = ask().await?;
    for _ in 0..TIMES {
        let Some(hold) = &held else { break };
        check(!hold.after.is_zero(), || "a node is held, and is to be asked for again at once".to_owned())?;
        harness.advance(hold.after).await;
        held = ask().await?;
    }
    check(held.is_none(), || format!("its node is still held after {TIMES} times: {held:?}"))?;
    let again = ask().await?;
    harness.restart().await;
    let restarted = ask().await?;
    check(again.is_none() && restarted.is_none(), || {
        format!("a node that may be registered is held again: {again:?}, after a restart {restarted:?}")
    })
}

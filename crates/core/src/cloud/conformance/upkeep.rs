//! What a provider does beside single instances: its steps, its repair policies, and another cluster of the same name.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    CallFault, Case, Failure, Fault, Harness, Operation, Verdict,
    support::{check, claim, good, inject, launch, on_demand, owned, pool, request, still_runs},
};
use crate::{
    cloud::{CloudError, Instance, LaunchError, Outlook, Round},
    model::ProviderId,
};

pub(super) const CASES: [Case; 4] = [
    Case {
        name: "a step waits before its next round, and lets a healthy instance be",
        run: |h| Box::pin(steps(h)),
    },
    Case { name: "a step whose calls fail lets a healthy instance be", run: |h| Box::pin(failing_steps(h)) },
    Case { name: "a repair policy gives a node time", run: |h| Box::pin(repairs(h)) },
    Case {
        name: "two clusters of one name do not touch each other's instances",
        run: |h| Box::pin(namesakes(h)),
    },
];

/// A healthy instance, and the cluster with it.
async fn healthy(harness: &dyn Harness, batch: &str) -> Result<(Instance, Outlook), Failure> {
    if harness.provider().steps().is_empty() {
        return Err(Failure::NotApplicable("the provider has no steps"));
    }
    let (claim, instance) = owned(harness, claim(harness, "a", batch, on_demand())).await?;
    harness.advance(harness.consistency()).await;
    let pools = vec![Arc::new(pool(harness, harness.class()))];
    let outlook = Outlook::at(harness.now()).with_nodes(vec![(Arc::new(claim), None)]).with_pools(pools);
    Ok((instance, outlook))
}

/// Checks that a round ends nothing that is well, and waits.
fn check_round(name: &str, round: &Round, instance: &Instance) -> Verdict {
    check(!round.again.is_zero(), || format!("step {name} is due again at once: it never rests"))?;
    let ends = round.interruptions.iter().find(|one| one.id == instance.provider_id);
    check(ends.is_none(), || format!("step {name} reports a healthy instance: {ends:?}"))
}

async fn steps(harness: &dyn Harness) -> Verdict {
    let (instance, outlook) = healthy(harness, "steps").await?;
    let steps = harness.provider().steps();
    let names: BTreeSet<&str> = steps.iter().map(|step| step.name()).collect();
    check(names.len() == steps.len(), || format!("two of {} steps have one name", steps.len()))?;
    for step in &steps {
        // The second round meets what the first one left.
        for _ in 0..2 {
            check_round(step.name(), &good(step.name(), step.run(&outlook).await)?, &instance)?;
        }
    }
    still_runs(harness, &instance.provider_id).await
}

async fn failing_steps(harness: &dyn Harness) -> Verdict {
    let (instance, outlook) = healthy(harness, "failing-steps").await?;
    for operation in [Operation::Get, Operation::List] {
        for step in harness.provider().steps() {
            inject(harness, Fault::Call(operation, CallFault::Fail)).await?;
            // Whether a step needs the call is its own affair.
            if let Ok(round) = step.run(&outlook).await {
                check_round(step.name(), &round, &instance)?;
            }
            harness.heal().await;
        }
    }
    still_runs(harness, &instance.provider_id).await
}

async fn repairs(harness: &dyn Harness) -> Verdict {
    let provider = harness.provider();
    let policies = &provider.info().repair_policies;
    if policies.is_empty() {
        return Err(Failure::NotApplicable("the provider repairs no nodes"));
    }
    let mut seen = BTreeSet::new();
    for policy in policies {
        let (condition, status) = (&*policy.condition, &*policy.status);
        check(!condition.is_empty() && matches!(status, "True" | "False" | "Unknown"), || {
            format!("no node has the condition {condition:?} of status {status:?}")
        })?;
        check(!policy.toleration.is_zero(), || {
            format!("a node is replaced in the moment in which {condition} is {status}")
        })?;
        check(seen.insert((condition, status)), || format!("{condition}={status} has two policies"))?;
    }
    Ok(())
}

async fn namesakes(harness: &dyn Harness) -> Verdict {
    let Some(other) = harness.namesake().await else {
        return Err(Failure::NotApplicable("the harness has no second cluster"));
    };
    let ours = harness.provider();
    // The same names on both sides, as two clusters with one history have them.
    let claim = claim(harness, "a", "namesakes", on_demand());
    let own = good("launch", launch(harness, &claim, 1).await?)?;
    let theirs = other.launch(&[request(&claim, 1)]).await.pop();
    let theirs = theirs.unwrap_or_else(|| Err(LaunchError::Unknown("no answer".into())));
    let theirs = good("launch of the other", theirs)?;
    check(own.provider_id != theirs.provider_id, || {
        format!("both clusters were given the instance {}", own.provider_id)
    })?;
    harness.advance(harness.consistency()).await;
    for (provider, listed, foreign) in [(&ours, &own, &theirs), (&other, &theirs, &own)] {
        let ids: Vec<ProviderId> =
            good("list", provider.list().await)?.into_iter().map(|one| one.provider_id).collect();
        check(ids == [listed.provider_id.clone()], || {
            format!("{ids:?} are listed, not {}", listed.provider_id)
        })?;
        let (id, mut claim) = (&foreign.provider_id, claim.clone());
        claim.provider_id = Some(id.clone());
        for answer in [provider.terminate(&claim, id).await, provider.terminate_orphan(id).await] {
            check(matches!(answer, Err(CloudError::NotOwned { .. })), || {
                format!("the end of the other cluster's instance is {answer:?}")
            })?;
        }
    }
    harness.advance(harness.termination()).await;
    still_runs(harness, &own.provider_id).await?;
    still_runs(harness, &theirs.provider_id).await
}

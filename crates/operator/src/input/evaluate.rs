//! The conditions that the controllers would have set on NodeClaims by a given time: those that make candidates.
//!
//! A dump has them as of its creation, a manifest does not have them; a decision at `--at` needs them as of
//! then. The provider is not called, so drift that only it can detect is taken from the input.

use fleetwright_api::{
    self as api,
    condition::{Condition, ConditionStatus},
};
use fleetwright_core::{
    cloud::{self, ProviderInfo},
    model::{self, nodeclaim::ConditionType},
    nodeclaim::{
        ClaimStep, ClaimView,
        conditions::{Consolidatable, Drifted},
    },
};
use fleetwright_state::Index;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Reasons of drift that follow from the NodePool and its instance types; all others are the provider's.
const OF_POOL: [&str; 3] = ["NodePoolDrifted", "RequirementsDrifted", "InstanceTypeNotFound"];

/// Updates the conditions of all NodeClaims to `now`.
pub(crate) fn conditions(index: &mut Index, now: Timestamp) {
    let mut provider = ProviderInfo::new("input", []);
    provider.schema = index.schema().clone();
    let names: Vec<String> = index.claim_models().map(|claim| claim.name.to_string()).collect();
    for name in names {
        let steps = steps(index, &name, &provider, now);
        let Some(raw) = index.claim(&name).filter(|_| !steps.is_empty()) else { continue };
        let mut claim = (**raw).clone();
        for step in steps {
            write(&mut claim, step, now);
        }
        index.apply(claim);
    }
}

fn steps(index: &Index, name: &str, provider: &ProviderInfo, now: Timestamp) -> Vec<ClaimStep> {
    let Some(claim) = index.claim_model(name) else { return Vec::new() };
    let nodes: Vec<_> = index.nodes_of_claim(name).cloned().collect();
    let pods: Vec<_> = nodes.iter().flat_map(|node| index.pods_on(&node.name)).cloned().collect();
    let pool = claim.pool.as_deref().and_then(|pool| index.pool_model(pool));
    let catalog = pool.and_then(|pool| index.catalog(&pool.name));
    let pool = pool.map(|pool| &**pool);
    let view = ClaimView {
        claim,
        nodes: &nodes,
        pool,
        pods: &pods,
        budgets: &[],
        published_drivers: None,
        provider,
    };
    let known = by_provider(index, name);
    let drifted = Drifted { catalog: catalog.map(|catalog| &**catalog), provider: known.as_ref() };
    Consolidatable.next(&view, now).and(drifted.next(&view, now)).steps
}

/// Drift of the input that only the provider can have detected.
fn by_provider(index: &Index, name: &str) -> Option<cloud::Drift> {
    let status = index.claim(name)?.status.as_ref()?;
    let drifted = api::condition::find(&status.conditions, ConditionType::Drifted.as_str())?;
    let own = drifted.is_true() && !OF_POOL.contains(&drifted.reason.as_str());
    own.then(|| cloud::Drift(drifted.reason.as_str().into()))
}

fn write(claim: &mut api::NodeClaim, step: ClaimStep, now: Timestamp) {
    let conditions = &mut claim.status.get_or_insert_default().conditions;
    match step {
        ClaimStep::Clear(condition) => conditions.retain(|known| known.type_ != condition.as_str()),
        ClaimStep::Condition(change) => {
            let status = match change.status {
                model::ConditionStatus::True => ConditionStatus::True,
                model::ConditionStatus::False => ConditionStatus::False,
                model::ConditionStatus::Unknown => ConditionStatus::Unknown,
            };
            // Another reason is no transition: drift is ordered by its transition time.
            let known = api::condition::find(conditions, change.condition.as_str());
            let since = known.filter(|known| known.status == status);
            let since = since.and_then(|known| known.last_transition_time.clone()).unwrap_or(Time(now));
            conditions.retain(|known| known.type_ != change.condition.as_str());
            conditions.push(Condition {
                type_: change.condition.as_str().to_owned(),
                status,
                reason: change.reason.to_string(),
                message: change.message,
                last_transition_time: Some(since),
                ..Condition::default()
            });
        }
        // These two stages return no other steps.
        _ => {}
    }
}

//! What each constraint of a pod leaves of the instance types of a NodePool: the solver is asked for a pod without constraints, then
//! with one more at a time.

use std::sync::Arc;

use fleetwright_core::{
    model::{Pod, Resources, Rounding, Snapshot, Toleration, figures, pod::PodSpec},
    scheduling::{PoolVerdict, PreparedSnapshot, Rules, Unplaced},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::constraints::{as_asked, ask, only_pool};

/// The constraints of a pod for one NodePool.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Funnel {
    /// The NodePool.
    pub(super) node_pool: String,
    /// From the catalogue to what is left.
    pub(super) steps: Vec<FunnelStep>,
    /// Why nothing is left; absent where something is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
}

/// A constraint.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FunnelStep {
    /// The constraint.
    pub(super) constraint: String,
    /// The instance types that are left with it and those before it.
    pub(super) left: usize,
}

/// A constraint, and how a spec takes it over from the whole one.
type TakeOver = Box<dyn Fn(&mut PodSpec, &PodSpec)>;
type Constraint = (String, TakeOver);

/// The funnel of a pod for a NodePool.
pub(crate) fn of(snapshot: &Snapshot, rules: &Rules, pod: &Pod, pool: &str) -> Funnel {
    let only = only_pool(snapshot, pool);
    // A NodeClaim names at most 600 types, cheapest first; the funnel counts all of them.
    let rules = &Rules { max_instance_types: usize::MAX, ..rules.clone() };
    let mut prepared = PreparedSnapshot::new(&only, rules);
    let total = snapshot.catalog(pool).map_or(0, |catalog| catalog.instance_types.len());
    let mut steps = vec![FunnelStep { constraint: "catalogue".to_owned(), left: total }];
    let whole = &*pod.spec;
    let mut asked = pod.clone();
    // The validator of the solver reads labels and identity, which stay.
    let mut spec = PodSpec {
        requests: Resources::new().with("pods", 1),
        tolerations: vec![Toleration::everything()],
        ..PodSpec::default()
    };
    let mut why = None;
    for (constraint, take_over) in constraints(whole) {
        take_over(&mut spec, whole);
        asked.spec = Arc::new(spec.clone());
        let plan = ask(&mut prepared, &Arc::new(asked.clone()));
        let left = plan.new_claims.first().map_or(0, |new_claim| new_claim.instance_types.len());
        steps.push(FunnelStep { constraint, left });
        if left == 0 {
            why = plan.unplaced.first().map(|(_, why)| match why {
                Unplaced::NoPoolFits(verdicts) => {
                    let of_pod = |verdict: &PoolVerdict| {
                        let eliminated = as_asked(&verdict.eliminated, pod, &asked);
                        PoolVerdict { eliminated, ..verdict.clone() }.to_string()
                    };
                    verdicts.iter().map(of_pod).collect::<Vec<_>>().join("; ")
                }
                other => other.to_string(),
            });
            break;
        }
    }
    // Only what takes types away is of interest, and the last.
    let last = steps.len().saturating_sub(1);
    let before: Vec<usize> = steps.iter().map(|step| step.left).collect();
    let mut at = 0;
    steps.retain(|step| {
        at += 1;
        let here = at - 1;
        here < 2 || here == last || before[here - 1] != step.left
    });
    Funnel { node_pool: pool.to_owned(), steps, why }
}

fn constraints(whole: &PodSpec) -> Vec<Constraint> {
    let mut all: Vec<Constraint> = vec![(
        "NodePool requirements, limits, DaemonSets and available offerings".to_owned(),
        Box::new(|_, _| {}),
    )];
    let mut add = |name: String, take_over: TakeOver| all.push((name, take_over));
    add("taints".to_owned(), Box::new(|spec, whole| spec.tolerations.clone_from(&whole.tolerations)));
    for (at, (key, value)) in whole.node_selector.iter().enumerate() {
        add(
            format!("nodeSelector {key}={value}"),
            Box::new(move |spec, whole| spec.node_selector.push(whole.node_selector[at].clone())),
        );
    }
    if let [term] = whole.required_node_terms.as_slice() {
        for (at, wanted) in term.iter().enumerate() {
            add(
                format!("node affinity {wanted}"),
                Box::new(move |spec, whole| {
                    spec.required_node_terms = vec![whole.required_node_terms[0][..=at].to_vec()];
                }),
            );
        }
    } else if !whole.required_node_terms.is_empty() {
        let name = format!("node affinity (one of {} terms)", whole.required_node_terms.len());
        add(name, Box::new(|spec, whole| spec.required_node_terms.clone_from(&whole.required_node_terms)));
    }
    for (name, amount) in whole.requests.iter().filter(|(name, _)| name.as_str() != "pods") {
        add(
            format!("requests {}={}", name.as_str(), figures::amount(&name, amount, Rounding::Up)),
            Box::new(move |spec, _| spec.requests.set(&name, amount)),
        );
    }
    if !whole.volumes.is_empty() {
        add("volumes".to_owned(), Box::new(|spec, whole| spec.volumes.clone_from(&whole.volumes)));
    }
    if !whole.resource_claims.is_empty() {
        add(
            "resource claims".to_owned(),
            Box::new(|spec, whole| spec.resource_claims.clone_from(&whole.resource_claims)),
        );
    }
    if !whole.host_ports.is_empty() {
        add("host ports".to_owned(), Box::new(|spec, whole| spec.host_ports.clone_from(&whole.host_ports)));
    }
    add(
        "topology spread, pod affinity and anti-affinity".to_owned(),
        Box::new(|spec, whole| *spec = whole.clone()),
    );
    all
}

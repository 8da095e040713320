//! Describes plans, NodeClaims, commands and held acts.

use jiff::Timestamp;

use super::{
    digest::Digest,
    record::{
        Choice, ClaimChoice, DecisionDraft, DecisionInputs, DecisionOutcome, DisruptionChoice, HeldChoice,
        LISTED, NodeRow, OfferingRow, OutcomeStatus, PlanChoice, ReasonRow, ReplacementRow, SavingRow,
        bounded,
    },
};
use crate::{
    disruption::{Candidate, Command, StartedCommand},
    model::{Pod, Price, labels},
    safety::{Act, Held},
    scheduling::{Chosen, NewClaim, Plan},
};

/// Instance types that are listed as candidates of a NodeClaim, cheapest first.
const CANDIDATES: usize = 5;

/// The plan of a batch.
pub fn of_plan(plan: &Plan, inputs: DecisionInputs, now: Timestamp) -> DecisionDraft {
    let choice = PlanChoice {
        pods: inputs.pods,
        node_claims: plan.new_claims.len(),
        pods_on_new_nodes: plan.new_claims.iter().map(|new_claim| new_claim.pods.len()).sum(),
        pods_on_existing_nodes: plan.existing.iter().map(|placement| placement.pods.len()).sum(),
        unschedulable: plan.unplaced.len(),
        price: plan.cost.hourly.to_string(),
        effective_price: plan.cost.effective.to_string(),
        lower_bound: plan.cost.lower_bound.to_string(),
        partial: plan.partial,
    };
    DecisionDraft { outcome: decided(now), ..draft(Choice::Plan(choice), inputs) }
}

/// What a NodeClaim is created for.
pub struct NodeClaimContext<'a> {
    /// Its name.
    pub name: &'a str,
    /// The pods that it is created for, which may be fewer than were planned.
    pub pods: &'a [std::sync::Arc<Pod>],
    /// The plan or the command that it is part of, if that is recorded.
    pub parent: Option<String>,
    /// What that was decided on.
    pub inputs: DecisionInputs,
}

/// A NodeClaim to create.
pub fn of_claim(new_claim: &NewClaim, context: NodeClaimContext<'_>, now: Timestamp) -> DecisionDraft {
    let NodeClaimContext { name, pods, parent, inputs } = context;
    let requests = new_claim.requests.iter();
    let choice = ClaimChoice {
        node_claim: name.to_owned(),
        node_pool: new_claim.pool.name.to_string(),
        offering: offering(&new_claim.chosen),
        requests: requests
            .map(|(resource, amount)| (resource.to_string(), resource.quantity(amount).to_string()))
            .collect(),
        pods: pods.iter().take(LISTED).map(|pod| pod.id.to_string()).collect(),
        pods_total: pods.len(),
    };
    DecisionDraft {
        parent,
        candidates: candidates(new_claim),
        candidates_total: new_claim.instance_types.len(),
        outcome: Some(DecisionOutcome::new(OutcomeStatus::Started, now, None)),
        ..draft(Choice::NodeClaim(choice), inputs)
    }
}

/// A disruption command.
pub fn of_command(command: &Command, inputs: DecisionInputs, now: Timestamp) -> DecisionDraft {
    let replacements = command.replacements.iter();
    let choice = DisruptionChoice {
        command: None,
        action: command.decision().as_str().to_owned(),
        method: command.method.name.to_owned(),
        reason: command.method.reason.to_string(),
        nodes: command.candidates.iter().take(LISTED).map(node).collect(),
        nodes_total: command.candidates.len(),
        replacements: replacements
            .clone()
            .take(LISTED)
            .map(|new_claim| ReplacementRow {
                node_pool: new_claim.pool.name.to_string(),
                offering: offering(&new_claim.chosen),
            })
            .collect(),
        replacements_total: command.replacements.len(),
        pods: command.pods(),
    };
    let priced = command.candidates.iter().all(is_priced);
    DecisionDraft {
        candidates: replacements.clone().flat_map(candidates).take(LISTED).collect(),
        candidates_total: replacements.map(|new_claim| new_claim.instance_types.len()).sum(),
        saving: priced.then(|| SavingRow {
            list: difference(command.price_before(), command.price_after()),
            effective: difference(command.effective_before(), command.effective_after()),
            before: command.price_before().to_string(),
            after: command.price_after().to_string(),
        }),
        reasons: command
            .scores
            .iter()
            .map(|score| ReasonRow {
                reason: "Balanced".to_owned(),
                message: bounded(score.to_string()),
                node_pool: Some(score.pool.to_string()),
            })
            .collect(),
        outcome: decided(now),
        ..draft(Choice::Disruption(choice), inputs)
    }
}

/// A command of an earlier process that this one resumes. The prices of its replacements are not known any more.
pub struct ResumedCommand<'a> {
    /// Its id.
    pub id: &'a str,
    /// The command.
    pub started: &'a StartedCommand,
}

/// A resumed command, which has no saving.
pub fn of_resumed(resumed: &ResumedCommand<'_>, inputs: DecisionInputs, now: Timestamp) -> DecisionDraft {
    let ResumedCommand { id, started } = resumed;
    let mut described = of_command(&started.command, inputs, now);
    if let Choice::Disruption(choice) = &mut described.choice {
        choice.command = Some((*id).to_owned());
        choice.action = started.decision().as_str().to_owned();
        choice.replacements_total = started.replacements.len();
    }
    let outcome = DecisionOutcome::new(
        OutcomeStatus::Started,
        started.started,
        Some("resumed from an earlier process".to_owned()),
    );
    DecisionDraft { saving: None, outcome: Some(outcome), ..described }
}

/// What makes a held act another one. A limit that holds all acts of a kind holds one act; a longer pause is another one.
#[must_use]
pub fn held_key(act: Act, subject: &str, held: &Held) -> String {
    let (act, limit) = (act.as_str(), held.limit().as_str());
    match held {
        Held::LaunchLoop(pause) => format!("{act} {limit} {} {}", pause.owner, pause.missed),
        Held::ReplicaBackoff(pause) => format!("{act} {limit} {subject} {}", pause.rounds),
        Held::EvictionRate { .. } | Held::CreationRate { .. } | Held::Share { .. } => {
            format!("{act} {limit}")
        }
        _ => format!("{act} {limit} {subject}"),
    }
}

/// An act that a limit holds.
pub fn of_held(act: Act, subject: &str, held: &Held, now: Timestamp) -> DecisionDraft {
    let subject = match held {
        Held::LaunchLoop(pause) => pause.owner.to_string(),
        _ => subject.to_owned(),
    };
    let mut digest = Digest::new();
    [act.as_str(), held.limit().as_str(), &subject, &held.to_string()]
        .iter()
        .for_each(|text| digest.text(text));
    let choice = HeldChoice {
        act: act.as_str().to_owned(),
        limit: held.limit().as_str().to_owned(),
        subject,
        until: held.left().and_then(|left| now.checked_add(left).ok()),
    };
    let reason = ReasonRow {
        reason: held.limit().as_str().to_owned(),
        message: bounded(held.to_string()),
        node_pool: None,
    };
    let inputs = DecisionInputs { digest: digest.to_string(), ..DecisionInputs::default() };
    DecisionDraft { reasons: vec![reason], ..draft(Choice::Held(choice), inputs) }
}

/// A decision with nothing but its choice and its inputs.
pub(super) fn draft(choice: Choice, inputs: DecisionInputs) -> DecisionDraft {
    DecisionDraft {
        choice,
        parent: None,
        inputs,
        candidates: Vec::new(),
        candidates_total: 0,
        saving: None,
        reasons: Vec::new(),
        outcome: None,
    }
}

fn decided(now: Timestamp) -> Option<DecisionOutcome> {
    Some(DecisionOutcome::new(OutcomeStatus::Decided, now, None))
}

/// Whether the list price of a node is known: those of other nodes count as zero.
fn is_priced(candidate: &Candidate) -> bool {
    candidate.price > Price::ZERO
}

/// `before` less `after`, below zero where `after` is more.
fn difference(before: Price, after: Price) -> String {
    if after > before {
        return format!("-{}", after.saturating_sub(before));
    }
    before.saturating_sub(after).to_string()
}

fn offering(chosen: &Chosen) -> OfferingRow {
    OfferingRow {
        instance_type: chosen.instance_type.to_string(),
        zone: chosen.zone.to_string(),
        capacity_type: chosen.capacity_type.to_string(),
        price: chosen.price.to_string(),
        effective_price: chosen.effective.to_string(),
    }
}

/// The first instance types of a new NodeClaim, in its order, each with its cheapest offering; the chosen one first.
fn candidates(new_claim: &NewClaim) -> Vec<OfferingRow> {
    let others = new_claim.instance_types.iter().filter(|known| known.name != new_claim.chosen.instance_type);
    let priced = others.filter_map(|instance_type| {
        let cheapest = instance_type.cheapest(&new_claim.requirements)?;
        let counts = new_claim.objective.effective(&new_claim.pool, instance_type, cheapest.price);
        Some(OfferingRow {
            instance_type: instance_type.name.to_string(),
            zone: cheapest.zone().map(ToString::to_string).unwrap_or_default(),
            capacity_type: cheapest.capacity_type().map(ToString::to_string).unwrap_or_default(),
            price: cheapest.price.to_string(),
            effective_price: counts.to_string(),
        })
    });
    std::iter::once(offering(&new_claim.chosen)).chain(priced).take(CANDIDATES).collect()
}

fn node(candidate: &Candidate) -> NodeRow {
    let label = |key| candidate.node.label(key).unwrap_or_default().to_owned();
    let priced = is_priced(candidate);
    NodeRow {
        node: candidate.name().to_owned(),
        node_claim: candidate.claim().map(|name| name.to_string()).unwrap_or_default(),
        node_pool: candidate.pool.name.to_string(),
        instance_type: label(labels::INSTANCE_TYPE),
        capacity_type: label(labels::CAPACITY_TYPE),
        price: priced.then(|| candidate.price.to_string()),
        effective_price: priced.then(|| candidate.effective.to_string()),
        pods: candidate.pods.len(),
    }
}

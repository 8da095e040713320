//! The disturbances and their execution.

use std::{sync::Arc, time::Duration};

use fleetwright_core::{
    cloud::{CallFault, GroundTruth, Operation},
    model::{Labels, labels::NODEPOOL},
};
use fleetwright_sim::simulator::{CloudFault, Simulator, SimulatorError};
use jiff::SignedDuration;
use serde_json::json;

use super::{APPS, Script, objects};
use crate::seeds::plan::Plan;

/// A disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Load,
    Protection,
    PoolDrifts,
    PoolLimits,
    PoolBudget,
    PoolDeleted,
    OverlayChanged,
    ClassChanged,
    ClassDeleted,
    ClaimDeleted,
    NodeDeleted,
    NodeTainted,
    FinalizerStripped,
    InstanceLost,
    InstanceInterrupted,
    InstanceForeign,
    InstanceGhost,
    CloudFault,
    Killed,
    CutOff,
    ClockJumps,
    UrgentLoad,
    Rollout,
    JobFails,
}

impl Action {
    /// Whether it changes what operators are allowed to do.
    pub(super) fn changes_what_is_allowed(self) -> bool {
        !matches!(
            self,
            Self::Load
                | Self::InstanceForeign
                | Self::InstanceGhost
                | Self::CloudFault
                | Self::Killed
                | Self::UrgentLoad
                | Self::Rollout
                | Self::JobFails
        )
    }
}

/// The disturbances of a run; an entry that is listed twice occurs twice as often.
pub(super) fn of(plan: &Plan) -> Vec<Action> {
    use Action::*;
    let mut all = vec![Load, Load, Load, Protection];
    if plan.edits {
        all.extend([PoolDrifts, PoolDrifts, PoolLimits, PoolBudget, PoolDeleted]);
    } else {
        all.push(PoolDrifts);
    }
    if plan.user_changes {
        all.extend([ClaimDeleted, NodeDeleted, NodeTainted, FinalizerStripped]);
    }
    if plan.overlays {
        all.extend([OverlayChanged; 3]);
    }
    if plan.classes {
        all.extend([ClassChanged, ClassChanged, ClassDeleted]);
    }
    if plan.losses {
        all.extend([InstanceLost, InstanceInterrupted, InstanceForeign, InstanceGhost]);
    }
    if plan.cloud_faults {
        all.extend([CloudFault; 4]);
    }
    if plan.crashes || plan.replicas > 1 {
        all.extend([Killed, Killed]);
    }
    if plan.replicas > 1 {
        all.extend([CutOff; 3]);
    }
    if plan.replacers {
        all.extend([UrgentLoad, UrgentLoad, Rollout, Rollout, JobFails]);
    }
    if plan.clocks {
        all.extend([ClockJumps; 2]);
    }
    all
}

impl Script {
    pub(super) fn act(
        &mut self,
        simulator: &mut Simulator,
        action: Action,
    ) -> Result<&'static str, SimulatorError> {
        match action {
            Action::Load => {
                let app = self.pick(&APPS).unwrap_or(APPS[0]);
                let replicas = self.draw(10);
                self.scale(simulator, app, replicas)?;
                Ok("load changed")
            }
            Action::Protection => {
                self.protected = !self.protected;
                let replicas = 1 + self.draw(4);
                self.scale(simulator, "web", replicas)?;
                Ok("protection changed")
            }
            Action::PoolDrifts | Action::PoolLimits | Action::PoolBudget | Action::PoolDeleted => {
                self.edit(simulator, action)
            }
            Action::OverlayChanged => {
                let adjustments = ["-60%", "-20%", "+20%", "+100%"];
                let kind = self.pick(&["on-demand", "spot"]).unwrap_or("spot");
                match self.pick(&adjustments).filter(|_| self.draw(4) > 0) {
                    Some(adjustment) => {
                        simulator.apply_object(objects::overlay(kind, adjustment)).map(|_| ())?
                    }
                    None => simulator.delete_object("NodeOverlay prices")?,
                }
                Ok("prices overlaid")
            }
            Action::ClassChanged => {
                let revision = self.draw(4);
                simulator.apply_object(simulator.node_class(revision))?;
                Ok("node class changed")
            }
            Action::ClassDeleted => {
                let class = simulator.node_class(0);
                let kind = class["kind"].as_str().unwrap_or_default();
                simulator.delete_object(&format!("{kind} default"))?;
                Ok("node class deleted")
            }
            Action::ClaimDeleted | Action::NodeDeleted | Action::NodeTainted | Action::FinalizerStripped => {
                self.by_hand(simulator, action)
            }
            Action::InstanceLost
            | Action::InstanceInterrupted
            | Action::InstanceForeign
            | Action::InstanceGhost => Ok(self.instance(simulator, action)),
            Action::CloudFault => {
                let number = self.draw(FAULTS);
                let (what, fault) = match number {
                    // In a cloud with fleets only, so that all other seeds stay as they were.
                    6 | 7 if self.plan.fleets && self.draw(2) == 0 => tag_fault(number == 6),
                    _ => cloud_fault(number),
                };
                Ok(if simulator.inject(&fault) { what } else { "nothing" })
            }
            Action::UrgentLoad => self.scale_urgent(simulator).map(|()| "urgent load changed"),
            Action::Rollout => self.roll_out(simulator).map(|()| "rollout"),
            Action::JobFails => self.start_failing_job(simulator).map(|()| "job fails"),
            Action::Killed | Action::CutOff | Action::ClockJumps => Ok(self.operator(simulator, action)),
        }
    }

    fn edit(&mut self, simulator: &Simulator, action: Action) -> Result<&'static str, SimulatorError> {
        let numbers: Vec<usize> = (0..self.plan.pools.len()).collect();
        let at = self.pick(&numbers).unwrap_or(0);
        let dice = self.draw(6);
        let pool = &mut self.plan.pools[at];
        let what = match action {
            Action::PoolLimits if pool.replicas.is_none() => {
                pool.nodes = 3 + dice * 2;
                "limits changed"
            }
            Action::PoolBudget => {
                let budgets = ["34%", "1", "0", "100%", "50%", "2"];
                pool.budget = budgets[usize::try_from(dice).unwrap_or(0)].to_owned();
                "budget changed"
            }
            Action::PoolDeleted if pool.name != "default" => {
                if self.deleted.insert(pool.name) {
                    simulator.delete_object(&format!("NodePool {}", pool.name))?;
                    return Ok("pool deleted");
                }
                self.deleted.remove(pool.name);
                "pool made again"
            }
            _ => {
                pool.generation += 1;
                "pool drifts"
            }
        };
        self.deleted.remove(pool.name);
        simulator.apply_object(pool.object(&simulator.node_class(0)))?;
        Ok(what)
    }

    fn by_hand(&mut self, simulator: &Simulator, action: Action) -> Result<&'static str, SimulatorError> {
        let (version, kind) = match action {
            Action::ClaimDeleted | Action::FinalizerStripped => ("karpenter.sh/v1", "NodeClaim"),
            _ => ("v1", "Node"),
        };
        let Some(name) = self.any(simulator, version, kind) else { return Ok("nothing") };
        match action {
            Action::ClaimDeleted | Action::NodeDeleted => {
                self.interventions.deleted.insert(name.clone());
                simulator.delete_object(&format!("{kind} {name}"))?;
                Ok(if kind == "Node" { "node deleted" } else { "claim deleted" })
            }
            Action::NodeTainted => {
                if let Some(node) = simulator.server().get(version, kind, "", &name) {
                    simulator.apply_object(objects::tainted(&node))?;
                }
                Ok("node tainted")
            }
            _ => {
                self.interventions.stripped.insert(name.clone());
                simulator.apply_object(json!({
                    "apiVersion": version, "kind": kind, "metadata": {"name": name, "finalizers": []},
                }))?;
                Ok("finalizer stripped")
            }
        }
    }

    fn instance(&mut self, simulator: &Simulator, action: Action) -> &'static str {
        let ours = |instance: &&Arc<GroundTruth>| !self.interventions.foreign.contains(&instance.provider_id);
        let instances: Vec<Arc<GroundTruth>> = self.instances.values().filter(ours).cloned().collect();
        let number = self.draw(1_000_000);
        let cloud = simulator.simulated_cloud();
        match (action, self.pick(&instances)) {
            (Action::InstanceLost, Some(instance)) if cloud.lose(&instance.provider_id) => {
                self.interventions.lost.insert(instance.provider_id.clone());
                "instance lost"
            }
            (Action::InstanceInterrupted, Some(instance)) if cloud.interrupt(&instance.provider_id) => {
                "instance interrupted"
            }
            (Action::InstanceForeign, Some(like)) => {
                let foreign = beside(&like, &format!("fake://elsewhere/i-{number:017x}"));
                let Some(id) = cloud.adopt(foreign.of_cluster("another-cluster")) else { return "nothing" };
                self.interventions.foreign.insert(id);
                "instance of another cluster"
            }
            // An instance without a claim is terminated only after a delay.
            (Action::InstanceGhost, Some(like)) => {
                let claim = format!("default-ghost-{number}");
                let mut ghost = beside(&like, &format!("fake://nowhere/i-{number:017x}"));
                (ghost.claim, ghost.launched_by) = (Some(claim.as_str().into()), None);
                if cloud.adopt(ghost).is_none() {
                    return "nothing";
                }
                self.interventions.stripped.insert(claim);
                "instance without a claim"
            }
            _ => "nothing",
        }
    }

    fn operator(&mut self, simulator: &mut Simulator, action: Action) -> &'static str {
        let operators: Vec<usize> = (0..simulator.replicas()).collect();
        let at = self.pick(&operators).unwrap_or(0);
        let dice = self.draw(20_000);
        match action {
            Action::Killed if self.plan.fleets && dice.is_multiple_of(2) => {
                self.chaos.cut_after(1 + dice % 16);
                "operator ends at a change"
            }
            Action::Killed => {
                simulator.kill(at, Duration::from_millis(u64::from(dice)));
                "operator killed"
            }
            Action::CutOff => {
                simulator.cut_off(at, Duration::from_millis(u64::from(dice).saturating_mul(2)));
                "operator cut off"
            }
            _ => {
                const JUMPS: [i64; 6] = [-600, -60, -5, 5, 60, 600];
                let by = self.pick(&JUMPS).unwrap_or(0);
                self.interventions.skewed = true;
                simulator.skew(at, SignedDuration::from_secs(by));
                "clock jumped"
            }
        }
    }
}

/// An instance with the owner of another one, whose node is elsewhere.
fn beside(like: &GroundTruth, id: &str) -> GroundTruth {
    let pool = like.node_labels.get_key_value(NODEPOOL).map(|(key, value)| (key.clone(), value.clone()));
    let mut instance = GroundTruth::new(id, like.instance_type.clone(), like.zone.clone());
    instance.cluster_uid.clone_from(&like.cluster_uid);
    instance.claim.clone_from(&like.claim);
    instance.launched_by.clone_from(&like.launched_by);
    instance.node_labels = pool.into_iter().collect::<Labels>();
    instance
}

/// The operator cannot tag an instance, or does not receive the answer.
fn tag_fault(after_effect: bool) -> (&'static str, CloudFault) {
    let fault = if after_effect { CallFault::LoseAnswer } else { CallFault::Fail };
    ("tagging fails", CloudFault::Tagging(fault, 2))
}

/// The number of faults to choose from.
const FAULTS: u32 = 12;

/// Faults of the cloud, by number.
fn cloud_fault(number: u32) -> (&'static str, CloudFault) {
    use CallFault::{Fail, LoseAnswer, Throttle};
    let calls = |operation, fault| CloudFault::Calls(operation, fault, 2);
    match number {
        0 => ("launch fails after its effect", calls(Operation::Launch, LoseAnswer)),
        1 => ("launch fails", calls(Operation::Launch, Fail)),
        2 => ("launch is slow", CloudFault::SlowLaunches { count: 2, by_ms: 40_000 }),
        3 => ("no spot capacity", CloudFault::NoSpot { for_seconds: 120 }),
        4 => ("node never joins", CloudFault::NeverJoins),
        5 => ("list fails", calls(Operation::List, Fail)),
        6 => ("end fails after its effect", calls(Operation::Terminate, LoseAnswer)),
        7 => ("end fails", calls(Operation::Terminate, Fail)),
        8 => ("get fails", calls(Operation::Get, Fail)),
        9 => ("launch is throttled", calls(Operation::Launch, Throttle)),
        10 => ("less memory than sold", CloudFault::SmallerMemory { percent: 70 }),
        _ => ("late taint", CloudFault::LateTaint { key: objects::LATE, after_ms: 5000 }),
    }
}

//! The disturbances and their execution.

use std::{sync::Arc, time::Duration};

use fleetwright_fake::{
    api::{ApiError, CloudInstance, Tags, WireTaint},
    cloud::{Adopted, Fault, Occasion, Op},
};
use fleetwright_sim::simulator::{Simulator, SimulatorError};
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
                let delay = self.draw(4) * 15;
                simulator.apply_object(objects::class(delay))?;
                Ok("node class changed")
            }
            Action::ClassDeleted => {
                simulator.delete_object("KWOKNodeClass default")?;
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
                simulator.cloud().inject(fault);
                Ok(what)
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
        simulator.apply_object(pool.object())?;
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
        let ours = |instance: &Arc<CloudInstance>| !self.interventions.foreign.contains(&instance.id);
        let instances: Vec<Arc<CloudInstance>> =
            simulator.cloud().instances().into_iter().filter(ours).collect();
        let number = self.draw(1_000_000);
        match (action, self.pick(&instances)) {
            (Action::InstanceLost, Some(instance)) => {
                simulator.cloud().lose(&instance.id);
                self.interventions.lost.insert(instance.id.clone());
                "instance lost"
            }
            (Action::InstanceInterrupted, Some(instance)) => {
                simulator.cloud().interrupt(&instance.id);
                "instance interrupted"
            }
            (Action::InstanceForeign, Some(like)) => {
                let id = format!("fake://elsewhere/i-{number:017x}");
                let tags = Tags { cluster_uid: Some("another-cluster".to_owned()), ..like.tags.clone() };
                simulator.cloud().adopt(foreign_instance(&id, tags));
                self.interventions.foreign.insert(id);
                "instance of another cluster"
            }
            // An instance without a claim is terminated only after a delay.
            (Action::InstanceGhost, Some(like)) => {
                let claim = format!("default-ghost-{number}");
                let tags = Tags { claim: Some(claim.clone()), batch: None, ..like.tags.clone() };
                simulator.cloud().adopt(foreign_instance(&format!("fake://nowhere/i-{number:017x}"), tags));
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

fn foreign_instance(id: &str, tags: Tags) -> Adopted {
    Adopted { provider_id: id.to_owned(), tags, joined: true, ..Adopted::default() }
}

/// The operator cannot tag an instance, or does not receive the answer.
fn tag_fault(after_effect: bool) -> (&'static str, Fault) {
    let error = ApiError::Failed { message: "internal error".to_owned() };
    let occasion = Occasion::next(2);
    ("tagging fails", Fault::FailCall { op: Op::Tag, occasion, after_effect, error })
}

/// The number of faults to choose from.
const FAULTS: u32 = 12;

/// Faults of the cloud, by number.
fn cloud_fault(number: u32) -> (&'static str, Fault) {
    let occasion = Occasion::next(2);
    let once = Occasion::next(1);
    let error = || ApiError::Failed { message: "internal error".to_owned() };
    let fails = |op, after_effect| Fault::FailCall { op, occasion, after_effect, error: error() };
    let throttled = ApiError::Throttled { after_ms: 3000 };
    match number {
        0 => ("launch fails after its effect", fails(Op::Launch, true)),
        1 => ("launch fails", fails(Op::Launch, false)),
        2 => ("launch is slow", Fault::SlowCall { op: Op::Launch, occasion, by_ms: 40_000 }),
        3 => (
            "no spot capacity",
            Fault::InsufficientCapacity {
                instance_type: None,
                zone: None,
                capacity_type: Some("spot".to_owned()),
                for_seconds: Some(120),
            },
        ),
        4 => ("node never joins", Fault::NeverJoins { occasion: once }),
        5 => ("list fails", fails(Op::List, false)),
        6 => ("end fails after its effect", fails(Op::Terminate, true)),
        7 => ("end fails", fails(Op::Terminate, false)),
        8 => ("get fails", fails(Op::Get, false)),
        9 => (
            "launch is throttled",
            Fault::FailCall { op: Op::Launch, occasion, after_effect: false, error: throttled },
        ),
        10 => ("less memory than sold", Fault::SmallerMemory { occasion: once, percent: 70 }),
        _ => {
            let taint = WireTaint {
                key: objects::LATE.to_owned(),
                value: String::new(),
                effect: "NoSchedule".to_owned(),
            };
            ("late taint", Fault::LateTaint { occasion: once, taint, after_ms: 5000 })
        }
    }
}

//! Impaired instances by EC2's status checks, and zones that traffic is shifted away from.

use std::time::Duration;

use async_trait::async_trait;
use fleetwright_core::cloud::{
    CloudError, Interruption, InterruptionKind, Notice, Object, Outlook, ProviderStep, Round, Write,
};
use fleetwright_core::model::labels::ZONE;
use fleetwright_core::safety::{Act, Cause, Facts, Limits};
use futures::lock::Mutex;
use jiff::{SignedDuration, Timestamp};

use super::super::classes::zone_name;
use super::super::{AwsProvider, instance_id};
use crate::calls::InstanceStatus;
use crate::figures;
use crate::shift::Changed;

/// How often statuses are read.
const STATUSES_EVERY: Duration = Duration::from_secs(60);
/// How often shifts are read.
const SHIFTS_EVERY: Duration = Duration::from_secs(30);
/// When a call that IAM denied is repeated.
const DENIED_AGAIN: Duration = Duration::from_secs(600);
/// How long a check must fail.
const IMPAIRED_FOR: SignedDuration = SignedDuration::from_secs(120);
/// Scheduled events after which the instance cannot be used.
const EVENTS: [&str; 5] =
    ["instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"];
/// The deadline of a node's drain.
const DEADLINE: &str = "karpenter.sh/nodeclaim-termination-timestamp";

/// The interruption that a status stands for; the most urgent first.
fn impairment(status: &InstanceStatus, now: Timestamp) -> Option<InterruptionKind> {
    let long = |since: Option<Timestamp>| since.is_some_and(|at| now.duration_since(at) >= IMPAIRED_FOR);
    if long(status.instance_impaired_since) {
        Some(InterruptionKind::InstanceStatus)
    } else if long(status.system_impaired_since) {
        Some(InterruptionKind::SystemStatus)
    } else if status.events.iter().any(|event| EVENTS.contains(&event.as_str())) {
        Some(InterruptionKind::EventStatus)
    } else {
        None
    }
}

/// Replaces nodes that EC2 reports as impaired: they are drained without a grace period, because nothing on them can be relied on. Nodes
/// with a scheduled event are drained as usual.
///
/// Such a drain ignores PodDisruptionBudgets, so that only a limited share of all nodes is drained this way per interval, however many
/// EC2 reports.
pub(super) struct Statuses {
    provider: AwsProvider,
    limits: Mutex<Limits>,
}

impl Statuses {
    pub(super) fn new(provider: AwsProvider) -> Self {
        Self { provider, limits: Mutex::default() }
    }

    /// Publishes that the limit on impaired nodes holds `count` of them.
    fn held_back(&self, count: usize, now: Timestamp) -> Vec<Notice> {
        const REASON: &str = "ImpairedHeldBack";
        if count == 0 {
            return Vec::new();
        }
        let message = format!(
            "replacement of {count} impaired instances is held: a limited share is replaced every ten minutes"
        );
        self.provider.problems.report("instance status checks", REASON, message, now)
    }
}

#[async_trait]
impl ProviderStep for Statuses {
    fn name(&self) -> &'static str {
        "interruption.instancestatus"
    }

    async fn run(&self, outlook: &Outlook) -> Result<Round, CloudError> {
        let answer = self.provider.api.instance_statuses().await;
        let statuses =
            match self.provider.problems.permitted("ec2:DescribeInstanceStatus", answer, outlook.now)? {
                Ok(statuses) => statuses,
                Err(notices) => return Ok(Round::quiet(DENIED_AGAIN).with_notices(notices)),
            };
        let mut round = Round::quiet(STATUSES_EVERY);
        let mut limits = self.limits.lock().await;
        let mut held_back = 0;
        // The answer covers the whole account: only instances that NodeClaims name are used.
        for (claim, _) in &outlook.nodes {
            let Some(id) = &claim.provider_id else { continue };
            let of = |status: &&InstanceStatus| instance_id(id) == Some(status.id.as_str());
            let Some(kind) = statuses.iter().find(of).and_then(|status| impairment(status, outlook.now))
            else {
                continue;
            };
            let forceful = kind != InterruptionKind::EventStatus;
            let act = Act::DeleteClaim(Cause::Interrupted(kind));
            let facts = Facts { subject: &claim.name, all: outlook.nodes.len(), ..Facts::default() };
            if claim.deleting.is_none() && limits.take(act, &facts, outlook.now).is_err() {
                held_back += 1;
                continue;
            }
            if claim.deleting.is_none() {
                self.provider.ledger.note(&figures::UNHEALTHY, &[kind.as_str()], 1.0);
            }
            if forceful && claim.deleting.is_none() && claim.termination_deadline.is_none() {
                let mut write = Write::to(Object::NodeClaim(claim.name.clone()));
                let now = Timestamp::from_second(outlook.now.as_second()).unwrap_or(outlook.now);
                write.annotations.insert(DEADLINE.into(), Some(now.to_string().into()));
                round.writes.push(write);
            }
            round.interruptions.push(Interruption::new(id.clone(), kind));
        }
        round.notices.extend(self.held_back(held_back, outlook.now));
        Ok(round)
    }
}

/// Avoids zones that traffic is shifted away from.
pub(super) struct ZonalShift(pub(super) AwsProvider);

impl ZonalShift {
    /// Events for the NodePools that can use the zones.
    fn notices(&self, changed: &Changed, outlook: &Outlook) -> Vec<Notice> {
        let mut notices = Vec::new();
        for (zones, begun) in [(&changed.begun, true), (&changed.cleared, false)] {
            for zone_id in zones {
                notices.extend(outlook.pools.iter().filter_map(|pool| {
                    let known = self.0.classes.get(&pool.template.class.name).ok()?;
                    let zone = zone_name(&known, zone_id)?;
                    let of_pool = pool.template.requirements.allows(ZONE, &zone);
                    of_pool.then(|| shifted(Object::NodePool(pool.name.clone()), &zone, zone_id, begun))
                }));
            }
        }
        notices
    }
}

/// The event of a shift that began or ended, in Karpenter's words.
fn shifted(pool: Object, zone: &str, zone_id: &str, begun: bool) -> Notice {
    let place = format!("{zone} ({zone_id})");
    if begun {
        let message =
            format!("Zonal shift detected: offerings in zone {place} are unavailable for this NodePool");
        return Notice::warning(pool, "ZonalShiftActive", message);
    }
    let message = format!("Zonal shift cleared: offerings in zone {place} are restored for this NodePool");
    Notice::normal(pool, "ZonalShiftCleared", message)
}

#[async_trait]
impl ProviderStep for ZonalShift {
    fn name(&self) -> &'static str {
        "zonalshift"
    }

    async fn run(&self, outlook: &Outlook) -> Result<Round, CloudError> {
        const ACTION: &str = "arc-zonal-shift:GetManagedResource";
        let now = outlook.now;
        let arn = self.0.cluster.arn();
        let Some(arn) = arn else {
            let message = "zonal shift is switched on, and EKS does not know the cluster: it has no effect";
            let notices = self.0.problems.notices("ZonalShiftUnknownCluster", message);
            return Ok(Round::quiet(DENIED_AGAIN).with_notices(notices));
        };
        let answer = self.0.api.zonal_shifts(&arn).await;
        let answer = self.0.problems.permitted(ACTION, answer, now);
        let mut round = Round::quiet(SHIFTS_EVERY);
        let changed = match answer {
            Ok(Ok(shifts)) => self.0.catalogs.refresh_shifts(&shifts, now),
            Ok(Err(notices)) => {
                round = Round::quiet(DENIED_AGAIN).with_notices(notices);
                self.0.catalogs.sweep_shifts(now)
            }
            Err(error) => {
                // A shift expires even if AWS does not answer; the event is published with the next answer.
                self.0.catalogs.sweep_shifts(now);
                return Err(error);
            }
        };
        round.notices.extend(self.notices(&changed, outlook));
        Ok(round)
    }
}

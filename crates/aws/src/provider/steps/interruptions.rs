//! The interruption queue: what is about to happen to instances.

use std::time::Duration;

use async_trait::async_trait;
use fleetwright_core::cloud::{
    CloudError, Interruption, InterruptionKind, Notice, Object, Outlook, ProviderStep, Round,
};
use fleetwright_core::model::NodeClaim;
use jiff::Timestamp;

use super::super::{AwsProvider, cloud_error, instance_id, is_ending, provider_id};
use crate::calls::{Class, InstanceInfo, Message};
use crate::figures;
use crate::interruption::{self, Kind, Offering, Unreadable};
use crate::tags::{Ownership, ownership};
use crate::unavailable::Scarce;

/// When the queue is asked again; receiving itself waits for messages.
const AT_ONCE: Duration = Duration::from_secs(1);
/// When what IAM refuses is asked for again.
const DENIED_AGAIN: Duration = Duration::from_secs(60);

/// Longest text about a message that is none, in characters: it quotes the message.
const MESSAGE_MAX: usize = 300;

/// What is about to happen to instances.
pub(super) struct Interruptions {
    pub(super) provider: AwsProvider,
    pub(super) queue: String,
}

/// What becomes of a message.
enum Fate {
    /// It is done with, or none of ours, or none at all.
    Delete,
    /// It is for an instance of another cluster that shares the queue.
    Leave,
    /// It is reported, and comes again until its instances are ending.
    Report(Vec<Interruption>),
    /// People are told, once, and it is deleted.
    Tell(Vec<Notice>),
}

/// What people are told of capacity that may be taken back: nothing is done about it.
fn recommendation(ids: &[String], outlook: &Outlook) -> Vec<Notice> {
    let named = |claim: &NodeClaim| {
        let id = claim.provider_id.as_deref().and_then(instance_id);
        id.is_some_and(|id| ids.iter().any(|known| known == id))
    };
    let machines = outlook.machines.iter().filter(|(claim, _)| named(claim));
    let objects = machines.flat_map(|(claim, node)| {
        let node = node.as_ref().map(|node| Object::Node(node.name.clone()));
        [Some(Object::NodeClaim(claim.name.clone())), node].into_iter().flatten()
    });
    let notice = |object| Notice {
        object,
        warning: false,
        reason: "SpotRebalanceRecommendation",
        message: "Spot rebalance recommendation was triggered".into(),
    };
    objects.map(notice).collect()
}

fn announced(kind: Kind) -> Option<InterruptionKind> {
    match kind {
        Kind::SpotInterrupted => Some(InterruptionKind::Spot),
        Kind::ScheduledChange => Some(InterruptionKind::ScheduledChange),
        Kind::InstanceStopped => Some(InterruptionKind::Stopped),
        Kind::InstanceTerminated => Some(InterruptionKind::Terminated),
        Kind::CapacityReservationInterrupted => Some(InterruptionKind::CapacityReservation),
        Kind::RebalanceRecommendation | Kind::NoOp => None,
    }
}

impl Interruptions {
    async fn fate(&self, message: &Message, outlook: &Outlook) -> Result<Fate, CloudError> {
        let now = outlook.now;
        let notice = match interruption::parse(&message.body) {
            Ok(notice) => notice,
            Err(why) => return Ok(Fate::Tell(self.unreadable(&why, now))),
        };
        if let Ok(sent) = notice.sent.parse::<Timestamp>() {
            let age = now.duration_since(sent).as_secs_f64().max(0.0);
            self.provider.ledger.note(&figures::MESSAGE_AGE, &[], age);
        }
        if notice.kind == Kind::RebalanceRecommendation {
            return Ok(Fate::Tell(recommendation(&notice.instances, outlook)));
        }
        let Some(kind) = announced(notice.kind) else { return Ok(Fate::Delete) };
        let uid = self.provider.uid()?;
        let mut reported = Vec::new();
        let mut others = false;
        for id in &notice.instances {
            let Some(info) = self.find(id).await? else { continue };
            match ownership(&info.tags, &self.provider.settings.cluster_name, &uid) {
                Ownership::Foreign => others = true,
                Ownership::Ours | Ownership::Unstamped if is_ending(&info) => {}
                Ownership::Ours | Ownership::Unstamped => {
                    self.remember(&info, notice.kind, now);
                    reported.push(Interruption { id: provider_id(&info.zone, &info.id), kind });
                }
            }
        }
        Ok(match (reported.is_empty(), others) {
            (false, _) => Fate::Report(reported),
            (true, true) => Fate::Leave,
            (true, false) => Fate::Delete,
        })
    }

    /// A message that is none would come again for ever: it is counted, told of and deleted.
    fn unreadable(&self, why: &Unreadable, now: Timestamp) -> Vec<Notice> {
        const REASON: &str = "UnreadableMessages";
        self.provider.ledger.note(&figures::MESSAGES_UNREADABLE, &[], 1.0);
        let queue = &self.queue;
        let message = format!(
            "the interruption queue {queue} has messages that are no events, they are deleted: {why}"
        );
        let message = message.chars().take(MESSAGE_MAX).collect();
        let told = self.provider.state().troubles.met("interruption queue", REASON, message, now);
        self.provider.tell_classes(REASON, &told)
    }

    async fn find(&self, id: &str) -> Result<Option<InstanceInfo>, CloudError> {
        const ACTION: &str = "ec2:DescribeInstances";
        let answer = match self.provider.api.instances(&[id.to_owned()], &[]).await {
            Err(error) if error.class() == Class::NotFound => Ok(Vec::new()),
            answer => answer,
        };
        if let Err(error) = &answer {
            self.provider.state().troubles.failed(ACTION, error, self.provider.clock.now());
        }
        let found = answer.map_err(|error| cloud_error(&error, ACTION))?;
        self.provider.state().troubles.over(ACTION);
        Ok(found
            .into_iter()
            .find(|info| info.id == id && !info.zone.is_empty() && info.state != "terminated"))
    }

    /// Capacity that is taken back is not there for others.
    fn remember(&self, info: &InstanceInfo, kind: Kind, now: Timestamp) {
        let mut state = self.provider.state();
        match kind.action().offering {
            Offering::AsIs => {}
            Offering::SpotUnavailable => state.unavailable.mark(
                Scarce::Offering {
                    instance_type: info.instance_type.clone(),
                    zone: info.zone.clone(),
                    capacity_type: "spot".to_owned(),
                    group: None,
                },
                now,
            ),
            Offering::ReservationFull => {
                if let Some(id) = &info.reservation {
                    state.reservations.full(id, now);
                }
            }
        }
    }
}

#[async_trait]
impl ProviderStep for Interruptions {
    fn name(&self) -> &'static str {
        "interruption"
    }

    async fn run(&self, outlook: &Outlook) -> Result<Round, CloudError> {
        let messages = self.provider.api.receive(&self.queue).await;
        let messages = match self.provider.permitted("sqs:ReceiveMessage", messages, outlook.now)? {
            Ok(messages) => messages,
            Err(notices) => return Ok(Round { notices, ..Round::quiet(DENIED_AGAIN) }),
        };
        let mut round = Round::quiet(AT_ONCE);
        let mut failed = None;
        for message in &messages {
            match self.fate(message, outlook).await {
                // It comes again, and what is known of the others does not wait for it.
                Err(error) => {
                    failed.get_or_insert(error);
                    continue;
                }
                Ok(Fate::Leave) => continue,
                Ok(Fate::Report(interruptions)) => {
                    round.interruptions.extend(interruptions);
                    continue;
                }
                Ok(Fate::Tell(notices)) => {
                    let told = |notice: &Notice| !round.notices.contains(notice);
                    let new: Vec<Notice> = notices.into_iter().filter(told).collect();
                    round.notices.extend(new);
                }
                Ok(Fate::Delete) => {}
            }
            let deleted = self.provider.api.delete_message(&self.queue, &message.receipt).await;
            if deleted.is_ok() {
                self.provider.ledger.note(&figures::MESSAGES_DELETED, &[], 1.0);
            }
            // What is not deleted comes again, and the others do not wait for it.
            if let Ok(Err(notices)) = self.provider.permitted("sqs:DeleteMessage", deleted, outlook.now) {
                round.notices.extend(notices);
            }
        }
        match failed {
            Some(error) if round.interruptions.is_empty() && round.notices.is_empty() => Err(error),
            _ => Ok(round),
        }
    }
}

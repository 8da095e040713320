//! Reads the interruption queue.
//!
//! One loop waits for messages. If a receive call returns a full window, the loop receives ten windows concurrently, describes all their
//! instances in one call, and deletes the finished messages in tens: a burst of thousands takes one round per hundred messages.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use fleetwright_core::cloud::{
    CloudError, Interruption, InterruptionKind, Notice, Object, Outlook, ProviderStep, Round,
};
use fleetwright_core::model::{NodeClaim, ProviderId};
use futures::StreamExt as _;
use futures::future::join_all;
use jiff::Timestamp;

use super::super::{AwsProvider, instance_id, is_ending, provider_id};
use crate::calls::{ErrorClass, InstanceInfo, Message};
use crate::figures;
use crate::interruption::{self, MessageKind, Unreadable};
use crate::tags::{Ownership, is_namesake, ownership};

/// The delay before an empty queue is read again; the receive call itself waits for messages.
const EMPTY: Duration = Duration::from_secs(1);
/// How many instances are described concurrently: concurrent calls are batched into one.
const DESCRIBED_AT_ONCE: usize = 500;
/// Most messages that one call receives or deletes.
const WINDOW: usize = 10;
/// How many windows are received concurrently once one is full.
const WINDOWS: usize = 10;
/// How long a receive call waits for a first message: SQS' maximum.
const PATIENCE: Duration = Duration::from_secs(20);
/// The IAM action of a receive call.
const RECEIVE: &str = "sqs:ReceiveMessage";
/// When a call that IAM denied is repeated.
const DENIED_AGAIN: Duration = Duration::from_secs(60);

/// Longest text about an unreadable message in characters: it quotes the message.
const MESSAGE_MAX: usize = 300;

/// Reads the interruption queue.
pub(super) struct Interruptions {
    pub(super) provider: AwsProvider,
    pub(super) queue: String,
}

/// What happens to a message.
enum MessageOutcome {
    /// Delete it: it is finished, or concerns no instance of this cluster. EventBridge rules match all instances of the account.
    Delete,
    /// Leave it: its instance belongs to another cluster of the same name that shares the queue.
    Leave,
    /// Report it, and leave it in the queue until its instances are terminating.
    Report(Vec<Interruption>),
    /// Publish events once and delete it.
    Publish(Vec<Notice>),
}

/// A parsed message.
enum ParsedMessage {
    /// Decided without its instances.
    Decided(MessageOutcome),
    /// It concerns instances that must be described.
    About { kind: MessageKind, announced: InterruptionKind, ids: Vec<String> },
}

impl ParsedMessage {
    fn ids(&self) -> &[String] {
        match self {
            Self::About { ids, .. } => ids,
            Self::Decided(_) => &[],
        }
    }
}

/// Descriptions of instances by id; `None` for one that does not exist.
type DescribedInstances = BTreeMap<String, Result<Option<InstanceInfo>, CloudError>>;

/// The provider ids of NodeClaims that are not being deleted, by instance id.
type LiveClaims<'a> = BTreeMap<&'a str, &'a ProviderId>;

fn live_claims(outlook: &Outlook) -> LiveClaims<'_> {
    let live = outlook.nodes.iter().filter(|(claim, _)| claim.deleting.is_none());
    let ids = live.filter_map(|(claim, _)| claim.provider_id.as_ref());
    ids.filter_map(|id| Some((instance_id(id)?, id))).collect()
}

/// Adds events that the round does not have yet.
fn add(round: &mut Round, notices: Vec<Notice>) {
    for notice in notices {
        if !round.notices.contains(&notice) {
            round.notices.push(notice);
        }
    }
}

/// Events about rebalance recommendations: no action follows.
fn recommendation(ids: &[String], outlook: &Outlook) -> Vec<Notice> {
    let named = |claim: &NodeClaim| {
        let id = claim.provider_id.as_deref().and_then(instance_id);
        id.is_some_and(|id| ids.iter().any(|known| known == id))
    };
    let nodes = outlook.nodes.iter().filter(|(claim, _)| named(claim));
    let objects = nodes.flat_map(|(claim, node)| {
        let node = node.as_ref().map(|node| Object::Node(node.name.clone()));
        [Some(Object::NodeClaim(claim.name.clone())), node].into_iter().flatten()
    });
    let message = "Spot rebalance recommendation was triggered";
    let notice = |object| Notice::normal(object, "SpotRebalanceRecommendation", message);
    objects.map(notice).collect()
}

fn announced(kind: MessageKind) -> Option<InterruptionKind> {
    match kind {
        MessageKind::SpotInterrupted => Some(InterruptionKind::Spot),
        MessageKind::ScheduledChange => Some(InterruptionKind::ScheduledChange),
        MessageKind::InstanceStopped => Some(InterruptionKind::Stopped),
        MessageKind::InstanceTerminated => Some(InterruptionKind::Terminated),
        MessageKind::CapacityReservationInterrupted => Some(InterruptionKind::CapacityReservation),
        MessageKind::RebalanceRecommendation | MessageKind::NoOp => None,
    }
}

impl Interruptions {
    /// Counts a message, and observes its age if it is relevant.
    fn count(&self, notice: &interruption::InterruptionMessage, now: Timestamp) {
        self.provider.ledger.note(&figures::MESSAGES_RECEIVED, &[notice.kind.as_str()], 1.0);
        if let (true, Ok(sent)) = (notice.kind != MessageKind::NoOp, notice.sent.parse::<Timestamp>()) {
            let age = now.duration_since(sent).as_secs_f64().max(0.0);
            self.provider.ledger.note(&figures::MESSAGE_AGE, &[], age);
        }
    }

    /// Parses a message, and decides what is possible without describing instances.
    fn read(&self, message: &Message, outlook: &Outlook, now: Timestamp) -> ParsedMessage {
        let notice = match interruption::parse(&message.body) {
            Ok(notice) => notice,
            Err(why) => return ParsedMessage::Decided(MessageOutcome::Publish(self.unreadable(&why, now))),
        };
        // A message that is left in the queue is received again and is counted only once.
        if message.received <= 1 {
            self.count(&notice, now);
        }
        if notice.kind == MessageKind::RebalanceRecommendation {
            return ParsedMessage::Decided(MessageOutcome::Publish(recommendation(
                &notice.instances,
                outlook,
            )));
        }
        match announced(notice.kind) {
            Some(announced) => ParsedMessage::About { kind: notice.kind, announced, ids: notice.instances },
            None => ParsedMessage::Decided(MessageOutcome::Delete),
        }
    }

    /// Decides about a message by the NodeClaims and the descriptions of its instances. An instance that was terminated from outside has
    /// nothing left to announce, but its NodeClaim does not know yet.
    fn outcome(
        &self,
        (kind, announced, ids): (MessageKind, InterruptionKind, &[String]),
        known: &DescribedInstances,
        live: &LiveClaims<'_>,
        now: Timestamp,
    ) -> Result<MessageOutcome, CloudError> {
        let uid = self.provider.cluster_uid()?;
        let cluster = &self.provider.settings.cluster_name;
        let mut reported = Vec::new();
        let mut others = false;
        for id in ids {
            let info = match known.get(id) {
                Some(Ok(info)) => info.as_ref(),
                Some(Err(error)) => return Err(error.clone()),
                None => None,
            };
            if let Some(info) = info
                && ownership(&info.tags, cluster, &uid) == Ownership::Foreign
            {
                others |= is_namesake(&info.tags, cluster, &uid);
                continue;
            }
            let of_claim = live.get(id.as_str()).map(|id| (*id).clone());
            let open = info.filter(|info| of_claim.is_some() || !is_ending(info));
            if let Some(info) = open {
                self.provider.catalogs.record_interruption(info, kind, now);
            }
            let of_instance = || open.map(|info| provider_id(&info.zone, &info.id));
            reported.extend(of_claim.or_else(of_instance).map(|id| Interruption::new(id, announced)));
        }
        Ok(match (reported.is_empty(), others) {
            (false, _) => MessageOutcome::Report(reported),
            (true, true) => MessageOutcome::Leave,
            (true, false) => MessageOutcome::Delete,
        })
    }

    /// Describes the instances of messages, each once, all concurrently.
    async fn describe(&self, read: &[ParsedMessage]) -> DescribedInstances {
        let ids: BTreeSet<String> = read.iter().flat_map(ParsedMessage::ids).cloned().collect();
        let described = futures::stream::iter(ids).map(|id| async move {
            let found = self.find(&id).await;
            (id, found)
        });
        described.buffered(DESCRIBED_AT_ONCE).collect().await
    }

    /// Receives the windows after a full one concurrently and without waiting for messages. An error of one does not affect the others.
    async fn more(&self, now: Timestamp, round: &mut Round) -> (Vec<Message>, Option<CloudError>) {
        let windows = (1..WINDOWS).map(|_| self.provider.api.receive(&self.queue, Duration::ZERO));
        let (mut messages, mut failed) = (Vec::new(), None);
        for answer in join_all(windows).await {
            match self.provider.problems.permitted(RECEIVE, answer, now) {
                Ok(Ok(more)) => messages.extend(more),
                Ok(Err(notices)) => add(round, notices),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        (messages, failed)
    }

    /// Deletes messages. A message that is not deleted is received again, and the others do not wait for it.
    async fn delete(&self, receipts: &[String], now: Timestamp, round: &mut Round) {
        let batches =
            receipts.chunks(WINDOW).map(|batch| self.provider.api.delete_messages(&self.queue, batch));
        let (mut deleted, mut answer) = (0_u32, Ok(()));
        for outcomes in join_all(batches).await {
            for outcome in outcomes.unwrap_or_else(|error| vec![Err(error)]) {
                deleted += u32::from(outcome.is_ok());
                // One failure makes the result an error.
                answer = answer.and(outcome);
            }
        }
        if receipts.is_empty() {
            return;
        }
        self.provider.ledger.note(&figures::MESSAGES_DELETED, &[], f64::from(deleted));
        if let Ok(Err(notices)) = self.provider.problems.permitted("sqs:DeleteMessage", answer, now) {
            add(round, notices);
        }
    }

    /// An unreadable message would be received again forever: it is counted, reported and deleted.
    fn unreadable(&self, why: &Unreadable, now: Timestamp) -> Vec<Notice> {
        const REASON: &str = "UnreadableMessages";
        self.provider.ledger.note(&figures::MESSAGES_UNREADABLE, &[], 1.0);
        let queue = &self.queue;
        let message = format!(
            "the interruption queue {queue} has messages that are not events; they are deleted: {why}"
        );
        self.provider.problems.report(
            "interruption queue",
            REASON,
            message.chars().take(MESSAGE_MAX).collect(),
            now,
        )
    }

    async fn find(&self, id: &str) -> Result<Option<InstanceInfo>, CloudError> {
        const ACTION: &str = "ec2:DescribeInstances";
        let answer = match self.provider.api.instances(&[id.to_owned()], &[]).await {
            Err(error) if error.class() == ErrorClass::NotFound => Ok(Vec::new()),
            answer => answer,
        };
        if let Err(error) = &answer {
            self.provider.problems.failed(ACTION, error, self.provider.clock.now());
        }
        let found = answer.map_err(|error| error.to_cloud_error(ACTION))?;
        self.provider.problems.resolved(ACTION);
        Ok(found
            .into_iter()
            .find(|info| info.id == id && !info.zone.is_empty() && info.state != "terminated"))
    }
}

#[async_trait]
impl ProviderStep for Interruptions {
    fn name(&self) -> &'static str {
        "interruption"
    }

    async fn run(&self, outlook: &Outlook) -> Result<Round, CloudError> {
        let first = self.provider.api.receive(&self.queue, PATIENCE).await;
        // The receive call has taken time.
        let now = self.provider.clock.now();
        let mut messages = match self.provider.problems.permitted(RECEIVE, first, now)? {
            Ok(messages) => messages,
            Err(notices) => return Ok(Round::quiet(DENIED_AGAIN).with_notices(notices)),
        };
        let mut round = Round::quiet(if messages.is_empty() { EMPTY } else { Duration::ZERO });
        let mut failed = None;
        if messages.len() >= WINDOW {
            let (more, error) = self.more(now, &mut round).await;
            messages.extend(more);
            failed = error;
        }
        let read: Vec<ParsedMessage> =
            messages.iter().map(|message| self.read(message, outlook, now)).collect();
        let (known, live) = (self.describe(&read).await, live_claims(outlook));
        let (mut done, mut reported) = (Vec::new(), BTreeSet::new());
        for (message, read) in messages.iter().zip(read) {
            let outcome = match read {
                ParsedMessage::About { kind, announced, ids } => {
                    self.outcome((kind, announced, &ids), &known, &live, now)
                }
                ParsedMessage::Decided(outcome) => Ok(outcome),
            };
            match outcome {
                // It is received again, and the other messages do not wait for it.
                Err(error) => {
                    failed.get_or_insert(error);
                }
                Ok(MessageOutcome::Leave) => {}
                // SQS may deliver a message twice.
                Ok(MessageOutcome::Report(interruptions)) => round.interruptions.extend(
                    interruptions
                        .into_iter()
                        .filter(|interruption| reported.insert((interruption.id.clone(), interruption.kind))),
                ),
                Ok(MessageOutcome::Publish(notices)) => {
                    add(&mut round, notices);
                    done.push(message.receipt.clone());
                }
                Ok(MessageOutcome::Delete) => done.push(message.receipt.clone()),
            }
        }
        self.delete(&done, now, &mut round).await;
        match failed {
            Some(error) if round.interruptions.is_empty() && round.notices.is_empty() => Err(error),
            _ => Ok(round),
        }
    }
}

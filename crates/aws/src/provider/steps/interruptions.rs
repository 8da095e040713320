//! The interruption queue: what is about to happen to instances.
//!
//! One loop waits for messages. Where they come by the window, it takes ten windows at once, looks at all their instances in one call,
//! and deletes what is done with ten by ten: a flood of thousands takes a round for each hundred of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use fleetwright_core::cloud::{
    CloudError, Interruption, InterruptionKind, Notice, Object, Outlook, ProviderStep, Round,
};
use fleetwright_core::model::NodeClaim;
use futures::StreamExt as _;
use futures::future::join_all;
use jiff::Timestamp;

use super::super::{AwsProvider, instance_id, is_ending, provider_id};
use crate::calls::{Class, InstanceInfo, Message};
use crate::figures;
use crate::interruption::{self, Kind, Unreadable};
use crate::tags::{Ownership, is_namesake, ownership};

/// When a queue without messages is asked again; receiving itself waits for messages.
const EMPTY: Duration = Duration::from_secs(1);
/// How many instances are looked at at once: looks that come together are one call.
const LOOKED_AT_ONCE: usize = 500;
/// Most messages that one call receives or deletes.
const WINDOW: usize = 10;
/// How many windows are received at once, where the first is full.
const WINDOWS: usize = 10;
/// How long receiving waits for a first message, which is as long as SQS allows.
const PATIENCE: Duration = Duration::from_secs(20);
/// What receiving needs.
const RECEIVE: &str = "sqs:ReceiveMessage";
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
    /// It is done with, or nobody's: the rules of EventBridge send what happens to any instance of the account.
    Delete,
    /// It is for an instance of another cluster of our name, whose queue this is too.
    Leave,
    /// It is reported, and comes again until its instances are ending.
    Report(Vec<Interruption>),
    /// People are told, once, and it is deleted.
    Tell(Vec<Notice>),
}

/// A message that was read.
enum Read {
    /// What becomes of it is clear.
    Decided(Fate),
    /// It is about instances that are to be looked at.
    About { kind: Kind, announced: InterruptionKind, ids: Vec<String> },
}

impl Read {
    fn ids(&self) -> &[String] {
        match self {
            Self::About { ids, .. } => ids,
            Self::Decided(_) => &[],
        }
    }
}

/// What is known of instances by id; `None` of one that is not there.
type Looked = BTreeMap<String, Result<Option<InstanceInfo>, CloudError>>;

/// Adds what is not told yet.
fn add(round: &mut Round, notices: Vec<Notice>) {
    for notice in notices {
        if !round.notices.contains(&notice) {
            round.notices.push(notice);
        }
    }
}

/// What people are told of capacity that may be taken back: nothing is done about it.
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
    /// Counts a message, and for how long it was in the queue where it is of any concern.
    fn count(&self, notice: &interruption::Notice, now: Timestamp) {
        self.provider.ledger.note(&figures::MESSAGES_RECEIVED, &[notice.kind.as_str()], 1.0);
        if let (true, Ok(sent)) = (notice.kind != Kind::NoOp, notice.sent.parse::<Timestamp>()) {
            let age = now.duration_since(sent).as_secs_f64().max(0.0);
            self.provider.ledger.note(&figures::MESSAGE_AGE, &[], age);
        }
    }

    /// What a message says, as far as no instance has to be looked at for it.
    fn read(&self, message: &Message, outlook: &Outlook, now: Timestamp) -> Read {
        let notice = match interruption::parse(&message.body) {
            Ok(notice) => notice,
            Err(why) => return Read::Decided(Fate::Tell(self.unreadable(&why, now))),
        };
        // What is left in the queue until it was acted on comes again, and is no news then.
        if message.received <= 1 {
            self.count(&notice, now);
        }
        if notice.kind == Kind::RebalanceRecommendation {
            return Read::Decided(Fate::Tell(recommendation(&notice.instances, outlook)));
        }
        match announced(notice.kind) {
            Some(announced) => Read::About { kind: notice.kind, announced, ids: notice.instances },
            None => Read::Decided(Fate::Delete),
        }
    }

    /// What becomes of a message about instances, by what they are.
    fn fate(
        &self,
        (kind, announced, ids): (Kind, InterruptionKind, &[String]),
        known: &Looked,
        now: Timestamp,
    ) -> Result<Fate, CloudError> {
        let uid = self.provider.cluster_uid()?;
        let cluster = &self.provider.settings.cluster_name;
        let mut reported = Vec::new();
        let mut others = false;
        for id in ids {
            let info = match known.get(id) {
                Some(Ok(Some(info))) => info,
                Some(Err(error)) => return Err(error.clone()),
                Some(Ok(None)) | None => continue,
            };
            match ownership(&info.tags, cluster, &uid) {
                Ownership::Foreign => others |= is_namesake(&info.tags, cluster, &uid),
                Ownership::Ours | Ownership::Unstamped if is_ending(info) => {}
                Ownership::Ours | Ownership::Unstamped => {
                    self.provider.catalogs.record_interruption(info, kind, now);
                    reported.push(Interruption { id: provider_id(&info.zone, &info.id), kind: announced });
                }
            }
        }
        Ok(match (reported.is_empty(), others) {
            (false, _) => Fate::Report(reported),
            (true, true) => Fate::Leave,
            (true, false) => Fate::Delete,
        })
    }

    /// The instances that messages are about, each asked for once and all together.
    async fn look(&self, read: &[Read]) -> Looked {
        let ids: BTreeSet<String> = read.iter().flat_map(Read::ids).cloned().collect();
        let looks = futures::stream::iter(ids).map(|id| async move {
            let found = self.find(&id).await;
            (id, found)
        });
        looks.buffered(LOOKED_AT_ONCE).collect().await
    }

    /// The windows behind a full one, all at once, and none of them waits for messages. What went wrong with one keeps no other back.
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

    /// Deletes messages. What is not deleted comes again, and the others do not wait for it.
    async fn delete(&self, receipts: &[String], now: Timestamp, round: &mut Round) {
        let batches =
            receipts.chunks(WINDOW).map(|batch| self.provider.api.delete_messages(&self.queue, batch));
        let (mut deleted, mut answer) = (0_u32, Ok(()));
        for outcomes in join_all(batches).await {
            for outcome in outcomes.unwrap_or_else(|error| vec![Err(error)]) {
                deleted += u32::from(outcome.is_ok());
                // One that failed is the trouble, however many others did not.
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

    /// A message that is none would come again for ever: it is counted, told of and deleted.
    fn unreadable(&self, why: &Unreadable, now: Timestamp) -> Vec<Notice> {
        const REASON: &str = "UnreadableMessages";
        self.provider.ledger.note(&figures::MESSAGES_UNREADABLE, &[], 1.0);
        let queue = &self.queue;
        let message = format!(
            "the interruption queue {queue} has messages that are no events, they are deleted: {why}"
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
            Err(error) if error.class() == Class::NotFound => Ok(Vec::new()),
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
        // Waiting for messages has taken its time.
        let now = self.provider.clock.now();
        let mut messages = match self.provider.problems.permitted(RECEIVE, first, now)? {
            Ok(messages) => messages,
            Err(notices) => return Ok(Round { notices, ..Round::quiet(DENIED_AGAIN) }),
        };
        let mut round = Round::quiet(if messages.is_empty() { EMPTY } else { Duration::ZERO });
        let mut failed = None;
        if messages.len() >= WINDOW {
            let (more, error) = self.more(now, &mut round).await;
            messages.extend(more);
            failed = error;
        }
        let read: Vec<Read> = messages.iter().map(|message| self.read(message, outlook, now)).collect();
        let known = self.look(&read).await;
        let (mut done, mut reported) = (Vec::new(), BTreeSet::new());
        for (message, read) in messages.iter().zip(read) {
            let fate = match read {
                Read::About { kind, announced, ids } => self.fate((kind, announced, &ids), &known, now),
                Read::Decided(fate) => Ok(fate),
            };
            match fate {
                // It comes again, and what is known of the others does not wait for it.
                Err(error) => {
                    failed.get_or_insert(error);
                }
                Ok(Fate::Leave) => {}
                // The queue may hand out a message twice.
                Ok(Fate::Report(interruptions)) => round.interruptions.extend(
                    interruptions.into_iter().filter(|told| reported.insert((told.id.clone(), told.kind))),
                ),
                Ok(Fate::Tell(notices)) => {
                    add(&mut round, notices);
                    done.push(message.receipt.clone());
                }
                Ok(Fate::Delete) => done.push(message.receipt.clone()),
            }
        }
        self.delete(&done, now, &mut round).await;
        match failed {
            Some(error) if round.interruptions.is_empty() && round.notices.is_empty() => Err(error),
            _ => Ok(round),
        }
    }
}

//! Messages of the interruption queue: what EventBridge announces for instances, and how the provider reacts.

use serde::{Deserialize, Deserializer};

use crate::cache::Cache;

/// Longest message that is read; EventBridge's own limit is 256 KiB.
const LENGTH_MAX: usize = 256 * 1024;
/// Most instances of one message.
const INSTANCES_MAX: usize = 1000;

/// Most characters of an instance id after its prefix; EC2's have 17.
const ID_MAX: usize = 32;

/// What a message announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MessageKind {
    /// Spot capacity is reclaimed in two minutes.
    SpotInterrupted,
    /// Spot capacity is at elevated risk of interruption.
    RebalanceRecommendation,
    /// AWS maintains or retires the host.
    ScheduledChange,
    /// The instance was stopped from outside.
    InstanceStopped,
    /// The instance was terminated from outside.
    InstanceTerminated,
    /// A reservation's capacity is reclaimed.
    CapacityReservationInterrupted,
    /// Not relevant.
    NoOp,
}

impl MessageKind {
    /// The value of the metric label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SpotInterrupted => "spot_interrupted",
            Self::RebalanceRecommendation => "rebalance_recommendation",
            Self::ScheduledChange => "scheduled_change",
            Self::InstanceStopped => "instance_stopped",
            Self::InstanceTerminated => "instance_terminated",
            Self::CapacityReservationInterrupted => "capacity_reservation_interrupted",
            Self::NoOp => "no_op",
        }
    }

    /// What it means for the offering of each instance of this cluster.
    #[must_use]
    pub fn offering(self) -> Offering {
        match self {
            Self::SpotInterrupted => Offering::SpotUnavailable,
            Self::CapacityReservationInterrupted => Offering::ReservationFull,
            Self::RebalanceRecommendation
            | Self::ScheduledChange
            | Self::InstanceStopped
            | Self::InstanceTerminated
            | Self::NoOp => Offering::AsIs,
        }
    }
}

/// Instances whose capacity was reclaimed, each with the kind of message, as far as recorded. An evicted entry is recorded again when its
/// message is received again.
pub type ReclaimedCapacity = Cache<(String, MessageKind), (), 10_000>;

/// What an interruption means for the offering of the instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offering {
    /// Nothing.
    AsIs,
    /// There is no spot capacity of its type in its zone.
    SpotUnavailable,
    /// Its reservation is full.
    ReservationFull,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterruptionMessage {
    /// What it announces.
    pub kind: MessageKind,
    /// The instances that it names.
    pub instances: Vec<String>,
    /// When it was sent, as in the message.
    pub sent: String,
}

/// Why a message cannot be read; it is deleted all the same, because it would be received again forever.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Not EventBridge's JSON.
    #[error("message is not an event: {0}")]
    NotAnEvent(String),
    /// An event of a known kind without a required field.
    #[error("event {kind}: {why}")]
    Incomplete {
        /// Its kind.
        kind: String,
        /// The missing field.
        why: String,
    },
}

/// A null field counts as absent.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Envelope {
    #[serde(default, deserialize_with = "or_default")]
    version: String,
    #[serde(default, deserialize_with = "or_default")]
    source: String,
    #[serde(default, deserialize_with = "or_default")]
    detail_type: String,
    #[serde(default, deserialize_with = "or_default")]
    time: String,
    #[serde(default)]
    detail: serde_json::Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct OfInstance {
    instance_id: String,
    #[serde(default, deserialize_with = "or_default")]
    state: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Health {
    #[serde(default, deserialize_with = "or_default")]
    service: String,
    #[serde(default, deserialize_with = "or_default")]
    event_type_category: String,
    #[serde(default, deserialize_with = "or_default")]
    affected_entities: Vec<Entity>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entity {
    #[serde(default, deserialize_with = "or_default")]
    entity_value: String,
}

/// Parses a message.
///
/// # Errors
/// If it is not an event, or one of a known kind without an instance.
pub fn parse(body: &str) -> Result<InterruptionMessage, Unreadable> {
    if body.len() > LENGTH_MAX {
        return Err(Unreadable::NotAnEvent(format!("{} bytes exceed the limit of {LENGTH_MAX}", body.len())));
    }
    let not_an_event = |error: serde_json::Error| Unreadable::NotAnEvent(error.to_string());
    // A map, so that a list is not read as the fields in their order.
    let fields: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(body).map_err(not_an_event)?;
    let event: Envelope = serde_json::from_value(fields.into()).map_err(not_an_event)?;
    let nothing = |sent: &str| InterruptionMessage {
        kind: MessageKind::NoOp,
        instances: Vec::new(),
        sent: sent.to_owned(),
    };
    if event.version != "0" {
        return Ok(nothing(&event.time));
    }
    let kind = match (event.source.as_str(), event.detail_type.as_str()) {
        ("aws.ec2", "EC2 Spot Instance Interruption Warning") => MessageKind::SpotInterrupted,
        ("aws.ec2", "EC2 Instance Rebalance Recommendation") => MessageKind::RebalanceRecommendation,
        ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning") => {
            MessageKind::CapacityReservationInterrupted
        }
        ("aws.ec2", "EC2 Instance State-change Notification") => return state_change(&event),
        ("aws.health", "AWS Health Event") => return health(&event),
        _ => return Ok(nothing(&event.time)),
    };
    let of = of_instance(&event)?;
    Ok(InterruptionMessage { kind, instances: vec![of.instance_id], sent: event.time })
}

/// Whether a text is a valid instance id. EC2 refuses a whole call for one invalid id.
fn is_instance(id: &str) -> bool {
    id.strip_prefix("i-").is_some_and(|rest| {
        (1..=ID_MAX).contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

fn of_instance(event: &Envelope) -> Result<OfInstance, Unreadable> {
    let of: OfInstance = detail(event)?;
    let no_instance = || Unreadable::Incomplete {
        kind: event.detail_type.clone(),
        why: "instance-id is not an instance id".to_owned(),
    };
    is_instance(&of.instance_id).then_some(of).ok_or_else(no_instance)
}

fn detail<T: for<'de> Deserialize<'de>>(event: &Envelope) -> Result<T, Unreadable> {
    let incomplete = |error: serde_json::Error| Unreadable::Incomplete {
        kind: event.detail_type.clone(),
        why: error.to_string(),
    };
    T::deserialize(&event.detail).map_err(incomplete)
}

fn state_change(event: &Envelope) -> Result<InterruptionMessage, Unreadable> {
    let of = of_instance(event)?;
    let kind = match of.state.to_lowercase().as_str() {
        "stopping" | "stopped" => MessageKind::InstanceStopped,
        "shutting-down" | "terminated" => MessageKind::InstanceTerminated,
        _ => MessageKind::NoOp,
    };
    let instances = if kind == MessageKind::NoOp { Vec::new() } else { vec![of.instance_id] };
    Ok(InterruptionMessage { kind, instances, sent: event.time.clone() })
}

fn health(event: &Envelope) -> Result<InterruptionMessage, Unreadable> {
    let of: Health = detail(event)?;
    let ours = of.service == "EC2" && of.event_type_category == "scheduledChange";
    let kind = if ours { MessageKind::ScheduledChange } else { MessageKind::NoOp };
    let entities = of.affected_entities.into_iter().filter(|_| ours).map(|entity| entity.entity_value);
    let instances = entities.filter(|id| is_instance(id)).take(INSTANCES_MAX).collect();
    Ok(InterruptionMessage { kind, instances, sent: event.time.clone() })
}

#[cfg(test)]
mod tests {
    //! Messages as EventBridge sends them, and invalid ones.
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn event(source: &str, detail_type: &str, detail: Value) -> String {
        json!({
            "version": "0", "id": "1", "account": "123456789012", "region": "us-west-2", "resources": [],
            "time": "2026-06-01T00:00:00Z", "source": source, "detail-type": detail_type, "detail": detail,
        })
        .to_string()
    }

    #[rstest]
    #[case("aws.ec2", "EC2 Spot Instance Interruption Warning", json!({"instance-id": "i-1", "instance-action": "terminate"}), MessageKind::SpotInterrupted)]
    #[case("aws.ec2", "EC2 Instance Rebalance Recommendation", json!({"instance-id": "i-1"}), MessageKind::RebalanceRecommendation)]
    #[case("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning", json!({"instance-id": "i-1", "instance-action": "terminate"}), MessageKind::CapacityReservationInterrupted)]
    #[case("aws.ec2", "EC2 Instance State-change Notification", json!({"instance-id": "i-1", "state": "stopping"}), MessageKind::InstanceStopped)]
    #[case("aws.ec2", "EC2 Instance State-change Notification", json!({"instance-id": "i-1", "state": "stopped"}), MessageKind::InstanceStopped)]
    #[case("aws.ec2", "EC2 Instance State-change Notification", json!({"instance-id": "i-1", "state": "shutting-down"}), MessageKind::InstanceTerminated)]
    #[case("aws.ec2", "EC2 Instance State-change Notification", json!({"instance-id": "i-1", "state": "terminated"}), MessageKind::InstanceTerminated)]
    #[case("aws.health", "AWS Health Event", json!({"service": "EC2", "eventTypeCategory": "scheduledChange", "affectedEntities": [{"entityValue": "i-1"}, {"entityValue": "vol-1"}]}), MessageKind::ScheduledChange)]
    fn announced(
        #[case] source: &str,
        #[case] detail_type: &str,
        #[case] detail: Value,
        #[case] expected: MessageKind,
    ) {
        let notice = parse(&event(source, detail_type, detail)).unwrap();
        assert_eq!((notice.kind, notice.instances), (expected, vec!["i-1".to_owned()]));
    }

    #[rstest]
    #[case("aws.ec2", "EC2 Instance State-change Notification", json!({"instance-id": "i-1", "state": "running"}))]
    #[case("aws.health", "AWS Health Event", json!({"service": "RDS", "eventTypeCategory": "scheduledChange", "affectedEntities": [{"entityValue": "i-1"}]}))]
    #[case("aws.health", "AWS Health Event", json!({"service": "EC2", "eventTypeCategory": "issue", "affectedEntities": [{"entityValue": "i-1"}]}))]
    #[case("aws.s3", "Object Created", json!({"bucket": "b"}))]
    fn of_no_concern(#[case] source: &str, #[case] detail_type: &str, #[case] detail: Value) {
        let notice = parse(&event(source, detail_type, detail)).unwrap();
        assert_eq!((notice.kind, notice.instances.len()), (MessageKind::NoOp, 0));
        assert_eq!(MessageKind::NoOp.offering(), Offering::AsIs);
    }

    /// AWS writes null for absent values.
    #[test]
    fn null_counts_as_absent() {
        let issue =
            json!({"service": "EC2", "eventTypeCategory": "scheduledChange", "affectedEntities": null});
        let notice = parse(&event("aws.health", "AWS Health Event", issue)).unwrap();
        assert_eq!((notice.kind, notice.instances.len()), (MessageKind::ScheduledChange, 0));
        let mut warning: Value = serde_json::from_str(&event(
            "aws.ec2",
            "EC2 Spot Instance Interruption Warning",
            json!({"instance-id": "i-1"}),
        ))
        .unwrap();
        warning["time"] = Value::Null;
        assert_eq!(parse(&warning.to_string()).unwrap().instances, ["i-1"]);
        warning["version"] = Value::Null;
        assert_eq!(parse(&warning.to_string()).unwrap().kind, MessageKind::NoOp);
    }

    #[test]
    fn invalid_ids_are_not_queried() {
        for id in ["", "i-", "i-1 2", "vol-1", "i-\u{e9}", "i-0123456789abcdef00123456789abcdef0"] {
            let body = event("aws.ec2", "EC2 Spot Instance Interruption Warning", json!({"instance-id": id}));
            assert!(matches!(parse(&body), Err(Unreadable::Incomplete { .. })), "{id}");
        }
    }

    #[test]
    fn unreadable_messages_are_reported() {
        for body in ["", "{", "[]", "\"text\"", "null"] {
            assert!(matches!(parse(body), Err(Unreadable::NotAnEvent(_))), "{body}");
        }
        let empty = event("aws.ec2", "EC2 Spot Instance Interruption Warning", json!({}));
        assert!(matches!(parse(&empty), Err(Unreadable::Incomplete { .. })));
        assert!(parse(&" ".repeat(LENGTH_MAX + 1)).is_err());
        assert_eq!(parse("{}").unwrap().kind, MessageKind::NoOp, "an unknown version is ignored");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            prop::sample::select(vec!["i-1", "EC2", "terminated", "scheduledChange", "", "0"])
                .prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            let keys = prop::sample::select(vec![
                "instance-id",
                "state",
                "service",
                "eventTypeCategory",
                "affectedEntities",
                "entityValue",
                "detail",
                "version",
            ]);
            let fields = prop::collection::vec((keys.prop_map(str::to_owned), inner.clone()), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Value::from),
                fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Any value in place of a detail: a message is parsed, ignored or rejected, and names no instance without an id.
        #[test]
        fn any_detail_is_taken(detail in any_json(), whole in any_json(), at in 0_usize..5) {
            let (source, kind) = [
                ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
                ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
                ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
                ("aws.ec2", "EC2 Instance State-change Notification"),
                ("aws.health", "AWS Health Event"),
            ][at];
            if let Ok(notice) = parse(&event(source, kind, detail)) {
                prop_assert!(notice.instances.len() <= INSTANCES_MAX);
                prop_assert!(notice.kind != MessageKind::NoOp || notice.instances.is_empty());
            }
            let _ = parse(&whole.to_string());
        }

        #[test]
        fn nothing_makes_it_panic(body in ".{0,200}", id in ".{0,20}", state in ".{0,20}") {
            let _ = parse(&body);
            let _ = parse(&event("aws.ec2", "EC2 Instance State-change Notification", json!({"instance-id": id, "state": state})));
        }
    }
}

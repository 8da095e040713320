//! Request bodies in Kubernetes' protobuf: kubectl's typed commands (`create`, `drain`, `auth can-i`) send
//! them whatever the server prefers. Decodes the kinds that kubectl makes that way; answers are always JSON.
//!
//! Field numbers: the `generated.proto` files of k8s.io/api and k8s.io/apimachinery 1.35.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// The prefix of every body.
const MAGIC: &[u8] = b"k8s\0";
/// The maximum depth.
const DEEPEST: usize = 32;

/// Type of a field.
#[derive(Clone, Copy)]
enum Type {
    /// Text; empty ones are left out.
    Text,
    /// Integer; zero is left out.
    Number,
    /// Integer behind a pointer: zero is kept.
    Counted,
    /// Boolean; false is left out.
    Flag,
    /// Texts.
    Texts,
    /// Texts by text.
    TextMap,
    /// Bytes by text.
    BytesMap,
    /// Quantities by text.
    Quantities,
    /// Number or text.
    Either,
    /// A message.
    One(Message),
    /// Messages.
    Many(Message),
}

/// Fields of a message: number, name, type.
type Message = &'static [(u64, &'static str, Type)];

const OWNER: Message = &[
    (1, "kind", Type::Text),
    (3, "name", Type::Text),
    (4, "uid", Type::Text),
    (5, "apiVersion", Type::Text),
    (6, "controller", Type::Flag),
    (7, "blockOwnerDeletion", Type::Flag),
];
const METADATA: Message = &[
    (1, "name", Type::Text),
    (2, "generateName", Type::Text),
    (3, "namespace", Type::Text),
    (5, "uid", Type::Text),
    (6, "resourceVersion", Type::Text),
    (11, "labels", Type::TextMap),
    (12, "annotations", Type::TextMap),
    (13, "ownerReferences", Type::Many(OWNER)),
    (14, "finalizers", Type::Texts),
];
const EXPRESSION: Message =
    &[(1, "key", Type::Text), (2, "operator", Type::Text), (3, "values", Type::Texts)];
const SELECTOR: Message =
    &[(1, "matchLabels", Type::TextMap), (2, "matchExpressions", Type::Many(EXPRESSION))];
const PRECONDITIONS: Message = &[(1, "uid", Type::Text), (2, "resourceVersion", Type::Text)];
const DELETE: Message = &[
    (1, "gracePeriodSeconds", Type::Counted),
    (2, "preconditions", Type::One(PRECONDITIONS)),
    (4, "propagationPolicy", Type::Text),
    (5, "dryRun", Type::Texts),
];
const EVICTION: Message = &[(1, "metadata", Type::One(METADATA)), (2, "deleteOptions", Type::One(DELETE))];
const PORT: Message = &[
    (1, "name", Type::Text),
    (2, "hostPort", Type::Number),
    (3, "containerPort", Type::Number),
    (4, "protocol", Type::Text),
];
const VARIABLE: Message = &[(1, "name", Type::Text), (2, "value", Type::Text)];
const RESOURCES: Message = &[(1, "limits", Type::Quantities), (2, "requests", Type::Quantities)];
const CONTAINER: Message = &[
    (1, "name", Type::Text),
    (2, "image", Type::Text),
    (3, "command", Type::Texts),
    (4, "args", Type::Texts),
    (5, "workingDir", Type::Text),
    (6, "ports", Type::Many(PORT)),
    (7, "env", Type::Many(VARIABLE)),
    (8, "resources", Type::One(RESOURCES)),
    (14, "imagePullPolicy", Type::Text),
];
const POD_SPEC: Message = &[
    (2, "containers", Type::Many(CONTAINER)),
    (3, "restartPolicy", Type::Text),
    (4, "terminationGracePeriodSeconds", Type::Counted),
    (7, "nodeSelector", Type::TextMap),
    (8, "serviceAccountName", Type::Text),
    (20, "initContainers", Type::Many(CONTAINER)),
    (24, "priorityClassName", Type::Text),
];
const TEMPLATE: Message = &[(1, "metadata", Type::One(METADATA)), (2, "spec", Type::One(POD_SPEC))];
const POD: Message = TEMPLATE;
const DEPLOYMENT_SPEC: Message = &[
    (1, "replicas", Type::Counted),
    (2, "selector", Type::One(SELECTOR)),
    (3, "template", Type::One(TEMPLATE)),
    (5, "minReadySeconds", Type::Number),
    (6, "revisionHistoryLimit", Type::Counted),
];
const DEPLOYMENT: Message = &[(1, "metadata", Type::One(METADATA)), (2, "spec", Type::One(DEPLOYMENT_SPEC))];
const JOB_SPEC: Message = &[
    (1, "parallelism", Type::Counted),
    (2, "completions", Type::Counted),
    (6, "template", Type::One(TEMPLATE)),
    (7, "backoffLimit", Type::Counted),
];
const JOB: Message = &[(1, "metadata", Type::One(METADATA)), (2, "spec", Type::One(JOB_SPEC))];
const CRON_SPEC: Message = &[(1, "schedule", Type::Text), (5, "jobTemplate", Type::One(JOB))];
const CRON_JOB: Message = &[(1, "metadata", Type::One(METADATA)), (2, "spec", Type::One(CRON_SPEC))];
const SERVICE_PORT: Message = &[
    (1, "name", Type::Text),
    (2, "protocol", Type::Text),
    (3, "port", Type::Number),
    (4, "targetPort", Type::Either),
    (5, "nodePort", Type::Number),
];
const SERVICE_SPEC: Message = &[
    (1, "ports", Type::Many(SERVICE_PORT)),
    (2, "selector", Type::TextMap),
    (3, "clusterIP", Type::Text),
    (4, "type", Type::Text),
    (10, "externalName", Type::Text),
];
const SERVICE: Message = &[(1, "metadata", Type::One(METADATA)), (2, "spec", Type::One(SERVICE_SPEC))];
const BUDGET_SPEC: Message = &[
    (1, "minAvailable", Type::Either),
    (2, "selector", Type::One(SELECTOR)),
    (3, "maxUnavailable", Type::Either),
];
const BUDGET: Message = &[(1, "metadata", Type::One(METADATA)), (2, "spec", Type::One(BUDGET_SPEC))];
const PRIORITY: Message = &[
    (1, "metadata", Type::One(METADATA)),
    (2, "value", Type::Counted),
    (3, "globalDefault", Type::Flag),
    (4, "description", Type::Text),
    (5, "preemptionPolicy", Type::Text),
];
const CONFIG_MAP: Message =
    &[(1, "metadata", Type::One(METADATA)), (2, "data", Type::TextMap), (3, "binaryData", Type::BytesMap)];
const SECRET: Message =
    &[(1, "metadata", Type::One(METADATA)), (2, "data", Type::BytesMap), (3, "type", Type::Text)];
const ATTRIBUTES: Message = &[
    (1, "namespace", Type::Text),
    (2, "verb", Type::Text),
    (3, "group", Type::Text),
    (4, "version", Type::Text),
    (5, "resource", Type::Text),
    (6, "subresource", Type::Text),
    (7, "name", Type::Text),
];
const ACCESS_SPEC: Message = &[(1, "resourceAttributes", Type::One(ATTRIBUTES))];
const ACCESS: Message = &[(1, "metadata", Type::One(METADATA)), (2, "spec", Type::One(ACCESS_SPEC))];
const BARE: Message = &[(1, "metadata", Type::One(METADATA))];
const TYPE_META: Message = &[(1, "apiVersion", Type::Text), (2, "kind", Type::Text)];

fn message(kind: &str) -> Option<Message> {
    Some(match kind {
        "Eviction" => EVICTION,
        "DeleteOptions" => DELETE,
        "Namespace" | "ServiceAccount" | "SelfSubjectReview" | "SelfSubjectRulesReview" => BARE,
        "SelfSubjectAccessReview" => ACCESS,
        "ConfigMap" => CONFIG_MAP,
        "Secret" => SECRET,
        "Pod" => POD,
        "Deployment" => DEPLOYMENT,
        "Job" => JOB,
        "CronJob" => CRON_JOB,
        "Service" => SERVICE,
        "PodDisruptionBudget" => BUDGET,
        "PriorityClass" => PRIORITY,
        _ => return None,
    })
}

/// Decodes a body; `None` if it is not protobuf of a known kind.
pub(crate) fn decode(body: &[u8]) -> Option<Value> {
    let unknown = fields(body.strip_prefix(MAGIC)?)?;
    let mut value = Value::Null;
    let mut kind = Value::Null;
    for (number, field) in unknown {
        match (number, field) {
            (1, Field::Bytes(bytes)) => kind = read(bytes, TYPE_META, 0)?,
            (2, Field::Bytes(bytes)) => {
                value = read(bytes, message(kind["kind"].as_str()?)?, 0)?;
            }
            _ => {}
        }
    }
    for field in ["apiVersion", "kind"] {
        value.as_object_mut()?.insert(field.to_owned(), kind[field].clone());
    }
    Some(value)
}

/// A field on the wire.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The fields of a message in order.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, Field<'_>)>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let take = |bytes: &mut &[u8], length: u64| -> Option<()> {
            *bytes = bytes.get(usize::try_from(length).ok()?..)?;
            Some(())
        };
        match key & 7 {
            0 => found.push((key >> 3, Field::Number(varint(&mut bytes)?))),
            1 => take(&mut bytes, 8)?,
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let (inner, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                found.push((key >> 3, Field::Bytes(inner)));
            }
            5 => take(&mut bytes, 4)?,
            _ => return None,
        }
    }
    Some(found)
}

fn read(bytes: &[u8], message: Message, depth: usize) -> Option<Value> {
    if depth > DEEPEST {
        return None;
    }
    let mut object = Map::new();
    for (number, field) in fields(bytes)? {
        let Some((_, name, kind)) = message.iter().find(|(known, ..)| *known == number) else {
            // Go writes empty values too; anything else would be lost silently.
            if blank(&field, depth) {
                continue;
            }
            return None;
        };
        match (kind, field) {
            (Type::Number, Field::Number(0))
            | (Type::Flag, Field::Number(0))
            | (Type::Text, Field::Bytes([])) => {}
            (Type::Number | Type::Counted, Field::Number(number)) => {
                object.insert((*name).to_owned(), signed(number).into());
            }
            (Type::Flag, Field::Number(_)) => {
                object.insert((*name).to_owned(), true.into());
            }
            (Type::Text, Field::Bytes(text)) => {
                object.insert((*name).to_owned(), string(text));
            }
            (Type::Texts, Field::Bytes(text)) => push(&mut object, name, string(text)),
            (Type::Many(inner), Field::Bytes(bytes)) => {
                push(&mut object, name, read(bytes, inner, depth + 1)?)
            }
            (Type::One(inner), Field::Bytes(bytes)) => {
                object.insert((*name).to_owned(), read(bytes, inner, depth + 1)?);
            }
            (Type::Either, Field::Bytes(bytes)) => {
                object.insert((*name).to_owned(), either(bytes)?);
            }
            (Type::TextMap | Type::BytesMap | Type::Quantities, Field::Bytes(bytes)) => {
                let (key, value) = entry(bytes, *kind)?;
                let map = object.entry(*name).or_insert_with(|| json!({}));
                map.as_object_mut()?.insert(key, value);
            }
            _ => return None,
        }
    }
    Some(Value::Object(object))
}

/// Whether a field contains only zeros.
fn blank(field: &Field<'_>, depth: usize) -> bool {
    match field {
        Field::Number(number) => *number == 0,
        Field::Bytes(bytes) => {
            depth <= DEEPEST
                && fields(bytes).is_some_and(|inner| inner.iter().all(|(_, field)| blank(field, depth + 1)))
        }
    }
}

fn string(bytes: &[u8]) -> Value {
    String::from_utf8_lossy(bytes).into_owned().into()
}

/// Negative numbers are sign-extended to 64 bits.
fn signed(number: u64) -> i64 {
    i64::from_ne_bytes(number.to_ne_bytes())
}

fn push(object: &mut Map<String, Value>, name: &str, value: Value) {
    if let Value::Array(list) = object.entry(name).or_insert_with(|| json!([])) {
        list.push(value);
    }
}

/// `IntOrString`: type, number, text.
fn either(bytes: &[u8]) -> Option<Value> {
    let (mut is_text, mut number, mut text) = (false, 0, Value::Null);
    for field in fields(bytes)? {
        match field {
            (1, Field::Number(kind)) => is_text = kind == 1,
            (2, Field::Number(given)) => number = signed(given),
            (3, Field::Bytes(given)) => text = string(given),
            _ => {}
        }
    }
    Some(if is_text { text } else { number.into() })
}

fn entry(bytes: &[u8], kind: Type) -> Option<(String, Value)> {
    let (mut key, mut value) = (String::new(), Value::String(String::new()));
    for field in fields(bytes)? {
        match (field, kind) {
            ((1, Field::Bytes(bytes)), _) => key = String::from_utf8_lossy(bytes).into_owned(),
            ((2, Field::Bytes(bytes)), Type::BytesMap) => value = STANDARD.encode(bytes).into(),
            // A quantity is a message with its text as the first field.
            ((2, Field::Bytes(bytes)), Type::Quantities) => {
                value = read(bytes, &[(1, "string", Type::Text)], 0)?["string"].take();
            }
            ((2, Field::Bytes(bytes)), _) => value = string(bytes),
            _ => {}
        }
    }
    Some((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(number: u8, inner: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(inner.len()).unwrap()];
        out.extend_from_slice(inner);
        out
    }

    #[test]
    fn an_eviction_is_decoded() {
        let metadata = [bytes(1, b"pod"), bytes(3, b"default"), bytes(2, b"")].concat();
        let options = [vec![1 << 3, 5], bytes(2, &bytes(1, b"uid"))].concat();
        let raw = [bytes(1, &metadata), bytes(2, &options)].concat();
        let meta = [bytes(1, b"policy/v1"), bytes(2, b"Eviction")].concat();
        let body = [MAGIC.to_vec(), bytes(1, &meta), bytes(2, &raw)].concat();
        assert_eq!(
            decode(&body),
            Some(json!({
                "apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": { "name": "pod", "namespace": "default" },
                "deleteOptions": { "gracePeriodSeconds": 5, "preconditions": { "uid": "uid" } },
            }))
        );
        for cut in 0..body.len() {
            // No prefix may panic; most are rejected.
            let _ = decode(&body[..cut]);
        }
        assert_eq!(decode(b"k8s\0\xff"), None);
    }
}

//! Request bodies in Kubernetes' protobuf: kubectl's typed commands (`create`, `drain`, `auth can-i`) send
//! them whatever the server prefers. Decodes the kinds that kubectl makes that way; answers are always JSON.
//!
//! Field numbers: the `generated.proto` files of k8s.io/api and k8s.io/apimachinery 1.35.

mod messages;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use self::messages::{Message, TYPE_META, Type, message};

/// The prefix of every body.
const MAGIC: &[u8] = b"k8s\0";
/// The maximum depth.
const DEEPEST: usize = 32;

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
            (Type::Inline(inner), Field::Bytes(bytes)) => {
                object.append(read(bytes, inner, depth + 1)?.as_object_mut()?);
            }
            (Type::Quantity, Field::Bytes(bytes)) => {
                object.insert((*name).to_owned(), quantity(bytes)?);
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

/// A quantity is a message with its text as the first field.
fn quantity(bytes: &[u8]) -> Option<Value> {
    Some(read(bytes, &[(1, "string", Type::Text)], 0)?["string"].take())
}

fn entry(bytes: &[u8], kind: Type) -> Option<(String, Value)> {
    let (mut key, mut value) = (String::new(), Value::String(String::new()));
    for field in fields(bytes)? {
        match (field, kind) {
            ((1, Field::Bytes(bytes)), _) => key = String::from_utf8_lossy(bytes).into_owned(),
            ((2, Field::Bytes(bytes)), Type::BytesMap) => value = STANDARD.encode(bytes).into(),
            ((2, Field::Bytes(bytes)), Type::Quantities) => value = quantity(bytes)?,
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

    /// A body as kubectl sends it.
    fn body(api_version: &[u8], kind: &[u8], raw: &[u8]) -> Vec<u8> {
        let meta = [bytes(1, api_version), bytes(2, kind)].concat();
        [MAGIC.to_vec(), bytes(1, &meta), bytes(2, raw)].concat()
    }

    #[test]
    fn fields_of_an_inline_message_are_those_of_the_outer_one() {
        let path = [bytes(1, b"/"), bytes(3, b"Prefix")].concat();
        let rule = [bytes(1, b"a.example"), bytes(2, &bytes(1, &bytes(1, &path)))].concat();
        let raw = [bytes(1, &bytes(1, b"web")), bytes(2, &bytes(3, &rule))].concat();
        assert_eq!(
            decode(&body(b"networking.k8s.io/v1", b"Ingress", &raw)).unwrap()["spec"]["rules"],
            json!([{ "host": "a.example", "http": { "paths": [{ "path": "/", "pathType": "Prefix" }] } }])
        );
    }

    #[test]
    fn a_quantity_of_its_own_is_text() {
        let target = [bytes(1, b"Value"), bytes(2, &bytes(1, b"512Mi"))].concat();
        let metric = [bytes(1, b"Resource"), bytes(4, &[bytes(1, b"memory"), bytes(2, &target)].concat())];
        let raw = bytes(2, &bytes(4, &metric.concat()));
        assert_eq!(
            decode(&body(b"autoscaling/v2", b"HorizontalPodAutoscaler", &raw)).unwrap()["spec"]["metrics"],
            json!([{ "type": "Resource", "resource": { "name": "memory", "target": { "type": "Value", "value": "512Mi" } } }])
        );
    }

    #[test]
    fn an_eviction_is_decoded() {
        let metadata = [bytes(1, b"pod"), bytes(3, b"default"), bytes(2, b"")].concat();
        let options = [vec![1 << 3, 5], bytes(2, &bytes(1, b"uid"))].concat();
        let raw = [bytes(1, &metadata), bytes(2, &options)].concat();
        let body = body(b"policy/v1", b"Eviction", &raw);
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

//! Fields of an object that the type of its kind does not have. The API server drops them, or refuses the object.

use std::{borrow::Cow, cell::RefCell, rc::Rc};

use fleetwright_core::suggest;
use serde::{
    Deserializer,
    de::{DeserializeOwned, DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor},
    forward_to_deserialize_any,
};
use serde_json::{Error, Value};
use serde_path_to_error::Segment;

/// A field that its object does not have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UnknownField {
    /// Where it is, such as `spec.template.spec.toleration`.
    pub(crate) path: String,
    /// The field that was probably meant.
    pub(crate) meant: Option<&'static str>,
}

/// What reading an object as a type finds.
#[derive(Default)]
pub(crate) struct Reading {
    pub(crate) unknown: Vec<UnknownField>,
    /// The fields that have another form than the type demands, and how.
    pub(crate) errors: Vec<(String, String)>,
}

/// The most values of another type that are looked for; each is one more reading.
const MAX_ERRORS: usize = 32;

/// Reads an object as a type. Reading ends at a value of another type, so that it is repeated without that value.
pub(crate) fn read<T: DeserializeOwned>(value: &Value) -> Reading {
    let (mut unknown, mut errors) = (Vec::new(), Vec::new());
    let mut value = Cow::Borrowed(value);
    loop {
        let found = Rc::new(RefCell::new(Vec::new()));
        let probe = Probe { value: &value, path: String::new(), found: found.clone() };
        let error = serde_path_to_error::deserialize::<_, T>(probe).err();
        unknown.append(&mut found.take());
        let Some(error) = error else { break };
        let steps: Vec<Segment> = error.path().iter().cloned().collect();
        errors.push((shown(&steps), error.inner().to_string()));
        if errors.len() == MAX_ERRORS || !blank(value.to_mut(), &steps) {
            break;
        }
    }
    unknown.sort();
    unknown.dedup();
    // A member of a list that was blanked is the same finding.
    errors.sort();
    errors.dedup_by(|a, b| a.0 == b.0);
    Reading { unknown, errors }
}

/// A path as the API server writes it.
fn shown(steps: &[Segment]) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            Segment::Seq { index } => path.push_str(&format!("[{index}]")),
            Segment::Map { key } if key.contains('.') => path.push_str(&format!("[{key}]")),
            step if path.is_empty() => path.push_str(&step.to_string()),
            step => path.push_str(&format!(".{step}")),
        }
    }
    path
}

/// Removes the value at a path; a member of a list becomes an empty one of another type, and after that its list goes. Whether there is one.
fn blank(value: &mut Value, steps: &[Segment]) -> bool {
    let Some((last, before)) = steps.split_last() else { return false };
    let parent = before.iter().try_fold(&mut *value, |value, step| match step {
        Segment::Seq { index } => value.get_mut(*index),
        Segment::Map { key } => value.get_mut(key.as_str()),
        _ => None,
    });
    match (parent, last) {
        (Some(Value::Object(members)), Segment::Map { key }) => members.remove(key).is_some(),
        (Some(Value::Array(members)), Segment::Seq { index }) => match members.get_mut(*index) {
            Some(member) if *member != empty() => {
                *member = empty();
                true
            }
            _ => blank(value, before),
        },
        _ => false,
    }
}

fn empty() -> Value {
    Value::Object(serde_json::Map::new())
}

/// Reads a value as its type demands, and compares the keys of objects with the fields that the type names.
struct Probe<'a> {
    value: &'a Value,
    path: String,
    found: Rc<RefCell<Vec<UnknownField>>>,
}

impl<'a> Probe<'a> {
    fn member(&self, value: &'a Value, key: &str) -> Self {
        let path = match key {
            key if key.starts_with('[') || self.path.is_empty() => format!("{}{key}", self.path),
            key => format!("{}.{key}", self.path),
        };
        Self { value, path, found: self.found.clone() }
    }
}

impl<'de> Deserializer<'de> for Probe<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Array(members) => visitor.visit_seq(Members { at: 0, members, of: self }),
            Value::Object(members) => {
                visitor.visit_map(Entries { members: members.iter(), value: None, of: self })
            }
            leaf => leaf.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let members = self.value.as_object().into_iter().flatten();
        for (key, value) in members.filter(|(key, _)| !fields.contains(&key.as_str())) {
            let meant = suggest::nearest(key, fields.iter().copied());
            let meant = meant.and_then(|meant| fields.iter().find(|field| **field == meant)).copied();
            self.found.borrow_mut().push(UnknownField { path: self.member(value, key).path, meant });
        }
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map enum identifier ignored_any
    }
}

struct Members<'de> {
    at: usize,
    members: &'de [Value],
    of: Probe<'de>,
}

impl<'de> SeqAccess<'de> for Members<'de> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some(value) = self.members.get(self.at) else { return Ok(None) };
        let member = self.of.member(value, &format!("[{}]", self.at));
        self.at += 1;
        seed.deserialize(member).map(Some)
    }
}

struct Entries<'de> {
    members: serde_json::map::Iter<'de>,
    value: Option<(&'de str, &'de Value)>,
    of: Probe<'de>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some((key, value)) = self.members.next() else { return Ok(None) };
        self.value = Some((key, value));
        seed.deserialize(serde::de::value::BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let (key, value) = self.value.take().ok_or_else(|| Error::custom("a value without a key"))?;
        seed.deserialize(self.of.member(value, key))
    }
}

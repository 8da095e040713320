//! Walks through the words of a projected object: names, UIDs, label keys, label values, texts. All else is figures and vocabulary.

use fleetwright_api::labels as names;
use fleetwright_core::model::labels as model;
use fleetwright_state::fields::{self, FieldClass};
use serde_json::{Map, Value};

/// What becomes of each word.
pub(super) trait Words {
    /// The name of an object, or what identifies an instance or a volume.
    fn name(&mut self, name: &str) -> String;
    /// A UID.
    fn uid(&mut self, uid: &str) -> String;
    /// A label key.
    fn key(&mut self, key: &str) -> String;
    /// The value of a label.
    fn value(&mut self, key: &str, value: &str) -> String;
    /// Words for people.
    fn text(&mut self, text: &str) -> String;
    /// A key that requirements or tolerations compare as numbers.
    fn is_compared(&mut self, _key: &str) {}
}

/// Rewrites every word of an object. `class_fields` is what is read of it if it is a NodeClass.
pub(super) fn rewrite(object: &mut Value, class_fields: &'static str, words: &mut dyn Words) {
    fields::visit(object, class_fields, &mut |class, value| rewrite_field(class, value, words));
}

fn rewrite_field(class: FieldClass, value: &mut Value, words: &mut dyn Words) {
    match class {
        FieldClass::Scalar
        | FieldClass::Scalars
        | FieldClass::Amounts
        | FieldClass::Finalizers
        | FieldClass::Conditions => {}
        FieldClass::Text => change(value, |text| words.text(text)),
        FieldClass::Name => change(value, |name| words.name(name)),
        FieldClass::Uid => change(value, |uid| words.uid(uid)),
        FieldClass::Key => change(value, |key| words.key(key)),
        FieldClass::Names => each(value, |name| change(name, |name| words.name(name))),
        FieldClass::Keys => each(value, |key| change(key, |key| words.key(key))),
        FieldClass::Labels => labels(value, words),
        FieldClass::Requirements => each(value, |wanted| requirement(wanted, words)),
        FieldClass::Selector => {
            labels(&mut value["matchLabels"], words);
            each(&mut value["matchExpressions"], |wanted| requirement(wanted, words));
            if let Some(selector) = value.as_object_mut() {
                selector.retain(|_, part| !part.is_null());
            }
        }
        FieldClass::Taints => each(value, |taint| {
            let key = text_of(taint, "key");
            note_comparison(taint, &key, words);
            change(&mut taint["value"], |value| words.value(&key, value));
            change(&mut taint["key"], |key| words.key(key));
            if let Some(taint) = taint.as_object_mut() {
                taint.retain(|_, part| !part.is_null());
            }
        }),
        FieldClass::Annotations => {
            for (key, value) in value.as_object_mut().into_iter().flatten() {
                change(value, |value| annotation(key, value, words));
            }
        }
        FieldClass::PodConditions | FieldClass::ToldConditions => {
            each(value, |condition| {
                if let Some(message) = condition.get_mut("message") {
                    change(message, |message| words.text(message));
                }
            });
        }
        FieldClass::Owners => each(value, |owner| {
            if let Some(name) = owner.get_mut("name") {
                change(name, |name| words.name(name));
            }
            if let Some(uid) = owner.get_mut("uid") {
                change(uid, |uid| words.uid(uid));
            }
        }),
    }
}

fn change(value: &mut Value, to: impl FnOnce(&str) -> String) {
    if let Value::String(text) = value
        && !text.is_empty()
    {
        *text = to(text);
    }
}

fn each(list: &mut Value, to: impl FnMut(&mut Value)) {
    list.as_array_mut().into_iter().flatten().for_each(to);
}

fn text_of(object: &Value, field: &str) -> String {
    object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn labels(value: &mut Value, words: &mut dyn Words) {
    let Some(labels) = value.as_object_mut() else { return };
    *labels = std::mem::take(labels)
        .into_iter()
        .map(|(key, mut value)| {
            change(&mut value, |value| words.value(&key, value));
            (words.key(&key), value)
        })
        .collect::<Map<_, _>>();
}

fn requirement(wanted: &mut Value, words: &mut dyn Words) {
    let key = text_of(wanted, "key");
    note_comparison(wanted, &key, words);
    if let Some(values) = wanted.get_mut("values") {
        each(values, |value| change(value, |value| words.value(&key, value)));
    }
    if let Some(written) = wanted.get_mut("key") {
        change(written, |key| words.key(key));
    }
}

/// Notes the key of a requirement or toleration that compares numbers.
fn note_comparison(of: &Value, key: &str, words: &mut dyn Words) {
    if matches!(&*text_of(of, "operator"), "Gt" | "Lt" | "Gte" | "Lte") {
        words.is_compared(key);
    }
}

/// The value of an annotation that decisions read.
fn annotation(key: &str, value: &str, words: &mut dyn Words) -> String {
    match key {
        names::NOMINATED_PODS => nominated(value, words),
        names::OBSERVED | names::LAUNCH_LOOPS => records(value, words),
        names::INITIALIZATION_FAILURES => match value.splitn(3, '/').collect::<Vec<_>>()[..] {
            [generation, claim, time] => format!("{generation}/{}/{time}", words.name(claim)),
            _ => String::new(),
        },
        names::BATCH_ID | "volume.kubernetes.io/selected-node" => words.name(value),
        model::AWAITS_LABEL => words.key(value),
        // An invalid value protects too.
        model::DO_NOT_DISRUPT
            if !value.chars().all(|c| c.is_ascii_digit() || "truefalsnohmµ.".contains(c)) =>
        {
            words.text(value)
        }
        _ => value.to_owned(),
    }
}

/// `namespace/name:uid`, joined by commas.
fn nominated(value: &str, words: &mut dyn Words) -> String {
    let pods = value.split(',').filter_map(|pod| {
        let (id, uid) = pod.rsplit_once(':')?;
        let (namespace, name) = id.split_once('/')?;
        Some(format!("{}/{}:{}", words.name(namespace), words.name(name), words.uid(uid)))
    });
    pods.collect::<Vec<_>>().join(",")
}

/// A list of records as JSON, which name NodeClaims, workloads and taints.
fn records(value: &str, words: &mut dyn Words) -> String {
    let Ok(Value::Array(mut records)) = serde_json::from_str(value) else { return String::new() };
    for record in &mut records {
        for field in ["claim", "namespace", "name"] {
            if let Some(name) = record.get_mut(field) {
                change(name, |name| words.name(name));
            }
        }
        if let Some(uid) = record.get_mut("uid") {
            change(uid, |uid| words.uid(uid));
        }
        if let Some(taint) = record.get_mut("taint").filter(|taint| taint.is_object()) {
            let mut list = Value::Array(vec![taint.take()]);
            rewrite_field(FieldClass::Taints, &mut list, words);
            *taint = list[0].take();
        }
    }
    Value::Array(records).to_string()
}

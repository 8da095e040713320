//! What an API server does with an object before it stores it: defaults, structural constraints, CEL rules.

use std::cell::RefCell;
use std::collections::BTreeMap;

use fleetwright_api::crd;
use kube_cel::{CompiledSchema, Validator, apply_defaults, compile_schema};
use serde_json::{Map, Value, json};

/// One edit of an otherwise valid object, and what must be in the answer; an empty answer means that it is accepted.
pub(crate) type Row = (&'static str, Value, &'static str);

/// The schema of a kind as the fake cloud's cluster has it.
pub(crate) fn schema(kind: &str) -> Value {
    let crd = crd::kwok().into_iter().find(|crd| crd.spec.names.kind == kind).expect("a known kind");
    let validation = crd.spec.versions[0].schema.clone().expect("a schema");
    serde_json::to_value(validation.open_api_v3_schema).expect("schemas are JSON")
}

/// Fills in defaults as the API server does, which also fills in what it has just filled in. (The engine's own helper
/// makes one pass.)
pub(crate) fn defaulted(schema: &Value, object: &Value) -> Value {
    let once = apply_defaults(schema, object);
    if &once == object { once } else { defaulted(schema, &once) }
}

/// A kind's schema with its rules and patterns compiled.
pub(crate) struct Reviewer {
    schema: Value,
    rules: CompiledSchema,
    engine: Validator,
    patterns: RefCell<BTreeMap<String, CompiledSchema>>,
}

impl Reviewer {
    pub(crate) fn new(kind: &str) -> Self {
        let schema = schema(kind);
        let rules = compile_schema(&schema);
        Self { schema, rules, engine: Validator::new(), patterns: RefCell::default() }
    }

    /// Everything that is wrong with an object; `old` is what it replaces. Rules run on well-formed objects only.
    pub(crate) fn review(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let object = defaulted(&self.schema, object);
        let mut errors = Vec::new();
        self.structural(&self.schema, &object, "", &mut errors);
        if errors.is_empty()
            && let Err(broken) = self.engine.validate_compiled(&self.rules, &object, old)
        {
            errors.extend(broken.into_iter().map(|error| error.to_string()));
        }
        errors
    }
}

/// Applies each row to the base by itself and compares the answer.
pub(crate) fn check(kind: &str, base: &Value, rows: &[Row]) {
    let reviewer = Reviewer::new(kind);
    assert_eq!(reviewer.review(base, None), Vec::<String>::new(), "the base is valid");
    for (at, value, refusal) in rows {
        let mut object = base.clone();
        put(&mut object, at, value.clone());
        expect(&reviewer.review(&object, None), refusal, &format!("{kind} {at} = {value}"));
    }
}

/// Applies each pair of edits as an update.
pub(crate) fn check_updates(kind: &str, base: &Value, rows: &[(Row, Value)]) {
    let reviewer = Reviewer::new(kind);
    for ((at, new, refusal), old) in rows {
        let (mut before, mut after) = (base.clone(), base.clone());
        put(&mut before, at, old.clone());
        put(&mut after, at, new.clone());
        expect(&reviewer.review(&after, Some(&before)), refusal, &format!("{kind} {at} = {old} -> {new}"));
    }
}

fn expect(errors: &[String], refusal: &str, case: &str) {
    if refusal.is_empty() {
        assert!(errors.is_empty(), "{case} must be accepted: {errors:?}");
    } else {
        assert!(!errors.is_empty(), "{case} must be refused");
        assert!(
            errors.iter().all(|error| error.contains(refusal)),
            "{case} is refused for another reason: {errors:?}"
        );
    }
}

/// Sets the value at a JSON pointer, making objects on the way; null takes it away.
pub(crate) fn put(object: &mut Value, at: &str, value: Value) {
    let (parent, key) = at.rsplit_once('/').expect("a JSON pointer");
    let mut node = object;
    for step in parent.split('/').skip(1) {
        let step = step.replace("~1", "/");
        node = match node {
            Value::Array(items) => &mut items[step.parse::<usize>().expect("an index")],
            node => {
                if node.is_null() {
                    *node = Value::Object(Map::new());
                }
                &mut node[step]
            }
        };
    }
    if node.is_null() {
        *node = Value::Object(Map::new());
    }
    let map = node.as_object_mut().expect("an object");
    if value.is_null() {
        map.remove(key);
    } else {
        map.insert(key.replace("~1", "/"), value);
    }
}

impl Reviewer {
    fn structural(&self, schema: &Value, value: &Value, path: &str, errors: &mut Vec<String>) {
        let mut say = |what: &str| errors.push(format!("{path}: {what}"));
        if !has_type(schema, value) {
            return say("wrong type");
        }
        if schema["enum"].as_array().is_some_and(|known| !known.contains(value)) {
            say("not in enum");
        }
        if let Some(text) = value.as_str() {
            let length = u64::try_from(text.chars().count()).expect("short texts");
            if schema["pattern"].as_str().is_some_and(|pattern| !self.matches(pattern, value)) {
                say("pattern");
            }
            bounds(schema, length, "minLength", "maxLength", &mut say);
        }
        if let Some(number) = value.as_f64() {
            if schema["minimum"].as_f64().is_some_and(|minimum| number < minimum) {
                say("below minimum");
            }
            if schema["maximum"].as_f64().is_some_and(|maximum| number > maximum) {
                say("above maximum");
            }
        }
        if let Some(items) = value.as_array() {
            bounds(schema, items.len().try_into().expect("short lists"), "minItems", "maxItems", &mut say);
            unique(schema, items, &mut say);
            for (index, item) in items.iter().enumerate() {
                self.structural(&schema["items"], item, &format!("{path}[{index}]"), errors);
            }
        } else if let Some(map) = value.as_object() {
            bounds(
                schema,
                map.len().try_into().expect("small maps"),
                "minProperties",
                "maxProperties",
                &mut say,
            );
            for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                if !map.contains_key(name) {
                    say(&format!("{name} is required"));
                }
            }
            for (name, child) in map {
                let known = schema["properties"].get(name).unwrap_or_else(|| &schema["additionalProperties"]);
                self.structural(known, child, &format!("{path}.{name}"), errors);
            }
        }
    }

    /// Lets the CEL engine's regular expressions decide, which are those of the rules.
    fn matches(&self, pattern: &str, text: &Value) -> bool {
        let mut patterns = self.patterns.borrow_mut();
        let compiled = patterns.entry(pattern.to_owned()).or_insert_with(|| {
        let rule = format!("self.matches({})", Value::from(pattern));
        compile_schema(&json!({"type": "string", "x-kubernetes-validations": [{"rule": rule, "message": "pattern"}]}))
    });
        self.engine.validate_compiled(compiled, text, None).is_ok()
    }
}

fn has_type(schema: &Value, value: &Value) -> bool {
    if schema["x-kubernetes-int-or-string"] == json!(true) {
        return value.is_i64() || value.is_string();
    }
    match schema["type"].as_str() {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    }
}

fn bounds(schema: &Value, size: u64, least: &str, most: &str, say: &mut impl FnMut(&str)) {
    if schema[least].as_u64().is_some_and(|bound| size < bound) {
        say(least);
    }
    if schema[most].as_u64().is_some_and(|bound| size > bound) {
        say(most);
    }
}

fn unique(schema: &Value, items: &[Value], say: &mut impl FnMut(&str)) {
    let identity = |item: &Value| match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => Some(item.clone()),
        Some("map") => Some(json!([item[schema["x-kubernetes-list-map-keys"][0].as_str()?]])),
        _ => None,
    };
    let mut seen = Vec::new();
    for identity in items.iter().filter_map(identity) {
        if seen.contains(&identity) {
            say("duplicate");
        }
        seen.push(identity);
    }
}

//! Replaces the names of a dump by words that say nothing, so that it plans the same.
//!
//! A name becomes `n017-4be1c2d9`: its rank among all names of the dump, then a keyed hash. Decisions break ties by name, and ranks keep
//! the order; equal names get equal words, so that references hold; with the same key, the hashes of two dumps are the same. Label keys
//! and UIDs are ranked among themselves.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use aws_lc_rs::{hmac, rand};
use serde_json::Value;

use super::{
    keys::{self, PublicKeys},
    words::{Words, rewrite},
};
use crate::{catalogue::Catalogues, input::prepare};

/// Bytes of a random key.
const KEY_BYTES: usize = 32;
/// Annotation with the drift hash of a NodePool's template.
const HASH: &str = fleetwright_api::labels::NODEPOOL_HASH;

/// Renames with one key.
pub(crate) struct Anonymizer<'a> {
    key: hmac::Key,
    catalogues: &'a Catalogues,
    public: PublicKeys,
}

impl<'a> Anonymizer<'a> {
    /// One with this key; without one, with a random key that is forgotten.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(crate) fn new(catalogues: &'a Catalogues, key: Option<&str>) -> anyhow::Result<Self> {
        let mut random = [0; KEY_BYTES];
        let bytes = match key {
            Some(key) => key.as_bytes(),
            None => {
                rand::fill(&mut random).ok().context("no random numbers for a key: give one with --key")?;
                &random[..]
            }
        };
        let key = hmac::Key::new(hmac::HMAC_SHA256, bytes);
        Ok(Self { key, catalogues, public: PublicKeys::new(catalogues.labels()) })
    }

    /// Renames everything in the objects.
    pub(super) fn anonymize(&self, objects: &mut [Value]) {
        let mut found = Found::new(&self.public);
        objects.iter_mut().for_each(|object| {
            found.note_set(object);
            rewrite(object, self.class_fields(object), &mut found);
        });
        let mut renames = Renames::new(self, &found);
        let before: Vec<Option<String>> = objects.iter().map(pool_hash).collect();
        objects.iter_mut().for_each(|object| rewrite(object, self.class_fields(object), &mut renames));
        let mut hashes = BTreeMap::new();
        for (object, before) in objects.iter().zip(before) {
            if let (Some(before), Some(after)) = (before, pool_hash(object)) {
                hashes.insert((text(object, "/metadata/name").to_owned(), before), after);
            }
        }
        objects.iter_mut().for_each(|object| rehash(object, &hashes));
    }

    fn class_fields(&self, object: &Value) -> &'static str {
        let group = text(object, "/apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
        self.catalogues.class_fields(group, text(object, "/kind")).unwrap_or_default()
    }

    fn hash(&self, word: &str) -> String {
        let tag = hmac::sign(&self.key, word.as_bytes());
        tag.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
    }
}

fn text<'a>(object: &'a Value, at: &str) -> &'a str {
    object.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

/// The drift hash of a NodePool, which contains its labels and annotations.
fn pool_hash(object: &Value) -> Option<String> {
    (object["kind"] == "NodePool").then(|| prepare::pool_hash(object)).flatten()
}

/// Replaces the hash of a NodePool's template, on the NodePool and its NodeClaims. Another hash stays: drifted is drifted.
fn rehash(object: &mut Value, hashes: &BTreeMap<(String, String), String>) {
    let pool = match object["kind"].as_str() {
        Some("NodePool") => text(object, "/metadata/name").to_owned(),
        Some("NodeClaim") => text(object, "/metadata/labels/karpenter.sh~1nodepool").to_owned(),
        _ => return,
    };
    let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    if let Some(Value::String(hash)) = annotations.and_then(|all| all.get_mut(HASH))
        && let Some(new) = hashes.get(&(pool, hash.clone()))
    {
        hash.clone_from(new);
    }
}

/// The words of a dump.
struct Found<'a> {
    public: &'a PublicKeys,
    names: BTreeSet<String>,
    keys: BTreeSet<String>,
    uids: BTreeSet<String>,
    /// Keys whose values are compared as numbers.
    compared: BTreeSet<String>,
    /// The names of StatefulSets, and of each claim template with its set: their pods and claims are numbered.
    sets: BTreeSet<String>,
    claims: BTreeMap<String, (String, String)>,
}

impl<'a> Found<'a> {
    fn new(public: &'a PublicKeys) -> Self {
        Self {
            public,
            names: BTreeSet::new(),
            keys: BTreeSet::new(),
            uids: BTreeSet::new(),
            compared: BTreeSet::new(),
            sets: BTreeSet::new(),
            claims: BTreeMap::new(),
        }
    }

    fn note_set(&mut self, object: &Value) {
        if object["kind"] != "StatefulSet" {
            return;
        }
        let set = text(object, "/metadata/name");
        self.sets.insert(set.to_owned());
        let templates = object.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array);
        for template in templates.into_iter().flatten().map(|template| text(template, "/metadata/name")) {
            self.claims.insert(format!("{template}-{set}"), (template.to_owned(), set.to_owned()));
        }
    }
}

impl Words for Found<'_> {
    fn name(&mut self, name: &str) -> String {
        self.names.insert(name.to_owned());
        name.to_owned()
    }

    fn uid(&mut self, uid: &str) -> String {
        self.uids.insert(uid.to_owned());
        uid.to_owned()
    }

    fn key(&mut self, key: &str) -> String {
        self.keys.insert(key.to_owned());
        key.to_owned()
    }

    fn value(&mut self, key: &str, value: &str) -> String {
        if !self.public.has_public_values(key) {
            self.names.insert(value.to_owned());
        }
        value.to_owned()
    }

    fn text(&mut self, text: &str) -> String {
        text.to_owned()
    }

    fn is_compared(&mut self, key: &str) {
        self.compared.insert(key.to_owned());
    }
}

/// The new words.
struct Renames<'a> {
    of: &'a Anonymizer<'a>,
    found: &'a Found<'a>,
    names: BTreeMap<&'a str, String>,
    keys: BTreeMap<&'a str, String>,
    uids: BTreeMap<&'a str, String>,
}

impl<'a> Renames<'a> {
    fn new(of: &'a Anonymizer<'a>, found: &'a Found<'a>) -> Self {
        let ranked = |prefix: &dyn Fn(&str) -> &'static str, words: &'a BTreeSet<String>| {
            let width = words.len().to_string().len();
            let word = |(rank, word): (usize, &'a String)| {
                (word.as_str(), format!("{}{rank:0width$}-{}", prefix(word), of.hash(word)))
            };
            words.iter().enumerate().map(word).collect()
        };
        Self {
            of,
            found,
            names: ranked(&keys::prefix, &found.names),
            keys: ranked(&|_| "k", &found.keys),
            uids: ranked(&|_| "u", &found.uids),
        }
    }

    /// The word for a name. All names were found before.
    fn word(&self, name: &str) -> String {
        if keys::is_public_name(name) {
            return name.to_owned();
        }
        self.names.get(name).cloned().unwrap_or_else(|| format!("n-{}", self.of.hash(name)))
    }
}

impl Words for Renames<'_> {
    fn name(&mut self, name: &str) -> String {
        let numbered = name.rsplit_once('-').filter(|(_, number)| number.parse::<u32>().is_ok());
        if let Some((base, number)) = numbered {
            if self.found.sets.contains(base) {
                return format!("{}-{number}", self.word(base));
            }
            if let Some((template, set)) = self.found.claims.get(base) {
                return format!("{}-{}-{number}", self.word(template), self.word(set));
            }
        }
        self.word(name)
    }

    fn uid(&mut self, uid: &str) -> String {
        self.uids.get(uid).cloned().unwrap_or_else(|| format!("u-{}", self.of.hash(uid)))
    }

    fn key(&mut self, key: &str) -> String {
        if self.of.public.is_public(key) {
            return key.to_owned();
        }
        let word = self.keys.get(key).cloned().unwrap_or_else(|| format!("k-{}", self.of.hash(key)));
        keys::kept_domain(key).map_or_else(|| word.clone(), |domain| format!("{domain}/{word}"))
    }

    fn value(&mut self, key: &str, value: &str) -> String {
        let is_compared = self.found.compared.contains(key) && value.parse::<i64>().is_ok();
        if self.of.public.has_public_values(key) || is_compared { value.to_owned() } else { self.name(value) }
    }

    fn text(&mut self, text: &str) -> String {
        format!("text-{}", self.of.hash(text))
    }
}

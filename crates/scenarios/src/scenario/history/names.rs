//! Names for people: what is drawn by lot gets a number, in the order of its birth.

use std::collections::BTreeMap;

use serde_json::Value;

use super::text;

/// Real names with those that reports have.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Longest real name first: one may begin with another.
    pairs: Vec<(String, String)>,
    counts: BTreeMap<String, usize>,
}

impl Names {
    /// Names an object that is seen for the first time, and the instance of a NodeClaim. What has a name of its own keeps it.
    pub(super) fn meet(&mut self, kind: &str, object: &Value) {
        let name = text(object, "/metadata/name");
        match kind {
            "NodeClaim" => {
                let own = self.number(name, "claim");
                let instance = text(object, "/status/providerID");
                if let Some(number) = own.strip_prefix("claim-") {
                    self.pair(instance, &format!("instance-{number}"));
                }
            }
            "Node" => {
                let instance = self.known(text(object, "/spec/providerID"));
                let number = instance.and_then(|instance| instance.strip_prefix("instance-"));
                if let Some(node) = number.map(|number| format!("node-{number}")) {
                    self.pair(name, &node);
                }
            }
            "Pod" => {
                let prefix = text(object, "/metadata/generateName").trim_end_matches('-');
                let app = text(object, "/metadata/labels/app");
                if !prefix.is_empty() {
                    let _own = self.number(name, if app.is_empty() { prefix } else { app });
                }
            }
            "VolumeAttachment" => {
                let _own = self.number(name, "attachment");
                self.number_once(text(object, "/spec/source/persistentVolumeName"), "volume");
            }
            _ => {}
        }
    }

    fn known(&self, real: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| known == real).map(|(_, name)| name.as_str())
    }

    /// The name that a report has for `real`: the next number of `of`, where it has none yet.
    fn number(&mut self, real: &str, of: &str) -> String {
        if let Some(name) = self.known(real) {
            return name.to_owned();
        }
        let count = self.counts.entry(of.to_owned()).or_default();
        *count = count.saturating_add(1);
        let name = format!("{of}-{count}");
        self.pair(real, &name);
        name
    }

    fn number_once(&mut self, real: &str, of: &str) {
        if !real.is_empty() {
            let _own = self.number(real, of);
        }
    }

    /// The first name that a thing gets stays; a name that is taken is not given again.
    fn pair(&mut self, real: &str, name: &str) {
        let taken = self.pairs.iter().any(|(known, given)| known == real || given == name);
        if !real.is_empty() && !taken {
            self.pairs.push((real.to_owned(), name.to_owned()));
            self.pairs.sort_by(|(a, _), (b, _)| (b.len(), a).cmp(&(a.len(), b)));
        }
    }

    /// `text` with the names that reports have.
    pub(super) fn told(&self, text: &str) -> String {
        self.pairs.iter().fold(text.to_owned(), |text, (real, name)| text.replace(real, name))
    }

    /// What a report calls `name`.
    pub(super) fn real(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(_, given)| given == name).map(|(real, _)| real.as_str())
    }
}

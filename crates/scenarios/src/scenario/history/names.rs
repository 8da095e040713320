//! Stable names in reports: generated names are replaced by numbers, in the order of creation.

use std::collections::BTreeMap;

use serde_json::Value;

use super::text;

/// Pairs of real names and names in reports.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Longest real name first, because one may be the prefix of another.
    pairs: Vec<(String, String)>,
    counts: BTreeMap<String, usize>,
}

impl Names {
    /// Names a new object, and the instance of a NodeClaim. Names that are not generated stay.
    pub(super) fn register(&mut self, kind: &str, object: &Value) {
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

    /// The name of `real` in reports: the next number of `of` if it has none yet.
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

    /// The first name of an object stays; a name is never used twice.
    fn pair(&mut self, real: &str, name: &str) {
        let taken = self.pairs.iter().any(|(known, given)| known == real || given == name);
        if !real.is_empty() && !taken {
            self.pairs.push((real.to_owned(), name.to_owned()));
            self.pairs.sort_by(|(a, _), (b, _)| (b.len(), a).cmp(&(a.len(), b)));
        }
    }

    /// `text` with the names of reports.
    pub(super) fn with_report_names(&self, text: &str) -> String {
        self.pairs.iter().fold(text.to_owned(), |text, (real, name)| text.replace(real, name))
    }

    /// The real name of `name`.
    pub(super) fn real(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(_, given)| given == name).map(|(real, _)| real.as_str())
    }
}

//! What a controller shows: metric families, events and log messages, and how two of them differ.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Families that only a Go program or Karpenter's webhooks have.
const OF_GO: [&str; 3] = ["go_", "certwatcher_", "controller_runtime_webhook_"];
/// Keys of a log line that depend on the build.
const OF_BUILD: [&str; 3] = ["caller", "commit", "stacktrace"];

/// What a controller shows.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// Type and label names by family.
    families: BTreeMap<String, (String, BTreeSet<String>)>,
    /// Kind, reason and type.
    events: BTreeSet<String>,
    /// Keys by level and message.
    lines: BTreeMap<String, BTreeSet<String>>,
}

/// What one side shows otherwise.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Difference {
    pub(super) item: String,
    pub(super) what: String,
}

impl Observed {
    pub(super) fn new(metrics: &str, events: &[Value], log: &str) -> Self {
        let mut families = families(metrics);
        families.retain(|name, _| !OF_GO.iter().any(|prefix| name.starts_with(prefix)));
        Self { families, events: events.iter().filter_map(event).collect(), lines: lines(log) }
    }

    /// Families, events and messages.
    pub(super) fn sizes(&self) -> [usize; 3] {
        [self.families.len(), self.events.len(), self.lines.len()]
    }

    /// What `other` shows otherwise, or not at all. What it shows beside that does not count.
    pub(super) fn differences(&self, other: &Self) -> BTreeSet<Difference> {
        let mut found = BTreeSet::new();
        let mut add = |item: String, what: String| found.insert(Difference { item, what });
        for (name, (kind, labels)) in &self.families {
            let item = format!("metric {name}");
            match other.families.get(name) {
                None => add(item, "is missing".to_owned()),
                Some((found, _)) if found != kind => add(item, format!("is a {found}, not a {kind}")),
                Some((_, found)) if found != labels => add(item, labels_differ(labels, found)),
                Some(_) => continue,
            };
        }
        for event in self.events.difference(&other.events) {
            add(format!("event {event}"), "is missing".to_owned());
        }
        for (message, keys) in &self.lines {
            let item = format!("log {message}");
            match other.lines.get(message) {
                None => add(item, "is missing".to_owned()),
                Some(found) if !keys.is_subset(found) => {
                    let missing: Vec<&str> = keys.difference(found).map(String::as_str).collect();
                    add(item, format!("lacks {}", missing.join(" ")))
                }
                Some(_) => continue,
            };
        }
        found
    }
}

fn labels_differ(theirs: &BTreeSet<String>, ours: &BTreeSet<String>) -> String {
    let join = |labels: Vec<&String>| labels.into_iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    let (lacks, has) =
        (theirs.difference(ours).collect::<Vec<_>>(), ours.difference(theirs).collect::<Vec<_>>());
    let parts = [("lacks labels", lacks), ("has labels", has)];
    let parts = parts.into_iter().filter(|(_, labels)| !labels.is_empty());
    parts.map(|(what, labels)| format!("{what} {}", join(labels))).collect::<Vec<_>>().join("; ")
}

/// The families of Prometheus' text format that have a series.
fn families(text: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let types: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let mut found: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let name: String = line.chars().take_while(|c| !matches!(c, '{' | ' ')).collect();
        let ends = ["", "_bucket", "_sum", "_count"];
        let of = ends.iter().find_map(|end| types.get_key_value(name.strip_suffix(end)?));
        let Some((family, kind)) = of else { continue };
        let entry =
            found.entry((*family).to_owned()).or_insert_with(|| ((*kind).to_owned(), BTreeSet::new()));
        entry.1.extend(labels(line).into_iter().filter(|label| label != "le" && label != "quantile"));
    }
    found
}

/// The names of the labels of a series. Values may have any character, quotes and backslashes with a backslash before them.
fn labels(line: &str) -> Vec<String> {
    let Some((_, rest)) = line.split_once('{') else { return Vec::new() };
    let (mut names, mut name, mut quoted, mut escaped) = (Vec::new(), String::new(), false, false);
    for c in rest.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '}' => break,
            '=' => names.push(std::mem::take(&mut name)),
            ',' => name.clear(),
            other => name.push(other),
        }
    }
    names
}

/// Kind, reason and type of an event of the controller.
fn event(event: &Value) -> Option<String> {
    let text = |path: &str| event.pointer(path).and_then(Value::as_str);
    (text("/source/component") == Some("karpenter")).then(|| {
        let of = |path| text(path).unwrap_or_default();
        format!("{} {} {}", of("/involvedObject/kind"), of("/reason"), of("/type"))
    })
}

/// The keys of the lines, by level and message. Lines of the level debug are for developers, and not compared.
fn lines(log: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in log.lines() {
        let Ok(Value::Object(line)) = serde_json::from_str(line) else { continue };
        let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("level") == "DEBUG" || text("message").is_empty() {
            continue;
        }
        let keys = line.keys().filter(|key| !OF_BUILD.contains(&key.as_str())).cloned();
        found.entry(format!("{} {}", text("level"), text("message"))).or_default().extend(keys);
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const METRICS: &str = "# HELP a A.\n# TYPE a gauge\na{x=\"1,y=\\\"2\",z=\"}\"} 1\n\
        # TYPE b histogram\nb_bucket{le=\"1\",k=\"v\"} 1\nb_sum{k=\"v\"} 1\nb_count{k=\"v\"} 1\n\
        # TYPE go_goroutines gauge\ngo_goroutines 1\n# TYPE c counter\n";

    fn observed(metrics: &str, reason: &str, log: &str) -> Observed {
        let event = json!({"source": {"component": "karpenter"}, "reason": reason, "type": "Normal",
            "involvedObject": {"kind": "Node"}});
        Observed::new(metrics, &[event, json!({"source": {"component": "kubelet"}})], log)
    }

    #[test]
    fn equal_is_no_difference_and_each_kind_of_difference_is_named() {
        let log = r#"{"level":"INFO","message":"m","Node":{"name":"n"},"caller":"a.go:1"}"#;
        let theirs = observed(METRICS, "Ready", log);
        assert_eq!(theirs.sizes(), [2, 1, 1], "{theirs:?}");
        assert_eq!(theirs.differences(&observed(METRICS, "Ready", log)), BTreeSet::new());
        let metrics = METRICS.replace("# TYPE b histogram", "# TYPE b summary").replace(",z=", ",w=");
        let ours = observed(&metrics, "Launched", r#"{"level":"INFO","message":"m"}"#);
        let found = theirs.differences(&ours);
        let found: Vec<(&str, &str)> =
            found.iter().map(|found| (found.item.as_str(), found.what.as_str())).collect();
        assert_eq!(
            found,
            [
                ("event Node Ready Normal", "is missing"),
                ("log INFO m", "lacks Node"),
                ("metric a", "lacks labels z; has labels w"),
                ("metric b", "is a summary, not a histogram"),
            ]
        );
        assert_eq!(theirs.differences(&Observed::default()).len(), 4);
    }
}

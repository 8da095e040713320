//! The environment variables of a container as kubelet sets them, as far as they can be read: literals and config maps. Secrets are never
//! read.

use std::collections::BTreeMap;

use serde_json::Value;

use super::objects::{ClusterObjects, list, name, text};

/// The variables of a container.
#[derive(Debug, Default)]
pub(super) struct Environment {
    pub(super) variables: BTreeMap<String, String>,
    /// Variables that the list has twice with different values.
    pub(super) doubled: Vec<String>,
    pub(super) unread: Vec<UnreadVariable>,
}

/// What sets a variable to a value that is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnreadVariable {
    /// The variable; `None`: any.
    pub(super) variable: Option<String>,
    /// The object that has the value.
    pub(super) object: String,
}

impl Environment {
    /// The variables of a container of `namespace`. Later ones win, and those of the list win over those of whole objects.
    pub(super) fn of(container: &Value, cluster: &ClusterObjects, namespace: &str) -> Self {
        let mut this = Self::default();
        for source in list(container, "/envFrom") {
            this.take_all(source, cluster, namespace);
        }
        let mut listed: BTreeMap<&str, &str> = BTreeMap::new();
        for variable in list(container, "/env") {
            let name = text(variable, "/name");
            if let Some(value) = variable["value"].as_str() {
                this.set(name, value);
                if listed.insert(name, value).is_some_and(|known| known != value) {
                    this.doubled.push(name.to_owned());
                }
            } else {
                this.take_one(name, &variable["valueFrom"], cluster, namespace);
            }
        }
        this
    }

    fn set(&mut self, name: &str, value: &str) {
        self.unread.retain(|unread| unread.variable.as_deref() != Some(name));
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    /// An entry of `envFrom`: all keys of a config map or secret.
    fn take_all(&mut self, source: &Value, cluster: &ClusterObjects, namespace: &str) {
        for (field, kind) in [("configMapRef", "ConfigMap"), ("secretRef", "Secret")] {
            let object = text(source, &format!("/{field}/name"));
            if object.is_empty() {
                continue;
            }
            let Some(config_map) = config_map(cluster, namespace, object).filter(|_| kind == "ConfigMap")
            else {
                self.unread.push(UnreadVariable { variable: None, object: full(kind, namespace, object) });
                continue;
            };
            let prefix = text(source, "/prefix");
            for (key, value) in config_map["data"].as_object().into_iter().flatten() {
                self.set(&format!("{prefix}{key}"), value.as_str().unwrap_or_default());
            }
        }
    }

    /// `valueFrom`: one key of a config map or secret. Fields of the pod set no value that decisions read.
    fn take_one(&mut self, variable: &str, source: &Value, cluster: &ClusterObjects, namespace: &str) {
        for (field, kind) in [("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")] {
            let object = text(source, &format!("/{field}/name"));
            if object.is_empty() {
                continue;
            }
            let key = text(source, &format!("/{field}/key"));
            match config_map(cluster, namespace, object).filter(|_| kind == "ConfigMap") {
                Some(config_map) => {
                    if let Some(value) = config_map["data"][key].as_str() {
                        self.set(variable, value);
                    }
                }
                None => {
                    self.variables.remove(variable);
                    let object = full(kind, namespace, object);
                    self.unread.push(UnreadVariable { variable: Some(variable.to_owned()), object });
                }
            }
        }
    }
}

fn full(kind: &str, namespace: &str, name: &str) -> String {
    format!("{kind} {namespace}/{name}")
}

fn config_map<'a>(cluster: &'a ClusterObjects, namespace: &str, wanted: &str) -> Option<&'a Value> {
    cluster
        .of("", "ConfigMap")
        .find(|map| name(map) == wanted && text(map, "/metadata/namespace") == namespace)
}

/// The names of the config maps that variables of a container come from.
pub(super) fn config_maps(container: &Value) -> impl Iterator<Item = &str> {
    let whole = list(container, "/envFrom").map(|source| text(source, "/configMapRef/name"));
    let keys = list(container, "/env").map(|variable| text(variable, "/valueFrom/configMapKeyRef/name"));
    whole.chain(keys).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    //! What kubelet would set.
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::input::{Item, Source};

    fn environment(container: &Value) -> Environment {
        let map = |name: &str, data: Value| {
            let value = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
                "metadata": {"name": name, "namespace": "a"}});
            Item { value, source: Source::Cluster }
        };
        let items = [map("one", json!({"A": "1", "B": "1"})), map("two", json!({"B": "2"}))];
        let cluster = ClusterObjects::new(&items, Vec::new(), true, Timestamp::UNIX_EPOCH);
        Environment::of(container, &cluster, "a")
    }

    #[test]
    fn later_sources_win() {
        let found = environment(&json!({
            "envFrom": [{"configMapRef": {"name": "one"}}, {"configMapRef": {"name": "two"}, "prefix": "X_"},
                {"configMapRef": {"name": "two"}}],
            "env": [{"name": "A", "value": "3"},
                {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "one", "key": "A"}}},
                {"name": "D", "valueFrom": {"configMapKeyRef": {"name": "one", "key": "missing"}}},
                {"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        }));
        let expected = [("A", "3"), ("B", "2"), ("C", "1"), ("X_B", "2")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(found.variables, BTreeMap::from(expected));
        assert_eq!((found.unread, found.doubled), (Vec::new(), Vec::new()));
    }

    #[test]
    fn secrets_and_missing_config_maps_are_unread() {
        let found = environment(&json!({
            "envFrom": [{"secretRef": {"name": "s"}}, {"configMapRef": {"name": "gone"}}],
            "env": [{"name": "A", "value": "1"},
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "a"}}},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "gone", "key": "b"}}},
                {"name": "B", "value": "2"}],
        }));
        let expected = [("B".to_owned(), "2".to_owned())];
        assert_eq!(found.variables, BTreeMap::from(expected));
        let unread = [(None, "Secret a/s"), (None, "ConfigMap a/gone"), (Some("A"), "Secret a/s")];
        let unread = unread.map(|(variable, object)| UnreadVariable {
            variable: variable.map(str::to_owned),
            object: object.to_owned(),
        });
        assert_eq!(found.unread, unread);
        let container = json!({"envFrom": [{"configMapRef": {"name": "one"}}, {"secretRef": {"name": "s"}}],
            "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "two", "key": "a"}}}, {"name": "B", "value": "2"}]});
        assert_eq!(config_maps(&container).collect::<Vec<_>>(), ["one", "two"]);
    }
}

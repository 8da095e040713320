//! Which cluster or files a tool reads, and which objects it reports on.

use std::{collections::BTreeSet, path::PathBuf};

use anyhow::ensure;
use fleetwright_core::suggest::did_you_mean;
use serde_json::Value;

use super::Item;

/// Where a tool reads objects from.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct InputOptions {
    /// Manifests or dumps to read instead of the cluster; `-` is standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE_OR_DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// The kubeconfig of the cluster. Defaults to the one that kubectl uses.
    #[arg(long, value_name = "FILE", conflicts_with = "files")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig. Defaults to the current one.
    #[arg(long, value_name = "NAME", conflicts_with = "files")]
    pub(crate) context: Option<String>,
}

/// Which objects a tool reports on.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SelectOptions {
    /// Report only on this namespace: `plan` on its pods, `disrupt` on nodes that run pods of it.
    #[arg(short = 'n', long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Report only on objects with these labels, such as app=web,tier!=db: `plan` on pods, `disrupt` on nodes.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = Selector::parse)]
    pub(crate) selector: Option<Selector>,
}

/// A label selector as kubectl reads it, without sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selector(Vec<Term>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    Is(String, String),
    IsNot(String, String),
    Has(String),
    HasNot(String),
}

impl Selector {
    /// Reads the text of the option.
    ///
    /// # Errors
    /// If a term is empty or a set.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let term = |term: &str| {
            let term = term.trim();
            if term.is_empty() || term.contains(['(', ')', ' ']) {
                return Err(format!("{term:?} is no term such as app=web, app!=web, app or !app"));
            }
            let pair = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
            Ok(if let Some(found) = term.split_once("!=") {
                let (key, value) = pair(found);
                Term::IsNot(key, value)
            } else if let Some(found) = term.split_once("==").or_else(|| term.split_once('=')) {
                let (key, value) = pair(found);
                Term::Is(key, value)
            } else if let Some(key) = term.strip_prefix('!') {
                Term::HasNot(key.to_owned())
            } else {
                Term::Has(term.to_owned())
            })
        };
        text.split(',').map(term).collect::<Result<_, _>>().map(Self)
    }

    /// The labels that it names.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|term| match term {
            Term::Is(key, _) | Term::IsNot(key, _) | Term::Has(key) | Term::HasNot(key) => &**key,
        })
    }

    /// Whether it selects an object, of which `label` returns the value of a label.
    pub(crate) fn selects<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|term| match term {
            Term::Is(key, value) => label(key) == Some(value),
            Term::IsNot(key, value) => label(key) != Some(value),
            Term::Has(key) => label(key).is_some(),
            Term::HasNot(key) => label(key).is_none(),
        })
    }
}

impl SelectOptions {
    /// Checks that the namespace exists, so that a mistyped one does not look like one without pods.
    ///
    /// # Errors
    /// If no object of the input is in the namespace.
    pub(crate) fn check(&self, items: &[Item]) -> anyhow::Result<()> {
        let Some(namespace) = &self.namespace else { return Ok(()) };
        let of = |item: &'_ Item| {
            let name =
                if item.value["kind"] == "Namespace" { "/metadata/name" } else { "/metadata/namespace" };
            item.value.pointer(name).and_then(Value::as_str).map(str::to_owned)
        };
        // Objects without a namespace are in this one, and every cluster has it.
        let known: BTreeSet<String> = items.iter().filter_map(of).chain(["default".to_owned()]).collect();
        let meant = did_you_mean(namespace, known.iter().map(String::as_str));
        ensure!(known.contains(namespace), "the input has no namespace {namespace:?}{meant}");
        Ok(())
    }

    /// Whether an object with this namespace and these labels is selected.
    pub(crate) fn takes<'a>(&self, namespace: &str, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.namespace.as_ref().is_none_or(|wanted| *wanted == namespace)
            && self.selector.as_ref().is_none_or(|selector| selector.selects(label))
    }
}

/// Group, kind, namespace and name of an object: its identity, whatever its version.
pub(crate) fn identity(value: &Value) -> (String, String, String, String) {
    let text = |at: &str| value.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let group = text("/apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
    let (namespace, name) = super::object::id_of(value);
    (group.to_owned(), text("/kind").to_owned(), namespace, name)
}

#[cfg(test)]
mod tests {
    //! Selectors.
    use std::path::Path;

    use rstest::rstest;

    use super::*;
    use crate::input::files;

    #[rstest]
    #[case("app=web", true)]
    #[case("app==web,tier", true)]
    #[case("app!=web", false)]
    #[case("tier!=db", true)]
    #[case("!tier", false)]
    #[case("!team,app=web", true)]
    fn selectors(#[case] text: &str, #[case] expected: bool) {
        let label = |key: &str| {
            [("app", "web"), ("tier", "front")].into_iter().find(|(k, _)| *k == key).map(|(_, v)| v)
        };
        assert_eq!(Selector::parse(text).unwrap().selects(label), expected);
    }

    #[rstest]
    #[case("default", "")]
    #[case("prod", "")]
    #[case("empty", "")]
    #[case("prd", "the input has no namespace \"prd\" (did you mean \"prod\"?)")]
    #[case("other", "the input has no namespace \"other\"")]
    fn a_namespace_of_the_input_is_asked_for(#[case] namespace: &str, #[case] expected: &str) {
        let text = "{kind: Pod, metadata: {name: a, namespace: prod}}\n---\n{kind: Namespace, metadata: {name: empty}}\n---\n{kind: Pod, metadata: {name: b}}";
        let mut items = Vec::new();
        files::parse(Path::new("in.yaml"), text, &mut items).unwrap();
        let options = SelectOptions { namespace: Some(namespace.to_owned()), selector: None };
        let found = options.check(&items).err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(found, expected);
    }

    #[test]
    fn sets_are_refused() {
        for text in ["", "app in (a)", "a,,b"] {
            assert!(Selector::parse(text).is_err(), "{text:?}");
        }
    }
}

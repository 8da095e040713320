//! What selects pods: Services and the controllers of pods, as far as default spread constraints need them.

use std::collections::BTreeMap;

use super::{
    ids::{NamespacedName, Str},
    labels::Labels,
    pod::{LabelSelector, Pod, SelectorTerm},
    requirement::Operator,
};

/// Selectors of Services and of the controllers that kube-scheduler's default constraints know.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workloads {
    /// `spec.selector` of Services by namespace and name; those without one select nothing and are left out.
    pub services: BTreeMap<NamespacedName, Labels>,
    /// Selectors of ReplicationControllers, ReplicaSets and StatefulSets, by kind, then namespace and name.
    pub controllers: BTreeMap<(Str, NamespacedName), LabelSelector>,
}

impl Workloads {
    /// The selector of a pod's default spread constraints: the conjunction of its Services' and its controller's selectors
    /// (kube-scheduler's `DefaultSelector`). `None` without any: then there are no default constraints.
    #[must_use]
    pub fn default_selector(&self, pod: &Pod) -> Option<LabelSelector> {
        let first = NamespacedName::new(pod.id.namespace.clone(), "");
        let of_namespace =
            self.services.range(first..).take_while(|(id, _)| id.namespace == pod.id.namespace);
        let selecting = of_namespace
            .filter(|(_, wanted)| wanted.iter().all(|(key, value)| pod.labels.get(key) == Some(value)));
        let equal = |(key, value): (&Str, &Str)| SelectorTerm {
            key: key.clone(),
            operator: Operator::In,
            values: vec![value.clone()],
        };
        let mut terms: Vec<SelectorTerm> =
            selecting.flat_map(|(_, wanted)| wanted.iter().map(equal)).collect();
        if let Some(owner) = &pod.owner {
            let id = NamespacedName::new(pod.id.namespace.clone(), owner.name.clone());
            let selector = self.controllers.get(&(owner.kind.clone(), id));
            terms.extend(selector.into_iter().flat_map(|selector| selector.terms.iter().cloned()));
        }
        terms.sort();
        terms.dedup();
        (!terms.is_empty()).then_some(LabelSelector { terms })
    }
}

#[cfg(test)]
mod tests {
    //! Whom a default constraint counts.
    use super::*;
    use crate::testing::{labels_of, pod};

    #[test]
    fn services_and_controller_together_select() {
        let mut workloads = Workloads::default();
        let text = |workloads: &Workloads| {
            let pod = pod("p").app("web").label("tier", "front").owner("ReplicaSet", "web-1").build();
            let selector = workloads.default_selector(&pod)?;
            Some(
                selector
                    .terms
                    .iter()
                    .map(|term| format!("{}={}", term.key, term.values[0]))
                    .collect::<Vec<_>>()
                    .join(" "),
            )
        };
        assert_eq!(text(&workloads), None);
        let mut service = |namespace: &str, name: &str, labels: &[(&str, &str)]| {
            workloads.services.insert(NamespacedName::new(namespace, name), labels_of(labels));
        };
        service("default", "web", &[("app", "web")]);
        service("default", "other", &[("app", "other")]);
        service("elsewhere", "front", &[("tier", "front")]);
        assert_eq!(text(&workloads).as_deref(), Some("app=web"));
        let set = ("ReplicaSet".into(), NamespacedName::new("default", "web-1"));
        workloads.controllers.insert(set, LabelSelector::of("hash", "1"));
        assert_eq!(text(&workloads).as_deref(), Some("app=web hash=1"));
        workloads.services.clear();
        assert_eq!(text(&workloads).as_deref(), Some("hash=1"));
    }
}

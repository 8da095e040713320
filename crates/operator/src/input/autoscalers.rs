//! HorizontalPodAutoscalers and ScaledObjects of KEDA: the least number of pods that a workload has with them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Item,
    object::{id_of, namespace_of},
};

/// The minimum of each workload that an object scales: by kind, namespace and name, the object and the number.
pub(crate) struct Minimums(BTreeMap<(String, String, String), (String, i64)>);

impl Minimums {
    pub(crate) fn of(items: &[Item]) -> Self {
        let minimum = |Item { value, .. }: &Item| {
            let (field, usual) = match value["kind"].as_str()? {
                "HorizontalPodAutoscaler" => ("minReplicas", 1),
                "ScaledObject" => ("minReplicaCount", 0),
                _ => return None,
            };
            let target = &value["spec"]["scaleTargetRef"];
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let kind = text(&target["kind"]).unwrap_or_else(|| "Deployment".to_owned());
            let key = (kind, namespace_of(value), text(&target["name"])?);
            let (namespace, name) = id_of(value);
            let object = format!("{} {namespace}/{name}", value["kind"].as_str()?);
            Some((key, (object, value["spec"][field].as_i64().unwrap_or(usual))))
        };
        Self(items.iter().filter_map(minimum).collect())
    }

    /// The least number of pods of a workload: by kind, namespace and name.
    pub(crate) fn least(&self, (kind, namespace, name): (&str, &str, &str)) -> Option<i64> {
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        self.0.get(&key).map(|(_, least)| *least)
    }

    /// A note where a workload is planned with fewer pods than its minimum.
    pub(super) fn note(&self, (kind, namespace, name): (&str, &str, &str), planned: i64) -> Option<String> {
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        let (object, least) = self.0.get(&key).filter(|(_, least)| *least > planned)?;
        let are = if planned == 1 { "is" } else { "are" };
        Some(format!(
            "{object} keeps at least {least} pods of {kind} {namespace}/{name}, and {planned} {are} planned: add --replicas {namespace}/{name}={least}"
        ))
    }
}

#[cfg(test)]
mod tests {
    //! Which workloads are planned too small.
    use std::path::Path;

    use rstest::rstest;

    use super::*;
    use crate::input::files;

    #[rstest]
    #[case::below(
        "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: h}, spec: {minReplicas: 6, scaleTargetRef: {kind: Deployment, name: web}}}",
        1,
        Some(
            "HorizontalPodAutoscaler default/h keeps at least 6 pods of Deployment default/web, and 1 is planned: add --replicas default/web=6"
        )
    )]
    #[case::enough(
        "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: h}, spec: {minReplicas: 6, scaleTargetRef: {kind: Deployment, name: web}}}",
        6,
        None
    )]
    #[case::keda(
        "{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: s}, spec: {minReplicaCount: 2, scaleTargetRef: {name: web}}}",
        1,
        Some(
            "ScaledObject default/s keeps at least 2 pods of Deployment default/web, and 1 is planned: add --replicas default/web=2"
        )
    )]
    #[case::another(
        "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: h, namespace: other}, spec: {minReplicas: 6, scaleTargetRef: {kind: Deployment, name: web}}}",
        1,
        None
    )]
    fn workloads_below_their_minimum(
        #[case] text: &str,
        #[case] planned: i64,
        #[case] expected: Option<&str>,
    ) {
        let mut items = Vec::new();
        files::parse(Path::new("in.yaml"), text, &mut items).unwrap();
        let note = Minimums::of(&items).note(("Deployment", "default", "web"), planned);
        assert_eq!(note.as_deref(), expected);
    }
}

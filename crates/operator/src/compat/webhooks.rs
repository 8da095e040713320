//! C6xx: admission webhooks of Karpenter's first releases.

use fleetwright_api::labels;
use serde_json::Value;

use super::{
    finding::Finding,
    objects::{ClusterObjects, display, list, text},
};

const GROUP: &str = "admissionregistration.k8s.io";

/// Webhooks on the kinds of the API groups `groups` and of Karpenter.
pub(super) fn check(cluster: &ClusterObjects, groups: &[&str]) -> Vec<Finding> {
    let kinds = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];
    let configurations = kinds.into_iter().flat_map(|kind| cluster.of(GROUP, kind));
    configurations.filter_map(|configuration| one(configuration, groups)).collect()
}

fn one(configuration: &Value, groups: &[&str]) -> Option<Finding> {
    let is_on_ours = |webhook: &&Value| {
        list(webhook, "/rules")
            .flat_map(|rule| list(rule, "/apiGroups"))
            .filter_map(Value::as_str)
            .any(|group| group == labels::GROUP || groups.contains(&group))
    };
    let webhooks: Vec<&Value> = list(configuration, "/webhooks").filter(is_on_ours).collect();
    let webhook = webhooks.first()?;
    let service = text(webhook, "/clientConfig/service/name");
    let (object, is_karpenters) = (display(configuration), service.contains("karpenter"));
    let fails = webhooks.iter().any(|webhook| text(webhook, "/failurePolicy") != "Ignore");
    let name = text(webhook, "/name");
    Some(match (is_karpenters, fails) {
        (true, true) => {
            let what = format!(
                "the webhook {name} asks the Service {service}, which nothing serves after the switch: every write of these kinds would fail"
            );
            Finding::blocker("C601", object, what)
                .fix("delete the configuration; Karpenter needs none since 1.1")
        }
        (true, false) => {
            let what = format!(
                "the webhook {name} asks the Service {service}, which nothing serves after the switch"
            );
            Finding::warning("C601", object, what)
                .fix("delete the configuration; Karpenter needs none since 1.1")
        }
        (false, _) => {
            let what = format!(
                "the webhook {name} of another tool decides about writes of these kinds, also about Fleetwright's"
            );
            Finding::note("C602", object, what)
                .fix("let it pass annotations and finalizers of fleetwright.dev")
        }
    })
}

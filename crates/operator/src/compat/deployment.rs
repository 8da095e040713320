//! C5xx: the running Karpenter: its Deployment, image and chart.

use serde_json::Value;

use super::{
    finding::Finding,
    objects::{ClusterObjects, display, label, list, name, text},
};

/// The minor version of Karpenter's 1.x that Fleetwright is compatible with.
const LEVEL: u64 = 14;

/// The Deployment of the running controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running<'a> {
    pub(super) deployment: &'a Value,
    pub(super) container: &'a Value,
}

impl<'a> Running<'a> {
    /// `None` if a Deployment is not a controller of Karpenter or Fleetwright. A shadow decides beside a controller, and is none.
    fn of(deployment: &'a Value) -> Option<Self> {
        let container = controller_container(deployment)?;
        (!is_shadow(container)).then_some(Self { deployment, container })
    }

    pub(super) fn namespace(&self) -> &'a str {
        text(self.deployment, "/metadata/namespace")
    }

    pub(super) fn object(&self) -> String {
        display(self.deployment)
    }

    pub(super) fn replicas(&self) -> u64 {
        self.deployment.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1)
    }

    pub(super) fn is_fleetwright(&self) -> bool {
        text(self.container, "/image").contains("fleetwright")
    }
}

/// The container of a Deployment that runs a controller of Karpenter or Fleetwright, or a shadow.
pub(crate) fn controller_container(deployment: &Value) -> Option<&Value> {
    let containers = || list(deployment, "/spec/template/spec/containers");
    let is_named =
        label(deployment, "app.kubernetes.io/name") == "karpenter" || name(deployment) == "karpenter";
    let of_image = containers().find(|container| is_controller(text(container, "/image")));
    match of_image {
        Some(container) => Some(container),
        None if is_named => containers().find(|container| is_configured(container)),
        None => None,
    }
}

/// Whether an image is that of a controller. Mirrors keep the last part of its name.
fn is_controller(image: &str) -> bool {
    let repository = image.split('@').next().unwrap_or_default();
    let repository = match repository.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => repository,
    };
    repository.ends_with("karpenter/controller")
        || repository.ends_with("/fleetwright")
        || repository == "fleetwright"
}

/// Whether a container runs in shadow mode, by its variable or its argument.
fn is_shadow(container: &Value) -> bool {
    let is_true = |text: &str| matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True");
    let of_variable = list(container, "/env")
        .any(|variable| variable["name"] == "SHADOW" && is_true(text(variable, "/value")));
    let arguments = list(container, "/args").chain(list(container, "/command")).filter_map(Value::as_str);
    let mut flags = arguments.filter(|argument| argument.starts_with('-'));
    of_variable || flags.any(|flag| matches!(flag.trim_start_matches('-'), "shadow" | "shadow=true"))
}

/// Whether a container has a variable that only Karpenter's chart sets: mirrors may rename the image.
fn is_configured(container: &Value) -> bool {
    list(container, "/env").any(|variable| variable["name"] == "KARPENTER_SERVICE")
}

/// All controllers of Karpenter's API in the cluster.
pub(super) fn running(cluster: &ClusterObjects) -> Vec<Running<'_>> {
    cluster.of("apps", "Deployment").filter_map(Running::of).collect()
}

/// Checks chart, image and the number of controllers.
pub(super) fn check(running: &[Running<'_>]) -> Vec<Finding> {
    let mut found = Vec::new();
    if running.is_empty() {
        let what =
            "no Deployment of Karpenter was found: settings, permissions, image and chart are not checked";
        let fix = "add the output of `kubectl get deployments,clusterroles,clusterrolebindings,roles,rolebindings -A -o yaml`";
        found.push(Finding::warning("C500", "input", what).fix(fix));
    }
    if let [first, second, ..] = running {
        let active: Vec<&Running<'_>> = running.iter().filter(|one| one.replicas() > 0).collect();
        if active.len() > 1 {
            let what =
                format!("runs beside {}: two controllers would act on the same NodePools", first.object());
            let fix = "scale one of them to zero before the switch";
            found.push(Finding::blocker("C501", second.object(), what).fix(fix));
        }
    }
    for one in running {
        if one.is_fleetwright() {
            found.push(Finding::note("C502", one.object(), "is Fleetwright already"));
        }
        found.extend(chart(one));
        found.extend(image(one));
    }
    found
}

/// The chart's version: 0.x has other APIs, 1.0 webhooks.
fn chart(running: &Running<'_>) -> Option<Finding> {
    let chart = label(running.deployment, "helm.sh/chart");
    let version = chart.strip_prefix("karpenter-")?;
    let object = running.object();
    let Some((major, minor)) = level(version) else {
        let what = format!("the chart {chart} has a version that cannot be read");
        return Some(Finding::note("C503", object, what));
    };
    if running.is_fleetwright() {
        return None;
    }
    match (major, minor) {
        (0, _) => {
            let what = format!("is of the chart {version}, which has other APIs (v1beta1) and other hashes");
            let fix = "upgrade Karpenter to 1.14 first, as its own guide says";
            Some(Finding::blocker("C503", object, what).fix(fix))
        }
        (1, 0) => {
            let what = format!(
                "is of the chart {version}, whose webhooks convert v1beta1; no later release has them"
            );
            let fix = "upgrade Karpenter to 1.14 first; that also brings definitions without webhooks";
            Some(Finding::blocker("C503", object, what).fix(fix))
        }
        (1, minor) if minor < LEVEL => {
            let what = format!("is of the chart {version}; Fleetwright is compatible with 1.{LEVEL}");
            let fix = "read the upgrade notes between the two, upgrade karpenter-crd, and see C1xx";
            Some(Finding::note("C503", object, what).fix(fix))
        }
        (1, LEVEL) => None,
        _ => {
            let what = format!(
                "is of the chart {version}, newer than the 1.{LEVEL} that Fleetwright is compatible with"
            );
            let fix = "see C110 and C202 for what is newer";
            Some(Finding::warning("C503", object, what).fix(fix))
        }
    }
}

fn level(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

/// The digest in Karpenter's values is kept if only repository and tag are changed.
fn image(running: &Running<'_>) -> Option<Finding> {
    let image = text(running.container, "/image");
    let (_, digest) = image.split_once('@')?;
    let object = running.object();
    let of_upstream = label(running.deployment, "helm.sh/chart").starts_with("karpenter-1.");
    if running.is_fleetwright() && of_upstream {
        let what = format!("Karpenter's chart pins the digest {digest} of Karpenter's image on {image}");
        return Some(Finding::blocker("C504", object, what).fix("set controller.image.digest to \"\""));
    }
    let what = format!(
        "the image is pinned to {digest}; under Karpenter's own chart the digest stays when the repository changes"
    );
    let fix = "use Fleetwright's chart, or set controller.image.repository, tag and digest=\"\" together";
    (!running.is_fleetwright()).then(|| Finding::note("C504", object, what).fix(fix))
}

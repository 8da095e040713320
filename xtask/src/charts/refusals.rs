//! Values that the chart refuses, and that the refusal names the value.

use std::path::Path;

use crate::helm::Helm;

/// What is set beside the cluster name, and what the refusal has to say.
const REFUSED: [(&str, &str); 9] = [
    // What `helm upgrade --reuse-values` leaves of a release of Karpenter.
    ("fleetwright=null", "missing property 'fleetwright'"),
    ("settings.clusterName=", "settings.clusterName is empty"),
    ("fleetwright.image.digest=latest", "digest"),
    ("fleetwright.rbac.secrets=true", "secrets"),
    ("fleetwright.shadow=only", "shadow"),
    ("fleetwright.ui=public", "ui"),
    ("fleetwright.imgae.tag=1", "imgae"),
    ("fleetwright.settings.initializationTimeout=20m", "initializationTimeout"),
    ("controller.metrics.port=8081", "controller.metrics.port and controller.healthProbe.port are both 8081"),
];

/// What the chart accepts although it should not, or refuses in other words.
pub(super) fn check(helm: &Helm, chart: &Path) -> Vec<String> {
    let refusal = |(set, says): (&str, &str)| {
        let rendered = helm.template(chart, "karpenter", &["--set", "settings.clusterName=a", "--set", set]);
        match rendered {
            Ok(_) => Some(format!("--set {set} is accepted")),
            Err(error) if format!("{error:#}").contains(says) => None,
            Err(error) => Some(format!("--set {set} is refused without `{says}`: {error:#}")),
        }
    };
    REFUSED.into_iter().filter_map(refusal).collect()
}

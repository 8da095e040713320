//! The built-in resources as a data table.

use super::{Resource, ResourceInfo};

/// Full set of verbs.
const ALL: &str = "create delete deletecollection get list patch update watch";
/// Verbs of review resources.
const CREATE: &str = "create";

/// Group, version, kind, plural, namespaced, short names, subresources, categories, verbs.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    bool,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("", "v1", "Binding", "bindings", true, "", "", "", CREATE),
    ("", "v1", "ConfigMap", "configmaps", true, "cm", "", "", ALL),
    ("", "v1", "Endpoints", "endpoints", true, "ep", "", "", ALL),
    ("", "v1", "Event", "events", true, "ev", "", "", ALL),
    ("", "v1", "LimitRange", "limitranges", true, "limits", "", "", ALL),
    ("", "v1", "Namespace", "namespaces", false, "ns", "finalize status", "", "create delete get list patch update watch"),
    ("", "v1", "Node", "nodes", false, "no", "status", "", ALL),
    ("", "v1", "PersistentVolume", "persistentvolumes", false, "pv", "status", "", ALL),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true, "pvc", "status", "", ALL),
    ("", "v1", "Pod", "pods", true, "po", "binding ephemeralcontainers eviction log resize status", "all", ALL),
    ("", "v1", "PodTemplate", "podtemplates", true, "", "", "", ALL),
    ("", "v1", "ReplicationController", "replicationcontrollers", true, "rc", "scale status", "all", ALL),
    ("", "v1", "ResourceQuota", "resourcequotas", true, "quota", "status", "", ALL),
    ("", "v1", "Secret", "secrets", true, "", "", "", ALL),
    ("", "v1", "Service", "services", true, "svc", "status", "all", ALL),
    ("", "v1", "ServiceAccount", "serviceaccounts", true, "sa", "token", "", ALL),
    ("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", false, "", "", "api-extensions", ALL),
    ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", false, "", "status", "api-extensions", ALL),
    ("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", false, "", "", "api-extensions", ALL),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false, "crd crds", "status", "api-extensions", ALL),
    ("apiregistration.k8s.io", "v1", "APIService", "apiservices", false, "", "status", "api-extensions", ALL),
    ("apps", "v1", "ControllerRevision", "controllerrevisions", true, "", "", "", ALL),
    ("apps", "v1", "DaemonSet", "daemonsets", true, "ds", "status", "all", ALL),
    ("apps", "v1", "Deployment", "deployments", true, "deploy", "scale status", "all", ALL),
    ("apps", "v1", "ReplicaSet", "replicasets", true, "rs", "scale status", "all", ALL),
    ("apps", "v1", "StatefulSet", "statefulsets", true, "sts", "scale status", "all", ALL),
    ("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", false, "", "", "", CREATE),
    ("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", false, "", "", "", CREATE),
    ("authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", true, "", "", "", CREATE),
    ("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", false, "", "", "", CREATE),
    ("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", false, "", "", "", CREATE),
    ("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", false, "", "", "", CREATE),
    ("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", true, "hpa", "status", "all", ALL),
    ("batch", "v1", "CronJob", "cronjobs", true, "cj", "status", "all", ALL),
    ("batch", "v1", "Job", "jobs", true, "", "status", "all", ALL),
    ("coordination.k8s.io", "v1", "Lease", "leases", true, "", "", "", ALL),
    ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true, "", "", "", ALL),
    ("events.k8s.io", "v1", "Event", "events", true, "ev", "", "", ALL),
    ("networking.k8s.io", "v1", "Ingress", "ingresses", true, "ing", "status", "", ALL),
    ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", true, "netpol", "", "", ALL),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true, "pdb", "status", "", ALL),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false, "", "", "", ALL),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", false, "", "", "", ALL),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", true, "", "", "", ALL),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", true, "", "", "", ALL),
    ("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", false, "", "", "", ALL),
    ("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", true, "", "status", "", ALL),
    ("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates", true, "", "", "", ALL),
    ("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", false, "", "", "", ALL),
    ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", false, "pc", "", "", ALL),
    ("storage.k8s.io", "v1", "CSIDriver", "csidrivers", false, "", "", "", ALL),
    ("storage.k8s.io", "v1", "CSINode", "csinodes", false, "", "", "", ALL),
    ("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", true, "", "", "", ALL),
    ("storage.k8s.io", "v1", "StorageClass", "storageclasses", false, "sc", "", "", ALL),
    ("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", false, "", "status", "", ALL),
];

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// The table as resources. Both groups of events share the store of the core group.
pub(super) fn resources() -> impl Iterator<Item = Resource> {
    ROWS.iter().map(|&(group, version, kind, plural, namespaced, short, subresources, categories, verbs)| {
        let storage = if plural == "events" { "events.".to_owned() } else { format!("{plural}.{group}") };
        let info = ResourceInfo {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            short_names: words(short),
            categories: words(categories),
            namespaced,
            verbs: words(verbs),
            subresources: words(subresources),
        };
        Resource { info, storage: storage.into(), custom: None }
    })
}

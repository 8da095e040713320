//! The messages of the kinds that kubectl makes as protobuf, with their field numbers.

/// Type of a field.
#[derive(Clone, Copy)]
pub(super) enum Type {
    /// Text; empty ones are left out.
    Text,
    /// Integer; zero is left out.
    Number,
    /// Integer behind a pointer: zero is kept.
    Counted,
    /// Boolean; false is left out.
    Flag,
    /// Texts.
    Texts,
    /// Texts by text.
    TextMap,
    /// Bytes by text.
    BytesMap,
    /// A quantity.
    Quantity,
    /// Quantities by text.
    Quantities,
    /// Number or text.
    Either,
    /// A message.
    One(Message),
    /// A message whose fields are those of the outer one in JSON.
    Inline(Message),
    /// Messages.
    Many(Message),
}

/// Fields of a message: number, name, type.
pub(super) type Message = &'static [(u64, &'static str, Type)];

const OWNER: Message = &[
    (1, "kind", Type::Text),
    (3, "name", Type::Text),
    (4, "uid", Type::Text),
    (5, "apiVersion", Type::Text),
    (6, "controller", Type::Flag),
    (7, "blockOwnerDeletion", Type::Flag),
];
const METADATA: Message = &[
    (1, "name", Type::Text),
    (2, "generateName", Type::Text),
    (3, "namespace", Type::Text),
    (5, "uid", Type::Text),
    (6, "resourceVersion", Type::Text),
    (11, "labels", Type::TextMap),
    (12, "annotations", Type::TextMap),
    (13, "ownerReferences", Type::Many(OWNER)),
    (14, "finalizers", Type::Texts),
];
const EXPRESSION: Message =
    &[(1, "key", Type::Text), (2, "operator", Type::Text), (3, "values", Type::Texts)];
const SELECTOR: Message =
    &[(1, "matchLabels", Type::TextMap), (2, "matchExpressions", Type::Many(EXPRESSION))];
const PRECONDITIONS: Message = &[(1, "uid", Type::Text), (2, "resourceVersion", Type::Text)];
const DELETE: Message = &[
    (1, "gracePeriodSeconds", Type::Counted),
    (2, "preconditions", Type::One(PRECONDITIONS)),
    (4, "propagationPolicy", Type::Text),
    (5, "dryRun", Type::Texts),
];
const EVICTION: Message = &[(1, "metadata", Type::One(METADATA)), (2, "deleteOptions", Type::One(DELETE))];
const PORT: Message = &[
    (1, "name", Type::Text),
    (2, "hostPort", Type::Number),
    (3, "containerPort", Type::Number),
    (4, "protocol", Type::Text),
];
const VARIABLE: Message = &[(1, "name", Type::Text), (2, "value", Type::Text)];
const RESOURCES: Message = &[(1, "limits", Type::Quantities), (2, "requests", Type::Quantities)];
const CONTAINER: Message = &[
    (1, "name", Type::Text),
    (2, "image", Type::Text),
    (3, "command", Type::Texts),
    (4, "args", Type::Texts),
    (5, "workingDir", Type::Text),
    (6, "ports", Type::Many(PORT)),
    (7, "env", Type::Many(VARIABLE)),
    (8, "resources", Type::One(RESOURCES)),
    (14, "imagePullPolicy", Type::Text),
];
const POD_SPEC: Message = &[
    (2, "containers", Type::Many(CONTAINER)),
    (3, "restartPolicy", Type::Text),
    (4, "terminationGracePeriodSeconds", Type::Counted),
    (7, "nodeSelector", Type::TextMap),
    (8, "serviceAccountName", Type::Text),
    (20, "initContainers", Type::Many(CONTAINER)),
    (24, "priorityClassName", Type::Text),
];
const TEMPLATE: Message = &[(1, "metadata", Type::One(METADATA)), (2, "spec", Type::One(POD_SPEC))];
const POD: Message = TEMPLATE;
const DEPLOYMENT_SPEC: Message = &[
    (1, "replicas", Type::Counted),
    (2, "selector", Type::One(SELECTOR)),
    (3, "template", Type::One(TEMPLATE)),
    (5, "minReadySeconds", Type::Number),
    (6, "revisionHistoryLimit", Type::Counted),
];
const DEPLOYMENT: Message = &[(1, "metadata", Type::One(METADATA)), (2, "spec", Type::One(DEPLOYMENT_SPEC))];
const JOB_SPEC: Message = &[
    (1, "parallelism", Type::Counted),
    (2, "completions", Type::Counted),
    (6, "template", Type::One(TEMPLATE)),
    (7, "backoffLimit", Type::Counted),
];
const JOB: Message = &[(1, "metadata", Type::One(METADATA)), (2, "spec", Type::One(JOB_SPEC))];
const CRON_SPEC: Message = &[(1, "schedule", Type::Text), (5, "jobTemplate", Type::One(JOB))];
const CRON_JOB: Message = &[(1, "metadata", Type::One(METADATA)), (2, "spec", Type::One(CRON_SPEC))];
const SERVICE_PORT: Message = &[
    (1, "name", Type::Text),
    (2, "protocol", Type::Text),
    (3, "port", Type::Number),
    (4, "targetPort", Type::Either),
    (5, "nodePort", Type::Number),
];
const SERVICE_SPEC: Message = &[
    (1, "ports", Type::Many(SERVICE_PORT)),
    (2, "selector", Type::TextMap),
    (3, "clusterIP", Type::Text),
    (4, "type", Type::Text),
    (10, "externalName", Type::Text),
];
const SERVICE: Message = &[(1, "metadata", Type::One(METADATA)), (2, "spec", Type::One(SERVICE_SPEC))];
const BUDGET_SPEC: Message = &[
    (1, "minAvailable", Type::Either),
    (2, "selector", Type::One(SELECTOR)),
    (3, "maxUnavailable", Type::Either),
];
const BUDGET: Message = &[(1, "metadata", Type::One(METADATA)), (2, "spec", Type::One(BUDGET_SPEC))];
const PRIORITY: Message = &[
    (1, "metadata", Type::One(METADATA)),
    (2, "value", Type::Counted),
    (3, "globalDefault", Type::Flag),
    (4, "description", Type::Text),
    (5, "preemptionPolicy", Type::Text),
];
const CONFIG_MAP: Message =
    &[(1, "metadata", Type::One(METADATA)), (2, "data", Type::TextMap), (3, "binaryData", Type::BytesMap)];
const SECRET: Message =
    &[(1, "metadata", Type::One(METADATA)), (2, "data", Type::BytesMap), (3, "type", Type::Text)];
const ATTRIBUTES: Message = &[
    (1, "namespace", Type::Text),
    (2, "verb", Type::Text),
    (3, "group", Type::Text),
    (4, "version", Type::Text),
    (5, "resource", Type::Text),
    (6, "subresource", Type::Text),
    (7, "name", Type::Text),
];
const ACCESS_SPEC: Message = &[(1, "resourceAttributes", Type::One(ATTRIBUTES))];
const ACCESS: Message = &[(1, "metadata", Type::One(METADATA)), (2, "spec", Type::One(ACCESS_SPEC))];
const BARE: Message = &[(1, "metadata", Type::One(METADATA))];
/// What a body begins with.
pub(super) const TYPE_META: Message = &[(1, "apiVersion", Type::Text), (2, "kind", Type::Text)];

const RULE: Message = &[
    (1, "verbs", Type::Texts),
    (2, "apiGroups", Type::Texts),
    (3, "resources", Type::Texts),
    (4, "resourceNames", Type::Texts),
    (5, "nonResourceURLs", Type::Texts),
];
const ROLE: Message = &[(1, "metadata", Type::One(METADATA)), (2, "rules", Type::Many(RULE))];
const AGGREGATION: Message = &[(1, "clusterRoleSelectors", Type::Many(SELECTOR))];
const CLUSTER_ROLE: Message = &[
    (1, "metadata", Type::One(METADATA)),
    (2, "rules", Type::Many(RULE)),
    (3, "aggregationRule", Type::One(AGGREGATION)),
];
const SUBJECT: Message = &[
    (1, "kind", Type::Text),
    (2, "apiGroup", Type::Text),
    (3, "name", Type::Text),
    (4, "namespace", Type::Text),
];
const ROLE_REF: Message = &[(1, "apiGroup", Type::Text), (2, "kind", Type::Text), (3, "name", Type::Text)];
const ROLE_BINDING: Message = &[
    (1, "metadata", Type::One(METADATA)),
    (2, "subjects", Type::Many(SUBJECT)),
    (3, "roleRef", Type::One(ROLE_REF)),
];
const QUOTA_SPEC: Message = &[(1, "hard", Type::Quantities), (2, "scopes", Type::Texts)];
const QUOTA: Message = &[(1, "metadata", Type::One(METADATA)), (2, "spec", Type::One(QUOTA_SPEC))];
const BACKEND_PORT: Message = &[(1, "name", Type::Text), (2, "number", Type::Number)];
const BACKEND_SERVICE: Message = &[(1, "name", Type::Text), (2, "port", Type::One(BACKEND_PORT))];
const BACKEND: Message = &[(4, "service", Type::One(BACKEND_SERVICE))];
const HTTP_PATH: Message =
    &[(1, "path", Type::Text), (2, "backend", Type::One(BACKEND)), (3, "pathType", Type::Text)];
const HTTP_PATHS: Message = &[(1, "paths", Type::Many(HTTP_PATH))];
const INGRESS_VALUE: Message = &[(1, "http", Type::One(HTTP_PATHS))];
const INGRESS_RULE: Message = &[(1, "host", Type::Text), (2, "", Type::Inline(INGRESS_VALUE))];
const INGRESS_TLS: Message = &[(1, "hosts", Type::Texts), (2, "secretName", Type::Text)];
const INGRESS_SPEC: Message = &[
    (1, "defaultBackend", Type::One(BACKEND)),
    (2, "tls", Type::Many(INGRESS_TLS)),
    (3, "rules", Type::Many(INGRESS_RULE)),
    (4, "ingressClassName", Type::Text),
];
const INGRESS: Message = &[(1, "metadata", Type::One(METADATA)), (2, "spec", Type::One(INGRESS_SPEC))];
const TOKEN_BOUND: Message = &[
    (1, "kind", Type::Text),
    (2, "apiVersion", Type::Text),
    (3, "name", Type::Text),
    (4, "uid", Type::Text),
];
const TOKEN_SPEC: Message = &[
    (1, "audiences", Type::Texts),
    (3, "boundObjectRef", Type::One(TOKEN_BOUND)),
    (4, "expirationSeconds", Type::Counted),
];
const TOKEN: Message = &[(1, "metadata", Type::One(METADATA)), (2, "spec", Type::One(TOKEN_SPEC))];
const SCALED: Message = &[(1, "kind", Type::Text), (2, "name", Type::Text), (3, "apiVersion", Type::Text)];
const METRIC_TARGET: Message = &[
    (1, "type", Type::Text),
    (2, "value", Type::Quantity),
    (3, "averageValue", Type::Quantity),
    (4, "averageUtilization", Type::Counted),
];
const RESOURCE_METRIC: Message = &[(1, "name", Type::Text), (2, "target", Type::One(METRIC_TARGET))];
const METRIC: Message = &[(1, "type", Type::Text), (4, "resource", Type::One(RESOURCE_METRIC))];
const AUTOSCALER_SPEC: Message = &[
    (1, "scaleTargetRef", Type::One(SCALED)),
    (2, "minReplicas", Type::Counted),
    (3, "maxReplicas", Type::Number),
    (4, "metrics", Type::Many(METRIC)),
];
const AUTOSCALER: Message = &[(1, "metadata", Type::One(METADATA)), (2, "spec", Type::One(AUTOSCALER_SPEC))];
const RULES_SPEC: Message = &[(1, "namespace", Type::Text)];
const RULES: Message = &[(1, "metadata", Type::One(METADATA)), (2, "spec", Type::One(RULES_SPEC))];

/// The fields of a kind that kubectl sends as protobuf.
pub(super) fn message(kind: &str) -> Option<Message> {
    Some(match kind {
        "Eviction" => EVICTION,
        "DeleteOptions" => DELETE,
        "Namespace" | "ServiceAccount" | "SelfSubjectReview" => BARE,
        "SelfSubjectAccessReview" => ACCESS,
        "ConfigMap" => CONFIG_MAP,
        "Secret" => SECRET,
        "Pod" => POD,
        "Deployment" => DEPLOYMENT,
        "Job" => JOB,
        "CronJob" => CRON_JOB,
        "Service" => SERVICE,
        "PodDisruptionBudget" => BUDGET,
        "PriorityClass" => PRIORITY,
        "Role" => ROLE,
        "ClusterRole" => CLUSTER_ROLE,
        "RoleBinding" | "ClusterRoleBinding" => ROLE_BINDING,
        "ResourceQuota" => QUOTA,
        "Ingress" => INGRESS,
        "TokenRequest" => TOKEN,
        // Of autoscaling/v2, the version that is served.
        "HorizontalPodAutoscaler" => AUTOSCALER,
        "SelfSubjectRulesReview" => RULES,
        _ => return None,
    })
}

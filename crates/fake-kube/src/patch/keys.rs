//! Merge keys of lists in built-in kinds, for strategic merge and for server-side apply.
//!
//! Source: the `patchStrategy`, `patchMergeKey`, `listType` and `listMapKey` tags of k8s.io/api 1.35.

/// How a list is merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListRule {
    /// Replaced as a whole.
    Atomic,
    /// Scalars without repetition.
    Set,
    /// Maps that these keys distinguish.
    Map(Vec<String>),
}

/// Name of the list, name of the field around it (empty: any), key of strategic merge (empty: the list is
/// atomic there; `=` means a set of scalars), keys of server-side apply (empty: atomic; `=`: set).
type Row = (&'static str, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("ownerReferences", "metadata", "uid", "uid"),
    ("finalizers", "metadata", "=", "="),
    ("containers", "spec", "name", "name"),
    ("initContainers", "spec", "name", "name"),
    ("ephemeralContainers", "spec", "name", "name"),
    ("volumes", "spec", "name", "name"),
    ("imagePullSecrets", "", "name", "name"),
    ("hostAliases", "spec", "ip", "ip"),
    ("topologySpreadConstraints", "spec", "topologyKey", "topologyKey whenUnsatisfiable"),
    ("resourceClaims", "spec", "name", "name"),
    ("schedulingGates", "spec", "name", "name"),
    ("ports", "containers", "containerPort", "containerPort protocol"),
    ("ports", "initContainers", "containerPort", "containerPort protocol"),
    ("ports", "spec", "port", "port protocol"),
    ("env", "", "name", "name"),
    ("volumeMounts", "", "mountPath", "mountPath"),
    ("volumeDevices", "", "devicePath", "devicePath"),
    ("claims", "resources", "", "name"),
    ("conditions", "status", "type", "type"),
    ("addresses", "status", "type", "type"),
    ("podIPs", "status", "ip", "ip"),
    ("podCIDRs", "spec", "=", "="),
    ("secrets", "", "name", "name"),
    ("drivers", "spec", "name", "name"),
    ("webhooks", "", "name", "name"),
    ("reservedFor", "status", "uid", "uid"),
    ("devices", "status", "", "driver device pool"),
    ("resourceClaimStatuses", "status", "name", "name"),
];

fn row(path: &[&str]) -> Option<&'static Row> {
    let (list, parents) = path.split_last()?;
    let parent = parents.last().copied().unwrap_or_default();
    ROWS.iter().find(|row| row.0 == *list && (row.1.is_empty() || row.1 == parent))
}

fn rule(keys: &str) -> ListRule {
    match keys {
        "" => ListRule::Atomic,
        "=" => ListRule::Set,
        keys => ListRule::Map(keys.split(' ').map(str::to_owned).collect()),
    }
}

/// The rule of strategic merge for the list at a path of field names.
pub(crate) fn strategic(path: &[&str]) -> ListRule {
    row(path).map_or(ListRule::Atomic, |row| rule(row.2))
}

/// The rule of server-side apply for the list at a path of field names.
pub(crate) fn applied(path: &[&str]) -> ListRule {
    row(path).map_or(ListRule::Atomic, |row| rule(row.3))
}

/// Whether server-side apply takes the map at a path as one value.
pub(crate) fn atomic_map(path: &[&str]) -> bool {
    const ATOMIC: &[&str] = &[
        "selector",
        "labelSelector",
        "namespaceSelector",
        "podSelector",
        "fieldRef",
        "resourceFieldRef",
        "secretKeyRef",
        "configMapKeyRef",
        "involvedObject",
        "claimRef",
        "objectReference",
        "targetRef",
        "secretRef",
        "configSource",
        "nodeSelectorTerms",
    ];
    match path {
        [.., "spec", "nodeSelector"] | [.., "spec", "selector", _] => path.last() == Some(&"nodeSelector"),
        [.., "requiredDuringSchedulingIgnoredDuringExecution"] => path.contains(&"nodeAffinity"),
        [.., last] => ATOMIC.contains(last),
        [] => false,
    }
}

//! C4xx: the RBAC permissions of the running controller's service account, compared with what Fleetwright needs.

use std::collections::BTreeMap;

use fleetwright_api::labels;
use fleetwright_state::Feature;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::{
    deployment::Running,
    finding::Finding,
    objects::{ClusterObjects, list, name, text},
};
use crate::settings::Values;

const GROUP: &str = "rbac.authorization.k8s.io";
const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["patch", "update"];
/// The lease, which the controller reads and writes by name.
const LEASE: &[&str] = &["get", "create", "update"];

/// Permissions on resources of one API group.
struct Needed {
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
    /// The feature that is off without them; `None`: the controller does not run.
    feature: Option<Feature>,
    /// The setting that makes them necessary.
    setting: Option<Setting>,
}

/// A setting that makes the controller use a resource.
#[derive(Clone, Copy, Debug)]
enum Setting {
    Gate(&'static str),
    SchedulerConfig,
    DynamicResources,
    LimitRangeDefaults,
    NominatePods,
}

impl Setting {
    fn is_on(self, values: &Values) -> bool {
        match self {
            Self::Gate(gate) => values.gate(gate),
            Self::SchedulerConfig => !values.text("SCHEDULER_CONFIG").is_empty(),
            Self::DynamicResources => !values.bool("IGNORE_DRA_REQUESTS"),
            Self::LimitRangeDefaults => values.bool("LIMIT_RANGE_DEFAULTS"),
            Self::NominatePods => values.bool("NOMINATE_PODS"),
        }
    }
}

const fn required(
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
) -> Needed {
    Needed { group, resources, verbs, feature: None, setting: None }
}

const fn optional(
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
    (feature, setting): (Feature, Option<Setting>),
) -> Needed {
    Needed { group, resources, verbs, feature: Some(feature), setting }
}

const BUFFERS: Option<Setting> = Some(Setting::Gate("CapacityBuffer"));
const OVERLAYS: Option<Setting> = Some(Setting::Gate("NodeOverlay"));

/// The permissions that the controller uses. A test compares them with the roles of the chart.
const NEEDED: &[Needed] = &[
    required(labels::GROUP, &["nodepools", "nodeclaims"], READ),
    required(labels::GROUP, &["nodeclaims"], &["create", "delete"]),
    required(labels::GROUP, &["nodepools", "nodepools/status", "nodeclaims", "nodeclaims/status"], WRITE),
    required("", &["namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods"], READ),
    required("", &["nodes"], &["delete", "patch", "update"]),
    required("", &["pods/eviction"], &["create"]),
    required("", &["pods"], &["delete"]),
    required("apps", &["daemonsets"], READ),
    required("policy", &["poddisruptionbudgets"], READ),
    optional("", &["events"], &["create", "patch"], (Feature::Events, None)),
    optional("storage.k8s.io", &["csinodes"], READ, (Feature::VolumeLimits, None)),
    optional("storage.k8s.io", &["storageclasses"], READ, (Feature::VolumeProvisioning, None)),
    optional("storage.k8s.io", &["volumeattachments"], READ, (Feature::VolumeDetachment, None)),
    optional("", &["replicationcontrollers"], READ, (Feature::DefaultSpread, None)),
    optional("apps", &["replicasets", "statefulsets"], READ, (Feature::DefaultSpread, None)),
    optional("", &["services"], READ, (Feature::DefaultSpread, Some(Setting::SchedulerConfig))),
    optional(labels::GROUP, &["nodeoverlays"], READ, (Feature::NodeOverlays, OVERLAYS)),
    optional(labels::GROUP, &["nodeoverlays/status"], WRITE, (Feature::NodeOverlayStatus, OVERLAYS)),
    optional(labels::BUFFER_GROUP, &["capacitybuffers"], READ, (Feature::CapacityBuffers, BUFFERS)),
    optional(
        labels::BUFFER_GROUP,
        &["capacitybuffers/status"],
        WRITE,
        (Feature::CapacityBufferStatus, BUFFERS),
    ),
    optional("", &["podtemplates"], READ, (Feature::CapacityBuffers, BUFFERS)),
    optional("apps", &["deployments"], READ, (Feature::CapacityBuffers, BUFFERS)),
    optional("", &["resourcequotas"], READ, (Feature::ResourceQuotas, BUFFERS)),
    optional("", &["limitranges"], READ, (Feature::LimitRangeDefaults, Some(Setting::LimitRangeDefaults))),
    optional("", &["pods/status"], &["patch"], (Feature::PodNominations, Some(Setting::NominatePods))),
    optional(
        "resource.k8s.io",
        &["deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"],
        READ,
        (Feature::DynamicResources, Some(Setting::DynamicResources)),
    ),
];

/// A rule and its namespace; empty for the whole cluster.
struct Granted<'a> {
    rule: &'a Value,
    namespace: &'a str,
}

/// Checks the permissions of `running`. `classes` are the definitions of NodeClasses.
pub(super) fn check(
    cluster: &ClusterObjects,
    running: &Running<'_>,
    classes: &[&CustomResourceDefinition],
    values: &Values,
) -> Vec<Finding> {
    let denied = ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
    if cluster.denied.iter().any(|kind| denied.contains(&kind.as_str())) {
        return Vec::new();
    }
    let account = account(running);
    let object = format!("ServiceAccount {}/{}", account.0, account.1);
    if !cluster.has(GROUP, "ClusterRoleBinding") {
        let what = "the input has no ClusterRoleBindings: permissions are not checked";
        let fix =
            "add the output of `kubectl get clusterroles,clusterrolebindings,roles,rolebindings -A -o yaml`";
        return vec![Finding::warning("C400", object, what).fix(fix)];
    }
    let granted = granted(cluster, account);
    let mut lacks: BTreeMap<Missing, Vec<String>> = BTreeMap::new();
    for needed in NEEDED {
        if needed.setting.is_some_and(|setting| !setting.is_on(values)) {
            continue;
        }
        for resource in needed.resources {
            let verbs = lacking(&granted, needed.group, resource, needed.verbs);
            let what = Missing { verbs, feature: needed.feature };
            lacks.entry(what).or_default().push(full(needed.group, resource));
        }
    }
    for class in classes {
        for (resource, verbs) in of_class(cluster, class) {
            let group = &class.spec.group;
            let what = Missing { verbs: lacking(&granted, group, &resource, &verbs), feature: None };
            lacks.entry(what).or_default().push(full(group, &resource));
        }
    }
    let lacks = lacks.into_iter().filter(|(what, _)| !what.verbs.is_empty());
    let mut found: Vec<Finding> = lacks.map(|(what, resources)| what.finding(&object, &resources)).collect();
    found.extend(lease(running, values, &granted, &object));
    found
}

/// Verbs that are not granted on some resources.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Missing {
    verbs: Vec<&'static str>,
    feature: Option<Feature>,
}

impl Missing {
    fn finding(&self, object: &str, resources: &[String]) -> Finding {
        let what = format!("may not {} {}", self.verbs.join(", "), resources.join(", "));
        match self.feature {
            None => Finding::blocker("C401", object, format!("{what}: nodes cannot be managed without it"))
                .fix("install Fleetwright's chart, or add the rule to the ClusterRole"),
            Some(feature) => Finding::warning("C402", object, format!("{what}: {}", feature.without()))
                .fix("add the rule to the ClusterRole (fleetwright.rbac in Fleetwright's chart)"),
        }
    }
}

fn account<'a>(running: &Running<'a>) -> (&'a str, &'a str) {
    let account = text(running.deployment, "/spec/template/spec/serviceAccountName");
    (running.namespace(), if account.is_empty() { "default" } else { account })
}

/// `nodeclaims.karpenter.sh/status`.
fn full(group: &str, resource: &str) -> String {
    let (plural, sub) =
        resource.split_once('/').map_or((resource, None), |(plural, sub)| (plural, Some(sub)));
    let dot = if group.is_empty() { "" } else { "." };
    let sub = sub.map(|sub| format!("/{sub}")).unwrap_or_default();
    format!("{plural}{dot}{group}{sub}")
}

/// The rules of all roles that are bound to the account.
fn granted<'a>(cluster: &'a ClusterObjects, (namespace, account): (&str, &str)) -> Vec<Granted<'a>> {
    let roles = |kind: &'static str| cluster.of(GROUP, kind);
    let of_cluster: BTreeMap<&str, &Value> = roles("ClusterRole").map(|role| (name(role), role)).collect();
    let mut found = Vec::new();
    for kind in ["ClusterRoleBinding", "RoleBinding"] {
        for binding in roles(kind) {
            if !list(binding, "/subjects").any(|subject| is_account(subject, namespace, account)) {
                continue;
            }
            let home = text(binding, "/metadata/namespace");
            let role = text(binding, "/roleRef/name");
            let role = match text(binding, "/roleRef/kind") {
                "Role" => roles("Role")
                    .find(|known| name(known) == role && text(known, "/metadata/namespace") == home),
                _ => of_cluster.get(role).copied(),
            };
            let rules = role.into_iter().flat_map(|role| list(role, "/rules"));
            found.extend(rules.map(|rule| Granted { rule, namespace: home }));
        }
    }
    found
}

fn is_account(subject: &Value, namespace: &str, account: &str) -> bool {
    match text(subject, "/kind") {
        "ServiceAccount" => text(subject, "/namespace") == namespace && name_of_subject(subject) == account,
        "User" => name_of_subject(subject) == format!("system:serviceaccount:{namespace}:{account}"),
        "Group" => {
            let group = name_of_subject(subject);
            matches!(group, "system:serviceaccounts" | "system:authenticated")
                || group == format!("system:serviceaccounts:{namespace}")
        }
        _ => false,
    }
}

fn name_of_subject(subject: &Value) -> &str {
    text(subject, "/name")
}

fn has(rule: &Value, field: &str, wanted: &str) -> bool {
    list(rule, field).any(|value| value == wanted || value == "*")
}

/// Whether a rule covers a resource of any name.
fn covers(rule: &Value, group: &str, resource: &str) -> bool {
    let any_sub =
        resource.split_once('/').is_some_and(|(_, sub)| has(rule, "/resources", &format!("*/{sub}")));
    has(rule, "/apiGroups", group) && (has(rule, "/resources", resource) || any_sub)
}

fn is_for_all_names(rule: &Value) -> bool {
    list(rule, "/resourceNames").next().is_none()
}

/// The verbs that no rule for the whole cluster grants.
fn lacking<'v>(granted: &[Granted<'_>], group: &str, resource: &str, verbs: &[&'v str]) -> Vec<&'v str> {
    let has_verb = |verb: &&str| {
        granted.iter().any(|granted| {
            let rule = granted.rule;
            granted.namespace.is_empty()
                && is_for_all_names(rule)
                && covers(rule, group, resource)
                && has(rule, "/verbs", verb)
        })
    };
    verbs.iter().copied().filter(|verb| !has_verb(verb)).collect()
}

/// The resources of a NodeClass that NodePools use, with the verbs that are needed.
fn of_class(cluster: &ClusterObjects, class: &CustomResourceDefinition) -> Vec<(String, Vec<&'static str>)> {
    let (group, plural) = (&*class.spec.group, &*class.spec.names.plural);
    let is_used = cluster
        .of(labels::GROUP, "NodePool")
        .any(|pool| text(pool, "/spec/template/spec/nodeClassRef/group") == group);
    if !is_used {
        return Vec::new();
    }
    let has_status = class.spec.versions.iter().any(|version| {
        version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some())
    });
    let mut parts = vec![(plural.to_owned(), [READ, WRITE].concat())];
    if has_status {
        parts.push((format!("{plural}/status"), WRITE.to_vec()));
    }
    parts
}

/// The lease is in one namespace; its permissions may be restricted to that and to its name.
fn lease(running: &Running<'_>, values: &Values, granted: &[Granted<'_>], object: &str) -> Option<Finding> {
    if values.bool("DISABLE_LEADER_ELECTION") {
        return None;
    }
    let set = values.text("LEADER_ELECTION_NAMESPACE");
    let namespace = if set.is_empty() { running.namespace() } else { set };
    let lease = values.text("LEADER_ELECTION_NAME");
    let has_verb = |verb: &&&str| {
        granted.iter().any(|granted| {
            let rule = granted.rule;
            // RBAC cannot restrict create by name.
            let is_named =
                is_for_all_names(rule) || (**verb != "create" && has(rule, "/resourceNames", lease));
            (granted.namespace.is_empty() || granted.namespace == namespace)
                && is_named
                && covers(rule, "coordination.k8s.io", "leases")
                && has(rule, "/verbs", verb)
        })
    };
    let lacks: Vec<&str> = LEASE.iter().filter(|verb| !has_verb(verb)).copied().collect();
    (!lacks.is_empty()).then(|| {
        let what =
            format!("may not {} the lease {namespace}/{lease}: the controller never leads", lacks.join(", "));
        Finding::blocker("C401", object, what).fix("add the rule to the Role of the lease's namespace")
    })
}

#[cfg(test)]
mod tests {
    //! The table of permissions against the roles of the chart.
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::{compat::deployment, input};

    /// The manifests of `deploy/aws`, which are rendered from the chart with its defaults.
    fn chart() -> Vec<input::Item> {
        let mut items = Vec::new();
        let text = include_str!("../../../../deploy/aws/karpenter.yaml");
        input::parse("karpenter.yaml".as_ref(), text, &mut items).unwrap();
        let mut pool = items[0].clone();
        pool.value = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"template": {"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws"}}}},
        });
        items.push(pool);
        items
    }

    fn found(items: &[input::Item], env: &[(&str, &str)]) -> Vec<Finding> {
        let cluster = ClusterObjects::new(items, Vec::new(), false, Timestamp::UNIX_EPOCH);
        let running = deployment::running(&cluster);
        let crds = fleetwright_aws_api::crds();
        let classes: Vec<_> =
            crds.iter().filter(|crd| crd.spec.group == fleetwright_aws_api::labels::GROUP).collect();
        let env =
            |name: &str| env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let values = Values::resolve(&BTreeMap::new(), env).unwrap();
        check(&cluster, &running[0], &classes, &values)
    }

    const GATES: (&str, &str) = ("FEATURE_GATES", "NodeOverlay=true,CapacityBuffer=true");

    #[test]
    fn the_chart_grants_what_is_needed() {
        assert_eq!(found(&chart(), &[]), []);
        let with_features = found(&chart(), &[GATES, ("IGNORE_DRA_REQUESTS", "false")]);
        let ids: Vec<&str> = with_features.iter().map(|finding| &*finding.id).collect();
        // Quotas and devices are off by default in the chart.
        assert_eq!(ids, ["C402"; 2], "{with_features:?}");
    }

    /// Rules that the chart grants as Karpenter's does, and that Fleetwright does not use.
    const UNUSED: [&str; 5] = [
        "events get,list,watch",
        "nodepools/status get,list,watch",
        "nodeclaims/status get,list,watch",
        "nodeoverlays/status get,list,watch",
        "capacitybuffers/status get,list,watch",
    ];
    /// Unused single verbs.
    const UNUSED_VERBS: [&str; 5] = [
        "leases watch",
        "leases patch",
        "services get",
        "nodeclaims/status create",
        "nodeclaims/status delete",
    ];

    #[test]
    fn each_rule_of_the_chart_that_is_missing_is_a_finding() {
        let items = chart();
        let (mut removed, mut silent) = (0, Vec::new());
        let before = found(&chart(), &[GATES]);
        for (index, item) in items.iter().enumerate() {
            let rules = list(&item.value, "/rules").count();
            let role = name(&item.value);
            if !role.starts_with("karpenter") || role.ends_with("-admin") {
                continue;
            }
            for rule in 0..rules {
                let part = |key: &str| {
                    let texts = list(&item.value, &format!("/rules/{rule}/{key}")).filter_map(Value::as_str);
                    texts.map(str::to_owned).collect::<Vec<_>>()
                };
                for resource in part("resources") {
                    let verbs = part("verbs");
                    let all = format!("{resource} {}", verbs.join(","));
                    if UNUSED.contains(&&*all) {
                        continue;
                    }
                    for verb in
                        verbs.iter().filter(|verb| !UNUSED_VERBS.contains(&&*format!("{resource} {verb}")))
                    {
                        let mut items = chart();
                        let without = &mut items[index].value["rules"][rule];
                        let others: Vec<&String> = verbs.iter().filter(|known| *known != verb).collect();
                        let mut rest = without.clone();
                        rest["resources"] = json!([resource]);
                        rest["verbs"] = json!(others);
                        without["resources"] = json!(
                            part("resources")
                                .into_iter()
                                .filter(|known| *known != resource)
                                .collect::<Vec<_>>()
                        );
                        items[index].value["rules"].as_array_mut().unwrap().push(rest);
                        if found(&items, &[GATES]) == before {
                            silent.push(format!("{resource} {verb}"));
                        }
                        removed += 1;
                    }
                }
            }
        }
        assert_eq!(silent, [""; 0]);
        assert!(removed > 60, "{removed}");
    }

    #[test]
    fn wildcards_and_groups_grant() {
        let mut items = chart();
        items.retain(|item| !matches!(text(&item.value, "/kind"), "ClusterRole" | "Role" | "RoleBinding"));
        for item in &mut items {
            if item.value["kind"] == "ClusterRoleBinding" {
                item.value["subjects"] =
                    json!([{"kind": "Group", "name": "system:serviceaccounts:kube-system"}]);
            }
        }
        assert!(found(&items, &[]).len() > 3);
        let mut role = items[0].clone();
        role.value = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "karpenter-core"},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
        });
        items.push(role);
        assert_eq!(found(&items, &[]), []);
    }
}

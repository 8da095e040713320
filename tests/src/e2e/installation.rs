//! What `deploy/fake-cloud/` installs, read from the files that users apply: CRDs, the identity and its rights.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::credentials::{Accounts, ServiceAccount};

/// The objects of `deploy/fake-cloud/`, in the order in which they have to be created.
#[derive(Debug)]
pub(crate) struct Installation {
    pub(crate) crds: Vec<Value>,
    /// Namespaces, service accounts, roles, bindings.
    pub(crate) access: Vec<Value>,
    pub(crate) accounts: Accounts,
}

/// Kinds that are applied, in the order of creation. The Deployments are not: their programs run as processes, with
/// the same accounts.
const APPLIED: [&str; 6] =
    ["Namespace", "ServiceAccount", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"];

impl Installation {
    /// Reads what a user applies who runs the controller with a fake cloud: `deploy/fake-cloud/`, one file for each program.
    pub(crate) fn read(deploy: &Path) -> anyhow::Result<Self> {
        let folder = deploy.join("fake-cloud");
        let file = |name: &str| read(&folder.join(name));
        Self::new(objects(&folder.join("crds"))?, file("karpenter.yaml")?, file("fake-cloud.yaml")?)
    }

    fn new(crds: Vec<Value>, operator: Vec<Value>, cloud: Vec<Value>) -> anyhow::Result<Self> {
        if crds.is_empty() || crds.iter().any(|object| object["kind"] != "CustomResourceDefinition") {
            bail!("deploy/fake-cloud/crds is empty, or has more than CustomResourceDefinitions");
        }
        let accounts = Accounts {
            operator: account(&operator).context("karpenter.yaml")?,
            cloud: account(&cloud).context("fake-cloud.yaml")?,
        };
        let objects: Vec<Value> = operator.into_iter().chain(cloud).collect();
        let of_kind =
            |kind: &&str| objects.iter().filter(|o| o["kind"] == **kind).cloned().collect::<Vec<_>>();
        Ok(Self { crds, access: APPLIED.iter().flat_map(of_kind).collect(), accounts })
    }
}

/// The account of the only Deployment among `objects`.
fn account(objects: &[Value]) -> anyhow::Result<ServiceAccount> {
    let deployments: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "Deployment").collect();
    let [deployment] = deployments.as_slice() else {
        bail!("{} Deployments, not one", deployments.len());
    };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Ok(ServiceAccount {
        namespace: text(&deployment["metadata"]["namespace"]).context("the Deployment has no namespace")?,
        name: text(&deployment["spec"]["template"]["spec"]["serviceAccountName"])
            .context("the Deployment names no service account")?,
    })
}

/// The objects of the YAML files in `folder`, in the order of their names; folders in it do not count.
///
/// # Errors
/// If a file cannot be read, or is not a manifest.
pub fn objects(folder: &Path) -> anyhow::Result<Vec<Value>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut objects = Vec::new();
    for file in files {
        objects.append(&mut read(&file)?);
    }
    Ok(objects)
}

/// The objects of one file.
fn read(file: &Path) -> anyhow::Result<Vec<Value>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    parse(&text).with_context(|| format!("{} is no manifest", file.display()))
}

/// The documents of a YAML file; empty ones do not count.
pub(crate) fn parse(text: &str) -> anyhow::Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(account: &str) -> Value {
        json!({"kind": "Deployment", "metadata": {"namespace": "kube-system"},
               "spec": {"template": {"spec": {"serviceAccountName": account}}}})
    }

    fn kinds(kinds: &[&str]) -> Vec<Value> {
        kinds.iter().map(|kind| json!({"kind": kind})).collect()
    }

    #[test]
    fn objects_are_created_in_order_and_accounts_come_from_the_deployments() {
        let mut operator = kinds(&["RoleBinding", "ClusterRole", "ServiceAccount", "Service"]);
        operator.push(deployment("karpenter"));
        let mut cloud = kinds(&["Service", "ServiceAccount"]);
        cloud.push(deployment("cloud"));
        let installation = Installation::new(kinds(&["CustomResourceDefinition"]), operator, cloud).unwrap();
        let applied: Vec<&Value> = installation.access.iter().map(|object| &object["kind"]).collect();
        assert_eq!(applied, ["ServiceAccount", "ServiceAccount", "ClusterRole", "RoleBinding"]);
        assert_eq!(installation.accounts.operator.name, "karpenter");
        assert_eq!(installation.accounts.cloud.name, "cloud");
    }

    #[test]
    fn an_installation_without_crds_or_with_two_operators_is_refused() {
        let (crds, one) = (kinds(&["CustomResourceDefinition"]), vec![deployment("a")]);
        assert!(Installation::new(crds.clone(), one.clone(), one.clone()).is_ok());
        assert!(Installation::new(Vec::new(), one.clone(), one.clone()).is_err());
        assert!(Installation::new(kinds(&["Role"]), one.clone(), one.clone()).is_err());
        assert!(Installation::new(crds.clone(), one.clone(), Vec::new()).is_err());
        assert!(Installation::new(crds, vec![deployment("a"), deployment("b")], one).is_err());
    }

    #[test]
    fn our_own_manifests_give_the_controller_no_rights_of_a_kubelet() {
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
        let installation = Installation::read(&deploy).unwrap();
        assert_ne!(installation.accounts.operator, installation.accounts.cloud);
        let bindings = installation.access.iter().filter(|object| object["kind"] == "ClusterRoleBinding");
        let operator = json!(installation.accounts.operator.name);
        let roles: Vec<&Value> = bindings
            .filter(|binding| binding["subjects"][0]["name"] == operator)
            .map(|binding| &binding["roleRef"]["name"])
            .collect();
        assert!(!roles.is_empty() && !roles.contains(&&json!("fleetwright-fake-cloud")), "{roles:?}");
    }

    #[test]
    fn files_hold_many_documents() {
        let documents = parse("---\nkind: A\n---\n# nothing\n---\nkind: B\n").unwrap();
        assert_eq!(documents, [json!({"kind": "A"}), json!({"kind": "B"})]);
    }
}

//! What `deploy/` installs, read from the files that users apply: CRDs, the identity and its rights.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::credentials::ServiceAccount;

/// The objects of `deploy/`, in the order in which they have to be created.
#[derive(Debug)]
pub(crate) struct Installation {
    pub(crate) crds: Vec<Value>,
    /// Namespaces, service accounts, roles and bindings.
    pub(crate) access: Vec<Value>,
    /// The account that the operator runs as.
    pub(crate) account: ServiceAccount,
}

/// Kinds that grant the operator its rights, in the order of creation. The Deployment itself is not applied: the
/// operator runs as a process, with the same account.
const ACCESS: [&str; 6] =
    ["Namespace", "ServiceAccount", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"];

impl Installation {
    /// Reads every YAML file below `deploy`.
    pub(crate) fn read(deploy: &Path) -> anyhow::Result<Self> {
        let mut objects = Vec::new();
        for file in yaml_files(deploy)? {
            let text = std::fs::read_to_string(&file)?;
            let mut documents = parse(&text).with_context(|| format!("{} is no manifest", file.display()))?;
            objects.append(&mut documents);
        }
        Self::new(objects)
    }

    fn new(objects: Vec<Value>) -> anyhow::Result<Self> {
        let of_kind = |kind: &str| objects.iter().filter(|o| o["kind"] == kind).cloned().collect::<Vec<_>>();
        let crds = of_kind("CustomResourceDefinition");
        if crds.is_empty() {
            bail!("deploy/ has no CustomResourceDefinition");
        }
        let deployments = of_kind("Deployment");
        let [deployment] = deployments.as_slice() else {
            bail!("deploy/ has {} Deployments, not one", deployments.len());
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let account = ServiceAccount {
            namespace: text(&deployment["metadata"]["namespace"])
                .context("the Deployment has no namespace")?,
            name: text(&deployment["spec"]["template"]["spec"]["serviceAccountName"])
                .context("the Deployment names no service account")?,
        };
        Ok(Self { crds, access: ACCESS.iter().flat_map(|kind| of_kind(kind)).collect(), account })
    }
}

/// The documents of a YAML file; empty ones do not count.
pub(crate) fn parse(text: &str) -> anyhow::Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// All YAML files below `folder`, in the order of their paths.
fn yaml_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?
        {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment() -> Value {
        json!({"kind": "Deployment", "metadata": {"namespace": "kube-system"},
               "spec": {"template": {"spec": {"serviceAccountName": "karpenter"}}}})
    }

    #[test]
    fn access_is_created_in_order_and_the_account_comes_from_the_deployment() {
        let objects = ["RoleBinding", "CustomResourceDefinition", "ClusterRole", "ServiceAccount", "Service"]
            .map(|kind| json!({"kind": kind}));
        let installation = Installation::new(objects.into_iter().chain([deployment()]).collect()).unwrap();
        let kinds: Vec<&Value> = installation.access.iter().map(|object| &object["kind"]).collect();
        assert_eq!(kinds, ["ServiceAccount", "ClusterRole", "RoleBinding"]);
        assert_eq!(installation.crds.len(), 1);
        assert_eq!(
            installation.account,
            ServiceAccount { namespace: "kube-system".into(), name: "karpenter".into() }
        );
    }

    #[test]
    fn an_installation_without_crds_or_with_two_operators_is_refused() {
        assert!(Installation::new(vec![deployment()]).is_err());
        let crd = json!({"kind": "CustomResourceDefinition"});
        assert!(Installation::new(vec![crd.clone()]).is_err());
        assert!(Installation::new(vec![crd, deployment(), deployment()]).is_err());
    }

    #[test]
    fn files_hold_many_documents() {
        let documents = parse("---\nkind: A\n---\n# nothing\n---\nkind: B\n").unwrap();
        assert_eq!(documents, [json!({"kind": "A"}), json!({"kind": "B"})]);
    }
}

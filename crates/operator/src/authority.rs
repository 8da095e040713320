//! The CA bundle with which this process verifies the API server, byte for byte.
//!
//! It is passed to nodes and is part of the drift hash of NodeClasses: another encoding of the same certificates would replace
//! every node that Karpenter has launched.

use kube::config::Kubeconfig;

use crate::base64::base64;

/// Its path in a pod.
const OF_POD: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// Base64 of the bundle, from the kubeconfig if there is one, otherwise from the files of the pod; empty if there is none.
pub(crate) fn ca_bundle() -> String {
    let named = Kubeconfig::read().ok().and_then(|kubeconfig| of(&kubeconfig));
    named.or_else(|| file(OF_POD)).unwrap_or_default()
}

/// The bundle of the current cluster of a kubeconfig.
fn of(kubeconfig: &Kubeconfig) -> Option<String> {
    let context = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|known| known.name == *context)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|known| known.name == context.cluster)?.cluster.as_ref()?;
    match (&cluster.certificate_authority_data, &cluster.certificate_authority) {
        (Some(data), _) => Some(data.split_whitespace().collect()),
        (None, Some(path)) => file(path),
        (None, None) => None,
    }
}

fn file(path: &str) -> Option<String> {
    std::fs::read(path).ok().map(|bytes| base64(&bytes))
}

#[cfg(test)]
mod tests {
    //! The bytes are unchanged.
    use super::*;

    #[test]
    fn the_bytes_are_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        std::fs::write(&path, "# ours\r\n-----BEGIN CERTIFICATE-----\r\nAA==\r\n-----END CERTIFICATE-----")
            .unwrap();
        let written =
            "IyBvdXJzDQotLS0tLUJFR0lOIENFUlRJRklDQVRFLS0tLS0NCkFBPT0NCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0=";
        let kubeconfig = |cluster: serde_json::Value| -> Kubeconfig {
            serde_json::from_value(serde_json::json!({
                "current-context": "here",
                "contexts": [{"name": "here", "context": {"cluster": "prod"}}],
                "clusters": [{"name": "other", "cluster": {"certificate-authority-data": "AA=="}},
                    {"name": "prod", "cluster": cluster}],
                "users": [],
            }))
            .unwrap()
        };
        let by_file = kubeconfig(serde_json::json!({"certificate-authority": path.to_str().unwrap()}));
        assert_eq!(of(&by_file).as_deref(), Some(written));
        let by_data = kubeconfig(serde_json::json!({"certificate-authority-data": format!("{written}\n")}));
        assert_eq!(of(&by_data).as_deref(), Some(written));
        assert_eq!(of(&kubeconfig(serde_json::json!({}))), None);
        assert_eq!(of(&Kubeconfig::default()), None);
    }
}

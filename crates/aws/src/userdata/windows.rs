//! Windows: PowerShell that runs the class's lines and then EKS' bootstrap.

use super::{Bootstrap, dns, kubelet_flags};

pub(super) fn render(bootstrap: &Bootstrap<'_>) -> String {
    let Bootstrap { cluster_name, endpoint, ca_bundle, .. } = bootstrap;
    let mut text = "<powershell>\n".to_owned();
    if let Some(custom) = bootstrap.custom.filter(|custom| !custom.is_empty()) {
        text.push_str(custom);
        text.push('\n');
    }
    text.push_str(
        "[string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n",
    );
    text.push_str(&format!(
        "& $EKSBootstrapScriptFile -EKSClusterName '{cluster_name}' -APIServerEndpoint '{endpoint}'"
    ));
    if !ca_bundle.is_empty() {
        text.push_str(&format!(" -Base64ClusterCA '{ca_bundle}'"));
    }
    text.push_str(&format!(" -KubeletExtraArgs '{}'", kubelet_flags(bootstrap).join(" ")));
    if let Some(address) = dns(bootstrap) {
        text.push_str(&format!(" -DNSClusterIP '{address}'"));
    }
    text.push_str("\n</powershell>");
    text
}

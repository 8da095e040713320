//! Who may talk to a control plane: bearer tokens, the service-account signing key, kubeconfigs.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use aws_lc_rs::encoding::{AsDer as _, EcPrivateKeyRfc5915Der};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use base64::Engine as _;
use serde_json::json;

/// A service account that a pod would run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceAccount {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// The accounts that our two processes run as, each with the rights that its manifests give it and no others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Accounts {
    pub(crate) operator: ServiceAccount,
    pub(crate) cloud: ServiceAccount,
}

/// The bearer tokens of one control plane.
#[derive(Debug)]
pub(crate) struct Tokens {
    /// Member of system:masters: may do everything.
    pub(crate) admin: String,
    /// The operator's service account, with exactly the groups that such accounts have.
    pub(crate) operator: String,
    /// The fake cloud's service account, likewise.
    pub(crate) cloud: String,
}

/// The kubeconfigs of those three.
#[derive(Debug, Clone)]
pub(crate) struct Kubeconfigs {
    pub(crate) admin: PathBuf,
    pub(crate) operator: PathBuf,
    pub(crate) cloud: PathBuf,
}

impl Tokens {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self { admin: random_token()?, operator: random_token()?, cloud: random_token()? })
    }

    /// The file that `--token-auth-file` reads: token, user, uid, groups.
    pub(crate) fn file(&self, accounts: &Accounts) -> String {
        let mut file = format!("{},admin,admin,system:masters\n", self.admin);
        for (token, account) in [(&self.operator, &accounts.operator), (&self.cloud, &accounts.cloud)] {
            let ServiceAccount { namespace, name } = account;
            let groups = format!("system:serviceaccounts,system:serviceaccounts:{namespace}");
            file.push_str(&format!("{token},system:serviceaccount:{namespace}:{name},{name},\"{groups}\"\n"));
        }
        file
    }
}

fn random_token() -> anyhow::Result<String> {
    let mut bytes = [0_u8; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| anyhow!("the system has no randomness"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A new P-256 key in the PEM form that kube-apiserver reads for signing and for verifying alike.
pub(crate) fn signing_key() -> anyhow::Result<String> {
    let failed = |_| anyhow!("cannot generate the service-account key");
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(failed)?;
    let der: EcPrivateKeyRfc5915Der<'_> = pair.private_key().as_der().map_err(failed)?;
    let text = base64::engine::general_purpose::STANDARD.encode(der.as_ref());
    let mut pem = String::from("-----BEGIN EC PRIVATE KEY-----\n");
    for (index, character) in text.chars().enumerate() {
        if index > 0 && index % 64 == 0 {
            pem.push('\n');
        }
        pem.push(character);
    }
    pem.push_str("\n-----END EC PRIVATE KEY-----\n");
    Ok(pem)
}

/// Writes a kubeconfig (JSON, which is YAML) for `token` at `server`, which presents the certificates in `authority`.
pub(crate) fn write_kubeconfig(
    path: &Path,
    server: &str,
    authority: &Path,
    token: &str,
) -> anyhow::Result<()> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "e2e",
        "clusters": [{"name": "e2e", "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [{"name": "e2e", "user": {"token": token}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
    });
    std::fs::write(path, config.to_string()).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_have_the_groups_of_a_service_account_and_no_more() {
        let tokens = Tokens { admin: "a".into(), operator: "o".into(), cloud: "c".into() };
        let account = |name: &str| ServiceAccount { namespace: "kube-system".into(), name: name.into() };
        let accounts = Accounts { operator: account("karpenter"), cloud: account("cloud") };
        let groups = "\"system:serviceaccounts,system:serviceaccounts:kube-system\"";
        assert_eq!(
            tokens.file(&accounts),
            format!(
                "a,admin,admin,system:masters\n\
                 o,system:serviceaccount:kube-system:karpenter,karpenter,{groups}\n\
                 c,system:serviceaccount:kube-system:cloud,cloud,{groups}\n"
            )
        );
    }

    #[test]
    fn keys_are_pem_and_differ() {
        let (one, other) = (signing_key().unwrap(), signing_key().unwrap());
        assert_ne!(one, other);
        assert!(one.lines().all(|line| line.len() <= 64), "{one}");
        assert!(one.starts_with("-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE"), "{one}");
    }

    #[test]
    fn tokens_differ() {
        let tokens = Tokens::new().unwrap();
        assert_eq!(tokens.admin.len(), 32);
        assert_ne!(tokens.admin, tokens.operator);
        assert_ne!(tokens.operator, tokens.cloud);
    }
}

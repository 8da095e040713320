//! A real control plane on loopback: etcd, kube-apiserver, kube-scheduler, kube-controller-manager.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use tokio::time::Instant;

use super::assets::Assets;
use super::credentials::Accounts;
use super::credentials::{Kubeconfigs, Tokens, signing_key, write_kubeconfig};
use super::process::{Process, Recipe, free_ports};

/// Making a certificate takes a second; a starved instance may need many.
const CERTIFICATE_LIMIT: Duration = Duration::from_secs(60);

/// The running parts. Dropped in this order: clients before servers.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    scheduler: Process,
    controller_manager: Process,
    /// `None` only while the server is down on purpose.
    api_server: Option<Process>,
    etcd: Process,
    api_server_recipe: Recipe,
}

/// Files of one control plane.
#[derive(Debug)]
struct Files {
    folder: PathBuf,
    kubeconfigs: Kubeconfigs,
    key: PathBuf,
    tokens: PathBuf,
    certificates: PathBuf,
}

impl Files {
    fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_path_buf(),
            kubeconfigs: Kubeconfigs {
                admin: folder.join("admin.kubeconfig"),
                operator: folder.join("operator.kubeconfig"),
                cloud: folder.join("cloud.kubeconfig"),
            },
            key: folder.join("service-account.key"),
            tokens: folder.join("tokens.csv"),
            certificates: folder.join("certificates"),
        }
    }

    fn recipe(&self, assets: &Assets, name: &'static str, args: Vec<String>) -> Recipe {
        Recipe { name, program: assets.program(name), args, env: Vec::new(), logs: self.folder.clone() }
    }
}

/// etcd and the API server, with the files of their control plane. Dropped in this order: clients before servers.
#[derive(Debug)]
pub(crate) struct Servers {
    api_server: Process,
    api_server_recipe: Recipe,
    etcd: Process,
    files: Files,
}

impl Servers {
    /// Starts both with their files and logs in `folder`; `more` are further arguments of the API server.
    pub(crate) async fn start(
        assets: &Assets,
        folder: &Path,
        accounts: &Accounts,
        more: &[&str],
    ) -> anyhow::Result<Self> {
        let files = Files::new(folder);
        let [etcd_client, etcd_peer, api] = free_ports()?;
        let tokens = Tokens::new()?;
        std::fs::write(&files.tokens, tokens.file(accounts)).context("cannot write the tokens")?;
        std::fs::write(&files.key, signing_key()?).context("cannot write the service-account key")?;
        std::fs::create_dir_all(&files.certificates)?;
        // The server signs its own certificate at its first start and appends its authority to the same file.
        let authority = files.certificates.join("apiserver.crt");
        let url = format!("https://127.0.0.1:{api}");
        let Kubeconfigs { admin, operator, cloud } = &files.kubeconfigs;
        for (path, token) in [(admin, &tokens.admin), (operator, &tokens.operator), (cloud, &tokens.cloud)] {
            write_kubeconfig(path, &url, &authority, token)?;
        }

        let etcd = files.recipe(assets, "etcd", etcd_args(&files, etcd_client, etcd_peer)).start()?;
        let mut arguments = api_server_args(&files, etcd_client, api);
        arguments.extend(more.iter().map(|&argument| argument.to_owned()));
        let api_server_recipe = files.recipe(assets, "kube-apiserver", arguments);
        let mut api_server = api_server_recipe.start()?;
        wait_for_file(&authority, &mut api_server).await?;
        Ok(Self { api_server, api_server_recipe, etcd, files })
    }

    /// The administrator's kubeconfig.
    pub(crate) fn admin(&self) -> &Path {
        &self.files.kubeconfigs.admin
    }

    /// How a further part of the control plane is started.
    pub(crate) fn recipe(&self, assets: &Assets, name: &'static str, args: Vec<String>) -> Recipe {
        self.files.recipe(assets, name, args)
    }

    /// Fails when a part has ended by itself.
    pub(crate) fn check_running(&mut self) -> anyhow::Result<()> {
        self.etcd.check_running()?;
        self.api_server.check_running()
    }
}

impl ControlPlane {
    /// Starts all parts with their files and logs in `folder`, and returns the kubeconfigs of the administrator and
    /// of the two accounts. The API server answers soon after, not yet on return; the other parts wait for it by themselves.
    pub(crate) async fn start(
        assets: &Assets,
        folder: &Path,
        accounts: &Accounts,
    ) -> anyhow::Result<(Self, Kubeconfigs)> {
        let Servers { api_server, api_server_recipe, etcd, files } =
            Servers::start(assets, folder, accounts, &[]).await?;
        let control_plane = Self {
            scheduler: files.recipe(assets, "kube-scheduler", client_args(&files)).start()?,
            controller_manager: files
                .recipe(assets, "kube-controller-manager", controller_manager_args(&files))
                .start()?,
            api_server: Some(api_server),
            etcd,
            api_server_recipe,
        };
        Ok((control_plane, files.kubeconfigs))
    }

    /// Fails when a part has ended by itself.
    pub(crate) fn check_running(&mut self) -> anyhow::Result<()> {
        self.etcd.check_running()?;
        if let Some(api_server) = &mut self.api_server {
            api_server.check_running()?;
        }
        self.scheduler.check_running()?;
        self.controller_manager.check_running()
    }

    /// Kills the API server without warning; etcd keeps what it knew.
    pub(crate) async fn kill_api_server(&mut self) -> anyhow::Result<()> {
        match self.api_server.take() {
            Some(api_server) => api_server.kill().await,
            None => Ok(()),
        }
    }

    /// Restarts the API server on its port.
    pub(crate) fn start_api_server(&mut self) -> anyhow::Result<()> {
        self.api_server = Some(self.api_server_recipe.start()?);
        Ok(())
    }
}

/// Waits for the certificate that the server writes before it listens: kubeconfigs that name it are of no use earlier.
async fn wait_for_file(path: &Path, writer: &mut Process) -> anyhow::Result<()> {
    let deadline = Instant::now() + CERTIFICATE_LIMIT;
    while !path.is_file() {
        writer.check_running()?;
        anyhow::ensure!(Instant::now() < deadline, "no {} within {CERTIFICATE_LIMIT:?}", path.display());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn etcd_args(files: &Files, client: u16, peer: u16) -> Vec<String> {
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    vec![
        "--name=e2e".to_owned(),
        format!("--data-dir={}", files.folder.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=e2e={peer}"),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

fn api_server_args(files: &Files, etcd: u16, port: u16) -> Vec<String> {
    vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        // Endpoints must not be loopback addresses, and those of the API server are not used here.
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", files.certificates.display()),
        format!("--token-auth-file={}", files.tokens.display()),
        "--authorization-mode=RBAC".to_owned(),
        // No token controller signs for the pods here; they are never run by a real kubelet.
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", files.key.display()),
        format!("--service-account-signing-key-file={}", files.key.display()),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
    ]
}

fn client_args(files: &Files) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", files.kubeconfigs.admin.display()),
        "--leader-elect=false".to_owned(),
        // Their defaults are for clusters of a hundred nodes, and would be all that `--speed` measures.
        "--kube-api-qps=1000".to_owned(),
        "--kube-api-burst=1000".to_owned(),
        // Zero: no port of their own, so nothing can collide with what else runs on the instance.
        "--secure-port=0".to_owned(),
    ]
}

fn controller_manager_args(files: &Files) -> Vec<String> {
    let mut args = client_args(files);
    args.push(format!("--service-account-private-key-file={}", files.key.display()));
    args
}

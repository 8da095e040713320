//! `deploy/` as a user applies it, on an API server of its own: what is installed, what `compat` says of it, and how the controller starts on
//! definitions that are not whole.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::e2e::case::Cx;
use crate::e2e::control_plane::Servers;
use crate::e2e::installation::objects;
use crate::e2e::kubectl::Kubectl;
use crate::e2e::process::{Recipe, free_ports};
use crate::e2e::rest::Rest;
use crate::e2e::server::connect;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const STARTED: Duration = Duration::from_secs(90);
/// How long a message of the controller's start may take.
const SAID: Duration = Duration::from_secs(30);

/// An API server without schedulers and nodes, and the tools of its administrator.
struct Bare {
    servers: Servers,
    kubectl: Kubectl,
    rest: Rest,
    folder: PathBuf,
}

impl Bare {
    async fn start(cx: &Cx<'_>) -> anyhow::Result<Self> {
        let world = &*cx.world;
        let folder = world.folder.join(cx.name);
        std::fs::create_dir_all(folder.join("home"))?;
        let mut servers = Servers::start(&world.assets, &folder, &world.installation.accounts, &[]).await?;
        let rest = Rest::new(connect(servers.admin(), Some(Duration::from_secs(30))).await?);
        let deadline = Instant::now() + STARTED;
        while let Err(error) = rest.list("/api/v1/namespaces/kube-system/serviceaccounts").await {
            servers.check_running()?;
            anyhow::ensure!(Instant::now() < deadline, "no API server: {error:#}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let kubectl = Kubectl {
            program: world.assets.program("kubectl"),
            kubeconfig: servers.admin().to_path_buf(),
            home: folder.join("home"),
        };
        Ok(Self { servers, kubectl, rest, folder })
    }

    /// `kubectl apply` of an object; fields that the server does not know are errors.
    async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        self.sent(object, &["apply", "--server-side", "--validate=strict", "-f", "-"]).await
    }

    /// Sets the condition of a pod that kube-scheduler found no node for; there is none here.
    async fn unschedulable(&self, name: &str) -> anyhow::Result<()> {
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        let mut pod = self.rest.get(&path).await?.context("no pod")?;
        pod["status"]["conditions"] =
            json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
        let written = self.rest.write("PUT", &format!("{path}/status"), &pod).await?;
        written.map(drop).map_err(|status| anyhow::anyhow!("{path}: {}", status.message))
    }

    /// `kubectl delete` of an object, until it is gone.
    async fn delete(&self, object: &Value) -> anyhow::Result<()> {
        self.sent(object, &["delete", "--timeout=60s", "-f", "-"]).await
    }

    async fn sent(&self, object: &Value, args: &[&str]) -> anyhow::Result<()> {
        let answer = self.kubectl.call(args, Some(object)).await?;
        let of = || format!("{} {} {}", args[0], object["kind"], object["metadata"]["name"]);
        anyhow::ensure!(answer.success, "{}: {}", of(), answer.stderr.trim());
        anyhow::ensure!(answer.stderr.is_empty(), "{}: a warning: {}", of(), answer.stderr.trim());
        Ok(())
    }

    /// Applies every definition of `deploy/crds/` and waits until they are served.
    async fn define(&self, cx: &Cx<'_>) -> anyhow::Result<()> {
        for crd in objects(&cx.world.root.join("deploy/crds"))? {
            self.apply(&crd).await?;
        }
        self.kubectl
            .run(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"])
            .await
            .map(drop)
    }

    /// The exit status and the JSON of a command of `fleetwright` on this server.
    async fn tool(&self, cx: &Cx<'_>, args: &[&str]) -> anyhow::Result<(Option<i32>, Value)> {
        let command = tokio::process::Command::new(&cx.world.binary)
            .args(args)
            .args(["-o", "json"])
            .env_clear()
            .env("KUBECONFIG", self.servers.admin())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(Duration::from_secs(90), command).await;
        let output = output.with_context(|| format!("{args:?} hangs"))??;
        let report: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("{args:?}: {}", String::from_utf8_lossy(&output.stderr)))?;
        Ok((output.status.code(), report))
    }

    /// The findings of `fleetwright compat` on this server, as `C101 blocker message`.
    async fn findings(&self, cx: &Cx<'_>) -> anyhow::Result<(Option<i32>, Vec<String>)> {
        let (status, report) = self.tool(cx, &["compat"]).await?;
        let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        let findings =
            report["findings"].as_array().context("no findings")?.iter().map(|finding| {
                ["id", "severity", "object", "message"].map(|key| text(finding, key)).join(" ")
            });
        Ok((status, findings.collect()))
    }

    /// Waits until a controller that is started here logs `words`. It does not act: it waits for its definitions.
    async fn controller_says(
        &self,
        cx: &mut Cx<'_>,
        name: &'static str,
        words: &[&str],
    ) -> anyhow::Result<()> {
        let [metrics, health] = free_ports()?;
        let recipe = Recipe {
            name,
            program: cx.world.binary.clone(),
            args: vec!["--cloud".to_owned(), "fake".to_owned()],
            env: vec![
                ("KUBECONFIG", self.servers.admin().as_os_str().to_owned()),
                ("METRICS_PORT", metrics.to_string().into()),
                ("HEALTH_PROBE_PORT", health.to_string().into()),
                ("SYSTEM_NAMESPACE", "kube-system".into()),
            ],
            logs: self.folder.clone(),
        };
        let process = recipe.start()?;
        let deadline = Instant::now() + SAID;
        let lacks = loop {
            let log = std::fs::read_to_string(recipe.log())?;
            let lacks: Vec<&str> = words.iter().copied().filter(|word| !log.contains(word)).collect();
            if lacks.is_empty() || Instant::now() > deadline {
                break lacks;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        let ready = reqwest::get(format!("http://127.0.0.1:{health}/readyz")).await;
        process.kill().await?;
        cx.check(format!("{name}: the log says {words:?}; missing: {lacks:?}"), lacks.is_empty())?;
        let is_ready = ready.is_ok_and(|answer| answer.status().is_success());
        cx.check(format!("{name}: it is not ready meanwhile"), !is_ready)
    }
}

/// The objects of `examples/aws`, as `envsubst` makes them.
fn examples(cx: &Cx<'_>) -> anyhow::Result<Vec<Value>> {
    let objects = objects(&cx.world.root.join("examples/aws"))?;
    let text = serde_json::to_string(&objects)?.replace("${CLUSTER_NAME}", "prod");
    Ok(serde_json::from_str(&text)?)
}

/// Applies an example, a class, a pool and a pod, plans a node of the pool for the pod, and deletes all three.
async fn planned(cx: &mut Cx<'_>, bare: &Bare, example: &[Value]) -> anyhow::Result<()> {
    let kinds: Vec<&str> = example.iter().filter_map(|object| object["kind"].as_str()).collect();
    cx.equal("kinds of an example", &kinds, &vec!["EC2NodeClass", "NodePool", "Pod"])?;
    for object in example {
        bare.apply(object).await?;
    }
    let [_, pool, pod] = [0, 1, 2].map(|at| example[at]["metadata"]["name"].as_str().unwrap_or_default());
    bare.unschedulable(pod).await?;
    let (status, report) = bare.tool(cx, &["plan", "--region", "us-east-1"]).await?;
    let claims = report["nodeClaims"].as_array().context("a plan without NodeClaims")?;
    let pools: Vec<&str> = claims.iter().filter_map(|claim| claim["nodePool"].as_str()).collect();
    cx.equal(
        &format!("NodeClaims for {pod} (status {status:?}, notes {})", report["notes"]),
        &pools,
        &vec![pool],
    )?;
    cx.equal("pods without a node", &report["unschedulable"], &json!([]))?;
    for object in example.iter().rev() {
        bare.delete(object).await?;
    }
    Ok(())
}

/// `deploy/crds/`, `deploy/aws/` and `examples/aws/` on a real API server: accepted as they are, with permissions that suffice and no more.
pub(super) async fn manifests(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let bare = Bare::start(cx).await?;
    bare.define(cx).await?;
    let manifests = objects(&cx.world.root.join("deploy/aws"))?;
    for object in &manifests {
        bare.apply(object).await?;
    }
    cx.check(format!("{} objects are applied without a warning", manifests.len()), manifests.len() >= 10)?;
    let examples = examples(cx)?;
    for example in examples.chunks(3) {
        planned(cx, &bare, example).await?;
    }
    cx.check(format!("{} objects of examples are applied", examples.len()), examples.len() >= 24)?;
    for (verb, resource, expected) in [
        ("list", "nodes", true),
        ("create", "nodeclaims.karpenter.sh", true),
        ("watch", "ec2nodeclasses.karpenter.k8s.aws", true),
        ("delete", "nodes", true),
        ("create", "nodes", false),
        ("list", "secrets", false),
        ("list", "configmaps", false),
        ("delete", "nodepools.karpenter.sh", false),
    ] {
        let account = "--as=system:serviceaccount:kube-system:karpenter";
        let answer = bare.kubectl.call(&["auth", "can-i", verb, resource, account, "-A"], None).await?;
        let can = answer.stdout.trim() == "yes";
        cx.equal(&format!("{verb} {resource}: {} {}", answer.stdout, answer.stderr), &can, &expected)?;
    }
    let (status, findings) = bare.findings(cx).await?;
    let severe: Vec<&String> = findings
        .iter()
        .filter(|finding| finding.contains(" blocker ") || finding.starts_with("C4"))
        .collect();
    cx.check(format!("compat finds nothing in the way (status {status:?}): {severe:?}"), severe.is_empty())?;
    cx.check(format!("compat knows the Deployment: {findings:?}"), has(&findings, "C502"))
}

/// Two holders of leases, a chart of 1.0, and settings in a config map and a secret: `compat` says what and how to fix it.
pub(super) async fn leftovers(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let bare = Bare::start(cx).await?;
    bare.define(cx).await?;
    let labels = json!({"app.kubernetes.io/name": "karpenter", "helm.sh/chart": "karpenter-1.0.8"});
    bare.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"level": "loud"},
        "metadata": {"name": "settings", "namespace": "kube-system"}}))
        .await?;
    let of = |field: &str, key: &str| json!({field: {"name": "settings", "key": key}});
    let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": [{
    "name": "controller", "image": "public.ecr.aws/karpenter/controller:1.0.8", "env": [
        {"name": "LOG_LEVEL", "valueFrom": of("configMapKeyRef", "level")},
        {"name": "INTERRUPTION_QUEUE", "valueFrom": of("secretKeyRef", "queue")},
    ]}]}});
    bare.apply(&json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "karpenter", "namespace": "kube-system", "labels": labels},
        "spec": {"selector": {"matchLabels": {"app.kubernetes.io/name": "karpenter"}}, "template": pod}}))
        .await?;
    bare.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karpenter"}})).await?;
    let now = now();
    for namespace in ["kube-system", "karpenter"] {
        bare.apply(&json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "karpenter-leader-election", "namespace": namespace},
            "spec": {"holderIdentity": format!("pod-in-{namespace}"), "leaseDurationSeconds": 600,
                "acquireTime": now, "renewTime": now, "leaseTransitions": 0}}))
            .await?;
    }
    let (status, findings) = bare.findings(cx).await?;
    let unread = "settings are not read and not checked: INTERRUPTION_QUEUE (Secret kube-system/settings)";
    let of_controller = |id: &str, says: &str| format!("{id} Deployment kube-system/karpenter {says}");
    for finding in [
        "C503 blocker".to_owned(),
        "C702 blocker".to_owned(),
        of_controller("C300 warning", unread),
        of_controller("C301 blocker", "LOG_LEVEL: \"loud\""),
    ] {
        cx.check(format!("{finding} is among {findings:#?}"), has(&findings, &finding))?;
    }
    cx.equal("the exit status of compat", &status, &Some(5))
}

#[expect(clippy::disallowed_methods, reason = "a lease that is held was renewed a moment ago")]
fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string()
}

/// Definitions that are half installed, or hold objects of v1beta1: `compat` and the start of the controller say so.
pub(super) async fn definitions(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let bare = Bare::start(cx).await?;
    bare.define(cx).await?;
    bare.kubectl.run(&["delete", "crd", "nodeclaims.karpenter.sh", "--timeout=60s"]).await?;
    let (status, findings) = bare.findings(cx).await?;
    let what = "C101 blocker CustomResourceDefinition nodeclaims.karpenter.sh";
    cx.check(format!("{what} is among {findings:#?}"), has(&findings, what))?;
    cx.equal("the exit status of compat", &status, &Some(5))?;
    bare.controller_says(cx, "half-installed", &["NodeClaim", "install the CRDs of this release"]).await?;

    bare.define(cx).await?;
    stored_as_v1beta1(&bare).await?;
    let (status, findings) = bare.findings(cx).await?;
    let what = "C105 blocker CustomResourceDefinition nodepools.karpenter.sh";
    cx.check(format!("{what} is among {findings:#?}"), has(&findings, what))?;
    cx.equal("the exit status of compat", &status, &Some(5))?;
    bare.controller_says(cx, "v1beta1", &["nodepools.karpenter.sh", "v1beta1", "write each of them again"])
        .await
}

/// The history of a cluster that came from 0.37: v1beta1 was the version of the storage, and now is v1.
async fn stored_as_v1beta1(bare: &Bare) -> anyhow::Result<()> {
    let path = format!("{CRDS}/nodepools.karpenter.sh");
    for beta_is_stored in [true, false] {
        let mut definition = bare.rest.get(&path).await?.context("no definition of NodePools")?;
        let versions = definition["spec"]["versions"].as_array_mut().context("no versions")?;
        versions.retain(|version| version["name"] != "v1beta1");
        for version in versions.iter_mut() {
            version["storage"] = json!(!beta_is_stored);
        }
        versions.push(json!({
            "name": "v1beta1", "served": beta_is_stored, "storage": beta_is_stored,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        }));
        let written = bare.rest.write("PUT", &path, &definition).await?;
        written.map_err(|status| anyhow::anyhow!("the definition is refused: {}", status.message))?;
    }
    Ok(())
}

fn has(findings: &[String], start: &str) -> bool {
    findings.iter().any(|finding| finding.starts_with(start))
}

//! An AWS account in moto: the server, and what an administrator makes and looks at. Calls go to moto itself, past the proxy and
//! without the SDK, so that what is checked is not read by what is tested.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use fleetwright_tests::e2e::process::{Process, Recipe, free_ports};
use serde_json::{Value, json};
use tokio::time::Instant;

use fleetwright_aws_emulator::call::encode;
use fleetwright_aws_emulator::xml::{self, Element};

/// What starts moto.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/moto_server.py");
/// How long moto may take to start.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// The region of all cases.
pub(crate) const REGION: &str = "us-west-2";

/// A running moto server; it ends with this value.
pub(crate) struct Account {
    /// `http://host:port`
    pub(crate) url: String,
    client: reqwest::Client,
    process: Process,
}

/// An instance as moto has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ec2Instance {
    pub(crate) id: String,
    pub(crate) state: String,
    pub(crate) instance_type: String,
    pub(crate) zone: String,
    pub(crate) image: String,
    pub(crate) tags: BTreeMap<String, String>,
}

impl Account {
    /// Starts moto, with its log in `folder`.
    pub(crate) async fn start(
        python: &Path,
        folder: &Path,
        path: std::ffi::OsString,
    ) -> anyhow::Result<Self> {
        let [port] = free_ports()?;
        let args = [SCRIPT, "-H", "127.0.0.1", "-p", &port.to_string()].map(str::to_owned);
        let recipe = Recipe {
            name: "moto",
            program: python.to_path_buf(),
            args: args.to_vec(),
            env: vec![("PATH", path)],
            logs: folder.to_path_buf(),
        };
        let process = recipe.start()?;
        let client = reqwest::Client::builder().no_proxy().build()?;
        let mut account = Self { url: format!("http://127.0.0.1:{port}"), client, process };
        let deadline = Instant::now() + READY_LIMIT;
        while let Err(error) = account.reset().await {
            account.check_running()?;
            ensure!(Instant::now() < deadline, "moto is not ready after {READY_LIMIT:?}: {error:#}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(account)
    }

    /// Fails when moto has ended by itself.
    pub(crate) fn check_running(&mut self) -> anyhow::Result<()> {
        self.process.check_running()
    }

    /// Empties the account.
    pub(crate) async fn reset(&self) -> anyhow::Result<()> {
        let asked = self.client.post(format!("{}/moto-api/reset", self.url)).send().await?;
        asked.error_for_status()?;
        Ok(())
    }

    /// A call of the query protocol.
    pub(crate) async fn query(
        &self,
        service: &str,
        action: &str,
        params: &[(&str, &str)],
    ) -> anyhow::Result<Element> {
        let version = if service == "iam" { "2010-05-08" } else { "2016-11-15" };
        let own = [("Action", action), ("Version", version)];
        let all: BTreeMap<String, String> =
            own.iter().chain(params).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let request = self.client.post(&self.url).header("authorization", signature(service));
        let form = request.header("content-type", "application/x-www-form-urlencoded");
        let told = form.body(encode(&all)).send().await?;
        let (status, text) = (told.status(), told.text().await?);
        ensure!(status.is_success(), "{action}: {status} {text}");
        xml::parse(&text)
    }

    /// A call of EC2.
    pub(crate) async fn ec2(&self, action: &str, params: &[(&str, &str)]) -> anyhow::Result<Element> {
        self.query("ec2", action, params).await
    }

    /// A call of SQS.
    pub(crate) async fn sqs(&self, action: &str, body: &Value) -> anyhow::Result<Value> {
        let request = self.client.post(&self.url).header("authorization", signature("sqs"));
        let request = request.header("x-amz-target", format!("AmazonSQS.{action}"));
        let told = request.header("content-type", "application/x-amz-json-1.0").body(body.to_string());
        let told = told.send().await?.error_for_status().with_context(|| action.to_owned())?;
        Ok(serde_json::from_str(&told.text().await?).unwrap_or_default())
    }

    /// The certificate authority, base64, of a new EKS cluster.
    pub(crate) async fn create_cluster(&self, name: &str) -> anyhow::Result<String> {
        let body = json!({
            "name": name,
            "version": "1.35",
            "roleArn": "arn:aws:iam::123456789012:role/cluster",
            "resourcesVpcConfig": {},
            "kubernetesNetworkConfig": {"serviceIpv4Cidr": "10.100.0.0/16"},
        });
        let request = self.client.post(format!("{}/clusters", self.url));
        let request = request.header("authorization", signature("eks")).body(body.to_string());
        let told = request.header("content-type", "application/json").send().await?;
        let (status, text) = (told.status(), told.text().await?);
        ensure!(status.is_success(), "CreateCluster: {status} {text}");
        let cluster: Value = serde_json::from_str(&text)?;
        let authority = &cluster["cluster"]["certificateAuthority"]["data"];
        authority.as_str().map(str::to_owned).context("a cluster without a certificate authority")
    }

    /// A role that nodes can have.
    pub(crate) async fn create_role(&self, name: &str) -> anyhow::Result<()> {
        let document = r#"{"Version": "2012-10-17", "Statement": []}"#;
        let params = [("RoleName", name), ("AssumeRolePolicyDocument", document)];
        self.query("iam", "CreateRole", &params).await.map(drop)
    }

    /// An image of an architecture; its id.
    pub(crate) async fn create_image(&self, name: &str, architecture: &str) -> anyhow::Result<String> {
        let params = [("Name", name), ("Architecture", architecture), ("RootDeviceName", "/dev/xvda")];
        let told = self.ec2("RegisterImage", &params).await?;
        Ok(told.at(&["imageId"]).to_owned())
    }

    /// Tags resources.
    pub(crate) async fn tag(&self, id: &str, tags: &[(&str, &str)]) -> anyhow::Result<()> {
        let mut params = vec![("ResourceId.1".to_owned(), id.to_owned())];
        for (number, (key, value)) in (1..).zip(tags) {
            params.push((format!("Tag.{number}.Key"), (*key).to_owned()));
            params.push((format!("Tag.{number}.Value"), (*value).to_owned()));
        }
        let params: Vec<(&str, &str)> = params.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        self.ec2("CreateTags", &params).await.map(drop)
    }

    /// Subnets of the default network by zone.
    pub(crate) async fn subnets(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let told = self.ec2("DescribeSubnets", &[]).await?;
        let subnet = |item: &&Element| {
            let zone = item.at(&["availabilityZone"]);
            (!zone.is_empty()).then(|| (zone.to_owned(), item.at(&["subnetId"]).to_owned()))
        };
        Ok(told.all("item").iter().filter_map(subnet).collect())
    }

    /// The default security group.
    pub(crate) async fn security_group(&self) -> anyhow::Result<String> {
        let told = self.ec2("DescribeSecurityGroups", &[]).await?;
        let groups = told.all("groupId");
        let first = groups.iter().map(|id| id.text.clone()).find(|id| id.starts_with("sg-"));
        first.context("moto has no security group")
    }

    /// Instances that are not terminated, by id.
    pub(crate) async fn instances(&self) -> anyhow::Result<BTreeMap<String, Ec2Instance>> {
        let told = self.ec2("DescribeInstances", &[]).await?;
        let items = told.all("instancesSet").into_iter().flat_map(|set| set.children.iter());
        let instance = |item: &Element| {
            let text = |path: &[&str]| item.at(path).to_owned();
            let id = text(&["instanceId"]);
            let instance = Ec2Instance {
                id: id.clone(),
                state: text(&["instanceState", "name"]),
                instance_type: text(&["instanceType"]),
                zone: text(&["placement", "availabilityZone"]),
                image: text(&["imageId"]),
                tags: tags(item),
            };
            (id, instance)
        };
        Ok(items.map(instance).filter(|(_, instance)| instance.state != "terminated").collect())
    }

    /// Launch templates: tags by name.
    pub(crate) async fn templates(&self) -> anyhow::Result<BTreeMap<String, BTreeMap<String, String>>> {
        let told = self.ec2("DescribeLaunchTemplates", &[]).await?;
        let Some(set) = told.child("launchTemplates") else { return Ok(BTreeMap::new()) };
        let template = |item: &Element| (item.at(&["launchTemplateName"]).to_owned(), tags(item));
        Ok(set.children.iter().map(template).collect())
    }

    /// Instance profiles: names with their roles.
    pub(crate) async fn profiles(&self) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
        let told = self.query("iam", "ListInstanceProfiles", &[]).await?;
        let Some(set) = told.child("ListInstanceProfilesResult").and_then(|r| r.child("InstanceProfiles"))
        else {
            return Ok(BTreeMap::new());
        };
        let profile = |item: &Element| {
            let roles = item.all("RoleName").iter().map(|role| role.text.clone()).collect();
            (item.at(&["InstanceProfileName"]).to_owned(), roles)
        };
        Ok(set.children.iter().map(profile).collect())
    }

    /// Launches an instance as another client would.
    pub(crate) async fn launch(&self, tags: &[(&str, &str)]) -> anyhow::Result<String> {
        let image = self.create_image(&format!("by-hand-{}", tags.len()), "x86_64").await?;
        let params =
            [("ImageId", &*image), ("MinCount", "1"), ("MaxCount", "1"), ("InstanceType", "m5.large")];
        let told = self.ec2("RunInstances", &params).await?;
        let ids = told.all("instanceId");
        let id = ids.first().context("nothing was launched")?.text.clone();
        self.tag(&id, tags).await?;
        Ok(id)
    }
}

/// Tags of an item.
fn tags(item: &Element) -> BTreeMap<String, String> {
    let all = item.child("tagSet").map(|set| set.children.as_slice()).unwrap_or_default();
    all.iter().map(|tag| (tag.at(&["key"]).to_owned(), tag.at(&["value"]).to_owned())).collect()
}

/// The header by which moto selects the service; moto does not verify it.
pub(crate) fn signature(service: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential=administrator/20260101/{REGION}/{service}/aws4_request, SignedHeaders=host, \
         Signature=none"
    )
}

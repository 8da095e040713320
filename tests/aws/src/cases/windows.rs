//! Windows nodes: which types and claims they are for, and what they are born with.

use anyhow::Context as _;
use fleetwright_core::model::labels::{INSTANCE_TYPE, ON_DEMAND, OS};

use super::basics::{claims, launched};
use crate::case::Cx;
use crate::cluster::claim;

/// SSM has its images here: <https://docs.aws.amazon.com/eks/latest/userguide/retrieve-windows-ami-id.html>.
const IMAGE: &str =
    "/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.35/image_id";
/// The label of the build, and that of Windows Server 2022: <https://kubernetes.io/docs/reference/labels-annotations-taints/>.
const BUILD: (&str, &str) = ("node.kubernetes.io/windows-build", "10.0.20348");
/// `<powershell>\n[string]$EKS`, base64.
const FIRST_BOOT: &str = "PHBvd2Vyc2hlbGw+CltzdHJpbmddJEVLU";

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    let image = cx.account.create_image("windows-2022", "x86_64").await?;
    cx.proxy.rules(|rules| {
        rules.images.architectures.insert(image.clone(), "x86_64");
        rules.parameters.insert(IMAGE.to_owned(), image.clone());
    });
    let mut cluster = cx.fresh().await?;
    let terms = serde_json::from_value(serde_json::json!([{"alias": "windows2022@latest"}]))?;
    cluster.edit(|class| class.spec.ami_selector_terms = terms)?;
    cluster.ready().await?;

    let catalog = cluster.catalog().await?;
    cx.check("an m5.large can run Windows", catalog.get("m5.large").is_some())?;
    let systems = catalog.instance_types.iter().map(|known| known.requirements.labels().get(OS).cloned());
    let others = systems.flatten().filter(|system| **system != *"windows").count();
    cx.equal("types of another system", &others, &0)?;
    let arm = cluster.launch("arm", 1, &[claim("arm", &[(INSTANCE_TYPE, &["m6g.large"])])]).await;
    cx.check("a claim for an ARM type is not launched: there is no image", arm.iter().all(Result::is_err))?;

    let linux = cluster.launch("linux", 1, &claims(&["linux"])).await;
    cx.check("a claim that leaves the system open is launched", linux.iter().all(Result::is_ok))?;
    let system = (OS, &["linux"][..]);
    let linux = cluster.launch("none", 1, &[claim("none", &[system])]).await;
    cx.check("a claim for Linux is not", linux.iter().all(Result::is_err))?;
    let wanted = [
        (INSTANCE_TYPE, &["m5.large"][..]),
        ("karpenter.sh/capacity-type", &[ON_DEMAND][..]),
        (OS, &["windows"][..]),
    ];
    let instance = launched(cluster.launch("windows", 1, &[claim("windows", &wanted)]).await)?.remove(0);
    cx.equal("its image", &instance.image_id.as_deref(), &Some(&*image))?;
    for (key, value) in [(OS, "windows"), BUILD] {
        cx.equal(key, &instance.labels.get(key).map(|value| &**value), &Some(value))?;
    }
    first_boot(cx).await
}

/// User data and root volume of the launch templates.
async fn first_boot(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    for name in cx.account.templates().await?.into_keys() {
        let asked = [("LaunchTemplateName", name.as_str()), ("LaunchTemplateVersion.1", "$Latest")];
        let told = cx.account.ec2("DescribeLaunchTemplateVersions", &asked).await?;
        let only = |name: &str| told.all(name).first().map(|element| element.text.clone());
        let data = only("userData").with_context(|| format!("{name} has no user data"))?;
        cx.check(format!("{name} starts EKS' script: {data:.60}"), data.starts_with(FIRST_BOOT))?;
        cx.equal("the root device", &only("deviceName").as_deref(), &Some("/dev/sda1"))?;
        cx.equal("its GiB", &only("volumeSize").as_deref(), &Some("50"))?;
    }
    Ok(())
}

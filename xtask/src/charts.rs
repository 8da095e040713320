//! `cargo xtask ci charts`: both charts render to the objects of Karpenter's charts, for every values file of `tests/charts/`.
//!
//! Karpenter's charts are those of its tag ([`upstream`]). The image differs, and so does the chart's version in two labels; nothing
//! else may. A case with our own key is compared with stored objects, one a line.

mod compare;
mod definitions;
mod refusals;
mod schema;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::helm::{self, Helm};
use crate::shell;
use crate::upstream;

/// Where the cases are: a folder each, with `values.yaml`, and `objects.jsonl` if they use our own key.
const CASES: &str = "tests/charts";
/// The cases whose objects are our own chart's, because they use its own key; all others are Karpenter's.
const OWN: [&str; 2] = ["own-key", "shadow"];
/// How many cases Karpenter's values have at least, so that a folder that was lost is noticed.
const CASES_MIN: usize = 10;
/// Where the release of the cases is installed.
const NAMESPACE: &str = "karpenter";
/// The image wherever the values do not set `fleetwright.image`: no tag and no digest of Karpenter's gets there.
const IMAGE: &str = concat!("ghcr.io/fleetwright/fleetwright:", env!("CARGO_PKG_VERSION"));

/// Renders both charts with every values file and compares the objects; checks what the chart refuses.
pub(crate) fn check() -> anyhow::Result<()> {
    let root = shell::root();
    let helm = Helm::find()?;
    let karpenter = upstream::aws()?.join("charts");
    let mut cases: Vec<String> = fs::read_dir(root.join(CASES))
        .with_context(|| format!("cannot list {CASES}"))?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<_>>()?;
    cases.retain(|case| root.join(CASES).join(case).is_dir());
    cases.sort();
    ensure!(cases.len() >= CASES_MIN + OWN.len(), "{CASES} has {} cases", cases.len());
    let mut found = Vec::new();
    for case in &cases {
        let differences =
            differences(&helm, &root, &karpenter, case).with_context(|| format!("{CASES}/{case}"))?;
        found.extend(differences.into_iter().map(|difference| format!("{case}: {difference}")));
    }
    found.extend(refusals::check(&helm, &root.join("charts/karpenter")));
    for file in ["aws/karpenter.yaml", "fake-cloud/karpenter.yaml", "fake-cloud/fake-cloud.yaml"] {
        let text =
            fs::read_to_string(root.join("deploy").join(file)).with_context(|| format!("deploy/{file}"))?;
        found.extend(
            schema::faults(&helm::objects(&text)?).into_iter().map(|fault| format!("deploy/{file}: {fault}")),
        );
    }
    for chart in ["charts/karpenter", "charts/karpenter-crd"] {
        helm.lint(&root.join(chart), &["--set", "settings.clusterName=a"])?;
    }
    for difference in &found {
        anstream::eprintln!("{difference}");
    }
    if !found.is_empty() {
        bail!(
            "the charts have {} faults or differences from Karpenter's (- is Karpenter's, + is ours)",
            found.len()
        );
    }
    anstream::println!("{} values files render to the objects of Karpenter's charts", cases.len());
    Ok(())
}

/// What differs between the objects of one case and those that our charts render.
fn differences(helm: &Helm, root: &Path, karpenter: &Path, case: &str) -> anyhow::Result<Vec<String>> {
    let folder = root.join(CASES).join(case);
    let values = folder.join("values.yaml").to_string_lossy().into_owned();
    let args = ["--values", values.as_str()];
    let rendered = |chart: &Path| helm::objects(&helm.template(chart, NAMESPACE, &args)?);
    let objects = rendered(&root.join("charts/karpenter"))?;
    let mut found = schema::faults(&objects);
    let ours = compare::table(objects)?;
    let theirs = if OWN.contains(&case) {
        let file = folder.join("objects.jsonl");
        let stored = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        stored.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?
    } else {
        rendered(&karpenter.join("karpenter"))?
    };
    found.extend(compare::differences(&compare::table(theirs)?, &ours));
    if !OWN.contains(&case) {
        found.extend(compare::images(&ours).into_iter().filter(|image| image != IMAGE).map(|image| {
            format!("the controller's image is {image}, not {IMAGE}: values of Karpenter's image reached it")
        }));
    }
    let definitions = [karpenter.join("karpenter-crd"), root.join("charts/karpenter-crd")];
    let [theirs, ours] = definitions.map(|chart| rendered(&chart));
    found.extend(definitions::differences(theirs?, ours?)?);
    Ok(found)
}

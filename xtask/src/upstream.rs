//! Karpenter's own sources, from the Go module proxy: read, never copied into the repository.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use serde_json::Value;

use crate::shell;

/// Karpenter for AWS, whose charts ours replace.
const AWS_MODULE: &str = "github.com/aws/karpenter-provider-aws@v1.14.1";

/// The folder with the sources of [`AWS_MODULE`], which are downloaded if they are not there: 2.5 MB, once.
///
/// # Errors
/// There is no Go, or the proxy does not have the module.
pub(crate) fn aws() -> anyhow::Result<PathBuf> {
    let mut go = Command::new("go");
    go.args(["mod", "download", "-json", AWS_MODULE]).env("GOTOOLCHAIN", "local").current_dir(shell::root());
    let printed = shell::capture(&mut go)
        .with_context(|| format!("{AWS_MODULE} is downloaded by Go 1.24 or newer (https://go.dev/dl)"))?;
    let printed: Value = serde_json::from_str(&printed).context("go mod download printed no JSON")?;
    let folder = printed["Dir"].as_str().with_context(|| format!("go mod download: {}", printed["Error"]))?;
    Ok(PathBuf::from(folder))
}

//! `cargo xtask e2e`: builds the operator and that of the case `neighbor`, then hands the arguments to the runner of the end-to-end cases.
//!
//! With `--dashboards` a Prometheus scrapes the operators of the cases meanwhile, and every query of `dashboards/` runs on it at the end.
//!
//! What `--speed` and `--price` measure is built as users run it, as the image is. `--tier aws` has a runner of its own, which has the AWS SDK in
//! it.

use std::path::PathBuf;

use crate::{aws, dashboards, shell};

/// Runs the cases that `args` choose, or measures.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    if let Some(rest) = of_tier("aws", args) {
        return aws::tier(&rest);
    }
    if let Some(mut rest) = of_tier("aws-live", args) {
        rest.insert(0, "live".to_owned());
        return aws::tier(&rest);
    }
    let profile: &[&str] = if is_measured(args) { &["--profile", "dist"] } else { &[] };
    shell::run(shell::cargo(&["build", "--locked"]).args(profile).args([
        "--bin",
        "fleetwright",
        "--bin",
        "fleetwright-neighbor",
    ]))?;
    let mut runner = shell::cargo(&["run", "--locked"]);
    runner.args(profile).args(["--bin", "fleetwright-e2e", "--"]);
    dashboards::live::beside(&mut runner, args, "fake")
}

/// Builds the runner of the cases, for a task that starts it itself. It finds its folder by its own path.
pub(crate) fn runner() -> anyhow::Result<PathBuf> {
    shell::run(&mut shell::cargo(&["build", "--locked", "--bin", "fleetwright-e2e"]))?;
    let target = shell::workspace()?.target_directory.into_std_path_buf();
    Ok(target.join("debug").join(format!("fleetwright-e2e{}", std::env::consts::EXE_SUFFIX)))
}

fn is_measured(args: &[String]) -> bool {
    args.iter().any(|arg| arg == "--speed" || arg == "--price")
}

/// The arguments of the runner of the AWS tiers, where `tier` is chosen.
fn of_tier(tier: &str, args: &[String]) -> Option<Vec<String>> {
    let (at, length) = match args.iter().position(|arg| arg.strip_prefix("--tier=") == Some(tier)) {
        Some(at) => (at, 1),
        None => (args.windows(2).position(|pair| pair == ["--tier", tier])?, 2),
    };
    let mut rest = args.to_vec();
    rest.drain(at..at + length);
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_aws_tier_has_a_runner_of_its_own() {
        let args = |args: &[&str]| args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>();
        for chosen in [&["--tier", "aws", "launch"][..], &["launch", "--tier=aws"]] {
            assert_eq!(of_tier("aws", &args(chosen)), Some(args(&["launch"])), "{chosen:?}");
        }
        for other in [&["--tier", "kube", "aws"][..], &["--tier"], &["aws"], &["--tier", "aws-live"], &[]] {
            assert_eq!(of_tier("aws", &args(other)), None, "{other:?}");
        }
    }

    #[test]
    fn what_is_measured_is_built_as_published() {
        let args = |args: &[&str]| args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>();
        assert!(is_measured(&args(&["--tier", "fake-kube", "--speed"])));
        assert!(!is_measured(&args(&["--tier", "kube", "kill"])));
    }
}

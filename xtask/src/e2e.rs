//! `cargo xtask e2e`: builds the operator, then hands the arguments to the runner of the end-to-end cases.
//!
//! What `--speed` measures is built as users run it, in release.

use crate::shell;

/// Runs the cases that `args` choose, or measures.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let profile: &[&str] = if is_release(args) { &["--release"] } else { &[] };
    shell::run(shell::cargo(&["build", "--locked"]).args(profile).args(["--bin", "fleetwright"]))?;
    let mut runner = shell::cargo(&["run", "--locked"]);
    shell::run(runner.args(profile).args(["--bin", "fleetwright-e2e", "--"]).args(args))
}

fn is_release(args: &[String]) -> bool {
    args.iter().any(|arg| arg == "--speed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_speed_is_measured_in_release() {
        let args = |args: &[&str]| args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>();
        assert!(is_release(&args(&["--tier", "fake-kube", "--speed"])));
        assert!(!is_release(&args(&["--tier", "kube", "kill"])));
    }
}

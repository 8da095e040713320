//! `cargo xtask ci`: the one entry to everything that a change has to pass.
//!
//! All cargo steps select packages alike (the default members): another selection unifies features
//! differently and compiles the dependencies a second time. The step `aws` has to, for the SDK is in no default member.

use clap::ValueEnum;

use crate::{
    aws, book, browser, charts, deny, fuzz, generate, packages, provider, seeds, semver, shell, terminal,
    tidy,
};

/// Which steps to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The steps to run, in their fixed order; all of them if none is named
    #[arg(value_enum, value_name = "STEP")]
    only: Vec<CiStep>,
    /// A step to leave out; may be repeated
    #[arg(long, value_enum, value_name = "STEP")]
    skip: Vec<CiStep>,
}

/// The steps in the order in which they run: those that fail fast come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CiStep {
    /// Formatting, without changing a file
    Fmt,
    /// Lints of all targets, warnings denied
    Clippy,
    /// Every test that needs nothing but Rust
    Tests,
    /// Documentation, warnings denied
    Doc,
    /// Licences, sources and banned or doubled dependencies
    Deny,
    /// Generated files are what the code says
    Generate,
    /// Both charts render to the objects of Karpenter's; Helm is built once
    Charts,
    /// Links and sections of the documentation exist, and mdBook builds the book
    Book,
    /// `top` and the demo in a real terminal; needs tmux
    Terminal,
    /// The page `/ui` and the file of `report` in a real browser; needs Chromium
    Browser,
    /// The rules that hold the shape of the repository
    Tidy,
    /// Every public crate can be published, up to the upload
    Package,
    /// The provider API does not break the one of docs/api-baseline; installs cargo-semver-checks once
    Semver,
    /// examples/provider, built and tested from packaged crates
    ProviderExample,
    /// The parsers on made inputs, two minutes; a build of its own
    Fuzz,
    /// Lives of small clusters full of trouble, in release
    Seeds,
    /// What has the AWS SDK in it: lints, tests, and a quarter of the cases against a moto server; minutes, and 8 GiB
    Aws,
}

/// Runs the selected steps, stops at the first failure, and prints the duration of each.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    for step in chosen(&args.only, &args.skip) {
        anstream::println!("==> {}", step.name());
        let (result, took) = shell::timed(|| step.run());
        let verdict = if result.is_ok() { "ok" } else { "failed" };
        anstream::println!("<== {} {verdict} in {:.1} s", step.name(), took.as_secs_f64());
        result?;
    }
    Ok(())
}

fn chosen(only: &[CiStep], skip: &[CiStep]) -> Vec<CiStep> {
    let wanted = |step: &CiStep| (only.is_empty() || only.contains(step)) && !skip.contains(step);
    CiStep::value_variants().iter().copied().filter(wanted).collect()
}

// === impl Step ===

impl CiStep {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(|| format!("{self:?}"), |value| value.get_name().to_owned())
    }

    fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Fmt => shell::run(&mut shell::cargo(&["fmt", "--all", "--check"])),
            Self::Clippy => shell::run(&mut shell::cargo(&[
                "clippy",
                "--locked",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ])),
            Self::Tests => shell::run(&mut shell::cargo(&["test", "--locked"])),
            Self::Doc => shell::run(
                shell::cargo(&["doc", "--locked", "--no-deps"])
                    .env("RUSTDOCFLAGS", "--deny warnings")
                    .env_remove("RUSTC_WORKSPACE_WRAPPER"),
            ),
            Self::Deny => deny::run(),
            Self::Generate => generate::run(true),
            Self::Charts => charts::check(),
            Self::Book => book::check(),
            Self::Terminal => terminal::check(),
            Self::Browser => browser::check(),
            Self::Tidy => tidy::run(),
            Self::Package => packages::check(),
            Self::Semver => semver::check(),
            Self::ProviderExample => provider::check(false),
            Self::Fuzz => fuzz::check(),
            Self::Seeds => seeds::run(&[]),
            Self::Aws => aws::check(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_chosen_in_their_own_order() {
        let all = CiStep::value_variants();
        assert_eq!(chosen(&[], &[]), all);
        assert_eq!(chosen(&[CiStep::Clippy, CiStep::Fmt], &[]), [CiStep::Fmt, CiStep::Clippy]);
        assert_eq!(chosen(&[], &[CiStep::Tests]).len(), all.len() - 1);
        assert!(!chosen(&[], &[CiStep::Tests]).contains(&CiStep::Tests));
        assert!(chosen(&[CiStep::Fmt], &[CiStep::Fmt]).is_empty());
    }
}

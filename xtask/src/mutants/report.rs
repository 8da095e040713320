//! `cargo xtask mutants report`: the figures of each module, and the survivors.

use std::fs;

use super::execute::{self, Verdict};
use super::{Prepared, SampledMutant, record};
use crate::shell;

/// What became of the mutants of a module.
#[derive(Default)]
struct ModuleFigures {
    caught: usize,
    survived: usize,
    accepted: usize,
    not_viable: usize,
    due: usize,
}

impl ModuleFigures {
    fn row(&self, module: &str, possible: usize) -> String {
        let viable = self.caught + self.survived + self.accepted;
        let share = (self.caught * 1000).checked_div(viable).unwrap_or_default();
        format!(
            "| `{module}` | {possible} | {} | {} | {} | {} | {} | {}.{} % | {} |",
            viable + self.not_viable + self.due,
            self.not_viable,
            self.caught,
            self.accepted,
            self.survived,
            share / 10,
            share % 10,
            self.due
        )
    }
}

pub(super) fn run() -> anyhow::Result<()> {
    let folder = super::folder()?;
    let prepared = record::prepared(&folder)?;
    let results = execute::results(&folder);
    let accepted = fs::read_to_string(shell::root().join("docs/mutation.md")).unwrap_or_default();
    let judge = |sampled: &SampledMutant| results.get(&sampled.mutant.key()).cloned();
    anstream::print!("{}", text(&prepared, &accepted, judge));
    Ok(())
}

/// The report; `accepted` is the page that names accepted survivors.
fn text(prepared: &Prepared, accepted: &str, judge: impl Fn(&SampledMutant) -> Option<Verdict>) -> String {
    let mut text = format!("Seed {}\n\n", prepared.seed);
    text += "| Module | Possible | Sampled | Not viable | Caught | Accepted | Survived | Caught of viable | Not run |\n";
    text += "|---|---|---|---|---|---|---|---|---|\n";
    let (mut all, mut survivors, mut possible_all) = (ModuleFigures::default(), String::new(), 0);
    for (module, possible) in &prepared.possible {
        let mut figures = ModuleFigures::default();
        for sampled in prepared.mutants.iter().filter(|sampled| sampled.module == *module) {
            let (key, verdict) = (sampled.mutant.key(), judge(sampled));
            for figures in [&mut figures, &mut all] {
                *match &verdict {
                    None => &mut figures.due,
                    Some(Verdict::Caught(_)) => &mut figures.caught,
                    Some(Verdict::NotViable) => &mut figures.not_viable,
                    Some(Verdict::Survived { .. }) if accepted.contains(&key) => &mut figures.accepted,
                    Some(Verdict::Survived { .. }) => &mut figures.survived,
                } += 1;
            }
            if let Some(Verdict::Survived { tests, all }) = verdict
                && !accepted.contains(&key)
            {
                let line = sampled.mutant.line;
                survivors += &format!("line {line}, {tests} of {all} tests: {key}\n");
            }
        }
        possible_all += possible;
        text += &(figures.row(module, *possible) + "\n");
    }
    text + &all.row("all", possible_all) + "\n\n" + &survivors
}

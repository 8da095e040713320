//! Writes mutants into a source: each is switched at run time by its number, so that all of them are in one build.

use std::cmp::Reverse;
use std::ops::Range;

use super::find::{Edit, Mutant};

/// The module that each mutated crate gets: which mutant is on, and which were evaluated.
pub(super) const SWITCH: &str = r#"//! The mutant that is on: that of the environment's `MUTANT`.
use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::{Mutex, OnceLock};

static CHOSEN: OnceLock<u32> = OnceLock::new();
static SEEN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Whether mutant `id` is on.
pub(crate) fn on(id: u32) -> bool {
    let read = || std::env::var("MUTANT").ok().and_then(|id| id.parse().ok()).unwrap_or(0);
    let chosen = *CHOSEN.get_or_init(read);
    if chosen == u32::MAX {
        note(id);
    }
    chosen == id
}

fn note(id: u32) {
    if SEEN.lock().is_ok_and(|mut seen| seen.insert(id))
        && let Some(path) = std::env::var_os("MUTANTS_SEEN")
        && let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path)
    {
        let _ = file.write_all(format!("{id}\n").as_bytes());
    }
}
"#;

/// A source with mutants in it.
#[derive(Debug, Default)]
pub(super) struct Rewritten {
    pub(super) text: String,
    /// Where each mutant is in the text.
    ids: Vec<(u32, Range<usize>)>,
    /// Pieces of the original: where each starts in the text, and in the original.
    pieces: Vec<(usize, usize)>,
}

impl Rewritten {
    /// The mutants that rustc may mean with an error at `place`: the innermost that spans it, or else those of its function.
    pub(super) fn blamed(&self, place: &Range<usize>, chosen: &[(u32, &Mutant)]) -> Vec<u32> {
        let around = self.ids.iter().filter(|(_, range)| range.start < place.end && place.start < range.end);
        if let Some((id, _)) = around.min_by_key(|(_, range)| range.len()) {
            return vec![*id];
        }
        let before = self.pieces.partition_point(|(text, _)| *text <= place.start);
        let Some((text, original)) = before.checked_sub(1).and_then(|last| self.pieces.get(last)) else {
            return Vec::new();
        };
        let at = original + (place.start - text);
        let body = chosen.iter().filter(|(_, mutant)| mutant.body.contains(&at));
        body.map(|(id, _)| *id).collect()
    }

    fn copy(&mut self, source: &str, range: Range<usize>) {
        self.pieces.push((self.text.len(), range.start));
        self.text.push_str(source.get(range).unwrap_or_default());
    }

    /// Writes `range` of the source with `chosen`, which are sorted, the outer before the inner.
    fn write(&mut self, source: &str, range: Range<usize>, chosen: &[(u32, &Mutant)]) {
        let mut at = range.start;
        let mut rest = chosen;
        while let Some(((id, mutant), after)) = rest.split_first() {
            self.copy(source, at..mutant.span.start);
            let inner = after.partition_point(|(_, other)| other.span.start < mutant.span.end);
            let (inside, outside) = after.split_at(inner);
            let start = self.text.len();
            let on = format!("crate::mutants::on({id})");
            match mutant.edit {
                Edit::Return => self.text.push_str(&format!(" if {on} {{ {}; }}", mutant.replacement)),
                Edit::Statement => {
                    self.text.push_str(&format!("if !{on} {{ "));
                    self.write(source, mutant.span.clone(), inside);
                    self.text.push_str(" }");
                }
                Edit::Expression => {
                    self.text.push_str(&format!("(if {on} {{ {} }} else {{ ", mutant.replacement));
                    self.write(source, mutant.span.clone(), inside);
                    self.text.push_str(" })");
                }
            }
            self.ids.push((*id, start..self.text.len()));
            at = mutant.span.end;
            rest = outside;
        }
        self.copy(source, at..range.end);
    }
}

/// Writes the chosen mutants of one file into its source.
pub(super) fn rewritten(source: &str, chosen: &[(u32, &Mutant)]) -> Rewritten {
    let mut sorted = chosen.to_vec();
    sorted.sort_by_key(|(id, mutant)| (mutant.span.start, Reverse(mutant.span.end), *id));
    let mut result = Rewritten::default();
    result.write(source, 0..source.len(), &sorted);
    result
}

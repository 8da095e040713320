//! In the solver, indices have types: no parameter or field with the name of a table's row is a bare `usize`.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use super::Violation;
use super::house::{FILE, House};

/// The folder that the rule is for.
const FOLDER: &str = "crates/core/src/scheduling/";

/// Names of rows, each with a type of its own.
const NAMES: [&str; 6] = ["class", "pool", "group", "level", "node", "claim"];

/// Checks all files: (path, text).
pub(super) fn check(files: &[(String, String)], house: &House) -> Vec<Violation> {
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for (file, text) in files.iter().filter(|(file, _)| is_covered(file)) {
        let lines = bare(text);
        if lines.is_empty() {
            continue;
        }
        counted.insert(file, lines.len());
        let listed = house.untyped_indices.get(file).copied().unwrap_or_default();
        if lines.len() > listed {
            found.extend(lines.into_iter().map(|(name, line)| {
                let message =
                    format!("`{name}: usize`: an index has a type that says of what ({listed} are listed)");
                Violation::new(format!("{file}:{line}"), message)
            }));
        }
    }
    for (file, &listed) in &house.untyped_indices {
        let count = counted.get(file.as_str()).copied().unwrap_or_default();
        if count < listed {
            let message =
                format!("{file} has {count} bare indices, {listed} are listed: the list only shrinks");
            found.push(Violation::new(FILE, message));
        }
    }
    found
}

fn is_covered(file: &str) -> bool {
    let inside = file.strip_prefix(FOLDER).filter(|_| file.ends_with(".rs"));
    inside.is_some_and(|inside| !inside.split('/').any(|part| part == "tests" || part == "tests.rs"))
}

/// Name and line of every parameter and field that is a bare index.
fn bare(text: &str) -> Vec<(String, usize)> {
    let mut indices = Indices(Vec::new());
    if let Ok(file) = syn::parse_file(text) {
        indices.visit_file(&file);
    }
    indices.0
}

struct Indices(Vec<(String, usize)>);

impl Indices {
    fn note(&mut self, name: &syn::Ident, of: &syn::Type) {
        let written = match of {
            syn::Type::Reference(reference) => &*reference.elem,
            other => other,
        };
        let bare = matches!(written, syn::Type::Path(path) if path.path.is_ident("usize"));
        if bare && NAMES.iter().any(|row| name == row) {
            self.0.push((name.to_string(), name.span().start().line));
        }
    }
}

impl<'ast> Visit<'ast> for Indices {
    /// Parameters of functions and of methods.
    fn visit_pat_type(&mut self, pattern: &'ast syn::PatType) {
        if let syn::Pat::Ident(name) = &*pattern.pat {
            self.note(&name.ident, &pattern.ty);
        }
        visit::visit_pat_type(self, pattern);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if let Some(name) = &field.ident {
            self.note(name, &field.ty);
        }
        visit::visit_field(self, field);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(text: &str, listed: usize) -> usize {
        let file = format!("{FOLDER}pass.rs");
        let untyped_indices = (listed > 0).then(|| (file.clone(), listed)).into_iter().collect();
        check(&[(file, text.to_owned())], &House { untyped_indices, ..House::default() }).len()
    }

    #[test]
    fn bare_indices_are_found() {
        for planted in [
            "fn f(class: usize) {}",
            "struct S { node: usize }",
            "enum E { A { pool: usize } }",
            "impl S { fn f(&self, claim: &usize) {} }",
            "fn f() { let g = |group: usize| group; }",
        ] {
            assert_eq!((report(planted, 0), report(planted, 1), report(planted, 2)), (1, 0, 1), "{planted}");
        }
        assert_eq!(report("fn f(class: PodClassId, count: usize, nodes: usize) {}", 0), 0);
    }

    #[test]
    fn only_the_solver_is_covered() {
        assert!(is_covered("crates/core/src/scheduling/greedy/pass.rs"));
        for other in ["crates/core/src/disruption/pass.rs", "crates/core/src/scheduling/tests/a.rs"] {
            assert!(!is_covered(other), "{other}");
        }
    }
}

//! How a file is written: it opens with its purpose, it and its functions are short, nothing is left half done.

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use super::{Violation, tokens};

/// Lines that a file may have. Split it by subject long before.
const FILE_LINES_MAX: usize = 600;
/// Lines that a function may have, from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// Words that promise to finish later, spelled apart so that this file passes its own rule.
const UNFINISHED: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!(")];

/// Checks one file; `file` is its path from the root.
pub(super) fn check(file: &str, text: &str) -> Vec<Violation> {
    let mut found = unfinished(file, text);
    if file.ends_with(".rs") {
        found.extend(without_purpose(file, text));
        found.extend(long_file(file, text));
        match long_functions(file, text) {
            Ok(long) => found.extend(long),
            Err(error) => found.push(Violation::new(file, format!("is not Rust: {error}"))),
        }
        found.extend(silenced_lints(file, text));
    }
    found
}

fn without_purpose(file: &str, text: &str) -> Option<Violation> {
    let opens = text
        .strip_prefix("//!")
        .is_some_and(|rest| rest.lines().next().is_some_and(|line| !line.trim().is_empty()));
    (!opens).then(|| Violation::new(file, "has to open with `//!` and its purpose"))
}

fn long_file(file: &str, text: &str) -> Option<Violation> {
    let lines = text.lines().count();
    (lines > FILE_LINES_MAX)
        .then(|| Violation::new(file, format!("has {lines} lines, {FILE_LINES_MAX} are the most")))
}

fn unfinished(file: &str, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words = UNFINISHED.iter().filter(|word| has_word(line, word));
        found.extend(words.map(|word| {
            Violation::new(
                format!("{file}:{number}"),
                format!("`{word}`: finish it, or leave it out and open an issue"),
            )
        }));
    }
    found
}

/// Whether `word` is a whole word in `line`.
fn has_word(line: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(start, _)| {
        let before = line.get(..start).and_then(|text| text.chars().next_back());
        let after = line.get(start + word.len()..).and_then(|text| text.chars().next());
        let closed = word.ends_with(|c| !inside(c)) || !after.is_some_and(inside);
        !before.is_some_and(inside) && closed
    })
}

fn silenced_lints(file: &str, text: &str) -> Vec<Violation> {
    let lines = tokens::attributes(text, "allow").unwrap_or_default();
    let message =
        "say `#[expect(lint, reason = \"...\")]`: it has a reason, and it goes when the lint is silent";
    lines.into_iter().map(|line| Violation::new(format!("{file}:{line}"), message)).collect()
}

fn long_functions(file: &str, text: &str) -> syn::Result<Vec<Violation>> {
    let mut functions = Functions(Vec::new());
    functions.visit_file(&syn::parse_file(text)?);
    let long = functions.0.into_iter().filter(|function| function.lines > FUNCTION_LINES_MAX);
    Ok(long
        .map(|Function { name, line, lines }| {
            let message = format!("fn {name} has {lines} lines, {FUNCTION_LINES_MAX} are the most");
            Violation::new(format!("{file}:{line}"), message)
        })
        .collect())
}

struct Function {
    name: String,
    line: usize,
    lines: usize,
}

/// Measures every function that has a body: free, in impls and in traits, nested ones on their own as well.
struct Functions(Vec<Function>);

impl Functions {
    fn measure(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let line = signature.span().start().line;
        let end = body.brace_token.span.close().end().line;
        self.0.push(Function {
            name: signature.ident.to_string(),
            line,
            lines: end.saturating_sub(line) + 1,
        });
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.measure(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.measure(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.measure(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_opens_with_its_purpose() {
        assert_eq!(without_purpose("a.rs", "//! Adds numbers.\nfn f() {}"), None);
        for text in ["fn f() {}", "", "//!\nfn f() {}", "// Adds numbers.", "\n//! Adds numbers."] {
            assert!(without_purpose("a.rs", text).is_some(), "{text:?}");
        }
    }

    #[test]
    fn files_and_functions_are_short() {
        let file = |lines: usize| "//! Long.\n".to_owned() + &"// x\n".repeat(lines - 1);
        assert_eq!(long_file("a.rs", &file(600)), None);
        assert!(long_file("a.rs", &file(601)).is_some());

        let body = |lines: usize| format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2));
        let wrap = |around: &str, lines: usize| around.replace("BODY", &body(lines));
        for around in ["BODY", "impl S { BODY }", "trait T { BODY }", "mod m { BODY }", "#[test]\nBODY"] {
            assert_eq!(long_functions("a.rs", &wrap(around, 70)).unwrap(), [], "{around}");
            assert!(!long_functions("a.rs", &wrap(around, 71)).unwrap().is_empty(), "{around}");
        }
        let documented = "/// Words.\n".repeat(80) + &body(60);
        assert_eq!(long_functions("a.rs", &documented).unwrap(), [], "comments above do not count");
        assert!(!check("a.rs", "//! No Rust.\nfn fn {").is_empty());
    }

    #[test]
    fn lints_are_expected_not_silenced() {
        let lint = "dead_code";
        for planted in [
            format!("#[allow({lint})] fn f() {{}}"),
            format!("#![allow({lint})]"),
            format!("#[cfg_attr(test, allow({lint}))] fn f() {{}}"),
            format!("macro_rules! m {{ () => {{ #[allow({lint})] fn f() {{}} }} }}"),
        ] {
            assert_eq!(silenced_lints("a.rs", &planted).len(), 1, "{planted}");
        }
        let fine = "//! Never `#[allow(x)]`.\n#[expect(dead_code, reason = \"r\")] fn allow() { let x = [allow(1)]; }";
        assert_eq!(silenced_lints("a.rs", fine), []);
    }

    #[test]
    fn nothing_is_left_for_later() {
        let [later, broken, hole] = UNFINISHED;
        for line in [format!("// {later}: more"), format!("# {broken}"), format!("fn f() {{ {hole}) }}")] {
            assert_eq!(unfinished("a.rs", &line).len(), 1, "{line}");
        }
        assert_eq!(unfinished("a.rs", &format!("let x = MY_{later}S; // a {}", later.to_lowercase())), []);
    }
}

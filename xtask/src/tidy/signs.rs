//! No text writes the sign of a currency: prices are in what the cloud says, and `Currency` of `core` writes it.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::Violation;

/// Files whose texts are those of others: path and reason.
const EXCEPTIONS: &[(&str, &str)] = &[("crates/controllers/src/log.rs", "Karpenter's own message")];

/// What follows the sign where it stands for a currency, beside digits: placeholders and units.
const AFTER: [&str; 5] = ["{}", "{:", "/h", "/month", " spent"];

/// Checks one file; `file` is its path from the root. Tests say what they expect.
pub(super) fn check(file: &str, text: &str) -> Vec<Violation> {
    let is_ours = file.starts_with("crates/") && file.contains("/src/") && file.ends_with(".rs");
    let is_test = file.contains("/tests/") || file.ends_with("/tests.rs");
    if !is_ours || is_test || EXCEPTIONS.iter().any(|(path, _)| *path == file) {
        return Vec::new();
    }
    let Ok(parsed) = syn::parse_file(text) else { return Vec::new() };
    let mut texts = Texts(Vec::new());
    texts.visit_file(&parsed);
    let signs = texts.0.into_iter().filter(|(text, _)| has_sign(text));
    let message = "`$` before an amount: prices are in the currency of the cloud, which `Currency` writes";
    signs.map(|(_, line)| Violation::new(format!("{file}:{line}"), message)).collect()
}

/// Whether a text has the sign before an amount, a placeholder or a unit. Variables of templates have capitals or dots.
fn has_sign(text: &str) -> bool {
    text.match_indices('$').any(|(at, sign)| {
        let rest = text[at + sign.len()..].to_ascii_lowercase();
        let name = text[at + sign.len()..].strip_prefix('{').and_then(|rest| rest.split(['}', ':']).next());
        let is_argument = name.is_some_and(|name| {
            !name.is_empty() && name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')
        });
        is_argument
            || rest.starts_with(|letter: char| letter.is_ascii_digit())
            || AFTER.iter().any(|after| rest.starts_with(after))
    })
}

/// The string literals outside tests and documentation, with their lines.
struct Texts(Vec<(String, usize)>);

impl Texts {
    fn of(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.of(group.stream()),
                TokenTree::Literal(literal) => {
                    self.0.push((literal.to_string(), literal.span().start().line));
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Texts {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let is_test = |attribute: &syn::Attribute| match &attribute.meta {
            syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string().contains("test"),
            _ => false,
        };
        if !item.attrs.iter().any(is_test) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        self.0.push((literal.value(), literal.span().start().line));
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.of(called.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.of(list.tokens.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_before_amounts_are_found() {
        for planted in [
            "fn f(x: u8) -> String { format!(\"${x}/h\") }",
            "fn f(x: u8) -> String { format!(\"at ${:.4}\", x) }",
            "fn f(x: u8) -> String { format!(\"at ${} per hour\", x) }",
            "#[derive(Error)] enum E { #[error(\"saves ${savings}\")] A }",
            "const TITLE: &str = \"SAVES $/H\";",
            "const PRICE: &str = \"about $5\";",
        ] {
            assert_eq!(check("crates/core/src/a.rs", planted).len(), 1, "{planted}");
            for elsewhere in ["crates/core/src/a/tests.rs", "crates/core/examples/a.rs", "xtask/src/a.rs"] {
                assert!(check(elsewhere, planted).is_empty(), "{elsewhere}");
            }
        }
    }

    #[test]
    fn other_signs_are_allowed() {
        for allowed in [
            "/// `$5`\nfn f() {}",
            "const SIGN: &str = \"$\";",
            "const PATTERN: &str = \"^[0-9]+$\";",
            "const VARIABLE: &str = \"${CLUSTER_NAME} ${path.module}\";",
            "fn f(x: u8, width: usize) -> String { format!(\"{x:>width$}\") }",
            "#[cfg(test)]\nmod tests { const EXPECTED: &str = \"$5\"; }",
        ] {
            assert_eq!(check("crates/core/src/a.rs", allowed), Vec::new(), "{allowed}");
        }
    }
}

//! Tokens of a source file: without comments, with the contents of macros.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// A path as it is written, with `use` trees spelled out: `use std::{env, fmt}` gives `std::env` and `std::fmt`.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) segments: Vec<String>,
    pub(super) line: usize,
}

/// Every path that `text` mentions.
pub(super) fn paths(text: &str) -> syn::Result<Vec<Path>> {
    let mut uses = Uses(Vec::new());
    uses.visit_file(&syn::parse_file(text)?);
    let mut found = uses.0;
    written(stream(text)?, &mut found);
    Ok(found)
}

/// Every path in tokens that nothing has parsed, such as the arguments of a macro.
pub(super) fn in_stream(tokens: TokenStream) -> Vec<Path> {
    let mut found = Vec::new();
    written(tokens, &mut found);
    found
}

/// The lines of attributes called `name` (`#[name(..)]`, `#![name(..)]`, or within a `cfg_attr`).
pub(super) fn attributes(text: &str, name: &str) -> syn::Result<Vec<usize>> {
    let mut lines = Vec::new();
    attributes_in(stream(text)?, name, &mut lines);
    Ok(lines)
}

fn stream(text: &str) -> syn::Result<TokenStream> {
    Ok(text.parse::<TokenStream>()?)
}

/// Collects runs of `ident :: ident`, in groups too.
fn written(tokens: TokenStream, found: &mut Vec<Path>) {
    let mut path: Option<Path> = None;
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            TokenTree::Ident(ident) => {
                let continued = path.take_if(|_| colons == 2);
                found.extend(path.take());
                path = Some(extend(continued, &ident));
                colons = 0;
            }
            other => {
                found.extend(path.take());
                colons = 0;
                if let TokenTree::Group(group) = other {
                    written(group.stream(), found);
                }
            }
        }
    }
    found.extend(path);
}

fn extend(path: Option<Path>, ident: &Ident) -> Path {
    let mut path = path.unwrap_or_else(|| Path { segments: Vec::new(), line: ident.span().start().line });
    path.segments.push(ident.to_string());
    path
}

fn attributes_in(tokens: TokenStream, name: &str, lines: &mut Vec<usize>) {
    let mut after_hash = false;
    for token in tokens {
        let hash =
            matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#' || punct.as_char() == '!');
        if let TokenTree::Group(group) = &token {
            if after_hash && group.delimiter() == Delimiter::Bracket && is_called(group.stream(), name) {
                lines.push(group.span_open().start().line);
            }
            attributes_in(group.stream(), name, lines);
        }
        after_hash = hash;
    }
}

fn is_called(attribute: TokenStream, name: &str) -> bool {
    let mut tokens = attribute.into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Ident(ident)), _) if ident == name => true,
        (Some(TokenTree::Ident(ident)), Some(TokenTree::Group(group))) if ident == "cfg_attr" => {
            group.stream().into_iter().any(|token| matches!(token, TokenTree::Ident(inner) if inner == name))
        }
        _ => false,
    }
}

/// Spells out `use` trees.
struct Uses(Vec<Path>);

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        spell(&item.tree, &mut Vec::new(), &mut self.0);
        visit::visit_item_use(self, item);
    }
}

fn spell(tree: &syn::UseTree, prefix: &mut Vec<String>, found: &mut Vec<Path>) {
    let leaf = |ident: &Ident, prefix: &[String]| {
        let segments = prefix.iter().cloned().chain([ident.to_string()]).collect();
        Path { segments, line: ident.span().start().line }
    };
    match tree {
        syn::UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            spell(&path.tree, prefix, found);
            prefix.pop();
        }
        syn::UseTree::Name(name) => found.push(leaf(&name.ident, prefix)),
        syn::UseTree::Rename(rename) => found.push(leaf(&rename.ident, prefix)),
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| spell(tree, prefix, found)),
        syn::UseTree::Glob(glob) => {
            let line = glob.star_token.spans.first().map_or(0, |span| span.start().line);
            found.push(Path { segments: prefix.clone(), line });
        }
    }
}

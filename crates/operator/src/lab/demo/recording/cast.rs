//! asciicast version 2: a header, and a line for each frame with the rows that have changed.
//! The format: <https://docs.asciinema.org/manual/asciicast/v2/>.

use std::fmt::Write as _;

use ratatui_core::style::{Color, Modifier, Style};
use serde_json::json;

use super::Frame;
use crate::top::draw::Styled;

/// The file.
pub(super) fn text(frames: &[Frame], (width, height): (u16, u16)) -> String {
    let mut text =
        json!({"version": 2, "width": width, "height": height, "title": "fleetwright demo"}).to_string();
    text.push('\n');
    let mut shown: &[Vec<Styled>] = &[];
    for frame in frames {
        let mut output = if shown.is_empty() { "\x1b[?25l\x1b[2J".to_owned() } else { String::new() };
        for (number, row) in frame.rows.iter().enumerate() {
            if shown.get(number) != Some(row) {
                output.push_str(&printed(number, row));
            }
        }
        // A number and two texts are always JSON.
        let _ = writeln!(text, "{}", json!([frame.at.as_secs_f64(), "o", output]));
        shown = &frame.rows;
    }
    text
}

/// Control sequences that print a row, counted from zero.
fn printed(number: usize, row: &[Styled]) -> String {
    let mut all = format!("\x1b[{};1H", number + 1);
    for part in row {
        all.push_str(&format!("\x1b[0{}m{}", codes(part.style), part.text));
    }
    all + "\x1b[0m\x1b[K"
}

/// The codes of a style (ECMA-48, "select graphic rendition"), each after a semicolon.
fn codes(style: Style) -> String {
    let modifiers = [(Modifier::BOLD, ";1"), (Modifier::DIM, ";2"), (Modifier::REVERSED, ";7")];
    let has = |(modifier, _): &&(Modifier, &str)| style.add_modifier.contains(*modifier);
    let mut all: String = modifiers.iter().filter(has).map(|(_, code)| *code).collect();
    all.push_str(match style.fg {
        Some(Color::Red) => ";31",
        Some(Color::Green) => ";32",
        Some(Color::Yellow) => ";33",
        Some(Color::Cyan) => ";36",
        _ => "",
    });
    all
}

#[cfg(test)]
mod tests {
    //! Header, times and changed rows.
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_frame_prints_what_has_changed() {
        let part = |text: &str, style: Style| vec![Styled { text: text.to_owned(), style }];
        let bold = Style::new().add_modifier(Modifier::BOLD).fg(Color::Cyan);
        let first = Frame { at: Duration::ZERO, rows: vec![part("a", Style::new()), part("b", bold)] };
        let second =
            Frame { at: Duration::from_millis(1500), rows: vec![part("a", Style::new()), Vec::new()] };
        let text = text(&[first, second], (80, 2));
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["width"], 80);
        let start = "\x1b[?25l\x1b[2J\x1b[1;1H\x1b[0ma\x1b[0m\x1b[K\x1b[2;1H\x1b[0;1;36mb\x1b[0m\x1b[K";
        assert_eq!(lines[1], json!([0.0, "o", start]));
        assert_eq!(lines[2], json!([1.5, "o", "\x1b[2;1H\x1b[0m\x1b[K"]));
    }
}

//! Primitives of the view: text, bars and sparklines on a buffer.

use ratatui_core::{
    buffer::Buffer,
    layout::Rect,
    style::{Color, Modifier, Style},
};

/// Characters of a sparkline, from the lowest to the highest.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The styles of the view. Without colors, weight and inversion remain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    /// Whether colors are used.
    pub(super) color: bool,
}

impl Theme {
    fn colored(self, color: Color) -> Style {
        if self.color { Style::new().fg(color) } else { Style::new() }
    }

    /// Titles.
    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// What matters least.
    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// The selected row.
    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// All is well.
    pub(super) fn good(self) -> Style {
        self.colored(Color::Green)
    }

    /// On the way, or nearly full.
    pub(super) fn notice(self) -> Style {
        self.colored(Color::Yellow)
    }

    /// Errors, and what is being removed.
    pub(super) fn bad(self) -> Style {
        self.colored(Color::Red)
    }

    /// Money.
    pub(super) fn accent(self) -> Style {
        self.colored(Color::Cyan)
    }
}

/// Text with a style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Styled {
    pub(crate) text: String,
    pub(crate) style: Style,
}

/// Text in the default style.
pub(super) fn plain(text: impl Into<String>) -> Styled {
    Styled { text: text.into(), style: Style::new() }
}

/// Text in a style.
pub(super) fn styled(text: impl Into<String>, style: Style) -> Styled {
    Styled { text: text.into(), style }
}

/// Writes parts from the left edge of a row, as far as they fit.
pub(super) fn line(buffer: &mut Buffer, row: Rect, parts: &[Styled]) {
    let mut x = row.x;
    for part in parts {
        let left = row.right().saturating_sub(x);
        (x, _) = buffer.set_stringn(x, row.y, &part.text, usize::from(left), part.style);
    }
}

/// Text of at most `width` characters; longer text ends in an ellipsis.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        short.push('…');
    }
    short
}

/// How wide the percentage behind a bar is.
const PERCENT: usize = 4;

/// `██████░░░░ 61%`: a bar, and the share in percent, as wide as given in columns of the terminal.
pub(super) fn bar(share: f64, width: usize) -> String {
    let cells = width.saturating_sub(PERCENT);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share between 0 and 1, in cells of a terminal"
    )]
    let full = (share.clamp(0.0, 1.0) * cells as f64).round() as usize;
    let percent = format!("{:.0}%", (share.clamp(0.0, 9.99) * 100.0).round());
    format!("{}{}{percent:>PERCENT$}", "█".repeat(full), "░".repeat(cells.saturating_sub(full)))
}

/// The last values that fit, scaled to their largest.
pub(super) fn sparkline(values: &[f64], width: usize) -> String {
    let shown = &values[values.len().saturating_sub(width)..];
    let most = shown.iter().copied().fold(0.0, f64::max);
    let level = |value: &f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 7")]
        let place = if most > 0.0 { (value / most * 7.0).round().clamp(0.0, 7.0) as usize } else { 0 };
        LEVELS.get(place).copied().unwrap_or(' ')
    };
    shown.iter().map(level).collect()
}

/// A frame with a title, cleared inside. Returns the area within.
pub(super) fn boxed(buffer: &mut Buffer, area: Rect, title: &str, theme: Theme) -> Rect {
    if area.width < 4 || area.height < 3 {
        return Rect { width: 0, height: 0, ..area };
    }
    let across = usize::from(area.width - 2);
    let (top, bottom) = (area.y, area.bottom() - 1);
    for y in top..area.bottom() {
        buffer.set_string(area.x, y, " ".repeat(across + 2), Style::reset());
    }
    buffer.set_string(area.x, top, format!("┌{}┐", "─".repeat(across)), Style::new());
    for y in top + 1..bottom {
        buffer.set_string(area.x, y, "│", Style::new());
        buffer.set_string(area.right() - 1, y, "│", Style::new());
    }
    buffer.set_string(area.x, bottom, format!("└{}┘", "─".repeat(across)), Style::new());
    buffer.set_stringn(area.x + 2, top, format!(" {title} "), across.saturating_sub(2), theme.strong());
    Rect { x: area.x + 1, y: top + 1, width: area.width - 2, height: area.height - 2 }
}

/// A buffer as text: a line per row, without spaces at the ends of lines.
pub(super) fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let mut all = String::new();
    for cells in buffer.content.chunks(width) {
        let row: String = cells.iter().map(|cell| cell.symbol()).collect();
        all.push_str(row.trim_end());
        all.push('\n');
    }
    all
}

/// A buffer as rows of text with styles, without spaces at the ends of rows.
#[cfg(feature = "lab")]
pub(super) fn rows(buffer: &Buffer) -> Vec<Vec<Styled>> {
    let width = usize::from(buffer.area.width).max(1);
    let row = |cells: &[ratatui_core::buffer::Cell]| {
        let mut parts: Vec<Styled> = Vec::new();
        for cell in cells {
            match parts.last_mut() {
                Some(last) if last.style == cell.style() => last.text.push_str(cell.symbol()),
                _ => parts.push(styled(cell.symbol(), cell.style())),
            }
        }
        let is_blank = |part: &Styled| {
            part.text.trim().is_empty() && !part.style.add_modifier.contains(Modifier::REVERSED)
        };
        while parts.last().is_some_and(is_blank) {
            parts.pop();
        }
        parts
    };
    buffer.content.chunks(width).map(row).collect()
}

#[cfg(test)]
mod tests {
    //! Bars, sparklines and cut text.
    use super::*;

    #[test]
    fn bars_and_lines() {
        for (share, expected) in
            [(0.0, "░░░░  0%"), (0.5, "██░░ 50%"), (1.0, "████100%"), (1.25, "████125%"), (-1.0, "░░░░  0%")]
        {
            assert_eq!(bar(share, 8), expected);
        }
        assert_eq!(sparkline(&[9.0, 0.0, 0.5, 1.0], 3), "▁▅█");
        assert_eq!((sparkline(&[0.0], 3), sparkline(&[], 3)), ("▁".to_owned(), String::new()));
        assert_eq!(["abc", "abcd", ""].map(|text| cut(text, 3)), ["abc", "ab…", ""]);
    }
}

//! The output of the demo while it runs: on a terminal a view that is redrawn in place, otherwise plain lines.
//!
//! It uses no alternate screen and no raw mode, so there is nothing to restore if the process is killed.

use std::{fmt::Write as _, io::Write as _, time::Duration};

use crossterm::{
    cursor::MoveUp,
    queue,
    style::Stylize as _,
    terminal::{Clear, ClearType},
};
use fleetwright_sim::overview::{NodeOverview, NodePhase};

use super::session::{Session, hourly, on_their_way};
use crate::figures;

/// Maximum number of listed nodes.
const NODES_SHOWN: usize = 40;
/// Rows for the header, the line that counts the rest, a blank line and the prompt.
const RESERVED_ROWS: usize = 5;
/// Narrower terminals wrap.
const MIN_COLUMNS: usize = 40;
/// Terminals wider than this show zones.
const WIDE: usize = 92;

/// The view.
pub(super) struct DemoView {
    terminal: bool,
    drawn: u16,
}

impl DemoView {
    /// A view for a terminal or a file.
    pub(super) fn new(terminal: bool) -> Self {
        Self { terminal, drawn: 0 }
    }

    /// Prints changes and, on a terminal, the current state.
    pub(super) fn show(&mut self, session: &Session, news: &[String]) {
        let mut out = anstream::stdout().lock();
        let mut text = String::new();
        for line in news {
            let _ = writeln!(text, "{}  {line}", stamp(session.elapsed));
        }
        if self.terminal {
            let picture = picture(session);
            if self.drawn > 0 {
                let _ = queue!(out, MoveUp(self.drawn), Clear(ClearType::FromCursorDown));
            }
            self.drawn = u16::try_from(picture.lines().count()).unwrap_or(0);
            text.push_str(&picture);
        }
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Ends the view; the last state remains visible.
    pub(super) fn finish(&mut self) {
        self.drawn = 0;
    }
}

/// `12:05`: minutes and seconds of virtual time.
fn stamp(elapsed: Duration) -> String {
    format!("{:>3}:{:02}", elapsed.as_secs() / 60, elapsed.as_secs() % 60)
}

/// The state as lines that fit the terminal.
fn picture(session: &Session) -> String {
    let (columns, rows) = crossterm::terminal::size().unwrap_or((100, 30));
    lines(session, usize::from(columns).max(MIN_COLUMNS), usize::from(rows))
        .into_iter()
        .map(|line| line + "\n")
        .collect()
}

fn lines(session: &Session, columns: usize, rows: usize) -> Vec<String> {
    let now = &session.now;
    let mut head = format!(
        "{}  {}  ${:.4}/h (peak ${:.4}/h)",
        stamp(session.elapsed).trim_start(),
        figures::count(now.nodes.len(), "node"),
        hourly(now),
        hourly(&session.peak)
    );
    for (count, what) in [(on_their_way(now), "launching"), (now.pods.pending, "pending")] {
        if count > 0 {
            head += &format!("  {count} {what}");
        }
    }
    // The state of pods comes last, and is cut off first.
    head += &format!("  {} running", figures::count(now.pods.running, "pod"));
    let room = rows.saturating_sub(RESERVED_ROWS).clamp(1, NODES_SHOWN);
    let mut lines = vec![String::new(), cut(&head, columns)];
    lines.extend(now.nodes.iter().take(room).map(|node| row(node, columns)));
    if now.nodes.len() > room {
        lines.push(cut(&format!("  and {} more", now.nodes.len() - room), columns));
    }
    lines
}

/// A line that wraps would break redrawing.
fn cut(line: &str, columns: usize) -> String {
    line.chars().take(columns.saturating_sub(1)).collect()
}

fn row(node: &NodeOverview, columns: usize) -> String {
    let length: i64 = if columns > WIDE { 10 } else { 8 };
    let share = |used: i64, of: i64| {
        if of > 0 { (used.max(0).saturating_mul(length) / of).min(length) } else { 0 }
    };
    let bar =
        |used, of| -> String { (0..length).map(|at| if at < share(used, of) { '#' } else { '.' }).collect() };
    let (have, want) = (&node.allocatable, &node.requested);
    let (cpu, memory) = (bar(want.cpu(), have.cpu()), bar(want.memory(), have.memory()));
    // 78 characters with the longest state; the zone is the first that is left out.
    let zone = if columns > WIDE { format!("{:<11} ", node.zone) } else { String::new() };
    let plain = format!(
        "  {:<13} {zone}{:<9} ${:>7.4} cpu {cpu} mem {memory} {:>3} pods ",
        node.instance_type, node.capacity_type, node.price, node.pods,
    );
    let (word, color): (&str, fn(&str) -> crossterm::style::StyledContent<&str>) = match node.phase {
        NodePhase::Starting => ("starting", |word| word.yellow()),
        NodePhase::Ready => ("ready", |word| word.green()),
        NodePhase::Disrupted => ("disrupted", |word| word.magenta()),
        NodePhase::Draining => ("draining", |word| word.red()),
    };
    let plain = cut(&plain, columns);
    let left = columns.saturating_sub(1).saturating_sub(plain.chars().count());
    let word: String = word.chars().take(left).collect();
    // The output stream removes colors where they are not wanted.
    format!("{plain}{}", color(&word))
}

#[cfg(test)]
mod tests {
    //! Lines fit the terminal, in width and number.
    use fleetwright_core::model::{Price, Resources};

    use super::*;

    fn node(at: usize) -> NodeOverview {
        NodeOverview {
            name: format!("ip-10-0-0-{at}"),
            instance_type: "c7i-flex.12xl".to_owned(),
            zone: "us-fake-1a".to_owned(),
            capacity_type: "on-demand".to_owned(),
            price: Price::from_nanos(12_345_600_000),
            phase: NodePhase::Disrupted,
            allocatable: Resources::of(48_000, 96 << 30),
            requested: Resources::of(24_000, 96 << 30),
            pods: 110,
            ..NodeOverview::default()
        }
    }

    fn width(line: &str) -> usize {
        anstream::adapter::strip_str(line).to_string().chars().count()
    }

    #[test]
    fn eighty_columns_have_the_state_and_wide_terminals_the_zone() {
        let narrow = row(&node(1), 80);
        assert!(width(&narrow) <= 79 && narrow.contains("disrupt"), "{narrow:?}");
        assert!(narrow.contains('\u{1b}'), "colors: {narrow:?}");
        assert!(row(&node(1), 120).contains("us-fake-1a"));
        assert!(width(&row(&node(1), 40)) <= 39);
    }
}

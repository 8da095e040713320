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

use super::session::Session;

/// Maximum number of listed nodes.
const NODES_SHOWN: usize = 16;

/// The view.
pub(super) struct View {
    terminal: bool,
    drawn: u16,
}

impl View {
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

fn picture(session: &Session) -> String {
    let now = &session.now;
    let width = crossterm::terminal::size().map_or(100, |(columns, _)| usize::from(columns)).max(40);
    let mut lines = vec![
        String::new(),
        format!(
            "{}  {} nodes  ${:.4}/h (peak ${:.4}/h)  pods: {} running, {} starting, {} pending",
            stamp(session.elapsed),
            now.nodes.len(),
            now.hourly,
            session.peak.hourly,
            now.pods.running,
            now.pods.starting,
            now.pods.pending,
        ),
    ];
    lines.extend(now.nodes.iter().take(NODES_SHOWN).map(row));
    if now.nodes.len() > NODES_SHOWN {
        lines.push(format!("  and {} more", now.nodes.len() - NODES_SHOWN));
    }
    lines.into_iter().fold(String::new(), |mut text, line| {
        // A line that wraps would break redrawing.
        text.extend(line.chars().take(width.saturating_sub(1)));
        text.push('\n');
        text
    })
}

fn row(node: &NodeOverview) -> String {
    let share = |used: i64, of: i64| if of > 0 { (used.max(0).saturating_mul(10) / of).min(10) } else { 0 };
    let bar =
        |used, of| -> String { (0..10).map(|at| if at < share(used, of) { '#' } else { '.' }).collect() };
    let phase = match node.phase {
        NodePhase::Starting => "starting".yellow(),
        NodePhase::Ready => "ready".green(),
        NodePhase::Disrupted => "to go".magenta(),
        NodePhase::Draining => "draining".red(),
    };
    let (have, want) = (&node.allocatable, &node.requested);
    format!(
        "  {:<14} {:<10} {:<10} ${:>8.4}  cpu {} mem {}  {:>3} pods  {}",
        node.instance_type,
        node.zone,
        node.capacity_type,
        node.price,
        bar(want.cpu(), have.cpu()),
        bar(want.memory(), have.memory()),
        node.pods,
        phase.content(),
    )
}

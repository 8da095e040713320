//! `fleetwright top`: the fleet in the terminal. Reads only, and works on any cluster with Karpenter's resources.
//!
//! - [`source`]: reads fleets and explanations.
//! - [`app`]: the state of the view, which keys change.
//! - [`live`]: the loop of the interactive view; [`screen`]: the terminal.
//! - [`frame`]: header, panes and popups on a buffer; [`panes`]: their columns; [`table`]: visible rows; [`draw`]: primitives.

mod app;
pub(crate) mod draw;
mod frame;
mod live;
mod panes;
pub(crate) mod screen;
mod source;
mod table;
#[cfg(test)]
mod tests;

use std::io::Write as _;

use ratatui_core::{buffer::Buffer, layout::Rect};
use serde_json::Value;

pub(crate) use self::app::{TopAction, TopApp};
#[cfg(feature = "lab")]
pub(crate) use self::source::Explainer;
use self::source::TopSource;
pub(crate) use crate::explain::Subject;
use crate::{
    catalogue::Catalogues,
    cli::{TableOrJson, TopOptions},
    fleet::{FleetReport, order::NodeFilter},
    outcome::Outcome,
    plan::show_notes,
    settings::Values,
};

/// The frame of `--once` where standard output is no terminal.
const FRAME: (u16, u16) = (120, 40);

/// Shows the fleet until a key or a signal ends it; or prints it once.
///
/// # Errors
/// If the input is invalid, the cluster cannot be read at first, or there is no terminal.
pub(crate) fn run(options: &TopOptions, catalogues: &Catalogues, values: &Values) -> anyhow::Result<Outcome> {
    let source = TopSource::new(options, catalogues, values)?;
    if options.output == TableOrJson::Json || options.once {
        return once(&source, options);
    }
    live::run(source, options)
}

fn once(source: &TopSource, options: &TopOptions) -> anyhow::Result<Outcome> {
    let report = source.read()?;
    show_notes(&report.notes, &report.incomplete)?;
    let outcome = Outcome::of(&report.incomplete);
    let text = match options.output {
        TableOrJson::Json => serde_json::to_string_pretty(&report)? + "\n",
        TableOrJson::Table => {
            let terminal = || terminal_size::terminal_size().map(|(columns, rows)| (columns.0, rows.0));
            let size = options.size.or_else(terminal).unwrap_or(FRAME);
            framed(view(options, report, source.decisions(), false), size)
        }
    };
    anstream::stdout().lock().write_all(text.as_bytes())?;
    Ok(outcome)
}

/// The view of the options on a fleet.
fn view(
    options: &TopOptions,
    report: FleetReport,
    decisions: Result<Vec<Value>, String>,
    color: bool,
) -> TopApp {
    let empty = FleetReport { nodes: Vec::new(), ..report.clone() };
    let mut app = TopApp::new(TopSource::name(options), color, empty);
    app.sort_by(options.sort);
    app.filter_by(NodeFilter {
        text: options.filter.clone().unwrap_or_default(),
        node_pool: options.nodepool.clone(),
    });
    app.update(report);
    app.update_decisions(decisions);
    app
}

/// One frame as text.
fn framed(app: TopApp, size: (u16, u16)) -> String {
    draw::text(&painted(&app, size))
}

/// One frame as rows of text with styles. `size` is columns and rows.
#[cfg(feature = "lab")]
pub(crate) fn rows(app: &TopApp, size: (u16, u16)) -> Vec<Vec<draw::Styled>> {
    draw::rows(&painted(app, size))
}

fn painted(app: &TopApp, (columns, rows): (u16, u16)) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    frame::draw(app, &mut buffer);
    buffer
}

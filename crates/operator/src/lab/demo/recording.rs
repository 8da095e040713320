//! `demo --record FILE`: what the view of a terminal would show, step by step, in virtual time. The same seed gives the same file.

mod cast;
mod picture;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use fleetwright_core::decisions::DecisionRecord;
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent};

use crate::{
    fleet::FleetReport,
    top::{TopApp, draw::Styled, rows},
};

/// Columns and rows of the recorded terminal.
const SIZE: (u16, u16) = (104, 32);

/// The key that shows the changes below the nodes.
const CHANGES: KeyCode = KeyCode::Char('5');

/// How recordings are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordingFormat {
    /// asciicast version 2, which `asciinema play` plays.
    Cast,
    /// A picture that moves.
    Picture,
}

/// One frame, a list of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Frame {
    /// Since the start, as it is played.
    at: Duration,
    rows: Vec<Vec<Styled>>,
}

/// The frames so far.
pub(super) struct DemoRecording {
    path: PathBuf,
    format: RecordingFormat,
    /// How much faster than virtual time it is played.
    speed: f64,
    app: Option<TopApp>,
    frames: Vec<Frame>,
}

impl DemoRecording {
    /// A recording for a file, whose name chooses the format.
    ///
    /// # Errors
    /// If the name ends in neither `.cast` nor `.svg`.
    pub(super) fn new(path: &Path, speed: f64) -> anyhow::Result<Self> {
        let format = match path.extension().and_then(|extension| extension.to_str()) {
            Some("cast") => RecordingFormat::Cast,
            Some("svg") => RecordingFormat::Picture,
            _ => bail!("--record {}: the name must end in .cast or .svg", path.display()),
        };
        Ok(Self { path: path.to_owned(), format, speed, app: None, frames: Vec::new() })
    }

    /// Records the fleet after a step, with its decisions and changes.
    pub(super) fn add(
        &mut self,
        elapsed: Duration,
        report: FleetReport,
        records: &[Arc<DecisionRecord>],
        news: Vec<String>,
    ) {
        let app = self.app.get_or_insert_with(|| {
            let mut app = TopApp::new("demo", true, report.clone());
            app.update(report.clone());
            app.press(KeyEvent::from(CHANGES));
            app
        });
        app.update_with(report, news);
        app.update_records(records);
        let frame = Frame { at: elapsed.div_f64(self.speed), rows: rows(app, SIZE) };
        if self.frames.last().is_none_or(|last| last.rows != frame.rows) {
            self.frames.push(frame);
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn write(&self) -> anyhow::Result<()> {
        let text = match self.format {
            RecordingFormat::Cast => cast::text(&self.frames, SIZE),
            RecordingFormat::Picture => picture::text(&self.frames, SIZE),
        };
        fs::write(&self.path, text).with_context(|| format!("--record {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    //! Formats, and the first seconds of a demo.
    use clap::Parser as _;
    use fleetwright_sim::simulator::virtual_runtime;

    use super::{super::play, *};
    use crate::cli::Demo;

    #[derive(clap::Parser)]
    struct Options {
        #[command(flatten)]
        demo: Demo,
    }

    #[test]
    fn a_recording_has_a_format() {
        for (name, expected) in [("a.cast", true), ("a.svg", true), ("a.gif", false), ("cast", false)] {
            assert_eq!(DemoRecording::new(Path::new(name), 1.0).is_ok(), expected, "{name}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_recording() {
        let options = Options::parse_from(["demo", "--for", "20s"]).demo;
        let manifests = super::super::manifests(&[]).unwrap();
        let record = || {
            let mut recording = DemoRecording::new(Path::new("a.cast"), 10.0).unwrap();
            let played = play(&options, &manifests, None, Some(&mut recording));
            virtual_runtime().unwrap().block_on(played).unwrap();
            recording.frames
        };
        let first = record();
        assert_eq!(first, record());
        assert!(first.len() > 2, "{} frames", first.len());
        assert_eq!(first.last().unwrap().at, Duration::from_secs(2));
        let text = cast::text(&first, SIZE);
        assert!(text.contains("pods pending") && text.contains("spot"), "{text}");
    }
}

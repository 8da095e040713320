//! The terminal: taken in raw mode on the alternate screen, and given back whatever ends the program.
//!
//! 1. [`Screen::new`] installs a panic hook that restores the terminal, then takes it.
//! 2. Dropping it restores the terminal: at the end, at an error, at a signal, for which the loop ends.
//! 3. A process that is killed restores nothing; `reset` does.

use std::{
    io, panic,
    sync::{
        Once,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use ratatui_core::terminal::Terminal;
use ratatui_crossterm::{
    CrosstermBackend,
    crossterm::{
        cursor::Show,
        event::{self, Event, KeyEvent, KeyEventKind},
        execute, style,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
};

use super::{app::TopApp, frame};

static PANIC_HOOK: Once = Once::new();

/// Keys that wait at most; further ones wait in the terminal.
const KEYS: usize = 64;

/// The terminal, while the view has it.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<io::Stdout>>,
    events: Receiver<io::Result<ScreenEvent>>,
}

/// Whether standard output has colors.
pub(crate) fn has_color() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// If standard output is none.
    pub(crate) fn new() -> io::Result<Self> {
        PANIC_HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                restore();
                before(info);
            }));
        });
        // The choice of the command line counts, which has read NO_COLOR itself.
        style::force_color_output(has_color());
        enable_raw_mode()?;
        let taken = execute!(io::stdout(), EnterAlternateScreen)
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match taken {
            Ok(terminal) => Ok(Self { terminal, events: events() }),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }

    /// Draws the view.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub(crate) fn draw(&mut self, app: &TopApp) -> io::Result<()> {
        self.terminal.draw(|drawn| {
            frame::draw(app, drawn.buffer_mut());
        })?;
        Ok(())
    }

    /// The next event within `time`.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub(crate) fn event(&self, time: Duration) -> io::Result<Option<ScreenEvent>> {
        match self.events.recv_timeout(time) {
            Ok(event) => event.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// What happens at the terminal, read by a thread of its own: once the terminal is gone, the library that reads never returns, and a
/// loop that waited for it would not see the signal that says so. The thread ends with the process.
fn events() -> Receiver<io::Result<ScreenEvent>> {
    let (sender, receiver) = mpsc::sync_channel(KEYS);
    thread::spawn(move || {
        loop {
            let event = match event::read() {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Ok(ScreenEvent::Key(key)),
                Ok(Event::Resize(..)) => Ok(ScreenEvent::Resize),
                Ok(_) => continue,
                Err(error) => Err(error),
            };
            let failed = event.is_err();
            if sender.send(event).is_err() || failed {
                return;
            }
        }
    });
    receiver
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// What happens at the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScreenEvent {
    /// A key was pressed.
    Key(KeyEvent),
    /// The size has changed.
    Resize,
}

/// Gives the terminal back. Errors leave nothing that could be done: the terminal is gone.
fn restore() {
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

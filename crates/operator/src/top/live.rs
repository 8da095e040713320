//! The loop of the interactive view: one thread reads and explains, this one draws and takes keys.

use std::{
    io::IsTerminal as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};

use anyhow::ensure;
use serde_json::Value;

use super::{
    Subject, TopAction, TopApp,
    screen::{Screen, ScreenEvent},
    source::TopSource,
    view,
};
use crate::{cli::TopOptions, fleet::FleetReport, outcome::Outcome, sheet::Page, signals};

/// How long the loop waits for a key until it looks for signals and readings.
const TICK: Duration = Duration::from_millis(50);

/// Files do not change: how long the reader waits for a request before it reads them again.
const SELDOM: Duration = Duration::from_secs(3600);

/// What the view asks of the reader.
enum Request {
    Refresh,
    Explain(Subject),
}

/// What the reader answers.
enum Answer {
    Fleet(Box<anyhow::Result<FleetReport>>, Result<Vec<Value>, String>),
    Explanation(Subject, anyhow::Result<Page>),
}

/// Shows the fleet until a key or a signal ends it.
///
/// # Errors
/// If there is no terminal, or the first reading fails.
pub(super) fn run(source: TopSource, options: &TopOptions) -> anyhow::Result<Outcome> {
    ensure!(std::io::stdout().is_terminal(), "standard output is no terminal: --once prints one frame");
    let mut app = view(options, source.read()?, source.decisions(), super::screen::has_color());
    let outcome = Outcome::of(&app.report.incomplete);
    let (requests, of_view) = mpsc::channel();
    let (of_reader, answers) = mpsc::channel();
    let interval = source.is_live().then_some(options.interval);
    // Neither thread holds anything that needs an end of its own: the process may end while they wait.
    thread::spawn(move || answer(&source, interval, &of_view, &of_reader));
    let ended = signalled()?;
    let mut screen = Screen::new()?;
    screen.draw(&app)?;
    while !ended.load(Ordering::Relaxed) {
        let mut changed = false;
        if let Some(event) = screen.event(TICK)? {
            changed = true;
            if let ScreenEvent::Key(key) = event {
                match app.press(key) {
                    Some(TopAction::Quit) => break,
                    Some(TopAction::Refresh) => send(&requests, Request::Refresh),
                    Some(TopAction::Explain(subject)) => send(&requests, Request::Explain(subject)),
                    None => {}
                }
            }
        }
        while let Ok(answer) = answers.try_recv() {
            changed = true;
            show(&mut app, answer);
        }
        if changed {
            screen.draw(&app)?;
        }
    }
    Ok(outcome)
}

fn send(requests: &Sender<Request>, request: Request) {
    // The reader ends with the view only.
    let _ = requests.send(request);
}

fn show(app: &mut TopApp, answer: Answer) {
    match answer {
        Answer::Fleet(read, decisions) => {
            match *read {
                Ok(report) => app.update(report),
                Err(error) => app.fail(format!("{error:#}")),
            }
            app.update_decisions(decisions);
        }
        Answer::Explanation(subject, result) => {
            app.explain(&subject, result.map_err(|error| format!("{error:#}")));
        }
    }
}

/// Reads every `interval`, and answers requests in between.
fn answer(
    source: &TopSource,
    interval: Option<Duration>,
    requests: &Receiver<Request>,
    answers: &Sender<Answer>,
) {
    let wait = interval.unwrap_or(SELDOM);
    loop {
        let answered = match requests.recv_timeout(wait) {
            Ok(Request::Explain(subject)) => {
                let page = source.explain(&subject);
                Answer::Explanation(subject, page)
            }
            Ok(Request::Refresh) | Err(RecvTimeoutError::Timeout) => {
                Answer::Fleet(Box::new(source.read()), source.decisions())
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if answers.send(answered).is_err() {
            return;
        }
    }
}

/// A flag that a signal sets.
fn signalled() -> std::io::Result<Arc<AtomicBool>> {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = ended.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::spawn(move || {
        runtime.block_on(signals::ended());
        flag.store(true, Ordering::Relaxed);
    });
    Ok(ended)
}

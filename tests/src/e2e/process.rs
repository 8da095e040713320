//! Processes that the tier starts: output in a log each, stopped on every way out, restartable from their recipe.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::process::{Child, Command};

/// How long a process may take between SIGTERM and its end before it is killed.
pub const STOP_LIMIT: Duration = Duration::from_secs(20);

/// Everything needed to start a process, any number of times.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// Names the process and its log.
    pub name: &'static str,
    /// What is run.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// The whole environment: nothing is inherited, so that a user's KUBECONFIG, proxies and settings have no effect.
    pub env: Vec<(&'static str, OsString)>,
    /// The folder of the log files.
    pub logs: PathBuf,
}

impl Recipe {
    /// The path of the log, which all starts of this recipe append to.
    pub fn log(&self) -> PathBuf {
        self.logs.join(format!("{}.log", self.name))
    }

    /// Starts the process; it dies with the returned value.
    pub fn start(&self) -> anyhow::Result<Process> {
        let path = self.log();
        let mut log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        writeln!(log, "--- {} {}", self.program.display(), self.args.join(" "))?;
        let child = Command::new(&self.program)
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {} ({})", self.name, self.program.display()))?;
        Ok(Process { name: self.name, log: path, child })
    }
}

/// A running process; dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    log: PathBuf,
    child: Child,
}

impl Process {
    /// Fails, with the end of the log, when the process has ended by itself.
    pub fn check_running(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended by itself: {status}\n{}", self.name, tail(&self.log, 15)),
        }
    }

    /// SIGKILL: the process gets no chance to do anything.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().await.with_context(|| format!("cannot kill {}", self.name))
    }

    /// SIGTERM, then waits for the end.
    pub async fn stop(mut self) -> anyhow::Result<ExitStatus> {
        self.signal(Signal::Terminate).await?;
        let Ok(status) = tokio::time::timeout(STOP_LIMIT, self.child.wait()).await else {
            self.child.kill().await?;
            bail!("{} did not end within {STOP_LIMIT:?} of SIGTERM\n{}", self.name, tail(&self.log, 15));
        };
        Ok(status?)
    }

    /// Waits for the process to end by itself; one that runs longer than `limit` is killed, and an error.
    pub async fn wait(mut self, limit: Duration) -> anyhow::Result<ExitStatus> {
        match tokio::time::timeout(limit, self.child.wait()).await {
            Ok(status) => Ok(status?),
            Err(_) => {
                self.child.kill().await?;
                bail!("{} still runs after {limit:?}\n{}", self.name, tail(&self.log, 15))
            }
        }
    }

    /// Sends a signal; nothing is sent to a process that has ended.
    pub async fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        match self.child.id() {
            Some(id) => send(signal, id).await,
            None => Ok(()),
        }
    }

    /// The process' id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }
}

/// What a process may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// It is asked to end.
    Terminate,
    /// Pauses it.
    Stop,
    /// Resumes it.
    Continue,
}

/// Sends a signal. The shell's builtin does it: std has no call for it, and a `kill` program is not everywhere.
async fn send(signal: Signal, id: u32) -> anyhow::Result<()> {
    let name = match signal {
        Signal::Terminate => "TERM",
        Signal::Stop => "STOP",
        Signal::Continue => "CONT",
    };
    let args = ["-c", "kill -\"$1\" \"$2\"", "sh", name, &id.to_string()];
    let status = Command::new("sh").args(args).status().await;
    if !status.context("cannot run sh")?.success() {
        bail!("cannot send SIG{name} to process {id}");
    }
    Ok(())
}

/// Ports that were handed out: several control planes start at once, and a port is listened on only a while later.
static HANDED_OUT: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Loopback ports that are free and that this process has not returned before. They are free when this returns, not reserved.
pub fn free_ports<const COUNT: usize>() -> anyhow::Result<[u16; COUNT]> {
    const SPARE: usize = 20;
    let mut handed_out = HANDED_OUT.lock().unwrap_or_else(PoisonError::into_inner);
    // All are held until the ports are known, so that the system names different ones.
    let listeners: Vec<TcpListener> = std::iter::repeat_with(|| TcpListener::bind(("127.0.0.1", 0)))
        .take(COUNT + SPARE)
        .collect::<Result<_, _>>()?;
    let mut ports = [0; COUNT];
    let mut places = ports.iter_mut();
    let mut place = places.next();
    for listener in &listeners {
        let Some(free) = place.take() else { break };
        let port = listener.local_addr()?.port();
        if handed_out.insert(port) {
            *free = port;
            place = places.next();
        } else {
            place = Some(free);
        }
    }
    anyhow::ensure!(place.is_none(), "no {COUNT} free ports among {}", COUNT + SPARE);
    Ok(ports)
}

/// Longer lines of a log are cut in the output.
const LINE_MAX: usize = 400;

/// The last `count` lines of a log, indented and cut, or a note that there is none.
pub fn tail(log: &Path, count: usize) -> String {
    match std::fs::read(log) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<&str> = text.lines().collect();
            let start = lines.len().saturating_sub(count);
            lines.get(start..).unwrap_or_default().iter().map(|line| format!("    {}\n", cut(line))).collect()
        }
        Err(error) => format!("    (no log at {}: {error})\n", log.display()),
    }
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE_MAX) {
        Some((end, _)) => format!("{} …", line.get(..end).unwrap_or_default()),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests;

//! A process that removes what a trial launched, if the trial ends without doing so: by `kill -9`, by Ctrl-C, by a panic.
//!
//! 1. The trial starts its guard before its first launch, in a process group of its own, with a pipe as standard input.
//! 2. The trial launches, terminates and removes, and writes a word into the pipe if all of that went well.
//! 3. The guard waits for the end of the pipe, which the kernel closes with the trial. Without the word it removes what the trial created.

use std::io::Read as _;
use std::process::Stdio;

use anyhow::Context as _;
use fleetwright_aws_tools::live::Trial;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, Command};

/// The word of a trial that left nothing.
const DONE: &[u8] = b"done";

/// The guard of a trial.
pub(super) struct Guard {
    child: Child,
    pipe: ChildStdin,
}

impl Guard {
    /// Starts the guard of a trial.
    pub(super) fn start(trial: &Trial) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["live", "--guard", &trial.expires().as_second().to_string()]);
        command.args(["--cluster", &trial.settings.cluster_name]).stdin(Stdio::piped());
        // A terminal sends Ctrl-C to the trial's group.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn().context("the guard of the trial cannot be started")?;
        let pipe = child.stdin.take().context("the guard has no standard input")?;
        Ok(Self { child, pipe })
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// Ends the guard: at once if nothing is left, else when it has removed what is.
    pub(super) async fn end(mut self, nothing_left: bool) -> anyhow::Result<()> {
        if nothing_left {
            self.pipe.write_all(DONE).await?;
        }
        drop(self.pipe);
        self.child.wait().await.map(drop).context("the guard of the trial")
    }
}

/// Waits for the end of the trial, as its guard; whether it left nothing.
pub(super) async fn is_dismissed() -> anyhow::Result<bool> {
    let word = tokio::task::spawn_blocking(|| {
        let mut word = Vec::new();
        std::io::stdin().read_to_end(&mut word).map(|_| word)
    });
    Ok(word.await?? == DONE)
}

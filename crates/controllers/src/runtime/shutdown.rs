//! The end of the process, announced to every task.

use tokio::sync::watch;

/// Announces the end. Dropping it announces the end too.
#[derive(Debug)]
pub struct Trigger(watch::Sender<bool>);

/// Learns of the end.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

/// A trigger and what it triggers.
#[must_use]
pub fn shutdown() -> (Trigger, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (Trigger(sender), Shutdown(receiver))
}

impl Trigger {
    /// Announces the end.
    pub fn fire(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    /// Completes when the end was announced.
    pub async fn requested(&mut self) {
        // An error means that the trigger is gone, which is an announcement too.
        let _ = self.0.wait_for(|fired| *fired).await;
    }

    /// Whether the end was announced.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}

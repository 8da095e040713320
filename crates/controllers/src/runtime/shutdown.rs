//! The shutdown signal that every task observes.

use tokio::sync::watch;

/// Requests shutdown. Dropping it requests shutdown too.
#[derive(Debug)]
pub struct Trigger(watch::Sender<bool>);

/// Observes shutdown.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

/// Returns a trigger and its observer.
#[must_use]
pub fn shutdown() -> (Trigger, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (Trigger(sender), Shutdown(receiver))
}

impl Trigger {
    /// Requests shutdown.
    pub fn fire(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    /// Completes when shutdown was requested.
    pub async fn requested(&mut self) {
        // An error means that the trigger was dropped, which requests shutdown too.
        let _ = self.0.wait_for(|fired| *fired).await;
    }

    /// Whether shutdown was requested.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}

//! The shutdown signal that every task observes.

use std::sync::OnceLock;

use tokio::sync::watch;

/// Requests shutdown. Dropping it requests shutdown too.
#[derive(Debug)]
pub struct Trigger(watch::Sender<bool>);

/// Observes shutdown.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

/// The shutdown of this process, known from the start of its controllers on.
#[derive(Debug, Default)]
pub(super) struct Stopping(OnceLock<Shutdown>);

impl Stopping {
    /// Sets the shutdown that ends the controllers.
    pub(super) fn set(&self, stop: &Shutdown) {
        let _ = self.0.set(stop.clone());
    }

    /// Whether shutdown was requested: nothing new begins.
    pub(super) fn is_requested(&self) -> bool {
        self.0.get().is_some_and(Shutdown::is_requested)
    }

    /// Waits for `wait`, or until shutdown is requested.
    pub(super) async fn unless_requested(&self, wait: impl Future<Output = ()>) {
        let Some(stop) = self.0.get() else { return wait.await };
        let mut stop = stop.clone();
        tokio::select! {
            biased;
            () = stop.requested() => {}
            () = wait => {}
        }
    }
}

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

//! Signals that end the process.

use tokio::signal::unix::{SignalKind, signal};

/// Completes at Ctrl-C or SIGTERM.
pub(crate) async fn terminated() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        // Without a handler the signal ends the process.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

/// The same, and the end of the terminal (SIGHUP).
pub(crate) async fn ended() {
    let Ok(mut hangup) = signal(SignalKind::hangup()) else {
        return terminated().await;
    };
    tokio::select! {
        () = terminated() => {}
        _ = hangup.recv() => {}
    }
}

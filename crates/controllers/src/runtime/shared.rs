//! A value that tasks share behind a lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A value behind a lock. Clones share one value.
#[derive(Debug, Default)]
pub struct Shared<T>(Arc<Mutex<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Shared<T> {
    /// Shares `value`.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    /// The value, locked. Never hold the guard across an await. No statement may leave the value half changed: after a
    /// panic of another holder it is used as it is.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

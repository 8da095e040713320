//! Whether registrations of a pool go well: the last four of them.

use crate::model::ConditionStatus;

/// How many registrations are remembered.
const WINDOW: usize = 4;

/// The outcome of a pool's last registrations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegistrationHealth {
    ring: [Option<bool>; WINDOW],
    next: usize,
}

impl RegistrationHealth {
    /// The state of a condition that was stored before a restart.
    #[must_use]
    pub fn restored(status: ConditionStatus) -> Self {
        let mut health = Self::default();
        match status {
            ConditionStatus::True => health.note(true),
            // As many as it takes to be unhealthy.
            ConditionStatus::False => (0..WINDOW / 2).for_each(|_| health.note(false)),
            ConditionStatus::Unknown => {}
        }
        health
    }

    /// Takes in an outcome.
    pub fn note(&mut self, registered: bool) {
        self.ring[self.next] = Some(registered);
        self.next = (self.next + 1) % WINDOW;
    }

    /// False where half of the window failed, else True where anything is known.
    #[must_use]
    pub fn status(&self) -> ConditionStatus {
        let failures = self.ring.iter().filter(|outcome| **outcome == Some(false)).count();
        if failures * 2 >= WINDOW {
            ConditionStatus::False
        } else if self.ring.iter().any(Option::is_some) {
            ConditionStatus::True
        } else {
            ConditionStatus::Unknown
        }
    }
}

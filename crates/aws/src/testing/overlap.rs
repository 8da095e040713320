//! Mutating calls that overlap, and answers that never come.

use std::{
    future::{Future, pending, poll_fn},
    task::Poll,
};

use super::{FakeAws, Inner};

/// How mutating calls behave beyond their effect.
#[derive(Default)]
pub(super) struct Overlap {
    /// Whether other calls may run before the effect of a call.
    yields: bool,
    /// How many calls answer until one hangs.
    hangs_after: Option<u32>,
}

impl Overlap {
    /// Whether the answer of this call never comes.
    fn hangs(&mut self) -> bool {
        let left = self.hangs_after.take();
        self.hangs_after = left.and_then(|left| left.checked_sub(1));
        left == Some(0)
    }
}

/// Lets other calls run first.
fn yielded() -> impl Future<Output = ()> {
    let mut yielded = false;
    poll_fn(move |cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

impl FakeAws {
    /// Lets mutating calls overlap.
    pub fn interleave(&self) {
        self.lock().overlap.yields = true;
    }

    /// Lets a mutating call hang after its effect: the one after `after` others. `None`: no call hangs.
    pub fn hang(&self, after: Option<u32>) {
        self.lock().overlap.hangs_after = after;
    }

    /// A mutating call: its effect, then its answer, if it comes.
    pub(super) async fn mutate<T>(&self, effect: impl FnOnce(&mut Inner) -> T) -> T {
        let yields = self.lock().overlap.yields;
        if yields {
            yielded().await;
        }
        let (answer, hangs) = {
            let mut inner = self.lock();
            (effect(&mut inner), inner.overlap.hangs())
        };
        if hangs {
            pending::<()>().await;
        }
        answer
    }
}

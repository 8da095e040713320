//! Mutating calls that overlap, and answers that never come, or late.

use std::{
    collections::BTreeSet,
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
    /// The names whose look-ups have no answer yet.
    held: BTreeSet<String>,
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

    /// Holds back the answers of look-ups of these: a cluster, or values of filters of subnets. Those of others come at once.
    pub fn hold(&self, names: &[&str]) {
        self.lock().overlap.held = names.iter().map(|name| (*name).to_owned()).collect();
    }

    /// Waits while one of `names` is held back. Whoever polls the look-up has to poll it again.
    pub(super) async fn held<'a>(&self, names: impl Iterator<Item = &'a String> + Clone) {
        poll_fn(|_| {
            let held = &self.lock().overlap.held;
            if names.clone().any(|name| held.contains(name)) { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
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

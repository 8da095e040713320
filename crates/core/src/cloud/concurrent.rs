//! Several calls at a time, without a runtime.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
};

/// A call of a provider.
type Call<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Awaits all calls, at most `limit` of them (at least one) at a time, and returns their answers in order.
pub(super) async fn at_most<T: Send>(limit: usize, calls: Vec<Call<'_, T>>) -> Vec<T> {
    let mut answers: Vec<Option<T>> = calls.iter().map(|_| None).collect();
    let mut waiting = calls.into_iter().enumerate();
    let mut active: Vec<(usize, Call<'_, T>)> = Vec::new();
    poll_fn(|cx| {
        loop {
            let room = limit.max(1).saturating_sub(active.len());
            active.extend(waiting.by_ref().take(room));
            let before = active.len();
            active.retain_mut(|(position, call)| match call.as_mut().poll(cx) {
                Poll::Ready(answer) => {
                    answers[*position] = Some(answer);
                    false
                }
                Poll::Pending => true,
            });
            if active.is_empty() && waiting.len() == 0 {
                return Poll::Ready(());
            }
            if active.len() == before {
                return Poll::Pending;
            }
        }
    })
    .await;
    answers.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    //! Order and limit.
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        task::{Context, Waker},
    };

    use super::*;

    #[test]
    fn calls_are_answered_in_order_and_few_at_a_time() {
        static ACTIVE: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        // Call n takes n polls beside its first.
        let call = |n: usize| -> Call<'static, usize> {
            let mut polls = 0;
            Box::pin(poll_fn(move |_| {
                if polls == 0 {
                    let active = ACTIVE.fetch_add(1, Ordering::SeqCst) + 1;
                    MOST.fetch_max(active, Ordering::SeqCst);
                }
                polls += 1;
                if polls <= n {
                    return Poll::Pending;
                }
                ACTIVE.fetch_sub(1, Ordering::SeqCst);
                Poll::Ready(n)
            }))
        };
        let mut all = Box::pin(at_most(3, [5, 0, 3, 1, 0, 2, 4].map(call).into()));
        let mut cx = Context::from_waker(Waker::noop());
        let answers = loop {
            if let Poll::Ready(answers) = all.as_mut().poll(&mut cx) {
                break answers;
            }
        };
        assert_eq!(answers, [5, 0, 3, 1, 0, 2, 4]);
        assert_eq!(MOST.load(Ordering::SeqCst), 3);
    }
}

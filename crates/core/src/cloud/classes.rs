//! The NodeClasses of one kind, as their provider reads them.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
    time::Duration,
};

use super::{CloudError, LaunchError, NodeClassKind};
use crate::model::{NodeClassRef, Str};

/// When a launch is repeated that came before the NodeClasses were listed.
const UNLISTED_RETRY: Duration = Duration::from_secs(1);

/// The NodeClasses of one kind, typed: written by a watch, read at every launch. Clones share their content.
///
/// An object that did not change keeps its `Arc`, so that what is made of it can be cached by pointer.
///
/// ```
/// use fleetwright_core::cloud::{LaunchError, NodeClassKind, NodeClasses};
///
/// let classes = NodeClasses::new(NodeClassKind::new("acme.example", "v1", "AcmeNodeClass", "acmenodeclasses"));
/// // A launch before the first list is repeated. It is not the end of its NodeClaim.
/// let error = LaunchError::from(classes.get("default").unwrap_err());
/// assert!(matches!(error, LaunchError::RateLimited { .. }));
///
/// classes.set("default", "debian-13");
/// assert_eq!(*classes.get("default").unwrap(), "debian-13");
/// let error = LaunchError::from(classes.get("gpu").unwrap_err());
/// assert_eq!(error.to_string(), "NodeClassRef not ready, AcmeNodeClass/gpu does not exist: create it");
/// ```
#[derive(Debug)]
pub struct NodeClasses<T> {
    kind: NodeClassKind,
    listed: Arc<Mutex<ListedClasses<T>>>,
}

#[derive(Debug)]
struct ListedClasses<T> {
    /// By name; `None` until they are listed.
    classes: Option<BTreeMap<Str, Arc<T>>>,
    changes: u64,
    /// Tasks that wait for a change, at most one entry each.
    waiting: Vec<Waker>,
}

/// Why there is no NodeClass to use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeClassError {
    /// They have not been listed yet: try again.
    #[error("the {0} objects have not been listed yet")]
    Unlisted(Str),
    /// There is none of this name.
    #[error("{0} does not exist: create it")]
    Missing(NodeClassRef),
}

impl From<NodeClassError> for LaunchError {
    fn from(error: NodeClassError) -> Self {
        match error {
            NodeClassError::Unlisted(_) => Self::RateLimited { after: UNLISTED_RETRY },
            NodeClassError::Missing(_) => Self::NodeClassNotReady(error.to_string().into()),
        }
    }
}

impl From<NodeClassError> for CloudError {
    fn from(error: NodeClassError) -> Self {
        let message = error.to_string().into();
        match error {
            NodeClassError::Unlisted(_) => Self::Unavailable(message),
            NodeClassError::Missing(_) => Self::NodeClassNotReady(message),
        }
    }
}

impl<T> Clone for NodeClasses<T> {
    fn clone(&self) -> Self {
        Self { kind: self.kind.clone(), listed: self.listed.clone() }
    }
}

impl<T> NodeClasses<T> {
    /// The NodeClasses of a kind, not listed yet.
    #[must_use]
    pub fn new(kind: NodeClassKind) -> Self {
        let listed = ListedClasses { classes: None, changes: 0, waiting: Vec::new() };
        Self { kind, listed: Arc::new(Mutex::new(listed)) }
    }

    /// Their kind.
    #[must_use]
    pub fn kind(&self) -> &NodeClassKind {
        &self.kind
    }

    fn lock(&self) -> MutexGuard<'_, ListedClasses<T>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The NodeClass of this name.
    ///
    /// # Errors
    /// If there is none, or if they have not been listed yet.
    pub fn get(&self, name: &str) -> Result<Arc<T>, NodeClassError> {
        let listed = self.lock();
        let classes = listed.classes.as_ref().ok_or_else(|| self.unlisted())?;
        classes.get(name).cloned().ok_or_else(|| NodeClassError::Missing(self.kind.named(name)))
    }

    /// All of them by name.
    ///
    /// # Errors
    /// If they have not been listed yet: to take them for none would delete what belongs to them.
    pub fn all(&self) -> Result<BTreeMap<Str, Arc<T>>, NodeClassError> {
        self.lock().classes.clone().ok_or_else(|| self.unlisted())
    }

    fn unlisted(&self) -> NodeClassError {
        NodeClassError::Unlisted(self.kind.kind.clone())
    }

    /// How many changes there have been, the first list included.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Waits until there have been more than `seen` changes, and returns their number. For tasks of a provider's own.
    pub async fn changed(&self, seen: u64) -> u64 {
        poll_fn(|cx| {
            let mut listed = self.lock();
            if listed.changes != seen {
                return Poll::Ready(listed.changes);
            }
            if !listed.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                listed.waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// Removes a NodeClass.
    pub fn remove(&self, name: &str) {
        self.change(|classes| classes.remove(name).is_some());
    }

    /// Changes the NodeClasses, which are listed from now on. `change` returns whether it did anything.
    fn change(&self, change: impl FnOnce(&mut BTreeMap<Str, Arc<T>>) -> bool) {
        let mut listed = self.lock();
        let is_first = listed.classes.is_none();
        if !change(listed.classes.get_or_insert_default()) && !is_first {
            return;
        }
        listed.changes += 1;
        let waiting = std::mem::take(&mut listed.waiting);
        drop(listed);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl<T: PartialEq> NodeClasses<T> {
    /// Adds or replaces a NodeClass.
    pub fn set(&self, name: &str, class: T) {
        self.change(|classes| keep_or_put(classes, name.into(), class));
    }

    /// Replaces all of them.
    pub fn replace(&self, all: impl IntoIterator<Item = (Str, T)>) {
        self.change(|classes| {
            let mut before = std::mem::take(classes);
            let mut differs = false;
            for (name, class) in all {
                let old = before.remove(&name);
                classes.extend(old.map(|old| (name.clone(), old)));
                differs |= keep_or_put(classes, name, class);
            }
            differs || !before.is_empty()
        });
    }
}

/// Puts a NodeClass, unless an equal one is there. Returns whether it did.
fn keep_or_put<T: PartialEq>(classes: &mut BTreeMap<Str, Arc<T>>, name: Str, class: T) -> bool {
    let differs = classes.get(&name).is_none_or(|known| **known != class);
    if differs {
        classes.insert(name, Arc::new(class));
    }
    differs
}

#[cfg(test)]
mod tests {
    //! What changes, and what stays.
    use std::{
        pin::pin,
        sync::atomic::{AtomicU32, Ordering},
        task::{Context, Wake},
    };

    use super::*;

    fn classes() -> NodeClasses<u32> {
        NodeClasses::new(NodeClassKind::new("acme.example", "v1", "AcmeNodeClass", "acmenodeclasses"))
    }

    #[test]
    fn unlisted_is_not_missing() {
        let classes = classes();
        let unlisted = NodeClassError::Unlisted("AcmeNodeClass".into());
        assert_eq!((classes.get("a"), classes.all()), (Err(unlisted.clone()), Err(unlisted.clone())));
        assert!(matches!(CloudError::from(unlisted.clone()), CloudError::Unavailable(_)));
        assert!(matches!(LaunchError::from(unlisted), LaunchError::RateLimited { .. }));
        // A list without objects is a list.
        classes.replace([]);
        let missing = NodeClassError::Missing(classes.kind().named("a"));
        assert_eq!((classes.get("a"), classes.all()), (Err(missing.clone()), Ok(BTreeMap::new())));
        assert!(matches!(CloudError::from(missing.clone()), CloudError::NodeClassNotReady(_)));
        assert!(matches!(LaunchError::from(missing), LaunchError::NodeClassNotReady(_)));
    }

    #[test]
    fn a_list_replaces_and_keeps_what_is_equal() {
        let classes = classes();
        classes.replace([("a".into(), 1), ("b".into(), 2)]);
        let b = classes.get("b").unwrap();
        classes.replace([("b".into(), 2), ("c".into(), 3)]);
        assert!(classes.get("a").is_err() && Arc::ptr_eq(&b, &classes.get("b").unwrap()));
        let seen = classes.changes();
        classes.replace([("b".into(), 2), ("c".into(), 3)]);
        classes.set("b", 2);
        classes.remove("a");
        assert_eq!(classes.changes(), seen, "nothing changed");
        classes.set("b", 4);
        classes.remove("c");
        classes.replace([]);
        assert_eq!(classes.changes(), seen + 3);
    }

    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_change_wakes_who_waits() {
        let classes = classes();
        let woken = Arc::new(Woken(AtomicU32::new(0)));
        let waker = woken.clone().into();
        let mut cx = Context::from_waker(&waker);
        let mut changed = pin!(classes.changed(0));
        assert!(changed.as_mut().poll(&mut cx).is_pending() && changed.as_mut().poll(&mut cx).is_pending());
        classes.replace([]);
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        assert_eq!(changed.as_mut().poll(&mut cx), Poll::Ready(1));
        classes.set("a", 1);
        assert_eq!(pin!(classes.changed(1)).poll(&mut cx), Poll::Ready(2));
    }
}

//! Objects that cannot be read, with the reason.

use std::collections::BTreeMap;

use crate::{
    kind::{Key, WatchedKind},
    lower::Invalid,
};

/// The invalid objects.
#[derive(Debug, Default)]
pub(crate) struct InvalidObjects(BTreeMap<(WatchedKind, Key), Invalid>);

impl InvalidObjects {
    /// The lowered object; where lowering failed, the reason is recorded.
    pub(crate) fn accept<T>(
        &mut self,
        kind: WatchedKind,
        key: &Key,
        lowered: Option<Result<T, Invalid>>,
    ) -> Option<T> {
        let id = (kind, key.clone());
        match lowered.transpose() {
            Ok(value) => {
                self.0.remove(&id);
                value
            }
            Err(invalid) => {
                self.0.insert(id, invalid);
                None
            }
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> &BTreeMap<(WatchedKind, Key), Invalid> {
        &self.0
    }
}

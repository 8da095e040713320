//! Objects that cannot be read, with the reason.

use std::collections::BTreeMap;

use crate::{
    kind::{Key, Kind},
    lower::Invalid,
};

/// The invalid objects.
#[derive(Debug, Default)]
pub(crate) struct InvalidObjects(BTreeMap<(Kind, Key), Invalid>);

impl InvalidObjects {
    /// The lowered object; where lowering failed, the reason is recorded.
    pub(crate) fn accept<T>(
        &mut self,
        kind: Kind,
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
    pub(crate) fn all(&self) -> &BTreeMap<(Kind, Key), Invalid> {
        &self.0
    }
}

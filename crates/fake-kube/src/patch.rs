//! Patch formats: from an object and a patch to a new object.

pub(crate) mod apply;
pub(crate) mod fields;
pub(crate) mod json;
pub(crate) mod keys;
pub(crate) mod merge;
pub(crate) mod strategic;

/// The format of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' strategic merge, with merge keys of lists.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchKind {
    /// Parses a Content-Type.
    pub(crate) fn parse(content_type: &str) -> Option<Self> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            "application/apply-patch+yaml" | "application/apply-patch+json" => Some(Self::Apply),
            _ => None,
        }
    }
}

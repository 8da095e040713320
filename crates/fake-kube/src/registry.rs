//! What the server serves: one entry for each version of each resource.

/// One served version of one resource, as discovery describes it.
#[derive(Clone, Debug)]
pub struct ResourceInfo {
    /// API group; empty for the core group.
    pub group: String,
    /// Version, such as `v1`.
    pub version: String,
    /// Kind, such as `Pod`.
    pub kind: String,
    /// Plural name in paths, such as `pods`.
    pub plural: String,
    /// Singular name, such as `pod`.
    pub singular: String,
    /// Short names, such as `po`.
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Verbs of the main resource.
    pub verbs: Vec<String>,
    /// Subresources by name, such as `status`.
    pub subresources: Vec<String>,
}

//! Names and identifiers. Each is its own type, so that a pool's name is never taken for a node's.

use std::{borrow::Borrow, fmt, ops::Deref, sync::Arc};

/// A shared immutable string: labels, values, names. Cloning costs one counter.
pub type Str = Arc<str>;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Str);

        impl $name {
            /// The text as in Kubernetes or in the cloud.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl Deref for $name {
            type Target = str;
            fn deref(&self) -> &str {
                &self.0
            }
        }
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }
        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }
        impl From<Str> for $name {
            fn from(text: Str) -> Self {
                Self(text)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

id! {
    /// `metadata.uid` of a pod: survives nothing, not even a re-creation under the same name.
    PodUid
}
id! {
    /// `metadata.name` of a NodePool.
    PoolName
}
id! {
    /// `metadata.name` of a NodeClaim.
    ClaimName
}
id! {
    /// `metadata.name` of a Node.
    NodeName
}
id! {
    /// The cloud's name of an instance, as in a Node's `spec.providerID`.
    ProviderId
}
id! {
    /// Names a group of NodeClaims that are launched by one call to the cloud.
    BatchId
}

/// `namespace/name` of a namespaced object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    /// The namespace.
    pub namespace: Str,
    /// The name within it.
    pub name: Str,
}

impl NamespacedName {
    /// Joins a namespace and a name.
    pub fn new(namespace: impl Into<Str>, name: impl Into<Str>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Debug for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

//! Status and annotations of NodePools: hash, counts, validation, readiness, registration health.

mod counter;
mod features;
mod hash;
mod observed;
mod protection;
mod readiness;
mod registration_health;
mod replicas;
mod validation;

pub use counter::Counter;
pub use features::FeatureStatus;
pub use hash::Hash;
pub use observed::{CapacityObserver, ObservedReaper};
pub use protection::Protection;
pub use readiness::Readiness;
pub use registration_health::RegistrationHealth;
pub use replicas::{StaticDeprovisioning, StaticProvisioning};
pub use validation::Validation;

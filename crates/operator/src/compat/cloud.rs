//! [`CloudCompat`]: the checks of a cloud for `compat`, registered with `Operator::compat`.

use anyhow::bail;

use super::{finding::Finding, objects::ClusterObjects};
use crate::settings::Values;

/// The checks of `compat` that only a cloud can make. All others follow from its definitions and its catalogue.
pub trait CloudCompat: Send + Sync + 'static {
    /// The API group of its NodeClasses.
    fn group(&self) -> &'static str;

    /// Findings on its NodeClasses, on the NodeClaims that use them, and on its settings, which are those of the running Karpenter.
    fn check(&self, cluster: &ClusterObjects, values: &Values) -> Vec<Finding>;

    /// Findings on the policies (`--iam-policy`) that grant the controller its permissions in the cloud.
    ///
    /// # Errors
    /// If a policy cannot be read, or the cloud has none.
    fn check_policies(&self, _policies: &[String], _values: &Values) -> anyhow::Result<Vec<Finding>> {
        bail!("--iam-policy: the cloud of {} has no policies that could be checked", self.group())
    }

    /// The conditions of its NodeClasses that Karpenter does not have, and therefore never removes.
    fn own_conditions(&self) -> &'static [&'static str] {
        &[]
    }
}

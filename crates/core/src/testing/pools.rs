//! NodePools.

use std::{sync::Arc, time::Duration};

use super::now;
use crate::model::{
    Budget, ConsolidationPolicy, NodePool, Operator, Requirement, Taint, TaintEffect, pool::BudgetNodes,
};

/// A NodePool under construction; see [`pool`].
#[derive(Clone, Debug)]
pub struct PoolBuilder(NodePool);

/// A ready pool that allows everything, without taints, limits or labels; consolidation at once, budget 100 %.
#[must_use]
pub fn pool(name: &str) -> PoolBuilder {
    let class = super::kwok_class();
    PoolBuilder(NodePool {
        uid: format!("uid-pool-{name}").into(),
        consolidate_after: Some(Duration::ZERO),
        consolidation_policy: ConsolidationPolicy::WhenEmptyOrUnderutilized,
        budgets: vec![Budget {
            reasons: None,
            nodes: BudgetNodes::Percent(100),
            schedule: None,
            duration: None,
            zone: None,
        }],
        ..NodePool::new(name, class, now())
    })
}

impl PoolBuilder {
    /// Changes anything.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut NodePool)) -> Self {
        change(&mut self.0);
        self
    }

    /// `spec.weight`.
    #[must_use]
    pub fn weight(self, weight: i32) -> Self {
        self.with(|pool| pool.weight = weight)
    }

    /// Makes it static.
    #[must_use]
    pub fn replicas(self, replicas: i64) -> Self {
        self.with(|pool| pool.replicas = Some(replicas))
    }

    /// Its `Ready` condition is not True.
    #[must_use]
    pub fn not_ready(self) -> Self {
        self.with(|pool| pool.ready = false)
    }

    /// Limits a resource, in the resource's own unit (milli-CPUs, bytes, pieces).
    #[must_use]
    pub fn limit(self, resource: &str, amount: i64) -> Self {
        self.with(|pool| pool.limits.resources.push((resource.into(), amount)))
    }

    /// Limits the number of nodes.
    #[must_use]
    pub fn limit_nodes(self, nodes: i64) -> Self {
        self.with(|pool| pool.limits.nodes = Some(nodes))
    }

    /// Adds a requirement; one that cannot be written (a bound that is no integer) is left out.
    #[must_use]
    pub fn require(self, key: &str, operator: Operator, values: &[&str]) -> Self {
        self.with(|pool| {
            let written = Requirement::new(key, operator, values.iter().copied());
            pool.template.requirements.add_all(&written.into_iter().collect());
        })
    }

    /// Adds a requirement `key In values` with minValues.
    #[must_use]
    pub fn min_values(self, key: &str, min_values: u32) -> Self {
        self.with(|pool| {
            pool.template.requirements.add(Requirement::exists(key).with_min_values(Some(min_values)));
        })
    }

    /// Adds a label to its nodes.
    #[must_use]
    pub fn label(self, key: &str, value: &str) -> Self {
        self.with(|pool| drop(pool.template.labels.insert(key.into(), value.into())))
    }

    /// Adds a taint.
    #[must_use]
    pub fn taint(self, key: &str, value: &str, effect: TaintEffect) -> Self {
        self.with(|pool| pool.template.taints.push(Taint::new(key, value, effect)))
    }

    /// Adds a startup taint.
    #[must_use]
    pub fn startup_taint(self, key: &str, effect: TaintEffect) -> Self {
        self.with(|pool| pool.template.startup_taints.push(Taint::new(key, "", effect)))
    }

    /// The pool.
    #[must_use]
    pub fn build(self) -> Arc<NodePool> {
        Arc::new(self.0)
    }
}

impl From<PoolBuilder> for Arc<NodePool> {
    fn from(builder: PoolBuilder) -> Self {
        builder.build()
    }
}

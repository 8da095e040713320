//! Why a class of pods has no place: for each pool the first constraint that eliminated it.

use super::{
    Solver,
    amounts::{Amounts, fits_free, get, update},
    claim::{Refusal, clash},
    intern::Req,
    nodes::first_obstacle,
    on_claim::{Blocked, Target},
    pass::Pass,
    pools::agrees,
    topology::CLAIMS,
};
use crate::{
    model::{
        Incompatible, Requirement,
        labels::{self, HOSTNAME},
    },
    scheduling::{Eliminated, PoolVerdict, Unplaced},
};

impl Solver {
    /// Why no place was found for a class, at its last level of relaxation.
    pub(super) fn explain(&mut self, pass: &Pass, class: usize) -> Unplaced {
        if let Some(refused) = &self.classes[class].refused {
            return refused.clone();
        }
        if self.pools.is_empty() {
            return Unplaced::NoPools;
        }
        let level = self.classes[class].levels.len().saturating_sub(1);
        let pools = self.pools.len();
        let verdict = |pool: usize| PoolVerdict {
            pool: self.pools[pool].model.name.clone(),
            eliminated: self.eliminated(pass, class, level, pool),
        };
        Unplaced::NoPoolFits((0..pools).map(verdict).collect())
    }

    fn eliminated(&mut self, pass: &Pass, class: usize, level: usize, pool: usize) -> Eliminated {
        if self.pools[pool].rows.is_empty() {
            return Eliminated::NoInstanceTypes;
        }
        let this = &self.classes[class];
        let wanted = this.levels[level].req;
        let look_past = this.levels[level].look_past_preferences;
        if let Some(taint) = first_obstacle(&self.pools[pool].taints, &this.pod, look_past) {
            return Eliminated::Taint(taint.clone());
        }
        if !this.levels[level].any_host {
            let asked = Requirement::is_in(
                HOSTNAME,
                this.pod
                    .spec
                    .node_selector
                    .iter()
                    .filter(|(key, _)| &**key == HOSTNAME)
                    .map(|(_, value)| value.clone()),
            );
            return Eliminated::Requirements(Incompatible::Undefined(Box::new(asked)));
        }
        let Some(req) = self.template_for(class, level, pool) else {
            let offered = self.universe.requirements(self.pools[pool].req);
            let asked = self.universe.requirements(wanted);
            let disagreement = offered.compatible_claim(&asked, self.universe.schema()).err();
            let unknown = || Incompatible::Undefined(Box::new(Requirement::exists(labels::NODEPOOL)));
            return Eliminated::Requirements(disagreement.unwrap_or_else(unknown));
        };
        if let Some(limit) = self.limited(pass, pool) {
            return limit;
        }
        let demand = self.demand(class, level);
        let rows = pass.within_limits(self, pool);
        let min_values = self.pools[pool].min_values.clone();
        let none = Amounts::new();
        let target = Target { pool, rows: &rows, used: &none, min_values: &min_values, held: &[], now: None };
        let host = CLAIMS + pass.claims.len();
        match pass.fit_target(self, class, &demand, host, req, &target) {
            Err(Blocked { refusal: Some((_, Refusal::MinValues { key, wanted, found })), .. }) => {
                Eliminated::MinValues { key: self.universe.name(key).clone(), wanted, found }
            }
            Err(Blocked { group: Some(group), refusal: None, .. }) => {
                let group = &self.topology.groups[group].is;
                Eliminated::Topology { kind: group.kind.as_str(), key: self.universe.name(group.key).clone() }
            }
            Err(Blocked { refusal, .. }) => {
                self.types_lost(class, pool, refusal.map_or(req, |(narrowed, _)| narrowed))
            }
            // The pod would fit a claim of its own now: it was refused for what the pass looked like before.
            Ok(_) => self.types_lost(class, pool, req),
        }
    }

    /// The limit that leaves no type, if there is one.
    fn limited(&self, pass: &Pass, pool: usize) -> Option<Eliminated> {
        let limits = &self.pools[pool].model.limits;
        let (left, nodes) = &pass.left[pool];
        if let (Some(left), Some(limit)) = (nodes, limits.nodes)
            && *left <= 0
        {
            return Some(Eliminated::Limit {
                resource: "nodes".into(),
                usage: limit.saturating_sub(*left),
                limit,
            });
        }
        if !pass.within_limits(self, pool).is_empty() {
            return None;
        }
        let exceeded = |(limit, left): (&super::pools::Limit, &i64)| {
            let rows = &self.pools[pool].rows;
            rows.iter().all(|row| get(&row.capacity, limit.resource) > *left).then(|| Eliminated::Limit {
                resource: limit.name.clone(),
                usage: limit.limit.saturating_sub(*left),
                limit: limit.limit,
            })
        };
        let first = self.pools[pool].limits.iter().zip(left).find_map(exceeded);
        first.or_else(|| {
            let (limit, left) = self.pools[pool].limits.iter().zip(left).next()?;
            let usage = limit.limit.saturating_sub(*left);
            Some(Eliminated::Limit { resource: limit.name.clone(), usage, limit: limit.limit })
        })
    }

    /// How many types each filter took.
    fn types_lost(&mut self, class: usize, pool: usize, req: Req) -> Eliminated {
        let this = &self.classes[class];
        let ports = &this.pod.spec.host_ports;
        let rows = &self.pools[pool].rows;
        if !ports.is_empty()
            && let Some(port) =
                ports.iter().find(|port| rows.iter().all(|row| clash(std::slice::from_ref(port), &row.ports)))
        {
            return Eliminated::HostPort(port.port);
        }
        let catalog = self.snapshot.catalog(&self.pools[pool].model.name).cloned().unwrap_or_default();
        let (mut allowed, mut large_enough, mut available) = (0, 0, 0);
        let mut least: Option<Amounts> = None;
        for instance_type in &catalog.instance_types {
            let described = self.universe.req(&instance_type.requirements);
            if !agrees(&self.universe, described, req) {
                continue;
            }
            allowed += 1;
            let of_type = |row: &&super::pools::Row| row.instance_type.name == instance_type.name;
            let rows: Vec<_> = self.pools[pool].rows.iter().filter(of_type).collect();
            let fits = if rows.is_empty() {
                fits_free(&this.requests, &self.resources.amounts(&instance_type.allocatable()))
            } else {
                rows.iter().any(|row| fits_free(&this.requests, &row.free))
            };
            if let Some(row) = rows.first() {
                least = Some(least.map_or_else(
                    || row.daemons.clone(),
                    |mut least| {
                        update(&mut least, &row.daemons, i64::min);
                        least
                    },
                ));
            }
            large_enough += usize::from(fits);
            let offered =
                rows.iter().any(|row| row.offers.iter().any(|offer| agrees(&self.universe, offer.req, req)));
            available += usize::from(fits && offered);
        }
        let mut requests = this.requests.clone();
        update(&mut requests, &least.unwrap_or_default(), i64::saturating_add);
        Eliminated::InstanceTypes {
            total: catalog.instance_types.len(),
            allowed,
            large_enough,
            available,
            requests: self.resources.resources(&requests),
        }
    }
}

//! Why a class of pods has no place: for each pool the first constraint that eliminated it, and what would help.

mod near;
mod nodes;

use self::near::Lost;
use super::{
    Solver,
    amounts::{Amounts, fits_free, get, update},
    bits::Bits,
    claim::{Refusal, clash},
    contradiction,
    intern::{Req, Side},
    nodes::first_obstacle,
    on_claim::{Blocked, Target},
    pass::Pass,
    pools::{Row, agrees},
    topology::GroupKind,
};
use crate::scheduling::ids::{
    DomainId, Id, InstanceTypeId, LevelId, NewClaimId, NodePoolId, PodClassId, TopologyGroupId,
};
use crate::{
    model::{
        Incompatible, InstanceType, Requirement,
        labels::{self, HOSTNAME},
        pod::HostPort,
    },
    scheduling::{Eliminated, Nearest, PoolVerdict, Unplaced},
};

/// The field that `matchFields` can name; no label is called so.
const FIELD_NAME: &str = "metadata.name";

impl Solver {
    /// Why no place was found for a class, at its last level of relaxation.
    pub(super) fn explain(&mut self, pass: &Pass, class: PodClassId) -> Unplaced {
        if let Some(refused) = &self.classes[class].refused {
            return refused.clone();
        }
        if let Some(problem) = pass.claim_problem(class) {
            return Unplaced::Claims(Box::new(problem.clone()));
        }
        // Missing devices end the search at the level that misses them.
        let level =
            if self.classes[class].claims_devices() { LevelId::FIRST } else { self.last_level(class) };
        if let Some(why) = self.restriction(class, level) {
            return Unplaced::Invalid(why.into());
        }
        // Where a pool was stopped, people look for a node of it.
        let stopped = self.snapshot.pools.iter().filter(|pool| !pool.deleting && !pool.is_static());
        let stopped = stopped.filter_map(|pool| {
            let eliminated = Eliminated::Halted(pool.halted.clone()?);
            Some(PoolVerdict { pool: pool.name.clone(), eliminated })
        });
        let stopped: Vec<PoolVerdict> = stopped.collect();
        if self.pools.is_empty() && stopped.is_empty() {
            return Unplaced::NoPools;
        }
        let pools = self.pools.ids();
        let verdict = |pool: NodePoolId| PoolVerdict {
            pool: self.pools[pool].model.name.clone(),
            eliminated: self.eliminated(pass, class, level, pool),
        };
        Unplaced::NoPoolFits(pools.map(verdict).chain(stopped).collect())
    }

    /// The last level of relaxation that does not contradict itself.
    pub(super) fn last_level(&mut self, class: PodClassId) -> LevelId {
        let nowhere = self.universe.key(contradiction::NOWHERE);
        let sound = |level: &super::compile::Level| self.universe.get(level.req, nowhere).is_none();
        self.classes[class].levels.iter().rposition(sound).map_or(LevelId::FIRST, Id::new)
    }

    /// A label that is asked for and that no pool can give, because users may not set it.
    fn restriction(&self, class: PodClassId, level: LevelId) -> Option<String> {
        let asked = self.universe.requirements(self.classes[class].levels[level].req);
        let schema = self.universe.schema();
        asked.iter().filter(|wanted| !wanted.allows_missing()).find_map(|wanted| {
            let key = wanted.key();
            if &**key == FIELD_NAME {
                return Some(
                    "node affinity by matchFields names one node: no new node can have its name".to_owned(),
                );
            }
            schema.restriction(key).filter(|_| &**key != HOSTNAME)
        })
    }

    fn eliminated(&mut self, pass: &Pass, class: PodClassId, level: LevelId, pool: NodePoolId) -> Eliminated {
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
            return Eliminated::Requirements { why: self.host(class), meant: None };
        }
        let Some(req) = self.template_for(class, level, pool) else {
            return self.disagreement(pool, wanted);
        };
        if let Some(why) = self.unreachable(class, req) {
            return Eliminated::Volumes(why);
        }
        if let Some(limit) = self.exhausted_nodes(pass, pool) {
            return limit;
        }
        let rows = pass.within_limits(self, pool);
        let all = Bits::full(self.pools[pool].rows.len());
        let blocked = match self.try_rows(pass, class, level, pool, req, &all) {
            Ok(fitting) if rows != all => match self.exceeded(pass, pool, &fitting) {
                Some(limit) => return limit,
                None => Blocked::default(),
            },
            // The pod would fit a claim of its own now: it was refused for what the pass looked like before.
            Ok(_) => Blocked::default(),
            Err(blocked) => blocked,
        };
        match blocked {
            Blocked { refusal: Some((_, Refusal::MinValues { key, wanted, found })), .. } => {
                Eliminated::MinValues { key: self.universe.name(key).clone(), wanted, found }
            }
            Blocked { refusal: Some((at, Refusal::Devices)), .. } => match pass.device_shortage() {
                Some(shortage) => Eliminated::Devices(Box::new(shortage)),
                None => self.types_lost(class, pool, at),
            },
            Blocked { group: Some(group), refusal: None, .. } => self.crowded(group),
            Blocked { refusal, .. } => {
                self.types_lost(class, pool, refusal.map_or(req, |(narrowed, _)| narrowed))
            }
        }
    }

    /// Which rows a new claim for the class would have, among `rows`.
    fn try_rows(
        &mut self,
        pass: &Pass,
        class: PodClassId,
        level: LevelId,
        pool: NodePoolId,
        req: Req,
        rows: &Bits<InstanceTypeId>,
    ) -> Result<Bits<InstanceTypeId>, Blocked> {
        let demand = self.demand(class, level);
        let min_values = self.pools[pool].min_values.clone();
        let none = Amounts::new();
        let target = Target { pool, rows, used: &none, min_values: &min_values, held: &[], now: None };
        let host = NewClaimId::new(pass.claims.len().max(pass.once)).into();
        let fit = pass.fit_target(self, class, &demand, host, req, &target)?;
        // What lost nothing has all that there were.
        Ok(fit.rows.unwrap_or_else(|| rows.clone()))
    }

    /// The host that is asked for: no new node has its name.
    fn host(&self, class: PodClassId) -> Incompatible {
        let selector = &self.classes[class].pod.spec.node_selector;
        let asked = selector.iter().filter(|(key, _)| &**key == HOSTNAME).map(|(_, value)| value.clone());
        Incompatible::Undefined(Box::new(Requirement::is_in(HOSTNAME, asked)))
    }

    /// Where pool and pod disagree about labels.
    fn disagreement(&self, pool: NodePoolId, wanted: Req) -> Eliminated {
        let offered = self.universe.requirements(self.pools[pool].req);
        let asked = self.universe.requirements(wanted);
        let disagreement = offered.compatible_claim(&asked, self.universe.schema()).err();
        let unknown = || Incompatible::Undefined(Box::new(Requirement::exists(labels::NODEPOOL)));
        let why = disagreement.unwrap_or_else(unknown);
        let known = self.universe.schema().well_known.iter().chain(offered.iter().map(Requirement::key));
        let meant = match &why {
            Incompatible::Undefined(wanted) => near::nearest(wanted.key(), known).cloned(),
            Incompatible::Disjoint { .. } => None,
        };
        Eliminated::Requirements { why, meant }
    }

    /// Why none of the places where the volumes of a class can be is a place of the pool.
    fn unreachable(&mut self, class: PodClassId, req: Req) -> Option<Incompatible> {
        let alternatives = self.classes[class].alternatives.clone();
        if alternatives.iter().any(|places| self.universe.meet(req, *places, Side::Claim).is_some()) {
            return None;
        }
        let offered = self.universe.requirements(req);
        let asked = self.universe.requirements(*alternatives.first()?);
        offered.compatible_claim(&asked, self.universe.schema()).err()
    }

    fn exhausted_nodes(&self, pass: &Pass, pool: NodePoolId) -> Option<Eliminated> {
        let limit = self.pools[pool].model.limits.nodes?;
        let left = pass.left[pool].1?;
        (left <= 0).then(|| Eliminated::Limit {
            resource: "nodes".into(),
            usage: limit.saturating_sub(left),
            limit,
            needed: 1_i64.saturating_sub(left),
        })
    }

    /// The limit that the cheapest way out would have to raise: of the rows that hold the pod, the one that exceeds the
    /// fewest limits, and of those the one that exceeds the first of them by least.
    fn exceeded(&self, pass: &Pass, pool: NodePoolId, fitting: &Bits<InstanceTypeId>) -> Option<Eliminated> {
        let limits = &self.pools[pool].limits;
        let excess = |row: InstanceTypeId| {
            let capacity = &self.row(pool, row).capacity;
            let over = limits.iter().zip(&pass.left[pool].0).enumerate().filter_map(|(at, (limit, left))| {
                let needed = get(capacity, limit.resource).saturating_sub(*left);
                (needed > 0).then_some((at, needed))
            });
            let over: Vec<(usize, i64)> = over.collect();
            over.first().map(|first| (over.len(), *first))
        };
        let (_, (at, needed)) = fitting.iter().filter_map(excess).min()?;
        let (limit, left) = (limits.get(at)?, pass.left[pool].0.get(at)?);
        let usage = limit.limit.saturating_sub(*left);
        Some(Eliminated::Limit { resource: limit.name.clone(), usage, limit: limit.limit, needed })
    }

    /// The topology group that leaves no domain, with its counters.
    fn crowded(&self, group: TopologyGroupId) -> Eliminated {
        let group = self.counted(group);
        let count = |value: &u32| {
            (self.universe.text(group.is.key, *value).clone(), group.count(DomainId::of_value(*value)))
        };
        Eliminated::Topology {
            kind: group.is.kind.as_str(),
            key: self.universe.name(group.is.key).clone(),
            unused: group.is.kind == GroupKind::Affinity && group.is_unused(),
            // Of several that keep a pod away, any may be the last: what it counts says little.
            counts: match group.is.kind {
                GroupKind::Anti => Vec::new(),
                GroupKind::Spread { .. } | GroupKind::Affinity => group.domains.iter().map(count).collect(),
            },
        }
    }

    /// How many types each filter took, and what comes nearest.
    fn types_lost(&mut self, class: PodClassId, pool: NodePoolId, req: Req) -> Eliminated {
        let this = &self.classes[class];
        let ports = &this.pod.spec.host_ports;
        if !ports.is_empty() {
            let of_pool = self.pools[pool].rows.iter();
            let rows: Vec<&Row> = of_pool.filter(|row| agrees(&self.universe, row.req, req)).collect();
            let taken = |port: &&HostPort| {
                !rows.is_empty() && rows.iter().all(|row| clash(std::slice::from_ref(*port), &row.ports))
            };
            if let Some(port) = ports.iter().find(taken) {
                return Eliminated::HostPort(port.port);
            }
        }
        let catalog = self.snapshot.catalog(&self.pools[pool].model.name).cloned().unwrap_or_default();
        let asked = this.requests.clone();
        let mut lost = Lost::default();
        for instance_type in &catalog.instance_types {
            let described = self.universe.req(&instance_type.requirements);
            if !agrees(&self.universe, described, req) {
                continue;
            }
            let rows: Vec<&Row> =
                self.pools[pool].rows.iter().filter(|row| row.is_of(instance_type)).collect();
            let whole = self.resources.amounts(&instance_type.allocatable());
            let free: Vec<&Amounts> =
                if rows.is_empty() { vec![&whole] } else { rows.iter().map(|row| &row.free).collect() };
            let fits = free.iter().any(|free| fits_free(&asked, free));
            for free in free {
                lost.see(free, instance_type);
            }
            if let Some(row) = rows.first() {
                lost.see_daemons(&row.daemons);
            }
            let offered =
                rows.iter().any(|row| row.offers.iter().any(|offer| agrees(&self.universe, offer.req, req)));
            lost.allowed += 1;
            lost.large_enough += usize::from(fits);
            lost.available += usize::from(fits && offered);
        }
        let nearest = match (lost.allowed, lost.large_enough) {
            (0, _) => self.refused_by_all(&catalog.instance_types, req),
            (_, 0) => self.shortage(&asked, &lost),
            _ => Nearest::Offering,
        };
        let mut requests = asked;
        update(&mut requests, &lost.daemons.unwrap_or_default(), i64::saturating_add);
        Eliminated::InstanceTypes {
            total: catalog.instance_types.len(),
            allowed: lost.allowed,
            large_enough: lost.large_enough,
            available: lost.available,
            requests: self.resources.resources(&requests),
            nearest: Box::new(nearest),
        }
    }

    /// The first requirement that no type meets, or that they meet only without the others.
    fn refused_by_all(&mut self, types: &[std::sync::Arc<InstanceType>], req: Req) -> Nearest {
        let described: Vec<Req> = types.iter().map(|t| self.universe.req(&t.requirements)).collect();
        let refused = self.universe.sets(req).iter().find(|(key, set)| {
            described.iter().all(|known| {
                self.universe.get(*known, *key).is_some_and(|known| !self.universe.agree(*key, set, known))
            })
        });
        let Some((key, _)) = refused else { return Nearest::Combination };
        let name = self.universe.name(*key).clone();
        self.universe
            .requirements(req)
            .get(&name)
            .map_or(Nearest::Combination, |wanted| Nearest::Requirement(Box::new(wanted.clone())))
    }

    /// The first resource of which no allowed type leaves enough.
    fn shortage(&self, asked: &Amounts, lost: &Lost) -> Nearest {
        let Some((slot, most, instance_type)) = lost.first_short(asked) else { return Nearest::Combination };
        Nearest::Resource { name: self.resources.name(slot), asked: get(asked, slot), most, instance_type }
    }
}

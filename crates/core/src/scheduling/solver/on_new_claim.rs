//! Pods onto new NodeClaims: those of this pass, and new ones.

use std::sync::Arc;

use super::{
    Solver, allowed_domains,
    allowed_domains::{Demand, Nowhere},
    amounts::{Amounts, fits, get, update},
    bits::Bits,
    claim::{Ask, Claim, Fit, Refusal, clash},
    intern::{Key, Req, Set, Side},
    pass::{Outcome, Pass},
    placement::Placement,
    pod_classes::Level,
    tables::Tables,
    topology::GroupKind,
};
use crate::scheduling::ids::{
    DomainId, InstanceTypeId, LevelId, NewClaimId, NodeId, NodePoolId, PodClassId, PodId, ReservationId,
    TopologyGroupId,
};

/// What a pod is tried on: a claim as it stands, or a new one of a pool.
pub(super) struct Target<'a> {
    /// The node that it is to groups by hostname.
    pub(super) host: DomainId,
    pub(super) pool: NodePoolId,
    pub(super) rows: &'a Bits<InstanceTypeId>,
    pub(super) used: &'a Amounts,
    pub(super) min_values: &'a [(Key, u32)],
    pub(super) held: &'a [ReservationId],
    /// Requirements and smallest amounts of a claim that exists.
    pub(super) now: Option<(Req, &'a Amounts)>,
}

/// Why a target does not take a pod.
#[derive(Debug, Default)]
pub(super) struct Blocked {
    /// Whether that will not change within the pass.
    pub(super) lasting: bool,
    /// The topology group that left no domain.
    pub(super) group: Option<TopologyGroupId>,
    /// What refused the first option that topology allowed.
    pub(super) refusal: Option<(Req, Refusal)>,
}

impl Pass {
    /// Whether a new NodeClaim that nothing but its size and the domains that are left may close takes a pod.
    pub(super) fn try_claim(
        &mut self,
        solver: &mut Solver,
        class: PodClassId,
        level: LevelId,
        demand: &Demand,
        at: NewClaimId,
    ) -> bool {
        self.probes += 1;
        let this = &solver.tables.classes[class];
        let Level { req, compatibility, .. } = this.levels[level];
        let claim = &self.claims[at];
        let hopeless = !fits(&claim.used, &this.requests, &claim.envelope)
            || clash(&this.pod.spec.host_ports, &claim.ports);
        let met = if hopeless { None } else { solver.tables.universe.meet(claim.req, req, Side::Claim) };
        let Some(met) = met else {
            solver.placement.reject(compatibility, at);
            return false;
        };
        if met == claim.req
            && demand.is_free()
            && this.wants_room_only()
            && solver.tables.reservations.names.is_empty()
            && fits(&claim.used, &this.requests, &claim.floor)
        {
            // Nothing is lost: the claim stays what it is.
            self.take_plain(solver, class, at);
            return true;
        }
        let claim = &self.claims[at];
        let target = Target {
            host: at.into(),
            pool: claim.pool,
            rows: &claim.rows,
            used: &claim.used,
            min_values: &claim.min_values,
            held: &claim.reserved,
            now: Some((claim.req, &claim.floor)),
        };
        match self.fit_target(&mut solver.tables, &solver.placement, class, demand, met, &target) {
            Ok(fit) => {
                self.take_claim(solver, class, at, fit);
                true
            }
            Err(Blocked { lasting, .. }) => {
                if lasting {
                    solver.placement.reject(compatibility, at);
                }
                false
            }
        }
    }

    /// Tries the alternatives of volumes and topology in turn.
    pub(super) fn fit_target(
        &self,
        tables: &mut Tables,
        placement: &Placement,
        class: PodClassId,
        demand: &Demand,
        req: Req,
        target: &Target<'_>,
    ) -> Result<Fit, Blocked> {
        let mut blocked = Blocked { lasting: true, ..Blocked::default() };
        let more = tables.classes[class].requests.clone();
        let pod = Arc::clone(&tables.classes[class].pod);
        for position in 0..tables.classes[class].alternatives.len() {
            let alternative = tables.classes[class].alternatives[position];
            let Some(reachable) = tables.universe.meet(req, alternative, Side::Claim) else {
                continue;
            };
            let options = match allowed_domains::narrow(tables, placement, demand, target.host, reachable) {
                Ok(options) => options,
                Err(Nowhere(group)) => {
                    blocked.lasting = false;
                    blocked.group = blocked.group.or(Some(group));
                    continue;
                }
            };
            for option in options {
                let ask = Ask {
                    pool: target.pool,
                    req: option,
                    rows: target.rows,
                    used: target.used,
                    more: &more,
                    ports: &pod.spec.host_ports,
                    min_values: target.min_values,
                    held: target.held,
                    left: &self.reservations,
                    now: target.now,
                    purpose: self.purpose,
                };
                match tables.fit(&ask) {
                    Ok(fit) => match self.devices_on_claim(tables, class, (demand, target.host), &ask, fit) {
                        Ok(fit) => return Ok(fit),
                        Err(refusal) => {
                            blocked.lasting = false;
                            blocked.refusal = blocked.refusal.or(Some((option, refusal)));
                        }
                    },
                    Err(refusal) => {
                        // What topology narrowed, or a reservation, may look different later.
                        blocked.lasting &= option == reachable
                            && refusal == Refusal::Rows
                            && tables.reservations.names.is_empty();
                        blocked.refusal = blocked.refusal.or(Some((option, refusal)));
                    }
                }
            }
        }
        Err(blocked)
    }

    fn take_claim(&mut self, solver: &mut Solver, class: PodClassId, at: NewClaimId, fit: Fit) {
        let claim = &mut self.claims[at];
        let before = claim.req;
        let this = &solver.tables.classes[class];
        update(&mut claim.used, &this.requests, i64::saturating_add);
        claim.ports.extend(this.pod.spec.host_ports.iter().cloned());
        for released in claim.reserved.iter().filter(|id| !fit.reserved.contains(id)) {
            self.reservations[*released] += 1;
        }
        for taken in fit.reserved.iter().filter(|id| !claim.reserved.contains(id)) {
            self.reservations[*taken] = self.reservations[*taken].saturating_sub(1);
        }
        if let Some(rows) = fit.rows
            && rows != claim.rows
        {
            (claim.envelope, claim.floor) = solver.tables.pools[claim.pool].ranks.bounds(&rows, &claim.used);
            claim.rows = rows;
        }
        claim.req = fit.req;
        claim.min_values = fit.min_values;
        claim.relaxed |= fit.relaxed;
        claim.reserved = fit.reserved;
        if before != fit.req || claim.label_sets.is_empty() {
            self.regroup(at, before);
            self.settle(solver, at, before);
        }
        self.settle_devices(&solver.tables, at, fit.grant);
        self.count_pod(solver, class, at);
    }

    /// Takes a pod that changes nothing of a claim but the room that is left.
    fn take_plain(&mut self, solver: &mut Solver, class: PodClassId, at: NewClaimId) {
        update(&mut self.claims[at].used, &solver.tables.classes[class].requests, i64::saturating_add);
        self.count_pod(solver, class, at);
    }

    /// Counts a pod of a class on a claim.
    fn count_pod(&mut self, solver: &mut Solver, class: PodClassId, at: NewClaimId) {
        let label_set = solver.tables.classes[class].label_set;
        for position in 0..solver.tables.topology.label_sets[label_set].groups.len() {
            let group = solver.tables.topology.label_sets[label_set].groups[position];
            self.count_claim(solver, group, at, false, 1);
        }
        for position in 0..solver.tables.classes[class].keeps_away.len() {
            let group = solver.tables.classes[class].keeps_away[position];
            self.count_claim(solver, group, at, true, 1);
        }
        let label_sets = &mut self.claims[at].label_sets;
        match label_sets.iter_mut().find(|(known, _)| *known == label_set) {
            Some((_, count)) => *count += 1,
            None => label_sets.push((label_set, 1)),
        }
    }

    /// Counts the pods of a claim in the domains that its last narrowing has fixed.
    fn settle(&self, solver: &mut Solver, at: NewClaimId, before: Req) {
        let (after, pool) = (self.claims[at].req, self.claims[at].pool);
        if before == after || self.claims[at].label_sets.is_empty() {
            return;
        }
        for (label_set, count) in self.claims[at].label_sets.clone() {
            for position in 0..solver.tables.topology.label_sets[label_set].groups.len() {
                let group = solver.tables.topology.label_sets[label_set].groups[position];
                let is = &solver.tables.topology.groups[group].is;
                let fixed = |req: Req| solver.tables.universe.get(req, is.key).and_then(Set::single);
                if solver.tables.topology.groups[group].by_hostname
                    || is.kind == GroupKind::Anti
                    || fixed(before).is_some()
                {
                    continue;
                }
                if let Some(domain) = fixed(after)
                    && solver.tables.counts_in(group, pool, after)
                {
                    solver.placement.count(group, DomainId::of_value(domain), false, i64::from(count));
                }
            }
        }
    }

    fn count_claim(
        &self,
        solver: &mut Solver,
        group: TopologyGroupId,
        at: NewClaimId,
        owners: bool,
        by: i64,
    ) {
        let (req, pool) = (self.claims[at].req, self.claims[at].pool);
        let this = &solver.tables.topology.groups[group];
        let (key, kind) = (this.is.key, this.is.kind);
        if this.by_hostname {
            if solver.tables.counts_in(group, pool, req) {
                solver.placement.count(group, at.into(), owners, by);
            }
            return;
        }
        let fixed = solver.tables.universe.get(req, key).and_then(Set::single);
        if let Some(domain) = fixed {
            if solver.tables.counts_in(group, pool, req) {
                solver.placement.count(group, DomainId::of_value(domain), owners, by);
            }
        } else if kind == GroupKind::Anti {
            if solver.tables.universe.get(req, key).is_none() && !solver.tables.universe.is_well_known(key) {
                return;
            }
            let domains = Arc::clone(&this.domains);
            for domain in solver.tables.possible(req, key, &domains) {
                solver.placement.count(group, domain, owners, by);
            }
        }
    }

    pub(super) fn try_new(
        &mut self,
        solver: &mut Solver,
        pod: PodId,
        class: PodClassId,
        level: LevelId,
        demand: &Demand,
    ) -> Outcome {
        let at = self.claims.next_id();
        let host = at.into();
        for pool in solver.tables.pools.ids() {
            self.probes += 1;
            let Some(req) = solver.tables.template_for(class, level, pool) else { continue };
            if self.left[pool].1.is_some_and(|nodes| nodes <= 0) {
                continue;
            }
            let rows = self.within_limits(&solver.tables, pool);
            let min_values = solver.tables.pools[pool].min_values.clone();
            let none = Amounts::new();
            let on = |rows| Target {
                host,
                pool,
                rows,
                used: &none,
                min_values: &min_values,
                held: &[],
                now: None,
            };
            let small = self.preferred(solver, pool, &rows);
            let preferred = small.as_ref().and_then(|rows| {
                self.fit_target(&mut solver.tables, &solver.placement, class, demand, req, &on(rows))
                    .ok()
                    .filter(|fit| !fit.relaxed)
            });
            let fit = match preferred {
                Some(fit) => Ok(fit),
                None => {
                    self.fit_target(&mut solver.tables, &solver.placement, class, demand, req, &on(&rows))
                }
            };
            let fit = match fit {
                Ok(fit) => fit,
                Err(Blocked { refusal: Some((_, Refusal::Reserved)), .. }) => return Outcome::Reserved,
                Err(_) => continue,
            };
            self.charge(solver, pool, fit.rows.as_ref().unwrap_or(&rows));
            self.claims.push(Claim {
                pool,
                req: super::intern::ANY,
                used: Amounts::new(),
                rows: Bits::default(),
                envelope: Amounts::new(),
                floor: Amounts::new(),
                pods: smallvec::smallvec![pod],
                label_sets: smallvec::SmallVec::new(),
                ports: Vec::new(),
                min_values: smallvec::SmallVec::new(),
                relaxed: false,
                reserved: smallvec::SmallVec::new(),
            });
            self.take_claim(solver, class, at, fit);
            self.candidate_order.put(at, self.tier(at));
            return Outcome::Placed;
        }
        Outcome::Failed
    }

    /// Whether a node is not excluded.
    pub(super) fn is_there(&self, node: NodeId) -> bool {
        !self.gone.has(node)
    }

    /// The rows of a pool of which one more stays within every limit.
    pub(super) fn within_limits(&self, tables: &Tables, pool: NodePoolId) -> Bits<InstanceTypeId> {
        let rows = &tables.pools[pool].rows;
        let limits = &tables.pools[pool].limits;
        if limits.is_empty() {
            return Bits::full(rows.len());
        }
        let within = |capacity: &Amounts| {
            limits.iter().zip(&self.left[pool].0).all(|(limit, left)| get(capacity, limit.resource) <= *left)
        };
        rows.entries().filter(|(_, row)| within(&row.capacity)).map(|(at, _)| at).collect()
    }

    /// Charges a new claim with the largest that it may become.
    pub(super) fn charge(&mut self, solver: &Solver, pool: NodePoolId, rows: &Bits<InstanceTypeId>) {
        let (left, nodes) = &mut self.left[pool];
        for (left, limit) in left.iter_mut().zip(&solver.tables.pools[pool].limits) {
            let of_row = |at| get(&solver.tables.row(pool, at).capacity, limit.resource);
            *left = left.saturating_sub(rows.iter().map(of_row).max().unwrap_or(0));
        }
        if let Some(nodes) = nodes {
            *nodes -= 1;
        }
    }
}

//! Places pods on new NodeClaims: those of this pass, and another one.

use crate::scheduling::{
    greedy::{
        pass::{Outcome, Pass},
        place::Greedy,
    },
    ids::{DomainId, Host, NewClaimId, PodId, TopologyGroupId},
    placement::{
        Placement,
        allowed_domains::{NoDomain, TopologyDemand},
        claim::{Claim, Fit, FitRequest, Refusal, Target, clash, fit},
        domains::Domains,
    },
    tables::{
        Tables,
        amounts::{Amounts, fits, update},
        intern::{Req, Set, Side},
        pod_classes::{Class, Level},
        topology::GroupKind,
    },
};

/// Why a new NodeClaim does not take a pod.
#[derive(Debug, Default)]
pub(crate) struct Blocked {
    /// Whether that cannot change within the pass.
    pub(crate) lasting: bool,
    /// The topology group that left no domain.
    pub(crate) group: Option<TopologyGroupId>,
    /// What refused the first option that topology allowed.
    pub(crate) refusal: Option<(Req, Refusal)>,
    /// Whether any option lacks devices.
    pub(crate) lacks_devices: bool,
}

impl Pass {
    /// Tries the alternatives of volumes and topology in turn.
    pub(crate) fn fit_target(
        &self,
        tables: &Tables,
        placement: &Placement,
        demand: &TopologyDemand,
        req: Req,
        target: &Target<'_>,
    ) -> Result<Fit, Blocked> {
        let class = &tables.classes[demand.class];
        let mut blocked = Blocked { lasting: true, ..Blocked::default() };
        for alternative in &class.alternatives {
            let Some(reachable) = tables.universe.meet(req, *alternative, Side::Claim) else {
                continue;
            };
            let options = match Domains::new(tables, placement).narrow(demand, target.host, reachable) {
                Ok(options) => options,
                Err(NoDomain(group)) => {
                    blocked.lasting = false;
                    blocked.group = blocked.group.or(Some(group));
                    continue;
                }
            };
            for option in options {
                let request = FitRequest {
                    target: *target,
                    req: option,
                    class,
                    remaining: &self.reservations,
                    purpose: self.purpose,
                };
                let fit = fit(tables, &request).and_then(|fit| match self.devices.as_deref() {
                    Some(devices) if class.claims_devices() => {
                        devices.fit_claim(tables, demand, &request, fit)
                    }
                    _ => Ok(fit),
                });
                match fit {
                    Ok(fit) => return Ok(fit),
                    Err(refusal) => {
                        // A refusal by topology, by a reservation or for lack of devices may not last.
                        blocked.lasting &= option == reachable
                            && refusal == Refusal::Rows
                            && tables.reservations.is_empty()
                            && !class.claims_devices();
                        blocked.lacks_devices |= matches!(refusal, Refusal::Devices(_));
                        blocked.refusal = blocked.refusal.or(Some((option, refusal)));
                    }
                }
            }
        }
        Err(blocked)
    }
}

impl Greedy<'_> {
    /// Places a pod on a new NodeClaim of the pass, if that can take it.
    pub(super) fn try_claim(&mut self, demand: &TopologyDemand, claim_id: NewClaimId) -> Outcome {
        let tables = self.tables;
        self.pass.probes += 1;
        let this = &tables.classes[demand.class];
        let Level { req, compatibility, .. } = this.levels[demand.level];
        let claim = &self.pass.claims[claim_id];
        let hopeless = !fits(&claim.used, &this.requests, &claim.envelope)
            || clash(&this.pod.spec.host_ports, &claim.ports);
        let met = if hopeless { None } else { tables.universe.meet(claim.req, req, Side::Claim) };
        let Some(met) = met else {
            self.placement.reject(compatibility, claim_id);
            return Outcome::Failed;
        };
        if met == claim.req
            && demand.is_free()
            && this.wants_room_only()
            && tables.reservations.is_empty()
            && fits(&claim.used, &this.requests, &claim.floor)
        {
            // No row is lost: nothing of the claim changes but the room that is left.
            update(&mut self.pass.claims[claim_id].used, &this.requests, i64::saturating_add);
            self.count_pod(this, claim_id);
            return Outcome::Placed;
        }
        let target = Target {
            host: claim_id.into(),
            pool: claim.pool,
            rows: &claim.rows,
            used: &claim.used,
            min_values: &claim.min_values,
            held: &claim.reserved,
            current: Some((claim.req, &claim.floor)),
        };
        match self.pass.fit_target(tables, self.placement, demand, met, &target) {
            Ok(fit) => {
                self.take_claim(this, claim_id, fit);
                Outcome::Placed
            }
            Err(Blocked { lasting, lacks_devices, .. }) => {
                if lasting {
                    self.placement.reject(compatibility, claim_id);
                }
                Outcome::refused(lacks_devices)
            }
        }
    }

    fn take_claim(&mut self, this: &Class, claim_id: NewClaimId, fit: Fit) {
        let (tables, pass) = (self.tables, &mut *self.pass);
        let claim = &mut pass.claims[claim_id];
        let before = claim.req;
        update(&mut claim.used, &this.requests, i64::saturating_add);
        claim.ports.extend(this.pod.spec.host_ports.iter().cloned());
        for released in claim.reserved.iter().filter(|id| !fit.reserved.contains(id)) {
            pass.reservations[*released] += 1;
        }
        for taken in fit.reserved.iter().filter(|id| !claim.reserved.contains(id)) {
            pass.reservations[*taken] = pass.reservations[*taken].saturating_sub(1);
        }
        if let Some(rows) = fit.rows
            && rows != claim.rows
        {
            (claim.envelope, claim.floor) = tables.pools[claim.pool].ranks.bounds(&rows);
            claim.rows = rows;
        }
        claim.req = fit.req;
        claim.min_values = fit.min_values;
        claim.relaxed |= fit.relaxed;
        claim.reserved = fit.reserved;
        claim.holds_devices |= fit.grant.is_some();
        if before != fit.req || claim.label_sets.is_empty() {
            pass.regroup(claim_id, before);
            self.count_fixed(claim_id, before);
        }
        if let Some(devices) = &mut self.pass.devices {
            devices.take(Host::NewClaim(claim_id), fit.grant, Some(&self.pass.claims[claim_id]));
        }
        self.count_pod(this, claim_id);
    }

    /// Counts a pod of a class on a claim.
    fn count_pod(&mut self, this: &Class, claim_id: NewClaimId) {
        for group in &self.tables.topology.label_sets[this.label_set].groups {
            self.count_claim(*group, claim_id, false);
        }
        for group in &this.keeps_away {
            self.count_claim(*group, claim_id, true);
        }
        let label_sets = &mut self.pass.claims[claim_id].label_sets;
        match label_sets.iter_mut().find(|(known, _)| *known == this.label_set) {
            Some((_, count)) => *count += 1,
            None => label_sets.push((this.label_set, 1)),
        }
    }

    /// Counts the pods of a claim in the domains that its last narrowing has fixed.
    fn count_fixed(&mut self, claim_id: NewClaimId, before: Req) {
        let (tables, Claim { req: after, pool, label_sets, .. }) = (self.tables, &self.pass.claims[claim_id]);
        if before == *after {
            return;
        }
        for (label_set, count) in label_sets {
            for group_id in tables.topology.label_sets[*label_set].groups.iter().copied() {
                let group = &tables.topology.groups[group_id];
                let fixed = |req: Req| tables.universe.get(req, group.spec.key).and_then(Set::single);
                if group.by_hostname || group.spec.kind == GroupKind::Anti || fixed(before).is_some() {
                    continue;
                }
                if let Some(domain) = fixed(*after)
                    && tables.counts_in(group_id, *pool, *after)
                {
                    self.placement.count(group_id, DomainId::of_value(domain), false, i64::from(*count));
                }
            }
        }
    }

    /// Counts a pod of a claim for a group, in every domain that the claim may be in where `owners` keep away from others.
    fn count_claim(&mut self, group_id: TopologyGroupId, claim_id: NewClaimId, owners: bool) {
        let (tables, Claim { req, pool, .. }) = (self.tables, &self.pass.claims[claim_id]);
        let group = &tables.topology.groups[group_id];
        let key = group.spec.key;
        if group.by_hostname {
            if tables.counts_in(group_id, *pool, *req) {
                self.placement.count(group_id, claim_id.into(), owners, 1);
            }
        } else if let Some(domain) = tables.universe.get(*req, key).and_then(Set::single) {
            if tables.counts_in(group_id, *pool, *req) {
                self.placement.count(group_id, DomainId::of_value(domain), owners, 1);
            }
        } else if group.spec.kind == GroupKind::Anti
            && (tables.universe.get(*req, key).is_some() || tables.universe.is_well_known(key))
        {
            for domain in tables.possible(*req, key, &group.domains) {
                self.placement.count(group_id, domain, owners, 1);
            }
        }
    }

    /// Places a pod on another new NodeClaim.
    pub(super) fn try_new(&mut self, pod: PodId, demand: &TopologyDemand) -> Outcome {
        let (tables, pass) = (self.tables, &mut *self.pass);
        let claim_id = pass.claims.next_id();
        let host = claim_id.into();
        let mut lacks_devices = false;
        for pool in tables.pools.ids() {
            pass.probes += 1;
            let Some(req) = tables.template_for(demand.class, demand.level, pool) else { continue };
            if pass.limits.allows_no_node(pool) {
                continue;
            }
            let rows = pass.limits.rows_within(tables, pool);
            let min_values = &tables.pools[pool].min_values;
            let none = Amounts::new();
            let fit = |rows| {
                let target = Target { host, pool, rows, used: &none, min_values, held: &[], current: None };
                pass.fit_target(tables, self.placement, demand, req, &target)
            };
            let small = pass.preferred(tables, pool, &rows);
            let preferred = small.as_ref().and_then(|rows| fit(rows).ok().filter(|fit| !fit.relaxed));
            let fit = match preferred.map_or_else(|| fit(&rows), Ok) {
                Ok(fit) => fit,
                Err(Blocked { refusal: Some((_, Refusal::Reserved)), .. }) => return Outcome::Reserved,
                Err(blocked) => {
                    lacks_devices |= blocked.lacks_devices;
                    continue;
                }
            };
            let charged = pass.limits.charge(tables, pool, fit.rows.as_ref().unwrap_or(&rows));
            pass.claims.push(Claim { pods: smallvec::smallvec![pod], charged, ..Claim::new(pool) });
            self.take_claim(&tables.classes[demand.class], claim_id, fit);
            self.pass.candidate_order.put(claim_id, self.pass.tier(claim_id));
            return Outcome::Placed;
        }
        Outcome::refused(lacks_devices)
    }
}

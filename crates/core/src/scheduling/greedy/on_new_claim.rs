//! Places pods on new NodeClaims: those of this pass, and another one.

use crate::scheduling::{
    greedy::pass::{Outcome, Pass},
    ids::{
        DomainId, InstanceTypeId, NewClaimId, NodeId, NodePoolId, PodClassId, PodId, ReservationId,
        TopologyGroupId,
    },
    placement::{
        Placement,
        allowed_domains::{self, NoDomain, TopologyDemand},
        claim::{Claim, Fit, FitRequest, Refusal, clash, fit},
        devices::devices_on_claim,
    },
    tables::{
        Tables,
        amounts::{Amounts, fits, update},
        bits::Bits,
        intern::{Key, Req, Set, Side},
        pod_classes::Level,
        topology::GroupKind,
    },
};

/// A new NodeClaim that a pod is tried on: one of the pass, or another one of a pool.
pub(crate) struct Target<'a> {
    /// The node that it is to groups by hostname.
    pub(crate) host: DomainId,
    pub(crate) pool: NodePoolId,
    pub(crate) rows: &'a Bits<InstanceTypeId>,
    pub(crate) used: &'a Amounts,
    pub(crate) min_values: &'a [(Key, u32)],
    pub(crate) held: &'a [ReservationId],
    /// Requirements and smallest amounts of a claim that exists.
    pub(crate) current: Option<(Req, &'a Amounts)>,
}

/// Why a new NodeClaim does not take a pod.
#[derive(Debug, Default)]
pub(crate) struct Blocked {
    /// Whether that cannot change within the pass.
    pub(crate) lasting: bool,
    /// The topology group that left no domain.
    pub(crate) group: Option<TopologyGroupId>,
    /// What refused the first option that topology allowed.
    pub(crate) refusal: Option<(Req, Refusal)>,
}

impl Pass {
    /// Tries a pod on a new NodeClaim of the pass.
    pub(crate) fn try_claim(
        &mut self,
        tables: &Tables,
        placement: &mut Placement,
        demand: &TopologyDemand,
        claim_id: NewClaimId,
    ) -> bool {
        let TopologyDemand { class, level, .. } = *demand;
        self.probes += 1;
        let this = &tables.classes[class];
        let Level { req, compatibility, .. } = this.levels[level];
        let claim = &self.claims[claim_id];
        let hopeless = !fits(&claim.used, &this.requests, &claim.envelope)
            || clash(&this.pod.spec.host_ports, &claim.ports);
        let met = if hopeless { None } else { tables.universe.meet(claim.req, req, Side::Claim) };
        let Some(met) = met else {
            placement.reject(compatibility, claim_id);
            return false;
        };
        if met == claim.req
            && demand.is_free()
            && this.wants_room_only()
            && tables.reservations.names.is_empty()
            && fits(&claim.used, &this.requests, &claim.floor)
        {
            // No row is lost: the claim stays unchanged.
            self.take_plain(tables, placement, class, claim_id);
            return true;
        }
        let claim = &self.claims[claim_id];
        let target = Target {
            host: claim_id.into(),
            pool: claim.pool,
            rows: &claim.rows,
            used: &claim.used,
            min_values: &claim.min_values,
            held: &claim.reserved,
            current: Some((claim.req, &claim.floor)),
        };
        match self.fit_target(tables, placement, demand, met, &target) {
            Ok(fit) => {
                self.take_claim(tables, placement, class, claim_id, fit);
                true
            }
            Err(Blocked { lasting, .. }) => {
                if lasting {
                    placement.reject(compatibility, claim_id);
                }
                false
            }
        }
    }

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
            let options = match allowed_domains::narrow(tables, placement, demand, target.host, reachable) {
                Ok(options) => options,
                Err(NoDomain(group)) => {
                    blocked.lasting = false;
                    blocked.group = blocked.group.or(Some(group));
                    continue;
                }
            };
            for option in options {
                let fit_request = FitRequest {
                    pool: target.pool,
                    req: option,
                    rows: target.rows,
                    used: target.used,
                    requests: &class.requests,
                    ports: &class.pod.spec.host_ports,
                    min_values: target.min_values,
                    held: target.held,
                    remaining: &self.reservations,
                    current: target.current,
                    purpose: self.purpose,
                };
                match fit(tables, &fit_request) {
                    Ok(fit) => match devices_on_claim(
                        self.devices.as_deref(),
                        tables,
                        (demand, target.host),
                        &fit_request,
                        fit,
                    ) {
                        Ok(fit) => return Ok(fit),
                        Err(refusal) => {
                            blocked.lasting = false;
                            blocked.refusal = blocked.refusal.or(Some((option, refusal)));
                        }
                    },
                    Err(refusal) => {
                        // A refusal by topology or by a reservation may not last.
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

    fn take_claim(
        &mut self,
        tables: &Tables,
        placement: &mut Placement,
        class: PodClassId,
        claim_id: NewClaimId,
        fit: Fit,
    ) {
        let claim = &mut self.claims[claim_id];
        let before = claim.req;
        let this = &tables.classes[class];
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
            (claim.envelope, claim.floor) = tables.pools[claim.pool].ranks.bounds(&rows, &claim.used);
            claim.rows = rows;
        }
        claim.req = fit.req;
        claim.min_values = fit.min_values;
        claim.relaxed |= fit.relaxed;
        claim.reserved = fit.reserved;
        if before != fit.req || claim.label_sets.is_empty() {
            self.regroup(claim_id, before);
            self.count_fixed(tables, placement, claim_id, before);
        }
        if let Some(devices) = &mut self.devices {
            devices.note_claim(tables, claim_id, &self.claims[claim_id], fit.grant);
        }
        self.count_pod(tables, placement, class, claim_id);
    }

    /// Takes a pod that changes nothing of a claim but the room that is left.
    fn take_plain(
        &mut self,
        tables: &Tables,
        placement: &mut Placement,
        class: PodClassId,
        claim_id: NewClaimId,
    ) {
        update(&mut self.claims[claim_id].used, &tables.classes[class].requests, i64::saturating_add);
        self.count_pod(tables, placement, class, claim_id);
    }

    /// Counts a pod of a class on a claim.
    fn count_pod(
        &mut self,
        tables: &Tables,
        placement: &mut Placement,
        class: PodClassId,
        claim_id: NewClaimId,
    ) {
        let label_set = tables.classes[class].label_set;
        for group in &tables.topology.label_sets[label_set].groups {
            self.count_claim(tables, placement, *group, claim_id, false);
        }
        for group in &tables.classes[class].keeps_away {
            self.count_claim(tables, placement, *group, claim_id, true);
        }
        let label_sets = &mut self.claims[claim_id].label_sets;
        match label_sets.iter_mut().find(|(known, _)| *known == label_set) {
            Some((_, count)) => *count += 1,
            None => label_sets.push((label_set, 1)),
        }
    }

    /// Counts the pods of a claim in the domains that its last narrowing has fixed.
    fn count_fixed(&self, tables: &Tables, placement: &mut Placement, claim_id: NewClaimId, before: Req) {
        let (after, pool) = (self.claims[claim_id].req, self.claims[claim_id].pool);
        if before == after || self.claims[claim_id].label_sets.is_empty() {
            return;
        }
        for (label_set, count) in &self.claims[claim_id].label_sets {
            for group in tables.topology.label_sets[*label_set].groups.iter().copied() {
                let spec = &tables.topology.groups[group].spec;
                let fixed = |req: Req| tables.universe.get(req, spec.key).and_then(Set::single);
                if tables.topology.groups[group].by_hostname
                    || spec.kind == GroupKind::Anti
                    || fixed(before).is_some()
                {
                    continue;
                }
                if let Some(domain) = fixed(after)
                    && tables.counts_in(group, pool, after)
                {
                    placement.count(group, DomainId::of_value(domain), false, i64::from(*count));
                }
            }
        }
    }

    fn count_claim(
        &self,
        tables: &Tables,
        placement: &mut Placement,
        group: TopologyGroupId,
        claim_id: NewClaimId,
        owners: bool,
    ) {
        let (req, pool) = (self.claims[claim_id].req, self.claims[claim_id].pool);
        let this = &tables.topology.groups[group];
        let (key, kind) = (this.spec.key, this.spec.kind);
        if this.by_hostname {
            if tables.counts_in(group, pool, req) {
                placement.count(group, claim_id.into(), owners, 1);
            }
            return;
        }
        let fixed = tables.universe.get(req, key).and_then(Set::single);
        if let Some(domain) = fixed {
            if tables.counts_in(group, pool, req) {
                placement.count(group, DomainId::of_value(domain), owners, 1);
            }
        } else if kind == GroupKind::Anti {
            if tables.universe.get(req, key).is_none() && !tables.universe.is_well_known(key) {
                return;
            }
            for domain in tables.possible(req, key, &this.domains) {
                placement.count(group, domain, owners, 1);
            }
        }
    }

    pub(crate) fn try_new(
        &mut self,
        tables: &Tables,
        placement: &mut Placement,
        pod: PodId,
        demand: &TopologyDemand,
    ) -> Outcome {
        let TopologyDemand { class, level, .. } = *demand;
        let claim_id = self.claims.next_id();
        let host = claim_id.into();
        for pool in tables.pools.ids() {
            self.probes += 1;
            let Some(req) = tables.template_for(class, level, pool) else { continue };
            if self.limits.allows_no_node(pool) {
                continue;
            }
            let rows = self.limits.rows_within(tables, pool);
            let min_values = &tables.pools[pool].min_values;
            let none = Amounts::new();
            let on = |rows| Target { host, pool, rows, used: &none, min_values, held: &[], current: None };
            let small = self.preferred(tables, pool, &rows);
            let preferred = small.as_ref().and_then(|rows| {
                self.fit_target(tables, placement, demand, req, &on(rows)).ok().filter(|fit| !fit.relaxed)
            });
            let fit = match preferred {
                Some(fit) => Ok(fit),
                None => self.fit_target(tables, placement, demand, req, &on(&rows)),
            };
            let fit = match fit {
                Ok(fit) => fit,
                Err(Blocked { refusal: Some((_, Refusal::Reserved)), .. }) => return Outcome::Reserved,
                Err(_) => continue,
            };
            let charged = self.limits.charge(tables, pool, fit.rows.as_ref().unwrap_or(&rows));
            self.claims.push(Claim { pods: smallvec::smallvec![pod], charged, ..Claim::new(pool) });
            self.take_claim(tables, placement, class, claim_id, fit);
            self.candidate_order.put(claim_id, self.tier(claim_id));
            return Outcome::Placed;
        }
        Outcome::Failed
    }

    /// Whether the pass may use a node.
    pub(crate) fn is_there(&self, node: NodeId) -> bool {
        !self.excluded.has(node)
    }
}

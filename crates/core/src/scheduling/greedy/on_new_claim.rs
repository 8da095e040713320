//! Pods onto new NodeClaims: those of this pass, and new ones.

use std::sync::Arc;

use crate::scheduling::{
    greedy::pass::{Outcome, Pass},
    ids::{
        DomainId, InstanceTypeId, NewClaimId, NodeId, NodePoolId, PodClassId, PodId, ReservationId,
        TopologyGroupId,
    },
    placement::{
        Placement,
        allowed_domains::{self, Demand, Nowhere},
        claim::{Ask, Claim, Fit, Refusal, clash, fit},
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

/// What a pod is tried on: a claim as it stands, or a new one of a pool.
pub(crate) struct Target<'a> {
    /// The node that it is to groups by hostname.
    pub(crate) host: DomainId,
    pub(crate) pool: NodePoolId,
    pub(crate) rows: &'a Bits<InstanceTypeId>,
    pub(crate) used: &'a Amounts,
    pub(crate) min_values: &'a [(Key, u32)],
    pub(crate) held: &'a [ReservationId],
    /// Requirements and smallest amounts of a claim that exists.
    pub(crate) now: Option<(Req, &'a Amounts)>,
}

/// Why a target does not take a pod.
#[derive(Debug, Default)]
pub(crate) struct Blocked {
    /// Whether that will not change within the pass.
    pub(crate) lasting: bool,
    /// The topology group that left no domain.
    pub(crate) group: Option<TopologyGroupId>,
    /// What refused the first option that topology allowed.
    pub(crate) refusal: Option<(Req, Refusal)>,
}

impl Pass {
    /// Whether a new NodeClaim that nothing but its size and the domains that are left may close takes a pod.
    pub(crate) fn try_claim(
        &mut self,
        tables: &mut Tables,
        placement: &mut Placement,
        demand: &Demand,
        at: NewClaimId,
    ) -> bool {
        let Demand { class, level, .. } = *demand;
        self.probes += 1;
        let this = &tables.classes[class];
        let Level { req, compatibility, .. } = this.levels[level];
        let claim = &self.claims[at];
        let hopeless = !fits(&claim.used, &this.requests, &claim.envelope)
            || clash(&this.pod.spec.host_ports, &claim.ports);
        let met = if hopeless { None } else { tables.universe.meet(claim.req, req, Side::Claim) };
        let Some(met) = met else {
            placement.reject(compatibility, at);
            return false;
        };
        if met == claim.req
            && demand.is_free()
            && this.wants_room_only()
            && tables.reservations.names.is_empty()
            && fits(&claim.used, &this.requests, &claim.floor)
        {
            // Nothing is lost: the claim stays what it is.
            self.take_plain(tables, placement, class, at);
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
        match self.fit_target(tables, placement, demand, met, &target) {
            Ok(fit) => {
                self.take_claim(tables, placement, class, at, fit);
                true
            }
            Err(Blocked { lasting, .. }) => {
                if lasting {
                    placement.reject(compatibility, at);
                }
                false
            }
        }
    }

    /// Tries the alternatives of volumes and topology in turn.
    pub(crate) fn fit_target(
        &self,
        tables: &mut Tables,
        placement: &Placement,
        demand: &Demand,
        req: Req,
        target: &Target<'_>,
    ) -> Result<Fit, Blocked> {
        let class = demand.class;
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
                match fit(tables, &ask) {
                    Ok(fit) => match devices_on_claim(
                        self.devices.as_deref(),
                        tables,
                        (demand, target.host),
                        &ask,
                        fit,
                    ) {
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

    fn take_claim(
        &mut self,
        tables: &mut Tables,
        placement: &mut Placement,
        class: PodClassId,
        at: NewClaimId,
        fit: Fit,
    ) {
        let claim = &mut self.claims[at];
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
            self.regroup(at, before);
            self.count_fixed(tables, placement, at, before);
        }
        if let Some(devices) = &mut self.devices {
            devices.note_claim(tables, at, &self.claims[at], fit.grant);
        }
        self.count_pod(tables, placement, class, at);
    }

    /// Takes a pod that changes nothing of a claim but the room that is left.
    fn take_plain(
        &mut self,
        tables: &mut Tables,
        placement: &mut Placement,
        class: PodClassId,
        at: NewClaimId,
    ) {
        update(&mut self.claims[at].used, &tables.classes[class].requests, i64::saturating_add);
        self.count_pod(tables, placement, class, at);
    }

    /// Counts a pod of a class on a claim.
    fn count_pod(
        &mut self,
        tables: &mut Tables,
        placement: &mut Placement,
        class: PodClassId,
        at: NewClaimId,
    ) {
        let label_set = tables.classes[class].label_set;
        for position in 0..tables.topology.label_sets[label_set].groups.len() {
            let group = tables.topology.label_sets[label_set].groups[position];
            self.count_claim(tables, placement, group, at, false, 1);
        }
        for position in 0..tables.classes[class].keeps_away.len() {
            let group = tables.classes[class].keeps_away[position];
            self.count_claim(tables, placement, group, at, true, 1);
        }
        let label_sets = &mut self.claims[at].label_sets;
        match label_sets.iter_mut().find(|(known, _)| *known == label_set) {
            Some((_, count)) => *count += 1,
            None => label_sets.push((label_set, 1)),
        }
    }

    /// Counts the pods of a claim in the domains that its last narrowing has fixed.
    fn count_fixed(&self, tables: &mut Tables, placement: &mut Placement, at: NewClaimId, before: Req) {
        let (after, pool) = (self.claims[at].req, self.claims[at].pool);
        if before == after || self.claims[at].label_sets.is_empty() {
            return;
        }
        for (label_set, count) in self.claims[at].label_sets.clone() {
            for position in 0..tables.topology.label_sets[label_set].groups.len() {
                let group = tables.topology.label_sets[label_set].groups[position];
                let is = &tables.topology.groups[group].is;
                let fixed = |req: Req| tables.universe.get(req, is.key).and_then(Set::single);
                if tables.topology.groups[group].by_hostname
                    || is.kind == GroupKind::Anti
                    || fixed(before).is_some()
                {
                    continue;
                }
                if let Some(domain) = fixed(after)
                    && tables.counts_in(group, pool, after)
                {
                    placement.count(group, DomainId::of_value(domain), false, i64::from(count));
                }
            }
        }
    }

    fn count_claim(
        &self,
        tables: &mut Tables,
        placement: &mut Placement,
        group: TopologyGroupId,
        at: NewClaimId,
        owners: bool,
        by: i64,
    ) {
        let (req, pool) = (self.claims[at].req, self.claims[at].pool);
        let this = &tables.topology.groups[group];
        let (key, kind) = (this.is.key, this.is.kind);
        if this.by_hostname {
            if tables.counts_in(group, pool, req) {
                placement.count(group, at.into(), owners, by);
            }
            return;
        }
        let fixed = tables.universe.get(req, key).and_then(Set::single);
        if let Some(domain) = fixed {
            if tables.counts_in(group, pool, req) {
                placement.count(group, DomainId::of_value(domain), owners, by);
            }
        } else if kind == GroupKind::Anti {
            if tables.universe.get(req, key).is_none() && !tables.universe.is_well_known(key) {
                return;
            }
            let domains = Arc::clone(&this.domains);
            for domain in tables.possible(req, key, &domains) {
                placement.count(group, domain, owners, by);
            }
        }
    }

    pub(crate) fn try_new(
        &mut self,
        tables: &mut Tables,
        placement: &mut Placement,
        pod: PodId,
        demand: &Demand,
    ) -> Outcome {
        let Demand { class, level, .. } = *demand;
        let at = self.claims.next_id();
        let host = at.into();
        for pool in tables.pools.ids() {
            self.probes += 1;
            let Some(req) = tables.template_for(class, level, pool) else { continue };
            if self.limits.allows_no_node(pool) {
                continue;
            }
            let rows = self.limits.rows_within(tables, pool);
            let min_values = tables.pools[pool].min_values.clone();
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
            self.take_claim(tables, placement, class, at, fit);
            self.candidate_order.put(at, self.tier(at));
            return Outcome::Placed;
        }
        Outcome::Failed
    }

    /// Whether a node is not excluded.
    pub(crate) fn is_there(&self, node: NodeId) -> bool {
        !self.gone.has(node)
    }
}

//! Why a class of pods is unschedulable: for each NodePool the first constraint that eliminated it, and the nearest fix.

use std::time::Duration;

use crate::{
    model::{
        Incompatible, Requirement, ResourceName, Str,
        labels::{self, HOSTNAME},
        pod::HostPort,
    },
    scheduling::{
        explain::nearest::{self, FilteredTypes},
        greedy::{on_new_claim::Blocked, pass::Pass},
        ids::{DomainId, Id, InstanceTypeId, LevelId, NewClaimId, NodePoolId, PodClassId, TopologyGroupId},
        placement::{
            Placement,
            allowed_domains::TopologyDemand,
            claim::{Refusal, Target, clash},
            domains::Domains,
        },
        reason::{Eliminated, Nearest, PoolVerdict, Unplaced},
        tables::{
            Tables,
            amounts::{Amounts, fits_free, get, update},
            bits::Bits,
            intern::{Req, Side},
            pod_classes::{Class, Level},
            pools::{Row, agrees},
            relaxation::first_obstacle,
            topology::GroupKind,
        },
    },
};

/// The field that `matchFields` can name; no label is called so.
const FIELD_NAME: &str = "metadata.name";

/// A class of pods at the end of a pass, at its last level of relaxation.
#[derive(Clone, Copy)]
pub(super) struct Explained<'a> {
    pub(super) tables: &'a Tables,
    pub(super) placement: &'a Placement,
    pub(super) pass: &'a Pass,
    pub(super) class: &'a Class,
    pub(super) demanded: (PodClassId, LevelId),
}

impl<'a> Explained<'a> {
    /// A class at the last level that does not contradict itself.
    pub(super) fn new(
        tables: &'a Tables,
        placement: &'a Placement,
        pass: &'a Pass,
        class_id: PodClassId,
    ) -> Self {
        let class = &tables.classes[class_id];
        let level = class.levels.iter().rposition(|level| !level.contradicts);
        let level = level.map_or(LevelId::FIRST, Id::new);
        Self { tables, placement, pass, class, demanded: (class_id, level) }
    }

    pub(super) fn level(&self) -> &'a Level {
        &self.class.levels[self.demanded.1]
    }

    /// The topology that it obeys.
    pub(super) fn demand(&self) -> TopologyDemand {
        Domains::new(self.tables, self.placement).demand(self.demanded.0, self.demanded.1)
    }

    /// Why it is unschedulable.
    pub(super) fn verdict(mut self) -> Unplaced {
        let Self { tables, pass, class, .. } = self;
        if let Some(refused) = &class.refused {
            return refused.clone();
        }
        if let Some(problem) = pass.claim_problem(self.demanded.0) {
            return problem;
        }
        // Missing devices end the search at the level that misses them.
        if class.claims_devices() {
            self.demanded.1 = LevelId::FIRST;
        }
        if let Some(why) = self.restriction() {
            return Unplaced::Invalid(why.into());
        }
        // Halted NodePools are reported as well.
        let stopped = tables.snapshot.pools.iter().filter(|pool| !pool.deleting && !pool.is_static());
        let stopped = stopped.filter_map(|pool| {
            let eliminated = Eliminated::Halted(pool.halted.clone()?);
            Some(PoolVerdict { pool: pool.name.clone(), eliminated })
        });
        let stopped: Vec<PoolVerdict> = stopped.collect();
        if tables.pools.is_empty() && stopped.is_empty() {
            return Unplaced::NoPools;
        }
        let verdict = |pool: NodePoolId| PoolVerdict {
            pool: tables.pools[pool].model.name.clone(),
            eliminated: self.eliminated(pool),
        };
        let mut verdicts: Vec<PoolVerdict> = tables.pools.ids().map(verdict).chain(stopped).collect();
        // Events name the first ones only: a NodePool that the pod excludes itself must not hide the one that it selects.
        verdicts.sort_by_key(|verdict| verdict.eliminated.is_by_labels_or_taints());
        Unplaced::NoPoolFits(verdicts.into())
    }

    /// A required label that no NodePool can have, because users may not set it.
    fn restriction(&self) -> Option<String> {
        let required = self.tables.universe.requirements(self.level().req);
        let schema = self.tables.universe.schema();
        required.iter().filter(|wanted| !wanted.allows_missing()).find_map(|wanted| {
            let key = wanted.key();
            if &**key == FIELD_NAME {
                return Some(
                    "node affinity by matchFields names one node: no new node can have its name".to_owned(),
                );
            }
            let restriction = schema.restriction(key).filter(|_| &**key != HOSTNAME)?;
            // Before the list of all labels, which is long.
            let restricted = " is restricted";
            Some(match nearest::nearest(key, schema.well_known.iter()) {
                Some(meant) => {
                    restriction.replacen(restricted, &format!("{restricted} (did you mean {meant:?}?)"), 1)
                }
                None => restriction,
            })
        })
    }

    /// The first constraint that eliminated a pool.
    fn eliminated(&self, pool: NodePoolId) -> Eliminated {
        let Self { tables, pass, class, .. } = *self;
        if tables.pools[pool].rows.is_empty() {
            let catalog = tables.snapshot.catalog(&tables.pools[pool].model.name);
            let missing = catalog.and_then(|catalog| catalog.missing.clone());
            let req = tables.template_for(self.demanded.0, self.demanded.1, pool);
            let next = || Some(self.next_start(pool, req?)?.to_string().as_str().into());
            return Eliminated::NoInstanceTypes(missing.or_else(next));
        }
        let level = self.level();
        if let Some(taint) =
            first_obstacle(&tables.pools[pool].taints, &class.pod, level.look_past_preferences)
        {
            return Eliminated::Taint(taint.clone());
        }
        if !level.any_host {
            return Eliminated::Requirements { why: self.host(), meant: None };
        }
        let Some(req) = tables.template_for(self.demanded.0, self.demanded.1, pool) else {
            return disagreement(tables, pool, level.req);
        };
        if let Some(why) = self.unreachable(req) {
            return Eliminated::Volumes(why);
        }
        if let Some(limit) = exhausted_nodes(tables, pass, pool) {
            return limit;
        }
        let rows = pass.limits.rows_within(tables, pool);
        let all = Bits::full(tables.pools[pool].rows.len());
        let blocked = match self.try_rows(pool, req, &all) {
            Ok(fitting) if rows != all => match exceeded(tables, pass, pool, &fitting) {
                Some(limit) => return limit,
                None => Blocked::default(),
            },
            // The pod would fit a claim of its own now: it was refused earlier in the pass.
            Ok(_) => Blocked::default(),
            Err(blocked) => blocked,
        };
        match blocked {
            Blocked { refusal: Some((_, Refusal::MinValues { key, wanted, distinct })), .. } => {
                Eliminated::MinValues { key: tables.universe.name(key).clone(), wanted, available: distinct }
            }
            Blocked { refusal: Some((_, Refusal::Devices(shortage))), .. } => Eliminated::Devices(shortage),
            Blocked { refusal: Some((_, Refusal::SharedCapacity)), .. } => Eliminated::SharedCapacity,
            Blocked { group: Some(group), refusal: None, .. } => crowded(tables, self.placement, group),
            Blocked { refusal, .. } => {
                self.filtered_types(pool, refusal.map_or(req, |(narrowed, _)| narrowed))
            }
        }
    }

    /// Which rows a new claim would have, among `rows`.
    fn try_rows(
        &self,
        pool: NodePoolId,
        req: Req,
        rows: &Bits<InstanceTypeId>,
    ) -> Result<Bits<InstanceTypeId>, Blocked> {
        let Self { tables, pass, .. } = *self;
        let none = Amounts::new();
        let host = NewClaimId::new(pass.claims.len().max(pass.claims_before)).into();
        let min_values = &tables.pools[pool].min_values;
        let target = Target { host, pool, rows, used: &none, min_values, held: &[], current: None };
        let fit = pass.fit_target(tables, self.placement, &self.demand(), req, &target)?;
        // What lost nothing has all that there were.
        Ok(fit.rows.unwrap_or_else(|| rows.clone()))
    }

    /// The required hostname: no new node has it.
    fn host(&self) -> Incompatible {
        let selector = self.class.pod.spec.node_selector.iter();
        let hostnames = selector.filter(|(key, _)| &**key == HOSTNAME).map(|(_, value)| value.clone());
        Incompatible::Undefined(Box::new(Requirement::is_in(HOSTNAME, hostnames)))
    }

    /// Why none of the places where its volumes can be is a place of a pool with some requirements.
    fn unreachable(&self, req: Req) -> Option<Incompatible> {
        let universe = &self.tables.universe;
        let alternatives = &self.class.alternatives;
        if alternatives.iter().any(|places| universe.meet(req, *places, Side::Claim).is_some()) {
            return None;
        }
        let required = universe.requirements(*alternatives.first()?);
        universe.requirements(req).compatible_claim(&required, universe.schema()).err()
    }

    /// The capacity that starts next, of types and offerings that some requirements allow and that are large enough.
    fn next_start(&self, pool: NodePoolId, req: Req) -> Option<Nearest> {
        let Self { tables, class, .. } = *self;
        let now = tables.snapshot.taken_at;
        let this = &tables.pools[pool];
        let catalog = tables.snapshot.catalog(&this.model.name)?;
        let requirements = tables.universe.requirements(req);
        let types =
            catalog.instance_types.iter().zip(&this.type_reqs).filter(|(instance_type, described)| {
                let whole = tables.resources.known_amounts(&instance_type.allocatable());
                agrees(&tables.universe, **described, req) && fits_free(&class.requests, &whole)
            });
        let offerings = types.flat_map(|(instance_type, _)| &instance_type.offerings);
        let allowed = offerings.filter(|own| requirements.overlaps(&own.requirements));
        let ahead = allowed.filter_map(|own| own.scheduled.as_ref()).filter(|own| own.starts > now);
        let next = ahead.min_by(|a, b| a.starts.cmp(&b.starts).then_with(|| a.name.cmp(&b.name)))?;
        let after = Duration::try_from(next.starts.duration_since(now)).unwrap_or_default();
        Some(Nearest::Scheduled { name: next.name.clone(), starts: next.starts, after })
    }

    /// The number of instance types after each filter, and the nearest solution.
    fn filtered_types(&self, pool: NodePoolId, req: Req) -> Eliminated {
        let Self { tables, class, .. } = *self;
        let (universe, this) = (&tables.universe, &tables.pools[pool]);
        let ports = &class.pod.spec.host_ports;
        let allowed: Vec<&Row> = this.rows.iter().filter(|row| agrees(universe, row.req, req)).collect();
        let taken = |port: &&HostPort| {
            !allowed.is_empty() && allowed.iter().all(|row| clash(std::slice::from_ref(*port), &row.ports))
        };
        if let Some(port) = ports.iter().find(taken) {
            return Eliminated::HostPort(port.port);
        }
        let catalog = tables.snapshot.catalog(&this.model.name).cloned().unwrap_or_default();
        let mut lost = FilteredTypes::default();
        for (instance_type, described) in catalog.instance_types.iter().zip(&this.type_reqs) {
            if !agrees(universe, *described, req) {
                continue;
            }
            let rows: Vec<&Row> = this.rows.iter().filter(|row| row.is_of(instance_type)).collect();
            let whole = tables.resources.known_amounts(&instance_type.allocatable());
            let free: Vec<&Amounts> =
                if rows.is_empty() { vec![&whole] } else { rows.iter().map(|row| &row.free).collect() };
            let holds_daemons = rows.is_empty() || rows.iter().any(|row| row.short_for_daemons().is_none());
            let fits = holds_daemons && free.iter().any(|free| fits_free(&class.requests, free));
            for free in free {
                lost.record_free(free, instance_type);
            }
            if let Some(row) = rows.first() {
                lost.record_daemons(&row.daemons);
            }
            let mut offers = rows.iter().flat_map(|row| &row.offers);
            let offered = offers.any(|offer| agrees(universe, offer.req, req));
            lost.allowed += 1;
            lost.large_enough += usize::from(fits);
            lost.available += usize::from(fits && offered);
        }
        let nearest = match (lost.allowed, lost.large_enough) {
            (0, _) => refused_by_all(tables, pool, req),
            (_, 0) => {
                crowded_out(tables, &allowed).unwrap_or_else(|| shortage(tables, &class.requests, &lost))
            }
            _ if lost.available == 0 => self.next_start(pool, req).unwrap_or(Nearest::Offering),
            _ => Nearest::Offering,
        };
        let mut requests = class.requests.clone();
        update(&mut requests, &lost.daemons.unwrap_or_default(), i64::saturating_add);
        Eliminated::InstanceTypes {
            total: catalog.instance_types.len(),
            allowed: lost.allowed,
            large_enough: lost.large_enough,
            available: lost.available,
            requests: tables.resources.resources(&requests),
            nearest: Box::new(nearest),
        }
    }
}

/// Where pool and pod disagree about labels.
fn disagreement(tables: &Tables, pool: NodePoolId, wanted: Req) -> Eliminated {
    let offered = tables.universe.requirements(tables.pools[pool].req);
    let required = tables.universe.requirements(wanted);
    let disagreement = offered.compatible_claim(&required, tables.universe.schema()).err();
    let unknown = || Incompatible::Undefined(Box::new(Requirement::exists(labels::NODEPOOL)));
    let why = disagreement.unwrap_or_else(unknown);
    let known = tables.universe.schema().well_known.iter().chain(offered.iter().map(Requirement::key));
    let meant = match &why {
        Incompatible::Undefined(wanted) => nearest::nearest(wanted.key(), known).cloned(),
        Incompatible::Disjoint { wanted, offered } => {
            let offered = (!offered.is_complement()).then(|| offered.values());
            let known = offered.into_iter().flatten().chain(values_of_types(tables, pool, wanted.key()));
            nearest::nearest_value(wanted, known)
        }
    };
    Eliminated::Requirements { why, meant }
}

/// The values that the instance types of a NodePool have for a key.
fn values_of_types<'t>(
    tables: &'t Tables,
    pool: NodePoolId,
    key: &'t str,
) -> impl Iterator<Item = &'t Str> + Clone {
    let catalog = tables.snapshot.catalog(&tables.pools[pool].model.name);
    let types = catalog.into_iter().flat_map(|catalog| &catalog.instance_types);
    let described = types.filter_map(move |instance_type| instance_type.requirements.get(key));
    described.filter(|described| !described.is_complement()).flat_map(|described| described.values())
}

/// The first requirement that no type meets, or that they meet only without the others.
fn refused_by_all(tables: &Tables, pool: NodePoolId, req: Req) -> Nearest {
    let described = &tables.pools[pool].type_reqs;
    let refused = tables.universe.sets(req).iter().find(|(key, set)| {
        described.iter().all(|known| {
            tables.universe.get(*known, *key).is_some_and(|known| !tables.universe.agree(*key, set, known))
        })
    });
    let Some((key, _)) = refused else { return refused_together(tables, pool, req) };
    let name = tables.universe.name(*key).clone();
    let wanted = tables.universe.requirements(req).get(&name).cloned();
    wanted.map_or(Nearest::Combination, |wanted| {
        let meant = nearest::nearest_value(&wanted, values_of_types(tables, pool, &name));
        Nearest::Requirement { wanted: Box::new(wanted), meant }
    })
}

/// Requirements that no type meets together, without those that are not needed for that.
fn refused_together(tables: &Tables, pool: NodePoolId, req: Req) -> Nearest {
    let (universe, described) = (&tables.universe, &tables.pools[pool].type_reqs);
    let is_refused_by = |keys: &[_]| {
        described.iter().all(|known| {
            keys.iter().any(|(key, set)| {
                universe.get(*known, *key).is_some_and(|known| !universe.agree(*key, set, known))
            })
        })
    };
    let mut keys = universe.sets(req).to_vec();
    if !is_refused_by(&keys) {
        return Nearest::Combination;
    }
    for at in (0..keys.len()).rev() {
        let key = keys.remove(at);
        if !is_refused_by(&keys) {
            keys.insert(at, key);
        }
    }
    let all = universe.requirements(req);
    let wanted = keys.iter().filter_map(|(key, _)| all.get(universe.name(*key)).cloned()).collect();
    Nearest::Requirements(wanted)
}

/// The resource of which daemons request too much on each of some rows: that of the row that lacks least of its first one.
fn crowded_out(tables: &Tables, rows: &[&Row]) -> Option<Nearest> {
    let short = rows.iter().map(|row| row.short_for_daemons().map(|resource| (resource, *row)));
    let short = short.collect::<Option<Vec<_>>>()?;
    let (resource, row) =
        short.into_iter().min_by_key(|(resource, row)| (*resource, -get(&row.free, *resource)))?;
    Some(Nearest::Daemons {
        name: tables.resources.name(resource),
        missing: get(&row.free, resource).saturating_neg(),
        instance_type: row.instance_type.name.clone(),
    })
}

/// The first resource of which no allowed type leaves enough.
fn shortage(tables: &Tables, requests: &Amounts, lost: &FilteredTypes) -> Nearest {
    let Some((slot, most, instance_type)) = lost.first_short(requests) else { return Nearest::Combination };
    Nearest::Resource {
        name: tables.resources.name(slot),
        requested: get(requests, slot),
        most,
        instance_type,
    }
}

fn exhausted_nodes(tables: &Tables, pass: &Pass, pool: NodePoolId) -> Option<Eliminated> {
    let limit = tables.pools[pool].model.limits.nodes?;
    let remaining = pass.limits.nodes(pool)?;
    (remaining <= 0).then(|| Eliminated::Limit {
        resource: "nodes".into(),
        usage: limit.saturating_sub(remaining),
        limit,
        needed: 1_i64.saturating_sub(remaining),
        reserved: 0,
        claims: 0,
    })
}

/// The limit that the cheapest way out would have to raise: of the rows that hold the pod, the one that exceeds the
/// fewest limits, and of those the one that exceeds the first of them by least.
fn exceeded(
    tables: &Tables,
    pass: &Pass,
    pool: NodePoolId,
    fitting: &Bits<InstanceTypeId>,
) -> Option<Eliminated> {
    let limits = &tables.pools[pool].limits;
    let excess = |row: InstanceTypeId| {
        let capacity = &tables.row(pool, row).capacity;
        let over = limits.iter().zip(pass.limits.amounts(pool)).enumerate().filter_map(
            |(index, (limit, remaining))| {
                let needed = get(capacity, limit.resource).saturating_sub(*remaining);
                (needed > 0).then_some((index, needed))
            },
        );
        let over: Vec<(usize, i64)> = over.collect();
        over.first().map(|first| (over.len(), *first))
    };
    let (_, (index, needed)) = fitting.iter().filter_map(excess).min()?;
    let (limit, remaining) = (limits.get(index)?, pass.limits.amounts(pool).get(index)?);
    let usage = limit.limit.saturating_sub(*remaining);
    let (launched, claims) = launched(tables, pass, pool, &limit.name);
    let reserved = if claims == 0 { 0 } else { usage.saturating_sub(launched).max(0) };
    Some(Eliminated::Limit {
        resource: limit.name.clone(),
        usage,
        limit: limit.limit,
        needed,
        reserved,
        claims,
    })
}

/// What the launched nodes of a pool have of a resource, and how many NodeClaims of the pool are not launched yet, those that
/// the pass opens included.
fn launched(tables: &Tables, pass: &Pass, pool: NodePoolId, resource: &str) -> (i64, usize) {
    let (model, name) = (&tables.pools[pool].model, ResourceName::from(resource));
    let nodes = tables.snapshot.nodes.iter();
    let counted = nodes.filter(|node| {
        node.label(labels::NODEPOOL) == Some(&*model.name) && (model.limits.hard || !node.is_deleting())
    });
    let mut claims = pass.claims.iter().filter(|claim| claim.pool == pool).count();
    let mut sum: i64 = 0;
    for node in counted {
        match &node.at_most {
            Some(_) => claims += 1,
            None => sum = sum.saturating_add(node.charge().get(&name)),
        }
    }
    (sum, claims)
}

/// The topology group that leaves no domain, with its counters.
fn crowded(tables: &Tables, placement: &Placement, group: TopologyGroupId) -> Eliminated {
    let group = placement.counted(&tables.topology, group);
    let count = |value: &u32| {
        (tables.universe.text(group.spec.key, *value).clone(), group.count(DomainId::of_value(*value)))
    };
    Eliminated::Topology {
        kind: group.spec.kind.as_str(),
        key: tables.universe.name(group.spec.key).clone(),
        unused: group.spec.kind == GroupKind::Affinity && group.is_unused(),
        // Any of several anti-affinity groups may be the last: its counts mean little.
        counts: match group.spec.kind {
            GroupKind::Anti => Vec::new(),
            GroupKind::Spread { .. } | GroupKind::Affinity => group.domains.iter().map(count).collect(),
        },
    }
}

//! What topology leaves of the domains that a machine or claim could be in.

use smallvec::SmallVec;

use super::{
    Solver,
    compile::Owned,
    intern::{Key, Req, Set, Side, Value},
    topology::GroupKind,
};

/// More combinations of domains than this are not tried for one claim.
const MAX_COMBINATIONS: usize = 32;

/// The topology that a class obeys at one level, as the counters stand now.
#[derive(Debug)]
pub(super) struct Demand {
    /// Its own groups, each with the count of the emptiest domain.
    groups: SmallVec<[(Owned, i64); 2]>,
    /// Groups by which other pods keep it away.
    inverse: SmallVec<[usize; 2]>,
    /// Whether it may be the first of its affinity anywhere.
    bootstraps: bool,
}

/// The domains of one key that are left for a claim.
struct Choice {
    key: Key,
    domains: SmallVec<[Value; 8]>,
    /// Whether one of them has to be picked now.
    one: bool,
    group: usize,
}

impl Solver {
    /// The topology that a class obeys at a level.
    pub(super) fn demand(&self, class: usize, level: usize) -> Demand {
        let level = &self.classes[class].levels[level];
        let groups = level.groups.iter().map(|owned| {
            let allowed = self.spread_domains(level, owned.group);
            (*owned, self.topology.groups[owned.group].minimum(&self.universe, allowed))
        });
        let near = |owned: &&Owned| self.topology.groups[owned.group].is.kind == GroupKind::Affinity;
        let bootstraps = level
            .groups
            .iter()
            .filter(near)
            .all(|owned| owned.selects_itself && self.topology.groups[owned.group].is_unused());
        let kind = &self.topology.kinds[self.classes[class].kind];
        let inverse = kind.groups.iter().copied().filter(|group| self.topology.groups[*group].has_owners());
        Demand { groups: groups.collect(), inverse: inverse.collect(), bootstraps }
    }

    /// Whether the topology allows a pod on a machine whose labels are fixed.
    pub(super) fn obeys_on(&self, demand: &Demand, at: usize) -> bool {
        let domain = |group: usize| {
            let group = &self.topology.groups[group];
            if group.by_host {
                Some(at)
            } else {
                self.machines[at].label(group.is.key).map(|value| value as usize)
            }
        };
        let own = demand.groups.iter().all(|(owned, minimum)| {
            let group = &self.topology.groups[owned.group];
            match domain(owned.group) {
                Some(domain) => group.allows(domain, owned.selects_itself, *minimum, demand.bootstraps),
                None => group.is.kind == GroupKind::Anti,
            }
        });
        own && demand
            .inverse
            .iter()
            .all(|group| domain(*group).is_none_or(|domain| self.topology.groups[*group].unclaimed(domain)))
    }

    /// What the topology leaves of `req` for a pod on the claim that is machine `host` to it: alternatives, best first.
    /// Where it leaves nothing, the group that took the last.
    pub(super) fn narrow(
        &mut self,
        demand: &Demand,
        host: usize,
        req: Req,
    ) -> Result<SmallVec<[Req; 4]>, usize> {
        if demand.groups.is_empty() && demand.inverse.is_empty() {
            return Ok(smallvec::smallvec![req]);
        }
        let choices = self.choices(demand, host, req)?;
        let mut options: SmallVec<[Req; 4]> = smallvec::smallvec![req];
        for choice in choices {
            let narrower: SmallVec<[Req; 8]> = if choice.one {
                choice.domains.iter().map(|value| self.universe.only(choice.key, *value)).collect()
            } else {
                let set = Set::of(choice.domains.iter().copied());
                smallvec::smallvec![self.universe.conjunction(vec![(choice.key, set)])]
            };
            let mut combined: SmallVec<[Req; 4]> = SmallVec::new();
            for (option, with) in
                options.iter().flat_map(|option| narrower.iter().map(move |n| (*option, *n)))
            {
                if combined.len() == MAX_COMBINATIONS {
                    break;
                }
                combined.extend(self.universe.meet(option, with, Side::Claim));
            }
            if combined.is_empty() {
                return Err(choice.group);
            }
            options = combined;
        }
        Ok(options)
    }

    fn choices(&self, demand: &Demand, host: usize, req: Req) -> Result<SmallVec<[Choice; 2]>, usize> {
        let mut choices: SmallVec<[Choice; 2]> = SmallVec::new();
        for (owned, minimum) in &demand.groups {
            let group = &self.topology.groups[owned.group];
            let allows =
                |domain: usize| group.allows(domain, owned.selects_itself, *minimum, demand.bootstraps);
            if group.by_host {
                if !allows(host) {
                    return Err(owned.group);
                }
                continue;
            }
            let one = match group.is.kind {
                GroupKind::Spread { .. } => true,
                GroupKind::Affinity => demand.bootstraps,
                GroupKind::Anti => false,
            };
            self.restrict(&mut choices, owned.group, req, one, allows)?;
        }
        for group in &demand.inverse {
            let unclaimed = |domain: usize| self.topology.groups[*group].unclaimed(domain);
            if self.topology.groups[*group].by_host {
                if !unclaimed(host) {
                    return Err(*group);
                }
            } else {
                self.restrict(&mut choices, *group, req, false, unclaimed)?;
            }
        }
        Ok(choices)
    }

    /// Takes the domains that a group does not allow out of the choice of its key.
    fn restrict(
        &self,
        choices: &mut SmallVec<[Choice; 2]>,
        at: usize,
        req: Req,
        one: bool,
        allows: impl Fn(usize) -> bool,
    ) -> Result<(), usize> {
        let group = &self.topology.groups[at];
        let key = group.is.key;
        let set = self.universe.get(req, key);
        let keeps_away = group.is.kind == GroupKind::Anti;
        if keeps_away && set.is_none() && !self.universe.is_well_known(key) {
            // Without the label there is no domain to share.
            return Ok(());
        }
        let reachable = group.domains.iter().copied();
        let reachable = reachable.filter(|value| set.is_none_or(|set| self.universe.has(key, set, *value)));
        let mut total = 0;
        let mut left: SmallVec<[Value; 8]> =
            reachable.inspect(|_| total += 1).filter(|value| allows(*value as usize)).collect();
        if keeps_away && left.len() == total {
            return Ok(());
        }
        if matches!(group.is.kind, GroupKind::Spread { .. }) {
            left.sort_by_key(|value| group.count(*value as usize));
        }
        match choices.iter_mut().find(|choice| choice.key == key) {
            Some(choice) => {
                choice.domains.retain(|value| left.contains(value));
                choice.one |= one;
                choice.group = at;
                if choice.domains.is_empty() { Err(at) } else { Ok(()) }
            }
            None if left.is_empty() => Err(at),
            None => {
                choices.push(Choice { key, domains: left, one, group: at });
                Ok(())
            }
        }
    }
}

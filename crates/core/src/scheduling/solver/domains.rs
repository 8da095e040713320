//! Which domains a topology group has, and which of them machines and openings are in.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{
    Solver,
    bits::Bits,
    intern::{Key, Req, Side, Value},
    topology::{GroupKey, GroupKind, NodeFilter},
};
use crate::model::{Taint, taint::first_untolerated};

impl Solver {
    /// The group that `key` describes, with the pods that run counted.
    pub(super) fn group(&mut self, key: GroupKey) -> usize {
        if let Some(known) = self.topology.find(&key) {
            return known;
        }
        let by_host = key.key == self.hostname;
        let domains: Arc<[Value]> =
            if by_host { Arc::new([]) } else { self.registered_domains(key.key, key.filter.as_ref()) };
        let of_pools =
            if by_host { Bits::default() } else { self.offered(key.key, key.filter.as_ref()).collect() };
        let group = self.topology.add(key, by_host, domains, of_pools);
        for at in 0..self.machines.len() {
            self.count_kinds_for(group, at);
        }
        group
    }

    /// Counts the pods of a machine that a group selects.
    pub(super) fn count_kinds_for(&mut self, group: usize, at: usize) {
        let selected = |kind: &&(usize, u32)| self.topology.kinds[kind.0].groups.contains(&group);
        let selected: u32 = self.machines[at].kinds.iter().filter(selected).map(|(_, count)| *count).sum();
        if selected > 0 && self.counts_on(group, at) {
            for domain in self.machine_domains(group, at) {
                self.topology.count_base(group, domain, false, i64::from(selected));
            }
        }
    }

    /// The domains of a group that a machine may be in: one, unless its choice is open.
    pub(super) fn machine_domains(&self, group: usize, at: usize) -> SmallVec<[usize; 2]> {
        let group = &self.topology.groups[group];
        if group.by_host {
            return smallvec::smallvec![at];
        }
        let machine = &self.machines[at];
        match (machine.domain(&self.universe, group.is.key, machine.open), machine.open, group.is.kind) {
            (Some(value), _, _) => smallvec::smallvec![value as usize],
            (None, Some(open), GroupKind::Anti) => self.possible(open, group.is.key, &group.domains),
            _ => SmallVec::new(),
        }
    }

    /// Those of `domains` that a requirement set allows.
    pub(super) fn possible(&self, req: Req, key: Key, domains: &[Value]) -> SmallVec<[usize; 2]> {
        let set = self.universe.get(req, key);
        let allowed = |value: &&Value| set.is_none_or(|set| self.universe.has(key, set, **value));
        domains.iter().filter(allowed).map(|value| *value as usize).collect()
    }

    /// Whether pods on a machine count for a group.
    pub(super) fn counts_on(&mut self, group: usize, at: usize) -> bool {
        let Some(filter) = &self.topology.groups[group].is.filter else { return true };
        if filter.counts_all() {
            return true;
        }
        let filter = filter.clone();
        let machine = &self.machines[at];
        filter.alternatives.iter().any(|req| machine.satisfies(&mut self.universe, *req))
            && tolerates(&filter, &machine.taints)
    }

    /// Whether pods on a claim of a pool with these requirements count for a group.
    pub(super) fn counts_in(&mut self, group: usize, pool: usize, req: Req) -> bool {
        let Some(filter) = &self.topology.groups[group].is.filter else { return true };
        if filter.counts_all() {
            return true;
        }
        let filter = filter.clone();
        filter.alternatives.iter().any(|wanted| self.universe.meet(req, *wanted, Side::Claim).is_some())
            && tolerates(&filter, &self.pools[pool].taints)
    }

    /// The domains of a key that are known, by text: those that pools can create where the filter tolerates their
    /// taints, and those of machines that it lets through.
    pub(super) fn registered_domains(&mut self, key: Key, filter: Option<&NodeFilter>) -> Arc<[Value]> {
        let offered: Vec<usize> = self.offered(key, filter).collect();
        let mut found: Vec<Value> = offered.into_iter().map(super::intern::id).collect();
        for machine in self.machines.iter().filter(|machine| machine.usable) {
            let Some(value) = machine.domain(&self.universe, key, machine.open) else { continue };
            let counted = filter.is_none_or(|filter| {
                filter.alternatives.iter().any(|req| machine.satisfies(&mut self.universe, *req))
                    && tolerates(filter, &machine.taints)
            });
            if counted {
                found.push(value);
            }
        }
        found.sort_unstable();
        found.dedup();
        found.sort_by(|a, b| self.universe.text(key, *a).cmp(self.universe.text(key, *b)));
        found.into()
    }

    /// The values of a key that pools can create whose taints the filter tolerates.
    fn offered(&mut self, key: Key, filter: Option<&NodeFilter>) -> impl Iterator<Item = usize> {
        let all = self.pool_domains(key);
        let tolerated = |pool: usize| filter.is_none_or(|filter| tolerates(filter, &self.pools[pool].taints));
        let found: Vec<usize> =
            all.iter().filter(|(pool, _)| tolerated(*pool)).map(|(_, value)| *value as usize).collect();
        found.into_iter()
    }

    /// Values of a key that each pool can create.
    fn pool_domains(&mut self, key: Key) -> Arc<[(usize, Value)]> {
        if let Some(known) = self.domains.get(&key) {
            return Arc::clone(known);
        }
        let mut found = Vec::new();
        for (at, pool) in self.pools.iter().enumerate() {
            let template = self.universe.get(pool.req, key);
            let of_rows = pool.rows.iter().filter_map(|row| self.universe.get(row.req, key));
            let sets = of_rows.chain(template).filter(|set| !set.complement);
            let values = sets.flat_map(|set| set.values.iter().copied());
            let allowed = |value: &Value| template.is_none_or(|set| self.universe.has(key, set, *value));
            found.extend(values.filter(allowed).map(|value| (at, value)));
        }
        found.sort_unstable();
        found.dedup();
        let found: Arc<[(usize, Value)]> = found.into();
        self.domains.insert(key, Arc::clone(&found));
        found
    }
}

/// Whether the tolerations of a filter, where it has any, cover all taints.
fn tolerates(filter: &NodeFilter, taints: &[Taint]) -> bool {
    filter.tolerations.as_ref().is_none_or(|tolerations| first_untolerated(taints, tolerations).is_none())
}

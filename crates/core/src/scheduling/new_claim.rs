//! Narrowing a new NodeClaim after it was planned, as consolidation does when it demands a lower price.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    model::{
        InstanceType, Price, Requirement, Str,
        labels::{INSTANCE_TYPE, REQUESTED_DRA_DRIVERS},
    },
    scheduling::plan::{Chosen, NewClaim, PlannedClaim},
};

/// Whether a launch, which goes by list prices, would prefer an offering to the one that the plan chose although it counts as more: a
/// burstable type. Such types are not named, unless minValues may need them.
pub(super) fn is_preferred_against(
    chosen: Price,
    chosen_effective: Price,
    list: Price,
    effective: Price,
) -> bool {
    list <= chosen && effective > chosen_effective
}

impl NewClaim {
    /// Notes the devices for the claims of its pods. Drivers are named that have to publish devices on the node whatever it
    /// becomes: no node may wait for a driver that only another type would have needed.
    pub(super) fn claim_devices(&mut self, claims: Vec<PlannedClaim>) {
        if claims.is_empty() {
            return;
        }
        let named: BTreeSet<&Str> = self.instance_types.iter().map(|named| &named.name).collect();
        let drivers_of = |name: &Str| -> BTreeSet<Str> {
            let on = claims.iter().filter(|claim| claim.instance_types.contains(name));
            let devices = on.flat_map(|claim| &claim.devices).filter(|device| device.template);
            devices.map(|device| device.id.driver.clone()).collect()
        };
        let common =
            named.iter().map(|name| drivers_of(name)).reduce(|a, b| a.intersection(&b).cloned().collect());
        let drivers: Vec<Str> = common.unwrap_or_default().into_iter().collect();
        if !drivers.is_empty() {
            self.annotations.insert(REQUESTED_DRA_DRIVERS.into(), drivers.join(",").into());
        }
        self.claims = claims;
    }

    /// Keeps the instance types that `keep` accepts; requirements and choice follow.
    pub fn retain(&mut self, keep: impl Fn(&InstanceType) -> bool) {
        self.instance_types = self.instance_types.iter().filter(|known| keep(known)).cloned().collect();
        self.refresh();
    }

    /// Keeps the `count` cheapest instance types.
    pub fn retain_first(&mut self, count: usize) {
        self.instance_types = self.instance_types.iter().take(count).cloned().collect();
        self.refresh();
    }

    /// Makes order, requirements and choice follow from the instance types and the requirements: types without an
    /// available compatible offering go, the rest is sorted by the cheapest one, then by name. Prices are effective prices.
    pub fn refresh(&mut self) {
        let requirements = self.requirements.clone();
        let priced = self.instance_types.iter().filter_map(|instance_type| {
            let price = instance_type.cheapest(&requirements)?.price;
            Some((
                self.objective.effective(&self.pool, instance_type, price),
                price,
                Arc::clone(instance_type),
            ))
        });
        let mut priced: Vec<_> = priced.collect();
        priced.sort_by(|(a, _, first), (b, _, second)| a.cmp(b).then_with(|| first.name.cmp(&second.name)));
        let keeps_values = self.requirements.iter().any(|requirement| requirement.min_values().is_some());
        if let (Some(&(effective, price, _)), false) = (priced.first(), keeps_values) {
            priced.retain(|(counts, list, _)| !is_preferred_against(price, effective, *list, *counts));
        }
        let effective = priced.first().map(|(effective, ..)| *effective).unwrap_or_default();
        self.instance_types = priced.into_iter().map(|(.., instance_type)| instance_type).collect();
        let names = self.instance_types.iter().map(|instance_type| instance_type.name.clone());
        let min_values = self.requirements.get(INSTANCE_TYPE).and_then(Requirement::min_values);
        self.requirements.replace(Requirement::is_in(INSTANCE_TYPE, names).with_min_values(min_values));
        let cheapest =
            self.instance_types.first().and_then(|t| Some((t.name.clone(), t.cheapest(&requirements)?)));
        if let Some((instance_type, offering)) = cheapest {
            self.chosen = Chosen {
                instance_type,
                zone: offering.zone().cloned().unwrap_or_else(|| "".into()),
                capacity_type: offering.capacity_type().cloned().unwrap_or_else(|| "".into()),
                price: offering.price,
                effective,
            };
        }
    }

    /// The first key whose minValues `instance_types` cannot meet.
    #[must_use]
    pub fn unmet_min_values(&self, instance_types: &[Arc<InstanceType>]) -> Option<Str> {
        let unmet = self.requirements.iter().find(|requirement| {
            let Some(wanted) = requirement.min_values() else { return false };
            let values: BTreeSet<&Str> = instance_types
                .iter()
                .filter_map(|instance_type| instance_type.requirements.get(requirement.key()))
                .filter(|offered| !offered.is_complement())
                .flat_map(|offered| offered.values())
                .filter(|value| requirement.has(value))
                .collect();
            values.len() < usize::try_from(wanted).unwrap_or(usize::MAX)
        });
        unmet.map(|requirement| requirement.key().clone())
    }
}

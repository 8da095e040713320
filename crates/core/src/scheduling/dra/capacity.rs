//! What a claim takes of the capacities of a device (KEP-5075).

use std::collections::BTreeMap;

use crate::model::{
    Quantity, Str,
    device::{AllowedAmounts, Device, DeviceCapacity},
};

/// Amounts in nano units by capacity.
pub(crate) type Consumed = Vec<(Str, i128)>;

/// Whether a device has all that is asked for.
pub(crate) fn has(device: &Device, requested: &BTreeMap<Str, Quantity>) -> bool {
    requested.iter().all(|(name, amount)| device.capacity.get(name).is_some_and(|has| has.value >= *amount))
}

/// What is taken of a shared device; `None` where its policies do not allow what is asked for.
pub(crate) fn consumed(device: &Device, requested: &BTreeMap<Str, Quantity>) -> Option<Consumed> {
    let each = device.capacity.iter().map(|(name, capacity)| {
        let amount = taken(capacity, requested.get(name).copied())?;
        (amount >= 0).then(|| (name.clone(), amount))
    });
    each.collect()
}

fn taken(capacity: &DeviceCapacity, requested: Option<Quantity>) -> Option<i128> {
    let policy = capacity.policy.as_ref();
    let whole = || policy.and_then(|policy| policy.default).unwrap_or(capacity.value);
    let amount = requested.unwrap_or_else(whole).nanos();
    match policy.and_then(|policy| policy.allowed.as_ref()) {
        None => Some(amount),
        Some(AllowedAmounts::Values(values)) => {
            values.iter().map(|value| value.nanos()).filter(|value| *value >= amount).min()
        }
        Some(AllowedAmounts::Range { min, max, step }) => {
            let min = min.nanos();
            let amount = match step.map(Quantity::nanos).filter(|step| *step > 0) {
                Some(step) if amount > min => min + (amount - min + step - 1) / step * step,
                _ => amount.max(min),
            };
            (amount <= max.unwrap_or(capacity.value).nanos()).then_some(amount)
        }
    }
}

//! The capacity of the region.

use jiff::Timestamp;

use super::Inner;
use crate::calls::{
    AwsError, FleetKind, FleetRequest, Override, PlacementGroup, ReservationInfo, TemplateReservation,
};

/// Most instances of a spread placement group in one zone.
const SPREAD_MAX: usize = 7;

impl Inner {
    /// Refuses a request that names a missing launch template.
    pub(super) fn has_templates(&self, request: &FleetRequest) -> Result<(), AwsError> {
        let gone = |way: &&Override| !self.templates.contains_key(&way.template);
        let refused =
            |way: &Override| AwsError::new("InvalidLaunchTemplateName.NotFoundException", &way.template);
        request.overrides.iter().find(gone).map_or(Ok(()), |way| Err(refused(way)))
    }

    /// Whether EC2 knows the instance profile of a launch template by now.
    pub(super) fn knows_profile(&self, template: &str, now: Timestamp) -> bool {
        let profile = self.template_data.get(template).map(|data| &data.instance_profile);
        profile.and_then(|profile| self.unknown_profiles.get(profile)).is_none_or(|known_at| *known_at <= now)
    }

    fn is_dry(&self, zone: &str) -> bool {
        self.dry.contains("") || self.dry.contains(zone)
    }

    /// How many instances of an override can be launched, or EC2's code and message if none.
    pub(super) fn available_capacity(
        &self,
        kind: FleetKind,
        way: &Override,
    ) -> Result<usize, (&'static str, &'static str)> {
        const NONE: &str = "there is none";
        if !self.templates.contains_key(&way.template) {
            return Err(("InvalidLaunchTemplateName.NotFoundException", NONE));
        }
        if self.is_dry(&way.zone) {
            return Err(("InsufficientInstanceCapacity", NONE));
        }
        if self.launchable == Some(0) {
            return Err(("RequestLimitExceeded", "Request limit exceeded."));
        }
        let mut available = self.launchable.unwrap_or(usize::MAX);
        let data = self.template_data.get(&way.template);
        if data.is_some_and(|data| data.spot) != (kind == FleetKind::Spot) {
            return Err(("InvalidParameterValue", "spot requests have tags, and only they"));
        }
        if let Some(TemplateReservation::Only(id)) = data.and_then(|data| data.reservation.as_ref()) {
            let own = |known: &&ReservationInfo| {
                known.id == *id
                    && known.starts.is_none()
                    && known.instance_type == way.instance_type
                    && known.zone == way.zone
            };
            let left = self.reservations.iter().find(own).map_or(0, |known| known.available);
            available = available.min(usize::try_from(left).unwrap_or(usize::MAX));
            if available == 0 {
                return Err(("ReservationCapacityExceeded", NONE));
            }
        }
        let group = data.and_then(|data| data.placement.as_ref()).map(|(id, _)| id);
        let spread = |known: &&PlacementGroup| Some(&known.id) == group && known.strategy == "spread";
        if let Some(spread) = self.placement_groups.iter().find(spread) {
            let of_group = self.instances.values().filter(|instance| {
                let placed = instance.info.placement.as_ref().is_some_and(|(id, _)| *id == spread.id);
                placed && instance.info.zone == way.zone && instance.info.state != "terminated"
            });
            let left = SPREAD_MAX.saturating_sub(of_group.count());
            if left == 0 {
                let message = "You have reached the limit of instances in this spread placement group";
                return Err(("InsufficientInstanceCapacity", message));
            }
            available = available.min(left);
        }
        Ok(available)
    }
}

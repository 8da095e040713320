//! The fake region's answers.

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use fleetwright_aws_api::labels;
use fleetwright_core::model::Price;

use super::{Call, ENDING, FakeAws, Fault, INVISIBLE, Inner, RegionInstance, STARTING};
use crate::calls::{
    AwsApi, AwsError, ClusterInfo, Filter, FleetAnswer, FleetError, FleetInstance, FleetKind, FleetRequest,
    GroupInfo, Image, InstanceInfo, InstanceStatus, InstanceTrial, InstanceTypeDescription, LaunchTemplate,
    Message, PlacementGroup, ProfileInfo, ReservationInfo, SoldIn, SubnetInfo, TagSet, TemplateData,
    TemplateReservation, ZonalShift,
};

/// EC2's code and message for an instance profile that it does not know (yet).
const NO_PROFILE: (&str, &str) = (
    "InvalidParameterValue",
    "Value (profile) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
);

/// Whether tags and named attributes pass all filters.
fn passes(filters: &[Filter], tags: &TagSet, attribute: impl Fn(&str) -> Option<String>) -> bool {
    filters.iter().all(|filter| {
        let has = |value: &String| filter.values.contains(value);
        match filter.name.split_once(':') {
            Some(("tag", key)) => tags.get(key).is_some_and(has),
            _ if filter.name == "tag-key" => tags.keys().any(has),
            _ => attribute(&filter.name).is_some_and(|value| has(&value)),
        }
    })
}

impl Inner {
    /// Counts a call and applies an injected fault. `true`: its answer is lost.
    fn enter(&mut self, call: Call) -> Result<bool, AwsError> {
        *self.counts.entry(call.name()).or_default() += 1;
        self.mutations += u64::from(call.mutates());
        if self.denied.contains(&call) {
            return Err(AwsError::new("UnauthorizedOperation", "you are not authorized to perform this"));
        }
        match self.faults.get_mut(&call).and_then(VecDeque::pop_front) {
            Some(Fault::Refuse(error)) => Err(error),
            Some(Fault::Lose) => Ok(true),
            None => Ok(false),
        }
    }
}

impl Inner {
    fn tag(&mut self, id: &str, tags: &TagSet) -> Result<(), AwsError> {
        self.enter(Call::CreateTags)?;
        // Karpenter's policy allows these keys to be added to an existing instance, and no others.
        let late = [labels::TAG_CLUSTER_NAME, labels::TAG_NODECLAIM, labels::TAG_NAME];
        if tags.keys().any(|key| !late.contains(&key.as_str())) {
            return Err(AwsError::new("UnauthorizedOperation", "only late tags may be added"));
        }
        let missing = || AwsError::new("InvalidInstanceID.NotFound", id);
        let instance = self.instances.get_mut(id).ok_or_else(missing)?;
        instance.info.tags.extend(tags.clone());
        Ok(())
    }

    fn create_template(
        &mut self,
        name: &str,
        data: &TemplateData,
        tags: &TagSet,
        now: jiff::Timestamp,
    ) -> Result<(), AwsError> {
        let lose = self.enter(Call::CreateTemplate)?;
        if self.templates.contains_key(name) {
            return Err(AwsError::new("InvalidLaunchTemplateName.AlreadyExistsException", name));
        }
        if data.image.is_empty() || data.interfaces.is_empty() {
            return Err(AwsError::new("InvalidParameterValue", "no image or interface"));
        }
        let template = LaunchTemplate { name: name.to_owned(), tags: tags.clone(), created: Some(now) };
        self.templates.insert(name.to_owned(), template);
        self.template_data.insert(name.to_owned(), data.clone());
        answer(lose, ())
    }
}

/// The answer, unless it is lost.
fn answer<T>(lose: bool, answer: T) -> Result<T, AwsError> {
    if lose { Err(lost()) } else { Ok(answer) }
}

/// The answer to a dry run that would be allowed, as the adapter returns it: no error.
const ALLOWED: Result<(), AwsError> = Ok(());

fn lost() -> AwsError {
    AwsError::new(AwsError::NO_ANSWER, "connection reset")
}

impl FakeAws {
    /// Advances instances through their states.
    pub(super) fn age(&self, inner: &mut Inner) {
        let now = self.clock.now();
        let Inner { instances, reservations, .. } = inner;
        for reservation in reservations.iter_mut() {
            reservation.starts = reservation.starts.filter(|starts| *starts > now);
        }
        for instance in instances.values_mut().filter(|instance| instance.info.state != "terminated") {
            let starts = instance.info.launched.is_some_and(|launched| now >= launched + STARTING);
            if instance.info.state == "pending" && starts {
                instance.info.state = "running".to_owned();
            }
            if instance.ended.is_some_and(|ended| now >= ended + ENDING) {
                instance.info.state = "terminated".to_owned();
                let own =
                    |known: &&mut ReservationInfo| instance.info.reservation.as_ref() == Some(&known.id);
                if let Some(reservation) = reservations.iter_mut().find(own) {
                    reservation.available += 1;
                }
            }
        }
    }

    /// Creates the instance of an override.
    fn new_instance(
        &self,
        inner: &Inner,
        request: &FleetRequest,
        way: &crate::calls::Override,
        zone_id: String,
    ) -> InstanceInfo {
        let data = inner.template_data.get(&way.template);
        InstanceInfo {
            id: format!("i-{:017x}", inner.born),
            state: "pending".to_owned(),
            instance_type: way.instance_type.clone(),
            zone: way.zone.clone(),
            zone_id,
            image: way.image.clone(),
            subnet: way.subnet.clone(),
            security_groups: vec!["sg-1".to_owned()],
            spot: request.kind == FleetKind::Spot,
            tenancy: "default".to_owned(),
            placement: data.and_then(|data| data.placement.clone()).map(|(id, part)| {
                // EC2 spreads over the partitions of a group unless one is requested.
                let chosen = u32::try_from(inner.born % 3).unwrap_or(0) + 1;
                (id, Some(part.unwrap_or(chosen)))
            }),
            reservation: data.and_then(|data| match &data.reservation {
                Some(TemplateReservation::Only(id)) => Some(id.clone()),
                _ => None,
            }),
            profile: data.map(|data| data.instance_profile.clone()),
            launched: Some(self.clock.now()),
            tags: request.tags.clone(),
            ..InstanceInfo::default()
        }
    }

    fn fleet(&self, inner: &mut Inner, request: &FleetRequest) -> Result<FleetAnswer, AwsError> {
        if let Some((asked, answer)) = inner.tokens.get(&request.token) {
            let message = "The request uses the same client token as a previous, but non-identical request.";
            let other = || AwsError::new("IdempotentParameterMismatch", message);
            return (asked == request).then(|| answer.clone()).ok_or_else(other);
        }
        let refused = |key: &str| AwsError::new("UnauthorizedOperation", &format!("no request tag {key}"));
        let needed = [labels::TAG_CLUSTER_NAME, labels::TAG_NODEPOOL, labels::NODE_CLASS];
        if let Some(key) = needed.into_iter().find(|key| !request.tags.contains_key(*key)) {
            return Err(refused(key));
        }
        if inner.whole {
            inner.has_templates(request)?;
        }
        let mut ways: Vec<_> = request.overrides.iter().collect();
        ways.sort_by(|a, b| (a.price, &a.instance_type, &a.zone).cmp(&(b.price, &b.instance_type, &b.zone)));
        let mut answer = FleetAnswer::default();
        let error = |code: &str, way: &crate::calls::Override| FleetError {
            code: code.to_owned(),
            message: "there is none".to_owned(),
            instance_type: way.instance_type.clone(),
            zone: way.zone.clone(),
            subnet: way.subnet.clone(),
        };
        if inner.no_spot && request.kind == FleetKind::Spot {
            let refused = |way: &&crate::calls::Override| {
                error("AuthFailure.ServiceLinkedRoleCreationNotPermitted", way)
            };
            return Ok(FleetAnswer { errors: ways.iter().map(refused).collect(), ..answer });
        }
        for way in &ways {
            let known = inner.knows_profile(&way.template, self.clock.now());
            let available = match known {
                true => inner.available_capacity(request.kind, way),
                false => Err(NO_PROFILE),
            };
            if let Err((code, message)) = available {
                answer.errors.push(FleetError { message: message.to_owned(), ..error(code, way) });
            }
            let open = request.count.saturating_sub(answer.instances.len());
            for _ in 0..available.unwrap_or(0).min(open) {
                let instance = self.put(inner, request, way);
                answer.instances.push(instance);
            }
        }
        inner.tokens.insert(request.token.clone(), (request.clone(), answer.clone()));
        Ok(answer)
    }
}

impl FakeAws {
    /// Adds the instance of an override.
    fn put(&self, inner: &mut Inner, request: &FleetRequest, way: &crate::calls::Override) -> FleetInstance {
        let zone_id =
            inner.subnets.iter().find(|subnet| subnet.id == way.subnet).map(|subnet| subnet.zone_id.clone());
        inner.born += 1;
        inner.launchable = inner.launchable.map(|left| left.saturating_sub(1));
        let info = self.new_instance(inner, request, way, zone_id.unwrap_or_default());
        if let Some(reservation) =
            inner.reservations.iter_mut().find(|known| info.reservation.as_ref() == Some(&known.id))
        {
            reservation.available = reservation.available.saturating_sub(1);
        }
        let born = FleetInstance {
            id: info.id.clone(),
            instance_type: info.instance_type.clone(),
            zone: info.zone.clone(),
            subnet: info.subnet.clone(),
            image: info.image.clone(),
        };
        let user_data = inner.template_data.get(&way.template).map(|data| data.user_data.clone());
        let user_data = user_data.unwrap_or_default();
        inner.instances.insert(info.id.clone(), RegionInstance { info, ended: None, user_data });
        born
    }
}

#[async_trait]
impl AwsApi for FakeAws {
    async fn instance_types(&self) -> Result<Vec<InstanceTypeDescription>, AwsError> {
        let mut inner = self.lock();
        inner.enter(Call::InstanceTypes)?;
        Ok(inner.instance_types.clone())
    }

    async fn sold_in(&self) -> Result<Vec<SoldIn>, AwsError> {
        let mut inner = self.lock();
        inner.enter(Call::SoldIn)?;
        Ok(inner.sold_in.clone())
    }

    async fn subnets(&self, filters: &[Filter]) -> Result<Vec<SubnetInfo>, AwsError> {
        let found = {
            let mut inner = self.lock();
            inner.enter(Call::Subnets)?;
            let found = inner.subnets.iter().filter(|subnet| {
                passes(filters, &subnet.tags, |name| (name == "subnet-id").then(|| subnet.id.clone()))
            });
            found.cloned().collect()
        };
        self.held(filters.iter().flat_map(|filter| &filter.values)).await;
        Ok(found)
    }

    async fn security_groups(&self, filters: &[Filter]) -> Result<Vec<GroupInfo>, AwsError> {
        let mut inner = self.lock();
        inner.enter(Call::Groups)?;
        let found = inner.groups.iter().filter(|group| {
            passes(filters, &group.tags, |name| match name {
                "group-id" => Some(group.id.clone()),
                "group-name" => Some(group.name.clone()),
                _ => None,
            })
        });
        Ok(found.cloned().collect())
    }

    async fn placement_groups(
        &self,
        id: Option<&str>,
        name: Option<&str>,
    ) -> Result<Vec<PlacementGroup>, AwsError> {
        let mut inner = self.lock();
        inner.enter(Call::PlacementGroups)?;
        let found: Vec<PlacementGroup> = inner
            .placement_groups
            .iter()
            .filter(|group| id.is_none_or(|id| group.id == id) && name.is_none_or(|name| group.name == name))
            .cloned()
            .collect();
        match (found.is_empty(), id.or(name)) {
            (true, Some(asked)) => Err(AwsError::new("InvalidPlacementGroup.Unknown", asked)),
            _ => Ok(found),
        }
    }

    async fn images(&self, _: &[String], filters: &[Filter]) -> Result<Vec<Image>, AwsError> {
        let mut inner = self.lock();
        inner.enter(Call::Images)?;
        let found = inner.images.iter().filter(|image| {
            passes(filters, &TagSet::new(), |name| match name {
                "image-id" => Some(image.id.clone()),
                "name" => Some(image.name.clone()),
                _ => None,
            })
        });
        Ok(found.cloned().collect())
    }

    async fn reservations(
        &self,
        id: Option<&str>,
        filters: &[Filter],
    ) -> Result<Vec<ReservationInfo>, AwsError> {
        let mut inner = self.lock();
        inner.enter(Call::Reservations)?;
        self.age(&mut inner);
        if let Some(id) = id.filter(|id| !inner.reservations.iter().any(|known| known.id == **id)) {
            return Err(AwsError::new("InvalidCapacityReservationId.NotFound", id));
        }
        let found = inner.reservations.iter().filter(|known| {
            let attribute = |name: &str| match name {
                "owner-id" => Some(known.owner.clone()),
                "instance-match-criteria" => Some(known.match_criteria.clone()),
                _ => None,
            };
            id.is_none_or(|id| known.id == id) && passes(filters, &TagSet::new(), attribute)
        });
        Ok(found.cloned().collect())
    }

    async fn parameter(&self, name: &str) -> Result<String, AwsError> {
        let mut inner = self.lock();
        inner.enter(Call::Parameter)?;
        let missing = || AwsError::new("ParameterNotFound", name);
        inner.parameters.get(name).cloned().ok_or_else(missing)
    }

    async fn create_fleet(&self, request: &FleetRequest) -> Result<FleetAnswer, AwsError> {
        self.mutate(|inner| {
            let lose = inner.enter(Call::CreateFleet)?;
            inner.fleets.push(request.clone());
            let made = self.fleet(inner, request)?;
            answer(lose, made)
        })
        .await
    }

    async fn try_fleet(&self, request: &FleetRequest) -> Result<(), AwsError> {
        let mut inner = self.lock();
        inner.enter(Call::TryFleet)?;
        inner.has_templates(request)?;
        ALLOWED
    }

    async fn try_instance(&self, trial: &InstanceTrial<'_>) -> Result<(), AwsError> {
        let InstanceTrial { template, instance_type, subnet, data, tags } = *trial;
        let mut inner = self.lock();
        inner.tried.push(instance_type.to_owned());
        inner.enter(Call::TryInstance)?;
        let security_groups = data.interfaces.first().map_or(&[][..], |first| &first.security_groups);
        // Without one it would get the network's default group, which the policy may not allow.
        let known = |id: &String| inner.groups.iter().any(|group| group.id == *id);
        if security_groups.is_empty() || !security_groups.iter().all(known) {
            return Err(AwsError::new("UnauthorizedOperation", "the default security group is not allowed"));
        }
        if !tags.contains_key(labels::TAG_CLUSTER_NAME) {
            return Err(AwsError::new("UnauthorizedOperation", "the policy allows only what is tagged"));
        }
        let profile = inner.template_data.get(template).map(|data| data.instance_profile.clone());
        let gone = profile.is_some_and(|profile| !inner.profiles.contains_key(&profile));
        if gone || !inner.knows_profile(template, self.clock.now()) {
            return Err(AwsError::new(NO_PROFILE.0, NO_PROFILE.1));
        }
        match inner.subnets.iter().any(|known| known.id == subnet) {
            true => ALLOWED,
            false => Err(AwsError::new("InvalidSubnetID.NotFound", subnet)),
        }
    }

    async fn instances(&self, ids: &[String], filters: &[Filter]) -> Result<Vec<InstanceInfo>, AwsError> {
        let mut inner = self.lock();
        inner.enter(Call::Describe)?;
        if ids.is_empty() {
            *inner.counts.entry("full list").or_default() += 1;
        }
        self.age(&mut inner);
        let now = self.clock.now();
        inner.hidden.retain(|_, until| now < *until);
        let is_shown = |id: &String| inner.instances.contains_key(id) && !inner.hidden.contains_key(id);
        if let Some(id) = ids.iter().find(|id| !is_shown(id)) {
            return Err(AwsError::new("InvalidInstanceID.NotFound", id));
        }
        let found = inner.instances.values().filter(|instance| {
            let info = &instance.info;
            info.state != "terminated"
                && is_shown(&info.id)
                && (ids.is_empty() || ids.contains(&info.id))
                && passes(filters, &info.tags, |_| None)
        });
        let found = found.map(|instance| instance.info.clone());
        Ok(found.chain(inner.intruders.iter().cloned()).collect())
    }

    async fn instance_statuses(&self) -> Result<Vec<InstanceStatus>, AwsError> {
        let mut inner = self.lock();
        inner.enter(Call::Statuses)?;
        Ok(inner.statuses.clone())
    }

    async fn terminate(&self, ids: &[String]) -> Result<(), AwsError> {
        self.mutate(|inner| {
            let lose = inner.enter(Call::Terminate)?;
            inner.end(ids, self.clock.now())?;
            answer(lose, ())
        })
        .await
    }

    async fn create_tags(&self, id: &str, tags: &TagSet) -> Result<(), AwsError> {
        self.mutate(|inner| inner.tag(id, tags)).await
    }

    async fn launch_templates(&self, filters: &[Filter]) -> Result<Vec<LaunchTemplate>, AwsError> {
        let mut inner = self.lock();
        inner.enter(Call::Templates)?;
        let found = inner.templates.values().filter(|template| {
            passes(filters, &template.tags, |name| {
                (name == "launch-template-name").then(|| template.name.clone())
            })
        });
        Ok(found.cloned().collect())
    }

    async fn create_launch_template(
        &self,
        name: &str,
        data: &TemplateData,
        tags: &TagSet,
    ) -> Result<(), AwsError> {
        self.mutate(|inner| inner.create_template(name, data, tags, self.clock.now())).await
    }

    async fn delete_launch_template(&self, name: &str) -> Result<(), AwsError> {
        let mut inner = self.lock();
        inner.enter(Call::DeleteTemplate)?;
        inner.template_data.remove(name);
        let gone = inner.templates.remove(name);
        gone.map(|_| ()).ok_or_else(|| AwsError::new("InvalidLaunchTemplateName.NotFoundException", name))
    }

    async fn on_demand_prices(&self, _: &str) -> Result<Vec<(String, Price)>, AwsError> {
        let mut inner = self.lock();
        inner.enter(Call::OnDemandPrices)?;
        Ok(inner.on_demand.clone())
    }

    async fn spot_prices(&self) -> Result<Vec<((String, String), Price)>, AwsError> {
        let mut inner = self.lock();
        inner.enter(Call::SpotPrices)?;
        Ok(inner.spot.clone())
    }

    async fn cluster(&self, name: &str) -> Result<ClusterInfo, AwsError> {
        let known = {
            let mut inner = self.lock();
            inner.enter(Call::Cluster)?;
            inner.cluster.clone()
        };
        self.held(std::iter::once(&name.to_owned())).await;
        let unknown = || AwsError::new("ResourceNotFoundException", name);
        known.filter(|known| known.arn.rsplit('/').next() == Some(name)).ok_or_else(unknown)
    }

    async fn zonal_shifts(&self, _: &str) -> Result<Vec<ZonalShift>, AwsError> {
        let mut inner = self.lock();
        inner.enter(Call::Shifts)?;
        Ok(inner.shifts.clone())
    }

    async fn receive(&self, _: &str, _: Duration) -> Result<Vec<Message>, AwsError> {
        let mut inner = self.lock();
        inner.enter(Call::Receive)?;
        let now = self.clock.now();
        let Inner { messages, received, .. } = &mut *inner;
        received.retain(|_, until| now < *until);
        let visible = messages.iter_mut().filter(|message| !received.contains_key(&message.receipt));
        let shown = visible.take(10).map(|message| {
            message.received += 1;
            message.clone()
        });
        let shown: Vec<Message> = shown.collect();
        received.extend(shown.iter().map(|message| (message.receipt.clone(), now + INVISIBLE)));
        Ok(shown)
    }

    async fn delete_messages(
        &self,
        _: &str,
        receipts: &[String],
    ) -> Result<Vec<Result<(), AwsError>>, AwsError> {
        let mut inner = self.lock();
        let lose = inner.enter(Call::DeleteMessages)?;
        if !(1..=10).contains(&receipts.len()) {
            return Err(AwsError::new("AWS.SimpleQueueService.TooManyEntriesInBatchRequest", "one to ten"));
        }
        let Inner { messages, stubborn, .. } = &mut *inner;
        let mut delete = |receipt: &String| {
            if *stubborn > 0 {
                *stubborn -= 1;
                return Err(AwsError::new("InternalError", receipt));
            }
            messages.retain(|message| message.receipt != *receipt);
            Ok(())
        };
        let outcomes = receipts.iter().map(&mut delete).collect();
        answer(lose, outcomes)
    }

    async fn profile(&self, name: &str) -> Result<ProfileInfo, AwsError> {
        let mut inner = self.lock();
        inner.enter(Call::Profile)?;
        inner.profiles.get(name).cloned().ok_or_else(|| AwsError::new("NoSuchEntity", name))
    }

    async fn profiles(&self, path: &str) -> Result<Vec<ProfileInfo>, AwsError> {
        let mut inner = self.lock();
        inner.enter(Call::Profiles)?;
        // The list has no tags.
        let bare = |profile: &ProfileInfo| ProfileInfo { tags: TagSet::new(), ..profile.clone() };
        Ok(inner.profiles.values().filter(|profile| profile.path.starts_with(path)).map(bare).collect())
    }

    async fn create_profile(&self, name: &str, path: &str, tags: &TagSet) -> Result<(), AwsError> {
        let mut inner = self.lock();
        let lose = inner.enter(Call::CreateProfile)?;
        if inner.profiles.contains_key(name) {
            return Err(AwsError::new("EntityAlreadyExists", name));
        }
        let profile = ProfileInfo {
            name: name.to_owned(),
            path: path.to_owned(),
            tags: tags.clone(),
            created: Some(self.clock.now()),
            ..ProfileInfo::default()
        };
        inner.profiles.insert(name.to_owned(), profile);
        let known_at = self.clock.now() + inner.profile_delay;
        inner.unknown_profiles.insert(name.to_owned(), known_at);
        answer(lose, ())
    }

    async fn add_role(&self, profile: &str, role: &str) -> Result<(), AwsError> {
        let mut inner = self.lock();
        inner.enter(Call::AddRole)?;
        if !inner.roles.contains(role) {
            return Err(AwsError::new("NoSuchEntity", &format!("the role {role} cannot be found")));
        }
        let missing = || AwsError::new("NoSuchEntity", profile);
        let known = inner.profiles.get_mut(profile).ok_or_else(missing)?;
        if !known.roles.is_empty() {
            return Err(AwsError::new("LimitExceeded", "a profile holds one role"));
        }
        known.roles.push(role.to_owned());
        Ok(())
    }

    async fn remove_role(&self, profile: &str, role: &str) -> Result<(), AwsError> {
        let mut inner = self.lock();
        inner.enter(Call::RemoveRole)?;
        let missing = || AwsError::new("NoSuchEntity", profile);
        inner.profiles.get_mut(profile).ok_or_else(missing)?.roles.retain(|known| known != role);
        Ok(())
    }

    async fn delete_profile(&self, name: &str) -> Result<(), AwsError> {
        let mut inner = self.lock();
        inner.enter(Call::DeleteProfile)?;
        match inner.profiles.get(name).map(|profile| profile.roles.is_empty()) {
            None => Err(AwsError::new("NoSuchEntity", name)),
            Some(false) => Err(AwsError::new("DeleteConflict", "remove roles from the profile first")),
            Some(true) => {
                inner.profiles.remove(name);
                Ok(())
            }
        }
    }
}

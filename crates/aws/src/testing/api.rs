//! The region's answers.

use async_trait::async_trait;
use fleetwright_aws_api::labels;
use fleetwright_core::model::Price;
use jiff::Timestamp;

use super::{Call, ENDING, FakeAws, Fault, Inner, Machine, region};
use crate::calls::{
    AwsApi, AwsError, ClusterInfo, Filter, FleetAnswer, FleetError, FleetInstance, FleetKind, FleetRequest,
    GroupInfo, Image, InstanceInfo, InstanceStatus, LaunchTemplate, MachineInfo, Message, PlacementGroup,
    ProfileInfo, ReservationInfo, SoldIn, SubnetInfo, TagSet, TemplateData,
};

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
    fn count(&mut self, call: &'static str) {
        *self.counts.entry(call).or_default() += 1;
    }

    fn fault(&mut self, call: Call) -> Option<Fault> {
        self.faults.get_mut(&call)?.pop_front()
    }

    fn is_dry(&self, zone: &str) -> bool {
        self.dry.contains("") || self.dry.contains(zone)
    }
}

fn lost() -> AwsError {
    AwsError::new(AwsError::NO_ANSWER, "connection reset")
}

impl FakeAws {
    /// Ends what has had its time.
    fn age(&self, inner: &mut Inner) {
        let now = self.clock.now();
        for machine in inner.instances.values_mut() {
            if machine.ended.is_some_and(|ended| now >= ended + ENDING) {
                machine.info.state = "terminated".to_owned();
            }
        }
    }

    fn fleet(&self, inner: &mut Inner, request: &FleetRequest) -> Result<FleetAnswer, AwsError> {
        if let Some(answer) = inner.tokens.get(&request.token) {
            return Ok(answer.clone());
        }
        let refused = |key: &str| AwsError::new("UnauthorizedOperation", &format!("no request tag {key}"));
        let needed = [labels::TAG_CLUSTER_NAME, labels::TAG_NODEPOOL, labels::NODE_CLASS];
        if let Some(key) = needed.into_iter().find(|key| !request.tags.contains_key(*key)) {
            return Err(refused(key));
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
        for way in &ways {
            if !inner.templates.contains_key(&way.template) {
                answer.errors.push(error("InvalidLaunchTemplateName.NotFoundException", way));
            } else if inner.is_dry(&way.zone) {
                answer.errors.push(error("InsufficientInstanceCapacity", way));
            }
        }
        let open = |way: &&&crate::calls::Override| {
            inner.templates.contains_key(&way.template) && !inner.is_dry(&way.zone)
        };
        let Some(way) = ways.iter().find(open).copied() else { return Ok(answer) };
        let zone_id =
            inner.subnets.iter().find(|subnet| subnet.id == way.subnet).map(|subnet| subnet.zone_id.clone());
        for _ in 0..request.count {
            inner.born += 1;
            let info = InstanceInfo {
                id: format!("i-{:017x}", inner.born),
                state: "pending".to_owned(),
                instance_type: way.instance_type.clone(),
                zone: way.zone.clone(),
                zone_id: zone_id.clone().unwrap_or_default(),
                image: way.image.clone(),
                subnet: way.subnet.clone(),
                security_groups: vec!["sg-1".to_owned()],
                spot: request.kind == FleetKind::Spot,
                tenancy: "default".to_owned(),
                launched: Some(self.clock.now()),
                tags: request.tags.clone(),
                ..InstanceInfo::default()
            };
            answer.instances.push(FleetInstance {
                id: info.id.clone(),
                instance_type: info.instance_type.clone(),
                zone: info.zone.clone(),
                subnet: info.subnet.clone(),
                image: info.image.clone(),
            });
            inner.instances.insert(info.id.clone(), Machine { info, ended: None });
        }
        inner.tokens.insert(request.token.clone(), answer.clone());
        Ok(answer)
    }
}

#[async_trait]
impl AwsApi for FakeAws {
    async fn machines(&self) -> Result<Vec<MachineInfo>, AwsError> {
        Ok(self.lock().machines.clone())
    }

    async fn sold_in(&self) -> Result<Vec<SoldIn>, AwsError> {
        Ok(self.lock().sold_in.clone())
    }

    async fn subnets(&self, filters: &[Filter]) -> Result<Vec<SubnetInfo>, AwsError> {
        let inner = self.lock();
        let found = inner.subnets.iter().filter(|subnet| {
            passes(filters, &subnet.tags, |name| (name == "subnet-id").then(|| subnet.id.clone()))
        });
        Ok(found.cloned().collect())
    }

    async fn security_groups(&self, filters: &[Filter]) -> Result<Vec<GroupInfo>, AwsError> {
        let inner = self.lock();
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
        _: Option<&str>,
        _: Option<&str>,
    ) -> Result<Vec<PlacementGroup>, AwsError> {
        Ok(Vec::new())
    }

    async fn images(&self, _: &[String], filters: &[Filter]) -> Result<Vec<Image>, AwsError> {
        let inner = self.lock();
        let found = inner.images.iter().filter(|image| {
            passes(filters, &TagSet::new(), |name| match name {
                "image-id" => Some(image.id.clone()),
                "name" => Some(image.name.clone()),
                _ => None,
            })
        });
        Ok(found.cloned().collect())
    }

    async fn reservations(&self, _: Option<&str>, _: &[Filter]) -> Result<Vec<ReservationInfo>, AwsError> {
        Ok(Vec::new())
    }

    async fn parameter(&self, name: &str) -> Result<String, AwsError> {
        let mut inner = self.lock();
        if let Some(Fault::Refuse(error)) = inner.fault(Call::Parameter) {
            return Err(error);
        }
        let missing = || AwsError::new("ParameterNotFound", name);
        inner.parameters.get(name).cloned().ok_or_else(missing)
    }

    async fn create_fleet(&self, request: &FleetRequest) -> Result<FleetAnswer, AwsError> {
        let mut inner = self.lock();
        inner.count("CreateFleet");
        match inner.fault(Call::CreateFleet) {
            Some(Fault::Refuse(error)) => Err(error),
            Some(Fault::Lose) => self.fleet(&mut inner, request).and_then(|_| Err(lost())),
            None => self.fleet(&mut inner, request),
        }
    }

    async fn instances(&self, ids: &[String], filters: &[Filter]) -> Result<Vec<InstanceInfo>, AwsError> {
        let mut inner = self.lock();
        inner.count("DescribeInstances");
        self.age(&mut inner);
        if let Some(Fault::Refuse(error)) = inner.fault(Call::Describe) {
            return Err(error);
        }
        if let Some(id) = ids.iter().find(|id| !inner.instances.contains_key(*id)) {
            return Err(AwsError::new("InvalidInstanceID.NotFound", id));
        }
        let found = inner.instances.values().filter(|machine| {
            let info = &machine.info;
            info.state != "terminated"
                && (ids.is_empty() || ids.contains(&info.id))
                && passes(filters, &info.tags, |_| None)
        });
        Ok(found.map(|machine| machine.info.clone()).collect())
    }

    async fn instance_statuses(&self) -> Result<Vec<InstanceStatus>, AwsError> {
        Ok(Vec::new())
    }

    async fn terminate(&self, ids: &[String]) -> Result<(), AwsError> {
        let mut inner = self.lock();
        let fault = inner.fault(Call::Terminate);
        if let Some(Fault::Refuse(error)) = fault {
            return Err(error);
        }
        let now = self.clock.now();
        for id in ids {
            let missing = || AwsError::new("InvalidInstanceID.NotFound", id);
            let machine = inner.instances.get_mut(id).ok_or_else(missing)?;
            machine.info.state = "shutting-down".to_owned();
            machine.ended.get_or_insert(now);
        }
        if fault == Some(Fault::Lose) { Err(lost()) } else { Ok(()) }
    }

    async fn create_tags(&self, id: &str, tags: &TagSet) -> Result<(), AwsError> {
        let mut inner = self.lock();
        inner.count("CreateTags");
        // Karpenter's policy lets these keys be added to an instance after its birth, and no others.
        let late = [labels::TAG_CLUSTER_NAME, labels::TAG_NODECLAIM, labels::TAG_NAME];
        if tags.keys().any(|key| !late.contains(&key.as_str())) {
            return Err(AwsError::new("UnauthorizedOperation", "only late tags may be added"));
        }
        let missing = || AwsError::new("InvalidInstanceID.NotFound", id);
        let machine = inner.instances.get_mut(id).ok_or_else(missing)?;
        machine.info.tags.extend(tags.clone());
        Ok(())
    }

    async fn launch_templates(&self, filters: &[Filter]) -> Result<Vec<LaunchTemplate>, AwsError> {
        let inner = self.lock();
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
        let mut inner = self.lock();
        inner.count("CreateLaunchTemplate");
        if inner.templates.contains_key(name) {
            return Err(AwsError::new("InvalidLaunchTemplateName.AlreadyExistsException", name));
        }
        if data.image.is_empty() || data.interfaces.is_empty() {
            return Err(AwsError::new("InvalidParameterValue", "no image or interface"));
        }
        let template =
            LaunchTemplate { name: name.to_owned(), tags: tags.clone(), created: Some(self.clock.now()) };
        inner.templates.insert(name.to_owned(), template);
        Ok(())
    }

    async fn delete_launch_template(&self, name: &str) -> Result<(), AwsError> {
        let gone = self.lock().templates.remove(name);
        gone.map(|_| ()).ok_or_else(|| AwsError::new("InvalidLaunchTemplateName.NotFoundException", name))
    }

    async fn on_demand_prices(&self, _: &str) -> Result<Vec<(String, Price)>, AwsError> {
        Ok(Vec::new())
    }

    async fn spot_prices(&self, _: Timestamp) -> Result<Vec<((String, String), Price)>, AwsError> {
        Ok(Vec::new())
    }

    async fn cluster(&self, name: &str) -> Result<ClusterInfo, AwsError> {
        if name != region::CLUSTER {
            return Err(AwsError::new("ResourceNotFoundException", name));
        }
        Ok(ClusterInfo {
            endpoint: "https://test-cluster".to_owned(),
            ca_bundle: region::CA.to_owned(),
            version: "1.35".to_owned(),
            service_cidr_v4: Some("10.100.0.0/16".to_owned()),
            service_cidr_v6: None,
        })
    }

    async fn receive(&self, _: &str) -> Result<Vec<Message>, AwsError> {
        Ok(self.lock().messages.iter().take(10).cloned().collect())
    }

    async fn delete_message(&self, _: &str, receipt: &str) -> Result<(), AwsError> {
        self.lock().messages.retain(|message| message.receipt != receipt);
        Ok(())
    }

    async fn profile(&self, name: &str) -> Result<ProfileInfo, AwsError> {
        let missing = || AwsError::new("NoSuchEntity", name);
        self.lock().profiles.get(name).cloned().ok_or_else(missing)
    }

    async fn profiles(&self, path: &str) -> Result<Vec<ProfileInfo>, AwsError> {
        let inner = self.lock();
        Ok(inner.profiles.values().filter(|profile| profile.path.starts_with(path)).cloned().collect())
    }

    async fn create_profile(&self, name: &str, path: &str, tags: &TagSet) -> Result<(), AwsError> {
        let profile = ProfileInfo {
            name: name.to_owned(),
            path: path.to_owned(),
            tags: tags.clone(),
            created: Some(self.clock.now()),
            ..ProfileInfo::default()
        };
        self.lock().profiles.insert(name.to_owned(), profile);
        Ok(())
    }

    async fn add_role(&self, profile: &str, role: &str) -> Result<(), AwsError> {
        let mut inner = self.lock();
        let missing = || AwsError::new("NoSuchEntity", profile);
        inner.profiles.get_mut(profile).ok_or_else(missing)?.roles.push(role.to_owned());
        Ok(())
    }

    async fn remove_role(&self, profile: &str, role: &str) -> Result<(), AwsError> {
        let mut inner = self.lock();
        let missing = || AwsError::new("NoSuchEntity", profile);
        inner.profiles.get_mut(profile).ok_or_else(missing)?.roles.retain(|known| known != role);
        Ok(())
    }

    async fn delete_profile(&self, name: &str) -> Result<(), AwsError> {
        self.lock().profiles.remove(name);
        Ok(())
    }
}

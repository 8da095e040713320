//! What EC2 and its neighbours ask of IAM for a call: actions, resources and keys, as the [service authorization reference] lists them.
//!
//! [service authorization reference]: https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html

use std::collections::BTreeMap;

use super::{ACCOUNT, AuthorizationRequest};
use crate::call::{Call, Params, groups, tag_pairs};

/// Tags of what exists, by the last part of its ARN: `instance/i-1`, `launch-template/name`, `instance-profile/name`.
pub type ResourceTags = BTreeMap<String, BTreeMap<String, String>>;

/// The place of a call and what exists there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) region: &'a str,
    pub(crate) tags: &'a ResourceTags,
}

impl Place<'_> {
    fn arn(self, service: &str, resource: &str) -> String {
        let account = if resource.starts_with("image/") || service == "ssm" { "" } else { ACCOUNT };
        format!("arn:aws:{service}:{}:{account}:{resource}", self.region)
    }

    fn ec2(self, action: &str, resource: &str) -> AuthorizationRequest {
        let arn = if resource == "*" { resource.to_owned() } else { self.arn("ec2", resource) };
        AuthorizationRequest::new(&format!("ec2:{action}"), &arn).with("aws:RequestedRegion", self.region)
    }

    /// The same on something that exists.
    fn owned(self, action: &str, resource: &str) -> AuthorizationRequest {
        with_tags(self.ec2(action, resource), "aws:ResourceTag", self.tags.get(resource))
    }

    /// What is made with tags: the action itself, and "if tags are specified in the resource-creating action, Amazon EC2 performs additional
    /// authorization on the ec2:CreateTags action", with the key `ec2:CreateAction`
    /// (<https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/supported-iam-actions-tagging.html>).
    fn made(self, action: &str, kind: &str, tags: &BTreeMap<String, String>) -> Vec<AuthorizationRequest> {
        let resource = format!("{kind}/*");
        let own = requested(self.ec2(action, &resource), tags);
        let tagging = requested(self.ec2("CreateTags", &resource), tags).with("ec2:CreateAction", action);
        if tags.is_empty() { vec![own] } else { vec![own, tagging] }
    }
}

fn with_tags(
    request: AuthorizationRequest,
    key: &str,
    tags: Option<&BTreeMap<String, String>>,
) -> AuthorizationRequest {
    tags.into_iter()
        .flatten()
        .fold(request, |request, (name, value)| request.with(&format!("{key}/{name}"), value))
}

fn requested(request: AuthorizationRequest, tags: &BTreeMap<String, String>) -> AuthorizationRequest {
    let request = with_tags(request, "aws:RequestTag", Some(tags));
    tags.keys().fold(request, |request, name| request.with("aws:TagKeys", name))
}

/// What is asked of IAM before a call has an effect; of launches only what the call itself needs.
#[must_use]
pub fn requests(call: &Call, region: &str, tags: &ResourceTags) -> Vec<AuthorizationRequest> {
    let place = Place { region, tags };
    let action = call.action.as_str();
    match call.service.as_str() {
        "ec2" => of_ec2(call, place),
        "iam" => of_iam(call, place),
        "sqs" => {
            let queue = call.json["QueueUrl"].as_str().or_else(|| call.json["QueueName"].as_str());
            let name = queue.unwrap_or_default().rsplit('/').next().unwrap_or_default();
            // "The permission for the batch action is that of the single one."
            let action = action.strip_suffix("Batch").unwrap_or(action);
            vec![AuthorizationRequest::new(&format!("sqs:{action}"), &place.arn("sqs", name))]
        }
        "ssm" => {
            let name = call.json["Name"].as_str().unwrap_or_default();
            vec![AuthorizationRequest::new(
                "ssm:GetParameter",
                &place.arn("ssm", &format!("parameter{name}")),
            )]
        }
        "eks" => {
            let name = call.path.rsplit('/').next().unwrap_or_default();
            let arn = place.arn("eks", &format!("cluster/{name}"));
            vec![AuthorizationRequest::new(&format!("eks:{action}"), &arn)]
        }
        service => vec![AuthorizationRequest::new(&format!("{service}:{action}"), "*")],
    }
}

fn of_ec2(call: &Call, place: Place<'_>) -> Vec<AuthorizationRequest> {
    let listed = |prefix: &str| -> Vec<String> {
        call.params
            .iter()
            .filter(|(key, _)| key.starts_with(prefix))
            .map(|(_, value)| value.clone())
            .collect()
    };
    match call.action.as_str() {
        "CreateLaunchTemplate" => {
            place.made("CreateLaunchTemplate", "launch-template", &call.tags("launch-template"))
        }
        "DeleteLaunchTemplate" => {
            let name = call.param("LaunchTemplateName");
            vec![place.owned("DeleteLaunchTemplate", &format!("launch-template/{name}"))]
        }
        "TerminateInstances" => {
            let ids = listed("InstanceId.");
            ids.iter().map(|id| place.owned("TerminateInstances", &format!("instance/{id}"))).collect()
        }
        "CreateTags" => {
            let tags = tag_pairs(&call.params, "Tag.");
            let of = |id: &String| requested(place.owned("CreateTags", &format!("instance/{id}")), &tags);
            listed("ResourceId.").iter().map(of).collect()
        }
        "CreateFleet" => {
            let mut found = place.made("CreateFleet", "fleet", &call.tags("fleet"));
            let mut used: Vec<String> = Vec::new();
            for (key, value) in &call.params {
                let of = |kind: &str| format!("{kind}/{value}");
                let resource = match key.rsplit('.').next().unwrap_or_default() {
                    "LaunchTemplateName" => of("launch-template"),
                    "SubnetId" => of("subnet"),
                    "ImageId" => of("image"),
                    _ => continue,
                };
                if !used.contains(&resource) {
                    used.push(resource);
                }
            }
            found.extend(used.iter().map(|resource| place.owned("CreateFleet", resource)));
            found
        }
        // What it launches is asked for when it is known.
        "RunInstances" => Vec::new(),
        action => vec![place.ec2(action, "*")],
    }
}

/// What `RunInstances` asks of IAM, for itself or for a fleet: `data` are the parameters by which the launch template was created, `role` the
/// role of its instance profile.
#[must_use]
pub fn run_requests(
    call: &Call,
    region: &str,
    tags: &ResourceTags,
    (template, data): (&str, &Params),
    role: Option<&str>,
) -> Vec<AuthorizationRequest> {
    let place = Place { region, tags };
    let text = |key: &str| data.get(&format!("LaunchTemplateData.{key}")).map(String::as_str);
    let own_tags = |kind: &str| {
        // Tag specifications of RunInstances stand in the place of the template's; nothing says that they are merged. Those of a fleet
        // are for other kinds of resources.
        let own = call.tags(kind);
        let replaces = call.action == "RunInstances" && !groups(&call.params, "TagSpecification.").is_empty();
        if replaces || !own.is_empty() { own } else { template_tags(data, kind) }
    };
    let mut found = vec![place.owned("RunInstances", &format!("launch-template/{template}"))];
    let mut used = vec![format!("image/{}", text("ImageId").unwrap_or("*")), "subnet/*".to_owned()];
    used.push("security-group/*".to_owned());
    let reservation =
        text("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId");
    used.extend(reservation.map(|id| format!("capacity-reservation/{id}")));
    used.extend(text("Placement.GroupId").map(|id| format!("placement-group/{id}")));
    found.extend(used.iter().map(|resource| place.owned("RunInstances", resource)));
    let is_spot = call.param("TargetCapacitySpecification.DefaultTargetCapacityType") == "spot";
    let kinds = ["instance", "volume", "network-interface"].into_iter();
    for kind in kinds.chain(is_spot.then_some("spot-instances-request")) {
        for request in place.made("RunInstances", kind, &own_tags(kind)) {
            found.push(if kind == "instance" { described(request, call, data) } else { request });
        }
    }
    if let Some(role) = role {
        let arn = format!("arn:aws:iam::{ACCOUNT}:role/{role}");
        let pass = AuthorizationRequest::new("iam:PassRole", &arn);
        found.push(pass.with("iam:PassedToService", "ec2.amazonaws.com"));
    }
    found
}

/// Keys of the instance that is launched.
fn described(request: AuthorizationRequest, call: &Call, data: &Params) -> AuthorizationRequest {
    let own = |key: &str| {
        let of_template = || data.get(&format!("LaunchTemplateData.{key}"));
        call.params.get(key).or_else(of_template).cloned()
    };
    let known =
        [("ec2:MetadataHttpTokens", "MetadataOptions.HttpTokens"), ("ec2:InstanceType", "InstanceType")];
    known.iter().fold(request, |request, (key, param)| match own(param) {
        Some(value) => request.with(key, &value),
        None => request,
    })
}

/// The tags that a template has for resources of a kind.
pub(crate) fn template_tags(data: &Params, kind: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for place in groups(data, "LaunchTemplateData.TagSpecification.") {
        if data.get(&format!("{place}ResourceType")).is_some_and(|own| own == kind) {
            found.extend(tag_pairs(data, &format!("{place}Tag.")));
        }
    }
    found
}

fn of_iam(call: &Call, place: Place<'_>) -> Vec<AuthorizationRequest> {
    let action = format!("iam:{}", call.action);
    let name = call.param("InstanceProfileName");
    if name.is_empty() {
        return vec![AuthorizationRequest::new(&action, "*")];
    }
    let resource = format!("instance-profile/{name}");
    let path = call.params.get("Path").map_or("/", String::as_str);
    let arn = format!("arn:aws:iam::{ACCOUNT}:instance-profile{path}{name}");
    let request = AuthorizationRequest::new(&action, &arn);
    let request = with_tags(request, "aws:ResourceTag", place.tags.get(&resource));
    let own = requested(request, &tag_pairs(&call.params, "Tags.member."));
    let pass = (call.action == "AddRoleToInstanceProfile").then(|| {
        let role = format!("arn:aws:iam::{ACCOUNT}:role/{}", call.param("RoleName"));
        AuthorizationRequest::new("iam:PassRole", &role).with("iam:PassedToService", "ec2.amazonaws.com")
    });
    std::iter::once(own).chain(pass).collect()
}

//! The requests that IAM authorizes for the controller: each action with its resources and its condition keys.

use std::collections::BTreeMap;

use fleetwright_aws::permissions::Permission;
use fleetwright_aws::prices::pricing_region;
use fleetwright_aws_api::labels;

/// Where the controller runs. Unknown values match any policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The cluster name.
    pub cluster: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// Name or address of the interruption queue.
    pub queue: Option<String>,
}

/// The value of a condition key, as far as it is known before the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyValue {
    /// Its values.
    Is(Vec<String>),
    /// Some unknown value.
    Present,
    /// The key is absent.
    Absent,
    /// A value that is another cluster's.
    OfAnother,
}

/// The tags of a request or a resource, by origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tags {
    /// No tags.
    None,
    /// Tags of everything that is launched.
    Launch,
    /// Tags of instance profiles.
    Profile,
    /// Tags that an instance gets once its node has a name.
    Late,
    /// Tags of resources that others create: unknown.
    Others,
    /// Tags of what another cluster launched.
    OfAnother,
}

/// One request that IAM authorizes.
#[derive(Clone, Debug)]
pub(super) struct AuthorizationRequest {
    /// The action.
    pub(super) action: &'static str,
    /// The resource ARN, with `*` for unknown parts; `*` alone if the action has no resources.
    pub(super) resource: String,
    /// The statement of `deploy/iam` that allows it, if it differs from the permission's.
    pub(super) statement: Option<&'static str>,
    requested: Tags,
    resource_tags: Tags,
    /// Values of other keys; an empty list means that the values are unknown.
    keys: BTreeMap<&'static str, Vec<String>>,
    cluster: Option<String>,
    region: Option<String>,
}

impl AuthorizationRequest {
    /// The value of a condition key; `None` if only a real call would show it.
    pub(super) fn get(&self, key: &str) -> Option<KeyValue> {
        let lower = key.to_ascii_lowercase();
        if let Some(values) = self.keys.get(lower.as_str()) {
            return Some(if values.is_empty() { KeyValue::Present } else { KeyValue::Is(values.clone()) });
        }
        if lower.starts_with("aws:requesttag/") {
            return self.tag(self.requested, &key["aws:RequestTag/".len()..]);
        }
        for prefix in ["aws:ResourceTag/", "ec2:ResourceTag/"] {
            if lower.starts_with(&prefix.to_ascii_lowercase()) {
                return self.tag(self.resource_tags, &key[prefix.len()..]);
            }
        }
        None
    }

    fn tag(&self, tags: Tags, key: &str) -> Option<KeyValue> {
        let text = |value: &Option<String>| match value {
            Some(value) => KeyValue::Is(vec![value.clone()]),
            None => KeyValue::Present,
        };
        if tags == Tags::Others {
            return None;
        }
        if tags == Tags::None {
            return Some(KeyValue::Absent);
        }
        if tags == Tags::OfAnother {
            return tag_of_another(key);
        }
        if key.eq_ignore_ascii_case(labels::TAG_CLUSTER_NAME) {
            return Some(text(&self.cluster));
        }
        if tags == Tags::Late {
            let late = [labels::TAG_NAME, labels::TAG_NODECLAIM];
            return Some(if late.contains(&key) { KeyValue::Present } else { KeyValue::Absent });
        }
        if let Some(name) = key.strip_prefix(labels::TAG_CLUSTER_PREFIX) {
            // A node class may not have such tags of its own.
            let ours = self.cluster.as_ref().is_none_or(|cluster| cluster == name);
            return Some(if ours { KeyValue::Is(vec!["owned".to_owned()]) } else { KeyValue::Absent });
        }
        match key {
            labels::NODE_CLASS | labels::TAG_CLUSTER_UID => Some(KeyValue::Present),
            labels::TAG_NODEPOOL if tags == Tags::Launch => Some(KeyValue::Present),
            labels::TAG_NODEPOOL => Some(KeyValue::Absent),
            labels::TAG_REGION if tags == Tags::Profile => Some(text(&self.region)),
            // Tags of an EC2NodeClass are chosen by users.
            _ => None,
        }
    }
}

/// A tag of what another cluster launched.
fn tag_of_another(key: &str) -> Option<KeyValue> {
    if key.starts_with(labels::TAG_CLUSTER_PREFIX) {
        return Some(KeyValue::Absent);
    }
    match key {
        labels::TAG_CLUSTER_UID => Some(KeyValue::OfAnother),
        labels::NODE_CLASS | labels::TAG_NODEPOOL => Some(KeyValue::Present),
        _ => key.eq_ignore_ascii_case(labels::TAG_CLUSTER_NAME).then_some(KeyValue::OfAnother),
    }
}

/// The deletions of what another cluster launched, which no policy should allow.
pub(super) fn deletions_of_another(place: &Place) -> Vec<AuthorizationRequest> {
    let deletions = [("ec2:TerminateInstances", "instance"), ("ec2:DeleteLaunchTemplate", "launch-template")];
    let request = |(action, kind)| AuthorizationRequest {
        resource_tags: Tags::OfAnother,
        ..RequestBuilder { action, place }.owned(kind)
    };
    deletions.map(request).into()
}

/// The requests that need a permission.
pub(super) fn requests(permission: &Permission, place: &Place) -> Vec<AuthorizationRequest> {
    let builder = RequestBuilder { action: permission.action, place };
    match permission.action {
        "ec2:RunInstances" => builder.launch(&[]),
        "ec2:CreateFleet" => builder.launch(&["fleet"]),
        "ec2:CreateLaunchTemplate" => vec![builder.created("launch-template", &[])],
        "ec2:CreateTags" if permission.call == "create_tags" => vec![builder.late()],
        "ec2:CreateTags" if permission.call == "create_launch_template" => {
            vec![builder.created("launch-template", &["CreateLaunchTemplate"])]
        }
        "ec2:CreateTags" => {
            let of = |kind: &&str| builder.created(kind, &["CreateFleet", "RunInstances"]);
            CREATED.iter().chain(&["fleet"]).map(of).collect()
        }
        "ec2:TerminateInstances" => vec![builder.owned("instance")],
        "ec2:DeleteLaunchTemplate" => vec![builder.owned("launch-template")],
        action if action.starts_with("iam:") => vec![builder.iam()],
        action if action.starts_with("sqs:") => {
            let queue = place.queue.as_deref().and_then(|queue| queue.rsplit('/').next());
            vec![builder.plain(&builder.arn("sqs", true, queue.unwrap_or("*")))]
        }
        "ssm:GetParameter" => vec![builder.plain(&builder.arn("ssm", false, "parameter/aws/service/*"))],
        "eks:DescribeCluster" | "arc-zonal-shift:GetManagedResource" => {
            let name = format!("cluster/{}", place.cluster.as_deref().unwrap_or("*"));
            vec![builder.plain(&builder.arn("eks", true, &name))]
        }
        "pricing:GetProducts" => {
            let pricing = place.region.as_deref().and_then(|region| pricing_region(region, false));
            let mut request = builder.plain("*");
            request.keys.insert("aws:requestedregion", pricing.map(str::to_owned).into_iter().collect());
            vec![request]
        }
        _ => vec![builder.plain("*")],
    }
}

/// Resource types that every launch creates.
const CREATED: [&str; 4] = ["instance", "volume", "network-interface", "spot-instances-request"];
/// Existing resource types that a launch uses.
const USED: [&str; 2] = ["security-group", "subnet"];

/// The statements of `deploy/iam` for the resources that a launch uses, and for its launch template.
const OF_USED: &str = "AllowScopedEC2InstanceAccessActions";
const OF_TEMPLATES: &str = "AllowScopedEC2LaunchTemplateAccessActions";

struct RequestBuilder<'a> {
    action: &'static str,
    place: &'a Place,
}

impl RequestBuilder<'_> {
    /// An ARN in the partition and account of the caller.
    fn arn(&self, service: &str, accounted: bool, rest: &str) -> String {
        let region = self.place.region.as_deref().unwrap_or("*");
        format!("arn:*:{service}:{region}:{}:{rest}", if accounted { "*" } else { "" })
    }

    fn plain(&self, resource: &str) -> AuthorizationRequest {
        let region: Vec<String> = self.place.region.clone().into_iter().collect();
        AuthorizationRequest {
            action: self.action,
            resource: resource.to_owned(),
            statement: None,
            requested: Tags::None,
            resource_tags: Tags::Others,
            keys: ["aws:requestedregion", "ec2:region"].map(|key| (key, region.clone())).into(),
            cluster: self.place.cluster.clone(),
            region: self.place.region.clone(),
        }
    }

    /// An EC2 resource that is tagged on creation; `by` lists the calls that may tag it.
    fn created(&self, kind: &str, by: &[&str]) -> AuthorizationRequest {
        let mut request = self.plain(&self.arn("ec2", true, &format!("{kind}/*")));
        request.requested = Tags::Launch;
        request.resource_tags = Tags::None;
        if !by.is_empty() {
            request.keys.insert("ec2:createaction", by.iter().map(|call| (*call).to_owned()).collect());
        }
        request
    }

    /// An EC2 resource that carries our tags.
    fn owned(&self, kind: &str) -> AuthorizationRequest {
        let mut request = self.plain(&self.arn("ec2", true, &format!("{kind}/*")));
        request.resource_tags = Tags::Launch;
        request
    }

    fn late(&self) -> AuthorizationRequest {
        let mut request = self.owned("instance");
        request.requested = Tags::Late;
        let tags = [labels::TAG_CLUSTER_NAME, labels::TAG_NODECLAIM, labels::TAG_NAME];
        request.keys.insert("aws:tagkeys", tags.map(str::to_owned).to_vec());
        request
    }

    fn launch(&self, more: &[&str]) -> Vec<AuthorizationRequest> {
        let image = self.plain(&self.arn("ec2", false, "image/*"));
        let used = USED.iter().map(|kind| self.plain(&self.arn("ec2", true, &format!("{kind}/*"))));
        let used = [image]
            .into_iter()
            .chain(used)
            .map(|request| AuthorizationRequest { statement: Some(OF_USED), ..request });
        let template =
            AuthorizationRequest { statement: Some(OF_TEMPLATES), ..self.owned("launch-template") };
        let born = CREATED.iter().chain(more).map(|kind| self.created(kind, &[]));
        used.chain([template]).chain(born).collect()
    }

    fn iam(&self) -> AuthorizationRequest {
        let Place { cluster, region, .. } = self.place;
        let all = |value: &Option<String>| value.clone().unwrap_or_else(|| "*".to_owned());
        let path = format!("arn:*:iam::*:instance-profile/karpenter/{}/{}/*", all(region), all(cluster));
        let mut request = self.plain(&path);
        // IAM is a global service.
        request.keys.remove("aws:requestedregion");
        match self.action {
            "iam:PassRole" => {
                request.resource = "arn:*:iam::*:role/*".to_owned();
                let china = region.as_ref().is_some_and(|region| region.starts_with("cn-"));
                let service = if china { "ec2.amazonaws.com.cn" } else { "ec2.amazonaws.com" };
                request.keys.insert("iam:passedtoservice", vec![service.to_owned()]);
            }
            "iam:CreateInstanceProfile" => request.requested = Tags::Profile,
            "iam:TagInstanceProfile" => {
                (request.requested, request.resource_tags) = (Tags::Profile, Tags::Profile)
            }
            "iam:GetInstanceProfile" | "iam:ListInstanceProfiles" => {}
            _ => request.resource_tags = Tags::Profile,
        }
        request
    }
}

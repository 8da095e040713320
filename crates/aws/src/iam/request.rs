//! What the controller asks IAM to allow: each action with the resources that it is for, and what conditions can know of it.

use std::collections::BTreeMap;

use fleetwright_aws_api::labels;

use super::Right;
use crate::prices::pricing_region;

/// Where the controller works. What is not known is passed over when policies are compared with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Name of the cluster.
    pub cluster: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// Name or address of the interruption queue.
    pub queue: Option<String>,
}

/// What is known of a condition's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Its values.
    Is(Vec<String>),
    /// That it has a value.
    There,
    /// That it has none.
    Absent,
}

/// Tags by where they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tags {
    /// None at all.
    None,
    /// Those of all that is launched.
    Launch,
    /// Those of instance profiles.
    Profile,
    /// Those that an instance gets when its node has a name.
    Late,
    /// Somebody else's: nobody knows them.
    Others,
}

/// One thing that IAM is asked to allow.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// The action.
    pub(super) action: &'static str,
    /// The resource; `*` is what is not known of it, and stands for itself where an action has no resources.
    pub(super) resource: String,
    /// The statement of `deploy/iam` that allows it, where it is another one than the right's.
    pub(super) statement: Option<&'static str>,
    requested: Tags,
    resource_tags: Tags,
    /// Values of other keys; none where there are some that are not known.
    keys: BTreeMap<&'static str, Vec<String>>,
    cluster: Option<String>,
    region: Option<String>,
}

impl Asked {
    /// What is known of a condition's key; `None` where only a real call would tell.
    pub(super) fn get(&self, key: &str) -> Option<Known> {
        let lower = key.to_ascii_lowercase();
        if let Some(values) = self.keys.get(lower.as_str()) {
            return Some(if values.is_empty() { Known::There } else { Known::Is(values.clone()) });
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

    fn tag(&self, tags: Tags, key: &str) -> Option<Known> {
        let text = |value: &Option<String>| match value {
            Some(value) => Known::Is(vec![value.clone()]),
            None => Known::There,
        };
        if tags == Tags::Others {
            return None;
        }
        if tags == Tags::None {
            return Some(Known::Absent);
        }
        if key.eq_ignore_ascii_case(labels::TAG_CLUSTER_NAME) {
            return Some(text(&self.cluster));
        }
        if tags == Tags::Late {
            let late = [labels::TAG_NAME, labels::TAG_NODECLAIM];
            return Some(if late.contains(&key) { Known::There } else { Known::Absent });
        }
        if let Some(name) = key.strip_prefix(labels::TAG_CLUSTER_PREFIX) {
            // A node class may not have such tags of its own.
            let ours = self.cluster.as_ref().is_none_or(|cluster| cluster == name);
            return Some(if ours { Known::Is(vec!["owned".to_owned()]) } else { Known::Absent });
        }
        match key {
            labels::NODE_CLASS | labels::TAG_CLUSTER_UID => Some(Known::There),
            labels::TAG_NODEPOOL if tags == Tags::Launch => Some(Known::There),
            labels::TAG_NODEPOOL => Some(Known::Absent),
            labels::TAG_REGION if tags == Tags::Profile => Some(text(&self.region)),
            // The tags of node classes are their users' business.
            _ => None,
        }
    }
}

/// Everything that a right is needed for.
pub(super) fn asked(right: &Right, place: &Place) -> Vec<Asked> {
    let maker = Maker { action: right.action, place };
    match right.action {
        "ec2:RunInstances" => maker.launch(&[]),
        "ec2:CreateFleet" => maker.launch(&["fleet"]),
        "ec2:CreateLaunchTemplate" => vec![maker.born("launch-template", &[])],
        "ec2:CreateTags" if right.call == "create_tags" => vec![maker.late()],
        "ec2:CreateTags" if right.call == "create_launch_template" => {
            vec![maker.born("launch-template", &["CreateLaunchTemplate"])]
        }
        "ec2:CreateTags" => {
            let of = |kind: &&str| maker.born(kind, &["CreateFleet", "RunInstances"]);
            BORN.iter().chain(&["fleet"]).map(of).collect()
        }
        "ec2:TerminateInstances" => vec![maker.owned("instance")],
        "ec2:DeleteLaunchTemplate" => vec![maker.owned("launch-template")],
        action if action.starts_with("iam:") => vec![maker.iam()],
        action if action.starts_with("sqs:") => {
            let queue = place.queue.as_deref().and_then(|queue| queue.rsplit('/').next());
            vec![maker.plain(&maker.arn("sqs", true, queue.unwrap_or("*")))]
        }
        "ssm:GetParameter" => vec![maker.plain(&maker.arn("ssm", false, "parameter/aws/service/*"))],
        "eks:DescribeCluster" | "arc-zonal-shift:GetManagedResource" => {
            let name = format!("cluster/{}", place.cluster.as_deref().unwrap_or("*"));
            vec![maker.plain(&maker.arn("eks", true, &name))]
        }
        "pricing:GetProducts" => {
            let told = place.region.as_deref().and_then(|region| pricing_region(region, false));
            let mut asked = maker.plain("*");
            asked.keys.insert("aws:requestedregion", told.map(str::to_owned).into_iter().collect());
            vec![asked]
        }
        _ => vec![maker.plain("*")],
    }
}

/// What every launch makes.
const BORN: [&str; 4] = ["instance", "volume", "network-interface", "spot-instances-request"];
/// What a launch uses that others made.
const USED: [&str; 2] = ["security-group", "subnet"];

/// The statements of `deploy/iam` for what a launch uses, and for its launch template.
const OF_USED: &str = "AllowScopedEC2InstanceAccessActions";
const OF_TEMPLATES: &str = "AllowScopedEC2LaunchTemplateAccessActions";

struct Maker<'a> {
    action: &'static str,
    place: &'a Place,
}

impl Maker<'_> {
    /// An ARN; partition and account are those of whoever asks.
    fn arn(&self, service: &str, accounted: bool, rest: &str) -> String {
        let region = self.place.region.as_deref().unwrap_or("*");
        format!("arn:*:{service}:{region}:{}:{rest}", if accounted { "*" } else { "" })
    }

    fn plain(&self, resource: &str) -> Asked {
        let region: Vec<String> = self.place.region.clone().into_iter().collect();
        Asked {
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

    /// Something of EC2's that is born with tags; `by` are the calls that may tag it at its birth.
    fn born(&self, kind: &str, by: &[&str]) -> Asked {
        let mut asked = self.plain(&self.arn("ec2", true, &format!("{kind}/*")));
        asked.requested = Tags::Launch;
        asked.resource_tags = Tags::None;
        if !by.is_empty() {
            asked.keys.insert("ec2:createaction", by.iter().map(|call| (*call).to_owned()).collect());
        }
        asked
    }

    /// Something of EC2's that was born with our tags.
    fn owned(&self, kind: &str) -> Asked {
        let mut asked = self.plain(&self.arn("ec2", true, &format!("{kind}/*")));
        asked.resource_tags = Tags::Launch;
        asked
    }

    fn late(&self) -> Asked {
        let mut asked = self.owned("instance");
        asked.requested = Tags::Late;
        let tags = [labels::TAG_CLUSTER_NAME, labels::TAG_NODECLAIM, labels::TAG_NAME];
        asked.keys.insert("aws:tagkeys", tags.map(str::to_owned).to_vec());
        asked
    }

    fn launch(&self, more: &[&str]) -> Vec<Asked> {
        let image = self.plain(&self.arn("ec2", false, "image/*"));
        let used = USED.iter().map(|kind| self.plain(&self.arn("ec2", true, &format!("{kind}/*"))));
        let used = [image].into_iter().chain(used).map(|asked| Asked { statement: Some(OF_USED), ..asked });
        let template = Asked { statement: Some(OF_TEMPLATES), ..self.owned("launch-template") };
        let born = BORN.iter().chain(more).map(|kind| self.born(kind, &[]));
        used.chain([template]).chain(born).collect()
    }

    fn iam(&self) -> Asked {
        let Place { cluster, region, .. } = self.place;
        let all = |value: &Option<String>| value.clone().unwrap_or_else(|| "*".to_owned());
        let path = format!("arn:*:iam::*:instance-profile/karpenter/{}/{}/*", all(region), all(cluster));
        let mut asked = self.plain(&path);
        // IAM is in one region for all.
        asked.keys.remove("aws:requestedregion");
        match self.action {
            "iam:PassRole" => {
                asked.resource = "arn:*:iam::*:role/*".to_owned();
                let china = region.as_ref().is_some_and(|region| region.starts_with("cn-"));
                let service = if china { "ec2.amazonaws.com.cn" } else { "ec2.amazonaws.com" };
                asked.keys.insert("iam:passedtoservice", vec![service.to_owned()]);
            }
            "iam:CreateInstanceProfile" => asked.requested = Tags::Profile,
            "iam:TagInstanceProfile" => {
                (asked.requested, asked.resource_tags) = (Tags::Profile, Tags::Profile)
            }
            "iam:GetInstanceProfile" | "iam:ListInstanceProfiles" => {}
            _ => asked.resource_tags = Tags::Profile,
        }
        asked
    }
}

//! How a node class selects subnets, security groups, images, capacity reservations and its placement group.

use fleetwright_api::schema::rules;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Tags;

/// A subnet by id or by tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SubnetSelectorTerm {
    /// Id of the subnet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "subnet-[0-9a-z]+"))]
    pub id: Option<String>,
    /// Tags that the subnet has; the value `*` matches any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 20, "x-kubernetes-validations" = rules(TERM_TAGS)))]
    pub tags: Option<Tags>,
}

/// A security group by id, by name or by tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SecurityGroupSelectorTerm {
    /// Id of the security group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "sg-[0-9a-z]+"))]
    pub id: Option<String>,
    /// Name of the security group (not its tag Name).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Tags that the security group has; the value `*` matches any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 20, "x-kubernetes-validations" = rules(TERM_TAGS)))]
    pub tags: Option<Tags>,
}

/// A capacity reservation by id, or by tags, owner and match criteria.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacityReservationSelectorTerm {
    /// Id of the reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^cr-[0-9a-z]+$"))]
    pub id: Option<String>,
    /// How instances are matched to the reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["open", "targeted"]))]
    pub instance_match_criteria: Option<String>,
    /// Account that owns the reservation.
    #[serde(rename = "ownerID", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^[0-9]{12}$"))]
    pub owner_id: Option<String>,
    /// Tags that the reservation has; the value `*` matches any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 20, "x-kubernetes-validations" = rules(TERM_TAGS)))]
    pub tags: Option<Tags>,
}

/// A placement group by id or by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    ("has(self.name) || has(self.id)", "expected at least one, got none, ['name', 'id']"),
    ("!(has(self.name) && has(self.id))", "'name' and 'id' are mutually exclusive"),
])))]
pub struct PlacementGroupSelector {
    /// Id of the placement group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^pg-[0-9a-z]+$"))]
    pub id: Option<String>,
    /// Name of the placement group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minLength" = 1))]
    pub name: Option<String>,
}

/// An image by alias, by id, by SSM parameter, or by name, owner and tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AmiSelectorTerm {
    /// An EKS-optimized image as `family@version`; the version is one of the family's, or `latest`, with which nodes drift whenever a new
    /// image is released. Windows families support `latest` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 30, "x-kubernetes-validations" = rules(ALIAS_RULES)))]
    pub alias: Option<String>,
    /// Id of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "ami-[0-9a-z]+"))]
    pub id: Option<String>,
    /// Name of the image (not its tag Name); may contain wildcards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Owner of the image: an account, `self`, `amazon` or `aws-marketplace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Name or ARN of the SSM parameter with the image's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssm_parameter: Option<String>,
    /// Tags that the image has; the value `*` matches any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 20, "x-kubernetes-validations" = rules(TERM_TAGS)))]
    pub tags: Option<Tags>,
}

const TERM_TAGS: &[(&str, &str)] =
    &[("self.all(k, k != '' && self[k] != '')", "empty tag keys or values aren't supported")];

const ALIAS_RULES: &[(&str, &str)] = &[
    (
        "self.matches('^[a-zA-Z0-9]+@.+$')",
        "'alias' is improperly formatted, must match the format 'family@version'",
    ),
    (
        "self.split('@')[0] in ['al2','al2023','bottlerocket','windows2019','windows2022','windows2025']",
        "family is not supported, must be one of the following: 'al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025'",
    ),
    (
        "self.split('@')[0] in ['windows2019','windows2022','windows2025'] ? self.split('@')[1] == 'latest' : true",
        "windows families may only specify version 'latest'",
    ),
];

pub(super) const AMI_RULES: &[(&str, &str)] = &[
    (
        "self.all(x, has(x.tags) || has(x.id) || has(x.name) || has(x.alias) || has(x.ssmParameter))",
        "expected at least one, got none, ['tags', 'id', 'name', 'alias', 'ssmParameter']",
    ),
    (
        "!self.exists(x, has(x.id) && (has(x.alias) || has(x.tags) || has(x.name) || has(x.owner)))",
        "'id' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
    ),
    (
        "!self.exists(x, has(x.alias) && (has(x.id) || has(x.tags) || has(x.name) || has(x.owner)))",
        "'alias' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
    ),
    (
        "!(self.exists(x, has(x.alias)) && self.size() != 1)",
        "'alias' is mutually exclusive, cannot be set with a combination of other amiSelectorTerms",
    ),
];

pub(super) const SUBNET_RULES: &[(&str, &str)] = &[
    ("self.size() != 0", "subnetSelectorTerms cannot be empty"),
    ("self.all(x, has(x.tags) || has(x.id))", "expected at least one, got none, ['tags', 'id']"),
    (
        "!self.all(x, has(x.id) && has(x.tags))",
        "'id' is mutually exclusive, cannot be set with a combination of other fields in a subnet selector term",
    ),
];

pub(super) const SECURITY_GROUP_RULES: &[(&str, &str)] = &[
    ("self.size() != 0", "securityGroupSelectorTerms cannot be empty"),
    (
        "self.all(x, has(x.tags) || has(x.id) || has(x.name))",
        "expected at least one, got none, ['tags', 'id', 'name']",
    ),
    (
        "!self.all(x, has(x.id) && (has(x.tags) || has(x.name)))",
        "'id' is mutually exclusive, cannot be set with a combination of other fields in a security group selector term",
    ),
    (
        "!self.all(x, has(x.name) && (has(x.tags) || has(x.id)))",
        "'name' is mutually exclusive, cannot be set with a combination of other fields in a security group selector term",
    ),
];

pub(super) const RESERVATION_RULES: &[(&str, &str)] = &[
    (
        "self.all(x, has(x.tags) || has(x.id) || has(x.instanceMatchCriteria))",
        "expected at least one, got none, ['tags', 'id', 'instanceMatchCriteria']",
    ),
    (
        "!self.all(x, has(x.id) && (has(x.tags) || has(x.ownerID) || has(x.instanceMatchCriteria)))",
        "'id' is mutually exclusive, cannot be set along with other fields in a capacity reservation selector term",
    ),
];

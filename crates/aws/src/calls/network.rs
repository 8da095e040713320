//! Subnets, security groups, placement groups, and the filters that select them.

use std::collections::BTreeMap;

/// An EC2 filter: the attribute has one of the values. All filters of a call must match.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filter {
    /// `subnet-id`, `tag:<key>`, `tag-key`, ….
    pub name: String,
    /// The values.
    pub values: Vec<String>,
}

impl Filter {
    /// The attribute has one of `values`.
    pub fn new(name: impl Into<String>, values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { name: name.into(), values: values.into_iter().map(Into::into).collect() }
    }

    /// One filter per tag; the value `*` matches any value.
    #[must_use]
    pub fn of_tags(tags: &BTreeMap<String, String>) -> Vec<Self> {
        let filter = |(key, value): (&String, &String)| match value.as_str() {
            "*" => Self::new("tag-key", [key]),
            _ => Self::new(format!("tag:{key}"), [value]),
        };
        tags.iter().map(filter).collect()
    }
}

/// A subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubnetInfo {
    /// Its id.
    pub id: String,
    /// Its zone.
    pub zone: String,
    /// Its zone's id.
    pub zone_id: String,
    /// Free addresses.
    pub free_addresses: i64,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// A security group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupInfo {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// A placement group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementGroup {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `cluster`, `partition` or `spread`.
    pub strategy: String,
    /// The number of partitions; 0 if it has none.
    pub partitions: u32,
}

//! Small conversions between the SDK's types and ours.

use std::collections::BTreeMap;

use aws_sdk_ec2::primitives::DateTime;
use aws_sdk_ec2::types::{Filter as Ec2Filter, ResourceType, Tag, TagSpecification};
use fleetwright_aws::calls::{Filter, TagSet};
use jiff::Timestamp;

/// A point in time; `None` if a timestamp cannot represent it.
pub(crate) fn time(at: &DateTime) -> Option<Timestamp> {
    Timestamp::new(at.secs(), i32::try_from(at.subsec_nanos()).ok()?).ok()
}

/// Tags by key; a tag without a key is left out.
pub(crate) fn tags(tags: &[Tag]) -> TagSet {
    tags.iter()
        .filter_map(|tag| Some((tag.key()?.to_owned(), tag.value().unwrap_or_default().to_owned())))
        .collect()
}

/// Filters as EC2 takes them; `None` matches all.
pub(crate) fn filters(filters: &[Filter]) -> Option<Vec<Ec2Filter>> {
    let filter = |filter: &Filter| {
        Ec2Filter::builder().name(&filter.name).set_values(Some(filter.values.clone())).build()
    };
    (!filters.is_empty()).then(|| filters.iter().map(filter).collect())
}

/// Tags in EC2's type.
pub(crate) fn ec2_tags(tags: &TagSet) -> Vec<Tag> {
    tags.iter().map(|(key, value)| Tag::builder().key(key).value(value).build()).collect()
}

/// Tag specifications for several resource types; `None` without tags, because EC2 rejects an empty list.
pub(crate) fn tagged(kinds: &[ResourceType], tags: &TagSet) -> Option<Vec<TagSpecification>> {
    let one = |kind: &ResourceType| {
        TagSpecification::builder().resource_type(kind.clone()).set_tags(Some(ec2_tags(tags))).build()
    };
    (!tags.is_empty()).then(|| kinds.iter().map(one).collect())
}

/// Optional text; empty if absent.
pub(crate) fn text(text: Option<&str>) -> String {
    text.unwrap_or_default().to_owned()
}

/// An optional count; zero if absent or negative.
pub(crate) fn count(count: Option<i32>) -> i64 {
    count.map_or(0, |count| i64::from(count.max(0)))
}

/// Tags of IAM, by key.
pub(crate) fn iam_tags(tags: &[aws_sdk_iam::types::Tag]) -> BTreeMap<String, String> {
    tags.iter().map(|tag| (tag.key().to_owned(), tag.value().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    //! Conversion of times, tags and filters.
    use super::*;

    #[test]
    fn times_keep_their_fractions_and_invalid_times_are_none() {
        let at = DateTime::from_secs_and_nanos(1_700_000_000, 5_000_000);
        assert_eq!(time(&at).map(|at| at.to_string()).as_deref(), Some("2023-11-14T22:13:20.005Z"));
        assert_eq!(time(&DateTime::from_secs(i64::MAX)), None);
    }

    #[test]
    fn a_tag_without_a_key_is_left_out() {
        let found = tags(&[Tag::builder().key("a").build(), Tag::builder().value("b").build()]);
        assert_eq!(found, TagSet::from([("a".to_owned(), String::new())]));
    }

    #[test]
    fn no_filters_and_no_tags_are_not_sent() {
        assert_eq!(filters(&[]), None);
        assert_eq!(tagged(&[ResourceType::Instance], &TagSet::new()), None);
        let sent = filters(&[Filter::new("tag-key", ["a", "b"])]).unwrap();
        assert_eq!((sent[0].name(), sent[0].values().len()), (Some("tag-key"), 2));
    }
}

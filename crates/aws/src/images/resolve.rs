//! Resolves an EC2NodeClass's selector terms to the images of its status.
//!
//! A failed call to AWS is an error, never an absence: a throttled look-up must not look like a missing image.

use std::collections::BTreeMap;

use fleetwright_aws_api::ec2nodeclass::Ami;
use fleetwright_aws_api::ec2nodeclass::{AmiSelectorTerm, Ec2NodeClassSpec};
use jiff::Timestamp;

use super::alias::{AliasProblem, Variant, parameters};
use super::parameters::{ParameterSource, Parameters};
use super::select::{Candidate, select, variant_of_name};
use crate::calls::{AwsApi, AwsError, Filter};
use crate::lists::first_names;

/// Why an EC2NodeClass has no images.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The alias does not support this cluster; waiting does not help.
    #[error(transparent)]
    Alias(#[from] AliasProblem),
    /// No image matches.
    #[error("no image matches spec.amiSelectorTerms{}", listed(.0))]
    NoneFound(Vec<String>),
    /// EC2 did not answer: the known images remain.
    #[error("images cannot be looked up, {0}")]
    Unanswered(#[from] AwsError),
    /// SSM did not answer: what is known stands.
    #[error("the images' parameters cannot be looked up, {0}")]
    Parameter(AwsError),
}

/// What was not found, as the end of a sentence.
fn listed(missing: &[String]) -> String {
    if missing.is_empty() { String::new() } else { format!(": there is no {}", first_names(missing)) }
}

/// The images of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The images, newest first.
    pub amis: Vec<Ami>,
    /// Parameters that do not exist or hold no image id, and terms without content.
    pub missing: Vec<String>,
    /// Whether the images come from an alias, which does not have every variant for every version.
    pub of_alias: bool,
}

/// The inputs of a look-up.
#[derive(Clone, Copy)]
pub struct Lookup<'a> {
    /// AWS.
    pub api: &'a dyn AwsApi,
    /// The cached SSM parameters.
    pub parameters: &'a Parameters,
    /// The time.
    pub now: Timestamp,
}

/// Looks up the images of a class for a cluster's version.
///
/// # Errors
/// If no image is found, or AWS does not answer.
pub async fn resolve(
    lookup: Lookup<'_>,
    spec: &Ec2NodeClassSpec,
    kubernetes: &str,
) -> Result<Resolved, ImageError> {
    let mut missing = Vec::new();
    let candidates = match spec.alias() {
        Some(alias) => {
            let mut ids: BTreeMap<String, Vec<Variant>> = BTreeMap::new();
            for parameter in parameters(&alias, kubernetes)? {
                let source =
                    if parameter.mutable { ParameterSource::Latest } else { ParameterSource::Pinned };
                match lookup.value(&parameter.path, source, &mut missing).await? {
                    Some(id) => ids.entry(id).or_default().extend(parameter.variants),
                    None => continue,
                }
            }
            by_ids(lookup.api, &ids).await?
        }
        None => by_terms(lookup, &spec.ami_selector_terms, &mut missing).await?,
    };
    let amis = select(&candidates, lookup.now);
    for ami in amis.iter().filter(|ami| ami.deprecated) {
        lookup.parameters.deprecated(&ami.id);
    }
    if amis.is_empty() {
        Err(ImageError::NoneFound(missing))
    } else {
        Ok(Resolved { amis, missing, of_alias: spec.alias().is_some() })
    }
}

impl Lookup<'_> {
    /// The image id in a parameter; `None` if there is no such parameter or no id in it.
    async fn value(
        self,
        path: &str,
        source: ParameterSource,
        missing: &mut Vec<String>,
    ) -> Result<Option<String>, ImageError> {
        let image = self.parameters.image(self.api, path, source, self.now).await;
        let image = image.map_err(ImageError::Parameter)?;
        if image.is_none() {
            missing.push(path.to_owned());
        }
        Ok(image)
    }
}

async fn by_ids(api: &dyn AwsApi, ids: &BTreeMap<String, Vec<Variant>>) -> Result<Vec<Candidate>, AwsError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let images = api.images(&[], &[Filter::new("image-id", ids.keys())]).await?;
    let candidate = |image: crate::calls::Image| {
        let known = ids.get(&image.id).cloned().unwrap_or_default();
        let variants =
            if known.is_empty() { variant_of_name(&image.name).into_iter().collect() } else { known };
        Candidate { image, variants }
    };
    Ok(images.into_iter().map(candidate).collect())
}

async fn by_terms(
    lookup: Lookup<'_>,
    terms: &[AmiSelectorTerm],
    missing: &mut Vec<String>,
) -> Result<Vec<Candidate>, ImageError> {
    let mut ids: BTreeMap<String, Vec<Variant>> = BTreeMap::new();
    let mut found = Vec::new();
    for term in terms {
        if let Some(id) = &term.id {
            ids.entry(id.clone()).or_default();
            continue;
        }
        if let Some(parameter) = &term.ssm_parameter {
            if let Some(id) = lookup.value(parameter, ParameterSource::Custom, missing).await? {
                ids.entry(id).or_default();
            }
            continue;
        }
        // A term without content would match every public image, and the newest of them would be used.
        let (owners, filters) = query(term);
        if owners.is_empty() && filters.is_empty() {
            missing.push(described(term));
            continue;
        }
        for image in lookup.api.images(&owners, &filters).await? {
            let variants = variant_of_name(&image.name).into_iter().collect();
            found.push(Candidate { image, variants });
        }
    }
    found.extend(by_ids(lookup.api, &ids).await?);
    Ok(found)
}

/// A term that selects nothing, as it appears in messages.
fn described(term: &AmiSelectorTerm) -> String {
    match &term.alias {
        Some(alias) => format!("alias {alias:?}, which is not of the form family@version"),
        None => "a term without any name, id or tag".to_owned(),
    }
}

/// Owners and filters of a term by name or tags. A name alone selects images of this account and of Amazon only: anyone may publish an
/// image of any name.
fn query(term: &AmiSelectorTerm) -> (Vec<String>, Vec<Filter>) {
    let owners = match (&term.owner, &term.name) {
        (Some(owner), _) => vec![owner.clone()],
        (None, Some(_)) => vec!["self".to_owned(), "amazon".to_owned()],
        (None, None) => Vec::new(),
    };
    let by_name = term.name.as_ref().map(|name| Filter::new("name", [name]));
    let by_tags = term.tags.as_ref().map(Filter::of_tags).unwrap_or_default();
    (owners, by_name.into_iter().chain(by_tags).collect())
}

#[cfg(test)]
mod tests {
    //! The queries of terms.
    use super::*;

    /// One of them is an alias that passes the CRD's validation and is invalid.
    #[tokio::test]
    async fn empty_terms_are_not_queried() {
        struct FixedClock;
        impl fleetwright_core::clock::Clock for FixedClock {
            fn now(&self) -> Timestamp {
                Timestamp::UNIX_EPOCH
            }
            fn sleep(&self, _: std::time::Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
                Box::pin(std::future::ready(()))
            }
        }
        let aws = crate::testing::FakeAws::new(std::sync::Arc::new(FixedClock));
        let parameters = Parameters::default();
        let lookup = Lookup { api: &aws, parameters: &parameters, now: Timestamp::UNIX_EPOCH };
        let alias = AmiSelectorTerm { alias: Some("al2023@a@b".to_owned()), ..AmiSelectorTerm::default() };
        let tags = AmiSelectorTerm { tags: Some(BTreeMap::new()), ..AmiSelectorTerm::default() };
        let spec = Ec2NodeClassSpec { ami_selector_terms: vec![alias, tags], ..Ec2NodeClassSpec::default() };
        let found = resolve(lookup, &spec, "1.35").await.unwrap_err();
        assert_eq!(
            found.to_string(),
            "no image matches spec.amiSelectorTerms: there is no alias \"al2023@a@b\", which is not of the form \
             family@version, a term without any name, id or tag"
        );
        assert_eq!(aws.count("DescribeImages"), 0);
    }

    #[test]
    fn names_do_not_match_foreign_images() {
        let by_name = AmiSelectorTerm { name: Some("ours-*".to_owned()), ..AmiSelectorTerm::default() };
        let (owners, filters) = query(&by_name);
        assert_eq!(owners, ["self", "amazon"]);
        assert_eq!(filters, [Filter::new("name", ["ours-*"])]);
        let tags = [("a".to_owned(), "*".to_owned()), ("b".to_owned(), "c".to_owned())].into();
        let by_tags = AmiSelectorTerm { tags: Some(tags), ..AmiSelectorTerm::default() };
        let (owners, filters) = query(&by_tags);
        assert!(owners.is_empty());
        assert_eq!(filters, [Filter::new("tag-key", ["a"]), Filter::new("tag:b", ["c"])]);
        let owned = AmiSelectorTerm { owner: Some("123".to_owned()), ..by_name };
        assert_eq!(query(&owned).0, ["123"]);
    }
}

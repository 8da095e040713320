//! From a class's selector terms to the images of its status.
//!
//! What AWS does not answer is an error and never an absence: a throttled look-up must not look like an image that is gone.

use std::collections::BTreeMap;

use fleetwright_aws_api::ec2nodeclass::Ami;
use fleetwright_aws_api::ec2nodeclass::{AmiSelectorTerm, Ec2NodeClassSpec};
use jiff::Timestamp;

use super::alias::{AliasProblem, Variant, parameters};
use super::parameters::{Parameters, Source};
use super::select::{Candidate, select, variant_of_name};
use crate::calls::{AwsApi, AwsError, Filter};

/// Why a class has no images.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The alias is not for this cluster; waiting does not help.
    #[error(transparent)]
    Alias(#[from] AliasProblem),
    /// Nothing matches.
    #[error("no image matches spec.amiSelectorTerms")]
    NoneFound,
    /// EC2 did not answer: what is known stands.
    #[error("images cannot be looked up, {0}")]
    Unanswered(#[from] AwsError),
    /// SSM did not answer: what is known stands.
    #[error("the images' parameters cannot be looked up, {0}")]
    Parameter(AwsError),
}

/// The images of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The images, newest first.
    pub amis: Vec<Ami>,
    /// Parameters that do not exist or hold no image's id.
    pub missing: Vec<String>,
}

/// Who is asked, and when.
#[derive(Clone, Copy)]
pub struct Lookup<'a> {
    /// AWS.
    pub api: &'a dyn AwsApi,
    /// What is known of SSM's parameters.
    pub parameters: &'a Parameters,
    /// The time.
    pub now: Timestamp,
}

/// Looks up the images of a class for a cluster's version.
///
/// # Errors
/// Where nothing is found, or AWS does not answer.
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
                let source = if parameter.mutable { Source::Latest } else { Source::Pinned };
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
    if amis.is_empty() { Err(ImageError::NoneFound) } else { Ok(Resolved { amis, missing }) }
}

impl Lookup<'_> {
    /// The image's id that a parameter holds; `None` where there is no such parameter or no id in it.
    async fn value(
        self,
        path: &str,
        source: Source,
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
            if let Some(id) = lookup.value(parameter, Source::Custom, missing).await? {
                ids.entry(id).or_default();
            }
            continue;
        }
        let (owners, filters) = query(term);
        for image in lookup.api.images(&owners, &filters).await? {
            let variants = variant_of_name(&image.name).into_iter().collect();
            found.push(Candidate { image, variants });
        }
    }
    found.extend(by_ids(lookup.api, &ids).await?);
    Ok(found)
}

/// Owners and filters of a term by name or tags. A name alone means one's own images and Amazon's: anybody may publish an
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
    //! What a term asks for.
    use super::*;

    #[test]
    fn names_do_not_reach_strangers_images() {
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

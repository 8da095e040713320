//! Lists: selectors, pages and consistent snapshots.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::cluster::{ClusterState, Target};
use crate::route::Query;
use crate::selector::{Fields, Labels, Selector};
use crate::status::ApiError;
use crate::store::Key;

/// A page of a list.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// The objects, in stored form.
    pub(crate) items: Vec<Arc<Value>>,
    /// Revision of the snapshot.
    pub(crate) revision: u64,
    /// Token of the next page, empty for the last.
    pub(crate) more: String,
    /// The number of remaining objects; unknown with selectors.
    pub(crate) remaining: Option<usize>,
}

/// Parses the selectors of a request.
///
/// # Errors
/// 400 with the invalid part.
pub(crate) fn selector(target: &Target, query: &Query) -> Result<Selector, ApiError> {
    let labels = Labels::parse(query.text("labelSelector"))?;
    let fields = Fields::parse(query.text("fieldSelector"), &target.resource)?;
    Ok(Selector { labels, fields })
}

fn encode_token(revision: u64, last: &Key) -> String {
    let token = json!({ "v": "meta.k8s.io/v1", "rv": revision, "start": [last.namespace, last.name] });
    URL_SAFE_NO_PAD.encode(token.to_string())
}

fn decode_token(token: &str) -> Option<(u64, Key)> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let value: Value = serde_json::from_slice(&bytes).ok()?;
    let start = value.get("start")?;
    Some((value["rv"].as_u64()?, Key::new(start.get(0)?.as_str()?, start.get(1)?.as_str()?)))
}

/// Lists a collection; `stale` is the age of the read state in revisions.
///
/// # Errors
/// 400 for invalid parameters, 410 for a token or revision that is too old.
pub(crate) fn list(
    cluster: &ClusterState,
    target: &Target,
    query: &Query,
    stale: u64,
) -> Result<Page, ApiError> {
    let selector = selector(target, query)?;
    let limit = query.number("limit")?.filter(|limit| *limit > 0);
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let asked = asked_revision(cluster, query)?;
    let (snapshot, start) = match query.text("continue") {
        "" => (asked, None),
        token => {
            let (revision, key) = decode_token(token)
                .ok_or_else(|| ApiError::bad_request("continue key is not valid: cannot be decoded"))?;
            (Some(revision), Some(key))
        }
    };
    let snapshot = match (snapshot, stale) {
        (None, behind) if behind > 0 => Some(cluster.revision.saturating_sub(behind)),
        (snapshot, _) => snapshot,
    };
    let Some(store) = cluster.store(&target.resource.storage) else {
        return Ok(Page {
            items: Vec::new(),
            revision: cluster.revision,
            more: String::new(),
            remaining: None,
        });
    };
    let revision = snapshot.unwrap_or(cluster.revision);
    let old: Option<BTreeMap<Key, Arc<Value>>> =
        match snapshot.filter(|revision| *revision < cluster.revision) {
            Some(revision) => Some(
                store
                    .as_of(revision)
                    .map_err(|error| if start.is_some() { ApiError::continue_expired() } else { error })?,
            ),
            None => None,
        };
    let all: Box<dyn Iterator<Item = (&Key, &Arc<Value>)>> = match &old {
        Some(objects) => {
            let namespace = &target.namespace;
            Box::new(
                objects.iter().filter(move |(key, _)| namespace.is_empty() || key.namespace == *namespace),
            )
        }
        None => Box::new(store.scan(&target.namespace)),
    };
    let mut selected = all
        .filter(|(key, _)| start.as_ref().is_none_or(|start| *key > start))
        .filter(|(key, _)| selector.fields.name().is_none_or(|name| key.name == name))
        .filter(|(_, value)| selector.matches(value));
    let page: Vec<(&Key, &Arc<Value>)> = selected.by_ref().take(limit).collect();
    let rest = if page.len() == limit { selected.count() } else { 0 };
    let more = match page.last() {
        Some((last, _)) if rest > 0 => encode_token(revision, last),
        _ => String::new(),
    };
    let plain = query.text("labelSelector").is_empty() && query.text("fieldSelector").is_empty();
    Ok(Page {
        items: page.into_iter().map(|(_, value)| value.clone()).collect(),
        revision,
        more,
        remaining: (rest > 0 && plain).then_some(rest),
    })
}

/// The exact revision that a list requests, if any.
fn asked_revision(cluster: &ClusterState, query: &Query) -> Result<Option<u64>, ApiError> {
    let matching = query.text("resourceVersionMatch");
    let revision = query.number("resourceVersion")?;
    if !matching.is_empty() && !matches!(matching, "Exact" | "NotOlderThan") {
        return Err(ApiError::bad_request(format!("resourceVersionMatch: Unsupported value: {matching:?}")));
    }
    let Some(revision) = revision else {
        if matching.is_empty() || query.flag("sendInitialEvents") {
            return Ok(None);
        }
        let message = "resourceVersionMatch is forbidden unless resourceVersion is provided";
        return Err(ApiError::bad_request(message));
    };
    if revision > cluster.revision {
        return Err(too_large(revision, cluster.revision));
    }
    let exact = matching == "Exact" || (matching.is_empty() && revision > 0 && query.has("limit"));
    Ok((exact && revision > 0).then_some(revision))
}

/// 504: the requested revision is in the future.
pub(crate) fn too_large(asked: u64, current: u64) -> ApiError {
    let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
    ApiError::new(504, "Timeout", message)
        .cause("ResourceVersionTooLarge", "Too large resource version", "")
        .retry_after(1)
}

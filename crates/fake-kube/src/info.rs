//! Paths other than resources: discovery, OpenAPI, version and health.

use http::header::ACCEPT;
use http::request::Parts;
use indexmap::IndexMap;
use serde_json::Value;

use crate::dispatch::Reply;
use crate::registry::ResourceInfo;
use crate::route::Route;
use crate::server::Server;
use crate::status::ApiError;
use crate::view::{discovery, openapi};

/// Media type of aggregated discovery.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Serves a path that is not a resource.
///
/// # Errors
/// 404.
pub(crate) fn serve(server: &Server, parts: &Parts, route: &Route) -> Result<Reply, ApiError> {
    match route {
        Route::Health => Ok(Reply::Text(200, "ok".to_owned())),
        Route::Version => Ok(Reply::value(200, &discovery::version(&server.config().version))),
        Route::Discovery(segments) => discover(server, parts, segments),
        Route::OpenApi(segments) => describe(server, segments),
        Route::Resource(_) => Err(ApiError::no_such_route()),
    }
}

fn wants_aggregated(parts: &Parts) -> bool {
    let accept = parts.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|clause| {
        clause.contains("as=APIGroupDiscoveryList")
            && clause.split(';').any(|part| part.trim() == "v=v2")
            && clause.trim().starts_with("application/json")
    })
}

fn discover(server: &Server, parts: &Parts, segments: &[String]) -> Result<Reply, ApiError> {
    let resources = server.lock().registry.infos();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let found = match segments.as_slice() {
        [root @ ("api" | "apis")] if wants_aggregated(parts) => {
            let document = discovery::aggregated(&resources, *root == "api");
            return Ok(Reply::Typed(AGGREGATED, crate::view_of::bytes(&document)));
        }
        ["api"] => Some(discovery::api_versions()),
        ["apis"] => Some(discovery::group_list(&resources)),
        ["api", version] => discovery::resource_list(&resources, "", version),
        ["apis", group] => discovery::api_group(&resources, group),
        ["apis", group, version] => discovery::resource_list(&resources, group, version),
        _ => None,
    };
    found.map(|document| Reply::value(200, &document)).ok_or_else(ApiError::no_such_route)
}

fn describe(server: &Server, segments: &[String]) -> Result<Reply, ApiError> {
    let (resources, schemas) = schemas(server);
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let group = |group: &str, version: &str| {
        let of_group: IndexMap<String, Value> = schemas
            .iter()
            .filter(|(info, _)| info.group == group && info.version == version)
            .map(|(info, schema)| (info.kind.clone(), schema.clone()))
            .collect();
        openapi::v3_group(&resources, group, version, &of_group)
    };
    let served = |group: &str, version: &str| {
        resources.iter().any(|info| info.group == group && info.version == version)
    };
    Ok(Reply::value(
        200,
        &match segments.as_slice() {
            ["v2"] => openapi::v2(&resources, &schemas),
            ["v3"] => openapi::v3_index(&resources),
            ["v3", "api", version] if served("", version) => group("", version),
            ["v3", "apis", name, version] if served(name, version) => group(name, version),
            _ => return Err(ApiError::no_such_route()),
        },
    ))
}

/// All resources, and the schemas of custom resources.
fn schemas(server: &Server) -> (Vec<ResourceInfo>, Vec<(ResourceInfo, Value)>) {
    let cluster = server.lock();
    let custom = cluster
        .registry
        .all()
        .filter_map(|entry| Some((entry.info.clone(), entry.custom.as_ref()?.schema.clone())))
        .collect();
    (cluster.registry.infos(), custom)
}

//! Network interfaces, metadata service, connection tracking and processor options of an instance.

use fleetwright_api::schema::rules;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A network interface of every instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["deviceIndex", "interfaceType", "networkCardIndex"]))]
pub struct NetworkInterface {
    /// Index of the device.
    #[schemars(extend("minimum" = 0))]
    pub device_index: i32,
    /// An ordinary interface, or one for EFA traffic only.
    #[schemars(extend("enum" = ["interface", "efa-only"]))]
    pub interface_type: String,
    /// Index of the network card.
    #[schemars(extend("minimum" = 0))]
    pub network_card_index: i32,
}

pub(super) const INTERFACES_RULES: &[(&str, &str)] = &[
    (
        "self.size() == 0 || self.exists(x, x.deviceIndex == 0 && x.networkCardIndex == 0 && x.interfaceType == 'interface')",
        "networkInterfaces must include a primary interface with interfaceType='interface'",
    ),
    (
        "self.all(x, self.filter(y, x.networkCardIndex == y.networkCardIndex && x.deviceIndex == y.deviceIndex).size() == 1 && (x.interfaceType != 'efa-only' || self.filter(y, x.networkCardIndex == y.networkCardIndex && y.interfaceType == 'efa-only').size() == 1))",
        "networkInterfaces must not have duplicate networkCardIndex and deviceIndex pairs, and can have at most one efa device per network card",
    ),
];

/// Options of the instance metadata service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetadataOptions {
    /// Whether the service is enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["enabled", "disabled"], "x-crd-default" = "enabled"))]
    pub http_endpoint: Option<String>,
    /// Whether the service is reachable over IPv6.
    #[serde(rename = "httpProtocolIPv6", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["enabled", "disabled"], "x-crd-default" = "disabled"))]
    pub http_protocol_ipv6: Option<String>,
    /// Hop limit of responses: with 1, containers without the host network cannot reach the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = 64, "x-crd-default" = 1))]
    pub http_put_response_hop_limit: Option<i64>,
    /// Whether requests require a session token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["required", "optional"], "x-crd-default" = "required"))]
    pub http_tokens: Option<String>,
}

/// Idle timeouts of tracked connections, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
    "at least one of tcpEstablishedTimeout, udpStreamTimeout, or udpTimeout must be set",
)])))]
pub struct ConnectionTracking {
    /// Established TCP connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 60, "maximum" = 432_000))]
    pub tcp_established_timeout: Option<i32>,
    /// UDP flows with several exchanges.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 60, "maximum" = 180))]
    pub udp_stream_timeout: Option<i32>,
    /// UDP flows with one exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 30, "maximum" = 60))]
    pub udp_timeout: Option<i32>,
}

/// Options of the processor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CpuOptions {
    /// Whether virtual machines can run on the instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["enabled", "disabled"]))]
    pub nested_virtualization: Option<String>,
}

/// Nitro enclaves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["enabled"]))]
pub struct EnclaveOptions {
    /// Whether the instance can host enclaves.
    pub enabled: bool,
}

//! Base64 as Kubernetes writes bytes.

use k8s_openapi::ByteString;

/// The text of some bytes.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let text = serde_json::to_value(ByteString(bytes.to_vec()));
    text.ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

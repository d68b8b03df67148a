//! JSON lines for tools that store a session as a file of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Appends a record as one line.
pub(super) fn push_line(out: &mut Vec<u8>, record: &Value) {
    out.extend_from_slice(record.to_string().as_bytes());
    out.push(b'\n');
}

pub(super) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// A data URL of an image.
pub(super) fn data_url(media_type: &str, bytes: &[u8]) -> String {
    format!("data:{media_type};base64,{}", base64(bytes))
}

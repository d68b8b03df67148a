//! Canonical JSON: each value has exactly one encoding, with sorted keys, no white space and exact
//! integers.
//!
//! The stored bytes are hashed. Values are never serialised again for a comparison. The output of
//! `serde_json` is not canonical: its key order depends on a feature that any crate may enable.

use serde::Serialize;

mod escape;
mod writer;

#[cfg(test)]
mod tests;

use writer::Writer;

/// Encodes a value as canonical JSON.
///
/// # Panics
/// If the value has no JSON form: a map with keys that are not strings, or an integer beyond 64
/// bits. No type of this crate has such values.
pub fn to_bytes<T: Serialize>(value: &T) -> Vec<u8> {
    let mut writer = Writer::default();
    value
        .serialize(&mut writer)
        .expect("types of this crate have string keys and integers of at most 64 bits");
    writer.into_bytes()
}

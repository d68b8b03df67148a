//! One value, one sequence of bytes: JSON with sorted keys, no white space and exact integers.
//!
//! The stored bytes are what is hashed; nothing is ever re-serialised to be compared. Serde's own JSON
//! is not canonical: the order of its keys depends on a feature that any crate in the build may turn on.

use serde::Serialize;

mod escaped;
mod writer;

#[cfg(test)]
mod tests;

use writer::Writer;

/// The canonical bytes of a value.
///
/// # Panics
/// If the value cannot be JSON (a map with keys that are not text, an integer beyond 64 bits). No type of this crate is such.
pub fn to_bytes<T: Serialize>(value: &T) -> Vec<u8> {
    let mut writer = Writer::default();
    value
        .serialize(&mut writer)
        .expect("types of this crate have text keys and integers of 64 bits");
    writer.into_bytes()
}

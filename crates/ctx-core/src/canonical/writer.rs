//! A serde serializer that writes canonical JSON into a buffer.
//!
//! Map entries are written in the order of the serializer calls, and their offsets are recorded.
//! Only a map whose keys arrived unsorted is sorted, once, when it is closed. If a key occurs
//! twice, the last value is kept.

use std::cmp::Ordering;
use std::fmt::Display;

use serde::ser::{self, Error as _, Serialize, Serializer};
use serde_json::Error;

use super::escape;

/// Initial capacity of the buffer in bytes. Most records fit.
const CAPACITY: usize = 512;

/// Offsets of an entry of an open map: the quoted key from `start` to `colon`, the value up to
/// `end`.
struct Entry {
    start: usize,
    colon: usize,
    end: usize,
}

impl Entry {
    /// The escaped key without its quotes.
    fn key<'a>(&self, out: &'a [u8]) -> &'a [u8] {
        &out[self.start + 1..self.colon - 1]
    }
}

/// The output, and the entries of all open maps with the innermost map last.
pub(super) struct Writer {
    out: Vec<u8>,
    entries: Vec<Entry>,
}

impl Default for Writer {
    fn default() -> Self {
        Self { out: Vec::with_capacity(CAPACITY), entries: Vec::new() }
    }
}

impl Writer {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// Numbers are formatted by `serde_json`.
    fn scalar(&mut self) -> serde_json::Serializer<&mut Vec<u8>> {
        serde_json::Serializer::new(&mut self.out)
    }

    fn raw(&mut self, text: &str) -> Result<(), Error> {
        self.out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// Writes `{"Variant":`. The caller writes the closing brace.
    fn variant(&mut self, name: &str) -> Result<(), Error> {
        self.out.push(b'{');
        self.serialize_str(name)?;
        self.raw(":")
    }

    fn list(&mut self, close: &'static str) -> List<'_> {
        self.out.push(b'[');
        List { empty: true, close, writer: self }
    }

    fn map(&mut self, close: &'static str) -> Map<'_> {
        self.out.push(b'{');
        Map {
            first: self.entries.len(),
            begin: self.out.len(),
            in_order: true,
            close,
            writer: self,
        }
    }
}

impl<'a> Serializer for &'a mut Writer {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = List<'a>;
    type SerializeTuple = List<'a>;
    type SerializeTupleStruct = List<'a>;
    type SerializeTupleVariant = List<'a>;
    type SerializeMap = Map<'a>;
    type SerializeStruct = Map<'a>;
    type SerializeStructVariant = Map<'a>;

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.raw(if value { "true" } else { "false" })
    }

    fn serialize_i8(self, value: i8) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), Error> {
        self.scalar().serialize_i64(value)
    }

    fn serialize_i128(self, value: i128) -> Result<(), Error> {
        match (i64::try_from(value), u64::try_from(value)) {
            (Ok(value), _) => self.serialize_i64(value),
            (_, Ok(value)) => self.serialize_u64(value),
            _ => Err(too_large()),
        }
    }

    fn serialize_u8(self, value: u8) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<(), Error> {
        self.scalar().serialize_u64(value)
    }

    fn serialize_u128(self, value: u128) -> Result<(), Error> {
        self.serialize_u64(value.try_into().map_err(|_| too_large())?)
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        self.serialize_f64(value.into())
    }

    /// Numbers that are not finite are written as `null`.
    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        self.scalar().serialize_f64(value)
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        self.out.reserve(value.len() + 2);
        self.out.push(b'"');
        escape::write(value.as_bytes(), &mut self.out);
        self.raw("\"")
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        self.collect_seq(value)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.raw("null")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.raw("null")
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.raw("null")
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.variant(variant)?;
        value.serialize(&mut *self)?;
        self.raw("}")
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<List<'a>, Error> {
        Ok(self.list("]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<List<'a>, Error> {
        Ok(self.list("]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<List<'a>, Error> {
        Ok(self.list("]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<List<'a>, Error> {
        self.variant(variant)?;
        Ok(self.list("]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Map<'a>, Error> {
        Ok(self.map("}"))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Map<'a>, Error> {
        Ok(self.map("}"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Map<'a>, Error> {
        self.variant(variant)?;
        Ok(self.map("}}"))
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        self.scalar().collect_str(value)
    }
}

fn too_large() -> Error {
    Error::custom("cannot encode integer: it exceeds 64 bits")
}

/// Serializer state of an array.
pub(super) struct List<'a> {
    writer: &'a mut Writer,
    empty: bool,
    close: &'static str,
}

impl List<'_> {
    fn add<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        if !std::mem::take(&mut self.empty) {
            self.writer.out.push(b',');
        }
        value.serialize(&mut *self.writer)
    }
}

/// Serializer state of an object.
pub(super) struct Map<'a> {
    writer: &'a mut Writer,
    /// Index of its first entry in [`Writer::entries`].
    first: usize,
    /// Offset of its first entry in the output.
    begin: usize,
    in_order: bool,
    close: &'static str,
}

impl Map<'_> {
    fn key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        if self.writer.entries.len() > self.first {
            self.writer.out.push(b',');
        }
        let start = self.writer.out.len();
        key.serialize(&mut *self.writer)?;
        let Writer { out, entries } = &mut *self.writer;
        if out.get(start) != Some(&b'"') {
            return Err(Error::custom("cannot encode map: a key is not a string"));
        }
        let entry = Entry { start, colon: out.len(), end: start };
        let before = entries[self.first..].last();
        self.in_order &= before.is_none_or(|before| order(before.key(out), entry.key(out)).is_lt());
        out.push(b':');
        entries.push(entry);
        Ok(())
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(&mut *self.writer)?;
        let end = self.writer.out.len();
        let entry = self.writer.entries[self.first..]
            .last_mut()
            .ok_or_else(|| Error::custom("cannot encode map: a value has no key"))?;
        entry.end = end;
        Ok(())
    }

    fn close(self) -> Result<(), Error> {
        let Writer { out, entries } = &mut *self.writer;
        if !self.in_order {
            let sorted = sorted(out, self.begin, &mut entries[self.first..]);
            out.truncate(self.begin);
            out.extend_from_slice(&sorted);
        }
        entries.truncate(self.first);
        self.writer.raw(self.close)
    }
}

/// The bytes of the entries from offset `begin` on, sorted by key.
fn sorted(out: &[u8], begin: usize, entries: &mut [Entry]) -> Vec<u8> {
    // The sort is stable: among equal keys, the one written last is last.
    entries.sort_by(|a, b| order(a.key(out), b.key(out)));
    let last =
        |n: &usize| entries.get(n + 1).is_none_or(|next| next.key(out) != entries[*n].key(out));
    let mut sorted = Vec::with_capacity(out.len() - begin);
    for entry in (0..entries.len()).filter(last).map(|n| &entries[n]) {
        if !sorted.is_empty() {
            sorted.push(b',');
        }
        sorted.extend_from_slice(&out[entry.start..entry.end]);
    }
    sorted
}

/// Compares two keys as strings. Their escaped forms compare equally unless one has an escape.
fn order(a: &[u8], b: &[u8]) -> Ordering {
    let escaped = |key: &[u8]| key.contains(&b'\\');
    if escaped(a) || escaped(b) { text(a).cmp(&text(b)) } else { a.cmp(b) }
}

fn text(key: &[u8]) -> String {
    serde_json::from_slice(&[b"\"", key, b"\""].concat())
        .expect("the key was written as a JSON string by this writer")
}

macro_rules! list {
    ($($of:ident $add:ident),+) => {$(
        impl ser::$of for List<'_> {
            type Ok = ();
            type Error = Error;

            fn $add<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.add(value)
            }

            fn end(self) -> Result<(), Error> {
                self.writer.raw(self.close)
            }
        }
    )+};
}

list!(
    SerializeSeq serialize_element, SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field, SerializeTupleVariant serialize_field
);

impl ser::SerializeMap for Map<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.value(value)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

macro_rules! fields {
    ($($of:ident),+) => {$(
        impl ser::$of for Map<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.key(key)?;
                self.value(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        }
    )+};
}

fields!(SerializeStruct, SerializeStructVariant);

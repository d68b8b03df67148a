//! Values in the binary format of the server: parameters and rows.

use bytes::{BufMut, Bytes, BytesMut};
use postgres_protocol::{IsNull, Oid};

use crate::Error;
use crate::driver::{Arg, ArgType, Cells};

/// A parameter that outlives the call.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Owned {
    Null(ArgType),
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
    Ints(Vec<i64>),
    Texts(Vec<String>),
}

impl Owned {
    pub(super) fn of(arg: &Arg<'_>) -> Self {
        match *arg {
            Arg::Null(kind) => Self::Null(kind),
            Arg::Int(value) => Self::Int(value),
            Arg::Bool(value) => Self::Int(i64::from(value)),
            Arg::Text(value) => Self::Text(value.to_owned()),
            Arg::Bytes(value) => Self::Bytes(value.to_owned()),
            Arg::Ints(values) => Self::Ints(values.to_owned()),
            Arg::Texts(values) => Self::Texts(values.to_owned()),
        }
    }

    pub(super) fn as_arg(&self) -> Arg<'_> {
        match self {
            Self::Null(kind) => Arg::Null(*kind),
            Self::Int(value) => Arg::Int(*value),
            Self::Text(value) => Arg::Text(value),
            Self::Bytes(value) => Arg::Bytes(value),
            Self::Ints(values) => Arg::Ints(values),
            Self::Texts(values) => Arg::Texts(values),
        }
    }
}

pub(super) fn type_of(arg: &Arg<'_>) -> ArgType {
    match arg {
        Arg::Null(kind) => *kind,
        Arg::Int(_) | Arg::Bool(_) => ArgType::Int,
        Arg::Text(_) => ArgType::Text,
        Arg::Bytes(_) => ArgType::Bytes,
        Arg::Ints(_) => ArgType::Ints,
        Arg::Texts(_) => ArgType::Texts,
    }
}

/// The type of a parameter in a statement.
pub(super) fn oid(kind: ArgType) -> Oid {
    match kind {
        ArgType::Int => 20,
        ArgType::Text => 25,
        ArgType::Bytes => 17,
        ArgType::Ints => 1016,
        ArgType::Texts => 1009,
    }
}

/// The type of a list of parameters, and its name. A list of lists has none.
pub(super) fn list_of(kind: ArgType) -> Option<(Oid, &'static str)> {
    match kind {
        ArgType::Int => Some((1016, "bigint[]")),
        ArgType::Text => Some((1009, "text[]")),
        ArgType::Bytes => Some((1001, "bytea[]")),
        ArgType::Ints | ArgType::Texts => None,
    }
}

/// Writes a value without its length.
pub(super) fn encode(arg: &Arg<'_>, out: &mut BytesMut) -> IsNull {
    match arg {
        Arg::Null(_) => return IsNull::Yes,
        Arg::Int(value) => out.put_i64(*value),
        Arg::Bool(value) => out.put_i64(i64::from(*value)),
        // A text has no NUL here. No rule accepts one; a lookup with one finds nothing.
        Arg::Text(value) if value.contains('\0') => {
            out.put_slice(value.replace('\0', "\u{10FFFF}").as_bytes());
        }
        Arg::Text(value) => out.put_slice(value.as_bytes()),
        Arg::Bytes(value) => out.put_slice(value),
        Arg::Ints(values) => {
            encode_list(ArgType::Int, values.iter().map(|value| Arg::Int(*value)), out);
        }
        Arg::Texts(values) => {
            encode_list(ArgType::Text, values.iter().map(|value| Arg::Text(value)), out);
        }
    }
    IsNull::No
}

/// Writes a list of values of one type.
pub(super) fn encode_list<'a>(
    kind: ArgType,
    values: impl ExactSizeIterator<Item = Arg<'a>>,
    out: &mut BytesMut,
) {
    let length = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    out.put_i32(i32::from(values.len() > 0));
    out.put_i32(1);
    out.put_u32(oid(kind));
    if values.len() > 0 {
        out.put_i32(length(values.len()));
        out.put_i32(1);
    }
    for value in values {
        let at = out.len();
        out.put_i32(-1);
        if matches!(encode(&value, out), IsNull::No) {
            let size = length(out.len() - at - 4);
            out[at..at + 4].copy_from_slice(&size.to_be_bytes());
        }
    }
}

/// One row of an answer.
#[derive(Clone)]
pub(super) struct Row {
    data: Bytes,
    /// Position and length of each column; a length of -1 is null.
    cells: Vec<(usize, i32)>,
}

impl Row {
    /// Reads the columns of a message: each has its length before it.
    pub(super) fn new(data: Bytes) -> Self {
        let (mut cells, mut at) = (Vec::new(), 0);
        while let Some(length) = data.get(at..at + 4) {
            let length = i32::from_be_bytes([length[0], length[1], length[2], length[3]]);
            cells.push((at + 4, length));
            at += 4 + usize::try_from(length).unwrap_or(0);
        }
        Self { data, cells }
    }

    fn cell(&self, column: usize) -> Result<Option<&[u8]>, Error> {
        let missing = || Error::Damaged(format!("a row has no column {column}"));
        let (at, length) = *self.cells.get(column).ok_or_else(missing)?;
        let Ok(length) = usize::try_from(length) else { return Ok(None) };
        self.data.get(at..at + length).map(Some).ok_or_else(missing)
    }

    /// An integer or a boolean; 0 for null.
    pub(super) fn number(&self, column: usize) -> i64 {
        self.int(column).ok().flatten().unwrap_or(0)
    }

    /// A text; empty for null.
    pub(super) fn string(&self, column: usize) -> &str {
        self.text(column).ok().flatten().unwrap_or_default()
    }

    /// Removes the last column, an integer.
    pub(super) fn pop(&mut self) -> i64 {
        let last = self.number(self.cells.len().saturating_sub(1));
        self.cells.pop();
        last
    }
}

impl Cells for Row {
    /// A boolean has one byte, an integer two, four or eight.
    fn int(&self, column: usize) -> Result<Option<i64>, Error> {
        let Some(cell) = self.cell(column)? else { return Ok(None) };
        match *cell {
            [byte] => Ok(Some(i64::from(byte))),
            [a, b] => Ok(Some(i64::from(i16::from_be_bytes([a, b])))),
            [a, b, c, d] => Ok(Some(i64::from(i32::from_be_bytes([a, b, c, d])))),
            _ => match cell.try_into() {
                Ok(bytes) => Ok(Some(i64::from_be_bytes(bytes))),
                Err(_) => Err(Error::Damaged(format!("column {column} of a row is no integer"))),
            },
        }
    }

    fn text(&self, column: usize) -> Result<Option<&str>, Error> {
        let text = self.cell(column)?.map(std::str::from_utf8).transpose();
        text.map_err(|_| Error::Damaged(format!("column {column} of a row is no text")))
    }

    fn bytes(&self, column: usize) -> Result<Option<&[u8]>, Error> {
        self.cell(column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_its_dimensions_and_its_values() {
        let mut out = BytesMut::new();
        let values = [Arg::Int(7), Arg::Null(ArgType::Int)];
        encode_list(ArgType::Int, values.into_iter(), &mut out);
        let words = [1, 1, 20, 2, 1, 8, 0, 7, -1_i32];
        let expected: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        assert_eq!(out, expected);
        out.clear();
        encode(&Arg::Ints(&[]), &mut out);
        assert_eq!(out.len(), 12);
    }

    #[test]
    fn a_row_has_integers_texts_and_nulls() {
        let bytes = [&[0, 0, 0, 1, 1][..], &[0, 0, 0, 2, b'a', b'b'], &[255; 4]].concat();
        let mut row = Row::new(bytes.into());
        assert_eq!((row.number(0), row.string(1)), (1, "ab"));
        assert_eq!((row.bytes(2).expect("a column"), row.int(2).expect("a column")), (None, None));
        assert!(row.int(3).is_err() && row.cell(3).is_err());
        assert_eq!(row.pop(), 0);
        assert!(row.text(2).is_err());
    }
}

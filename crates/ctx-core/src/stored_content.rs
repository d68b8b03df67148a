//! Content that an agent read, wrote or printed. Small text is stored inside its record, larger
//! content as a blob.

use serde::{Deserialize, Serialize};

use crate::id::BlobId;
use crate::object::{Named, Object};

/// Content of this size or more is stored as a blob, so that equal outputs are stored once.
pub const BLOB_MIN_BYTES: usize = 4096;

/// Content, or a reference to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub enum Content {
    /// Text shorter than [`BLOB_MIN_BYTES`], stored inside the record.
    Text(String),
    /// Stored as a blob.
    Blob {
        blob: BlobId,
        /// Size in bytes.
        bytes: u64,
    },
    /// Too large to store. Only the hash and the size are known.
    Omitted {
        /// The id that the blob would have.
        omitted: BlobId,
        /// Size in bytes.
        bytes: u64,
    },
}

impl Content {
    /// Returns what the record contains and, if the bytes are large or not text, the blob to store.
    pub fn split(bytes: Vec<u8>) -> (Self, Option<Named>) {
        match String::from_utf8(bytes) {
            Ok(text) if text.len() < BLOB_MIN_BYTES && !text.contains('\0') => {
                (Self::Text(text), None)
            }
            Ok(text) => Self::as_blob(text.into_bytes()),
            Err(not_text) => Self::as_blob(not_text.into_bytes()),
        }
    }

    fn as_blob(bytes: Vec<u8>) -> (Self, Option<Named>) {
        let size = bytes.len() as u64;
        let object = Named::from(Object::blob(bytes));
        (Self::Blob { blob: BlobId(object.id()), bytes: size }, Some(object))
    }

    /// The blob that must be stored for this content.
    pub fn blob(&self) -> Option<BlobId> {
        match self {
            Self::Blob { blob, .. } => Some(*blob),
            Self::Text(_) | Self::Omitted { .. } => None,
        }
    }

    /// The text, if it is stored inside the record.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Blob { .. } | Self::Omitted { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_or_binary_content_becomes_a_blob() {
        let small = Content::split(vec![b'a'; BLOB_MIN_BYTES - 1]);
        assert!(small.0.text().is_some() && small.1.is_none());
        for bytes in [vec![b'a'; BLOB_MIN_BYTES], vec![0xff, 0xfe], b"a\0b".to_vec()] {
            let (content, object) = Content::split(bytes.clone());
            let object = object.expect("a blob");
            assert_eq!(content.blob(), Some(BlobId(object.id())));
            assert_eq!(object.object().bytes, bytes);
        }
    }

    #[test]
    fn content_reads_back() {
        let contents = [
            Content::Text("hi".into()),
            Content::split(vec![7; 5000]).0,
            Content::Omitted { omitted: BlobId(Object::blob(vec![1]).id()), bytes: 1 },
        ];
        for content in contents {
            let json = serde_json::to_string(&content).expect("json");
            assert_eq!(serde_json::from_str::<Content>(&json).expect("content"), content);
        }
    }
}

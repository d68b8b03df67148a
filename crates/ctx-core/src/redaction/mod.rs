//! Redaction: secrets in conversations become `[redacted:KIND]`.
//!
//! | file | owns |
//! |---|---|
//! | this one | texts, JSON values, messages and their blobs; the counts |
//! | `tokens` | secrets that are recognised by their own form |
//! | `assignments` | secrets that are recognised by the name that they are assigned to |
//!
//! A rule prefers to miss a secret without a form and a name: hashes, UUIDs, ULIDs and encoded
//! images are never changed. The counts contain kinds only, never a secret.

mod assignments;
mod tokens;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::id::BlobId;
use crate::message::{Message, Part};
use crate::object::{Kind, Named, Object};
use crate::stored_content::Content;

/// Nesting of JSON below which strings are searched. Stored JSON is less deep.
const DEPTH_MAX: usize = 256;

/// The blobs that were changed: the new id and the new size in bytes.
pub type ChangedBlobs = HashMap<BlobId, (BlobId, u64)>;

/// Replaces secrets and counts them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Redactor {
    counts: BTreeMap<&'static str, u64>,
}

impl Redactor {
    /// Number of replaced secrets by kind.
    pub const fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    /// Number of replaced secrets.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Adds the counts of another redactor.
    pub fn add(&mut self, other: &Self) {
        for (kind, count) in &other.counts {
            *self.counts.entry(kind).or_default() += count;
        }
    }

    /// Replaces the secrets of a text.
    pub fn text<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        let text = tokens::replace(text, self);
        match assignments::replace(&text, self) {
            Cow::Borrowed(_) => text,
            Cow::Owned(changed) => Cow::Owned(changed),
        }
    }

    /// Replaces the secrets of a text in place. Returns whether it changed.
    pub fn text_mut(&mut self, text: &mut String) -> bool {
        match self.text(text) {
            Cow::Borrowed(_) => false,
            Cow::Owned(changed) => {
                *text = changed;
                true
            }
        }
    }

    /// Replaces the secrets in all strings of a JSON value. A string in a field with the name of a
    /// secret is one. Returns whether the value changed.
    pub fn value(&mut self, value: &mut Value) -> bool {
        self.value_below(value, 0)
    }

    fn value_below(&mut self, value: &mut Value, depth: usize) -> bool {
        if depth > DEPTH_MAX {
            return false;
        }
        match value {
            Value::String(text) => self.text_mut(text),
            Value::Array(list) => {
                let mut changed = false;
                for one in list {
                    changed |= self.value_below(one, depth + 1);
                }
                changed
            }
            Value::Object(fields) => {
                let mut changed = false;
                for (name, one) in fields {
                    changed |= self.field(name, one, depth + 1);
                }
                changed
            }
            _ => false,
        }
    }

    fn field(&mut self, name: &str, value: &mut Value, depth: usize) -> bool {
        if let Value::String(text) = value
            && let Some(kind) = assignments::secret_field(name, text)
        {
            *text = self.mark(kind);
            return true;
        }
        self.value_below(value, depth)
    }

    /// Replaces the secrets of blobs that are text. Returns all blobs, and which of them changed.
    pub fn blobs(&mut self, blobs: Vec<Named>) -> (Vec<Named>, ChangedBlobs) {
        let mut changed = ChangedBlobs::new();
        let one = |blob: Named| {
            let old = blob.id();
            match self.blob(blob.object()) {
                Some(new) => {
                    let new = Named::from(new);
                    let size = new.object().bytes.len() as u64;
                    changed.insert(BlobId(old), (BlobId(new.id()), size));
                    new
                }
                None => blob,
            }
        };
        (blobs.into_iter().map(one).collect(), changed)
    }

    fn blob(&mut self, object: &Object) -> Option<Object> {
        if object.kind != Kind::Blob {
            return None;
        }
        match self.text(std::str::from_utf8(&object.bytes).ok()?) {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(Object::blob(text.into_bytes())),
        }
    }

    /// Replaces the secrets of a message. Its blobs were redacted before. Returns whether it
    /// changed.
    pub fn message(&mut self, message: &mut Message, blobs: &ChangedBlobs) -> bool {
        let mut changed = false;
        for part in &mut message.content {
            changed |= self.part(part, blobs);
        }
        changed
    }

    fn part(&mut self, part: &mut Part, blobs: &ChangedBlobs) -> bool {
        match part {
            Part::Text { text } | Part::Summary { text } => self.text_mut(text),
            Part::Thought { text, raw } => self.thought(text, raw),
            Part::ToolCall { params, .. } => self.value(params),
            Part::Plan { entries } => self.value(entries),
            Part::Error { message, .. } => self.text_mut(message),
            Part::ToolResult { content, .. } | Part::Record { content, .. } => {
                self.content(content, blobs)
            }
            Part::Image { .. } => false,
        }
    }

    /// Replaces the secrets of reasoning. The signature of a provider is valid for the original
    /// text only, so changed reasoning loses its original form.
    pub fn thought(&mut self, text: &mut String, raw: &mut Option<Value>) -> bool {
        let changed_text = self.text_mut(text);
        // The readable text is a copy of the raw one, so its secrets are counted once.
        let changed_raw = raw.as_mut().is_some_and(|raw| Self::default().value(raw));
        if changed_text || changed_raw {
            *raw = None;
        }
        changed_text || changed_raw
    }

    fn content(&mut self, content: &mut Content, blobs: &ChangedBlobs) -> bool {
        match content {
            Content::Text(text) => self.text_mut(text),
            Content::Blob { blob, bytes } => match blobs.get(blob) {
                Some((new, size)) => {
                    (*blob, *bytes) = (*new, *size);
                    true
                }
                None => false,
            },
            Content::Omitted { .. } => false,
        }
    }

    /// Counts a secret and returns what replaces it.
    fn mark(&mut self, kind: &'static str) -> String {
        *self.counts.entry(kind).or_default() += 1;
        format!("[redacted:{kind}]")
    }
}

#[cfg(test)]
mod tests;

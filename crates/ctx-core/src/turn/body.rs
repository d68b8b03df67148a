//! The body of a turn and its encoding: a list of messages, each a list of parts.
//!
//! The body does not repeat what the header contains: id, role and source of a message, id and
//! status of a tool call. A message starts with its time in milliseconds relative to the start of
//! the turn. Zero is omitted. `[-40,"text"]` is a message from 40 ms before the start of the turn.
//!
//! | part | encoding |
//! |---|---|
//! | text | `"text"` |
//! | tool call | `{"tool":params}`, the next call of the header (search needs the name) |
//! | tool result | `[index of the call,content]`, else `["result",id,content]` |
//! | thought | `["thought",text]`, `["thought",text,raw]` |
//! | error | `["error",code,message]`, `["error",code,message,provider]` |
//! | plan | `["plan",entries]` |
//! | image | `["image",media type,blob]`, `["image",media type,blob,bytes]` |
//! | summary | `["summary",text]` |
//!
//! A result of a failed tool has `true` as its last element. Content is `"text"`, `[blob,bytes]`,
//! or `["omitted",blob,bytes]`.

use std::collections::BTreeMap;
use std::{iter, vec};

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Map, Value};

use super::{Header, MessageHead, ToolCallHead};
use crate::id::BlobId;
use crate::json_depth::DepthLimited;
use crate::message::{Message, Part};
use crate::object::{Kind, Object, ObjectError};
use crate::stored_content::Content;
use crate::time::Timestamp;

#[cfg(test)]
mod tests;

/// Encodes the messages of a turn. `calls` are the tool calls of its header.
pub(super) fn encode(messages: &[Message], began: Timestamp, calls: &[ToolCallHead]) -> Object {
    // If several calls have one id, a result belongs to the newest.
    let indexes = calls.iter().enumerate().map(|(index, call)| (call.id.as_str(), index)).collect();
    Object::encode(Kind::TurnBody, &BodyEncoder { messages, began, indexes })
}

struct BodyEncoder<'a> {
    messages: &'a [Message],
    began: Timestamp,
    indexes: BTreeMap<&'a str, usize>,
}

impl Serialize for BodyEncoder<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.messages.iter().map(|message| MessageEncoder { message, body: self }))
    }
}

struct MessageEncoder<'a> {
    message: &'a Message,
    body: &'a BodyEncoder<'a>,
}

impl Serialize for MessageEncoder<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(None)?;
        // Wrapping, as in `Reader::message`: a wrong clock must not lose a message.
        let after = self.message.created_at.0.wrapping_sub(self.body.began.0);
        if after != 0 {
            list.serialize_element(&after)?;
        }
        for part in &self.message.content {
            list.serialize_element(&PartEncoder { part, indexes: &self.body.indexes })?;
        }
        list.end()
    }
}

struct PartEncoder<'a> {
    part: &'a Part,
    indexes: &'a BTreeMap<&'a str, usize>,
}

impl Serialize for PartEncoder<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.part {
            Part::Text { text } => to.serialize_str(text),
            Part::ToolCall { name, params, .. } => {
                let mut call = to.serialize_map(Some(1))?;
                call.serialize_entry(name, &DepthLimited(params))?;
                call.end()
            }
            Part::ToolResult { tool_call_id, content, is_error } => {
                let mut result = to.serialize_seq(None)?;
                match self.indexes.get(tool_call_id.as_str()) {
                    Some(index) => result.serialize_element(index)?,
                    None => ["result", tool_call_id]
                        .iter()
                        .try_for_each(|text| result.serialize_element(text))?,
                }
                result.serialize_element(&ContentEncoder(content))?;
                if *is_error {
                    result.serialize_element(&true)?;
                }
                result.end()
            }
            Part::Thought { text, raw: None } => ("thought", text).serialize(to),
            Part::Thought { text, raw: Some(raw) } => {
                ("thought", text, DepthLimited(raw)).serialize(to)
            }
            Part::Error { code, message, provider_id: None } => {
                ("error", code, message).serialize(to)
            }
            Part::Error { code, message, provider_id: Some(provider) } => {
                ("error", code, message, provider).serialize(to)
            }
            Part::Plan { entries } => ("plan", DepthLimited(entries)).serialize(to),
            Part::Image { media_type, blob, bytes: None } => {
                ("image", media_type, blob).serialize(to)
            }
            Part::Image { media_type, blob, bytes: Some(bytes) } => {
                ("image", media_type, blob, bytes).serialize(to)
            }
            Part::Summary { text } => ("summary", text).serialize(to),
        }
    }
}

struct ContentEncoder<'a>(&'a Content);

impl Serialize for ContentEncoder<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Content::Text(text) => to.serialize_str(text),
            Content::Blob { blob, bytes } => (blob, bytes).serialize(to),
            Content::Omitted { omitted, bytes } => ("omitted", omitted, bytes).serialize(to),
        }
    }
}

/// Decodes the messages of a turn.
///
/// # Errors
/// If the version is newer than this program, or the body does not belong to this header.
pub fn messages(header: &Header, body: &Object) -> Result<Vec<Message>, ObjectError> {
    let encoded: Vec<Vec<Value>> = body.decode()?;
    read(header, encoded)
        .map_err(|why| ObjectError::DecodeFailed { kind: Kind::TurnBody, why: why.to_owned() })
}

/// Why a body cannot be decoded.
type Reason = &'static str;

fn read(header: &Header, encoded: Vec<Vec<Value>>) -> Result<Vec<Message>, Reason> {
    if encoded.len() != header.messages.len() {
        return Err("the number of messages differs from the header");
    }
    let mut calls = header.tool_calls.iter();
    let mut reader =
        |(index, (head, parts))| Reader { header, index, calls: &mut calls }.message(head, parts);
    let messages = iter::zip(&header.messages, encoded)
        .enumerate()
        .map(&mut reader)
        .collect::<Result<_, _>>()?;
    if calls.next().is_some() { Err("a call of the header is missing") } else { Ok(messages) }
}

/// Decodes one message. `calls` are the calls of the header that earlier messages did not use.
struct Reader<'a, 'b> {
    header: &'a Header,
    index: usize,
    calls: &'b mut std::slice::Iter<'a, ToolCallHead>,
}

impl Reader<'_, '_> {
    fn message(mut self, head: &MessageHead, parts: Vec<Value>) -> Result<Message, Reason> {
        let mut parts = parts.into_iter().peekable();
        let after = parts
            .next_if(Value::is_number)
            .map_or(Some(0), |after| after.as_i64())
            .ok_or("a time is out of range")?;
        Ok(Message {
            id: head.id,
            role: head.role,
            source: head.source,
            content: parts.map(|part| self.part(part)).collect::<Result<_, _>>()?,
            created_at: Timestamp(self.header.started_at.0.wrapping_add(after)),
        })
    }

    fn part(&mut self, part: Value) -> Result<Part, Reason> {
        match part {
            Value::String(text) => Ok(Part::Text { text }),
            Value::Object(call) => self.call(call),
            Value::Array(fields) => {
                let mut fields = Fields(fields.into_iter());
                let part = self.tagged(&mut fields)?;
                fields.end().map(|()| part)
            }
            _ => Err("a part has an unknown form"),
        }
    }

    fn call(&mut self, call: Map<String, Value>) -> Result<Part, Reason> {
        let mut entries = call.into_iter();
        let (Some((name, params)), None) = (entries.next(), entries.next()) else {
            return Err("a call does not have exactly one tool");
        };
        let head = self.calls.next().filter(|head| head.message == self.index && head.name == name);
        let head = head.ok_or("a call is not in the header")?;
        Ok(Part::ToolCall { id: head.id.clone(), name, params, status: head.status })
    }

    fn tagged(&self, fields: &mut Fields) -> Result<Part, Reason> {
        let tag = match fields.json()? {
            Value::String(tag) => tag,
            Value::Number(index) => {
                let index = index.as_u64().and_then(|index| usize::try_from(index).ok());
                let call = index
                    .and_then(|index| self.header.tool_calls.get(index))
                    .ok_or("a result refers to no call")?;
                return result(call.id.clone(), fields);
            }
            _ => return Err("a part has no type"),
        };
        match tag.as_str() {
            "result" => result(fields.text()?, fields),
            "thought" => Ok(Part::Thought { text: fields.text()?, raw: fields.0.next() }),
            "error" => Ok(Part::Error {
                code: fields.text()?,
                message: fields.text()?,
                provider_id: fields.optional(Fields::text)?,
            }),
            "plan" => Ok(Part::Plan { entries: fields.json()? }),
            "image" => Ok(Part::Image {
                media_type: fields.text()?,
                blob: fields.blob()?,
                bytes: fields.optional(Fields::bytes)?,
            }),
            "summary" => Ok(Part::Summary { text: fields.text()? }),
            _ => Err("a part has an unknown type"),
        }
    }
}

fn result(tool_call_id: String, fields: &mut Fields) -> Result<Part, Reason> {
    let content = content(fields.json()?)?;
    let is_error = match fields.0.next() {
        None => false,
        Some(Value::Bool(true)) => true,
        Some(_) => return Err("a result has an invalid error flag"),
    };
    Ok(Part::ToolResult { tool_call_id, content, is_error })
}

fn content(value: Value) -> Result<Content, Reason> {
    let fields = match value {
        Value::String(text) => return Ok(Content::Text(text)),
        Value::Array(fields) => fields,
        _ => return Err("content has an unknown form"),
    };
    let omitted = fields.first().is_some_and(|first| first == "omitted");
    let mut fields = Fields(fields.into_iter());
    if omitted {
        fields.text()?;
    }
    let (blob, bytes) = (fields.blob()?, fields.bytes()?);
    fields.end()?;
    Ok(if omitted {
        Content::Omitted { omitted: blob, bytes }
    } else {
        Content::Blob { blob, bytes }
    })
}

/// The remaining elements of an array.
struct Fields(vec::IntoIter<Value>);

impl Fields {
    fn json(&mut self) -> Result<Value, Reason> {
        self.0.next().ok_or("a part has too few elements")
    }

    fn text(&mut self) -> Result<String, Reason> {
        match self.json()? {
            Value::String(text) => Ok(text),
            _ => Err("a part has no text where one is required"),
        }
    }

    fn blob(&mut self) -> Result<BlobId, Reason> {
        self.text()?.parse().map_err(|_| "a blob id is not a hash")
    }

    fn bytes(&mut self) -> Result<u64, Reason> {
        self.json()?.as_u64().ok_or("a size is not a number of bytes")
    }

    /// An optional last element.
    fn optional<T>(
        &mut self,
        read: fn(&mut Self) -> Result<T, Reason>,
    ) -> Result<Option<T>, Reason> {
        if self.0.as_slice().is_empty() { Ok(None) } else { read(self).map(Some) }
    }

    fn end(&self) -> Result<(), Reason> {
        if self.0.as_slice().is_empty() { Ok(()) } else { Err("a part has too many elements") }
    }
}

//! The stored words of a turn: a list of messages, each a list of parts.
//!
//! What the header has at a known place is not said again: who spoke, and the id and status of each tool call. A message
//! begins with the milliseconds since the turn began, unless they are none: `[-40,"words"]` was said 40 ms before.
//!
//! | part | is stored as |
//! |---|---|
//! | text | `"words"` |
//! | tool call | `{"tool":params}`, the next of the header's calls; the tool's name is here too, because search reads these bytes |
//! | tool result | `[place,content]` by the place of its call in the header, else `["result",id,content]`; `true` follows if the tool failed |
//! | thought | `["thought",text]`, `["thought",text,raw]` |
//! | error | `["error",code,message]`, `["error",code,message,provider]` |
//! | plan | `["plan",entries]` |
//! | image | `["image",media type,blob]`, `["image",media type,blob,bytes]` |
//! | summary | `["summary",text]` |
//!
//! Content is `"words"`, `[blob,bytes]`, or `["omitted",blob,bytes]`.

use std::collections::BTreeMap;
use std::{iter, vec};

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Map, Value};

use super::{Header, MessageHead, ToolCallHead};
use crate::content::Content;
use crate::id::BlobId;
use crate::message::{Message, Part};
use crate::json_depth::DepthLimited;
use crate::object::{Fault, Kind, Object};
use crate::time::Timestamp;

#[cfg(test)]
mod tests;

/// Encodes what was said in a turn that began then and made these calls.
pub(super) fn encode(messages: &[Message], began: Timestamp, calls: &[ToolCallHead]) -> Object {
    // Of calls with one id, a result belongs to the newest.
    let places = calls.iter().enumerate().map(|(place, call)| (call.id.as_str(), place)).collect();
    Object::encode(Kind::TurnBody, &Words { messages, began, places })
}

struct Words<'a> {
    messages: &'a [Message],
    began: Timestamp,
    places: BTreeMap<&'a str, usize>,
}

impl Serialize for Words<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.messages.iter().map(|message| Said { message, words: self }))
    }
}

struct Said<'a> {
    message: &'a Message,
    words: &'a Words<'a>,
}

impl Serialize for Said<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(None)?;
        // It wraps, as adding does when it is read: no clock is so wrong that its message is lost.
        let after = self.message.created_at.0.wrapping_sub(self.words.began.0);
        if after != 0 {
            list.serialize_element(&after)?;
        }
        for part in &self.message.content {
            list.serialize_element(&Stored { part, places: &self.words.places })?;
        }
        list.end()
    }
}

struct Stored<'a> {
    part: &'a Part,
    places: &'a BTreeMap<&'a str, usize>,
}

impl Serialize for Stored<'_> {
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
                match self.places.get(tool_call_id.as_str()) {
                    Some(place) => result.serialize_element(place)?,
                    None => ["result", tool_call_id]
                        .iter()
                        .try_for_each(|text| result.serialize_element(text))?,
                }
                result.serialize_element(&Kept(content))?;
                if *is_error {
                    result.serialize_element(&true)?;
                }
                result.end()
            }
            Part::Thought { text, raw: None } => ("thought", text).serialize(to),
            Part::Thought { text, raw: Some(raw) } => ("thought", text, DepthLimited(raw)).serialize(to),
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

struct Kept<'a>(&'a Content);

impl Serialize for Kept<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Content::Text(text) => to.serialize_str(text),
            Content::Blob { blob, bytes } => (blob, bytes).serialize(to),
            Content::Omitted { omitted, bytes } => ("omitted", omitted, bytes).serialize(to),
        }
    }
}

/// The messages of a turn, whole.
///
/// # Errors
/// If a newer program wrote the body, or it is not one, or not this header's.
pub fn messages(header: &Header, body: &Object) -> Result<Vec<Message>, Fault> {
    let said: Vec<Vec<Value>> = body.decode()?;
    read(header, said)
        .map_err(|why| Fault::DecodeFailed { kind: Kind::TurnBody, why: why.to_owned() })
}

/// What is wrong with a body.
type Wrong = &'static str;

fn read(header: &Header, said: Vec<Vec<Value>>) -> Result<Vec<Message>, Wrong> {
    if said.len() != header.messages.len() {
        return Err("its messages are not as many as its header's");
    }
    let mut calls = header.tool_calls.iter();
    let mut reader =
        |(place, (head, parts))| Reader { header, place, calls: &mut calls }.message(head, parts);
    let messages =
        iter::zip(&header.messages, said).enumerate().map(&mut reader).collect::<Result<_, _>>()?;
    if calls.next().is_some() { Err("it lacks a call that its header has") } else { Ok(messages) }
}

/// Reads the message at a place; the calls are those that no message before it made.
struct Reader<'a, 'b> {
    header: &'a Header,
    place: usize,
    calls: &'b mut std::slice::Iter<'a, ToolCallHead>,
}

impl Reader<'_, '_> {
    fn message(mut self, head: &MessageHead, parts: Vec<Value>) -> Result<Message, Wrong> {
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

    fn part(&mut self, part: Value) -> Result<Part, Wrong> {
        match part {
            Value::String(text) => Ok(Part::Text { text }),
            Value::Object(call) => self.call(call),
            Value::Array(fields) => {
                let mut fields = Fields(fields.into_iter());
                let part = self.tagged(&mut fields)?;
                fields.end().map(|()| part)
            }
            _ => Err("a part is of no known form"),
        }
    }

    fn call(&mut self, call: Map<String, Value>) -> Result<Part, Wrong> {
        let mut entries = call.into_iter();
        let (Some((name, params)), None) = (entries.next(), entries.next()) else {
            return Err("a call is not of one tool");
        };
        let head = self.calls.next().filter(|head| head.message == self.place && head.name == name);
        let head = head.ok_or("it has a call that its header has not")?;
        Ok(Part::ToolCall { id: head.id.clone(), name, params, status: head.status })
    }

    fn tagged(&self, fields: &mut Fields) -> Result<Part, Wrong> {
        let tag = match fields.json()? {
            Value::String(tag) => tag,
            Value::Number(place) => {
                let place = place.as_u64().and_then(|place| usize::try_from(place).ok());
                let call = place
                    .and_then(|place| self.header.tool_calls.get(place))
                    .ok_or("a result is of no call")?;
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
                provider_id: fields.rest(Fields::text)?,
            }),
            "plan" => Ok(Part::Plan { entries: fields.json()? }),
            "image" => Ok(Part::Image {
                media_type: fields.text()?,
                blob: fields.blob()?,
                bytes: fields.rest(Fields::bytes)?,
            }),
            "summary" => Ok(Part::Summary { text: fields.text()? }),
            _ => Err("a part is of no known type"),
        }
    }
}

fn result(tool_call_id: String, fields: &mut Fields) -> Result<Part, Wrong> {
    let content = content(fields.json()?)?;
    let is_error = match fields.0.next() {
        None => false,
        Some(Value::Bool(true)) => true,
        Some(_) => return Err("a result ends with something else than its failure"),
    };
    Ok(Part::ToolResult { tool_call_id, content, is_error })
}

fn content(value: Value) -> Result<Content, Wrong> {
    let fields = match value {
        Value::String(text) => return Ok(Content::Text(text)),
        Value::Array(fields) => fields,
        _ => return Err("a content is of no known form"),
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

/// What is left of a list.
struct Fields(vec::IntoIter<Value>);

impl Fields {
    fn json(&mut self) -> Result<Value, Wrong> {
        self.0.next().ok_or("a part is cut short")
    }

    fn text(&mut self) -> Result<String, Wrong> {
        match self.json()? {
            Value::String(text) => Ok(text),
            _ => Err("a part has no text where one should be"),
        }
    }

    fn blob(&mut self) -> Result<BlobId, Wrong> {
        self.text()?.parse().map_err(|_| "a blob has no hash for a name")
    }

    fn bytes(&mut self) -> Result<u64, Wrong> {
        self.json()?.as_u64().ok_or("a size is no number of bytes")
    }

    /// What may follow.
    fn rest<T>(&mut self, read: fn(&mut Self) -> Result<T, Wrong>) -> Result<Option<T>, Wrong> {
        if self.0.as_slice().is_empty() { Ok(None) } else { read(self).map(Some) }
    }

    fn end(&self) -> Result<(), Wrong> {
        if self.0.as_slice().is_empty() {
            Ok(())
        } else {
            Err("a part goes on where it should end")
        }
    }
}

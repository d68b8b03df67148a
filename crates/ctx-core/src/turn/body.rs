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
//! | record of another tool | `["record",kind,content]` |
//!
//! A result of a failed tool has `true` as its last element. Content is `"text"`, `[blob,bytes]`,
//! or `["omitted",blob,bytes]`.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

use super::{Header, MessageHead, ToolCallHead};
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
        // Wrapping, as in `OneMessage`: a wrong clock must not lose a message.
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
            Part::Record { kind, content } => {
                ("record", kind, ContentEncoder(content)).serialize(to)
            }
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
    body.decode_as(Body(&mut Calls { header, unused: header.tool_calls.iter(), message: 0 }))
}

/// What the body takes from the header.
struct Calls<'a> {
    header: &'a Header,
    /// The calls that the parts before did not use.
    unused: std::slice::Iter<'a, ToolCallHead>,
    /// Index of the message that is decoded.
    message: usize,
}

/// Implements a seed that decodes a JSON value of any type by the methods of its visitor.
macro_rules! seed {
    ($name:ident => $value:ty) => {
        impl<'de> DeserializeSeed<'de> for $name<'_, '_> {
            type Value = $value;

            fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<$value, D::Error> {
                from.deserialize_any(self)
            }
        }
    };
}

struct Body<'b, 'h>(&'b mut Calls<'h>);
seed!(Body => Vec<Message>);

impl<'de> Visitor<'de> for Body<'_, '_> {
    type Value = Vec<Message>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Message>, A::Error> {
        let heads = &self.0.header.messages;
        let mut messages = Vec::with_capacity(heads.len());
        for (index, head) in heads.iter().enumerate() {
            self.0.message = index;
            let message = list.next_element_seed(OneMessage(self.0, head))?;
            messages.push(message.ok_or_else(|| A::Error::custom(MESSAGES_DIFFER))?);
        }
        if list.next_element::<IgnoredAny>()?.is_some() {
            return Err(A::Error::custom(MESSAGES_DIFFER));
        }
        match self.0.unused.next() {
            Some(_) => Err(A::Error::custom("a call of the header is missing")),
            None => Ok(messages),
        }
    }
}

const MESSAGES_DIFFER: &str = "the number of messages differs from the header";

struct OneMessage<'b, 'h>(&'b mut Calls<'h>, &'h MessageHead);
seed!(OneMessage => Message);

impl<'de> Visitor<'de> for OneMessage<'_, '_> {
    type Value = Message;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of parts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Message, A::Error> {
        let Self(calls, head) = self;
        // Most messages have one part.
        let (mut after, mut content) = (0, Vec::with_capacity(1));
        if let Some(first) = list.next_element_seed(Element(calls))? {
            match first {
                Ok(part) => content.push(part),
                Err(time) => after = time,
            }
        }
        while let Some(next) = list.next_element_seed(Element(calls))? {
            content.push(next.map_err(|_| A::Error::custom("a part has an unknown form"))?);
        }
        Ok(Message {
            id: head.id,
            role: head.role,
            source: head.source,
            content,
            created_at: Timestamp(calls.header.started_at.0.wrapping_add(after)),
        })
    }
}

/// An element of a message: a part, or the time of the message.
struct Element<'b, 'h>(&'b mut Calls<'h>);
seed!(Element => Result<Part, i64>);

impl<'de> Visitor<'de> for Element<'_, '_> {
    type Value = Result<Part, i64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part or a time")
    }

    fn visit_i64<E: Error>(self, time: i64) -> Result<Self::Value, E> {
        Ok(Err(time))
    }

    fn visit_u64<E: Error>(self, time: u64) -> Result<Self::Value, E> {
        time.try_into().map(Err).map_err(|_| E::custom("a time is out of range"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Ok(Part::Text { text: text.to_owned() }))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut call: A) -> Result<Self::Value, A::Error> {
        let Some((name, params)) = call.next_entry::<String, Value>()? else {
            return Err(A::Error::custom("a call does not have exactly one tool"));
        };
        if call.next_key::<IgnoredAny>()?.is_some() {
            return Err(A::Error::custom("a call does not have exactly one tool"));
        }
        let message = self.0.message;
        let head = self.0.unused.next();
        let head = head.filter(|head| head.message == message && head.name == name);
        let head = head.ok_or_else(|| A::Error::custom("a call is not in the header"))?;
        Ok(Ok(Part::ToolCall { id: head.id.clone(), name, params, status: head.status }))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        let mut fields = Fields(list);
        let part = match fields.next()? {
            Tag::Call(index) => {
                let call = usize::try_from(index).ok();
                let call = call.and_then(|index| self.0.header.tool_calls.get(index));
                let call = call.ok_or_else(|| A::Error::custom("a result refers to no call"))?;
                result(call.id.clone(), &mut fields)?
            }
            Tag::Result => result(fields.next()?, &mut fields)?,
            Tag::Thought => Part::Thought { text: fields.next()?, raw: fields.optional()? },
            Tag::Error => Part::Error {
                code: fields.next()?,
                message: fields.next()?,
                provider_id: fields.optional()?,
            },
            Tag::Plan => Part::Plan { entries: fields.next()? },
            Tag::Image => Part::Image {
                media_type: fields.next()?,
                blob: fields.next()?,
                bytes: fields.optional()?,
            },
            Tag::Summary => Part::Summary { text: fields.next()? },
            Tag::Record => {
                let kind = fields.next()?;
                let StoredContent(content) = fields.next()?;
                Part::Record { kind, content }
            }
        };
        fields.end().map(|()| Ok(part))
    }
}

fn result<'de, A: SeqAccess<'de>>(
    tool_call_id: String,
    fields: &mut Fields<A>,
) -> Result<Part, A::Error> {
    let StoredContent(content) = fields.next()?;
    let is_error = match fields.optional()? {
        None => false,
        Some(true) => true,
        Some(false) => return Err(A::Error::custom("a result has an invalid error flag")),
    };
    Ok(Part::ToolResult { tool_call_id, content, is_error })
}

/// The first element of a part that is a list.
enum Tag {
    /// The index of the call that this is the result of.
    Call(u64),
    Result,
    Thought,
    Error,
    Plan,
    Image,
    Summary,
    Record,
}

impl<'de> Deserialize<'de> for Tag {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct TagVisitor;

        impl Visitor<'_> for TagVisitor {
            type Value = Tag;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the type of a part, or the index of a call")
            }

            fn visit_u64<E: Error>(self, index: u64) -> Result<Tag, E> {
                Ok(Tag::Call(index))
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Tag, E> {
                Ok(match name {
                    "result" => Tag::Result,
                    "thought" => Tag::Thought,
                    "error" => Tag::Error,
                    "plan" => Tag::Plan,
                    "image" => Tag::Image,
                    "summary" => Tag::Summary,
                    "record" => Tag::Record,
                    _ => return Err(E::custom("a part has an unknown type")),
                })
            }
        }

        from.deserialize_any(TagVisitor)
    }
}

struct StoredContent(Content);

impl<'de> Deserialize<'de> for StoredContent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ContentVisitor;

        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = StoredContent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("content")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<StoredContent, E> {
                Ok(StoredContent(Content::Text(text.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<StoredContent, A::Error> {
                let mut fields = Fields(list);
                let first: String = fields.next()?;
                let content = if first == "omitted" {
                    Content::Omitted { omitted: fields.next()?, bytes: fields.next()? }
                } else {
                    let blob = first.parse().map_err(A::Error::custom)?;
                    Content::Blob { blob, bytes: fields.next()? }
                };
                fields.end().map(|()| StoredContent(content))
            }
        }

        from.deserialize_any(ContentVisitor)
    }
}

/// The remaining elements of a list.
struct Fields<A>(A);

impl<'de, A: SeqAccess<'de>> Fields<A> {
    fn next<T: Deserialize<'de>>(&mut self) -> Result<T, A::Error> {
        self.optional()?.ok_or_else(|| A::Error::custom("a part has too few elements"))
    }

    fn optional<T: Deserialize<'de>>(&mut self) -> Result<Option<T>, A::Error> {
        self.0.next_element()
    }

    fn end(&mut self) -> Result<(), A::Error> {
        match self.optional::<IgnoredAny>()? {
            Some(_) => Err(A::Error::custom("a part has too many elements")),
            None => Ok(()),
        }
    }
}

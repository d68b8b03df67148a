//! What the tests of several adapters begin with.

use std::collections::BTreeMap;
use std::sync::Arc;

use ctx_core::content::Content;
use ctx_core::id::{BlobId, MessageId, ObjectId, RunId, SessionId};
use ctx_core::message::{Message, Part, Role, ToolStatus};
use ctx_core::time::Timestamp;
use ctx_engine::provider::Request;
use serde_json::Value;
use ulid::Ulid;

pub(crate) fn message(role: Role, content: Vec<Part>) -> Message {
    Message { id: MessageId(Ulid(1)), role, source: None, content, created_at: Timestamp(1) }
}

pub(crate) fn said(role: Role, text: &str) -> Message {
    message(role, vec![Part::Text { text: text.to_owned() }])
}

pub(crate) fn tool_call(id: &str, params: Value) -> Part {
    Part::ToolCall {
        id: id.to_owned(),
        name: "look".to_owned(),
        params,
        status: ToolStatus::Completed,
    }
}

pub(crate) fn result(id: &str, text: &str, is_error: bool) -> Part {
    Part::ToolResult {
        tool_call_id: id.to_owned(),
        content: Content::Text(text.to_owned()),
        is_error,
    }
}

fn blob() -> BlobId {
    BlobId(ObjectId::from_bytes([1; 32]))
}

pub(crate) fn picture() -> Part {
    Part::Image { media_type: "image/png".to_owned(), blob: blob(), bytes: Some(3) }
}

/// The bytes of [`picture`].
pub(crate) fn images() -> BTreeMap<BlobId, Arc<Vec<u8>>> {
    BTreeMap::from([(blob(), Arc::new(vec![1, 2, 3]))])
}

pub(crate) fn request(messages: Vec<Message>) -> Request {
    Request {
        session: SessionId(Ulid(1)),
        run: RunId(Ulid(1)),
        working_dir: None,
        model: None,
        system: None,
        messages,
        images: BTreeMap::new(),
        tools: Vec::new(),
        options: BTreeMap::new(),
        resumes: Vec::new(),
        open: 0,
        own: None,
    }
}

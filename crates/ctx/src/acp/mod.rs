//! `ctx acp`: ctx as an agent of the Agent Client Protocol (ACP) for editors, over standard input
//! and output. A surface over the engine: it translates requests, and it shows the feed of each
//! attached session as updates.
//!
//! | module | content |
//! |---|---|
//! | `editor` | the connection: what the editor supports, requests to it, attached sessions |
//! | `requests` | the loop that reads messages, and the methods that concern no open session |
//! | `session_requests` | methods that open, list, change and delete sessions |
//! | `attached_session` | one task per attached session: its feed, and the editor's commands |
//! | `session_updates` | the feed of an attached session as updates |
//! | `open_prompts` | prompts that wait for their answer, and the answer |
//! | `questions` | permissions and choices that the editor shows as a dialog |
//! | `shown_messages` | messages of the conversation as updates, each shown once |
//! | `tool_call_json` | tool calls as the editor shows them: kind, title, files, diffs |
//! | `session_options` | provider, model and the agent's settings as config options and modes |
//! | `prompt_content` | the blocks of a prompt as a message |
//! | `setup` | configuration of editors |
//!
//! Decision 7 explains why the protocol crate is not used.

mod attached_session;
mod editor;
mod open_prompts;
mod prompt_content;
mod questions;
mod requests;
mod session_options;
mod session_requests;
mod session_updates;
pub(crate) mod setup;
mod shown_messages;
mod tool_call_json;

pub(crate) use editor::Editor;
pub(crate) use requests::serve;

use ctx_engine::Error;
use ctx_providers::json_rpc::{INTERNAL_ERROR, INVALID_PARAMS, RpcError};
use serde_json::json;

/// The supported version of ACP.
const PROTOCOL_VERSION: u64 = 1;
/// The message is not JSON.
const PARSE_ERROR: i64 = -32700;
/// The message is not a request, or it comes at the wrong time.
const INVALID_REQUEST: i64 = -32600;
/// The request was cancelled by its sender.
const REQUEST_CANCELLED: i64 = -32800;
/// The agent behind requires a login.
const AUTH_REQUIRED: i64 = -32000;
/// The session, or another resource, does not exist.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// The error response for an error of the engine.
fn engine_error(error: &Error) -> RpcError {
    let code = match error.code() {
        "no_session" | "not_found" => RESOURCE_NOT_FOUND,
        _ if error.refusal().is_some() => INVALID_PARAMS,
        _ => INTERNAL_ERROR,
    };
    RpcError { code, message: error.to_string(), data: Some(json!({"code": error.code()})) }
}

fn invalid_params(why: impl Into<String>) -> RpcError {
    RpcError::new(INVALID_PARAMS, why)
}

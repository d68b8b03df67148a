//! The chat completions API.

mod call_fragments;
pub(crate) mod chat_request;
pub(crate) mod chat_stream;

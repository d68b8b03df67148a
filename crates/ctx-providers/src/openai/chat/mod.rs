//! Chat completions: what the model sees, and its answer with the calls in it.

mod call_fragments;
pub(crate) mod chat_request;
pub(crate) mod chat_stream;

//! The Responses API.

pub(crate) mod responses_request;
pub(crate) mod responses_stream;

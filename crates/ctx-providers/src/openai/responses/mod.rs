//! Responses: what the model sees, its own reasoning included, and its answer item by item.

pub(crate) mod responses_request;
pub(crate) mod responses_stream;

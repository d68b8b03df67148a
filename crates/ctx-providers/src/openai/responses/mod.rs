//! Responses: what the model sees, its own reasoning included, and its answer item by item.

pub(crate) mod request;
pub(crate) mod stream;

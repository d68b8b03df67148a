//! Chat completions: what the model sees, and its answer with the calls in it.

mod calls;
pub(crate) mod request;
pub(crate) mod stream;

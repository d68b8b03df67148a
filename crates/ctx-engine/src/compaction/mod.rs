//! Compaction: a summary takes the place of earlier turns in what is sent to a model.
//!
//! | file | owns |
//! |---|---|
//! | [`requests`] | what a user asks for: a compaction, pinned turns, a look at the next request |
//! | [`request_size`] | the size of a request in tokens, and where the history is split |
//! | [`token_count`] | the number of tokens of a text |
//! | [`summary_plan`] | which model is asked for the summary, in which parts, and the row that is stored |
//! | [`run_compaction`] | carrying it out inside a run: before a call, after an overflow, on request |
//! | [`tool_result_excerpts`] | long tool results cut to their ends where nothing else helps |
//!
//! When a compaction is due and what it keeps is decided in `ctx_core::compaction`.

mod request_size;
mod requests;
mod run_compaction;
mod summary_plan;
mod token_count;
mod tool_result_excerpts;

pub use requests::{Context, Contexts};
pub(crate) use run_compaction::CompactionResult;
pub(crate) use token_count::count_tokens;

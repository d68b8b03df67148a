//! Data types and rules of ctx. This crate is pure: no clock, no randomness, no I/O.
//!
//! | file | owns |
//! |---|---|
//! | [`id`], [`short_id`], [`time`], [`text_limits`] | ids, timestamps, durations, limits of text |
//! | [`canonical`], [`object`], [`stored_content`], [`json_depth`] | encoding, hashes, blobs, JSON depth |
//! | [`session`], [`turn`], [`message`], [`image`] | conversations |
//! | [`inbox`], [`run`], [`draft`], [`suspension`] | inbox, runs, unfinished turns, suspensions |
//! | [`identity`], [`outbox`] | senders and their channels; answers to channels |
//! | [`answer_match`] | what a person's answer is for: a suspension, an option, the prompt |
//! | [`projection`], [`ancestry`] | the history in the form a provider accepts; common ancestors |
//! | [`history_text`], [`agent_session`] | history as text; conversations that agents store |
//! | [`client_history`] | histories that clients send, compared with stored ones |
//! | [`compaction`], [`pin`] | summaries that replace earlier turns in requests; pinned turns |
//! | [`context_pack`] | what a new agent should know about a task |
//! | [`worker`] | sessions that other sessions start |
//! | [`task`], [`step`], [`commit`], [`relation`] | tasks and their record |
//! | [`blame`], [`file_edits`] | which recorded change wrote a line; files that tool calls write |
//! | [`intent`], [`stale`], [`prompt`] | classification, idle tasks, prompts |
//! | [`decide`] | the rules: one file per command |
//! | [`bundle`], [`redaction`] | export and import; secrets become marks |
//! | [`identity`], [`session_key`] | senders on channels; the labels of their sessions |
//! | [`policy`] | which sender reaches which session, with which rights |
//! | [`search`] | the query language, the words of a text, search results |
//! | [`token`] | API tokens |
//! | [`usage`], [`usage_query`], [`prices`], [`budget`] | sums of tokens and cost; what a report sums; prices of models; limits |
//! | [`schedule`], [`hook`] | when a message of a timer is due; the message of an outside event |
//! | [`refusal`] | why a rule rejected a command |

pub mod agent_session;
pub mod agent_text;
pub mod alias;
pub mod ancestry;
pub mod answer_match;
pub mod blame;
pub mod budget;
pub mod bundle;
pub mod canonical;
pub mod client_history;
pub mod command;
pub mod commit;
pub mod compaction;
pub mod context_pack;
pub mod decide;
pub mod draft;
pub mod exchange;
pub mod file_edits;
pub mod history_text;
pub mod hook;
pub mod id;
pub mod identity;
pub mod image;
pub mod inbox;
pub mod intent;
pub mod json_depth;
pub mod message;
pub mod object;
pub mod outbox;
pub mod pin;
pub mod policy;
pub mod prices;
pub mod projection;
pub mod prompt;
pub mod redaction;
pub mod refusal;
pub mod relation;
pub mod routing;
pub mod run;
pub mod schedule;
pub mod search;
pub mod session;
pub mod session_key;
pub mod short_id;
pub mod stale;
pub mod step;
pub mod stored_content;
pub mod suspension;
pub mod task;
pub mod text_limits;
pub mod time;
pub mod token;
pub mod turn;
pub mod usage;
pub mod usage_query;
pub mod worker;

pub use refusal::Refusal;

//! What ctx keeps and the rules it keeps it by. Pure: no clock, no randomness, no I/O.
//!
//! | file | owns |
//! |---|---|
//! | [`id`], [`time`], [`text`] | names, moments, bounds |
//! | [`canonical`], [`object`], [`content`], [`nested`] | bytes, their hashes, what is a blob, what is nested too deeply |
//! | [`session`], [`turn`], [`message`], [`image`] | conversations |
//! | [`inbox`], [`run`], [`draft`], [`suspension`] | what happens now: waiting, running, being made, awaited |
//! | [`answer_match`] | what a person's answer is for: a suspension, an option, the prompt |
//! | [`project`], [`lineage`] | history as a provider may see it; where two histories part |
//! | [`compaction`], [`pin`] | a summary in the place of earlier turns, and what it may not replace |
//! | [`worker`] | sessions that other sessions start |
//! | [`task`], [`step`], [`commit`], [`relation`] | work and its record |
//! | [`intent`], [`stale`], [`prompt`] | what a message means, what silence means, what is asked |
//! | [`decide`] | the rules: one file per command |
//! | [`bundle`] | handing work over |
//! | [`token`] | who may ask over the network |
//! | [`refusal`] | how a rule says no |

pub mod agent_session;
pub mod answer_match;
pub mod bundle;
pub mod canonical;
pub mod commit;
pub mod compaction;
pub mod content;
pub mod decide;
pub mod draft;
pub mod id;
pub mod image;
pub mod inbox;
pub mod intent;
pub mod lineage;
pub mod message;
pub mod nested;
pub mod object;
pub mod pin;
pub mod project;
pub mod prompt;
pub mod refusal;
pub mod relation;
pub mod retell;
pub mod run;
pub mod session;
pub mod stale;
pub mod step;
pub mod suspension;
pub mod task;
pub mod text;
pub mod time;
pub mod token;
pub mod turn;
pub mod worker;

pub use refusal::Refusal;

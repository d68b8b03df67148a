//! The front door of ctx as a library.
//!
//! An [`Engine`] works on a store; a [`Recorder`] works on one session in it and records what an agent
//! does there. Whatever a call returned `Ok` for is on disk. Calls run on a tokio runtime, of either flavour.
//!
//! ```
//! # async fn story() -> Result<(), ctx_engine::Error> {
//! # let dir = tempfile::tempdir().expect("a directory");
//! use ctx_engine::{Engine, Options};
//!
//! Engine::init(dir.path(), "demo")?;
//! let engine = Engine::sqlite(dir.path(), Options::default())?;
//! let mut work = engine.recorder("main").await?;
//!
//! work.start("Add retry logic to the client").await?;
//! work.observe_file_write("src/client.rs", b"fn retry() {}".to_vec());
//! work.observe_command(["cargo", "test"], Some(0), None);
//! work.flush().await?;                                  // two steps, one transaction
//! work.ask("How many attempts?").await?;                // the question outlives the process
//! let outcome = work.message("5").await?;               // classified as the answer
//! assert_eq!(outcome.intent.name(), "response");
//! work.done("Retries five times").await?;
//! let sealed = work.confirm().await?;                   // one commit, exactly once
//! assert_eq!(sealed.commit.message, "Retries five times");
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(story()).expect("the story");
//! ```
//!
//! # Names
//! The names of the recorder's specification beside ours:
//!
//! | there | here |
//! |---|---|
//! | `start_session(task)` | [`Recorder::start`] |
//! | `active_session`, `active_session_mut` | [`Engine::recorder`], [`Recorder::task`] |
//! | `observe_note`, `observe_plan`, `observe_relations` | [`Recorder::observe_note`], [`Recorder::observe_plan`], [`Recorder::observe_relation`] |
//! | `observe_file_read`, `observe_file_write`, `observe_command` | the same |
//! | `flush_step` | [`Recorder::flush`] |
//! | `set_state`, `state` | [`Recorder::set_state`], `task.state` |
//! | `task_description`, `summary`, `has_meaningful_work`, `last_activity`, `started_at` | `task.description`, [`Task::summary`], [`Task::has_meaningful_work`], `task.last_activity_at`, `task.started_at` |
//! | `generate_progress_summary` | `task.progress.summary()` |
//! | `incorporate_feedback` | [`Recorder::incorporate`] |
//! | `compact_session` | [`Recorder::seal`] |
//! | `recover_session` | [`Recorder::recover`] |
//! | `cleanup_stale_sessions` | [`Engine::cleanup_stale`] |
//! | `export_session`, `import_session` | [`Recorder::export`], [`Recorder::import`] |
//!
//! [`Task::summary`]: ctx_core::task::Task::summary
//! [`Task::has_meaningful_work`]: ctx_core::task::Task::has_meaningful_work

mod actor;
mod background;
mod classifier;
mod clock;
mod compaction;
mod context;
mod diff;
mod engine;
mod feed;
mod instructions;
mod message_pages;
pub mod provider;
mod recorder;
mod runner;
mod session_bundles;
mod sessions;
mod shared;
mod submit;
mod task_bundles;
mod tokens;
mod tools;
mod turns;
mod workers;

pub use classifier::{Classifier, RuleClassifier};
pub use clock::{Clock, ManualClock, SystemClock};
pub use compaction::Context;
pub use ctx_core as core;
pub use ctx_store::sqlite::{self, Indexing, Options, truncate_log};
pub use ctx_store::{
    CommitQuery, Error as StoreError, FeedEvent, Finding, Found, GcReport, HeadMove, Health,
    Hidden, Hit, PAGE_MAX, SearchPage, SearchPlace, Sentence, SessionQuery, Store, StoredStep,
    StoredTurn, TreeTurn, TurnQuery, VerifyReport,
};
pub use diff::{Diff, Side, Writer};
pub use engine::{CleanupReport, Engine, Error};
pub use feed::{Follow, FollowAll, Item as FeedItem, Words};
pub use message_pages::{Order, Page, Place, Told};
pub use recorder::{Outcome, Recorder, Status};
pub use session_bundles::{Arrival, Imported};
pub use sessions::Info;
pub use shared::{Patience, Persona, Providers, Summariser};
pub use submit::{Key, NewSession, Outgoing, Submitted};
pub use tokens::NewToken;
pub use turns::{Branch, Exchange, NewTurn};

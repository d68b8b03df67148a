//! ctx as a library.
//!
//! An [`Engine`] works on a store. Its calls are grouped into handles by subject; a [`Recorder`]
//! records the work of one session. When a call returns `Ok`, its effect is on disk. Calls run on a
//! tokio runtime of either flavour.
//!
//! ```
//! # async fn story() -> Result<(), ctx_engine::Error> {
//! # let dir = tempfile::tempdir().expect("a directory");
//! use ctx_engine::{Engine, Options};
//!
//! Engine::init(dir.path(), "demo")?;
//! let engine = Engine::open(dir.path(), Options::default())?;
//! let mut work = engine.tasks().recorder("main").await?;
//!
//! work.start("Add retry logic to the client").await?;
//! work.observe_file_write("src/client.rs", b"fn retry() {}".to_vec());
//! work.observe_command(["cargo", "test"], Some(0), None);
//! work.flush().await?;                                  // two steps, one transaction
//! work.ask("How many attempts?").await?;                // the question is durable
//! let outcome = work.message("5").await?;               // classified as the answer
//! assert_eq!(outcome.intent.name(), "response");
//! work.done("Retries five times").await?;
//! let sealed = work.confirm().await?;                   // one commit, exactly once
//! assert_eq!(sealed.commit.message, "Retries five times");
//! # Ok(())
//! # }
//! # let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
//! # runtime.block_on(story()).expect("the story");
//! ```
//!
//! # Handles
//!
//! | handle | subject |
//! |---|---|
//! | [`Engine::sessions`] | create, find, change, fork, archive and delete sessions |
//! | [`Engine::messages`] | send and read messages, edit the inbox |
//! | [`Engine::client_histories`] | messages of clients that send their history |
//! | [`Engine::runs`] | cancel, retry and resume runs |
//! | [`Engine::tasks`] | record work, list and reopen tasks |
//! | [`Engine::contexts`] | what the next request has, compaction, pinned turns |
//! | [`Engine::events`] | stored and live events |
//! | [`Engine::records`] | commits, objects, notes, search |
//! | [`Engine::bundles`] | sessions as files |
//! | [`Engine::exchanges`] | sessions that move between stores |
//! | [`Engine::imports`] | sessions of other tools, turn by turn |
//! | [`Engine::inbound`] | messages from channels, policies |
//! | [`Engine::entities`], [`Engine::aliases`] | who sends them; further labels of sessions |
//! | [`Engine::outbox`] | deliveries to channels |
//! | [`Engine::tokens`] | API tokens |
//! | [`Engine::tools`] | ctx's own tools, for agents that ctx does not run |
//! | [`Engine::schedules`] | messages that a timer sends |
//! | [`Engine::maintenance`] | verification, garbage collection, backup |
//! | [`Engine::background`] | leases, recovery, timers, shutdown |
//!
//! # Decide, store, act
//!
//! A rule in `ctx_core::decide` decides, the store applies its decision in one transaction, and
//! effects follow only after the transaction is on disk. There is one exception: a file that an
//! agent writes through ctx exists on disk before its observation is durable. A crash in between
//! leaves a changed file that no step mentions.
//!
//! # The path of one message
//!
//! `submit` accepts the message in one transaction; in an idle session it opens the run. Otherwise
//! `deliver` opens the run once the message is next. `run` carries the run out and `end_run` ends
//! it with its turn. The opened run passes from the transaction to the session's actor as a value.
//!
//! # Names of the specification
//!
//! | specification | here |
//! |---|---|
//! | `start_session(task)` | [`Recorder::start`] |
//! | `active_session`, `active_session_mut` | [`Tasks::recorder`], [`Recorder::task`] |
//! | `observe_note`, `observe_plan`, `observe_relations` | [`Recorder::observe_note`], [`Recorder::observe_plan`], [`Recorder::observe_relation`] |
//! | `observe_file_read`, `observe_file_write`, `observe_command` | the same |
//! | `flush_step` | [`Recorder::flush`] |
//! | `set_state`, `state` | [`Recorder::set_state`], `task.state` |
//! | `task_description`, `summary`, `has_meaningful_work`, `last_activity`, `started_at` | `task.description`, [`Task::summary`], [`Task::has_meaningful_work`], `task.last_activity_at`, `task.started_at` |
//! | `generate_progress_summary` | `task.progress.summary()` |
//! | `incorporate_feedback` | [`Recorder::incorporate`] |
//! | `compact_session` | [`Recorder::seal`] |
//! | `recover_session` | [`Recorder::recover`] |
//! | `cleanup_stale_sessions` | [`Tasks::cleanup_stale`] |
//! | `export_session`, `import_session` | [`Recorder::export`], [`Recorder::import`] |
//!
//! [`Task::summary`]: ctx_core::task::Task::summary
//! [`Task::has_meaningful_work`]: ctx_core::task::Task::has_meaningful_work

mod actor;
mod atomic_imports;
mod background;
mod blame;
mod classifier;
mod client_histories;
mod clock;
mod compaction;
mod configured_providers;
mod context;
mod context_packs;
mod diff;
mod engine;
mod events;
pub mod exchange;
mod feed;
mod file_versions;
mod history_cache;
mod history_places;
mod identities;
mod ids;
mod imports;
mod inbound;
mod inbox;
mod instructions;
mod lease;
mod located_messages;
mod maintenance;
mod message_pages;
mod messages;
mod nodes;
mod outbox;
mod outside_work;
mod past_work;
pub mod provider;
mod recorder;
mod records;
mod run_slots;
mod runner;
mod runs;
mod schedules;
mod session_bundles;
mod session_export;
mod sessions;
mod shared;
mod store_copy;
mod submit;
mod task_bundles;
mod tasks;
mod tokens;
mod tools;
mod turns;
mod usage;
mod workers;

pub use atomic_imports::{AtomicImport, AtomicSession};
pub use background::Background;
pub use blame::{Blame, LineOrigin};
pub use classifier::{Classifier, ProviderClassifier, RuleClassifier};
pub use client_histories::{ClientHistories, ClientRequest, ClientSession};
pub use clock::{Clock, ManualClock};
pub use compaction::{Context, Contexts};
pub use configured_providers::{Persona, Providers, Summariser};
pub use context_packs::FoundTask;
pub use ctx_core as core;
pub use ctx_store::sqlite::{self, truncate_log};
pub use ctx_store::{
    CommitQuery, CopyReport, Error as StoreError, FeedEvent, Finding, Found, GcReport, HeadMove,
    Health, Hidden, Indexing, Location, NarrativeNote, OnceKey, Options, OutboxQuery, PAGE_MAX,
    Server, SessionQuery, Store, StoredOutgoing, StoredStep, StoredTurn, TreeTurn, UlidKind,
    UsageKey, VerifyReport,
};
pub use diff::{Diff, Side, Writer};
pub use engine::{DEFAULT_SESSION, Engine, Error};
pub use events::{Events, Follow, FollowAll};
pub use feed::{Encoded, Item as FeedItem, TextDelta};
pub use identities::{Aliases, Entities, NewEntity};
pub use ids::{Ids, Record, short_among};
pub use imports::{ImportReport, ImportWriter, ImportedTurn, Imports};
pub use inbound::{Explained, InboundMessages, NewInbound, ReceivedMessage};
pub use located_messages::{Located, OpenTurn, StoredMessage};
pub use maintenance::Maintenance;
pub use message_pages::{ListedMessage, Order, Page, Place};
pub use messages::Messages;
pub use outbox::{Courier, DeliveryError, Outbox};
pub use outside_work::OutsideEvent;
pub use recorder::{Outcome, Recorder, Status};
pub use records::{Records, SearchRequest};
pub use runs::Runs;
pub use schedules::{ListedSchedule, Schedule, Schedules};
pub use session_bundles::{Bundles, ImportEffect, Imported};
pub use session_export::Export;
pub use sessions::{Info, Sessions};
pub use shared::EngineTimeouts;
pub use store_copy::{CopiedStore, CopyPhase, CopyProgress, copy_store, is_same_store};
pub use submit::{Key, NewMessage, NewSession, Submitted};
pub use tasks::{CleanupReport, Tasks};
pub use tokens::{NewToken, Tokens};
pub use tools::{
    DefaultSession, Effect, OutsideCaller, Progress, ToolAnswer, ToolDefinition, Tools,
    definition_of, task_document,
};
pub use turns::{Branch, Exchange, NewTurn};
pub use usage::{Spending, UsageReport, UsageReportRow, UsageReports};

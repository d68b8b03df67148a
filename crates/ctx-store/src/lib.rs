//! Where ctx keeps its data: one relational layer over database drivers.
//!
//! | module | owns |
//! |---|---|
//! | `store` | [`Store`]: everything that the engine may ask of a store |
//! | `records` | queries, records and reports of the store |
//! | [`error`] | errors, shaped by what the caller does next |
//! | `write`, `transition` | one write: what it reads, the rule it runs, the reply that comes back |
//! | `relational` | every SQL statement that the databases share |
//! | `driver` | the interface that a database implements |
//! | `schema`, `pack` | schema version; packed bodies |
//! | `atomic_writes` | several writes in one transaction |
//! | `copy` | copying a store into another one |
//! | `file_steps` | [`Store`]: the steps that touched a file |
//! | `usage` | [`Store`]: sums of tokens, cost, messages and time |
//! | `location` | opening a store by its directory or URL |
//! | [`sqlite`] | the embedded database |
//! | [`postgres`] | a database server |
//!
//! A write carries its rule into the transaction: the store reads the rows, the rule decides on
//! exactly those rows, and the store writes the changes, all or none. What comes back as `Ok` is
//! synced.

mod atomic_writes;
mod channels;
mod copy;
mod driver;
pub mod error;
mod file_steps;
mod location;
mod pack;
pub mod postgres;
mod records;
mod relational;
mod schema;
mod short_ids;
pub mod sqlite;
mod store;
mod transition;
mod usage;
mod write;

pub use atomic_writes::{AtomicWrite, execute_all};
pub use copy::copy;
pub use driver::Notice;
pub use error::Error;
pub use location::{Indexing, Location, Options, Server, create, exists, open};
pub use records::{
    CommitQuery, Context, CopiedRows, CopyReport, Due, FINDINGS_MAX, FeedEvent, FeedQuery, Finding,
    Found, FoundHistory, GcReport, HeadMove, Health, Hidden, NarrativeNote, OutboxQuery, PAGE_MAX,
    Progress, RenamedSession, SearchQuery, SessionPage, SessionQuery, StoredOutgoing, StoredStep,
    StoredTurn, TreeTurn, TurnQuery, UsageKey, UsageRow, VerifyReport,
};
pub use relational::id_rows::UlidKind;
pub use store::{SearchIndex, Store};
pub use transition::{
    Executed, Once, OnceKey, Stored, Transition, Written, execute, execute_once, execute_routed,
};
pub use usage::UsageOfScopes;
pub use write::{Target, Write};

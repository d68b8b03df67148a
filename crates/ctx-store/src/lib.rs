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
//! | `schema`, `pack`, `word_filter` | schema version; packed bodies; words for the search index |
//! | `search_match` | what a search finds in the text of a row |
//! | `copy` | copying a store into another one |
//! | `location` | opening a store by its directory or URL |
//! | [`sqlite`] | the embedded database |
//! | [`postgres`] | a database server |
//!
//! A write carries its rule into the transaction: the store reads the rows, the rule decides on
//! exactly those rows, and the store writes the changes, all or none. What comes back as `Ok` is
//! synced.

mod channels;
mod copy;
mod driver;
pub mod error;
mod location;
mod pack;
pub mod postgres;
mod records;
mod relational;
mod schema;
mod search_match;
pub mod sqlite;
mod store;
mod transition;
mod word_filter;
mod write;

pub use copy::copy;
pub use driver::Notice;
pub use error::Error;
pub use location::{Indexing, Location, Options, Server, create, exists, open};
pub use records::{
    CommitQuery, Context, CopiedRows, CopyReport, Due, FINDINGS_MAX, FeedEvent, FeedQuery, Finding,
    Found, GcReport, HeadMove, Health, Hidden, Hit, NarrativeNote, OutboxQuery, PAGE_MAX, Progress,
    RenamedSession, SearchPage, SearchPlace, SessionPage, SessionQuery, StoredOutgoing, StoredStep,
    StoredTurn, TreeTurn, TurnQuery, VerifyReport,
};
pub use store::{SearchIndex, Store};
pub use transition::{
    Executed, Once, OnceKey, Stored, Transition, Written, execute, execute_once, execute_routed,
};
pub use write::{Target, Write};

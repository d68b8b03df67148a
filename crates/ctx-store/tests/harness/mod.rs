//! What the tests of the store share: calls, a writer for one session, and a snapshot of a store.
//!
//! | file | owns |
//! |---|---|
//! | [`store_calls`] | the calls that tests make of a store |
//! | [`session_writer`] | a session of a store, one call for each thing a test does with it |
//! | [`run_driver`] | messages, runs and suspensions of that session |
//! | [`postgres_server`] | a PostgreSQL server of the test process |
//! | [`snapshot`] | everything that the reading methods return, for comparison |

pub(crate) mod postgres_server;
mod run_driver;
mod session_writer;
mod snapshot;
mod store_calls;

pub(crate) use run_driver::*;
pub(crate) use session_writer::*;
pub(crate) use snapshot::*;
pub(crate) use store_calls::*;

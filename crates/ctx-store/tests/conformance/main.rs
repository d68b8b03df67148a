//! What every store must do, whatever it is made of.
//!
//! A case is a function of a place where a store can be made; it sees nothing but the `Store` trait. The
//! last line of this file runs all cases for SQLite, and another store needs one more line like it.

use std::sync::Arc;

use ctx_store::Store;
use ctx_store::sqlite::{Options, SqliteStore};

mod atomic;
mod commits;
mod hand;
mod objects;
mod search;
mod sessions;
mod steps;
mod turns;
mod upkeep;

/// A place with a store of its own.
trait Place: Sized + Send + Sync {
    /// A place with an empty store for the project [`hand::PROJECT`].
    async fn fresh() -> Self;

    /// One more handle on the place's store, as another process would have it.
    async fn open(&self) -> Arc<dyn Store>;
}

struct Sqlite(tempfile::TempDir);

impl Place for Sqlite {
    async fn fresh() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        SqliteStore::create(dir.path(), hand::PROJECT).expect("an empty directory takes a store");
        Self(dir)
    }

    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(self.0.path(), Options::default()).expect("it was just made"))
    }
}

macro_rules! tests {
    ($place:ty; $($module:ident { $($case:ident)+ })+) => {$(
        mod $module {
            use crate::Place;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                crate::$module::$case(&<$place>::fresh().await).await;
            })+
        }
    )+};
}


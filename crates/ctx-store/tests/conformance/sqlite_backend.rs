//! SQLite under the conformance suite: a temporary directory with a store in it.

use ctx_store::sqlite::{self, Options};

use crate::Backend;
use crate::harness::{Calls, PROJECT, StoreHandle};

/// The name of the database file inside a store's directory.
const DATABASE: &str = "ctx.db";

pub(crate) struct Sqlite {
    dir: tempfile::TempDir,
    calls: Calls,
}

impl Backend for Sqlite {
    async fn fresh() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        sqlite::create(dir.path(), PROJECT).expect("an empty directory takes a store");
        Self { dir, calls: Calls::default() }
    }

    async fn open(&self) -> StoreHandle {
        let store = sqlite::open(self.dir.path(), Options::default()).expect("it exists");
        StoreHandle::recording(store, self.calls.clone())
    }

    async fn copy(&self, store: &StoreHandle) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        store.copy_to(&dir.path().join(DATABASE)).await.expect("copied");
        Self { dir, calls: Calls::default() }
    }

    fn calls(&self) -> &Calls {
        &self.calls
    }
}

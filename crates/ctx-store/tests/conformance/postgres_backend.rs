//! PostgreSQL under the conformance suite: a database of the server that this process has started.

use ctx_store::{Error, Options};

use crate::Backend;
use crate::harness::postgres_server::server;
use crate::harness::{Calls, PROJECT, StoreHandle};

pub(crate) struct Postgres {
    database: String,
    calls: Calls,
}

impl Postgres {
    fn empty() -> Self {
        Self { database: server().create_database(), calls: Calls::default() }
    }

    pub(crate) fn url(&self) -> String {
        server().url(&self.database)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        server().drop_database(&self.database);
    }
}

impl Backend for Postgres {
    async fn fresh() -> Self {
        let database = Self::empty();
        ctx_store::create(&database.url(), PROJECT).expect("an empty database takes a store");
        database
    }

    async fn open(&self) -> StoreHandle {
        let store = ctx_store::open(&self.url(), Options::default()).expect("it exists");
        StoreHandle::recording(store, self.calls.clone())
    }

    async fn copy(&self, store: &StoreHandle) -> Self {
        let refused = store.copy_to(std::path::Path::new("/nowhere")).await;
        assert!(matches!(refused, Err(Error::Unsupported(_))), "{refused:?}");
        let copy = Self::empty();
        server().copy(&self.database, &copy.database);
        copy
    }

    fn calls(&self) -> &Calls {
        &self.calls
    }
}

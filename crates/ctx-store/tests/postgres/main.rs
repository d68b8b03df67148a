//! What only PostgreSQL can do wrong: lost connections, restarts, credentials, and transactions
//! that run at the same time.

#[path = "../harness/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the conformance suite uses the rest of it")]
mod harness;

mod connecting;
mod feed_order;
mod lost_connections;
mod notices;
mod pooler;
#[allow(dead_code, reason = "the chaos test of the program uses the rest of it")]
mod proxy;
mod round_trips;
mod schema_versions;
mod store_copies;

use ctx_store::Options;
use harness::postgres_server::{Server, server};
use harness::{PROJECT, StoreHandle};

/// A database with a store.
struct Database {
    name: String,
    server: &'static Server,
}

impl Database {
    fn fresh() -> Self {
        let database = Self { name: server().create_database(), server: server() };
        ctx_store::create(&database.url(), PROJECT).expect("an empty database takes a store");
        database
    }

    fn url(&self) -> String {
        self.server.url(&self.name)
    }

    /// The URL of the database behind another port.
    fn url_at(&self, port: u16) -> String {
        self.url().replace(&format!(":{}/", self.server.port), &format!(":{port}/"))
    }

    fn sql(&self, sql: &str) -> String {
        self.server.execute(&self.name, sql).trim().to_owned()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.server.drop_database(&self.name);
    }
}

fn open(url: &str) -> StoreHandle {
    StoreHandle::new(ctx_store::open(url, Options::default()).expect("it opens"))
}

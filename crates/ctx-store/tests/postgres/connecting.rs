//! Addresses, passwords and certificates.

use ctx_store::{Error, Options, Store};

use crate::Database;
use crate::harness::postgres_server::{PASSWORD, Server};
use crate::harness::{PROJECT, SessionWriter, StoreHandle};

fn refused(opened: Result<Store, Error>) -> String {
    let error = opened.err().expect("it does not open");
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
    error.to_string()
}

#[test]
fn errors_name_the_place_and_never_the_password() {
    let database = Database::fresh();
    let place = format!("127.0.0.1:{}/{}", database.server.port, database.name);
    let wrong = database.url().replace("p%25ss", "wr0ng");
    let error = refused(ctx_store::open(&wrong, Options::default()));
    assert!(error.contains(&place) && error.contains("password authentication failed"), "{error}");
    assert!(!error.contains("wr0ng"), "{error}");
    let error = refused(ctx_store::open(&database.server.url("nowhere"), Options::default()));
    assert!(error.contains("/nowhere") && !error.contains(PASSWORD), "{error}");
    let empty = database.server.create_database();
    let opened = ctx_store::open(&database.server.url(&empty), Options::default());
    assert!(matches!(opened, Err(Error::NoStore(_))));
    assert!(!ctx_store::exists(&database.server.url(&empty)).expect("an answer"));
    assert!(ctx_store::exists(&database.url()).expect("an answer"));
    assert!(matches!(ctx_store::create(&database.url(), PROJECT), Err(Error::StoreExists(_))));
}

#[test]
fn a_passfile_has_the_password() {
    let database = Database::fresh();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("passwords");
    let escaped = PASSWORD.replace('\\', "\\\\").replace(':', "\\:");
    std::fs::write(&file, format!("127.0.0.1:*:{}:ctx:{escaped}\n", database.name))
        .expect("a file");
    let place = format!("ctx@127.0.0.1:{}/{}", database.server.port, database.name);
    let url = format!("postgres://{place}?passfile={}", file.display());
    ctx_store::open(&url, Options::default()).expect("it opens");
}

#[test]
fn a_server_is_verified_by_its_issuer_and_its_name() {
    let server = Server::start("", true);
    let name = server.create_database();
    let ca = server.dir.join("ca.crt");
    let url = |host: &str, query: &str| {
        let url = server.url(&name).replace("127.0.0.1", host);
        format!("{url}?{}", query.replace("CA", &ca.display().to_string()))
    };
    ctx_store::create(&url("localhost", "sslmode=verify-full&sslrootcert=CA"), PROJECT)
        .expect("a verified server");
    let other = Server::start("", true);
    let foreign = other.dir.join("ca.crt").display().to_string();
    for (host, query, opens) in [
        ("localhost", "sslmode=verify-full&sslrootcert=CA", true),
        ("127.0.0.1", "sslmode=verify-full&sslrootcert=CA", false),
        ("127.0.0.1", "sslmode=verify-ca&sslrootcert=CA", true),
        ("127.0.0.1", "sslmode=require", true),
        ("127.0.0.1", "sslmode=disable", true),
        ("127.0.0.1", "", true),
        ("localhost", &format!("sslmode=verify-full&sslrootcert={foreign}"), false),
        ("localhost", &format!("sslmode=require&sslrootcert={foreign}"), false),
    ] {
        let opened = ctx_store::open(&url(host, query), Options::default());
        assert_eq!(opened.is_ok(), opens, "{host} {query}: {:?}", opened.err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_readers_give_their_connections_to_writers() {
    let server = Server::start("-c max_connections=20 -c superuser_reserved_connections=0", false);
    let name = server.create_database();
    ctx_store::create(&server.url(&name), PROJECT).expect("a store");
    let store = ctx_store::open(&server.url(&name), Options::default()).expect("it opens");
    // Every read at the same time opens a connection, which is kept.
    let reads = (0..8).map(|_| {
        tokio::spawn({
            let store = store.clone();
            async move { store.newest_feed_row().await }
        })
    });
    for read in reads.collect::<Vec<_>>() {
        read.await.expect("it ends").expect("a row");
    }
    // Others take the rest.
    let mut others = Vec::new();
    while let Ok(other) = ctx_store::open(server.url(&name).as_str(), Options::default())
        && others.len() < 20
        && other.newest_feed_row().await.is_ok()
    {
        others.push(other);
    }
    assert!(others.len() < 20, "the server has no connection left");
    let store = StoreHandle::new(store);
    SessionWriter::create(&store, "main", 0).await.say("hello", 1).await;
}

#[test]
fn a_database_with_another_encoding_is_refused() {
    let database = Database::fresh();
    let name = format!("{}_latin", database.name);
    database
        .sql(&format!("CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"));
    let created = ctx_store::create(&database.server.url(&name), PROJECT);
    let error = created.expect_err("refused").to_string();
    assert!(error.contains("LATIN1") && error.contains("UTF8"), "{error}");
}

//! pgbouncer in transaction mode: each transaction of a client may go to another server connection.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};

use crate::harness::postgres_server::{PASSWORD, Server};
use crate::harness::{FeedCursor, SessionWriter, feed_after, verify};
use crate::{Database, open};

/// A running pgbouncer. It ends when its input does.
pub(crate) struct Pooler {
    pub(crate) port: u16,
    _shell: Child,
}

impl Pooler {
    pub(crate) fn to(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let (users, settings) =
            (server.dir.join("users"), server.dir.join(format!("pgbouncer-{port}.ini")));
        fs::write(&users, format!("\"ctx\" \"{PASSWORD}\"\n")).expect("a file");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {}\n\
             pool_mode = transaction\ndefault_pool_size = 3\nmax_client_conn = 200\n",
            server.port,
            users.display()
        );
        fs::write(&settings, text).expect("a file");
        for file in [&users, &settings] {
            fs::set_permissions(file, fs::Permissions::from_mode(0o644)).expect("a file");
        }
        let run = "/usr/sbin/pgbouncer -q \"$1\" 2>/dev/null & cat >/dev/null; kill $!";
        let mut shell = server.command();
        let shell = shell
            .args(["-c", run, "sh"])
            .arg(settings)
            .stdin(Stdio::piped())
            .spawn()
            .expect("pgbouncer is not installed: apt-get install pgbouncer");
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::yield_now();
        }
        Self { port, _shell: shell }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_share_few_connections_behind_a_pooler() {
    let database = Database::fresh();
    let pooler = Pooler::to(database.server);
    let url = database.url_at(pooler.port);
    let stores = [open(&url), open(&url)];
    let mut writers = tokio::task::JoinSet::new();
    for n in 0..8 {
        let store = stores[n % 2].clone();
        writers.spawn(async move {
            let writer = SessionWriter::create(&store, &format!("session {n}"), 0).await;
            for ms in 1..10 {
                writer.start("a task", ms).await;
                writer.exchange("a needle", "found", ms).await;
                writer.seal("done", ms).await.expect("sealed");
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.expect("no panic");
    }
    let [store, other] = &stores;
    assert_eq!(verify(store).await.findings, []);
    assert_eq!(other.counts().await.turns, 8 * 9);
    assert_eq!(other.search("needle", 999).await.expect("hits").len(), 8 * 9);
    let events = feed_after(store, FeedCursor::START, 99).await;
    assert_eq!(feed_after(&open(&database.url()), FeedCursor::START, 99).await, events);
}

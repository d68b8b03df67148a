//! A running `ctx serve` in a home directory of its own.

use std::io::{BufRead, BufReader};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ctx_engine::{Location, Options};
use serde_json::Value;
use tempfile::TempDir;

use super::client::Client;
use super::test_store::{self, Sql};
use super::{ctx, wait_until};

/// A directory that a server and its successors share.
pub(crate) type Home = Arc<HomeDir>;

/// A directory whose data directory is `data`. It is deleted with its store.
pub(crate) struct HomeDir(TempDir);

impl HomeDir {
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// Where the store is.
    pub(crate) fn location(&self) -> Location {
        test_store::location(self.path(), &self.data())
    }

    pub(crate) fn has_store(&self) -> bool {
        ctx_engine::Engine::open(self.location(), Options::default()).is_ok()
    }

    /// The rows of the store.
    pub(crate) fn sql(&self) -> Sql {
        Sql::open(self.path(), &self.data())
    }
}

impl Drop for HomeDir {
    fn drop(&mut self) {
        test_store::drop_database(self.path());
    }
}

pub(crate) fn home() -> Home {
    Arc::new(HomeDir(tempfile::tempdir().expect("a temporary directory")))
}

/// A home directory with a `ctx.toml`.
pub(crate) fn configured_home(config: &str) -> Home {
    let home = home();
    configure(home.path(), config);
    home
}

/// Writes the `ctx.toml` of a home directory.
pub(crate) fn configure(home: &Path, config: &str) {
    std::fs::create_dir_all(home.join("data")).expect("a directory");
    std::fs::write(home.join("data/ctx.toml"), config).expect("a configuration");
}

/// Writes the `policies.yaml` of a home directory. It is replaced as a whole, so that a running
/// server never reads half of it.
pub(crate) fn write_policies(home: &Path, policies: &str) {
    let data = home.join("data");
    std::fs::create_dir_all(&data).expect("a directory");
    std::fs::write(data.join("policies.new"), policies).expect("a file");
    std::fs::rename(data.join("policies.new"), data.join("policies.yaml")).expect("a new name");
}

/// A running server; killed when it is dropped. It is its own [`Client`].
pub(crate) struct Server {
    child: Child,
    client: Client,
    pub(crate) dir: Home,
    /// The document that it printed when it began to listen.
    pub(crate) announced: Value,
}

impl Deref for Server {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Server {
    /// A server with the default configuration.
    pub(crate) fn start() -> Self {
        Self::in_dir(home())
    }

    /// A server with a `ctx.toml`.
    pub(crate) fn configured(config: &str) -> Self {
        Self::in_dir(configured_home(config))
    }

    /// A server on the store of a home directory, which may have had servers before.
    pub(crate) fn in_dir(dir: Home) -> Self {
        Self::spawn(dir, "127.0.0.1:0", |command| command.env("CTX_LOG", "error"))
    }

    /// A server that listens beyond loopback and writes its whole log to a file.
    pub(crate) fn on_all_interfaces(dir: Home, log: &Path) -> Self {
        Self::spawn(dir, "0.0.0.0:0", |command| log_to(command, log))
    }

    /// A server with more settings.
    pub(crate) fn spawn(
        dir: Home,
        listen: &str,
        set: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        let mut command = ctx(dir.path());
        command.args(["serve", "--listen", listen, "--json"]);
        let mut child = set(&mut command).stdout(Stdio::piped()).spawn().expect("ctx serve starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let announced: Value = serde_json::from_str(&line)
            .unwrap_or_else(|e| panic!("the first line is JSON: {e}: {line}"));
        let address = announced["address"].as_str().expect("an address");
        let address = address.parse().expect("a socket address");
        Self { child, client: Client { address }, dir, announced }
    }

    pub(crate) fn client(&self) -> Client {
        self.client
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn wait_until_ready(&self) {
        wait_until("the server is ready", || self.get("/readyz").status == 200);
    }

    /// Ends it with SIGINT; its exit code, how long it took, and its directory.
    pub(crate) fn end(self) -> (Option<i32>, Duration, Home) {
        signal("-INT", self.child.id());
        self.ended()
    }

    /// Waits for its end; its exit code, how long it took, and its directory.
    pub(crate) fn ended(mut self) -> (Option<i32>, Duration, Home) {
        let began = Instant::now();
        let status = self.child.wait().expect("its end");
        (status.code(), began.elapsed(), self.dir.clone())
    }

    /// Ends it with SIGKILL.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes a server write everything it logs to a file.
pub(crate) fn log_to<'a>(command: &'a mut Command, log: &Path) -> &'a mut Command {
    let file = std::fs::File::create(log).expect("a file for the log");
    command.env("CTX_LOG", "trace").stderr(file)
}

/// Sends a signal, such as `-TERM`, to a process.
pub(crate) fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args([name, &pid.to_string()]).status().expect("kill");
    assert!(sent.success(), "kill {name} {pid}");
}

/// Whether a process runs; one that ended and was not waited for does not.
pub(crate) fn is_alive(pid: u64) -> bool {
    // A process can be waited for when its last thread has ended; the first may end before.
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.into_iter().any(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    })
}

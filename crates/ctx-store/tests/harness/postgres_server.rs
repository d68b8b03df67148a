//! A PostgreSQL server for tests: one per test process, with one database for each test.
//!
//! The server ends and its directory is deleted when the test process ends, however it ends: a
//! shell waits for the end of its input, of which the test process has the other end. This file
//! needs nothing but the standard library, so that the tests of every crate can include it.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// The password of the only role.
pub(crate) const PASSWORD: &str = "p%ss w/rd";
/// The same in a URL.
const PASSWORD_IN_URL: &str = "p%25ss%20w%2Frd";

/// Arguments: the directory of the programs, the port, the password, settings of the server, and
/// whether it has a certificate. Nothing needs to survive the machine, so nothing is synced.
const RUN: &str = r#"
set -e
bin=$1 port=$2 settings=$4
dir=$(mktemp -d -t ctx-postgres.XXXXXX)
trap '"$bin/pg_ctl" -D "$dir/data" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP
printf %s "$3" >"$dir/password"
"$bin/initdb" -N -D "$dir/data" -U ctx -E UTF8 --locale=C -A scram-sha-256 --pwfile="$dir/password" >"$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 1; }
if [ "$5" = tls ]; then
  key="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
  openssl req -x509 $key -days 9 -subj /CN=ca -keyout "$dir/ca.key" -out "$dir/ca.crt" 2>/dev/null
  openssl req $key -subj /CN=localhost -keyout "$dir/server.key" -out "$dir/server.csr" 2>/dev/null
  echo subjectAltName=DNS:localhost >"$dir/names"
  openssl x509 -req -in "$dir/server.csr" -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -CAcreateserial -days 9 -extfile "$dir/names" -out "$dir/server.crt" 2>/dev/null
  chmod 600 "$dir/server.key"
  settings="$settings -c ssl=on -c ssl_key_file=$dir/server.key -c ssl_cert_file=$dir/server.crt"
fi
"$bin/pg_ctl" -w -D "$dir/data" -l "$dir/log" -o "-p $port -k $dir -c listen_addresses=localhost -c fsync=off -c full_page_writes=off -c max_connections=400 -c shared_buffers=64MB $settings" start >/dev/null || { cat "$dir/log" >&2; exit 1; }
echo "$dir"
while read -r mode; do
  "$bin/pg_ctl" -w -D "$dir/data" -m "$mode" -l "$dir/log" restart >/dev/null && echo "$dir"
done
"#;

/// A running server.
pub(crate) struct Server {
    bin: PathBuf,
    pub(crate) port: u16,
    /// The directory of its files.
    pub(crate) dir: PathBuf,
    databases: AtomicUsize,
    /// Its input stays open until this process ends.
    shell: Mutex<(Child, BufReader<ChildStdout>)>,
}

/// The server of this process.
pub(crate) fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start("", false))
}

impl Server {
    /// Starts a server with settings (`-c NAME=VALUE …`), for a test that needs one of its own.
    pub(crate) fn start(settings: &str, tls: bool) -> Self {
        let bin = programs().expect("PostgreSQL is not installed: apt-get install postgresql");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let mut command = shell();
        let mut child = command
            .args(["-c", RUN, "sh"])
            .arg(&bin)
            .args([port.to_string().as_str(), PASSWORD, settings, if tls { "tls" } else { "" }])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let dir = next_line(&mut output);
        let shell = Mutex::new((child, output));
        Self { bin, port, dir: dir.into(), databases: AtomicUsize::new(0), shell }
    }

    /// A shell of the user whom the server runs as.
    pub(crate) fn command(&self) -> Command {
        shell()
    }

    /// Stops the server in a mode of `pg_ctl` and starts it again.
    pub(crate) fn restart(&self, mode: &str) {
        let mut shell = self.shell.lock().expect("no panic");
        let (child, output) = &mut *shell;
        writeln!(child.stdin.as_ref().expect("its input"), "{mode}").expect("a command");
        next_line(output);
    }

    /// The URL of a database.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://ctx:{PASSWORD_IN_URL}@127.0.0.1:{}/{database}", self.port)
    }

    /// Creates an empty database and returns its name.
    pub(crate) fn create_database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.run(
            "psql",
            &["-c", &format!("CREATE DATABASE {name} TEMPLATE template0"), "postgres"],
            None,
        );
        name
    }

    /// Deletes a database, even if it is in use.
    pub(crate) fn drop_database(&self, name: &str) {
        self.run("psql", &["-c", &format!("DROP DATABASE {name} WITH (FORCE)"), "postgres"], None);
    }

    /// Runs SQL in a database.
    pub(crate) fn execute(&self, database: &str, sql: &str) -> String {
        self.run("psql", &["-At", "-v", "ON_ERROR_STOP=1", "-c", sql, database], None)
    }

    /// A connection to a database that executes statements one after the other.
    pub(crate) fn connect(&self, database: &str) -> Connection {
        let mut child = self
            .client("psql")
            .args(["-At", "-q", "-X", "-v", "ON_ERROR_STOP=1", database])
            .spawn()
            .expect("psql");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        Connection { child, output }
    }

    /// As [`Server::execute`]; the message of the server where it fails.
    pub(crate) fn try_execute(&self, database: &str, sql: &str) -> Result<String, String> {
        self.try_run("psql", &["-At", "-v", "ON_ERROR_STOP=1", "-c", sql, database], None)
    }

    /// Copies what is in a database to an empty one.
    pub(crate) fn copy(&self, from: &str, to: &str) {
        let dump = self.dump(from);
        self.run("psql", &["-v", "ON_ERROR_STOP=1", to], Some(&dump));
    }

    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command
            .args(["-h", "127.0.0.1", "-U", "ctx", "-p", &self.port.to_string()])
            .env("PGPASSWORD", PASSWORD)
            .env("PGOPTIONS", "--client-min-messages=warning")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// What is in a database, as SQL.
    pub(crate) fn dump(&self, database: &str) -> String {
        self.run("pg_dump", &[database], None)
    }

    /// The program `psql` with a connection to a database.
    pub(crate) fn psql(&self, database: &str) -> Command {
        let mut command = Command::new(self.bin.join("psql"));
        command.args(["-X", "-h", "127.0.0.1", "-U", "ctx", "-p", &self.port.to_string()]);
        command.args(["-d", database]).env("PGPASSWORD", PASSWORD);
        command
    }

    /// Runs a program of PostgreSQL, and returns what it prints.
    fn run(&self, program: &str, args: &[&str], input: Option<&str>) -> String {
        let done = self.try_run(program, args, input);
        done.unwrap_or_else(|error| panic!("{program} {args:?}: {error}"))
    }

    fn try_run(&self, program: &str, args: &[&str], input: Option<&str>) -> Result<String, String> {
        let mut child = self
            .client(program)
            .args(args)
            .args(if program == "psql" { ["-q", "-X"].as_slice() } else { &[] })
            .spawn()
            .expect("a program of PostgreSQL");
        let mut stdin = child.stdin.take().expect("its input");
        let output = std::thread::scope(|scope| {
            scope.spawn(move || stdin.write_all(input.unwrap_or_default().as_bytes()));
            child.wait_with_output().expect("it ends")
        });
        match output.status.success() {
            true => Ok(String::from_utf8(output.stdout).expect("text")),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }
}

/// An open connection. It ends with this value.
pub(crate) struct Connection {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Connection {
    /// Executes statements, and returns the last line of what they return.
    pub(crate) fn execute(&mut self, sql: &str) -> String {
        let input = self.child.stdin.as_mut().expect("its input");
        writeln!(input, "{sql};\n\\echo end").expect("it reads");
        let (mut last, mut line) = (String::new(), next_line(&mut self.output));
        while line != "end" {
            last = std::mem::replace(&mut line, next_line(&mut self.output));
        }
        last
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// A shell. A server refuses to run as root.
fn shell() -> Command {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0);
    let mut command = Command::new(if is_root { "runuser" } else { "sh" });
    if is_root {
        command.args(["-u", "postgres", "--", "sh"]);
    }
    command.current_dir("/");
    command
}

/// The line that the shell prints when the server accepts connections.
fn next_line(output: &mut impl BufRead) -> String {
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    assert!(line.ends_with('\n'), "the server does not start");
    line.trim_end().to_owned()
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(shell) = self.shell.get_mut() {
            drop(shell.0.stdin.take());
            let _ = shell.0.wait();
        }
    }
}

/// The directory of the newest installed server.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let newest = versions
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|version| {
            PathBuf::from(format!("/usr/lib/postgresql/{version}/bin/initdb")).exists()
        })
        .max()?;
    Some(PathBuf::from(format!("/usr/lib/postgresql/{newest}/bin")))
}

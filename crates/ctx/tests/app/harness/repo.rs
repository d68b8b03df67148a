//! A project directory with a store, and the program run in it.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

use ctx_engine::Location;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::test_store::{self, Sql, on_postgres};
use super::{PROGRAM, command, seed, wait_until};

/// A configuration whose only agent cannot be run.
pub(crate) const AGENTLESS: &str = "[defaults]\nprovider = \"absent\"\n[providers.absent]\nkind = \
    \"acp\"\ncommand = [\"there-is-no-such-agent\"]\n";

/// A project, the home directory of its user, and environment variables.
pub(crate) struct Repo {
    root: TempDir,
    dir: PathBuf,
    variables: Vec<(String, String)>,
}

impl Repo {
    /// A project with a store.
    pub(crate) fn new() -> Self {
        let repo = Self::bare();
        repo.ok(["init"]);
        if on_postgres() {
            // Without a store of its own, a project is found by its configuration.
            repo.configure("");
        }
        repo
    }

    /// A project without a store.
    pub(crate) fn bare() -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        // The real path, as system calls show it.
        let dir = root.path().canonicalize().expect("a path").join("project");
        std::fs::create_dir(&dir).expect("a directory for the project");
        Self { root, dir, variables: Vec::new() }
    }

    /// A project with a store in a directory that exists, say on another disk.
    pub(crate) fn at(dir: &Path) -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        let repo = Self { root, dir: dir.to_owned(), variables: Vec::new() };
        repo.ok(["init"]);
        repo
    }

    /// A project whose open task is called `task`.
    pub(crate) fn working_on(task: &str) -> Self {
        let repo = Self::new();
        repo.ok(["stage", "start", task]);
        repo
    }

    /// With an environment variable.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.set(name, value);
        self
    }

    /// Sets an environment variable for the verbs that follow.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.unset(name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Forgets an environment variable.
    pub(crate) fn unset(&mut self, name: &str) {
        self.variables.retain(|(known, _)| known != name);
    }

    /// The project's directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// An unused path next to the project.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// The home directory of the user.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// The store's directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.join(".ctx")
    }

    /// Writes a file of the project.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("its directory");
        std::fs::write(&path, content).expect("a file of the project");
        path
    }

    /// Writes `ctx.toml`.
    pub(crate) fn configure(&self, text: impl AsRef<[u8]>) {
        std::fs::create_dir_all(self.data()).expect("the data directory");
        std::fs::write(self.data().join("ctx.toml"), text).expect("a configuration");
    }

    /// The database in the store's directory, for looking at what is really there.
    pub(crate) fn database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.data().join("ctx.db")).expect("the database")
    }

    /// The rows of the store, in every database.
    pub(crate) fn sql(&self) -> Sql {
        Sql::open(&self.dir, &self.data())
    }

    /// Where the store is.
    pub(crate) fn location(&self) -> Location {
        test_store::location(&self.dir, &self.data())
    }

    /// The program in the project's directory.
    pub(crate) fn command<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = self.foreign(PROGRAM);
        command.args(arguments);
        command
    }

    /// Another program in the project's directory, with the same environment.
    pub(crate) fn foreign(&self, program: &str) -> Command {
        let home = self.home();
        let mut command = command(program, &self.dir, &home);
        command.env("XDG_DATA_HOME", home.join("data"));
        test_store::set_store(&mut command, &self.dir);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A copy of the project in another directory. No process may have the store open.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::bare();
        copy_dir(&self.dir, &copy.dir);
        test_store::copy_database(&self.dir, &copy.dir);
        copy
    }
}

impl Drop for Repo {
    fn drop(&mut self) {
        test_store::drop_database(&self.dir);
    }
}

fn copy_dir(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a directory to copy") {
        let entry = entry.expect("an entry of it");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("its kind").is_dir() {
            std::fs::create_dir(&target).expect("a copied directory");
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).expect("a copied file");
        }
    }
}

// ---- running verbs ----

impl Repo {
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Output {
        self.command(arguments).output().expect("the program runs")
    }

    /// Runs the program with something on its standard input.
    pub(crate) fn piped<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
        input: &[u8],
    ) -> Output {
        let mut child =
            self.command(arguments).stdin(Stdio::piped()).spawn().expect("the program runs");
        let mut stdin = child.stdin.take().expect("its input is a pipe");
        // A program that refuses early need not read to the end.
        let _ = stdin.write_all(input);
        drop(stdin);
        child.wait_with_output().expect("the program ends")
    }

    /// The one document of a verb that must succeed.
    pub(crate) fn ok<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Value {
        document(&self.json_command(arguments).output().expect("the program runs"))
    }

    /// What a verb that must succeed prints for a person.
    pub(crate) fn says<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{}", both(&output));
        assert!(
            output.stderr.is_empty(),
            "a verb that succeeds is silent on standard error: {}",
            both(&output)
        );
        String::from_utf8(output.stdout).expect("text")
    }

    /// The exit code and the one document on standard error of a verb that must fail.
    pub(crate) fn fails<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> (i32, Value) {
        failure(&self.json_command(arguments).output().expect("the program runs"))
    }

    /// As [`Repo::fails`], for a verb that must also change nothing.
    #[track_caller]
    pub(crate) fn refuses<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> (i32, Value) {
        let before = self.everything();
        let failed = self.fails(arguments);
        assert_eq!(self.everything(), before, "a refused verb changed something: {failed:?}");
        failed
    }

    /// How a verb ended that may fail or be killed.
    pub(crate) fn outcome<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Outcome {
        self.outcome_with(arguments, &[])
    }

    /// As [`Repo::outcome`], with more environment variables.
    pub(crate) fn outcome_with<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
        variables: &[(&str, &str)],
    ) -> Outcome {
        let mut command = self.json_command(arguments);
        command.envs(variables.iter().copied()).output().expect("the program runs").into()
    }

    /// The program with `--json`.
    pub(crate) fn json_command<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = self.command(["--json"]);
        command.args(arguments);
        command
    }
}

// ---- reading ----

impl Repo {
    /// The open task.
    pub(crate) fn task(&self) -> Value {
        self.ok(["stage", "status"])["task"].clone()
    }

    /// The name of the open task's state.
    pub(crate) fn state(&self) -> String {
        self.task()["state"]["name"].as_str().unwrap_or("none").to_owned()
    }

    /// The sealed work, newest first.
    pub(crate) fn commits(&self) -> Vec<Value> {
        self.ok(["log"])["commits"].as_array().expect("a list of commits").clone()
    }

    /// Today's notes, oldest first.
    pub(crate) fn notes(&self) -> Vec<String> {
        let narrative = self.ok(["narrative"]);
        let notes = narrative["notes"].as_array().expect("a list of notes");
        notes.iter().map(|note| note["text"].as_str().expect("a text").to_owned()).collect()
    }

    /// The steps of the open task, oldest first, walked from its head by `show`.
    pub(crate) fn steps(&self) -> Vec<Value> {
        let mut at = self.task()["head"].clone();
        let mut steps = Vec::new();
        while let Some(id) = at.as_str() {
            let step = self.ok(["show", id]);
            at = step["content"]["parent"].clone();
            steps.push(step);
        }
        steps.reverse();
        steps
    }

    /// Everything that a user can see: the task, its prompt, the log, the notes, the counts of
    /// verify.
    pub(crate) fn everything(&self) -> Value {
        let mut status = self.ok(["stage", "status"]);
        status["idle_seconds"] = Value::Null;
        json!([status, self.ok(["log"]), self.ok(["narrative"]), self.ok(["verify"])])
    }

    /// Asserts that every hash and pointer of the store holds.
    #[track_caller]
    pub(crate) fn assert_whole(&self) {
        let report = self.ok(["verify"]);
        assert_eq!(report["ok"], true, "{report}");
    }

    /// As [`Repo::assert_whole`], where a failure must name its place.
    pub(crate) fn verify(&self, here: &str) {
        let done = self.outcome(["verify"]);
        assert!(
            done.ok() && done.json()["ok"] == true,
            "{here}: the store does not verify: {done:?}"
        );
    }

    /// Waits until the open task is this stale. With a limit of 1 ms that is at once.
    pub(crate) fn wait_until(&self, stale: &str) {
        wait_until(&format!("the task becomes {stale}"), || {
            self.ok(["stage", "status"])["stale"] == stale
        });
    }
}

/// The exit status and the output of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    pub(crate) fn ok(&self) -> bool {
        self.status.code() == Some(0)
    }

    /// Whether SIGKILL ended it.
    pub(crate) fn killed(&self) -> bool {
        self.status.signal() == Some(9)
    }

    /// The document on standard output.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("{}not JSON ({e}): {self:?}", seed::prefix()))
    }

    /// The code of the error on standard error, which must be one JSON document. A panic is not.
    pub(crate) fn code(&self) -> String {
        let seed = seed::prefix();
        let error: Value = serde_json::from_str(self.stderr.trim())
            .unwrap_or_else(|e| panic!("{seed}the error is not JSON ({e}): {self:?}"));
        assert_eq!(self.status.code(), Some(1), "{seed}{self:?}");
        assert!(error["message"].is_string(), "{seed}an error without a message: {self:?}");
        error["code"]
            .as_str()
            .unwrap_or_else(|| panic!("{seed}an error without a code: {self:?}"))
            .to_owned()
    }
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { status: output.status, stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

/// The document on standard output of a program that succeeded.
#[track_caller]
pub(crate) fn document(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", both(output));
    assert!(
        output.stderr.is_empty(),
        "a verb that succeeds is silent on standard error: {}",
        both(output)
    );
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("not one document: {e}: {}", both(output)))
}

/// The exit code and the document on standard error of a program that failed as every verb must.
#[track_caller]
pub(crate) fn failure(output: &Output) -> (i32, Value) {
    let exit = output.status.code().expect("it was not killed by a signal");
    assert!(exit == 1 || exit == 2, "exit {exit}: {}", both(output));
    assert!(output.stdout.is_empty(), "a verb that fails prints no document: {}", both(output));
    let error: Value = serde_json::from_slice(&output.stderr)
        .unwrap_or_else(|e| panic!("not one document: {e}: {}", both(output)));
    for field in ["code", "message"] {
        assert!(
            error[field].as_str().is_some_and(|text| !text.trim().is_empty()),
            "no {field}: {error}"
        );
    }
    assert!(
        error.get("hint").is_some_and(|hint| hint.is_null() || hint.is_string()),
        "no hint: {error}"
    );
    (exit, error)
}

fn both(output: &Output) -> String {
    format!(
        "{}stdout: {}\nstderr: {}",
        seed::prefix(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

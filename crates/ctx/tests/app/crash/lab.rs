//! A project directory with a store in it, and ctx run there as a user would run it.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::seed::{Draw, seed};

/// Variables of whoever runs the tests that must not reach ctx.
const FOREIGN: [&str; 6] = [
    "CTX_DATA",
    "CTX_CONFIG",
    "CTX_SESSION",
    "CTX_CLOCKS_TASK_ASK",
    "CTX_CLOCKS_TASK_SEAL",
    "CTX_DEFAULTS_ON_NEW_TASK",
];

/// What a run of ctx came to.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    pub(crate) fn ok(&self) -> bool {
        self.status.code() == Some(0)
    }

    pub(crate) fn killed(&self) -> bool {
        self.status.signal() == Some(9)
    }

    /// The document on standard output.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("seed {}: no JSON ({e}): {self:?}", seed()))
    }

    /// The code of the JSON error; anything else on standard error is a failure, a panic above all.
    pub(crate) fn code(&self) -> String {
        let error: Value = serde_json::from_str(self.stderr.trim())
            .unwrap_or_else(|e| panic!("seed {}: the error is no JSON ({e}): {self:?}", seed()));
        assert_eq!(self.status.code(), Some(1), "seed {}: {self:?}", seed());
        assert!(
            error["message"].is_string(),
            "seed {}: an error without a message: {self:?}",
            seed()
        );
        error["code"]
            .as_str()
            .unwrap_or_else(|| panic!("seed {}: an error without a code: {self:?}", seed()))
            .to_owned()
    }
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { status: output.status, stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

/// A project directory that goes away with its last user.
pub(crate) struct Lab {
    pub(crate) dir: PathBuf,
    _temp: TempDir,
}

impl Lab {
    /// A directory without a store.
    pub(crate) fn bare() -> Self {
        let temp = TempDir::new().expect("a temporary directory");
        let dir = temp.path().canonicalize().expect("its real name").join("work");
        fs::create_dir(&dir).expect("the project's directory");
        Self { dir, _temp: temp }
    }

    /// A directory with a fresh store, a file of 10 KB and one of a few bytes.
    pub(crate) fn new() -> Self {
        let lab = Self::bare();
        lab.must(&["init", "--project", "crash"]);
        lab.file("ten.bin", &Draw::new(10).bytes(10_240));
        lab.file("small.txt", b"a few bytes\n");
        lab
    }

    /// The same once more, somewhere else. Nobody may have the store open.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::bare();
        copy_dir(&self.dir, &copy.dir);
        copy
    }

    pub(crate) fn file(&self, name: &str, bytes: &[u8]) {
        fs::write(self.dir.join(name), bytes).expect("a file of the project");
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.dir.join(".ctx")
    }

    /// A command that runs here, undisturbed by the tester's own settings.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for name in FOREIGN {
            command.env_remove(name);
        }
        command
            .current_dir(&self.dir)
            .env("HOME", &self.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// ctx with JSON.
    pub(crate) fn ctx_command(&self, verb: &[&str]) -> Command {
        let mut command = self.command(ctx());
        command.arg("--json").args(verb);
        command
    }

    pub(crate) fn ctx(&self, verb: &[&str]) -> Done {
        self.ctx_with(verb, &[])
    }

    pub(crate) fn ctx_with(&self, verb: &[&str], env: &[(&str, &str)]) -> Done {
        self.ctx_command(verb).envs(env.iter().copied()).output().expect("ctx runs").into()
    }

    /// A verb that has to work.
    pub(crate) fn must(&self, verb: &[&str]) -> Value {
        let done = self.ctx(verb);
        assert!(done.ok(), "seed {}: `ctx {}` failed: {done:?}", seed(), verb.join(" "));
        done.json()
    }

    /// Nothing is damaged.
    pub(crate) fn verify(&self, here: &str) {
        let done = self.ctx(&["verify"]);
        assert!(
            done.ok() && done.json()["ok"] == true,
            "{here}: the store does not verify: {done:?}"
        );
    }
}

/// The program under test.
pub(crate) fn ctx() -> &'static str {
    env!("CARGO_BIN_EXE_ctx")
}

fn copy_dir(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a directory to copy") {
        let entry = entry.expect("an entry of it");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("its kind").is_dir() {
            fs::create_dir(&target).expect("a copied directory");
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).expect("a copied file");
        }
    }
}

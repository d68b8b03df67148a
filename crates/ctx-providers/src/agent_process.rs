//! Starts and ends the process of an agent.
//!
//! Each agent runs in its own process group, which is ended as a whole. Its standard error is
//! written to a log file of the session.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ctx_engine::provider::{Failure, FailureClass, Request};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::BufReader;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::Instant;

use crate::json_lines::read_line;
use crate::process_guard::SIGNAL_EXIT_BASE;
use crate::process_tree::{descendants, signal_all};

/// How long an agent may run after its input was closed, and again after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Size at which a log file is rotated; one older file is kept.
const LOG_MAX_BYTES: u64 = 1024 * 1024;
/// Number of log lines that an error message quotes.
const TAIL_LINES: usize = 8;
/// Longer lines are logged as empty lines.
const LOG_LINE_MAX_BYTES: usize = 64 * 1024;

/// How an agent is started.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Environment variables in addition to those that the agent inherits from ctx.
    pub env: BTreeMap<String, String>,
    /// The `ctx` program whose `guard` command ends the agent when this process dies. Without one,
    /// agents survive a SIGKILL of this process.
    pub guard_program: Option<PathBuf>,
    /// Directory of the log files, one per session.
    pub log_dir: Option<PathBuf>,
    /// Parent of the working directories of sessions that have none of their own.
    pub scratch_dir: PathBuf,
    /// Directory of the protocol logs, which contain every line sent and received.
    pub wire_log_dir: Option<PathBuf>,
}

/// A running agent.
pub(crate) struct Process {
    child: Child,
    /// Process id of the group leader.
    group: Option<Pid>,
    guarded: bool,
    tail: Tail,
}

type Tail = Arc<Mutex<VecDeque<String>>>;

/// A running agent and its standard streams.
pub(crate) struct Started {
    pub(crate) process: Process,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
}

impl Program {
    /// Why the program cannot be started, as far as a lookup on PATH shows.
    pub(crate) fn missing(&self) -> Option<String> {
        match self.command.first() {
            None => Some("`command` is empty".to_owned()),
            Some(program) => {
                find_program(program, self.env.get("PATH")).err().map(|error| error.to_string())
            }
        }
    }

    /// Removes the log files and the scratch directory of a deleted session.
    pub(crate) fn forget(&self, session: &str) {
        for log in self.log_dir.iter().flat_map(|log_dir| {
            ["log", "log.1"].map(|end| log_dir.join(format!("{session}.{end}")))
        }) {
            let _ = std::fs::remove_file(log);
        }
        let _ = std::fs::remove_dir_all(self.scratch_dir.join(session));
    }

    /// Starts the agent for a session.
    ///
    /// # Errors
    /// `agent_missing` if the program is not found or cannot be executed.
    pub(crate) fn start(
        &self,
        session: &str,
        working_dir: &Path,
        env: &[(&str, String)],
    ) -> Result<Started, Failure> {
        self.spawn(session, working_dir, env).map_err(|error| {
            let name = self.command.first().map_or("", String::as_str);
            let message = format!(
                "cannot start the agent `{name}`: {error}. Install it, or change `command` in \
                 ctx.toml"
            );
            Failure::new("agent_missing", FailureClass::Permanent, message)
        })
    }

    fn spawn(
        &self,
        session: &str,
        working_dir: &Path,
        env: &[(&str, String)],
    ) -> std::io::Result<Started> {
        let Some((program, arguments)) = self.command.split_first() else {
            return Err(std::io::Error::other("`command` is empty"));
        };
        find_program(program, self.env.get("PATH"))?;
        let mut command = guarded_command(self.guard_program.as_deref(), program);
        command.args(arguments).envs(&self.env).envs(env.iter().map(|(name, value)| (name, value)));
        command.current_dir(working_dir).process_group(0).kill_on_drop(true);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let missing = || std::io::Error::other("standard streams are missing");
        let (stdin, stdout) =
            (child.stdin.take().ok_or_else(missing)?, child.stdout.take().ok_or_else(missing)?);
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let tail = Tail::default();
        if let Some(stderr) = child.stderr.take() {
            let log = self.log_dir.as_ref().map(|log_dir| log_dir.join(format!("{session}.log")));
            tokio::spawn(copy_log(stderr, log, tail.clone()));
        }
        Ok(Started {
            process: Process { child, group, guarded: self.guard_program.is_some(), tail },
            stdin,
            stdout,
        })
    }
}

/// Variables that the agent and its children see: its session, and the run that started it. Hooks
/// that see `CTX_RUN` record nothing, since the run is observed already.
pub(crate) fn child_env(request: &Request) -> [(&'static str, String); 2] {
    [("CTX_SESSION", request.session.to_string()), ("CTX_RUN", request.run.to_string())]
}

/// The session's working directory, or a new scratch directory if the session has none.
///
/// # Errors
/// `working_dir_missing` if the directory does not exist or cannot be created.
pub(crate) fn working_dir(program: &Program, request: &Request) -> Result<PathBuf, Failure> {
    let missing = |dir: &Path, why: &str| {
        let message = format!("the working directory {} {why}", dir.display());
        Failure::new("working_dir_missing", FailureClass::Permanent, message)
    };
    match &request.working_dir {
        Some(dir) => {
            let dir = PathBuf::from(dir);
            if dir.is_dir() { Ok(dir) } else { Err(missing(&dir, "does not exist")) }
        }
        None => {
            let dir = program.scratch_dir.join(request.session.to_string());
            std::fs::create_dir_all(&dir)
                .map_err(|error| missing(&dir, &format!("cannot be created: {error}")))?;
            Ok(dir)
        }
    }
}

/// A command that the guard program, if any, ends when this process dies.
pub(crate) fn guarded_command(guard_program: Option<&Path>, program: &str) -> Command {
    let Some(guard) = guard_program else { return Command::new(program) };
    let mut command = Command::new(guard);
    command.arg("guard").arg(std::process::id().to_string()).arg("--").arg(program);
    command
}

/// Looks a program up on PATH, as a shell does. The guard could not report this error.
pub(crate) fn find_program(program: &str, path: Option<&String>) -> std::io::Result<()> {
    let not_found =
        || std::io::Error::new(std::io::ErrorKind::NotFound, format!("`{program}` is not on PATH"));
    if program.contains('/') {
        return if Path::new(program).is_file() { Ok(()) } else { Err(not_found()) };
    }
    let path = path.map(OsString::from).or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    std::env::split_paths(&path)
        .any(|dir| dir.join(program).is_file())
        .then_some(())
        .ok_or_else(not_found)
}

impl Process {
    /// Whether the process has exited. Its streams show that only after everything was read.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Describes why the process ended, with the last lines of its log.
    pub(crate) async fn exit_failure(&mut self) -> Failure {
        let how = match tokio::time::timeout(EXIT_TIMEOUT, self.child.wait()).await {
            Ok(Ok(status)) => match status.code().map(|code| code - SIGNAL_EXIT_BASE) {
                // The guard exits with 128 plus the signal that ended the agent.
                Some(signal) if self.guarded && signal > 0 => format!("ended (signal: {signal})"),
                _ => format!("ended ({status})"),
            },
            _ => "closed its output".to_owned(),
        };
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let output = tail.iter().cloned().collect::<Vec<_>>().join("\n");
        let output =
            if output.is_empty() { output } else { format!(". Its last output:\n{output}") };
        Failure::new(
            "agent_exited",
            FailureClass::Permanent,
            format!("the agent's process {how}{output}"),
        )
    }

    /// Ends the whole group, with SIGTERM first. The caller must have dropped the streams.
    pub(crate) async fn end(mut self) {
        if tokio::time::timeout(EXIT_TIMEOUT, self.child.wait()).await.is_err() {
            if let Some(leader) = self.group {
                // The guard itself gets no signal: it exits after the last descendant.
                let own = Some(leader).filter(|_| !self.guarded);
                signal_all(
                    &descendants(leader).into_iter().chain(own).collect::<Vec<_>>(),
                    Signal::TERM,
                );
            }
            let _ = tokio::time::timeout(EXIT_TIMEOUT, self.child.wait()).await;
        }
        // Dropping kills the remaining descendants.
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(leader) = self.group {
            signal_all(&descendants(leader), Signal::KILL);
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// Waits until an instant. Without one, never completes.
pub(crate) async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Copies standard error to the log file and keeps its last lines.
async fn copy_log(stderr: ChildStderr, log: Option<PathBuf>, tail: Tail) {
    if let Some(dir) = log.as_ref().and_then(|log| log.parent()) {
        let _ = std::fs::create_dir_all(dir);
    }
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        let Ok(more) = read_line(&mut reader, &mut line, LOG_LINE_MAX_BYTES).await else { return };
        if !more && line.is_empty() {
            return;
        }
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if let Some(log) = &log {
            let _ = append(log, &text);
        }
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.push_back(text);
        while tail.len() > TAIL_LINES {
            tail.pop_front();
        }
    }
}

fn append(log: &Path, line: &str) -> std::io::Result<()> {
    if std::fs::metadata(log).is_ok_and(|meta| meta.len() >= LOG_MAX_BYTES) {
        std::fs::rename(log, log.with_extension("log.1"))?;
    }
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
    writeln!(file, "{line}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_harness::eventually;
    use tokio::io::AsyncBufReadExt;

    fn program(script: &str) -> Program {
        Program { command: ["sh", "-c", script].map(str::to_owned).to_vec(), ..Program::default() }
    }

    fn is_alive(pid: &str) -> bool {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ")
    }

    #[tokio::test]
    async fn ending_an_agent_ends_its_children() {
        // R203: a wrapper script whose child would survive.
        let dir = tempfile::tempdir().expect("a directory");
        let started = program("sleep 1000 & echo $!; trap '' TERM; wait")
            .start("s", dir.path(), &[])
            .expect("started");
        let mut line = String::new();
        BufReader::new(started.stdout).read_line(&mut line).await.expect("a line");
        let child = line.trim().to_owned();
        assert!(is_alive(&child));
        drop(started.stdin);
        started.process.end().await;
        eventually("the child ends", || !is_alive(&child)).await;
    }

    #[tokio::test]
    async fn standard_error_is_written_to_the_session_log() {
        let dir = tempfile::tempdir().expect("a directory");
        let program = Program {
            log_dir: Some(dir.path().join("logs")),
            ..program("echo one >&2; echo two >&2")
        };
        let mut started = program.start("s1", dir.path(), &[]).expect("started");
        assert!(started.process.exit_failure().await.message.contains("exit status: 0"));
        let log = dir.path().join("logs/s1.log");
        eventually("the log is written", || {
            std::fs::read_to_string(&log).is_ok_and(|text| text == "one\ntwo\n")
        })
        .await;
    }

    #[tokio::test]
    async fn missing_program_is_reported_as_missing() {
        let missing = Program {
            command: vec!["no-such-agent-1".to_owned()],
            guard_program: Some("/bin/true".into()),
            ..Program::default()
        };
        let error = missing.start("s", Path::new("/"), &[]).err().expect("an error");
        assert_eq!(error.code, "agent_missing");
        assert!(error.message.contains("not on PATH"), "{}", error.message);
    }
}

//! An agent's process: in a group of its own that is ended whole, with what it prints kept as a log.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ctx_engine::provider::{Class, Failure, Request};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::BufReader;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::Instant;

use crate::process_tree::{descendants, signal_all};
use crate::process_guard::BY_SIGNAL;
use crate::json_lines::read_line;

/// How long an agent may take to go by itself once nobody speaks to it, and again once it was told to.
const GOING: Duration = Duration::from_secs(2);
/// A log that has grown to this size begins anew; the one before it is kept.
const LOG_MAX_BYTES: u64 = 1024 * 1024;
/// How many of the last lines an error quotes.
const TAIL_LINES: usize = 8;
/// The longest line that is kept of what an agent prints.
const LOG_LINE_MAX_BYTES: usize = 64 * 1024;

/// How an agent is started.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What is set in its environment besides what ctx itself has.
    pub env: BTreeMap<String, String>,
    /// A `ctx` that ends the agent when this process dies, however it dies; without one a kill leaves agents behind.
    pub guard: Option<PathBuf>,
    /// Where logs of sessions are kept.
    pub logs: Option<PathBuf>,
    /// Where sessions without a working directory work, each in one of its own.
    pub scratch: PathBuf,
    /// Where every line of every agent is kept, for whoever debugs one.
    pub wire_logs: Option<PathBuf>,
}

/// A running agent.
pub(crate) struct Process {
    child: Child,
    /// The leader of its group.
    group: Option<Pid>,
    guarded: bool,
    tail: Tail,
}

type Tail = Arc<Mutex<VecDeque<String>>>;

/// A running agent and the streams to speak with it.
pub(crate) struct Started {
    pub(crate) process: Process,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
}

impl Program {
    /// Why it cannot be started, as far as that can be seen without trying.
    pub(crate) fn missing(&self) -> Option<String> {
        match self.command.first() {
            None => Some("its `command` is empty".to_owned()),
            Some(program) => {
                found(program, self.env.get("PATH")).err().map(|error| error.to_string())
            }
        }
    }

    /// Removes what was kept for a session that is deleted: its log and the directory that it had none else.
    pub(crate) fn forget(&self, session: &str) {
        for log in self
            .logs
            .iter()
            .flat_map(|logs| ["log", "log.1"].map(|end| logs.join(format!("{session}.{end}"))))
        {
            let _ = std::fs::remove_file(log);
        }
        let _ = std::fs::remove_dir_all(self.scratch.join(session));
    }

    /// Starts it for a session.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(
        &self,
        session: &str,
        working_dir: &Path,
        env: &[(&str, String)],
    ) -> Result<Started, Failure> {
        self.spawn(session, working_dir, env).map_err(|error| {
            let name = self.command.first().map_or("", String::as_str);
            let message = format!("the agent `{name}` could not be started: {error}. Install it, or change `command` in ctx.toml");
            Failure::new("agent_missing", Class::GiveUp, message)
        })
    }

    fn spawn(
        &self,
        session: &str,
        working_dir: &Path,
        env: &[(&str, String)],
    ) -> std::io::Result<Started> {
        let Some((program, arguments)) = self.command.split_first() else {
            return Err(std::io::Error::other("its `command` is empty"));
        };
        found(program, self.env.get("PATH"))?;
        let mut command = guarded(self.guard.as_deref(), program);
        command.args(arguments).envs(&self.env).envs(env.iter().map(|(name, value)| (name, value)));
        command.current_dir(working_dir).process_group(0).kill_on_drop(true);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let missing = || std::io::Error::other("its streams are missing");
        let (stdin, stdout) =
            (child.stdin.take().ok_or_else(missing)?, child.stdout.take().ok_or_else(missing)?);
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let tail = Tail::default();
        if let Some(stderr) = child.stderr.take() {
            let log = self.logs.as_ref().map(|logs| logs.join(format!("{session}.log")));
            tokio::spawn(keep(stderr, log, tail.clone()));
        }
        Ok(Started {
            process: Process { child, group, guarded: self.guard.is_some(), tail },
            stdin,
            stdout,
        })
    }
}

/// Where an agent works: in the session's directory, or in one of its own where the session has none.
///
/// # Errors
/// If it is not there.
pub(crate) fn working_dir(program: &Program, request: &Request) -> Result<PathBuf, Failure> {
    let missing = |dir: &Path, why: &str| {
        let message = format!("the working directory {} {why}", dir.display());
        Failure::new("working_dir_missing", Class::GiveUp, message)
    };
    match &request.working_dir {
        Some(dir) => {
            let dir = PathBuf::from(dir);
            if dir.is_dir() { Ok(dir) } else { Err(missing(&dir, "is not there any more")) }
        }
        None => {
            let dir = program.scratch.join(request.session.to_string());
            std::fs::create_dir_all(&dir)
                .map_err(|error| missing(&dir, &format!("cannot be made: {error}")))?;
            Ok(dir)
        }
    }
}

/// A command that is ended when this process dies, where there is a guard.
pub(crate) fn guarded(guard: Option<&Path>, program: &str) -> Command {
    let Some(guard) = guard else { return Command::new(program) };
    let mut command = Command::new(guard);
    command.arg("guard").arg(std::process::id().to_string()).arg("--").arg(program);
    command
}

/// Whether a program can be found, as a shell would. A guard that cannot find it would hide why.
pub(crate) fn found(program: &str, path: Option<&String>) -> std::io::Result<()> {
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
    /// Whether it is no more. Its streams do not tell as long as nobody listens to them.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The failure that it is gone.
    pub(crate) async fn gone(&mut self) -> Failure {
        let how = match tokio::time::timeout(GOING, self.child.wait()).await {
            Ok(Ok(status)) => match status.code().map(|code| code - BY_SIGNAL) {
                // The guard's way to tell how the agent itself ended.
                Some(signal) if self.guarded && signal > 0 => format!("ended (signal: {signal})"),
                _ => format!("ended ({status})"),
            },
            _ => "closed its output".to_owned(),
        };
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let words = tail.iter().cloned().collect::<Vec<_>>().join("\n");
        let words = if words.is_empty() { words } else { format!(". It printed:\n{words}") };
        Failure::new("agent_exited", Class::GiveUp, format!("the agent's process {how}{words}"))
    }

    /// Ends the whole group: gently first. Its streams must have been dropped.
    pub(crate) async fn end(mut self) {
        if tokio::time::timeout(GOING, self.child.wait()).await.is_err() {
            if let Some(leader) = self.group {
                // A guard stays until the last one has gone.
                let own = Some(leader).filter(|_| !self.guarded);
                signal_all(
                    &descendants(leader).into_iter().chain(own).collect::<Vec<_>>(),
                    Signal::TERM,
                );
            }
            let _ = tokio::time::timeout(GOING, self.child.wait()).await;
        }
        // What it started goes with it: dropping sees to that.
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

/// Waits for a moment, where there is one.
pub(crate) async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Keeps what an agent prints beside what it says.
async fn keep(stderr: ChildStderr, log: Option<PathBuf>, tail: Tail) {
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
    use tokio::io::AsyncBufReadExt;

    fn program(script: &str) -> Program {
        Program { command: ["sh", "-c", script].map(str::to_owned).to_vec(), ..Program::default() }
    }

    fn is_alive(pid: &str) -> bool {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ")
    }

    #[tokio::test]
    async fn what_an_agent_started_goes_with_it() {
        // R203: a wrapper whose real process would survive.
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
        while is_alive(&child) {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn what_it_prints_is_kept_as_a_log_of_the_session() {
        let dir = tempfile::tempdir().expect("a directory");
        let program = Program {
            logs: Some(dir.path().join("logs")),
            ..program("echo one >&2; echo two >&2")
        };
        let mut started = program.start("s1", dir.path(), &[]).expect("started");
        assert!(started.process.gone().await.message.contains("exit status: 0"));
        let log = dir.path().join("logs/s1.log");
        while std::fs::read_to_string(&log).unwrap_or_default() != "one\ntwo\n" {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_told_as_such() {
        let missing = Program {
            command: vec!["no-such-agent-1".to_owned()],
            guard: Some("/bin/true".into()),
            ..Program::default()
        };
        let error = missing.start("s", Path::new("/"), &[]).err().expect("an error");
        assert_eq!(error.code, "agent_missing");
        assert!(error.message.contains("not on PATH"), "{}", error.message);
    }
}

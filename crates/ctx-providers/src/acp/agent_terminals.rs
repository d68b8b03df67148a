//! Commands that an agent asks ctx to run for it, in the session's working directory.

use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use ctx_core::content::Content;
use ctx_core::step;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;

use crate::process_tree::{descendants, signal_all};
use crate::agent_process::{found, guarded};

/// How much output of a command is kept where the agent says nothing.
const OUTPUT_MAX_BYTES: usize = 1024 * 1024;
/// How many commands an agent may have at once.
const TERMINALS_MAX: usize = 64;

/// How the names of terminals begin, so that they are told from those that agents have by themselves.
pub(super) const NAME: &str = "ctx-terminal-";

/// The commands of one agent process; they end with it.
#[derive(Default)]
pub(super) struct Terminals {
    /// What ends them when this process dies.
    guard: Option<PathBuf>,
    open: HashMap<String, Terminal>,
    next: u64,
}

struct Terminal {
    argv: Vec<String>,
    group: Option<Pid>,
    output: Arc<Mutex<Output>>,
    exit: watch::Receiver<Option<ExitStatus>>,
    observed: bool,
}

#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
    limit: usize,
    truncated: bool,
}

impl Terminals {
    /// None yet.
    pub(super) fn guarded(guard: Option<PathBuf>) -> Self {
        Self { guard, ..Self::default() }
    }

    /// `terminal/create`: runs a command.
    ///
    /// # Errors
    /// If it cannot be run here, and why.
    pub(super) fn create(&mut self, params: &Value, working_dir: &Path) -> Result<Value, String> {
        let program =
            params.get("command").and_then(Value::as_str).ok_or("`command` is missing")?;
        if self.open.len() >= TERMINALS_MAX {
            return Err(format!("there are {TERMINALS_MAX} terminals already; release some"));
        }
        let arguments = params.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
        let arguments: Vec<String> =
            arguments.iter().filter_map(|part| part.as_str().map(str::to_owned)).collect();
        let dir = params
            .get("cwd")
            .and_then(Value::as_str)
            .map_or_else(|| working_dir.to_owned(), |cwd| working_dir.join(cwd));
        let inside = dir
            .canonicalize()
            .ok()
            .zip(working_dir.canonicalize().ok())
            .is_some_and(|(dir, root)| dir.starts_with(root));
        if !inside {
            return Err(format!("{} is outside the session's working directory", dir.display()));
        }
        // A line instead of a program is for the shell.
        let (run, given) = if arguments.is_empty() && program.contains(char::is_whitespace) {
            ("sh", vec!["-c".to_owned(), program.to_owned()])
        } else {
            (program, arguments.clone())
        };
        let refused = |error| format!("`{program}` could not be started: {error}");
        found(run, None).map_err(refused)?;
        let mut command = guarded(self.guard.as_deref(), run);
        command.args(given);
        for variable in params.get("env").and_then(Value::as_array).into_iter().flatten() {
            if let (Some(name), Some(value)) =
                (variable["name"].as_str(), variable["value"].as_str())
            {
                command.env(name, value);
            }
        }
        command.current_dir(dir).process_group(0).kill_on_drop(true);
        let started =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = started.map_err(refused)?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let limit = params
            .get("outputByteLimit")
            .and_then(Value::as_u64)
            .and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.unwrap_or(OUTPUT_MAX_BYTES).min(OUTPUT_MAX_BYTES);
        let output = Arc::new(Mutex::new(Output { limit, ..Output::default() }));
        let readers = [
            child.stdout.take().map(|stream| tokio::spawn(collect(stream, output.clone()))),
            child.stderr.take().map(|stream| tokio::spawn(collect(stream, output.clone()))),
        ];
        let (ended, exit) = watch::channel(None);
        tokio::spawn(async move {
            let status = child.wait().await.ok();
            for reader in readers.into_iter().flatten() {
                let _ = reader.await;
            }
            let _ = ended.send(Some(status.unwrap_or_else(|| ExitStatus::from_raw(1 << 8))));
        });
        self.next += 1;
        let id = format!("{NAME}{}", self.next);
        let argv = std::iter::once(program.to_owned()).chain(arguments).collect();
        self.open.insert(id.clone(), Terminal { argv, group, output, exit, observed: false });
        Ok(json!({"terminalId": id}))
    }

    fn find(&mut self, params: &Value) -> Result<&mut Terminal, String> {
        let id = params.get("terminalId").and_then(Value::as_str).unwrap_or_default();
        self.open.get_mut(id).ok_or_else(|| format!("there is no terminal `{id}`"))
    }

    /// `terminal/output`: what it has printed, and how it ended if it has.
    ///
    /// # Errors
    /// If there is no such terminal.
    pub(super) fn output(&mut self, params: &Value) -> Result<Value, String> {
        let terminal = self.find(params)?;
        let status = *terminal.exit.borrow();
        let output = terminal.output.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&output.bytes).into_owned();
        Ok(
            json!({"output": text, "truncated": output.truncated, "exitStatus": status.map(exit_status)}),
        )
    }

    /// `terminal/wait_for_exit`: a future, so that nothing else has to wait.
    ///
    /// # Errors
    /// If there is no such terminal.
    pub(super) fn wait(
        &mut self,
        params: &Value,
    ) -> Result<impl Future<Output = Value> + Send + use<>, String> {
        let mut exit = self.find(params)?.exit.clone();
        Ok(async move {
            let status = exit.wait_for(Option::is_some).await.ok().and_then(|status| *status);
            status.map_or_else(|| json!({"exitCode": null, "signal": null}), exit_status)
        })
    }

    /// `terminal/kill`: ends the command, keeps its output.
    ///
    /// # Errors
    /// If there is no such terminal.
    pub(super) fn kill(&mut self, params: &Value) -> Result<Value, String> {
        self.find(params)?.end();
        Ok(json!({}))
    }

    /// `terminal/release`: ends the command and forgets it.
    ///
    /// # Errors
    /// If there is no such terminal.
    pub(super) fn release(&mut self, params: &Value) -> Result<Value, String> {
        self.find(params)?.end();
        let id = params.get("terminalId").and_then(Value::as_str).unwrap_or_default();
        self.open.remove(id);
        Ok(json!({}))
    }

    /// Commands that have ended since this was last asked, for the task.
    pub(super) fn observed(&mut self) -> Vec<step::Entry> {
        let ended = self
            .open
            .values_mut()
            .filter(|terminal| !terminal.observed && terminal.exit.borrow().is_some());
        let entry = |terminal: &mut Terminal| {
            terminal.observed = true;
            let output = terminal.output.lock().unwrap_or_else(PoisonError::into_inner);
            let text = String::from_utf8_lossy(&output.bytes).into_owned();
            let exit = terminal.exit.borrow().and_then(|status| status.code());
            step::Entry::Command {
                argv: terminal.argv.clone(),
                exit,
                output: Some(Content::Text(text)),
            }
        };
        ended.map(entry).collect()
    }
}

impl Terminal {
    fn end(&self) {
        if let Some(group) = self.group.filter(|_| self.exit.borrow().is_none()) {
            // Some may have left the group.
            let all = descendants(group);
            let _ = kill_process_group(group, Signal::KILL);
            signal_all(&all, Signal::KILL);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.end();
    }
}

fn exit_status(status: ExitStatus) -> Value {
    json!({"exitCode": status.code(), "signal": status.signal().map(|signal| signal.to_string())})
}

/// Keeps the newest output within the bound, as agents expect of a terminal.
async fn collect(mut stream: impl AsyncRead + Unpin, output: Arc<Mutex<Output>>) {
    let mut chunk = vec![0; 8192];
    while let Ok(read) = stream.read(&mut chunk).await {
        if read == 0 {
            return;
        }
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        output.bytes.extend_from_slice(&chunk[..read]);
        let over = output.bytes.len().saturating_sub(output.limit);
        if over > 0 {
            output.truncated = true;
            output.bytes.drain(..over);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_command_runs_is_waited_for_and_observed_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut terminals = Terminals::default();
        let made = terminals
            .create(&json!({"command": "sh", "args": ["-c", "echo hi; exit 3"]}), dir.path())
            .expect("made");
        let wait = terminals.wait(&made).expect("there");
        assert_eq!(wait.await["exitCode"], 3);
        assert_eq!(terminals.output(&made).expect("there")["output"], "hi\n");
        let observed = terminals.observed();
        assert!(
            matches!(observed.as_slice(), [step::Entry::Command { exit: Some(3), .. }]),
            "{observed:?}"
        );
        assert!(terminals.observed().is_empty());
        terminals.release(&made).expect("released");
        assert!(terminals.output(&made).is_err());
    }

    #[tokio::test]
    async fn a_command_can_be_killed_and_keeps_what_it_printed() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut terminals = Terminals::default();
        let made = terminals
            .create(&json!({"command": "echo begun; sleep 1000"}), dir.path())
            .expect("made");
        while terminals.output(&made).expect("there")["output"] != "begun\n" {
            tokio::task::yield_now().await;
        }
        terminals.kill(&made).expect("killed");
        assert_eq!(terminals.wait(&made).expect("there").await["signal"], "9");
    }

    #[tokio::test]
    async fn only_the_newest_output_is_kept_and_only_the_working_directory_is_used() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut terminals = Terminals::default();
        let params = json!({"command": "printf", "args": ["0123456789"], "outputByteLimit": 4});
        let made = terminals.create(&params, dir.path()).expect("made");
        terminals.wait(&made).expect("there").await;
        let output = terminals.output(&made).expect("there");
        assert_eq!((&output["output"], &output["truncated"]), (&json!("6789"), &json!(true)));
        assert!(terminals.create(&json!({"command": "ls", "cwd": "/"}), dir.path()).is_err());
    }
}

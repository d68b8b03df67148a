//! Commands that an agent asks ctx to run, in the session's working directory.

use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use ctx_core::step;
use ctx_core::stored_content::Content;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;

use crate::agent_process::{find_program, guarded_command};
use crate::process_tree::{descendants, signal_all};

/// Maximum output of a command that is kept, and the default of `outputByteLimit`.
const OUTPUT_MAX_BYTES: usize = 1024 * 1024;
/// Maximum number of terminals of one agent process.
const TERMINALS_MAX: usize = 64;

/// Prefix of terminal ids. It distinguishes them from the ids of terminals that agents run
/// themselves.
pub(super) const ID_PREFIX: &str = "ctx-terminal-";

/// The terminals of one agent process. Dropping them ends their commands.
#[derive(Default)]
pub(super) struct Terminals {
    /// Ends the commands when this process dies.
    guard_program: Option<PathBuf>,
    open: HashMap<String, Terminal>,
    next: u64,
}

struct Terminal {
    argv: Vec<String>,
    group: Option<Pid>,
    output: Arc<Mutex<Output>>,
    exit: watch::Receiver<Option<ExitStatus>>,
    is_reported: bool,
}

#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
    limit: usize,
    truncated: bool,
}

impl Terminals {
    pub(super) fn new(guard_program: Option<PathBuf>) -> Self {
        Self { guard_program, ..Self::default() }
    }

    /// `terminal/create`: starts a command.
    ///
    /// # Errors
    /// A message for the agent.
    pub(super) fn create(&mut self, params: &Value, working_dir: &Path) -> Result<Value, String> {
        let program =
            params.get("command").and_then(Value::as_str).ok_or("`command` is missing")?;
        if self.open.len() >= TERMINALS_MAX {
            return Err(format!("limit of {TERMINALS_MAX} terminals reached: release one first"));
        }
        let arguments = params.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
        let arguments: Vec<String> =
            arguments.iter().filter_map(|part| part.as_str().map(str::to_owned)).collect();
        let dir = directory(params, working_dir)?;
        // A command line in place of a program name is run by the shell.
        let (run, run_arguments) = if arguments.is_empty() && program.contains(char::is_whitespace)
        {
            ("sh", vec!["-c".to_owned(), program.to_owned()])
        } else {
            (program, arguments.clone())
        };
        let start_error = |error| format!("cannot start `{program}`: {error}");
        find_program(run, None).map_err(start_error)?;
        let mut command = guarded_command(self.guard_program.as_deref(), run);
        command.args(run_arguments);
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
        let mut child = started.map_err(start_error)?;
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
        let id = format!("{ID_PREFIX}{}", self.next);
        let argv = std::iter::once(program.to_owned()).chain(arguments).collect();
        self.open.insert(id.clone(), Terminal { argv, group, output, exit, is_reported: false });
        Ok(json!({"terminalId": id}))
    }

    fn find(&mut self, params: &Value) -> Result<&mut Terminal, String> {
        let id = params.get("terminalId").and_then(Value::as_str).unwrap_or_default();
        self.open.get_mut(id).ok_or_else(|| format!("unknown terminal `{id}`"))
    }

    /// `terminal/output`: the output so far, and the exit status if the command has ended.
    ///
    /// # Errors
    /// If the terminal does not exist.
    pub(super) fn output(&mut self, params: &Value) -> Result<Value, String> {
        let terminal = self.find(params)?;
        let status = *terminal.exit.borrow();
        let output = terminal.output.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&output.bytes).into_owned();
        Ok(json!({
            "output": text,
            "truncated": output.truncated,
            "exitStatus": status.map(exit_status),
        }))
    }

    /// `terminal/wait_for_exit`: a future, so that the caller can handle other messages meanwhile.
    ///
    /// # Errors
    /// If the terminal does not exist.
    pub(super) fn wait_for_exit(
        &mut self,
        params: &Value,
    ) -> Result<impl Future<Output = Value> + Send + use<>, String> {
        let mut exit = self.find(params)?.exit.clone();
        Ok(async move {
            let status = exit.wait_for(Option::is_some).await.ok().and_then(|status| *status);
            status.map_or_else(|| json!({"exitCode": null, "signal": null}), exit_status)
        })
    }

    /// `terminal/kill`: ends the command and keeps its output.
    ///
    /// # Errors
    /// If the terminal does not exist.
    pub(super) fn kill(&mut self, params: &Value) -> Result<Value, String> {
        self.find(params)?.end();
        Ok(json!({}))
    }

    /// `terminal/release`: ends the command and removes the terminal.
    ///
    /// # Errors
    /// If the terminal does not exist.
    pub(super) fn release(&mut self, params: &Value) -> Result<Value, String> {
        self.find(params)?.end();
        let id = params.get("terminalId").and_then(Value::as_str).unwrap_or_default();
        self.open.remove(id);
        Ok(json!({}))
    }

    /// Task entries of the commands that ended since the last call.
    pub(super) fn take_ended(&mut self) -> Vec<step::Entry> {
        let ended = self
            .open
            .values_mut()
            .filter(|terminal| !terminal.is_reported && terminal.exit.borrow().is_some());
        let entry = |terminal: &mut Terminal| {
            terminal.is_reported = true;
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

/// The directory in which a command runs.
///
/// # Errors
/// A message for the agent, if it is outside the session's working directory.
pub(super) fn directory(params: &Value, working_dir: &Path) -> Result<PathBuf, String> {
    let dir = params
        .get("cwd")
        .and_then(Value::as_str)
        .map_or_else(|| working_dir.to_owned(), |cwd| working_dir.join(cwd));
    let inside = dir
        .canonicalize()
        .ok()
        .zip(working_dir.canonicalize().ok())
        .is_some_and(|(dir, root)| dir.starts_with(root));
    if inside {
        Ok(dir)
    } else {
        Err(format!("{} is outside the session's working directory", dir.display()))
    }
}

impl Terminal {
    fn end(&self) {
        if let Some(group) = self.group.filter(|_| self.exit.borrow().is_none()) {
            // Descendants may have left the group.
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

/// Keeps the newest output up to the limit, as ACP requires.
async fn collect(mut stream: impl AsyncRead + Unpin, output: Arc<Mutex<Output>>) {
    let mut chunk = vec![0; 8192];
    while let Ok(read) = stream.read(&mut chunk).await {
        if read == 0 {
            return;
        }
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        output.bytes.extend_from_slice(&chunk[..read]);
        let excess = output.bytes.len().saturating_sub(output.limit);
        if excess > 0 {
            output.truncated = true;
            output.bytes.drain(..excess);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_harness::eventually;

    #[tokio::test]
    async fn ended_command_is_reported_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut terminals = Terminals::default();
        let created = terminals
            .create(&json!({"command": "sh", "args": ["-c", "echo hi; exit 3"]}), dir.path())
            .expect("created");
        let wait = terminals.wait_for_exit(&created).expect("there");
        assert_eq!(wait.await["exitCode"], 3);
        assert_eq!(terminals.output(&created).expect("there")["output"], "hi\n");
        let entries = terminals.take_ended();
        assert!(
            matches!(entries.as_slice(), [step::Entry::Command { exit: Some(3), .. }]),
            "{entries:?}"
        );
        assert!(terminals.take_ended().is_empty());
        terminals.release(&created).expect("released");
        assert!(terminals.output(&created).is_err());
    }

    #[tokio::test]
    async fn killed_command_keeps_its_output() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut terminals = Terminals::default();
        let created = terminals
            .create(&json!({"command": "echo begun; sleep 1000"}), dir.path())
            .expect("created");
        eventually("the command prints", || {
            terminals.output(&created).expect("a terminal")["output"] == "begun\n"
        })
        .await;
        terminals.kill(&created).expect("killed");
        assert_eq!(terminals.wait_for_exit(&created).expect("there").await["signal"], "9");
    }

    #[tokio::test]
    async fn output_is_truncated_and_other_directories_are_rejected() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut terminals = Terminals::default();
        let params = json!({"command": "printf", "args": ["0123456789"], "outputByteLimit": 4});
        let created = terminals.create(&params, dir.path()).expect("created");
        terminals.wait_for_exit(&created).expect("there").await;
        let output = terminals.output(&created).expect("there");
        assert_eq!((&output["output"], &output["truncated"]), (&json!("6789"), &json!(true)));
        assert!(terminals.create(&json!({"command": "ls", "cwd": "/"}), dir.path()).is_err());
    }
}

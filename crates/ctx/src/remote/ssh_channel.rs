//! Messages over ssh: `ctx remote serve` runs on the other machine, and its standard input and
//! output carry frames. Only `ctx` is needed there.

use std::process::Stdio;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ctx_engine::exchange::PeerError;
use tokio::io::{AsyncReadExt, BufReader, BufWriter};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::problem::Problem;

use super::Traffic;
use super::address::SshHost;
use super::channel_peer::Channel;
use super::wire::{Answer, PROTOCOL, Request, decode, encode, read_frame, write_frame};

/// The variable with the ssh command, by default `ssh`. It may have arguments.
const SSH_VARIABLE: &str = "CTX_SSH";
/// Maximum size of the messages of ssh that are kept.
const MESSAGES_MAX_BYTES: usize = 4096;
/// Time until the first message, which includes the login.
const GREETING_WAIT: Duration = Duration::from_secs(120);
/// Time until an answer is complete.
const ANSWER_WAIT: Duration = Duration::from_secs(600);
/// Time for the last message after the connection ended.
const MESSAGES_WAIT: Duration = Duration::from_millis(500);

pub(super) struct SshChannel {
    streams: Mutex<Streams>,
    traffic: Arc<Traffic>,
    host: String,
    /// The last messages of ssh and of the other side, for errors.
    messages: Arc<std::sync::Mutex<Vec<u8>>>,
    reader: Mutex<Option<JoinHandle<()>>>,
}

struct Streams {
    input: BufWriter<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Killed when the channel is dropped.
    _ssh: Child,
}

/// Starts ssh and waits for the first message of the other side.
pub(super) async fn open(host: &SshHost, traffic: Arc<Traffic>) -> Result<SshChannel, Problem> {
    let command = std::env::var(SSH_VARIABLE).ok().filter(|text| !text.trim().is_empty());
    let command = command.unwrap_or_else(|| "ssh".to_owned());
    let mut words = command.split_whitespace();
    let mut ssh = Command::new(words.next().unwrap_or("ssh"));
    ssh.args(words);
    if let Some(port) = host.port {
        ssh.args(["-p", &port.to_string()]);
    }
    ssh.arg(&host.host).arg(remote_command(host.path.as_deref()));
    ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = ssh.spawn().map_err(|error| {
        Problem::failed("no_ssh", format!("failed to start `{command}`: {error}"))
            .hint("install ssh, or name another command in CTX_SSH")
    })?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Problem::failed("internal", "failed to connect to ssh"));
    };
    let messages = Arc::default();
    let reader =
        child.stderr.take().map(|errors| tokio::spawn(collect(errors, Arc::clone(&messages))));
    let streams =
        Streams { input: BufWriter::new(input), output: BufReader::new(output), _ssh: child };
    let host = host.host.clone();
    let (streams, reader) = (Mutex::new(streams), Mutex::new(reader));
    let channel = SshChannel { streams, traffic, host, messages, reader };
    channel.greet().await?;
    Ok(channel)
}

/// Keeps the end of what ssh and the other side write to standard error.
async fn collect(mut errors: ChildStderr, messages: Arc<std::sync::Mutex<Vec<u8>>>) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = errors.read(&mut buffer).await {
        let mut kept = messages.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&buffer[..count]);
        let excess = kept.len().saturating_sub(MESSAGES_MAX_BYTES);
        kept.drain(..excess);
    }
}

/// The command for the shell of the other machine.
fn remote_command(path: Option<&str>) -> String {
    match path {
        None => "ctx remote serve".to_owned(),
        // The shell there replaces a tilde only outside of quotes.
        Some("~") => "ctx remote serve --at ~".to_owned(),
        Some(path) => match path.strip_prefix("~/") {
            Some(rest) => format!("ctx remote serve --at ~/{}", quoted(rest)),
            None => format!("ctx remote serve --at {}", quoted(path)),
        },
    }
}

/// A word in single quotes for a POSIX shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

impl SshChannel {
    async fn greet(&self) -> Result<(), PeerError> {
        let mut streams = self.streams.lock().await;
        let Ok(first) = tokio::time::timeout(GREETING_WAIT, self.receive(&mut streams)).await
        else {
            return Err(self.cut("the other side did not answer in time").await);
        };
        match first? {
            (Answer::Hello { protocol: PROTOCOL, .. }, _) => Ok(()),
            (Answer::Hello { version, .. }, _) => {
                let message = format!("the remote runs another version of ctx: {version}");
                Err(PeerError::new("remote_version", message).hint("update ctx on both machines"))
            }
            (Answer::Failed { error }, _) => Err(error),
            _ => Err(PeerError::protocol("the first message is not a greeting")),
        }
    }

    async fn receive(&self, streams: &mut Streams) -> Result<(Answer, Vec<u8>), PeerError> {
        let message = match read_frame(&mut streams.output).await {
            Ok(Some(message)) => message,
            Ok(None) => return Err(self.cut("the other side ended").await),
            Err(error) => return Err(self.cut(&error.to_string()).await),
        };
        self.traffic.add_received(message.len() + 4);
        decode(&message)
    }

    /// The error of a connection that ended, with the last message of the other side.
    async fn cut(&self, why: &str) -> PeerError {
        if let Some(reader) = self.reader.lock().await.take() {
            let _ = tokio::time::timeout(MESSAGES_WAIT, reader).await;
        }
        let kept = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept);
        // ctx prints a hint after its error.
        let lines = || text.lines().map(str::trim).filter(|line| !line.starts_with("hint"));
        let last = lines().rfind(|line| !line.is_empty()).unwrap_or(why);
        let message = format!("the connection to {} was cut off: {last}", self.host);
        PeerError::new("remote_cut", message).hint(
            "check that `ctx` is on the PATH there and that ssh can log in, then run the command \
             again; it continues where it was",
        )
    }
}

#[async_trait]
impl Channel for SshChannel {
    async fn ask(
        &self,
        request: &Request,
        parts: &[Vec<u8>],
    ) -> Result<(Answer, Vec<u8>), PeerError> {
        let message = encode(request, parts)?;
        let mut streams = self.streams.lock().await;
        match write_frame(&mut streams.input, &message).await {
            Ok(sent) => self.traffic.add_sent(sent),
            Err(error) => return Err(self.cut(&error.to_string()).await),
        }
        match tokio::time::timeout(ANSWER_WAIT, self.receive(&mut streams)).await {
            Ok(answer) => answer,
            Err(_) => Err(self.cut("the other side did not answer in time").await),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_leave_its_quotes() {
        assert_eq!(remote_command(None), "ctx remote serve");
        assert_eq!(
            remote_command(Some("/a b'; rm -rf x")),
            r"ctx remote serve --at '/a b'\''; rm -rf x'"
        );
        assert_eq!(remote_command(Some("~/$(x)")), "ctx remote serve --at ~/'$(x)'");
    }
}

//! A judge of messages behind a command line: the question goes to its standard input, a letter comes back.
//!
//! Whatever goes wrong (no such program, too slow, too much said) gives no answer, and the rules decide:
//! a user's message never waits for a broken tool.

use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use ctx_core::intent::{Intent, Situation, llm_prompt, read_llm_answer};
use ctx_engine::Classifier;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

/// The most of an answer that is read.
const ANSWER_MAX_BYTES: u64 = 4096;

/// Asks a program, for example `["llm", "-m", "some-model"]`.
#[derive(Debug, Clone)]
pub struct CommandClassifier {
    argv: Vec<String>,
    timeout: Duration,
}

impl CommandClassifier {
    /// Asks `argv` and waits for at most `timeout`.
    pub const fn new(argv: Vec<String>, timeout: Duration) -> Self {
        Self { argv, timeout }
    }

    async fn ask(&self, prompt: &str) -> Option<String> {
        let (program, arguments) = self.argv.split_first()?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .ok()?;
        let (mut stdin, stdout) = (child.stdin.take()?, child.stdout.take()?);
        // A program may answer without reading to the end, so a closed pipe is no failure.
        let _ = stdin.write_all(prompt.as_bytes()).await;
        drop(stdin);
        let mut answer = Vec::new();
        stdout.take(ANSWER_MAX_BYTES).read_to_end(&mut answer).await.ok()?;
        child.wait().await.ok().filter(std::process::ExitStatus::success)?;
        String::from_utf8(answer).ok()
    }
}

#[async_trait]
impl Classifier for CommandClassifier {
    async fn classify(&self, text: &str, situation: Situation<'_>) -> Option<Intent> {
        let prompt = llm_prompt(text, &situation);
        let answer = tokio::time::timeout(self.timeout, self.ask(&prompt)).await.ok()??;
        Some(read_llm_answer(&answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn asked(script: &str, timeout: Duration) -> Option<Intent> {
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        CommandClassifier::new(argv, timeout).classify("use tabs", Situation::default()).await
    }

    #[tokio::test]
    async fn the_program_reads_the_question_and_its_letter_decides() {
        // R61, R62
        let long = Duration::from_secs(30);
        assert_eq!(asked("grep -q 'use tabs' && echo B", long).await, Some(Intent::Modification));
        assert_eq!(asked("echo D", long).await, Some(Intent::NewTask));
        assert_eq!(asked("echo perhaps", long).await, Some(Intent::Unclear));
    }

    #[tokio::test]
    async fn a_program_that_fails_or_hangs_gives_no_answer() {
        assert_eq!(asked("exit 3", Duration::from_secs(30)).await, None);
        assert_eq!(asked("exec sleep 600", Duration::from_millis(20)).await, None);
        let missing =
            CommandClassifier::new(vec!["no-such-program-here".into()], Duration::from_secs(1));
        assert_eq!(missing.classify("x", Situation::default()).await, None);
    }
}

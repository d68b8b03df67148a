//! Classifies messages with an external command: the question goes to its standard input, and it
//! prints a letter.
//!
//! A missing program, a failure, a timeout or unreadable output gives `None`. The built-in rules
//! classify the message then, so a broken command never delays a user for longer than its timeout.

use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use ctx_core::intent::{ClassifierInput, Intent, classification_prompt, parse_classification};
use ctx_engine::Classifier;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

/// Output beyond this size is not read.
const ANSWER_MAX_BYTES: u64 = 4096;

/// Classifies messages with a command, for example `["llm", "-m", "some-model"]`.
#[derive(Debug, Clone)]
pub struct CommandClassifier {
    argv: Vec<String>,
    timeout: Duration,
}

impl CommandClassifier {
    /// Runs `argv` for each message and waits at most `timeout` for its output.
    pub const fn new(argv: Vec<String>, timeout: Duration) -> Self {
        Self { argv, timeout }
    }

    async fn output(&self, prompt: &str) -> Option<String> {
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
        // A program may answer before it has read all of its input: a closed pipe is not an error.
        let _ = stdin.write_all(prompt.as_bytes()).await;
        drop(stdin);
        let mut output = Vec::new();
        stdout.take(ANSWER_MAX_BYTES).read_to_end(&mut output).await.ok()?;
        child.wait().await.ok().filter(std::process::ExitStatus::success)?;
        String::from_utf8(output).ok()
    }
}

#[async_trait]
impl Classifier for CommandClassifier {
    async fn classify(&self, text: &str, situation: ClassifierInput<'_>) -> Option<Intent> {
        let prompt = classification_prompt(text, &situation);
        let output = tokio::time::timeout(self.timeout, self.output(&prompt)).await.ok()??;
        Some(parse_classification(&output))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn classify_with(script: &str, timeout: Duration) -> Option<Intent> {
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        CommandClassifier::new(argv, timeout).classify("use tabs", ClassifierInput::default()).await
    }

    #[tokio::test]
    async fn letter_that_the_program_prints_is_the_intent() {
        // R61, R62
        let long = Duration::from_secs(30);
        assert_eq!(
            classify_with("grep -q 'use tabs' && echo B", long).await,
            Some(Intent::Modification)
        );
        assert_eq!(classify_with("echo D", long).await, Some(Intent::NewTask));
        assert_eq!(classify_with("echo perhaps", long).await, Some(Intent::Unclear));
    }

    #[tokio::test]
    async fn failing_hanging_or_missing_program_classifies_nothing() {
        assert_eq!(classify_with("exit 3", Duration::from_secs(30)).await, None);
        assert_eq!(classify_with("exec sleep 600", Duration::from_millis(20)).await, None);
        let missing =
            CommandClassifier::new(vec!["no-such-program-here".into()], Duration::from_secs(1));
        assert_eq!(missing.classify("x", ClassifierInput::default()).await, None);
    }
}

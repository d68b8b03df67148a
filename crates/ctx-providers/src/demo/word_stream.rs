//! Writes the answers of the demo agent word by word and handles steering messages in between.
//!
//! Every wait here ends on cancellation, so each command of the demo agent can be cancelled.

use std::time::Duration;

use ctx_core::turn::Usage;
use ctx_engine::provider::{Delta, Link, Steer};

/// The run was cancelled, or its reader is gone.
#[derive(Debug)]
pub(super) struct Stopped;

/// The output of one run.
pub(super) struct WordStream {
    link: Link,
    words: u64,
}

impl WordStream {
    pub(super) const fn new(link: Link) -> Self {
        Self { link, words: 0 }
    }

    pub(super) async fn send(&self, delta: Delta) -> Result<(), Stopped> {
        tokio::select! {
            biased;
            () = self.link.cancel.cancelled() => Err(Stopped),
            is_open = self.link.send(delta) => if is_open { Ok(()) } else { Err(Stopped) },
        }
    }

    /// Writes a text with a pause after each word. Steering messages are acknowledged in between.
    pub(super) async fn write(&mut self, text: &str, pause: Duration) -> Result<(), Stopped> {
        for word in text.split_inclusive(char::is_whitespace) {
            self.send(Delta::Text(word.to_owned())).await?;
            if word.trim().is_empty() {
                continue;
            }
            self.words += 1;
            if let Some(steer) = self.wait(pause).await? {
                self.acknowledge(steer).await?;
            }
        }
        Ok(())
    }

    /// Writes a thought word by word.
    pub(super) async fn think(&mut self, text: &str, pause: Duration) -> Result<(), Stopped> {
        for word in text.split_inclusive(' ') {
            self.words += 1;
            self.send(Delta::Thought { text: word.to_owned(), raw: None }).await?;
            self.sleep(pause).await?;
        }
        Ok(())
    }

    /// Waits for the cancellation.
    pub(super) async fn hang(&self) -> Stopped {
        tokio::select! {
            () = self.link.cancel.cancelled() => Stopped,
            () = self.link.out.closed() => Stopped,
        }
    }

    /// Reports the usage; a word counts as a token. A cancelled run must not wait, so it reports
    /// only if the channel has room.
    pub(super) async fn send_usage(&self, input_words: u64) {
        let usage = Usage {
            input_tokens: Some(input_words),
            output_tokens: Some(self.words),
            cached_tokens: None,
            cost: None,
            scope: "turn".to_owned(),
            ..Usage::default()
        };
        if self.link.cancel.is_cancelled() {
            let _ = self.link.out.try_send(Delta::Usage(usage));
        } else {
            let _ = self.send(Delta::Usage(usage)).await;
        }
    }

    async fn acknowledge(&mut self, steer: Steer) -> Result<(), Stopped> {
        self.send(Delta::Injected(steer.message_id)).await?;
        let text = format!(
            "(You wrote “{}” meanwhile. I have read it and continue.) ",
            ctx_core::text_limits::one_line(&steer.text, 80)
        );
        self.words += text.split_whitespace().count() as u64;
        self.send(Delta::Text(text)).await
    }

    /// Waits for the pause or a steering message. A closed channel must not end the pause.
    async fn wait(&mut self, pause: Duration) -> Result<Option<Steer>, Stopped> {
        if pause.is_zero() {
            return Ok(self.link.steers.try_recv().ok());
        }
        tokio::select! {
            biased;
            () = self.link.cancel.cancelled() => Err(Stopped),
            Some(steer) = self.link.steers.recv() => Ok(Some(steer)),
            () = tokio::time::sleep(pause) => Ok(None),
        }
    }

    async fn sleep(&self, pause: Duration) -> Result<(), Stopped> {
        if pause.is_zero() {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = self.link.cancel.cancelled() => Err(Stopped),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }
}

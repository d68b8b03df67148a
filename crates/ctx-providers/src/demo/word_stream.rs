//! How the demo agent speaks: word by word, hearing its run after each of them.
//!
//! Nothing here waits without hearing `cancel`, so every behaviour stops promptly without thinking of it.

use std::time::Duration;

use ctx_core::turn::Usage;
use ctx_engine::provider::{Delta, Link, Steer};

/// Nobody wants to hear more: the run was cancelled, or its reader is gone.
#[derive(Debug)]
pub(super) struct Stopped;

/// What is said, and how fast.
pub(super) struct Voice {
    link: Link,
    words: u64,
}

impl Voice {
    pub(super) const fn new(link: Link) -> Self {
        Self { link, words: 0 }
    }

    /// Passes on a delta.
    pub(super) async fn put(&self, delta: Delta) -> Result<(), Stopped> {
        tokio::select! {
            biased;
            () = self.link.cancel.cancelled() => Err(Stopped),
            heard = self.link.say(delta) => if heard { Ok(()) } else { Err(Stopped) },
        }
    }

    /// Says a text, with a pause after each word. What users say meanwhile is acknowledged at once.
    pub(super) async fn say(&mut self, text: &str, pace: Duration) -> Result<(), Stopped> {
        for piece in text.split_inclusive(char::is_whitespace) {
            self.put(Delta::Text(piece.to_owned())).await?;
            if piece.trim().is_empty() {
                continue;
            }
            self.words += 1;
            if let Some(steer) = self.pause(pace).await? {
                self.acknowledge(steer).await?;
            }
        }
        Ok(())
    }

    /// Thinks aloud.
    pub(super) async fn think(&mut self, text: &str, pace: Duration) -> Result<(), Stopped> {
        for piece in text.split_inclusive(' ') {
            self.words += 1;
            self.put(Delta::Thought { text: piece.to_owned(), raw: None }).await?;
            self.sleep(pace).await?;
        }
        Ok(())
    }

    /// Waits until it is stopped.
    pub(super) async fn hang(&self) -> Stopped {
        tokio::select! {
            () = self.link.cancel.cancelled() => Stopped,
            () = self.link.out.closed() => Stopped,
        }
    }

    /// What it has cost. A word counts as a token: there is no model to ask. A run that was cancelled
    /// must not wait, so it tells it only where there is room.
    pub(super) async fn tell_usage(&self, input_words: u64) {
        let usage = Usage {
            input_tokens: Some(input_words),
            output_tokens: Some(self.words),
            cached_tokens: None,
            cost: None,
            scope: "turn".to_owned(),
        };
        if self.link.cancel.is_cancelled() {
            let _ = self.link.out.try_send(Delta::Usage(usage));
        } else {
            let _ = self.put(Delta::Usage(usage)).await;
        }
    }

    async fn acknowledge(&mut self, steer: Steer) -> Result<(), Stopped> {
        self.put(Delta::Injected(steer.message_id)).await?;
        let heard = format!(
            "(You say “{}” while I speak. I hear you and go on.) ",
            ctx_core::text::one_line(&steer.text, 80)
        );
        self.words += heard.split_whitespace().count() as u64;
        self.put(Delta::Text(heard)).await
    }

    /// Waits, unless somebody says something. A closed channel says nothing and must not end the pause.
    async fn pause(&mut self, pace: Duration) -> Result<Option<Steer>, Stopped> {
        if pace.is_zero() {
            return Ok(self.link.steers.try_recv().ok());
        }
        tokio::select! {
            biased;
            () = self.link.cancel.cancelled() => Err(Stopped),
            Some(steer) = self.link.steers.recv() => Ok(Some(steer)),
            () = tokio::time::sleep(pace) => Ok(None),
        }
    }

    async fn sleep(&self, pace: Duration) -> Result<(), Stopped> {
        if pace.is_zero() {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = self.link.cancel.cancelled() => Err(Stopped),
            () = tokio::time::sleep(pace) => Ok(()),
        }
    }
}

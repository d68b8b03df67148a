//! Follows the answer to a message until it is complete: text as it is written, then the whole.
//!
//! The run does not depend on the connection. If the client goes away, the run continues, and a
//! repeated request gets its answer.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use axum::http::StatusCode;
use ctx_engine::core::decide::Event;
use ctx_engine::core::id::{MessageId, RunId, SessionId};
use ctx_engine::core::message::Role;
use ctx_engine::{FeedItem, Follow, Located, Submitted, TextDelta};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::super::Shared;
use super::super::events::client_permit;
use super::answer::{Answer, AnswerState, answer};
use super::api_error::{ApiError, ApiResult};

/// Longest time for which a request waits for its answer. The run is not affected.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(3600);

/// What a client receives next.
pub(super) enum Progress {
    /// More text of the answer.
    Text(String),
    Done(Box<Answer>),
}

/// A client that waits for an answer.
pub(super) struct AnswerWatch {
    state: Shared,
    session: SessionId,
    message: MessageId,
    /// The run that writes the answer, once it is known.
    run: Option<RunId>,
    follow: Follow,
    /// Whether the store has to be read.
    is_due: bool,
    /// The text that the client received.
    sent: String,
    /// Number of characters of each message that the client received.
    sent_chars: HashMap<MessageId, usize>,
    /// The message that the client received last.
    last: Option<MessageId>,
    /// Messages of the same turn that belong to an earlier answer.
    earlier: HashSet<MessageId>,
    done: Option<Box<Answer>>,
    until: Instant,
    _permit: OwnedSemaphorePermit,
}

impl AnswerWatch {
    pub(super) async fn new(state: &Shared, submitted: &Submitted) -> ApiResult<Self> {
        let permit = client_permit(state)?;
        let follow = state.engine.events().follow(&submitted.session.to_string(), None).await?;
        Ok(Self {
            state: state.clone(),
            session: submitted.session,
            message: submitted.message_id,
            run: submitted.run_id.filter(|_| !submitted.replayed),
            follow,
            is_due: true,
            sent: String::new(),
            sent_chars: HashMap::new(),
            last: None,
            earlier: HashSet::new(),
            done: None,
            until: Instant::now() + ANSWER_WAIT_MAX,
            _permit: permit,
        })
    }

    /// Waits for the whole answer.
    pub(super) async fn whole(mut self) -> ApiResult<Answer> {
        loop {
            if let Progress::Done(answer) = self.next().await? {
                return Ok(*answer);
            }
        }
    }

    /// The next part of the answer. A caller may drop the future and call again.
    pub(super) async fn next(&mut self) -> ApiResult<Progress> {
        loop {
            if let Some(done) = self.done.take() {
                return Ok(Progress::Done(done));
            }
            if self.is_due {
                let state = self.read().await?;
                self.is_due = false;
                match state {
                    AnswerState::Queued | AnswerState::Running => {}
                    AnswerState::Missing => return Err(gone()),
                    AnswerState::Done(answer) => {
                        // What the feed did not deliver, such as text of another process.
                        let rest = answer.text.strip_prefix(&self.sent).map(str::to_owned);
                        self.done = Some(answer);
                        if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
                            self.sent.push_str(&rest);
                            return Ok(Progress::Text(rest));
                        }
                        continue;
                    }
                }
            }
            let item = tokio::select! {
                item = self.follow.next() => item?,
                () = self.state.shutdown.cancelled() => return Err(shutting_down()),
                () = tokio::time::sleep_until(self.until) => return Err(too_late()),
            };
            match item {
                None => return Err(gone()),
                Some(FeedItem::Delta(delta)) => {
                    if let Some(text) = self.text(&delta) {
                        return Ok(Progress::Text(text));
                    }
                }
                Some(FeedItem::Event(event)) => self.event(&event.event),
            }
        }
    }

    async fn read(&mut self) -> ApiResult<AnswerState> {
        let located = self.state.engine.messages().locate(self.session, self.message).await?;
        if let Located::Open(open) = &located {
            self.run = open.run.as_ref().map(|run| run.id);
            let before = open.messages.iter().take_while(|one| one.id != self.message);
            self.earlier = before
                .filter(|message| message.role == Role::Assistant)
                .map(|message| message.id)
                .collect();
        }
        Ok(answer(&located, self.message, &self.state.engine.providers()))
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::RunStarted { run_id, message_ids, .. }
                if message_ids.contains(&self.message) =>
            {
                self.run = Some(*run_id);
            }
            Event::TurnCommitted { .. }
            | Event::RunSuspended { .. }
            | Event::RunFailed { .. }
            | Event::RunCancelled { .. }
            | Event::PromptOpened { .. }
            | Event::InboxUpdated { .. }
            | Event::SessionDeleted { .. } => self.is_due = true,
            _ => {}
        }
    }

    /// The part of a delta that the client has not received.
    fn text(&mut self, delta: &TextDelta) -> Option<String> {
        let is_answer = self.run == Some(delta.run_id)
            && !delta.thought
            && !self.earlier.contains(&delta.message_id);
        if !is_answer {
            return None;
        }
        let sent = self.sent_chars.entry(delta.message_id).or_default();
        let known = sent.saturating_sub(delta.offset);
        let new: String = delta.text.chars().skip(known).collect();
        if new.is_empty() || delta.offset > *sent {
            return None;
        }
        *sent = delta.offset + delta.text.chars().count();
        let is_first = self.last.replace(delta.message_id) != Some(delta.message_id);
        // Messages of one answer are separated by an empty line.
        let text = if is_first && !self.sent.is_empty() { format!("\n\n{new}") } else { new };
        self.sent.push_str(&text);
        Some(text)
    }
}

fn gone() -> ApiError {
    let message = "the message is not in the session any more";
    ApiError::not_found("message_deleted", "conversation", message)
}

fn shutting_down() -> ApiError {
    let message = "the server is shutting down; the answer is kept, send the request again";
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", message)
}

fn too_late() -> ApiError {
    let message = "the run did not end in time; it continues, and the same request gets its answer";
    ApiError::new(StatusCode::GATEWAY_TIMEOUT, "timeout", message)
}

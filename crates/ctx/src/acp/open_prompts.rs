//! Prompts of the editor that wait for their answer, and the answer: a stop reason, or the failure
//! of the run.

use ctx_engine::core::id::{MessageId, RunId};
use ctx_engine::core::message::{Message, Part};
use ctx_engine::core::session::Activity;
use ctx_engine::core::turn::{Status, Usage};
use ctx_engine::{NewMessage, StoredTurn};
use ctx_providers::json_rpc::{INTERNAL_ERROR, RpcError};
use serde_json::{Value, json};

use super::attached_session::AttachedSession;
use super::{AUTH_REQUIRED, engine_error};

/// A `session/prompt` without a response.
#[derive(Debug)]
pub(super) struct OpenPrompt {
    /// The id of the request.
    pub(super) request: Value,
    pub(super) message_id: MessageId,
    /// The run that answers it, if it is known.
    pub(super) run: Option<RunId>,
    /// Whether the editor has cancelled it.
    pub(super) is_cancelled: bool,
    /// How its turn ended.
    pub(super) end: Option<TurnEnd>,
}

/// How a turn ended, for the prompts that it answers.
#[derive(Debug, Clone)]
pub(super) struct TurnEnd {
    status: Status,
    error: Option<(String, String)>,
    usage: Option<Usage>,
}

impl TurnEnd {
    pub(super) fn of(turn: &StoredTurn, messages: &[Message]) -> Self {
        let parts = messages.iter().flat_map(|message| &message.content);
        let error = parts.rev().find_map(|part| match part {
            Part::Error { code, message, .. } => Some((code.clone(), message.clone())),
            _ => None,
        });
        Self { status: turn.header.status, error, usage: turn.header.usage.clone() }
    }

    /// The response to `session/prompt`.
    fn response(&self, is_cancelled: bool) -> Result<Value, RpcError> {
        let stop = match (self.status, &self.error) {
            _ if is_cancelled => "cancelled",
            (Status::Completed, _) => "end_turn",
            (Status::Cancelled | Status::Interrupted, _) => "cancelled",
            (Status::Failed, Some((code, _))) if code == "max_tokens" => "max_tokens",
            (Status::Failed, Some((code, _))) if code == "refused" => "refusal",
            (Status::Failed, error) => return Err(failure(error.as_ref())),
        };
        let mut response = json!({"stopReason": stop});
        let tokens = self.usage.as_ref().and_then(|it| it.input_tokens.zip(it.output_tokens));
        if let (Some((input, output)), Some(usage)) = (tokens, &self.usage) {
            response["usage"] = json!({
                "totalTokens": input + output,
                "inputTokens": input,
                "outputTokens": output,
            });
            if let Some(cached) = usage.cached_tokens {
                response["usage"]["cachedReadTokens"] = cached.into();
            }
        }
        Ok(response)
    }
}

impl OpenPrompt {
    /// The response of a prompt whose turn has ended, or that no turn will answer.
    pub(super) fn response(&self) -> Result<Value, RpcError> {
        match &self.end {
            Some(end) => end.response(self.is_cancelled),
            None if self.is_cancelled => Ok(json!({"stopReason": "cancelled"})),
            None => Ok(json!({"stopReason": "end_turn"})),
        }
    }
}

fn failure(error: Option<&(String, String)>) -> RpcError {
    let Some((code, message)) = error else {
        return RpcError::new(INTERNAL_ERROR, "the run failed");
    };
    let number = if code == "auth_required" { AUTH_REQUIRED } else { INTERNAL_ERROR };
    RpcError { code: number, message: message.clone(), data: Some(json!({"code": code})) }
}

impl AttachedSession {
    pub(super) async fn prompt(&mut self, request: Value, message: NewMessage) {
        match self.engine.messages().submit(&self.key, message, None).await {
            Ok(sent) => {
                self.shown.mark_whole(sent.message_id);
                self.prompts.push(OpenPrompt {
                    request,
                    message_id: sent.message_id,
                    run: sent.run_id,
                    is_cancelled: false,
                    end: None,
                });
                self.settle().await;
            }
            Err(error) => self.editor.respond(&request, &Err(engine_error(&error))).await,
        }
    }

    /// Cancels all prompts of the editor, or one of them. A message that waits is withdrawn; a run
    /// is cancelled.
    pub(super) async fn cancel(&mut self, request: Option<&Value>) {
        let is_meant = |prompt: &OpenPrompt| request.is_none_or(|id| *id == prompt.request);
        if request.is_some() && !self.prompts.iter().any(is_meant) {
            return;
        }
        let Ok(info) = self.info().await else { return };
        let mut is_waiting = false;
        for prompt in self.prompts.iter_mut().filter(|prompt| is_meant(prompt)) {
            prompt.is_cancelled = true;
            if info.inbox.iter().any(|item| item.message_id == prompt.message_id) {
                is_waiting = true;
                let withdrawn = self.engine.messages().withdraw(&self.key, prompt.message_id).await;
                tracing::debug!(?withdrawn, "a cancelled message that waits");
            }
        }
        if info.session.state != Activity::Idle && !is_waiting {
            self.cancel_run();
        }
        self.settle().await;
    }

    /// Responds to the prompts that the run answered.
    pub(super) async fn run_ended(&mut self, run: RunId) {
        let end = self.last_end.clone();
        for prompt in self.prompts.iter_mut().filter(|it| it.end.is_none() && it.run == Some(run)) {
            prompt.end.clone_from(&end);
        }
        let (ended, open) = self.prompts.drain(..).partition(|prompt| prompt.end.is_some());
        self.prompts = open;
        self.respond(ended).await;
    }

    pub(super) async fn respond(&self, prompts: Vec<OpenPrompt>) {
        for prompt in prompts {
            self.editor.respond(&prompt.request, &prompt.response()).await;
        }
    }

    /// Responds to the prompts that nothing will answer any more: the session is idle, or it waits
    /// for an answer that can only be given as a message.
    pub(super) async fn settle(&mut self) {
        if self.prompts.is_empty() {
            return;
        }
        let Ok(info) = self.info().await else { return };
        if info.session.seq > self.seen {
            return;
        }
        let is_asked = self.questions.iter().any(|question| question.request.is_some());
        let is_settled = match info.session.state {
            Activity::Running => false,
            Activity::Idle => !info.is_busy() && !is_asked,
            Activity::Suspended => !info.suspensions.is_empty() && !is_asked,
        };
        if is_settled {
            let prompts = std::mem::take(&mut self.prompts);
            self.respond(prompts).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(status: Status, code: Option<&str>) -> TurnEnd {
        let error = code.map(|code| (code.to_owned(), "why".to_owned()));
        TurnEnd { status, error, usage: None }
    }

    #[test]
    fn end_of_a_turn_is_a_stop_reason_or_an_error() {
        for (end, stop) in [
            (end(Status::Completed, None), "end_turn"),
            (end(Status::Cancelled, None), "cancelled"),
            (end(Status::Interrupted, Some("interrupted")), "cancelled"),
            (end(Status::Failed, Some("max_tokens")), "max_tokens"),
            (end(Status::Failed, Some("refused")), "refusal"),
        ] {
            assert_eq!(end.response(false).expect("a response")["stopReason"], stop, "{end:?}");
        }
        let failed = end(Status::Failed, Some("timeout"));
        assert_eq!(failed.response(true).expect("cancelled")["stopReason"], "cancelled");
        let error = failed.response(false).expect_err("a failure");
        assert_eq!((error.code, error.data), (INTERNAL_ERROR, Some(json!({"code": "timeout"}))));
        let login = end(Status::Failed, Some("auth_required")).response(false);
        assert_eq!(login.expect_err("a failure").code, AUTH_REQUIRED);
    }
}

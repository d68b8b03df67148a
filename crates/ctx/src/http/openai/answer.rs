//! The answer to a message, read from the turn that contains it.

use ctx_engine::core::client_history::{after_message, spoken_text};
use ctx_engine::core::decide::AgentTool;
use ctx_engine::core::id::MessageId;
use ctx_engine::core::message::{Message, Part, Role};
use ctx_engine::core::session::Activity;
use ctx_engine::core::suspension::{Kind, Suspension};
use ctx_engine::core::turn::{Status, Usage};
use ctx_engine::{Located, Providers};
use serde_json::{Value, json};

use super::api_error::ApiError;

/// A call of a tool of the client.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ClientCall {
    pub(super) id: String,
    pub(super) name: String,
    /// JSON in a string.
    pub(super) arguments: String,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    Stop,
    ToolCalls,
    Length,
    Refused,
    Cancelled,
}

/// A complete answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) calls: Vec<ClientCall>,
    pub(super) finish: Finish,
    pub(super) failure: Option<ApiError>,
    pub(super) usage: Option<Usage>,
}

/// What there is of an answer.
pub(super) enum AnswerState {
    /// The message waits in the inbox.
    Queued,
    /// The run is not at its end.
    Running,
    Done(Box<Answer>),
    /// The message is not in the session any more.
    Missing,
}

/// Reads the answer to a message.
pub(super) fn answer(located: &Located, message: MessageId, providers: &Providers) -> AnswerState {
    match located {
        Located::Missing => AnswerState::Missing,
        Located::Waiting(None) => AnswerState::Queued,
        Located::Waiting(Some(prompt)) => {
            AnswerState::Done(Box::new(Answer::text(prompt.text.clone())))
        }
        Located::Open(open) => {
            let segment = Segment::of(&open.messages, message, |_| true);
            let usage = open.usage.clone();
            if segment.is_followed {
                // A later request has given the results of the calls.
                return AnswerState::Done(Box::new(Answer { usage, ..segment.into_answer() }));
            }
            if open.state != Activity::Suspended {
                return AnswerState::Running;
            }
            let mut answer = Answer { usage, ..segment.into_answer() };
            for decision in
                open.suspensions.iter().filter(|one| one.awaited.kind != Kind::ToolResult)
            {
                answer.add_text(&decision_text(decision));
                answer.finish = Finish::Stop;
            }
            AnswerState::Done(Box::new(answer))
        }
        Located::Stored(stored) => {
            let header = &stored.turn.header;
            let provider = header.provider_id.as_ref().and_then(|id| providers.all.get(id));
            let is_agent = provider.is_some_and(|one| one.about().agent.is_some());
            let segment = Segment::of(&stored.messages, message, |_| !is_agent);
            let is_followed = segment.is_followed;
            let mut answer = Answer { usage: header.usage.clone(), ..segment.into_answer() };
            if answer.text.is_empty() && answer.calls.is_empty() {
                // ctx itself has answered.
                answer.text = notices(after_message(&stored.messages, message));
            }
            if !is_followed {
                answer.end(header.status, &stored.messages);
            }
            AnswerState::Done(Box::new(answer))
        }
    }
}

impl Answer {
    fn text(text: String) -> Self {
        Self { text, calls: Vec::new(), finish: Finish::Stop, failure: None, usage: None }
    }

    fn add_text(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(text);
    }

    /// Adds how the turn ended.
    fn end(&mut self, status: Status, messages: &[Message]) {
        let parts = messages.iter().rev().flat_map(|message| message.content.iter().rev());
        let error = parts.into_iter().find_map(|part| match part {
            Part::Error { code, message, .. } => Some((code.as_str(), message.as_str())),
            _ => None,
        });
        // Calls without a result are no longer awaited.
        if self.finish == Finish::ToolCalls {
            self.finish = Finish::Stop;
        }
        match (status, error) {
            (Status::Completed, _) => {}
            (Status::Cancelled, _) => self.finish = Finish::Cancelled,
            (_, Some(("max_tokens", _))) => self.finish = Finish::Length,
            (_, Some(("refused", _))) => self.finish = Finish::Refused,
            (_, Some((code, message))) => {
                self.failure = Some(ApiError::of_provider(code, message));
            }
            (_, None) => {
                let message = "the answer was interrupted by another message";
                self.failure = Some(ApiError::of_provider("interrupted", message));
            }
        }
    }
}

/// The part of a turn that answers one message.
struct Segment {
    text: String,
    calls: Vec<ClientCall>,
    /// Whether the results of its calls follow.
    is_followed: bool,
}

impl Segment {
    /// `runs_client_tools` is false for agents, which run all of their tools themselves.
    fn of(
        messages: &[Message],
        message: MessageId,
        runs_client_tools: impl Fn(&str) -> bool,
    ) -> Self {
        let rest = after_message(messages, message);
        let is_client = |name: &str| AgentTool::named(name).is_none() && runs_client_tools(name);
        let mut calls: Vec<ClientCall> = Vec::new();
        let (mut end, mut is_followed) = (rest.len(), false);
        for (at, one) in rest.iter().enumerate() {
            if one.content.iter().any(|part| is_result(part, &calls)) {
                (end, is_followed) = (at, true);
                break;
            }
            for part in &one.content {
                calls.extend(client_call(part, &is_client));
                // ctx itself has answered a call of a tool that there is not.
                if let Part::ToolResult { tool_call_id, .. } = part {
                    calls.retain(|call| call.id != *tool_call_id);
                }
            }
        }
        Self { text: spoken_text(&rest[..end]), calls, is_followed }
    }

    fn into_answer(self) -> Answer {
        let finish = if self.calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
        Answer { calls: self.calls, finish, ..Answer::text(self.text) }
    }
}

/// Whether a part is the client's result of one of the calls.
fn is_result(part: &Part, calls: &[ClientCall]) -> bool {
    match part {
        Part::ToolResult { tool_call_id, is_error: false, .. } => {
            calls.iter().any(|call| call.id == *tool_call_id)
        }
        _ => false,
    }
}

fn client_call(part: &Part, is_client: &impl Fn(&str) -> bool) -> Option<ClientCall> {
    match part {
        Part::ToolCall { id, name, params, .. } if is_client(name) => Some(ClientCall {
            id: id.clone(),
            name: name.clone(),
            arguments: match params {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            },
        }),
        _ => None,
    }
}

/// The texts of ctx itself.
fn notices(messages: &[Message]) -> String {
    let notices = messages.iter().filter(|message| message.role == Role::System);
    let texts =
        notices.flat_map(|message| message.content.iter().filter_map(Part::searchable_text));
    texts.collect::<Vec<_>>().join("\n\n")
}

/// A decision that a run waits for. The next message of the user makes it.
fn decision_text(decision: &Suspension) -> String {
    let options = decision.awaited.options.iter();
    let options: Vec<(String, String)> =
        options.map(|offer| (offer.id.clone(), offer.label.clone())).collect();
    prompt_text(&decision.question(), &options)
}

fn prompt_text(question: &str, options: &[(String, String)]) -> String {
    let options = options.iter().map(|(id, label)| format!("\n- {id}: {label}"));
    let options: String = options.collect();
    if options.is_empty() {
        question.to_owned()
    } else {
        format!("{question}\n\nAnswer with one of:{options}")
    }
}

/// Usage in the fields of chat completions; `None` if the provider did not report it.
pub(super) fn chat_usage(usage: Option<&Usage>) -> Option<Value> {
    let (input, output, cached) = tokens(usage?)?;
    Some(json!({
        "prompt_tokens": input,
        "completion_tokens": output,
        "total_tokens": input + output,
        "prompt_tokens_details": {"cached_tokens": cached},
    }))
}

/// Usage in the fields of responses; `None` if the provider did not report it.
pub(super) fn response_usage(usage: Option<&Usage>) -> Option<Value> {
    let (input, output, cached) = tokens(usage?)?;
    Some(json!({
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input + output,
    }))
}

fn tokens(usage: &Usage) -> Option<(u64, u64, u64)> {
    if usage.input_tokens.is_none() && usage.output_tokens.is_none() {
        return None;
    }
    let count = |tokens: Option<u64>| tokens.unwrap_or(0);
    Some((count(usage.input_tokens), count(usage.output_tokens), count(usage.cached_tokens)))
}

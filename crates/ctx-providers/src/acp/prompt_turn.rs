//! One prompt of an agent: what it says becomes deltas, what it asks becomes suspensions.

use std::collections::HashMap;
use std::time::Duration;

use ctx_core::id::MessageId;
use ctx_core::suspension::{Answer, Suspension};
use ctx_core::turn::Usage;
use ctx_engine::provider::{Delta, End, Link, Steer, Stop};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::permission_requests::{self, Ask, What};
use super::file_access::FileRequest;
use super::acp_connection::{Live, Trouble};
use crate::agent_process::until;
use crate::json_rpc::{INTERNAL_ERROR, INVALID_PARAMS, Incoming, METHOD_NOT_FOUND};

/// How long an agent that was told to stop may take to say so.
const STOPPING: Duration = Duration::from_secs(9);
/// Requests that come this soon after one another are asked together.
const GATHERING: Duration = Duration::from_millis(150);

/// How a prompt goes on.
pub(super) struct Turn<'a> {
    pub(super) live: &'a mut Live,
    pub(super) link: &'a mut Link,
    /// Since when it is told to stop.
    stopping: Option<Instant>,
    /// When what was asked is put to the user.
    gathering: Option<Instant>,
    /// Steers on their way, by the number of the request.
    steered: HashMap<u64, MessageId>,
    usage: Usage,
}

impl<'a> Turn<'a> {
    pub(super) fn new(live: &'a mut Live, link: &'a mut Link) -> Self {
        let usage = Usage { scope: live.known.usage_scope().to_owned(), ..Usage::default() };
        Self { live, link, stopping: None, gathering: None, steered: HashMap::new(), usage }
    }

    /// Prompts the agent and hears it out.
    pub(super) async fn prompt(mut self, blocks: Vec<Value>) -> End {
        self.live.calls.clear();
        self.live.speaking = None;
        let params = json!({"sessionId": self.live.conversation, "prompt": blocks});
        self.live.prompt = Some(self.live.peer.ask("session/prompt", params).await);
        self.hear().await
    }

    /// Goes on with a prompt that waited, now that there are answers.
    pub(super) async fn go_on(mut self, resumes: &[(Suspension, Answer)]) -> End {
        for (suspension, answer) in resumes {
            let serial = self.live.serial.clone();
            let Some(at) = self.live.asks.iter().position(|ask| ask.is_of(suspension, &serial))
            else {
                continue;
            };
            let ask = self.live.asks.remove(at);
            let choice = answer.choice.as_deref().unwrap_or_default();
            let chosen = suspension.offer_of(choice).map_or(choice, |offer| offer.id.as_str());
            self.answer(&ask, chosen).await;
        }
        if !self.live.asks.is_empty() {
            // Asked while the session waited: put to the user next.
            self.gathering = Some(Instant::now());
        }
        self.hear().await
    }

    async fn answer(&mut self, ask: &Ask, chosen: &str) {
        match &ask.what {
            What::Permission { .. } => self.live.peer.answer(&ask.id, permission_requests::selected(chosen)).await,
            What::Question { schema, .. } => {
                self.live.peer.answer(&ask.id, permission_requests::filled(schema, chosen)).await
            }
            What::File(request) if chosen == "allow_once" => {
                self.serve_file(&ask.id, request).await
            }
            What::File(_) => {
                self.live.peer.refuse(&ask.id, INVALID_PARAMS, "the user did not allow it").await
            }
        }
    }

    async fn hear(&mut self) -> End {
        loop {
            let can_steer = self.live.can.steer && self.stopping.is_none();
            tokio::select! {
                biased;
                () = self.link.cancel.cancelled(), if self.stopping.is_none() => self.stop().await,
                () = until(self.stopping.map(|since| since + STOPPING)) => return End::Cancelled,
                incoming = self.live.peer.next() => {
                    let end = match incoming {
                        Some(incoming) => self.take(incoming).await,
                        None => Some(self.gone().await),
                    };
                    if let Some(end) = end {
                        return end;
                    }
                }
                () = until(self.gathering), if self.stopping.is_none() => return self.wait(),
                Some(steer) = self.link.steers.recv(), if can_steer => self.steer(steer).await,
            }
        }
    }

    async fn gone(&mut self) -> End {
        self.live.prompt = None;
        if self.stopping.is_some() {
            End::Cancelled
        } else {
            End::Failed(self.live.process.gone().await)
        }
    }

    /// The run is to end: nobody will answer, and the agent is told.
    async fn stop(&mut self) {
        self.stopping = Some(Instant::now());
        self.live.stop().await;
    }

    /// Puts everything that was asked to the user.
    fn wait(&self) -> End {
        End::Suspended(self.live.asks.iter().map(|ask| ask.awaited(&self.live.serial)).collect())
    }

    async fn steer(&mut self, steer: Steer) {
        let params = json!({
            "sessionId": self.live.conversation,
            "prompt": [{"type": "text", "text": steer.text}],
            // A turn that nobody opened would be heard by nobody.
            "_meta": {"steering": {"idleBehavior": "promptRequired"}},
        });
        let asked = self.live.peer.ask("_session/steering", params).await;
        self.steered.insert(asked, steer.message_id);
    }

    async fn take(&mut self, incoming: Incoming) -> Option<End> {
        match incoming {
            Incoming::Answer { id, result } if Some(id) == self.live.prompt => {
                self.live.prompt = None;
                return Some(match result {
                    Ok(answer) => self.stopped(&answer).await,
                    Err(_) if self.stopping.is_some() => End::Cancelled,
                    Err(refused) => End::Failed(
                        self.live.known.failure(Trouble::Refused(refused), "it could not go on"),
                    ),
                });
            }
            Incoming::Answer { id, result } => {
                if let Some(message) = self.steered.remove(&id)
                    && result.is_ok_and(|answer| {
                        answer.get("outcome").and_then(Value::as_str) == Some("injected")
                    })
                {
                    self.live.told = Some(message);
                    self.say(Delta::Injected(message)).await;
                }
            }
            Incoming::Note { method, params } => self.note(&method, &params).await,
            Incoming::Request { id, method, params } => self.request(id, &method, &params).await,
        }
        for entry in self.live.terminals.observed() {
            self.say(Delta::Observed(entry)).await;
        }
        None
    }

    /// The agent has ended its turn.
    async fn stopped(&mut self, answer: &Value) -> End {
        self.count(answer);
        if self.usage.input_tokens.is_some() || self.usage.output_tokens.is_some() {
            let usage = self.usage.clone();
            self.say(Delta::Usage(usage)).await;
        }
        match answer.get("stopReason").and_then(Value::as_str) {
            Some("cancelled") => End::Cancelled,
            Some("max_tokens" | "max_turn_requests") => End::Done(Stop::MaxTokens),
            Some("refusal") => End::Done(Stop::Refused),
            _ => End::Done(Stop::EndTurn),
        }
    }

    fn count(&mut self, answer: &Value) {
        let number =
            |paths: [&str; 2]| paths.iter().find_map(|path| answer.pointer(path)?.as_u64());
        self.usage.input_tokens =
            number(["/usage/inputTokens", "/_meta/quota/token_count/input_tokens"]);
        self.usage.output_tokens =
            number(["/usage/outputTokens", "/_meta/quota/token_count/output_tokens"]);
        self.usage.cached_tokens =
            number(["/usage/cachedReadTokens", "/_meta/quota/token_count/cached_tokens"]);
    }

    async fn note(&mut self, method: &str, params: &Value) {
        match method {
            "session/update"
                if params.get("sessionId").and_then(Value::as_str)
                    == Some(self.live.conversation.as_str()) =>
            {
                let update = params.get("update").cloned().unwrap_or_default();
                self.update(&update).await;
            }
            "$/cancel_request" => {
                // It does not want to know any more.
                let gone = params.get("requestId");
                self.live.asks.retain(|ask| Some(&ask.id) != gone);
                if self.live.asks.is_empty() {
                    self.gathering = None;
                }
            }
            _ => {}
        }
    }

    async fn update(&mut self, update: &Value) {
        let text = || {
            update.pointer("/content/text").and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        match update.get("sessionUpdate").and_then(Value::as_str).unwrap_or_default() {
            "agent_message_chunk" => {
                let text = if update.pointer("/content/type") == Some(&json!("text")) {
                    text()
                } else {
                    other(update.get("content"))
                };
                let message = update.get("messageId").and_then(Value::as_str).map(str::to_owned);
                if message != self.live.speaking
                    && message.is_some()
                    && self.live.speaking.is_some()
                {
                    self.say(Delta::Text("\n\n".to_owned())).await;
                }
                self.live.speaking = message.or_else(|| self.live.speaking.take());
                if !text.is_empty() {
                    self.say(Delta::Text(text)).await;
                }
            }
            "agent_thought_chunk" => self.say(Delta::Thought { text: text(), raw: None }).await,
            "tool_call" | "tool_call_update" => {
                self.live.speaking = None;
                for delta in self.live.calls.take(update, &self.live.dir) {
                    self.say(delta).await;
                }
            }
            "plan" => {
                if let Some(entries) = update.get("entries") {
                    self.say(Delta::Plan(entries.clone())).await;
                }
            }
            // Running totals of the agent's own window; what the turn cost comes with its end.
            "usage_update" => {}
            // What the user said is known; the rest is about the agent itself.
            _ => self.live.learn(update),
        }
    }

    async fn request(&mut self, id: Value, method: &str, params: &Value) {
        match method {
            "session/request_permission" => self.permission(id, params).await,
            "elicitation/create" => match Ask::question(id.clone(), params) {
                Some(ask) => self.ask(ask).await,
                None => self.live.peer.answer(&id, json!({"action": "decline"})).await,
            },
            "fs/read_text_file" | "fs/write_text_file" => {
                match FileRequest::parse(method, params) {
                    Some(request) if request.is_inside(&self.live.dir) => {
                        self.serve_file(&id, &request).await
                    }
                    Some(request) => self.ask(Ask::file(id, request)).await,
                    None => {
                        self.live
                            .peer
                            .refuse(&id, INVALID_PARAMS, "`path` or `content` is missing")
                            .await
                    }
                }
            }
            "terminal/create"
            | "terminal/output"
            | "terminal/kill"
            | "terminal/release"
            | "terminal/wait_for_exit" => {
                self.terminal(id, method, params).await;
            }
            _ => self.live.peer.refuse(&id, METHOD_NOT_FOUND, "ctx does not serve this").await,
        }
    }

    async fn permission(&mut self, id: Value, params: &Value) {
        let Some(call) = params.get("toolCall") else {
            self.live.peer.refuse(&id, INVALID_PARAMS, "`toolCall` is missing").await;
            return;
        };
        for delta in self.live.calls.take_asked(call, &self.live.dir) {
            self.say(delta).await;
        }
        let name = self
            .live
            .calls
            .name(call.get("toolCallId").and_then(Value::as_str).unwrap_or_default());
        let Some(ask) = Ask::permission(id.clone(), params, name) else {
            self.live.peer.refuse(&id, INVALID_PARAMS, "`options` is missing").await;
            return;
        };
        self.ask(ask).await;
    }

    async fn ask(&mut self, ask: Ask) {
        if self.stopping.is_some() {
            self.live.nobody_answers(&ask).await;
            return;
        }
        let made = ask
            .decided(&self.live.decided)
            .and_then(|(at, made)| Some((at, ask.offer_of_kind(&made.kind)?.to_owned())));
        if let Some((at, option)) = made {
            // Decided before the process ended; it holds once.
            self.live.decided.remove(at);
            self.answer(&ask, &option).await;
            return;
        }
        self.live.asks.push(ask);
        self.gathering.get_or_insert_with(|| Instant::now() + GATHERING);
    }

    async fn serve_file(&mut self, id: &Value, request: &FileRequest) {
        match request.serve() {
            Ok(answer) => {
                if let Some(entry) = self.live.calls.served(request, &self.live.dir) {
                    self.say(Delta::Observed(entry)).await;
                }
                self.live.peer.answer(id, answer).await;
            }
            Err(error)
                if error.kind() == std::io::ErrorKind::NotFound
                    && self.live.known.wants_missing_files_empty() =>
            {
                self.live.peer.answer(id, json!({"content": ""})).await;
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.live
                    .peer
                    .refuse(id, -32002, &format!("Resource not found: {}", request.path.display()))
                    .await;
            }
            Err(error) => {
                self.live
                    .peer
                    .refuse(id, INTERNAL_ERROR, &format!("{}: {error}", request.path.display()))
                    .await
            }
        }
    }

    async fn terminal(&mut self, id: Value, method: &str, params: &Value) {
        let live = &mut *self.live;
        let answer = match method {
            "terminal/create" => live.terminals.create(params, &live.dir),
            "terminal/output" => live.terminals.output(params),
            "terminal/kill" => live.terminals.kill(params),
            "terminal/release" => live.terminals.release(params),
            _ => match live.terminals.wait(params) {
                Ok(exit) => return live.peer.answer_later(id, exit),
                Err(why) => Err(why),
            },
        };
        match answer {
            Ok(answer) => live.peer.answer(&id, answer).await,
            Err(why) => live.peer.refuse(&id, INVALID_PARAMS, &why).await,
        }
    }

    async fn say(&mut self, delta: Delta) {
        // Nobody listening means that the run is over, which the link's cancel tells as well.
        let _ = self.link.say(delta).await;
    }
}

impl Live {
    /// Tells the agent to stop: nobody answers what it asked.
    pub(super) async fn stop(&mut self) {
        for ask in std::mem::take(&mut self.asks) {
            self.nobody_answers(&ask).await;
        }
        self.peer.tell("session/cancel", json!({"sessionId": self.conversation})).await;
    }

    /// A request that no person will see.
    async fn nobody_answers(&self, ask: &Ask) {
        match permission_requests::cancelled(&ask.what) {
            Some(outcome) => self.peer.answer(&ask.id, outcome).await,
            None => self.peer.refuse(&ask.id, INVALID_PARAMS, "nobody allowed it").await,
        }
    }

    /// Ends a prompt that nobody wants any more, and the process with it.
    pub(super) async fn abandon(mut self) {
        self.stop().await;
        let prompt = self.prompt;
        let stopped = async {
            while let Some(incoming) = self.peer.next().await {
                if matches!(incoming, Incoming::Answer { id, .. } if Some(id) == prompt) {
                    return;
                }
                self.overhear(incoming).await;
            }
        };
        let _ = tokio::time::timeout(STOPPING, stopped).await;
        self.end().await;
    }
}

/// Content that is not text, in words.
fn other(content: Option<&Value>) -> String {
    let text = |path: &str| content.and_then(|content| content.pointer(path)?.as_str());
    match text("/type") {
        Some("resource_link") => format!(
            "[{}]({})",
            text("/name").unwrap_or("resource"),
            text("/uri").unwrap_or_default()
        ),
        Some("resource") => text("/resource/text").unwrap_or("[a resource]").to_owned(),
        Some(kind) => format!("[{kind}]"),
        None => String::new(),
    }
}

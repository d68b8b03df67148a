//! The demo agent: a deterministic offline agent without a model.
//!
//! It demonstrates ctx without an API key: streaming, history, tools, permissions, questions,
//! failures, steering and cancellation. Its answers say that there is no model. `demo_command`
//! defines the keywords; the keyword `help` lists them.

mod demo_command;
mod word_stream;

#[cfg(test)]
mod demo_tests;

use std::time::Duration;

use async_trait::async_trait;
use ctx_core::message::{Part, Role, ToolStatus};
use ctx_core::projection::is_mark;
use ctx_core::suspension::{Awaited, Kind, Offer};
use ctx_core::text_limits::one_line;
use ctx_engine::provider::{
    About, Delta, End, Failure, FailureClass, Link, Provider, ProviderFeatures, Request, Stop,
};
use serde_json::json;

use demo_command::DemoCommand;
use word_stream::{Stopped, WordStream};

/// Default pause after each word.
const PAUSE: Duration = Duration::from_millis(15);
/// Pause after each word of `slow`, independent of the configured pause.
const SLOW_PAUSE: Duration = Duration::from_millis(100);
/// Default context window in tokens; a word counts as a token.
const CONTEXT_WINDOW: u64 = 32_768;
/// Repeated by `slow` and `long`.
const FILLER: &str = "the demo agent of ctx has no model and says these words only to show how \
    a long answer arrives word by word";
/// Maximum length of a quoted message.
const QUOTE_MAX_CHARS: usize = 80;

const HELP: &str = "I am the demo agent of ctx. I have no model: I look for keywords in your \
    message.\n\n\
    - `think`: I think before I answer.\n\
    - `tool`: I use a tool of my own. If you name a tool of yours, I call it, with the JSON \
    object in your message.\n\
    - `ask me`: I end with a question.\n\
    - `permission`: I wait for your permission.\n\
    - `fail` or `fail late`: I fail.\n\
    - `slow` or `slow 100`: I write slowly, so that you can steer, interrupt or cancel me.\n\
    - `long 500`: I write many words at once.\n\
    - `hang`: I write nothing until you cancel.\n\
    - `summarise`: I summarise the conversation.\n\
    - `help`: I show this list.";

/// The demo agent.
#[derive(Debug, Clone)]
pub struct Demo {
    pause: Duration,
    context_window: u64,
}

impl Default for Demo {
    fn default() -> Self {
        Self::new(PAUSE)
    }
}

impl Demo {
    /// Waits for `pause` after each word.
    pub const fn new(pause: Duration) -> Self {
        Self { pause, context_window: CONTEXT_WINDOW }
    }

    /// Sets the reported context window. A small one triggers compaction early.
    pub const fn with_context_window(mut self, tokens: u64) -> Self {
        self.context_window = tokens;
        self
    }

    async fn answer(&self, request: &Request, stream: &mut WordStream) -> Result<End, Stopped> {
        let done = End::Done(Stop::EndTurn);
        match demo_command::parse(request) {
            DemoCommand::Chosen(choice) => {
                let text = format!("You chose “{choice}”. The demo agent continues.");
                self.write(stream, &text, done).await
            }
            DemoCommand::Results(results) => {
                let text = format!("The tool says: {}", results.join("; "));
                self.write(stream, &text, done).await
            }
            DemoCommand::Summarise => self.write(stream, &summary(request), done).await,
            DemoCommand::Call(calls) => self.call(request, stream, calls).await,
            DemoCommand::Permission => {
                let text = "I am the demo agent, and I need your permission.";
                self.write(stream, text, permission()).await
            }
            DemoCommand::Fail => Ok(failure()),
            DemoCommand::FailLate => {
                self.write(stream, "This is the text before the failure.", failure()).await
            }
            DemoCommand::Hang => Err(stream.hang().await),
            DemoCommand::Slow(words) => {
                stream.write(&filler(words), SLOW_PAUSE).await.map(|()| done)
            }
            DemoCommand::Long(words) => {
                stream.write(&filler(words), Duration::ZERO).await.map(|()| done)
            }
            DemoCommand::Think => {
                let thought = "The user asked me to think. A demo agent has little to think about.";
                stream.think(thought, self.pause).await?;
                let text = "I thought about it as well as a demo agent can.";
                self.write(stream, text, done).await
            }
            DemoCommand::Clock => self.use_clock(request, stream).await,
            DemoCommand::Ask => {
                let text = "Here is the question that you asked for.\n\n\
                    Which colour do you like better, red or blue?";
                self.write(stream, text, done).await
            }
            DemoCommand::Help => self.write(stream, HELP, done).await,
            DemoCommand::Greet => self.write(stream, &greeting(request), done).await,
        }
    }

    async fn write(&self, stream: &mut WordStream, text: &str, end: End) -> Result<End, Stopped> {
        stream.write(text, self.pause).await.map(|()| end)
    }

    /// Calls tools of the client, which executes them while the run is suspended.
    async fn call(
        &self,
        request: &Request,
        stream: &mut WordStream,
        calls: Vec<(String, serde_json::Value)>,
    ) -> Result<End, Stopped> {
        stream.write("I call the tool that you named.", self.pause).await?;
        for (number, (name, params)) in (calls_before(request) + 1..).zip(calls) {
            stream.send(Delta::ToolCall { id: call_id(number), name, params }).await?;
        }
        Ok(End::Done(Stop::ToolCalls))
    }

    /// Uses a tool of its own. The clock always shows the same time, so that answers are
    /// reproducible.
    async fn use_clock(&self, request: &Request, stream: &mut WordStream) -> Result<End, Stopped> {
        let id = call_id(calls_before(request) + 1);
        stream.write("I look at my clock.", self.pause).await?;
        let call = Delta::ToolCall {
            id: id.clone(),
            name: "demo_clock".to_owned(),
            params: json!({ "zone": "UTC" }),
        };
        stream.send(call).await?;
        stream.send(Delta::ToolStatus { id: id.clone(), status: ToolStatus::Running }).await?;
        stream.send(Delta::ToolResult { id, content: "12:00".to_owned(), is_error: false }).await?;
        self.write(
            stream,
            "Done. My clock shows 12:00, as it always does in a demo.",
            End::Done(Stop::EndTurn),
        )
        .await
    }
}

#[async_trait]
impl Provider for Demo {
    fn about(&self) -> About {
        About {
            kind: "demo",
            can: ProviderFeatures { steer: true, tools: true, ..ProviderFeatures::default() },
            models: vec!["demo".to_owned()],
            model: Some("demo".to_owned()),
            context_window: self.context_window,
            unavailable: None,
            ..About::default()
        }
    }

    async fn run(&self, request: Request, link: Link) -> End {
        let mut stream = WordStream::new(link);
        let end = self.answer(&request, &mut stream).await.unwrap_or(End::Cancelled);
        stream.send_usage(words_in(&request)).await;
        end
    }
}

fn greeting(request: &Request) -> String {
    let text = demo_command::newest_text(&request.messages);
    let count = request.messages.iter().filter(|message| !is_mark(message)).count();
    let before = count - demo_command::newest(&request.messages).len();
    let history = match before {
        0 => "This is the first message of our conversation.".to_owned(),
        1 => "I see 1 earlier message of our conversation.".to_owned(),
        count => format!("I see {count} earlier messages of our conversation."),
    };
    format!(
        "Hello! I am the demo agent of ctx; there is no model behind me. You said: “{}”. \
         {history}\n\n\
         Try `think`, `tool`, `ask me`, `permission`, `fail`, `slow`, `long 500` or `hang`. \
         `help` explains them.",
        one_line(&text, QUOTE_MAX_CHARS)
    )
}

fn summary(request: &Request) -> String {
    let texts: Vec<String> = request
        .messages
        .iter()
        .filter(|message| message.role == Role::User && !is_mark(message))
        .map(demo_command::text_of)
        .filter(|text| !text.is_empty())
        .collect();
    // The newest message is the request for the summary.
    let (first, last) = match texts.as_slice() {
        [first, .., last, _] => (first.as_str(), last.as_str()),
        [only, _] => (only.as_str(), only.as_str()),
        _ => ("nothing", "nothing"),
    };
    let (first, last) = (one_line(first, QUOTE_MAX_CHARS), one_line(last, QUOTE_MAX_CHARS));
    format!(
        "A summary by the demo agent of {} messages. The first was “{first}”, the last “{last}”.",
        request.messages.len()
    )
}

fn permission() -> End {
    let offer = |id: &str, label: &str| Offer {
        id: id.to_owned(),
        label: label.to_owned(),
        kind: Some(id.to_owned()),
    };
    End::Suspended(vec![Awaited {
        kind: Kind::Permission,
        tool_calls: Vec::new(),
        options: vec![offer("allow_once", "Allow once"), offer("reject_once", "Reject once")],
        question: Some("May the demo agent pretend to write demo.txt?".to_owned()),
        provider_state: None,
    }])
}

fn failure() -> End {
    End::Failed(Failure::new(
        "demo_failure",
        FailureClass::Permanent,
        "The demo agent failed, because it was asked to.",
    ))
}

fn filler(words: usize) -> String {
    let words: Vec<&str> = FILLER.split(' ').cycle().take(words).collect();
    words.join(" ")
}

fn call_id(number: usize) -> String {
    format!("call_{number}")
}

fn calls_before(request: &Request) -> usize {
    let parts = request.messages.iter().flat_map(|message| &message.content);
    parts.filter(|part| matches!(part, Part::ToolCall { .. })).count()
}

fn words_in(request: &Request) -> u64 {
    let count = |text: &str| text.split_whitespace().count() as u64;
    let messages: u64 =
        request.messages.iter().map(|message| count(&demo_command::text_of(message))).sum();
    messages + request.system.as_deref().map_or(0, count)
}

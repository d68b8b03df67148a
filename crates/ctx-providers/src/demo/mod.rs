//! The demo agent: deterministic, offline, and plain about having no model behind it.
//!
//! Whoever has no agent and no key can try all of ctx with it: streaming, history, tools, permissions, questions,
//! failures, steering and cancelling. `help` says what it does for which word; `wish` owns those words.

mod word_stream;
mod demo_command;

#[cfg(test)]
mod demo_tests;

use std::time::Duration;

use async_trait::async_trait;
use ctx_core::message::{Part, Role, ToolStatus};
use ctx_core::suspension::{Awaited, Kind, Offer};
use ctx_core::text::one_line;
use ctx_engine::provider::{About, Can, Class, Delta, End, Failure, Link, Provider, Request, Stop};
use serde_json::json;

use word_stream::{Stopped, Voice};
use demo_command::Wish;

/// The pause after each word, unless told otherwise.
const PACE: Duration = Duration::from_millis(15);
/// The pause after each word of `slow`, whatever it was told: there it is the point.
const SLOW_PACE: Duration = Duration::from_millis(100);
/// How many words it pretends to remember.
const CONTEXT_WINDOW: u64 = 32_768;
/// What it repeats when it is to say many words.
const FILLER: &str = "the demo agent of ctx has no model and says these words only to show how a long answer arrives bit by bit";
/// How much of a message it quotes.
const QUOTE_MAX_CHARS: usize = 80;

const HELP: &str = "I am the demo agent of ctx. There is no model behind me: I look for a few words in your message.\n\n\
    - `think` and I think before I answer.\n\
    - `tool` and I use a tool of my own; name a tool of yours, with a JSON object, and I call it.\n\
    - `ask me` and I end with a question.\n\
    - `permission` and I wait for your permission.\n\
    - `fail` or `fail late` and I fail.\n\
    - `slow`, or `slow 100`, and I speak slowly, so that you can steer, interrupt or cancel me.\n\
    - `long 500` and I say many words at once.\n\
    - `hang` and I say nothing until you cancel.\n\
    - `summarise` and I say in short what was said.\n\
    - `help` for this list.";

/// The demo agent.
#[derive(Debug, Clone)]
pub struct Demo {
    pace: Duration,
    context_window: u64,
}

impl Default for Demo {
    fn default() -> Self {
        Self::new(PACE)
    }
}

impl Demo {
    /// Pauses for `pace` after each word.
    pub const fn new(pace: Duration) -> Self {
        Self { pace, context_window: CONTEXT_WINDOW }
    }

    /// Says that so many tokens fit, so that a compaction comes sooner.
    pub const fn with_context_window(mut self, tokens: u64) -> Self {
        self.context_window = tokens;
        self
    }

    async fn answer(&self, request: &Request, voice: &mut Voice) -> Result<End, Stopped> {
        let done = End::Done(Stop::EndTurn);
        match demo_command::of(request) {
            Wish::Chosen(choice) => self.say(voice, &format!("You chose “{choice}”. The demo agent goes on."), done).await,
            Wish::Answered(results) => self.say(voice, &format!("The tool says: {}", results.join("; ")), done).await,
            Wish::Summarise => self.say(voice, &summary(request), done).await,
            Wish::Call(calls) => self.call(request, voice, calls).await,
            Wish::Permission => self.say(voice, "I am the demo agent, and this needs your permission.", permission()).await,
            Wish::Fail => Ok(failure()),
            Wish::FailLate => self.say(voice, "These are the words before the failure.", failure()).await,
            Wish::Hang => Err(voice.hang().await),
            Wish::Slow(words) => voice.say(&filler(words), SLOW_PACE).await.map(|()| done),
            Wish::Long(words) => voice.say(&filler(words), Duration::ZERO).await.map(|()| done),
            Wish::Think => {
                voice.think("The user wants me to think. A demo agent has little to think about.", self.pace).await?;
                self.say(voice, "I thought about it as well as a demo agent can.", done).await
            }
            Wish::Clock => self.look_at_clock(request, voice).await,
            Wish::Ask => {
                self.say(voice, "The demo agent asks, as you wished.\n\nWhich colour do you like better, red or blue?", done).await
            }
            Wish::Help => self.say(voice, HELP, done).await,
            Wish::Greet => self.say(voice, &greeting(request), done).await,
        }
    }

    async fn say(&self, voice: &mut Voice, text: &str, end: End) -> Result<End, Stopped> {
        voice.say(text, self.pace).await.map(|()| end)
    }

    /// Calls tools of the client, which answers while the run is suspended.
    async fn call(
        &self,
        request: &Request,
        voice: &mut Voice,
        calls: Vec<(String, serde_json::Value)>,
    ) -> Result<End, Stopped> {
        voice.say("I call what you named.", self.pace).await?;
        for (number, (name, params)) in (calls_before(request) + 1..).zip(calls) {
            voice.put(Delta::ToolCall { id: call_id(number), name, params }).await?;
        }
        Ok(End::Done(Stop::ToolCalls))
    }

    /// Uses a tool of its own. Its clock stands still: the same message always gives the same answer.
    async fn look_at_clock(&self, request: &Request, voice: &mut Voice) -> Result<End, Stopped> {
        let id = call_id(calls_before(request) + 1);
        voice.say("I look at my clock.", self.pace).await?;
        let call = Delta::ToolCall {
            id: id.clone(),
            name: "demo_clock".to_owned(),
            params: json!({ "zone": "UTC" }),
        };
        voice.put(call).await?;
        voice.put(Delta::ToolStatus { id: id.clone(), status: ToolStatus::Running }).await?;
        voice.put(Delta::ToolResult { id, content: "12:00".to_owned(), is_error: false }).await?;
        self.say(
            voice,
            "My clock says 12:00, as it always does in a demo.",
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
            can: Can { steer: true, tools: true, ..Can::default() },
            models: vec!["demo".to_owned()],
            model: Some("demo".to_owned()),
            context_window: self.context_window,
            unavailable: None,
            ..About::default()
        }
    }

    async fn run(&self, request: Request, link: Link) -> End {
        let mut voice = Voice::new(link);
        let end = self.answer(&request, &mut voice).await.unwrap_or(End::Cancelled);
        voice.tell_usage(words_in(&request)).await;
        end
    }
}

fn greeting(request: &Request) -> String {
    let text = demo_command::heard(&request.messages);
    let before =
        request.messages.iter().rev().skip_while(|message| message.role == Role::User).count();
    let history = match before {
        0 => "This is the first message that I see of our conversation.".to_owned(),
        1 => "I see 1 earlier message of our conversation.".to_owned(),
        many => format!("I see {many} earlier messages of our conversation."),
    };
    format!(
        "Hello! I am the demo agent of ctx; there is no model behind me. You said: “{}”. {history}\n\n\
         Try `think`, `tool`, `ask me`, `permission`, `fail`, `slow`, `long 500`, `hang`, or `help` to hear more.",
        one_line(&text, QUOTE_MAX_CHARS)
    )
}

fn summary(request: &Request) -> String {
    let said: Vec<String> = request
        .messages
        .iter()
        .filter(|message| message.role == Role::User)
        .map(demo_command::words_of)
        .filter(|text| !text.is_empty())
        .collect();
    // The newest is the wish for a summary itself.
    let (first, last) = match said.as_slice() {
        [first, .., last, _] => (first.as_str(), last.as_str()),
        [only, _] => (only.as_str(), only.as_str()),
        _ => ("nothing", "nothing"),
    };
    let (first, last) = (one_line(first, QUOTE_MAX_CHARS), one_line(last, QUOTE_MAX_CHARS));
    format!(
        "A summary by the demo agent of {} messages. It began with “{first}” and came to “{last}”.",
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
        Class::GiveUp,
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
        request.messages.iter().map(|message| count(&demo_command::words_of(message))).sum();
    messages + request.system.as_deref().map_or(0, count)
}

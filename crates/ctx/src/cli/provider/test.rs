//! `ctx provider test NAME`: one question, with nothing stored; what worked, and how long it took.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ctx_engine::core::id::{MessageId, RunId, SessionId};
use ctx_engine::core::message::{Message, Part, Role, Source};
use ctx_engine::core::text::one_line;
use ctx_engine::core::time::Timestamp;
use ctx_engine::core::turn::Usage;
use ctx_engine::provider::{Class, DELTAS_MAX, Delta, End, Failure, Link, Request, STEERS_MAX};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::problem::Problem;
use crate::providers::assemble;

use super::super::Context;
use super::super::output::BOLD;

/// What is asked.
const QUESTION: &str = "Answer with the single word: ready";
/// The longest that an answer is waited for: an agent may have to be fetched first.
const PATIENCE: Duration = Duration::from_secs(180);
/// The most of an answer that is kept.
const WORDS_MAX_CHARS: usize = 200;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Whom; `ctx provider list` lists them
    name: String,
    /// With which model [default: its own choice]
    #[arg(long)]
    model: Option<String>,
}

/// What was heard, and when.
#[derive(Default)]
struct Heard {
    start: Option<Duration>,
    first_word: Option<Duration>,
    whole: Duration,
    words: String,
    usage: Option<Usage>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let assembled = assemble(&context.config()?, &context.data)?;
    let Some(provider) = assembled.providers.all.get(&args.name).cloned() else {
        let known: Vec<&str> = assembled.providers.all.keys().map(String::as_str).collect();
        return Err(Problem::wrong_use(
            "unknown_provider",
            format!("there is no provider `{}`", args.name),
        )
        .hint(format!("there are {}", known.join(", "))));
    };
    let about = provider.about();
    if let Some(why) = about.unavailable {
        let hint = format!(
            "do that, or look at `providers.{}` in ctx.toml; then test it again",
            args.name
        );
        return Err(Problem::failed(
            "provider_unavailable",
            format!("{} cannot be used: {why}", args.name),
        )
        .hint(hint));
    }
    let request = request(args);
    let session = request.session;
    let (out, mut deltas) = mpsc::channel(DELTAS_MAX);
    let (_steers, steers) = mpsc::channel(STEERS_MAX);
    let cancel = CancellationToken::new();
    let link = Link { out, cancel: cancel.clone(), steers, tools: mpsc::channel(1).0 };
    let (asked, began) = (provider.clone(), Instant::now());
    let answering = tokio::spawn(async move { asked.run(request, link).await });
    let mut heard = Heard::default();
    let listened = tokio::time::timeout(PATIENCE, async {
        while let Some(delta) = deltas.recv().await {
            heard.take(delta, began.elapsed());
        }
        answering.await
    });
    let end = match listened.await {
        Ok(Ok(end)) => end,
        Ok(Err(_)) => {
            End::Failed(Failure::new("provider_panicked", Class::GiveUp, "the provider broke down"))
        }
        Err(_) => {
            cancel.cancel();
            let message = format!("it did not answer in {} s", PATIENCE.as_secs());
            End::Failed(Failure::new("timeout", Class::RetryLater, message))
        }
    };
    heard.whole = began.elapsed();
    provider.rest(session).await;
    conclude(context, args, &heard, end)
}

fn request(args: &Args) -> Request {
    let content = vec![Part::Text { text: QUESTION.to_owned() }];
    let id = Ulid::new();
    let at = Timestamp(i64::try_from(id.timestamp_ms()).unwrap_or_default());
    Request {
        session: SessionId(id),
        run: RunId(Ulid::new()),
        working_dir: std::env::current_dir().ok().map(|dir| dir.to_string_lossy().into_owned()),
        model: args.model.clone(),
        system: None,
        messages: vec![Message {
            id: MessageId(id),
            role: Role::User,
            source: Some(Source::Human),
            content,
            created_at: at,
        }],
        images: BTreeMap::new(),
        tools: Vec::new(),
        options: BTreeMap::new(),
        resumes: Vec::new(),
        open: 0,
        own: None,
    }
}

impl Heard {
    fn take(&mut self, delta: Delta, at: Duration) {
        self.start.get_or_insert(at);
        match delta {
            Delta::Text(text) => {
                self.first_word.get_or_insert(at);
                self.words.extend(
                    text.chars().take(WORDS_MAX_CHARS.saturating_sub(self.words.chars().count())),
                );
            }
            Delta::Usage(usage) => self.usage = Some(usage),
            _ => {}
        }
    }
}

fn conclude(context: &Context, args: &Args, heard: &Heard, end: End) -> Result<(), Problem> {
    let said = heard.words.trim();
    let name = &args.name;
    match end {
        End::Done(_) if !said.is_empty() => {}
        End::Done(_) => {
            return Err(failed(heard, "empty_answer", format!("{name} answered without a word"))
                .hint(
                    "try another model with `--model MODEL`, or set `model` in the configuration",
                ));
        }
        End::Failed(failure) => {
            return Err(failed(heard, &failure.code, format!("{name}: {}", failure.message))
                .hint(next_step(&failure, name)));
        }
        End::Suspended(_) => {
            return Err(failed(
                heard,
                "asks_first",
                format!("{name} asks something before it answers"),
            )
            .hint(format!("talk to it: `ctx run --provider {name} TEXT`")));
        }
        End::Cancelled => {
            return Err(failed(heard, "cancelled", format!("{name} stopped by itself"))
                .hint("test it again"));
        }
    }
    context.out.say(
        || {
            json!({
                "provider": name, "ok": true, "answer": said, "start_ms": ms(heard.start), "first_word_ms": ms(heard.first_word),
                "whole_ms": ms(Some(heard.whole)), "usage": heard.usage,
            })
        },
        || {
            let seconds = |at: Option<Duration>| at.map_or_else(|| "-".to_owned(), |at| format!("{:.2} s", at.as_secs_f64()));
            let count = |tokens: Option<u64>| tokens.map_or_else(|| "?".to_owned(), |tokens| tokens.to_string());
            let usage = heard.usage.as_ref().map_or_else(
                || "not told".to_owned(),
                |usage| format!("{} tokens in, {} out", count(usage.input_tokens), count(usage.output_tokens)),
            );
            [
                format!("{BOLD}{name}{BOLD:#} answers: {}", one_line(said, WORDS_MAX_CHARS)),
                format!("start       {}", seconds(heard.start)),
                format!("first word  {}", seconds(heard.first_word)),
                format!("whole       {}", seconds(Some(heard.whole))),
                format!("usage       {usage}"),
            ]
            .join("\n")
        },
    )
}

fn ms(at: Option<Duration>) -> Option<u128> {
    at.map(|at| at.as_millis())
}

fn failed(heard: &Heard, code: &str, message: String) -> Problem {
    let problem = Problem::failed(code.to_owned(), message);
    problem.with("start_ms", json!(ms(heard.start))).with("whole_ms", json!(ms(Some(heard.whole))))
}

/// What helps, by what the failure is.
fn next_step(failure: &Failure, name: &str) -> String {
    match (failure.class, failure.code.as_str()) {
        (Class::Auth, _) => format!(
            "check the key or the login of `{name}`: `ctx provider list` says which variable holds its key"
        ),
        (_, "unreachable") => {
            format!("start its server, or correct `base_url` of `providers.{name}` in ctx.toml")
        }
        (_, "model_not_found") => format!(
            "name another with `--model MODEL`, or set `model` of `providers.{name}` in ctx.toml"
        ),
        (_, "quota_exceeded") => "its account has nothing left: look there".to_owned(),
        (Class::RetryLater | Class::RetryNow, _) => match failure.retry_after {
            Some(wait) => format!("try again in {} s", wait.as_secs()),
            None => "try again in a while".to_owned(),
        },
        (Class::Overflow, _) => {
            "its model takes less than this one question: choose another with `--model MODEL`"
                .to_owned()
        }
        (Class::GiveUp, _) => format!(
            "look at `providers.{name}` in ctx.toml: kind, base_url, api and model must fit its server"
        ),
    }
}

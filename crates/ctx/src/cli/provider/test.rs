//! `ctx provider test NAME`: send one question to a provider and report the timings. Nothing is
//! stored.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ctx_engine::core::id::{MessageId, RunId, SessionId};
use ctx_engine::core::message::{Message, Part, Role, Source};
use ctx_engine::core::text_limits::one_line;
use ctx_engine::core::time::Timestamp;
use ctx_engine::core::turn::Usage;
use ctx_engine::provider::{
    DELTAS_MAX, Delta, End, Failure, FailureClass, Link, Request, STEERS_MAX,
};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::problem::Problem;
use crate::provider_setup::assemble;

use super::super::Context;
use super::super::output::BOLD;

const QUESTION: &str = "Answer with the single word: ready";
/// Long, because some agents download themselves on the first start.
const TIMEOUT: Duration = Duration::from_secs(180);
/// Characters of the answer that are kept.
const ANSWER_MAX_CHARS: usize = 200;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Test this provider; list the names with `ctx provider list`
    name: String,
    /// Use this model [default: the provider's]
    #[arg(long)]
    model: Option<String>,
}

/// The answer, and the time of its events since the start of the request.
#[derive(Default)]
struct TestResult {
    first_delta: Option<Duration>,
    first_text: Option<Duration>,
    total: Duration,
    answer: String,
    usage: Option<Usage>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let assembled = assemble(&context.config()?, &context.data)?;
    let Some(provider) = assembled.providers.all.get(&args.name).cloned() else {
        let known: Vec<&str> = assembled.providers.all.keys().map(String::as_str).collect();
        return Err(Problem::wrong_use(
            "unknown_provider",
            format!("unknown provider `{}`: the providers are {}", args.name, known.join(", ")),
        )
        .hint("list the providers with `ctx provider list`"));
    };
    let about = provider.about();
    if let Some(why) = about.unavailable {
        let hint = format!("check `providers.{}` in ctx.toml", args.name);
        return Err(Problem::failed(
            "provider_unavailable",
            format!("provider `{}` is not available: {why}", args.name),
        )
        .hint(hint));
    }
    let request = request(args);
    let session = request.session;
    let (out, mut deltas) = mpsc::channel(DELTAS_MAX);
    let (_steers, steers) = mpsc::channel(STEERS_MAX);
    let cancel = CancellationToken::new();
    let link = Link {
        out,
        cancel: cancel.clone(),
        steers,
        tools: mpsc::channel(1).0,
        pace: std::sync::Arc::default(),
    };
    let (runner, began) = (provider.clone(), Instant::now());
    let running = tokio::spawn(async move { runner.run(request, link).await });
    let mut result = TestResult::default();
    let finished = tokio::time::timeout(TIMEOUT, async {
        while let Some(delta) = deltas.recv().await {
            result.record(delta, began.elapsed());
        }
        running.await
    });
    let end = match finished.await {
        Ok(Ok(end)) => end,
        Ok(Err(_)) => End::Failed(Failure::new(
            "provider_panicked",
            FailureClass::Permanent,
            "the provider panicked",
        )),
        Err(_) => {
            cancel.cancel();
            let message = format!("no answer within {} s", TIMEOUT.as_secs());
            End::Failed(Failure::new("timeout", FailureClass::RetryLater, message))
        }
    };
    result.total = began.elapsed();
    provider.rest(session).await;
    report(context, args, &result, end)
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
        tool_rights: Vec::new(),
    }
}

impl TestResult {
    fn record(&mut self, delta: Delta, at: Duration) {
        self.first_delta.get_or_insert(at);
        match delta {
            Delta::Text(text) => {
                self.first_text.get_or_insert(at);
                let left = ANSWER_MAX_CHARS.saturating_sub(self.answer.chars().count());
                self.answer.extend(text.chars().take(left));
            }
            Delta::Usage(usage) => self.usage = Some(usage),
            _ => {}
        }
    }
}

fn report(context: &Context, args: &Args, result: &TestResult, end: End) -> Result<(), Problem> {
    let answer = result.answer.trim();
    let name = &args.name;
    match end {
        End::Done(_) if !answer.is_empty() => {}
        End::Done(_) => {
            return Err(failed(
                result,
                "empty_answer",
                format!("{name} failed: the answer is empty"),
            )
            .hint("try another model with `--model MODEL`"));
        }
        End::Failed(failure) => {
            return Err(failed(
                result,
                &failure.code,
                format!("{name} failed: {}", failure.message),
            )
            .hint(failure_hint(&failure, name)));
        }
        End::Suspended(_) => {
            return Err(failed(
                result,
                "asks_first",
                format!("{name} did not answer: it waits for a permission or an answer"),
            )
            .hint(format!("use it interactively with `ctx run --provider {name} TEXT`")));
        }
        End::Cancelled => {
            return Err(failed(
                result,
                "cancelled",
                format!("{name} failed: it cancelled the run"),
            )
            .hint(format!("repeat `ctx provider test {name}`")));
        }
    }
    context.out.print(
        || {
            json!({
                "provider": name,
                "ok": true,
                "answer": answer,
                "start_ms": ms(result.first_delta),
                "first_word_ms": ms(result.first_text),
                "whole_ms": ms(Some(result.total)),
                "usage": result.usage,
            })
        },
        || {
            let seconds = |at: Option<Duration>| {
                at.map_or_else(|| "-".to_owned(), |at| format!("{:.2} s", at.as_secs_f64()))
            };
            let count = |tokens: Option<u64>| {
                tokens.map_or_else(|| "unknown".to_owned(), |tokens| tokens.to_string())
            };
            let usage = result.usage.as_ref().map_or_else(
                || "not reported".to_owned(),
                |usage| {
                    let (input, output) = (count(usage.input_tokens), count(usage.output_tokens));
                    format!("{input} input tokens, {output} output tokens")
                },
            );
            [
                format!("{BOLD}{name}{BOLD:#} answered: {}", one_line(answer, ANSWER_MAX_CHARS)),
                format!("first event  {}", seconds(result.first_delta)),
                format!("first text   {}", seconds(result.first_text)),
                format!("total        {}", seconds(Some(result.total))),
                format!("usage        {usage}"),
            ]
            .join("\n")
        },
    )
}

fn ms(at: Option<Duration>) -> Option<u128> {
    at.map(|at| at.as_millis())
}

fn failed(result: &TestResult, code: &str, message: String) -> Problem {
    let problem = Problem::failed(code.to_owned(), message);
    problem
        .with("start_ms", json!(ms(result.first_delta)))
        .with("whole_ms", json!(ms(Some(result.total))))
}

fn failure_hint(failure: &Failure, name: &str) -> String {
    match (failure.class, failure.code.as_str()) {
        (FailureClass::Auth, _) => format!(
            "check the API key or the login of `{name}`; `ctx provider list` shows the key variable"
        ),
        (_, "unreachable") => {
            format!("start the server, or correct `base_url` of `providers.{name}` in ctx.toml")
        }
        (_, "model_not_found") => format!(
            "choose a model with `--model MODEL`, or set `model` of `providers.{name}` in ctx.toml"
        ),
        (_, "quota_exceeded") => "check the balance of the account at the provider".to_owned(),
        (FailureClass::RetryLater | FailureClass::RetryNow, _) => match failure.retry_after {
            Some(wait) => format!("retry in {} s", wait.as_secs()),
            None => "retry later".to_owned(),
        },
        (FailureClass::Overflow, _) => {
            "choose a model with a larger context window with `--model MODEL`".to_owned()
        }
        (FailureClass::Permanent, _) => {
            format!("check kind, base_url, api and model of `providers.{name}` in ctx.toml")
        }
    }
}

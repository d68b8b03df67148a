//! One question to a provider, with the timings of its answer. Nothing is stored.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ctx_engine::core::id::{MessageId, RunId, SessionId};
use ctx_engine::core::message::{Message, Part, Role, Source};
use ctx_engine::core::time::Timestamp;
use ctx_engine::core::turn::Usage;
use ctx_engine::provider::{
    DELTAS_MAX, Delta, End, Failure, FailureClass, Link, Provider, Request, STEERS_MAX,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::problem::Problem;

const QUESTION: &str = "Answer with the single word: ready";
/// Long, because some agents download themselves on the first start.
const TIMEOUT: Duration = Duration::from_secs(180);
/// Characters of the answer that are kept.
pub(crate) const ANSWER_MAX_CHARS: usize = 200;

/// The answer, and the time of its events since the start of the request.
#[derive(Default)]
pub(crate) struct TestResult {
    pub(crate) first_delta: Option<Duration>,
    pub(crate) first_text: Option<Duration>,
    pub(crate) total: Duration,
    pub(crate) answer: String,
    pub(crate) usage: Option<Usage>,
}

/// Sends one question to a provider.
///
/// Fails if the provider is not available, fails, or does not answer with text.
pub(crate) async fn test_provider(
    name: &str,
    provider: &Arc<dyn Provider>,
    model: Option<String>,
) -> Result<TestResult, Problem> {
    if let Some(why) = provider.about().unavailable {
        let hint = format!("check `providers.{name}` in ctx.toml");
        let message = format!("provider `{name}` is not available: {why}");
        return Err(Problem::failed("provider_unavailable", message).hint(hint));
    }
    let (result, end) = ask(provider, model).await;
    check(name, &result, end)?;
    Ok(result)
}

async fn ask(provider: &Arc<dyn Provider>, model: Option<String>) -> (TestResult, End) {
    let request = request(model);
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
    (result, end)
}

fn request(model: Option<String>) -> Request {
    let content = vec![Part::Text { text: QUESTION.to_owned() }];
    let id = Ulid::new();
    let at = Timestamp(i64::try_from(id.timestamp_ms()).unwrap_or_default());
    Request {
        session: SessionId(id),
        run: RunId(Ulid::new()),
        working_dir: std::env::current_dir().ok().map(|dir| dir.to_string_lossy().into_owned()),
        model,
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
    /// The document of a successful test.
    pub(crate) fn document(&self, name: &str) -> Value {
        json!({
            "provider": name,
            "ok": true,
            "answer": self.answer.trim(),
            "start_ms": ms(self.first_delta),
            "first_word_ms": ms(self.first_text),
            "whole_ms": ms(Some(self.total)),
            "usage": self.usage,
        })
    }

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

fn check(name: &str, result: &TestResult, end: End) -> Result<(), Problem> {
    match end {
        End::Done(_) if !result.answer.trim().is_empty() => Ok(()),
        End::Done(_) => {
            Err(failed(result, "empty_answer", format!("{name} failed: the answer is empty"))
                .hint("try another model with `--model MODEL`"))
        }
        End::Failed(failure) => {
            let message = format!("{name} failed: {}", failure.message);
            Err(failed(result, &failure.code, message).hint(failure_hint(&failure, name)))
        }
        End::Suspended(_) => {
            let why = format!("{name} did not answer: it waits for a permission or an answer");
            Err(failed(result, "asks_first", why)
                .hint(format!("use it interactively with `ctx run --provider {name} TEXT`")))
        }
        End::Cancelled => {
            Err(failed(result, "cancelled", format!("{name} failed: it cancelled the run"))
                .hint(format!("repeat `ctx provider test {name}`")))
        }
    }
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

//! The classifier is a port: the one of the core by default, a model where one is configured.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ctx_core::id::{MessageId, RunId, SessionId};
use ctx_core::intent::{
    ClassifierInput, Intent, Verdict, classification_prompt, classify, parse_classification,
};
use ctx_core::message::{Message, Part, Role, Source};
use ctx_core::time::Timestamp;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::provider::{DELTAS_MAX, Delta, End, Link, Provider, Request};

/// Classifies a user's message. It runs before the transaction, never inside it.
#[async_trait]
pub trait Classifier: Send + Sync {
    /// The intent of the message, or `None` if this classifier cannot decide; the built-in one
    /// decides then.
    async fn classify(&self, text: &str, classifier_input: ClassifierInput<'_>) -> Option<Intent>;

    /// Whether this is the classifier of the core, which can run inside the transaction.
    fn is_rules(&self) -> bool {
        false
    }
}

/// The classifier of the core: rules and a linear model.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleClassifier;

#[async_trait]
impl Classifier for RuleClassifier {
    async fn classify(&self, text: &str, classifier_input: ClassifierInput<'_>) -> Option<Intent> {
        let Verdict { intent, .. } = classify(text, &classifier_input);
        Some(intent)
    }

    fn is_rules(&self) -> bool {
        true
    }
}

/// Most bytes of a model's answer that are read.
const ANSWER_MAX_BYTES: usize = 4096;

/// Asks a model, with a time limit. If it fails or takes too long, the built-in classifier decides.
pub struct ProviderClassifier {
    provider: Arc<dyn Provider>,
    timeout: Duration,
}

impl ProviderClassifier {
    /// Asks the given model for each message and waits at most `timeout` for its answer.
    pub fn new(provider: Arc<dyn Provider>, timeout: Duration) -> Self {
        Self { provider, timeout }
    }

    async fn answer(&self, prompt: String) -> Option<String> {
        let (out, mut deltas) = mpsc::channel(DELTAS_MAX);
        let (_steer, steers) = mpsc::channel(1);
        let (tools, _uses) = mpsc::channel(1);
        let link =
            Link { out, cancel: CancellationToken::new(), steers, tools, pace: Arc::default() };
        let run = self.provider.run(request(prompt, self.provider.about().model), link);
        let read = async {
            let mut text = String::new();
            while let Some(delta) = deltas.recv().await {
                if let Delta::Text(more) = delta
                    && text.len() < ANSWER_MAX_BYTES
                {
                    text.push_str(&more);
                }
            }
            text
        };
        match tokio::join!(run, read) {
            (End::Done(_), text) if !text.trim().is_empty() => Some(text),
            _ => None,
        }
    }
}

/// A request with one message, which belongs to no session.
fn request(prompt: String, model: Option<String>) -> Request {
    let message = Message {
        id: MessageId(Ulid::new()),
        role: Role::User,
        source: Some(Source::Event),
        content: vec![Part::Text { text: prompt }],
        created_at: Timestamp(0),
    };
    Request {
        session: SessionId(Ulid::new()),
        run: RunId(Ulid::new()),
        working_dir: None,
        model,
        system: None,
        messages: vec![message],
        images: BTreeMap::new(),
        tools: Vec::new(),
        options: BTreeMap::default(),
        resumes: Vec::new(),
        open: 0,
        own: None,
        tool_rights: Vec::new(),
    }
}

#[async_trait]
impl Classifier for ProviderClassifier {
    async fn classify(&self, text: &str, classifier_input: ClassifierInput<'_>) -> Option<Intent> {
        let prompt = classification_prompt(text, &classifier_input);
        let answer = tokio::time::timeout(self.timeout, self.answer(prompt)).await.ok()??;
        Some(parse_classification(&answer))
    }
}

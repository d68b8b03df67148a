//! The classifier is a port: the rules of the core by default, a model where one is configured.

use async_trait::async_trait;
use ctx_core::intent::{ClassifierInput, Intent, Verdict, classify};

/// Classifies a user's message. It runs before the transaction, never inside it.
#[async_trait]
pub trait Classifier: Send + Sync {
    /// The intent of the message, or `None` if this classifier cannot decide; the rules decide
    /// then.
    async fn classify(&self, text: &str, classifier_input: ClassifierInput<'_>) -> Option<Intent>;

    /// Whether this is the rules of the core, which can run inside the transaction.
    fn is_rules(&self) -> bool {
        false
    }
}

/// The rules of the core.
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

//! What a message means is a port: the rules of the core by default, a model where one is configured.

use async_trait::async_trait;
use ctx_core::intent::{ClassifierInput, Intent, Verdict, classify};

/// Judges a user's message. It is asked before the transaction and never inside it.
#[async_trait]
pub trait Classifier: Send + Sync {
    /// What the message means, or nothing where this judge cannot say; the rules then decide.
    async fn classify(&self, text: &str, classifier_input: ClassifierInput<'_>) -> Option<Intent>;

    /// Whether it is the core's rules, which can be asked inside a transaction instead.
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

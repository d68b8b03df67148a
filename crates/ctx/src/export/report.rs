//! The report about secrets that were replaced: kinds and numbers, never a secret.

use ctx_engine::core::redaction::Redactor;
use serde_json::{Value, json};

/// Number of replaced secrets by kind.
pub(crate) fn document(redactor: &Redactor) -> Value {
    json!(redactor.counts())
}

/// One line for a person.
pub(crate) fn line(redactor: &Redactor) -> String {
    if redactor.total() == 0 {
        return "No secrets found.".to_owned();
    }
    let counts: Vec<String> =
        redactor.counts().iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    format!("Replaced {} secrets: {}.", redactor.total(), counts.join(", "))
}

/// The value of the response header `Ctx-Redacted`.
pub(crate) fn header(redactor: &Redactor) -> String {
    let counts: Vec<String> =
        redactor.counts().iter().map(|(kind, count)| format!("{kind}={count}")).collect();
    counts.join(", ")
}

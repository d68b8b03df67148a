//! Completes tool calls of every API: unique ids and parsed arguments.

use std::collections::BTreeSet;

use ctx_core::message::{Message, Part};
use ctx_engine::provider::{Delta, Failure};
use serde_json::{Value, json};

use crate::failure;

/// Maximum number of calls in one response.
pub(crate) const CALLS_MAX: usize = 256;

/// Call ids in use. A new call must get another id, or its result could not be assigned.
#[derive(Debug, Default)]
pub(crate) struct CallIds(BTreeSet<String>);

impl CallIds {
    /// The ids of all calls in a history.
    pub(crate) fn used_in(messages: &[Message]) -> Self {
        let parts = messages.iter().flat_map(|message| &message.content);
        let id = |part: &Part| {
            if let Part::ToolCall { id, .. } = part { Some(id.clone()) } else { None }
        };
        Self(parts.filter_map(id).collect())
    }

    /// A completed call. An id that is empty or in use is replaced.
    pub(crate) fn complete(
        &mut self,
        id: String,
        name: String,
        arguments: String,
    ) -> Result<Delta, Failure> {
        if name.is_empty() {
            return Err(failure::malformed("a tool call has no name"));
        }
        let id = if id.is_empty() || self.0.contains(&id) { self.generate() } else { id };
        self.0.insert(id.clone());
        Ok(Delta::ToolCall { id, name, params: params(arguments) })
    }

    fn generate(&self) -> String {
        let mut ids = (self.0.len() + 1..).map(|number| format!("call_{number}"));
        ids.find(|id| !self.0.contains(id)).unwrap_or_default()
    }
}

/// Parses arguments. Text that is not JSON is kept under `_raw`, so that the tool can report the
/// error to the model.
fn params(arguments: String) -> Value {
    if arguments.trim().is_empty() {
        return json!({});
    }
    match serde_json::from_str(&arguments) {
        Ok(Value::Null) => json!({}),
        Ok(params) => params,
        Err(_) => json!({ "_raw": arguments }),
    }
}

/// The text of arguments. Some servers send the object itself instead of its text.
pub(crate) fn arguments_text(given: &Value) -> String {
    match given {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

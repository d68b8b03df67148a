//! What the calls of tools have in common, whichever API brings them.

use std::collections::BTreeSet;

use ctx_core::message::{Message, Part};
use ctx_engine::provider::{Delta, Failure};
use serde_json::{Value, json};

use crate::failure;

/// The most calls in one answer.
pub(crate) const CALLS_MAX: usize = 256;

/// The ids of calls that are in use: a new call must not be taken for one of these.
#[derive(Debug, Default)]
pub(crate) struct Taken(BTreeSet<String>);

impl Taken {
    /// Those of a history.
    pub(crate) fn by(messages: &[Message]) -> Self {
        let parts = messages.iter().flat_map(|message| &message.content);
        let id = |part: &Part| {
            if let Part::ToolCall { id, .. } = part { Some(id.clone()) } else { None }
        };
        Self(parts.filter_map(id).collect())
    }

    /// A call, whole, under an id that no other call has.
    pub(crate) fn call(
        &mut self,
        id: String,
        name: String,
        arguments: String,
    ) -> Result<Delta, Failure> {
        if name.is_empty() {
            return Err(failure::bad_stream("it calls a tool without a name"));
        }
        let id = if id.is_empty() || self.0.contains(&id) { self.unused() } else { id };
        self.0.insert(id.clone());
        Ok(Delta::ToolCall { id, name, params: params(arguments) })
    }

    fn unused(&self) -> String {
        let mut ids = (self.0.len() + 1..).map(|number| format!("call_{number}"));
        ids.find(|id| !self.0.contains(id)).unwrap_or_default()
    }
}

/// What is not JSON is kept as it came: the tool, or the model when it sees it again, can say what is wrong with it.
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

/// Arguments in a document: some send the object itself instead of its text.
pub(crate) fn arguments(given: &Value) -> String {
    match given {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

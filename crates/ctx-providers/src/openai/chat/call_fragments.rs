//! Assembles tool calls from the fragments of a chat completion stream.
//!
//! Fragments of several calls may alternate. A call is reported only when it is complete.

use ctx_engine::provider::{Delta, Failure};
use serde_json::Value;

use crate::failure;
use crate::tool_calls::{CALLS_MAX, CallIds, arguments_text};

/// The incomplete calls, in the order of their first fragments.
#[derive(Debug, Default)]
pub(super) struct CallAssembler(Vec<PartialCall>);

#[derive(Debug, Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl CallAssembler {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a fragment and returns its size in bytes.
    pub(super) fn add(&mut self, fragment: &Value) -> Result<usize, Failure> {
        let id = fragment["id"].as_str().unwrap_or_default();
        let name = fragment["function"]["name"].as_str().unwrap_or_default();
        let arguments = arguments_text(&fragment["function"]["arguments"]);
        let call = self.call_for(fragment["index"].as_u64(), id, name)?;
        if call.id.is_empty() {
            call.id.push_str(id);
        }
        // Names are not split, but some servers repeat them in every fragment.
        if call.name.is_empty() {
            call.name.push_str(name);
        }
        call.arguments.push_str(&arguments);
        Ok(id.len() + name.len() + arguments.len())
    }

    /// The call of a fragment. The index should identify it, but some servers omit the index, and
    /// some use the same index for every call. There, a name with a new id starts a new call.
    fn call_for(
        &mut self,
        index: Option<u64>,
        id: &str,
        name: &str,
    ) -> Result<&mut PartialCall, Failure> {
        let is_new_call = |call: &PartialCall| {
            !name.is_empty() && !id.is_empty() && !call.id.is_empty() && call.id != id
        };
        let at = match index {
            Some(_) => self
                .0
                .iter()
                .rposition(|call| call.index == index)
                .filter(|at| !is_new_call(&self.0[*at])),
            None if !id.is_empty() => self.0.iter().rposition(|call| call.id == id),
            None if name.is_empty() => self.0.len().checked_sub(1),
            None => None,
        };
        if at.is_none() && self.0.len() == CALLS_MAX {
            return Err(failure::too_large(&format!("it has more than {CALLS_MAX} tool calls")));
        }
        let at = at.unwrap_or_else(|| {
            self.0.push(PartialCall { index, ..PartialCall::default() });
            self.0.len() - 1
        });
        Ok(&mut self.0[at])
    }

    /// Completes all calls.
    pub(super) fn finish(self, call_ids: &mut CallIds) -> Result<Vec<Delta>, Failure> {
        self.0
            .into_iter()
            .map(|call| call_ids.complete(call.id, call.name, call.arguments))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_harness::{message, tool_call};
    use ctx_core::message::Role;
    use serde_json::json;

    fn finish(fragments: &[Value], call_ids: &[&str]) -> Vec<(String, String, Value)> {
        let mut calls = CallAssembler::default();
        for fragment in fragments {
            calls.add(fragment).expect("few");
        }
        let history = message(
            Role::Assistant,
            call_ids.iter().map(|id| tool_call(id, Value::Null)).collect(),
        );
        let deltas = calls.finish(&mut CallIds::used_in(&[history])).expect("named");
        let call = |delta| {
            if let Delta::ToolCall { id, name, params } = delta {
                (id, name, params)
            } else {
                unreachable!()
            }
        };
        deltas.into_iter().map(call).collect()
    }

    fn fragment(index: Option<u64>, id: &str, name: &str, arguments: &str) -> Value {
        json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}})
    }

    fn call(id: &str, name: &str, params: Value) -> (String, String, Value) {
        (id.to_owned(), name.to_owned(), params)
    }

    #[test]
    fn fragments_are_assigned_for_every_kind_of_index() {
        let expected = [call("x", "a", json!({"n": 1})), call("y", "b", json!({"m": "é"}))];
        let by_index = [
            fragment(Some(0), "x", "a", ""),
            fragment(Some(1), "y", "b", "{\"m\""),
            fragment(Some(0), "", "", "{\"n\""),
            fragment(Some(1), "", "", ":\"é\"}"),
            fragment(Some(0), "", "", ":1}"),
        ];
        let all_zero = [
            fragment(Some(0), "x", "a", "{\"n\":1}"),
            fragment(Some(0), "y", "b", "{\"m\":"),
            fragment(Some(0), "y", "b", "\"é\"}"),
        ];
        let no_index = [
            fragment(None, "x", "a", "{\"n\":"),
            fragment(None, "", "", "1}"),
            fragment(None, "y", "b", "{\"m\":\"é\"}"),
        ];
        let object = [
            json!({"id": "x", "function": {"name": "a", "arguments": {"n": 1}}}),
            fragment(None, "y", "b", "{\"m\":\"é\"}"),
        ];
        for fragments in [&by_index[..], &all_zero, &no_index, &object] {
            assert_eq!(finish(fragments, &[]), expected, "{fragments:?}");
        }
    }

    #[test]
    fn missing_and_duplicate_ids_are_replaced() {
        let fragments = [
            fragment(None, "", "a", ""),
            fragment(None, "", "b", "null"),
            fragment(None, "call_1", "c", "{}"),
        ];
        let ids: Vec<String> =
            finish(&fragments, &["call_1"]).into_iter().map(|call| call.0).collect();
        assert_eq!(ids, ["call_2", "call_3", "call_4"]);
        assert_eq!(
            finish(&fragments, &["call_2"])[0].0,
            "call_3",
            "an id in use is not generated: {:?}",
            finish(&fragments, &["call_2"])
        );
    }

    #[test]
    fn invalid_json_arguments_are_kept_as_text() {
        assert_eq!(
            finish(&[fragment(Some(0), "x", "a", "{\"n\": ")], &[]),
            [call("x", "a", json!({"_raw": "{\"n\": "}))]
        );
        assert_eq!(finish(&[fragment(Some(0), "x", "a", " ")], &[]), [call("x", "a", json!({}))]);
    }

    #[test]
    fn nameless_calls_and_too_many_calls_are_rejected() {
        let mut calls = CallAssembler::default();
        calls.add(&fragment(Some(0), "x", "", "{}")).expect("one");
        assert_eq!(calls.finish(&mut CallIds::default()).expect_err("no name").code, "bad_stream");
        let mut calls = CallAssembler::default();
        let added: Vec<_> = (0..=CALLS_MAX as u64)
            .map(|index| calls.add(&fragment(Some(index), "", "a", "")).is_ok())
            .collect();
        assert_eq!(added.iter().filter(|added| **added).count(), CALLS_MAX);
    }
}

//! Calls of tools while they arrive in pieces, several at once, their arguments cut anywhere.
//!
//! A call is told only once it is whole, under an id that no other call of the conversation has.

use ctx_engine::provider::{Delta, Failure};
use serde_json::Value;

use crate::tool_calls::{CALLS_MAX, Taken, arguments};
use crate::failure;

/// The calls so far, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Call>);

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a piece of a call, and says how many bytes came with it.
    pub(super) fn add(&mut self, piece: &Value) -> Result<usize, Failure> {
        let id = piece["id"].as_str().unwrap_or_default();
        let name = piece["function"]["name"].as_str().unwrap_or_default();
        let arguments = arguments(&piece["function"]["arguments"]);
        let call = self.of(piece["index"].as_u64(), id, name)?;
        if call.id.is_empty() {
            call.id.push_str(id);
        }
        // Names come whole, and some servers repeat them with every piece.
        if call.name.is_empty() {
            call.name.push_str(name);
        }
        call.arguments.push_str(&arguments);
        Ok(id.len() + name.len() + arguments.len())
    }

    /// The call that a piece belongs to. An index should say it, but there are servers that leave it out, and servers
    /// that give every call the same one; there a name under a new id begins a new call.
    fn of(&mut self, index: Option<u64>, id: &str, name: &str) -> Result<&mut Call, Failure> {
        let begins = |call: &Call| {
            !name.is_empty() && !id.is_empty() && !call.id.is_empty() && call.id != id
        };
        let at = match index {
            Some(_) => self
                .0
                .iter()
                .rposition(|call| call.index == index)
                .filter(|at| !begins(&self.0[*at])),
            None if !id.is_empty() => self.0.iter().rposition(|call| call.id == id),
            None if name.is_empty() => self.0.len().checked_sub(1),
            None => None,
        };
        if at.is_none() && self.0.len() == CALLS_MAX {
            return Err(failure::too_large(&format!("it calls more than {CALLS_MAX} tools")));
        }
        let at = at.unwrap_or_else(|| {
            self.0.push(Call { index, ..Call::default() });
            self.0.len() - 1
        });
        Ok(&mut self.0[at])
    }

    /// The calls, whole.
    pub(super) fn finish(self, taken: &mut Taken) -> Result<Vec<Delta>, Failure> {
        self.0.into_iter().map(|call| taken.call(call.id, call.name, call.arguments)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_harness::{message, tool_call};
    use ctx_core::message::Role;
    use serde_json::json;

    fn finish(pieces: &[Value], taken: &[&str]) -> Vec<(String, String, Value)> {
        let mut calls = Calls::default();
        for piece in pieces {
            calls.add(piece).expect("few");
        }
        let history =
            message(Role::Assistant, taken.iter().map(|id| tool_call(id, Value::Null)).collect());
        let deltas = calls.finish(&mut Taken::by(&[history])).expect("named");
        let call = |delta| {
            if let Delta::ToolCall { id, name, params } = delta {
                (id, name, params)
            } else {
                unreachable!()
            }
        };
        deltas.into_iter().map(call).collect()
    }

    fn piece(index: Option<u64>, id: &str, name: &str, arguments: &str) -> Value {
        json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}})
    }

    fn call(id: &str, name: &str, params: Value) -> (String, String, Value) {
        (id.to_owned(), name.to_owned(), params)
    }

    #[test]
    fn pieces_find_their_call_however_servers_count() {
        let wanted = [call("x", "a", json!({"n": 1})), call("y", "b", json!({"m": "é"}))];
        let by_index = [
            piece(Some(0), "x", "a", ""),
            piece(Some(1), "y", "b", "{\"m\""),
            piece(Some(0), "", "", "{\"n\""),
            piece(Some(1), "", "", ":\"é\"}"),
            piece(Some(0), "", "", ":1}"),
        ];
        let all_zero = [
            piece(Some(0), "x", "a", "{\"n\":1}"),
            piece(Some(0), "y", "b", "{\"m\":"),
            piece(Some(0), "y", "b", "\"é\"}"),
        ];
        let no_index = [
            piece(None, "x", "a", "{\"n\":"),
            piece(None, "", "", "1}"),
            piece(None, "y", "b", "{\"m\":\"é\"}"),
        ];
        let object = [
            json!({"id": "x", "function": {"name": "a", "arguments": {"n": 1}}}),
            piece(None, "y", "b", "{\"m\":\"é\"}"),
        ];
        for pieces in [&by_index[..], &all_zero, &no_index, &object] {
            assert_eq!(finish(pieces, &[]), wanted, "{pieces:?}");
        }
    }

    #[test]
    fn ids_that_are_missing_or_taken_are_made_up() {
        let pieces = [
            piece(None, "", "a", ""),
            piece(None, "", "b", "null"),
            piece(None, "call_1", "c", "{}"),
        ];
        let ids: Vec<String> =
            finish(&pieces, &["call_1"]).into_iter().map(|call| call.0).collect();
        assert_eq!(ids, ["call_2", "call_3", "call_4"]);
        assert_eq!(
            finish(&pieces, &["call_2"])[0].0,
            "call_3",
            "never one that is in use: {:?}",
            finish(&pieces, &["call_2"])
        );
    }

    #[test]
    fn arguments_that_are_no_json_are_kept_as_they_came() {
        assert_eq!(
            finish(&[piece(Some(0), "x", "a", "{\"n\": ")], &[]),
            [call("x", "a", json!({"_raw": "{\"n\": "}))]
        );
        assert_eq!(finish(&[piece(Some(0), "x", "a", " ")], &[]), [call("x", "a", json!({}))]);
    }

    #[test]
    fn calls_without_a_name_and_without_end_are_refused() {
        let mut calls = Calls::default();
        calls.add(&piece(Some(0), "x", "", "{}")).expect("one");
        assert_eq!(calls.finish(&mut Taken::default()).expect_err("no name").code, "bad_stream");
        let mut calls = Calls::default();
        let added: Vec<_> = (0..=CALLS_MAX as u64)
            .map(|index| calls.add(&piece(Some(index), "", "a", "")).is_ok())
            .collect();
        assert_eq!(added.iter().filter(|added| **added).count(), CALLS_MAX);
    }
}

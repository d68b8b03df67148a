//! Property test: in the body for every API, and in the prompt of an agent, each request of the
//! user is there once, an unanswered one is directly followed by its mark, and no two requests are
//! joined without a mark.

use ctx_core::message::{Message, Part, Role};
use ctx_core::projection::{ImageHandling, PastTurn, Projection};
use ctx_core::turn::Status;
use ctx_engine::provider::Request;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::random_histories::PROVIDER;
use super::{bodies, list};
use crate::agent_prompt::{ConversationState, prompt_texts};
use crate::test_harness::{request, text_message, tool_call};

/// The answer of a past turn.
#[derive(Debug, Clone, Copy)]
enum Answer {
    None,
    Text,
    Call,
}

/// A past turn: its status, its number of requests, and its answer.
type Past = (Status, usize, Answer);

fn past() -> impl Strategy<Value = Past> {
    use Status::{Cancelled, Completed, Failed, Interrupted};
    let status = prop::sample::select(vec![Completed, Cancelled, Failed, Interrupted]);
    let answer = prop::sample::select(vec![Answer::None, Answer::Text, Answer::Call]);
    (status, 1_usize..3, answer)
}

/// The requests of a turn, with unique texts.
fn requests(from: &mut usize, count: usize) -> Vec<Message> {
    let texts = (*from..*from + count).map(|n| format!("request {n}."));
    *from += count;
    texts.map(|text| text_message(Role::User, &text)).collect()
}

fn build(history: &[Past], open: usize) -> Request {
    let (mut projection, mut next) = (Projection::new(PROVIDER, ImageHandling::Describe), 0);
    for (number, (status, count, answer)) in history.iter().enumerate() {
        let mut messages = requests(&mut next, *count);
        messages.extend(match answer {
            Answer::None => None,
            Answer::Text => Some(text_message(Role::Assistant, &format!("answer {number}."))),
            Answer::Call => {
                let call = tool_call(&format!("call{number}"), json!({}));
                let text = Part::Text { text: format!("answer {number}.") };
                Some(crate::test_harness::message(Role::Assistant, vec![text, call]))
            }
        });
        let provider_id = Some(PROVIDER.to_owned());
        projection.turn(&PastTurn { provider_id, status: *status, messages });
    }
    let open_from = projection.len();
    projection.open_turn(&requests(&mut next, open));
    Request { open: open_from, ..request(projection.finish()) }
}

/// The texts of a body in order, each with its role. Results of tools are left out.
fn texts(body: &Value) -> Vec<(String, String)> {
    let messages = if body.get("input").is_some() { "input" } else { "messages" };
    let mut found = Vec::new();
    for message in list(body, messages).iter().filter(|message| message["role"] != "tool") {
        let role = message["role"].as_str().unwrap_or_default().to_owned();
        let parts = match &message["content"] {
            // The texts of one message are paragraphs in this API.
            Value::String(text) => text.split("\n\n").map(str::to_owned).collect(),
            content => content
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|part| part["text"].as_str())
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        };
        found.extend(parts.into_iter().map(|text| (role.clone(), text)));
    }
    found
}

/// The texts of an agent's prompt in order.
fn prompt(request: &Request) -> Vec<(String, String)> {
    let text = prompt_texts(request, ConversationState::New, &[]).join("\n\n");
    let role = |line: &str| if line.starts_with("Assistant: ") { "assistant" } else { "user" };
    let name = |line: &str| line.replace("User: ", "").replace("Assistant: ", "");
    text.lines()
        .filter(|line| {
            ["request ", "answer ", "["].iter().any(|start| name(line).starts_with(start))
        })
        .filter(|line| !line.contains("[called look") && !line.starts_with("Tool: "))
        .map(|line| (role(line).to_owned(), name(line)))
        .collect()
}

fn check(found: &[(String, String)], history: &[Past], open: usize) -> Result<(), TestCaseError> {
    let at = |text: &str| -> Result<usize, TestCaseError> {
        let places: Vec<usize> = (0..found.len()).filter(|at| found[*at].1 == text).collect();
        prop_assert_eq!(places.len(), 1, "`{}` in {:?}", text, found);
        Ok(places[0])
    };
    let mut next = 0;
    for (number, (status, count, answer)) in history.iter().enumerate() {
        let answered = !matches!(answer, Answer::None);
        for n in next..next + count {
            let after = found.get(at(&format!("request {n}."))? + 1);
            let marked = after
                .is_some_and(|(_, text)| text.starts_with("[This") && text.contains("answered"));
            prop_assert_eq!(marked, !answered, "request {} in {:?}", n, found);
        }
        if answered {
            let after = found.get(at(&format!("answer {number}."))? + 1);
            let (role, text) = after.cloned().unwrap_or_default();
            let marked = text.starts_with("[This answer is incomplete") && role == "user";
            prop_assert_eq!(
                marked,
                *status != Status::Completed,
                "answer {} in {:?}",
                number,
                found
            );
        }
        next += count;
    }
    for n in next..next + open {
        at(&format!("request {n}."))?;
    }
    let last = found.last().map(|(_, text)| text.clone());
    prop_assert_eq!(last, Some(format!("request {}.", next + open - 1)), "the newest is unmarked");
    Ok(())
}

fn joined(found: &[(String, String)]) -> bool {
    found.windows(2).any(|pair| pair.iter().all(|(_, text)| text.starts_with("request ")))
}

proptest! {
    #[test]
    fn unanswered_requests_are_marked_in_every_api(
        history in prop::collection::vec(past(), 0..6),
        open in 1_usize..4,
    ) {
        // R228, R237
        let request = build(&history, open);
        for body in bodies(&request) {
            let found = texts(&body);
            prop_assert!(!joined(&found), "two requests without a mark: {:?}", found);
            check(&found, &history, open)?;
        }
        check(&prompt(&request), &history, open)?;
    }
}

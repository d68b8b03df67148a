//! Finds the command for the demo agent: keywords in the newest message, case-insensitive.
//!
//! Pure: equal requests give equal commands.

use std::sync::Arc;

use ctx_core::inbox::Tool;
use ctx_core::message::{Message, Part, Role};
use ctx_core::projection::{is_mark, states_end_of_turn};
use ctx_engine::provider::Request;
use serde_json::{Map, Value};

/// Maximum number of words of `slow` and `long`.
pub(super) const WORDS_MAX: usize = 100_000;
/// Number of words of `slow` without a number.
pub(super) const SLOW_WORDS: usize = 40;
/// Maximum number of `{` at which JSON is searched: a message may have a megabyte.
const OBJECTS_MAX: usize = 16;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum DemoCommand {
    /// Continue after the user selected an option.
    Chosen(String),
    /// Continue after tool results.
    Results(Vec<String>),
    /// Write a summary; ctx sends this keyword for a compaction.
    Summarise,
    /// Call tools of the client, each with a name and arguments.
    Call(Vec<(String, Value)>),
    Permission,
    Fail,
    /// Fail after some text.
    FailLate,
    /// Write nothing until the cancellation.
    Hang,
    /// Write this number of words slowly.
    Slow(usize),
    /// Write this number of words without pauses.
    Long(usize),
    Think,
    /// Use the tool of the demo agent.
    Clock,
    /// End with a question.
    Ask,
    Help,
    /// The message contains no keyword.
    Greet,
}

pub(super) fn parse(request: &Request) -> DemoCommand {
    if let Some((suspension, answer)) = request.resumes.last()
        && let Some(choice) = &answer.choice
    {
        let offered = suspension.matching_option(choice).map(|offer| offer.label.clone());
        return DemoCommand::Chosen(offered.unwrap_or_else(|| choice.clone()));
    }
    let results = results(&request.messages);
    if !results.is_empty() {
        return DemoCommand::Results(results);
    }
    from_text(&newest_text(&request.messages), &request.tools)
}

/// The text of the user messages at the end of the conversation.
pub(super) fn newest_text(messages: &[Message]) -> String {
    newest(messages).into_iter().map(text_of).collect::<Vec<_>>().join("\n")
}

/// The user messages at the end of the conversation, without those of earlier turns that were not
/// answered.
pub(super) fn newest(messages: &[Message]) -> Vec<&Message> {
    let newest = messages.iter().rev().skip_while(|message| message.role != Role::User);
    let mut newest: Vec<&Message> = newest
        .take_while(|message| message.role == Role::User && !states_end_of_turn(message))
        .filter(|message| !is_mark(message))
        .collect();
    newest.reverse();
    newest
}

pub(super) fn text_of(message: &Message) -> String {
    let texts = message.content.iter().filter_map(|part| match part {
        Part::Text { text } | Part::Summary { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn from_text(text: &str, tools: &[Arc<Tool>]) -> DemoCommand {
    let lower = text.to_lowercase();
    let has = |word: &str| word_position(&lower, word).is_some();
    if has("summarise") || has("summarize") {
        return DemoCommand::Summarise;
    }
    let calls = calls(text, &lower, tools);
    if !calls.is_empty() {
        return DemoCommand::Call(calls);
    }
    if let Some(words) = number_after(&lower, "long") {
        return DemoCommand::Long(words);
    }
    // Rare words come first: `ask me for a permission` requests a permission.
    let table = [
        ("permission", DemoCommand::Permission),
        ("fail late", DemoCommand::FailLate),
        ("fail", DemoCommand::Fail),
        ("hang", DemoCommand::Hang),
        ("slow", DemoCommand::Slow(number_after(&lower, "slow").unwrap_or(SLOW_WORDS))),
        ("think", DemoCommand::Think),
        ("tool", DemoCommand::Clock),
        ("ask", DemoCommand::Ask),
        ("help", DemoCommand::Help),
    ];
    table.into_iter().find(|(word, _)| has(word)).map_or(DemoCommand::Greet, |(_, command)| command)
}

/// The tool results at the end of the conversation.
fn results(messages: &[Message]) -> Vec<String> {
    let last = messages.iter().rev().take_while(|message| message.role == Role::Tool);
    let mut messages: Vec<&Message> = last.collect();
    messages.reverse();
    let result = |part: &Part| match part {
        Part::ToolResult { content, is_error, .. } => {
            let text = content.text().unwrap_or("output that is too large to quote");
            Some(if *is_error { format!("it failed: {text}") } else { text.to_owned() })
        }
        _ => None,
    };
    messages.into_iter().flat_map(|message| &message.content).filter_map(result).collect()
}

/// The client's tools in the order in which the text names them. The n-th tool gets the n-th JSON
/// object of the text.
fn calls(text: &str, lower: &str, tools: &[Arc<Tool>]) -> Vec<(String, Value)> {
    let position = |tool: &Arc<Tool>| {
        word_position(lower, &tool.name.to_lowercase()).map(|at| (at, tool.name.clone()))
    };
    let mut named: Vec<(usize, String)> = tools.iter().filter_map(position).collect();
    named.sort();
    named.dedup();
    let mut objects = objects(text).into_iter();
    named
        .into_iter()
        .map(|(_, name)| (name, Value::Object(objects.next().unwrap_or_default())))
        .collect()
}

fn objects(text: &str) -> Vec<Map<String, Value>> {
    let (mut found, mut rest) = (Vec::new(), text);
    for _ in 0..OBJECTS_MAX {
        let Some(at) = rest.find('{') else { break };
        let mut read =
            serde_json::Deserializer::from_str(&rest[at..]).into_iter::<Map<String, Value>>();
        let object = read.next();
        let past = read.byte_offset().max(1);
        match object {
            Some(Ok(object)) => {
                found.push(object);
                rest = &rest[at + past..];
            }
            _ => rest = &rest[at + 1..],
        }
    }
    found
}

/// The position of a whole word. `_` belongs to a word: `get_weather` does not contain `get`.
fn word_position(text: &str, word: &str) -> Option<usize> {
    let is_word_char = |c: char| c.is_alphanumeric() || c == '_';
    let is_whole_word = |(at, found): &(usize, &str)| {
        let before = text[..*at].chars().next_back();
        let after = text[at + found.len()..].chars().next();
        !before.is_some_and(is_word_char) && !after.is_some_and(is_word_char)
    };
    if word.is_empty() {
        None
    } else {
        text.match_indices(word).find(is_whole_word).map(|(at, _)| at)
    }
}

/// The number after a word.
fn number_after(text: &str, word: &str) -> Option<usize> {
    let after = &text[word_position(text, word)? + word.len()..];
    let digits: String = after.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().map(|number: usize| number.min(WORDS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> Tool {
        Tool { name: name.to_owned(), description: String::new(), parameters: Value::Null }
    }

    #[test]
    fn keywords_select_the_command() {
        let table = [
            ("hello there", DemoCommand::Greet),
            ("HELP", DemoCommand::Help),
            ("Think about it", DemoCommand::Think),
            ("I am thinking of askance, toolboxes and failure", DemoCommand::Greet),
            ("please use a tool.", DemoCommand::Clock),
            ("ask me", DemoCommand::Ask),
            ("ask for a permission", DemoCommand::Permission),
            ("fail", DemoCommand::Fail),
            ("fail late", DemoCommand::FailLate),
            ("hang", DemoCommand::Hang),
            ("slow", DemoCommand::Slow(SLOW_WORDS)),
            ("slow 3", DemoCommand::Slow(3)),
            ("slow 99999999", DemoCommand::Slow(WORDS_MAX)),
            ("long 12", DemoCommand::Long(12)),
            ("how long does it take?", DemoCommand::Greet),
            ("Summarise what was said, which tools failed and what to ask", DemoCommand::Summarise),
            ("", DemoCommand::Greet),
        ];
        for (text, command) in table {
            assert_eq!(from_text(text, &[]), command, "{text}");
        }
    }

    #[test]
    fn named_tool_is_called_with_the_json_in_the_text() {
        let tools = ["get_time", "get_weather", "Search"].map(|name| Arc::new(tool(name)));
        let call = |text: &str| match from_text(text, &tools) {
            DemoCommand::Call(calls) => calls,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(call("call get_weather"), [("get_weather".to_owned(), serde_json::json!({}))]);
        let both = call(
            r#"use GET_WEATHER {"city": "Rome"} and {no json} get_time {"zone": {"name": "UTC"}}"#,
        );
        assert_eq!(both[0], ("get_weather".to_owned(), serde_json::json!({"city": "Rome"})));
        assert_eq!(both[1], ("get_time".to_owned(), serde_json::json!({"zone": {"name": "UTC"}})));
        assert_eq!(from_text("research get_weathers", &tools), DemoCommand::Greet);
    }

    #[test]
    fn search_for_json_is_bounded() {
        assert!(objects(&"{".repeat(100_000)).is_empty());
        assert_eq!(objects(&r#"{"a":1}"#.repeat(100)).len(), OBJECTS_MAX);
    }
}

//! What the demo agent is asked for: simple words in the newest message, found without regard to case.
//!
//! Pure: one request always means one wish.

use ctx_core::inbox::Tool;
use ctx_core::message::{Message, Part, Role};
use ctx_engine::provider::Request;
use serde_json::{Map, Value};

/// The most words of `slow` and `long`.
pub(super) const WORDS_MAX: usize = 100_000;
/// How many words `slow` says where it is told no number.
pub(super) const SLOW_WORDS: usize = 40;
/// How many `{` are looked at: text from users is up to a megabyte.
const OBJECTS_MAX: usize = 16;

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Wish {
    /// Go on after a choice.
    Chosen(String),
    /// Go on after the results of tools.
    Answered(Vec<String>),
    /// Say in short what was said; what ctx asks of whoever compacts.
    Summarise,
    /// Call tools of the client.
    Call(Vec<(String, Value)>),
    /// Ask for a permission.
    Permission,
    /// Fail at once.
    Fail,
    /// Fail after a few words.
    FailLate,
    /// Say nothing until stopped.
    Hang,
    /// So many words, slowly.
    Slow(usize),
    /// So many words, at once.
    Long(usize),
    /// Think first.
    Think,
    /// Use a tool of its own.
    Clock,
    /// End with a question.
    Ask,
    /// Say what can be asked.
    Help,
    /// Anything else.
    Greet,
}

/// The wish of a request.
pub(super) fn of(request: &Request) -> Wish {
    if let Some((suspension, answer)) = request.resumes.last()
        && let Some(choice) = &answer.choice
    {
        let offered = suspension.offer_of(choice).map(|offer| offer.label.clone());
        return Wish::Chosen(offered.unwrap_or_else(|| choice.clone()));
    }
    let results = results(&request.messages);
    if !results.is_empty() {
        return Wish::Answered(results);
    }
    in_words(&heard(&request.messages), &request.tools)
}

/// The words of the newest messages of users; several where several wait at the end.
pub(super) fn heard(messages: &[Message]) -> String {
    let newest = messages.iter().rev().skip_while(|message| message.role != Role::User);
    let mut texts: Vec<String> =
        newest.take_while(|message| message.role == Role::User).map(words_of).collect();
    texts.reverse();
    texts.join("\n")
}

/// The words of a message.
pub(super) fn words_of(message: &Message) -> String {
    let texts = message.content.iter().filter_map(|part| match part {
        Part::Text { text } | Part::Summary { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn in_words(text: &str, tools: &[Tool]) -> Wish {
    let lower = text.to_lowercase();
    let has = |word: &str| place_of(&lower, word).is_some();
    if has("summarise") || has("summarize") {
        return Wish::Summarise;
    }
    let calls = calls(text, &lower, tools);
    if !calls.is_empty() {
        return Wish::Call(calls);
    }
    if let Some(words) = number_after(&lower, "long") {
        return Wish::Long(words);
    }
    // What is rare in talk comes first: `ask me for a permission` is about a permission.
    let table = [
        ("permission", Wish::Permission),
        ("fail late", Wish::FailLate),
        ("fail", Wish::Fail),
        ("hang", Wish::Hang),
        ("slow", Wish::Slow(number_after(&lower, "slow").unwrap_or(SLOW_WORDS))),
        ("think", Wish::Think),
        ("tool", Wish::Clock),
        ("ask", Wish::Ask),
        ("help", Wish::Help),
    ];
    table.into_iter().find(|(word, _)| has(word)).map_or(Wish::Greet, |(_, wish)| wish)
}

/// Results of tools, where nobody has spoken since.
fn results(messages: &[Message]) -> Vec<String> {
    let last = messages.iter().rev().take_while(|message| message.role == Role::Tool);
    let mut messages: Vec<&Message> = last.collect();
    messages.reverse();
    let result = |part: &Part| match part {
        Part::ToolResult { content, is_error, .. } => {
            let text = content.text().unwrap_or("something that is too large to say");
            Some(if *is_error { format!("it failed: {text}") } else { text.to_owned() })
        }
        _ => None,
    };
    messages.into_iter().flat_map(|message| &message.content).filter_map(result).collect()
}

/// The client's tools that the text names, in its order; the first takes the first JSON object in it, and so on.
fn calls(text: &str, lower: &str, tools: &[Tool]) -> Vec<(String, Value)> {
    let place =
        |tool: &Tool| place_of(lower, &tool.name.to_lowercase()).map(|at| (at, tool.name.clone()));
    let mut named: Vec<(usize, String)> = tools.iter().filter_map(place).collect();
    named.sort();
    named.dedup();
    let mut objects = objects(text).into_iter();
    named
        .into_iter()
        .map(|(_, name)| (name, Value::Object(objects.next().unwrap_or_default())))
        .collect()
}

/// The JSON objects in a text.
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

/// Where a whole word stands. A name may hold `_`, so `get_weather` does not hold the word `get`.
fn place_of(text: &str, word: &str) -> Option<usize> {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    let stands_alone = |(at, found): &(usize, &str)| {
        let before = text[..*at].chars().next_back();
        let after = text[at + found.len()..].chars().next();
        !before.is_some_and(inside) && !after.is_some_and(inside)
    };
    if word.is_empty() {
        None
    } else {
        text.match_indices(word).find(stands_alone).map(|(at, _)| at)
    }
}

/// The number that follows a word.
fn number_after(text: &str, word: &str) -> Option<usize> {
    let after = &text[place_of(text, word)? + word.len()..];
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
    fn simple_words_say_what_is_wanted() {
        let table = [
            ("hello there", Wish::Greet),
            ("HELP", Wish::Help),
            ("Think about it", Wish::Think),
            ("I am thinking of askance, toolboxes and failure", Wish::Greet),
            ("please use a tool.", Wish::Clock),
            ("ask me", Wish::Ask),
            ("ask for a permission", Wish::Permission),
            ("fail", Wish::Fail),
            ("fail late", Wish::FailLate),
            ("hang", Wish::Hang),
            ("slow", Wish::Slow(SLOW_WORDS)),
            ("slow 3", Wish::Slow(3)),
            ("slow 99999999", Wish::Slow(WORDS_MAX)),
            ("long 12", Wish::Long(12)),
            ("how long does it take?", Wish::Greet),
            ("Summarise what was said, which tools failed and what to ask", Wish::Summarise),
            ("", Wish::Greet),
        ];
        for (text, wish) in table {
            assert_eq!(in_words(text, &[]), wish, "{text}");
        }
    }

    #[test]
    fn a_tool_that_is_named_is_called_with_the_json_in_the_text() {
        let tools = [tool("get_time"), tool("get_weather"), tool("Search")];
        let call = |text: &str| match in_words(text, &tools) {
            Wish::Call(calls) => calls,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(call("call get_weather"), [("get_weather".to_owned(), serde_json::json!({}))]);
        let both = call(
            r#"use GET_WEATHER {"city": "Rome"} and {no json} get_time {"zone": {"name": "UTC"}}"#,
        );
        assert_eq!(both[0], ("get_weather".to_owned(), serde_json::json!({"city": "Rome"})));
        assert_eq!(both[1], ("get_time".to_owned(), serde_json::json!({"zone": {"name": "UTC"}})));
        assert_eq!(in_words("research get_weathers", &tools), Wish::Greet);
    }

    #[test]
    fn looking_for_json_ends_on_any_text() {
        assert!(objects(&"{".repeat(100_000)).is_empty());
        assert_eq!(objects(&r#"{"a":1}"#.repeat(100)).len(), OBJECTS_MAX);
    }
}

//! History as a provider may see it. Storage is never touched: what is left out or put in here concerns one request.
//!
//! The result is legal everywhere: every tool call is followed by exactly one result before anybody else speaks, no
//! result stands alone, ids of calls are unique and made of characters that every API takes, nobody sees reasoning that
//! somebody else signed or that leads nowhere, and what ctx itself told the user stays between the two.

use std::collections::{BTreeMap, VecDeque};

use crate::content::Content;
use crate::image::Format;
use crate::message::{Message, Part, Role};

/// What stands for the result of a call whose outcome nobody knows.
pub const OUTCOME_UNKNOWN: &str =
    "The outcome of this call is unknown: it was cut off. Check before repeating it.";
/// What stands where a history does not begin with its user.
pub const BEGINNING: &str = "[The beginning of this conversation is left out.]";
/// What a model is told where the last words are its own.
pub const GO_ON: &str = "[Go on.]";
/// The longest name of a tool that every API takes.
const NAME_MAX_CHARS: usize = 64;
/// The longest id of a call; what makes it unique still fits behind it into the 64 that every API takes.
const ID_MAX_CHARS: usize = 48;

/// Messages of one turn, and who answered in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Past {
    /// Who answered.
    pub provider_id: Option<String>,
    /// What was said.
    pub messages: Vec<Message>,
}

/// What becomes of pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pictures {
    /// The provider takes them.
    Shown,
    /// It is told that there is one.
    Described,
}

/// Projects turns, oldest first, for a provider.
pub fn project(history: &[Past], provider_id: &str, pictures: Pictures) -> Vec<Message> {
    let mut projection = Projection::new(provider_id, pictures);
    history.iter().for_each(|past| projection.turn(past));
    projection.finish()
}

/// A projection turn by turn, for whoever has to know where each begins.
pub struct Projection {
    provider_id: String,
    out: Out,
}

impl Projection {
    /// One without a turn.
    pub fn new(provider_id: &str, pictures: Pictures) -> Self {
        Self {
            provider_id: provider_id.to_owned(),
            out: Out { pictures, messages: Vec::new(), ids: Ids::default() },
        }
    }

    /// Adds the next turn.
    pub fn turn(&mut self, past: &Past) {
        let own = past.provider_id.as_deref() == Some(self.provider_id.as_str());
        self.out.take_turn(&past.messages, own);
    }

    /// How many messages there are so far.
    pub fn len(&self) -> usize {
        self.out.messages.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.out.messages.is_empty()
    }

    /// The messages.
    pub fn finish(self) -> Vec<Message> {
        self.out.messages
    }
}

/// Makes roles alternate, for models that want that: the user begins, nobody speaks twice in a row, and the last words
/// are not the model's. Takes what [`project`] gives.
pub fn alternate(messages: Vec<Message>) -> Vec<Message> {
    let mut out: Vec<Message> = Vec::new();
    for mut message in messages {
        if message.role == Role::System {
            message.role = Role::User;
        }
        match out.last_mut() {
            Some(last) if last.role == message.role => last.content.append(&mut message.content),
            None if message.role != Role::User => {
                out.push(note(&message, BEGINNING));
                out.push(message);
            }
            _ => out.push(message),
        }
    }
    if let Some(last) = out.last().filter(|last| last.role == Role::Assistant) {
        let note = note(last, GO_ON);
        out.push(note);
    }
    out
}

/// What a model is told about a picture that it does not see.
pub fn described(media_type: &str) -> String {
    let kind: String = media_type
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "/+-.".contains(*c))
        .take(40)
        .collect();
    format!("[a picture, {kind}, which cannot be shown here]")
}

fn note(beside: &Message, text: &str) -> Message {
    let content = vec![Part::Text { text: text.to_owned() }];
    Message {
        id: beside.id,
        role: Role::User,
        source: None,
        content,
        created_at: beside.created_at,
    }
}

struct Out {
    messages: Vec<Message>,
    pictures: Pictures,
    ids: Ids,
}

impl Out {
    fn take_turn(&mut self, messages: &[Message], own: bool) {
        let mut results = Results::of(messages);
        for (at, message) in messages.iter().enumerate() {
            match message.role {
                // What ctx told the user is no part of the conversation with the model; a summary is.
                Role::System => self.say(message, |part| {
                    if matches!(part, Part::Summary { .. }) { shown(part) } else { None }
                }),
                Role::User => {
                    let pictures = self.pictures;
                    self.say(message, |part| match part {
                        Part::Image { .. } => Some(picture(part, pictures)),
                        Part::Text { .. } | Part::Summary { .. } => shown(part),
                        _ => None,
                    });
                }
                Role::Assistant => self.answer(message, at, own, &mut results),
                // Each result stands behind its call, wherever in the turn it came.
                Role::Tool => {}
            }
        }
    }

    fn say(&mut self, message: &Message, seen: impl Fn(&Part) -> Option<Part>) {
        let content: Vec<Part> = message.content.iter().filter_map(seen).collect();
        if !content.is_empty() {
            self.messages.push(Message { content, ..message.clone() });
        }
    }

    fn answer(&mut self, message: &Message, at: usize, own: bool, results: &mut Results<'_>) {
        let (mut content, mut answers) = (Vec::new(), Vec::new());
        let mut called: Vec<&str> = Vec::new();
        for part in &message.content {
            let words = match part {
                // The same call told twice is one call.
                Part::ToolCall { id, .. } if called.contains(&id.as_str()) => continue,
                Part::ToolCall { id, name, params, status } => {
                    called.push(id);
                    let seen = self.ids.unique(id);
                    answers.push(results.take(id, at, &seen));
                    content.push(Part::ToolCall {
                        id: seen,
                        name: legal_name(name),
                        params: params.clone(),
                        status: *status,
                    });
                    continue;
                }
                Part::Thought { raw: Some(_), .. } if own => Some(part.clone()),
                Part::Text { .. } | Part::Summary { .. } => shown(part),
                Part::Image { .. } => Some(picture(part, Pictures::Described)),
                _ => None,
            };
            // Nothing may stand between a call and its result, not even in the same message.
            if words.is_some() && !answers.is_empty() {
                self.flush(message, &mut content, &mut answers);
            }
            content.extend(words);
        }
        self.flush(message, &mut content, &mut answers);
    }

    fn flush(&mut self, message: &Message, content: &mut Vec<Part>, answers: &mut Vec<Part>) {
        // Reasoning that led to nothing was cut off, and is refused by those who made it.
        while matches!(content.last(), Some(Part::Thought { .. })) {
            content.pop();
        }
        let (content, answers) = (std::mem::take(content), std::mem::take(answers));
        if !content.is_empty() {
            self.messages.push(Message { content, ..message.clone() });
        }
        if !answers.is_empty() {
            self.messages.push(Message {
                role: Role::Tool,
                source: None,
                content: answers,
                ..message.clone()
            });
        }
    }
}

/// The results of a turn, by the call that they answer.
struct Results<'a> {
    found: BTreeMap<&'a str, VecDeque<(usize, &'a Part)>>,
    calls: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> Results<'a> {
    fn of(messages: &'a [Message]) -> Self {
        let mut all = Self { found: BTreeMap::new(), calls: BTreeMap::new() };
        for (at, message) in messages.iter().enumerate() {
            for part in &message.content {
                match (message.role, part) {
                    (Role::Tool, Part::ToolResult { tool_call_id, .. }) => {
                        all.found.entry(tool_call_id).or_default().push_back((at, part));
                    }
                    (Role::Assistant, Part::ToolCall { id, .. }) => {
                        all.calls.entry(id).or_default().push(at)
                    }
                    _ => {}
                }
            }
        }
        all
    }

    /// The first result of a call that came before the same id was used again; else that nobody knows.
    fn take(&mut self, id: &str, called_at: usize, seen: &str) -> Part {
        let again = self
            .calls
            .get(id)
            .and_then(|calls| calls.iter().copied().find(|at| *at > called_at))
            .unwrap_or(usize::MAX);
        let waiting = self.found.get_mut(id);
        let result = waiting.and_then(|waiting| {
            while waiting.front().is_some_and(|(at, _)| *at <= called_at) {
                waiting.pop_front();
            }
            waiting.pop_front_if(|(at, _)| *at < again)
        });
        let (content, is_error) = match result {
            Some((_, Part::ToolResult { content, is_error, .. })) => (content.clone(), *is_error),
            _ => (Content::Text(OUTCOME_UNKNOWN.to_owned()), true),
        };
        Part::ToolResult { tool_call_id: seen.to_owned(), content, is_error }
    }
}

/// Ids of calls are unique within a run only, and agents choose them freely.
#[derive(Default)]
struct Ids(BTreeMap<String, u32>);

impl Ids {
    /// The id itself, where it is legal and new. The same history gives the same ids, and a longer one the same first ones.
    fn unique(&mut self, id: &str) -> String {
        let legal = legal(id, ID_MAX_CHARS, "call");
        let uses = self.0.entry(legal.clone()).or_insert(0);
        *uses += 1;
        if *uses == 1 {
            return legal;
        }
        let mut number = *uses;
        loop {
            let next = format!("{legal}_{number}");
            if !self.0.contains_key(&next) {
                self.0.insert(legal, number);
                self.0.insert(next.clone(), 1);
                return next;
            }
            number += 1;
        }
    }
}

/// Agents name their tools as they like; models are asked only with names that every API takes.
fn legal_name(name: &str) -> String {
    legal(name, NAME_MAX_CHARS, "tool")
}

fn legal(text: &str, max_chars: usize, otherwise: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let legal: String = text.chars().take(max_chars).map(keep).collect();
    if legal.is_empty() { otherwise.to_owned() } else { legal }
}

fn shown(part: &Part) -> Option<Part> {
    match part {
        Part::Text { text } | Part::Summary { text } if text.trim().is_empty() => None,
        other => Some(other.clone()),
    }
}

fn picture(part: &Part, pictures: Pictures) -> Part {
    match part {
        Part::Image { media_type, .. }
            if pictures == Pictures::Described || Format::named(media_type).is_none() =>
        {
            Part::Text { text: described(media_type) }
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;

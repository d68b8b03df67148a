//! Projection: the history of a session in the form that one provider accepts. The stored history
//! does not change.
//!
//! The result is valid for every supported API:
//! - every tool call is followed by exactly one result before the next message,
//! - every result belongs to a call,
//! - ids of calls are unique and consist of characters that every API accepts,
//! - reasoning is sent only to the provider that signed it, and only if text or a call follows it,
//! - notices of ctx to the user are omitted,
//! - a message of the user without an answer, and a partial answer, is followed by a mark that says
//!   why; two messages of the user have a mark between them.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use crate::image::Format;
use crate::message::{Message, Part, Role};
use crate::stored_content::Content;
use crate::turn::Status;

mod marks;

use marks::TurnMarks;
pub use marks::{NEXT_MESSAGE, is_mark, remark, states_end_of_turn};

/// The result of a call that was interrupted.
pub const OUTCOME_UNKNOWN: &str =
    "The outcome of this call is unknown: it was interrupted. Check before repeating it.";
/// Inserted if a history does not start with a user message.
pub const BEGINNING: &str = "[The beginning of this conversation is omitted.]";
/// Appended if the last message is one of the model.
pub const CONTINUE_TEXT: &str = "[Continue.]";
/// Maximum length of a tool name that every API accepts.
const NAME_MAX_CHARS: usize = 64;
/// Maximum length of a call id before a suffix is added. With the suffix it has at most the 64
/// characters that every API accepts.
const ID_MAX_CHARS: usize = 48;

/// The messages of one stored turn.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct PastTurn {
    /// The provider that answered.
    pub provider_id: Option<String>,
    /// How the turn ended.
    pub status: Status,
    pub messages: Vec<Message>,
}

/// How images are projected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageHandling {
    /// Images of users are included.
    Include,
    /// Each image is replaced by a text that describes it.
    Describe,
}

/// Projects stored turns, oldest first, for one provider.
pub fn project(history: &[PastTurn], provider_id: &str, images: ImageHandling) -> Vec<Message> {
    let mut projection = Projection::new(provider_id, images);
    history.iter().for_each(|past| projection.turn(past));
    projection.finish()
}

/// Projects turn by turn, for callers that need to know where each turn starts.
pub struct Projection {
    provider_id: String,
    out: Out,
}

impl Projection {
    /// Starts a projection without turns.
    pub fn new(provider_id: &str, images: ImageHandling) -> Self {
        Self {
            provider_id: provider_id.to_owned(),
            out: Out { images, messages: Vec::new(), ids: Ids::default() },
        }
    }

    /// Adds the next stored turn.
    pub fn turn(&mut self, past: &PastTurn) {
        let own = past.provider_id.as_deref() == Some(self.provider_id.as_str());
        let marks = TurnMarks::of(past.status, &past.messages);
        self.out.add_turn(&past.messages, own, Some(&marks));
    }

    /// Adds the open turn. Its messages are the current request, so they are not marked.
    pub fn open_turn(&mut self, messages: &[Message]) {
        self.out.add_turn(messages, true, None);
    }

    /// Number of projected messages.
    pub fn len(&self) -> usize {
        self.out.messages.len()
    }

    /// Whether no message was projected.
    pub fn is_empty(&self) -> bool {
        self.out.messages.is_empty()
    }

    /// Returns the projected messages.
    pub fn finish(self) -> Vec<Message> {
        self.out.messages
    }
}

/// Makes roles alternate, for models that require it: the first message is one of the user,
/// consecutive messages of one role are merged, and the last message is not one of the model. The
/// input is the result of [`project`]. Merged messages of the user have a mark between them.
pub fn alternate(messages: &[Message]) -> Vec<Alternating<'_>> {
    let mut out: Vec<Alternating<'_>> = Vec::with_capacity(messages.len() + 1);
    for message in messages {
        let role = if message.role == Role::System { Role::User } else { message.role };
        let parts = message.content.iter().map(Cow::Borrowed);
        match out.last_mut() {
            Some(last) if last.role == role => {
                let boundary = [last.parts.last().map(Cow::as_ref), message.content.first()];
                let marked = boundary.into_iter().flatten().any(marks::is_mark_part);
                if role == Role::User && !marked {
                    last.parts.push(text_part(NEXT_MESSAGE));
                }
                last.parts.extend(parts);
                continue;
            }
            None if role != Role::User => out.push(note(BEGINNING)),
            _ => {}
        }
        out.push(Alternating { role, parts: parts.collect() });
    }
    if out.last().is_some_and(|last| last.role == Role::Assistant) {
        out.push(note(CONTINUE_TEXT));
    }
    out
}

/// A message whose neighbours have other roles.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Alternating<'a> {
    pub role: Role,
    pub parts: Vec<Cow<'a, Part>>,
}

/// The text that replaces an image for a model that does not accept it.
pub fn described(media_type: &str) -> String {
    let kind: String = media_type
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "/+-.".contains(*c))
        .take(40)
        .collect();
    format!("[an image, {kind}, which cannot be shown here]")
}

fn text_part(text: &str) -> Cow<'static, Part> {
    Cow::Owned(Part::Text { text: text.to_owned() })
}

fn note(text: &str) -> Alternating<'static> {
    Alternating { role: Role::User, parts: vec![text_part(text)] }
}

struct Out {
    messages: Vec<Message>,
    images: ImageHandling,
    ids: Ids,
}

impl Out {
    /// `marks` is absent for the open turn.
    fn add_turn(&mut self, messages: &[Message], own: bool, marks: Option<&TurnMarks>) {
        let from = self.messages.len();
        let mut results = Results::of(messages);
        for (at, message) in messages.iter().enumerate() {
            match message.role {
                // Of the messages of ctx, only a summary is meant for the model.
                Role::System => self.push_message(message, |part| {
                    if matches!(part, Part::Summary { .. }) { shown(part) } else { None }
                }),
                Role::User => {
                    let images = self.images;
                    self.push_message(message, |part| match part {
                        Part::Image { .. } => Some(project_image(part, images)),
                        Part::Text { .. } | Part::Summary { .. } => shown(part),
                        _ => None,
                    });
                }
                Role::Assistant => self.answer(message, at, own, &mut results),
                // `answer` moves each result to the position after its call.
                Role::Tool => {}
            }
        }
        let turn = self.messages.split_off(from);
        self.add_marked(turn, marks);
    }

    /// Adds the projected messages of one turn, each followed by its mark.
    fn add_marked(&mut self, turn: Vec<Message>, marks: Option<&TurnMarks>) {
        let answer_end = turn
            .iter()
            .rposition(|message| matches!(message.role, Role::Assistant | Role::Tool))
            .map_or(0, |last| last + 1);
        let is_partial = answer_end > 0;
        for (at, message) in turn.into_iter().enumerate() {
            let is_user = message.role == Role::User;
            if is_user && self.messages.last().is_some_and(is_unmarked_user) {
                self.messages.push(marks::mark(&message, NEXT_MESSAGE));
            }
            let text = match marks {
                Some(marks) if is_user && at >= answer_end => Some(marks.unanswered()),
                Some(marks) if is_partial && at + 1 == answer_end => marks.partial(),
                _ => None,
            };
            let mark = text.map(|text| marks::mark(&message, text));
            self.messages.push(message);
            self.messages.extend(mark);
        }
    }

    fn push_message(&mut self, message: &Message, seen: impl Fn(&Part) -> Option<Part>) {
        let content: Vec<Part> = message.content.iter().filter_map(seen).collect();
        if !content.is_empty() {
            self.messages.push(Message { content, ..message.clone() });
        }
    }

    fn answer(&mut self, message: &Message, at: usize, own: bool, results: &mut Results<'_>) {
        let (mut content, mut answers) = (Vec::new(), Vec::new());
        let mut called: Vec<&str> = Vec::new();
        for part in &message.content {
            let text = match part {
                // A call that is recorded twice in one message is one call.
                Part::ToolCall { id, .. } if called.contains(&id.as_str()) => continue,
                Part::ToolCall { id, name, params, status } => {
                    called.push(id);
                    let seen = self.ids.unique(id);
                    answers.push(results.take(id, at, &seen));
                    content.push(Part::ToolCall {
                        id: seen,
                        name: valid_name(name),
                        params: params.clone(),
                        status: *status,
                    });
                    continue;
                }
                Part::Thought { raw: Some(_), .. } if own => Some(part.clone()),
                Part::Text { .. } | Part::Summary { .. } => shown(part),
                Part::Image { .. } => Some(project_image(part, ImageHandling::Describe)),
                _ => None,
            };
            // No text may be between a call and its result, not even in the same message.
            if text.is_some() && !answers.is_empty() {
                self.flush(message, &mut content, &mut answers);
            }
            content.extend(text);
        }
        self.flush(message, &mut content, &mut answers);
    }

    fn flush(&mut self, message: &Message, content: &mut Vec<Part>, answers: &mut Vec<Part>) {
        // Reasoning without a following part was interrupted, and its provider would reject it.
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

fn is_unmarked_user(message: &Message) -> bool {
    message.role == Role::User && !is_mark(message)
}

/// The results of a turn, by call id.
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
                        all.calls.entry(id).or_default().push(at);
                    }
                    _ => {}
                }
            }
        }
        all
    }

    /// The first result of a call before its id was used again, or an unknown outcome.
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

/// Makes call ids unique: they are unique only within a run, and agents choose them freely.
#[derive(Default)]
struct Ids(BTreeMap<String, u32>);

impl Ids {
    /// Returns the id itself if it is valid and new. The result depends only on earlier calls, so a
    /// longer history keeps the ids of its beginning.
    fn unique(&mut self, id: &str) -> String {
        let valid = valid(id, ID_MAX_CHARS, "call");
        let uses = self.0.entry(valid.clone()).or_insert(0);
        *uses += 1;
        if *uses == 1 {
            return valid;
        }
        let mut number = *uses;
        loop {
            let next = format!("{valid}_{number}");
            if !self.0.contains_key(&next) {
                self.0.insert(valid, number);
                self.0.insert(next.clone(), 1);
                return next;
            }
            number += 1;
        }
    }
}

/// Agents choose tool names freely. Requests contain only names that every API accepts.
fn valid_name(name: &str) -> String {
    valid(name, NAME_MAX_CHARS, "tool")
}

fn valid(text: &str, max_chars: usize, fallback: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let valid: String = text.chars().take(max_chars).map(keep).collect();
    if valid.is_empty() { fallback.to_owned() } else { valid }
}

fn shown(part: &Part) -> Option<Part> {
    match part {
        Part::Text { text } | Part::Summary { text } if text.trim().is_empty() => None,
        other => Some(other.clone()),
    }
}

fn project_image(part: &Part, images: ImageHandling) -> Part {
    match part {
        Part::Image { media_type, .. }
            if images == ImageHandling::Describe || Format::named(media_type).is_none() =>
        {
            Part::Text { text: described(media_type) }
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;

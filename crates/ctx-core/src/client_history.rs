//! Histories that clients send with each request: their turns, the keys by which they are found
//! again, and how far they agree with a stored history.
//!
//! Texts are compared in a normal form: a run of white space is one space. System messages are not
//! part of a history. Of tool calls only the texts around them are compared, because a client sees
//! its own tools and not those of the agent.

use serde_json::Value;

use crate::draft::Entry;
use crate::id::{IdGenerator, MessageId, ObjectId, TurnId};
use crate::inbox::text_of;
use crate::message::{Message, Part, Role, Source};
use crate::object::Named;
use crate::time::Timestamp;
use crate::turn::{Kind, Status, is_with_ctx_only};

/// Characters of a key: 128 bits in hex.
const KEY_CHARS: usize = 32;

/// A part of an answer in a history.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub enum GivenStep {
    Text(String),
    /// A call of a tool of the client.
    Call {
        id: String,
        name: String,
        params: Value,
    },
    /// The client's result of a call.
    Result {
        id: String,
        content: String,
    },
}

/// A turn of a history: what the user sent, and the answer.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct GivenTurn {
    /// Texts and images; empty if the history starts with an answer.
    pub user: Vec<Part>,
    pub answer: Vec<GivenStep>,
}

impl GivenTurn {
    /// What the user sent, in normal form.
    pub fn user_text(&self) -> String {
        user_text(&self.user)
    }

    /// The texts of the answer, in normal form.
    pub fn answer_text(&self) -> String {
        normal(self.answer.iter().filter_map(|step| match step {
            GivenStep::Text(text) => Some(text.as_str()),
            _ => None,
        }))
    }

    /// The results that the client gives, as call id and content.
    pub fn results(&self) -> Vec<(&str, &str)> {
        let results = self.answer.iter().filter_map(|step| match step {
            GivenStep::Result { id, content } => Some((id.as_str(), content.as_str())),
            _ => None,
        });
        results.collect()
    }

    /// The first call without a result.
    pub fn open_call(&self) -> Option<&str> {
        let results = self.results();
        self.answer.iter().find_map(|step| match step {
            GivenStep::Call { id, .. } if results.iter().all(|(known, _)| known != id) => {
                Some(id.as_str())
            }
            _ => None,
        })
    }

    /// The answer as entries of an open turn.
    pub fn entries(&self, ids: &mut IdGenerator, at: Timestamp) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut open = None;
        for step in &self.answer {
            let role = match step {
                GivenStep::Result { .. } => Role::Tool,
                GivenStep::Text(_) | GivenStep::Call { .. } => Role::Assistant,
            };
            // Two texts in a row were two messages.
            if open != Some(role) || matches!(step, GivenStep::Text(_)) {
                let id = MessageId(ids.next_id());
                entries.push(Entry::Message { id, role, source: None, at });
                open = Some(role);
            }
            entries.push(match step.clone() {
                GivenStep::Text(text) => Entry::Text { text },
                GivenStep::Call { id, name, params } => Entry::ToolCall { id, name, params },
                GivenStep::Result { id, content } => {
                    Entry::ToolResult { id, content, is_error: false }
                }
            });
        }
        entries.into_iter().map(Entry::readable).collect()
    }

    /// The turn as messages to be stored, with the blobs of large results.
    pub fn messages(&self, ids: &mut IdGenerator, at: Timestamp) -> (Vec<Message>, Vec<Named>) {
        let user = (!self.user.is_empty()).then(|| Message {
            id: MessageId(ids.next_id()),
            role: Role::User,
            source: Some(Source::Human),
            content: self.user.clone(),
            created_at: at,
        });
        let mut answer = crate::draft::Draft::of(self.entries(ids, at));
        answer.cut_off();
        let (answer, blobs) = answer.finish();
        (user.into_iter().chain(answer).collect(), blobs)
    }
}

/// Texts joined and in normal form: words with one space between them.
fn normal<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for word in texts.flat_map(str::split_whitespace) {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word);
    }
    text
}

fn user_text(parts: &[Part]) -> String {
    let images = parts.iter().filter_map(Part::blob).map(|blob| format!("[image {blob}]"));
    let texts = parts.iter().any(|part| matches!(part, Part::Text { .. })).then(|| text_of(parts));
    let all: Vec<String> = texts.into_iter().chain(images).collect();
    normal(all.iter().map(String::as_str))
}

/// The text of an agent's messages as a client receives it: messages are separated by an empty
/// line.
pub fn spoken_text<'a>(messages: impl IntoIterator<Item = &'a Message>) -> String {
    let of_message = |message: &Message| -> String {
        let texts = message.content.iter().filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    };
    let answers = messages.into_iter().filter(|message| message.role == Role::Assistant);
    let texts: Vec<String> = answers.map(of_message).filter(|text| !text.is_empty()).collect();
    texts.join("\n\n")
}

/// The messages of a turn after one of them, up to the next message of the user.
pub fn after_message(messages: &[Message], message: MessageId) -> &[Message] {
    let Some(at) = messages.iter().position(|one| one.id == message) else { return &[] };
    let rest = &messages[at + 1..];
    // The messages that started the turn together are answered together.
    let begun = rest.iter().take_while(|one| one.role == Role::User).count();
    let rest = &rest[begun..];
    let end = rest.iter().position(|one| one.role == Role::User).unwrap_or(rest.len());
    &rest[..end]
}

/// Whether messages of an agent are the answer of a given turn.
pub fn is_answer(messages: &[Message], given: &GivenTurn) -> bool {
    normal(std::iter::once(spoken_text(messages).as_str())) == given.answer_text()
}

/// The keys of a history, one for each turn: a hash of everything before the turn's answer. The
/// answer is not part of it, so that the key is known before there is one.
pub fn keys(turns: &[GivenTurn]) -> Vec<String> {
    let mut before = ObjectId::of(&[b"history"]);
    let mut keys = Vec::with_capacity(turns.len());
    for turn in turns {
        let asked = ObjectId::of(&[before.as_bytes(), b"user", turn.user_text().as_bytes()]);
        let mut key = asked.to_string();
        key.truncate(KEY_CHARS);
        keys.push(key);
        before = ObjectId::of(&[asked.as_bytes(), b"answer", turn.answer_text().as_bytes()]);
    }
    keys
}

/// A stored turn, as far as it is compared with a given one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct PastExchange {
    pub turn: TurnId,
    /// In normal form.
    pub user: String,
    /// In normal form.
    pub answer: String,
    /// Whether a client's history may lack it: a notice, a summary, or a request that was not
    /// answered.
    pub is_optional: bool,
}

impl PastExchange {
    /// A stored turn with its messages.
    pub fn new(
        turn: TurnId,
        kind: Kind,
        status: Status,
        provider_id: Option<&str>,
        messages: &[Message],
    ) -> Self {
        let users = messages.iter().filter(|message| message.role == Role::User);
        let users: Vec<String> = users.map(|message| user_text(&message.content)).collect();
        let answered = status == Status::Completed
            && kind == Kind::Normal
            && !is_with_ctx_only(provider_id, messages);
        Self {
            turn,
            user: normal(users.iter().map(String::as_str)),
            answer: normal(std::iter::once(spoken_text(messages).as_str())),
            is_optional: !answered,
        }
    }
}

/// How far a given history agrees with a stored one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreement {
    /// Number of given turns that are stored.
    pub given: usize,
    /// The last stored turn that was given; none if not even the first one was.
    pub turn: Option<TurnId>,
    /// Whether every later stored turn is optional.
    pub is_head: bool,
}

/// Compares a given history with a stored one, both oldest first.
pub fn agreement(stored: &[PastExchange], given: &[GivenTurn]) -> Agreement {
    let mut agreed = Agreement { given: 0, turn: None, is_head: true };
    let mut unanswered = String::new();
    let mut last = 0;
    for (at, past) in stored.iter().enumerate() {
        let Some(turn) = given.get(agreed.given) else { break };
        let user = turn.user_text();
        // A client keeps a request that failed, or drops it.
        let joined = normal([unanswered.as_str(), past.user.as_str()].into_iter());
        if (user == past.user || user == joined) && turn.answer_text() == past.answer {
            agreed.given += 1;
            agreed.turn = Some(past.turn);
            (last, unanswered) = (at + 1, String::new());
        } else if past.is_optional {
            unanswered = joined;
        } else {
            break;
        }
    }
    agreed.is_head = stored[last..].iter().all(|past| past.is_optional);
    agreed
}

/// Whether the last stored turn is a request with this content that was not answered.
pub fn is_unanswered_request(stored: &PastExchange, user: &[Part]) -> bool {
    stored.is_optional && !stored.user.is_empty() && stored.user == user_text(user)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ulid::Ulid;

    fn text(text: &str) -> Part {
        Part::Text { text: text.to_owned() }
    }

    fn given(user: &str, answer: &str) -> GivenTurn {
        GivenTurn { user: vec![text(user)], answer: vec![GivenStep::Text(answer.to_owned())] }
    }

    fn turn_id(n: u8) -> TurnId {
        TurnId(ObjectId::from_bytes([n; 32]))
    }

    fn past(n: u8, user: &str, answer: &str) -> PastExchange {
        let is_optional = answer.is_empty();
        PastExchange { turn: turn_id(n), user: user.into(), answer: answer.into(), is_optional }
    }

    fn call(id: &str) -> GivenStep {
        GivenStep::Call { id: id.into(), name: "look".into(), params: Value::Null }
    }

    fn result(id: &str) -> GivenStep {
        GivenStep::Result { id: id.into(), content: "seen".into() }
    }

    #[test]
    fn histories_agree_up_to_the_first_difference() {
        let one = || given("a", "1");
        let stored = [past(1, "a", "1"), past(2, "b", "2"), past(3, "c", "3")];
        let table = [
            ("nothing", vec![], 0, None, false),
            ("the beginning", vec![one()], 1, Some(1), false),
            ("all", vec![one(), given("b", "2"), given("c", "3")], 3, Some(3), true),
            (
                "more",
                vec![one(), given("b", "2"), given("c", "3"), given("d", "4")],
                3,
                Some(3),
                true,
            ),
            ("another answer", vec![one(), given("b", "other")], 1, Some(1), false),
            ("another request", vec![one(), given("B", "2")], 1, Some(1), false),
            ("another beginning", vec![given("x", "1")], 0, None, false),
            ("other white space", vec![given(" a\n", "1 ")], 1, Some(1), false),
        ];
        for (what, history, count, turn, is_head) in table {
            let expected = Agreement { given: count, turn: turn.map(turn_id), is_head };
            assert_eq!(agreement(&stored, &history), expected, "{what}");
        }
    }

    #[test]
    fn a_request_without_an_answer_may_be_missing_or_joined_with_the_next() {
        let stored = [past(1, "a", "1"), past(2, "b", ""), past(3, "c", "3")];
        for history in
            [vec![given("a", "1"), given("c", "3")], vec![given("a", "1"), given("b\n\nc", "3")]]
        {
            let expected = Agreement { given: 2, turn: Some(turn_id(3)), is_head: true };
            assert_eq!(agreement(&stored, &history), expected);
        }
        let before = agreement(&stored[..2], &[given("a", "1")]);
        assert_eq!(before, Agreement { given: 1, turn: Some(turn_id(1)), is_head: true });
        assert!(is_unanswered_request(&stored[1], &[text(" b")]));
        assert!(!is_unanswered_request(&stored[1], &[text("c")]));
        assert!(!is_unanswered_request(&stored[0], &[text("a")]), "it was answered");
        assert_eq!(
            agreement(&[], &[given("a", "1")]),
            Agreement { given: 0, turn: None, is_head: true }
        );
    }

    #[test]
    fn a_key_depends_on_everything_before_the_answer_of_its_turn() {
        let history = [given("a", "1"), given("b", "2")];
        let keys_of = |turns: &[GivenTurn]| keys(turns);
        let known = keys_of(&history);
        assert_eq!(known.len(), 2);
        assert!(known.iter().all(|key| key.len() == KEY_CHARS));
        let open = [given("a", "1"), GivenTurn { answer: Vec::new(), ..given("b", "") }];
        assert_eq!(keys_of(&open), known, "the answer of the last turn is not part of its key");
        assert_ne!(keys_of(&[given("a", "other"), given("b", "2")])[1], known[1]);
        assert_ne!(keys_of(&[given("A", "1"), given("b", "2")])[1], known[1]);
        assert_eq!(keys_of(&[given("a ", " 1"), given("b", "2")]), known);
        assert_ne!(keys_of(&[given("", "a 1"), given("b", "2")])[1], known[1]);
    }

    #[test]
    fn an_image_is_part_of_what_the_user_sent() {
        let image = |n: u8| Part::Image {
            media_type: "image/png".into(),
            blob: crate::id::BlobId(ObjectId::from_bytes([n; 32])),
            bytes: None,
        };
        let with = |parts: Vec<Part>| GivenTurn { user: parts, answer: Vec::new() }.user_text();
        assert_ne!(with(vec![text("a"), image(1)]), with(vec![text("a"), image(2)]));
        assert_ne!(with(vec![text("a"), image(1)]), with(vec![text("a")]));
        assert_eq!(with(vec![text("a"), text("b")]), "a b");
    }

    #[test]
    fn a_given_turn_becomes_messages_in_their_order() {
        let turn = GivenTurn {
            user: vec![text("a")],
            answer: vec![
                GivenStep::Text("I look".into()),
                call("c1"),
                call("c2"),
                result("c1"),
                result("c2"),
                GivenStep::Text("done".into()),
            ],
        };
        assert_eq!((turn.open_call(), turn.answer_text().as_str()), (None, "I look done"));
        let (messages, blobs) = turn.messages(&mut IdGenerator::new(Ulid(1)), Timestamp(5));
        assert!(blobs.is_empty());
        let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool, Role::Assistant]);
        assert!(is_answer(&messages[1..], &turn));
        let past =
            PastExchange::new(turn_id(1), Kind::Normal, Status::Completed, Some("p"), &messages);
        assert_eq!(agreement(&[past], std::slice::from_ref(&turn)).given, 1);
        let open = GivenTurn { answer: turn.answer[..4].to_vec(), ..turn };
        assert_eq!(open.open_call(), Some("c2"));
    }

    #[test]
    fn the_answer_to_a_message_ends_before_the_next_message_of_the_user() {
        let message = |id: u128, role: Role, words: &str| Message {
            id: MessageId(Ulid(id)),
            role,
            source: None,
            content: vec![text(words)],
            created_at: Timestamp(0),
        };
        let turn = [
            message(1, Role::User, "a"),
            message(2, Role::User, "b"),
            message(3, Role::Assistant, "first"),
            message(4, Role::Assistant, "second"),
            message(5, Role::User, "c"),
            message(6, Role::Assistant, "third"),
        ];
        for (id, expected) in [(1, "first\n\nsecond"), (2, "first\n\nsecond"), (5, "third")] {
            assert_eq!(spoken_text(after_message(&turn, MessageId(Ulid(id)))), expected);
        }
        assert!(after_message(&turn, MessageId(Ulid(9))).is_empty());
    }
}

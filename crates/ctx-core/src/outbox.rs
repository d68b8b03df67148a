//! The outbox: answers, prompts and permission requests for channels, and when their delivery is
//! tried again. A row is stored in the transaction that makes it, and delivered at least once.

use serde::{Deserialize, Serialize};

use crate::id::{MessageId, NodeId, OutgoingId, PromptId, SessionId, SuspensionId, TurnId};
use crate::identity::{Envelope, PeerKind, channel_key, escape};
use crate::message::{Message, Part, Role};
use crate::prompt::Choice;
use crate::refusal::Refusal;
use crate::suspension::Offer;
use crate::time::{Span, Timestamp};
use crate::turn;

/// Deliveries that are tried before a row is dead.
pub const ATTEMPTS_MAX: u64 = 12;
/// Pause after the first failed delivery. It doubles with each further one.
pub const BACKOFF_FIRST: Span = Span(1000);
/// Longest pause between two deliveries.
pub const BACKOFF_MAX: Span = Span::minutes(5);
/// Longest text of one row. A longer one is cut.
pub const TEXT_MAX_BYTES: usize = 256 * 1024;
/// Longest stored error, in characters.
pub const ERROR_MAX_CHARS: usize = 500;
/// How long a delivered row is kept.
pub const DELIVERED_KEPT: Span = Span::days(30);
/// `last_error` of a waiting row whose channel is not configured.
pub const NO_CHANNEL: &str = "no_channel";

/// The end of a text that was cut.
const CUT: &str = "\n[shortened]";

/// What a row holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The answer of a turn, or of ctx to a command.
    Reply,
    /// A prompt of ctx with two choices.
    Prompt,
    /// The agent asks for a permission.
    Permission,
    /// The agent asks a question.
    Question,
}

/// The state of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Waits for its next delivery.
    Pending,
    /// The channel accepted it.
    Delivered,
    /// It is not tried again by itself.
    Dead,
}

impl Status {
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub const ALL: [Status; 3] = [Self::Pending, Self::Delivered, Self::Dead];

    /// The name in JSON and in the database.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
        }
    }
}

impl std::str::FromStr for Status {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|status| status.name() == text).ok_or_else(|| {
            format!("unknown status `{text}`: the statuses are pending, delivered and dead")
        })
    }
}

/// Where on a channel a row goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Recipient {
    pub channel: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    pub peer_kind: PeerKind,
    /// The group or channel; for a direct message the peer, else the sender.
    pub peer_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// The message on the channel that the answered message referred to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to_id: Option<String>,
}

impl Recipient {
    /// Where the answer to a message goes.
    pub fn of(envelope: &Envelope) -> Self {
        let peer_id = envelope.peer_id.as_ref().unwrap_or(&envelope.sender_id);
        Self {
            channel: envelope.channel.clone(),
            account_id: envelope.account_id.clone(),
            peer_kind: envelope.peer_kind,
            peer_id: peer_id.clone(),
            thread_id: envelope.thread_id.clone(),
            reply_to_id: envelope.reply_to_id.clone(),
        }
    }

    /// The conversation as one text. Rows with equal keys are delivered in order.
    pub fn key(&self) -> String {
        let channel = channel_key(&self.channel, self.account_id.as_deref());
        let kind = match self.peer_kind {
            PeerKind::Dm => "dm",
            PeerKind::Group => "group",
            PeerKind::Channel => "channel",
        };
        let thread = self.thread_id.as_deref().map(|thread| format!(":{}", escape(thread)));
        format!("{channel}:{kind}:{}{}", escape(&self.peer_id), thread.unwrap_or_default())
    }
}

/// A message of a turn whose answer goes to a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct ReplyTo {
    pub message_id: MessageId,
    pub envelope: Envelope,
}

/// What a run knows of its answers beyond the messages that started its turn.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunReplies {
    /// Messages that were added to the turn after its start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<ReplyTo>,
    /// The last message of the agent that was sent with a question of this turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_until: Option<MessageId>,
}

impl RunReplies {
    /// Whether there is nothing to store.
    pub const fn is_empty(&self) -> bool {
        self.added.is_empty() && self.sent_until.is_none()
    }
}

/// The distinct recipients of some messages, each with its messages, in the order of the first
/// message. The newest message decides what an answer refers to.
pub fn recipients(messages: impl IntoIterator<Item = ReplyTo>) -> Vec<(Recipient, Vec<MessageId>)> {
    let mut all: Vec<(String, Recipient, Vec<MessageId>)> = Vec::new();
    for ReplyTo { message_id, envelope } in messages {
        let recipient = Recipient::of(&envelope);
        let key = recipient.key();
        match all.iter_mut().find(|(known, ..)| *known == key) {
            Some((_, known, messages)) => {
                *known = recipient;
                messages.push(message_id);
            }
            None => all.push((key, recipient, vec![message_id])),
        }
    }
    all.into_iter().map(|(_, recipient, messages)| (recipient, messages)).collect()
}

/// What the agent said in a turn, as far as it was not sent before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spoken {
    /// The texts of the agent, joined by empty lines.
    pub text: String,
    /// The errors of the turn, joined by empty lines.
    pub errors: String,
    /// The last message of the agent with a text.
    pub last: Option<MessageId>,
}

impl Spoken {
    /// Collects the texts of the messages after `sent_until`.
    pub fn of(messages: &[Message], sent_until: Option<MessageId>) -> Self {
        let sent = sent_until
            .and_then(|last| messages.iter().position(|message| message.id == last))
            .map_or(0, |at| at + 1);
        let mut spoken = Self::default();
        for message in &messages[sent..] {
            for part in &message.content {
                match part {
                    Part::Text { text } if message.role == Role::Assistant => {
                        join(&mut spoken.text, text);
                        if !text.trim().is_empty() {
                            spoken.last = Some(message.id);
                        }
                    }
                    Part::Error { message, .. } => join(&mut spoken.errors, message),
                    _ => {}
                }
            }
        }
        spoken
    }

    /// The text of the reply for a turn that ended with this status: what the agent said, and the
    /// errors or else a mark if it did not complete. `None` if there is nothing to say.
    pub fn reply(&self, status: turn::Status) -> Option<String> {
        let mut reply = self.text.clone();
        join(&mut reply, &self.errors);
        let mark = match status {
            turn::Status::Completed => "",
            turn::Status::Failed => "[failed]",
            turn::Status::Interrupted => "[interrupted]",
            turn::Status::Cancelled => "[cancelled]",
        };
        if !reply.is_empty() && self.errors.is_empty() {
            join(&mut reply, mark);
        }
        (!reply.is_empty()).then_some(reply)
    }
}

/// Appends a text after an empty line.
fn join(text: &mut String, more: &str) {
    let more = more.trim();
    if !text.is_empty() && !more.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(more);
}

/// Two texts, separated by an empty line.
pub fn joined(first: &str, second: &str) -> String {
    let mut text = first.to_owned();
    join(&mut text, second);
    text
}

/// The content of a row.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Body {
    pub text: String,
    /// The turn that it answers. `None` while that turn is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The messages of the recipient in that turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub message_ids: Vec<MessageId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<PromptId>,
    /// The choices of a prompt, in the order of its letters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Choice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspension_id: Option<SuspensionId>,
    /// The offered answers of a permission or question.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<Offer>,
    /// The question of a permission or question. It is also the end of the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// Whether the sender of the messages may answer it. A permission needs the right to
    /// approve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub may_answer: Option<bool>,
}

impl Body {
    /// Cuts the text to [`TEXT_MAX_BYTES`].
    #[must_use]
    pub fn bounded(mut self) -> Self {
        if self.text.len() > TEXT_MAX_BYTES {
            self.text.truncate(self.text.floor_char_boundary(TEXT_MAX_BYTES - CUT.len()));
            self.text.push_str(CUT);
        }
        self
    }
}

/// A row of the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Outgoing {
    /// The same for every attempt; receivers use it to recognize duplicates.
    pub id: OutgoingId,
    pub session: SessionId,
    /// The label of the session.
    pub label: String,
    pub kind: Kind,
    pub to: Recipient,
    pub body: Body,
    pub status: Status,
    /// Deliveries that were begun.
    pub attempts: u64,
    /// When a pending row is due. During a delivery, when its process gives it up.
    pub next_attempt_at: Timestamp,
    /// The process that delivers it now.
    pub claimed_by: Option<NodeId>,
    pub last_error: Option<String>,
    pub created_at: Timestamp,
    pub delivered_at: Option<Timestamp>,
}

/// How a delivery ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// The channel accepted it.
    Delivered,
    /// It failed and is tried again.
    Failed(String),
    /// It failed, and further deliveries would fail as well.
    Dead(String),
}

/// The pause after this many failed deliveries.
pub const fn backoff(attempts: u64) -> Span {
    let doublings = attempts.saturating_sub(1);
    if doublings >= 16 {
        return BACKOFF_MAX;
    }
    let pause = BACKOFF_FIRST.0 << doublings;
    if pause > BACKOFF_MAX.0 { BACKOFF_MAX } else { Span(pause) }
}

fn later(now: Timestamp, span: Span) -> Timestamp {
    Timestamp(now.0.saturating_add_unsigned(span.0))
}

impl Outgoing {
    /// The row at the begin of a delivery. If its process ends, it is due again after the lease.
    #[must_use]
    pub fn claimed(self, node: NodeId, lease: Span, now: Timestamp) -> Self {
        Self {
            attempts: self.attempts + 1,
            next_attempt_at: later(now, lease),
            claimed_by: Some(node),
            ..self
        }
    }

    /// The row after a delivery, which was begun as `attempt`. A failure of a delivery that another
    /// process has taken over changes nothing; a success always counts.
    #[must_use]
    pub fn settled(self, attempt: u64, settlement: &Settlement, now: Timestamp) -> Self {
        let current = self.status == Status::Pending && self.attempts == attempt;
        match settlement {
            Settlement::Delivered if self.status != Status::Delivered => Self {
                status: Status::Delivered,
                last_error: None,
                claimed_by: None,
                delivered_at: Some(now),
                ..self
            },
            Settlement::Failed(error) if current && self.attempts < ATTEMPTS_MAX => Self {
                next_attempt_at: later(now, backoff(self.attempts)),
                last_error: Some(short_error(error)),
                claimed_by: None,
                ..self
            },
            Settlement::Failed(error) | Settlement::Dead(error) if current => Self {
                status: Status::Dead,
                last_error: Some(short_error(error)),
                claimed_by: None,
                ..self
            },
            _ => self,
        }
    }

    /// A dead row that is delivered again, now.
    ///
    /// # Errors
    /// If it is not dead.
    pub fn retried(self, now: Timestamp) -> Result<Self, Refusal> {
        if self.status != Status::Dead {
            return Err(Refusal::NotDead { status: self.status.name() });
        }
        Ok(Self { status: Status::Pending, attempts: 0, next_attempt_at: now, ..self })
    }
}

/// An error as one line of limited length.
fn short_error(error: &str) -> String {
    let mut line = error.split_whitespace().collect::<Vec<_>>().join(" ");
    line.retain(|c| !c.is_control());
    line.chars().take(ERROR_MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ulid::Ulid;

    fn envelope(sender: &str) -> Envelope {
        Envelope {
            channel: "irc".to_owned(),
            account_id: None,
            sender_id: sender.to_owned(),
            sender_name: None,
            peer_kind: PeerKind::Dm,
            peer_id: None,
            thread_id: None,
            reply_to_id: None,
        }
    }

    fn row(attempts: u64) -> Outgoing {
        Outgoing {
            id: OutgoingId(Ulid(1)),
            session: SessionId(Ulid(2)),
            label: "main".to_owned(),
            kind: Kind::Reply,
            to: Recipient::of(&envelope("mom")),
            body: Body::default(),
            status: Status::Pending,
            attempts,
            next_attempt_at: Timestamp(0),
            claimed_by: None,
            last_error: None,
            created_at: Timestamp(0),
            delivered_at: None,
        }
    }

    #[test]
    fn the_pause_doubles_up_to_five_minutes() {
        let seconds: Vec<u64> = (1..=11).map(|attempts| backoff(attempts).seconds()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!((backoff(0), backoff(u64::MAX)), (BACKOFF_FIRST, BACKOFF_MAX));
    }

    #[test]
    fn a_delivery_is_settled_by_the_table() {
        let (node, now) = (NodeId(Ulid(9)), Timestamp(10_000));
        let failed = Settlement::Failed("a\n \u{7}b".to_owned());
        for attempts in 0..ATTEMPTS_MAX {
            let claimed = row(attempts).claimed(node, Span(500), now);
            assert_eq!(
                (claimed.attempts, claimed.next_attempt_at, claimed.claimed_by),
                (attempts + 1, Timestamp(10_500), Some(node))
            );
            let settled = claimed.clone().settled(attempts + 1, &failed, now);
            let last = attempts + 1 == ATTEMPTS_MAX;
            let status = if last { Status::Dead } else { Status::Pending };
            assert_eq!((settled.status, settled.last_error.as_deref()), (status, Some("a b")));
            assert_eq!(settled.claimed_by, None);
            if !last {
                assert_eq!(settled.next_attempt_at.since(now), backoff(attempts + 1));
            }
            // Another process has taken the delivery over.
            assert_eq!(claimed.clone().settled(attempts, &failed, now), claimed);
            let gone = Settlement::Dead("gone".to_owned());
            assert_eq!(claimed.clone().settled(attempts, &gone, now), claimed);
            assert_eq!(claimed.clone().settled(attempts + 1, &gone, now).status, Status::Dead);
            let late = claimed.settled(attempts, &Settlement::Delivered, now);
            assert_eq!((late.status, late.delivered_at), (Status::Delivered, Some(now)));
            assert_eq!(late.clone().settled(attempts + 1, &failed, Timestamp(0)), late);
        }
    }

    #[test]
    fn only_a_dead_row_is_retried() {
        for status in Status::ALL {
            let retried = Outgoing { status, ..row(12) }.retried(Timestamp(7));
            match status {
                Status::Dead => {
                    let again = retried.expect("it is retried");
                    assert_eq!(
                        (again.status, again.attempts, again.next_attempt_at),
                        (Status::Pending, 0, Timestamp(7))
                    );
                }
                _ => assert_eq!(retried.expect_err("refused").code(), "not_dead"),
            }
            assert_eq!(status.name().parse(), Ok(status));
        }
    }

    #[test]
    fn messages_of_one_conversation_have_one_recipient() {
        let group = |sender: &str, peer: &str, thread: Option<&str>| Envelope {
            peer_kind: PeerKind::Group,
            peer_id: Some(peer.to_owned()),
            thread_id: thread.map(str::to_owned),
            reply_to_id: Some(sender.to_owned()),
            ..envelope(sender)
        };
        let sent = [
            envelope("mom"),
            group("mom", "family", None),
            group("dad", "family", None),
            group("dad", "family", Some("1")),
            envelope("mom"),
            Envelope { account_id: Some("work".to_owned()), ..envelope("mom") },
            Envelope { peer_id: Some("chat 7".to_owned()), ..envelope("mom") },
        ];
        let sent = (1..)
            .zip(sent)
            .map(|(n, envelope)| ReplyTo { message_id: MessageId(Ulid(n)), envelope });
        let found: Vec<(String, Option<String>, Vec<u128>)> = recipients(sent)
            .into_iter()
            .map(|(to, ids)| (to.key(), to.reply_to_id, ids.iter().map(|id| id.0.0).collect()))
            .collect();
        let dad = Some("dad".to_owned());
        let expected = [
            ("irc:dm:mom", None, vec![1, 5]),
            ("irc:group:family", dad.clone(), vec![2, 3]),
            ("irc:group:family:1", dad, vec![4]),
            ("irc/work:dm:mom", None, vec![6]),
            ("irc:dm:chat%207", None, vec![7]),
        ];
        assert_eq!(found, expected.map(|(key, to, ids)| (key.to_owned(), to, ids)));
    }

    #[test]
    fn a_reply_holds_the_text_and_a_mark_or_the_error() {
        let message = |id: u128, role: Role, content: Vec<Part>| Message {
            id: MessageId(Ulid(id)),
            role,
            source: None,
            content,
            created_at: Timestamp(0),
        };
        let text = |text: &str| Part::Text { text: text.to_owned() };
        let error = Part::Error {
            code: "x".to_owned(),
            message: "It failed.".to_owned(),
            provider_id: None,
        };
        let user = message(1, Role::User, vec![text("hello")]);
        let said = message(2, Role::Assistant, vec![text("One."), text(" "), text("Two.\n")]);
        let more = message(3, Role::Assistant, vec![text("Three.")]);
        let broken = message(4, Role::System, vec![error]);
        use turn::Status::{Cancelled, Completed, Failed, Interrupted};
        let table = [
            (vec![&user, &said, &more], None, Completed, Some("One.\n\nTwo.\n\nThree.")),
            (vec![&user, &said, &more], Some(2), Completed, Some("Three.")),
            (vec![&user, &said, &more], Some(3), Completed, None),
            (vec![&user, &more], None, Interrupted, Some("Three.\n\n[interrupted]")),
            (vec![&user, &more], None, Cancelled, Some("Three.\n\n[cancelled]")),
            (vec![&user, &more], None, Failed, Some("Three.\n\n[failed]")),
            (vec![&user, &more, &broken], None, Failed, Some("Three.\n\nIt failed.")),
            (vec![&user, &broken], None, Interrupted, Some("It failed.")),
            (vec![&user], None, Interrupted, None),
            (vec![&user], None, Completed, None),
        ];
        for (messages, sent, status, expected) in table {
            let messages: Vec<Message> = messages.into_iter().cloned().collect();
            let sent = sent.map(|id| MessageId(Ulid(id)));
            assert_eq!(Spoken::of(&messages, sent).reply(status).as_deref(), expected);
        }
        assert_eq!(Spoken::of(&[user, said], None).last, Some(MessageId(Ulid(2))));
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        let text = "é".repeat(TEXT_MAX_BYTES);
        let body = Body { text, ..Body::default() }.bounded();
        assert!(body.text.len() <= TEXT_MAX_BYTES && body.text.ends_with("é\n[shortened]"));
        let short = Body { text: "short".to_owned(), ..Body::default() };
        assert_eq!(short.clone().bounded(), short);
    }
}

//! Marks: short texts of ctx that state what became of a request or an answer. Every provider
//! receives the same texts, so that no request looks open after it was cancelled or failed, and no
//! two messages of the user look like one.

use crate::message::{Message, Part, Role, Source};
use crate::turn::Status;

/// Separates two messages of the user that are answered together.
pub const NEXT_MESSAGE: &str = "[Next message:]";
/// Follows a message that ctx answered without the agent.
const ANSWERED_BY_CTX: &str = "[ctx answered this message itself. It needs no further answer.]";
/// Follows a message in a completed turn whose agent wrote nothing after it.
const NOT_ANSWERED: &str = "[This message was not answered.]";

/// Why a turn did not end normally.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Cancelled,
    Failed,
    Refused,
    OutputLimit,
    NewerMessage,
    Restart,
}

impl Cause {
    const ALL: [Cause; 6] = [
        Self::Cancelled,
        Self::Failed,
        Self::Refused,
        Self::OutputLimit,
        Self::NewerMessage,
        Self::Restart,
    ];

    /// The cause for a stored turn. `None` for a completed turn.
    ///
    /// Of interrupted turns, those of a process that was stopped contain an error part.
    pub(super) fn of(status: Status, messages: &[Message]) -> Option<Self> {
        let mut codes = messages.iter().rev().flat_map(|message| message.content.iter().rev());
        let code = codes.find_map(|part| match part {
            Part::Error { code, .. } => Some(code.as_str()),
            _ => None,
        });
        Some(match (status, code) {
            (Status::Completed, _) => return None,
            (Status::Cancelled, _) => Self::Cancelled,
            (Status::Failed, Some("refused")) => Self::Refused,
            (Status::Failed, Some("max_tokens")) => Self::OutputLimit,
            (Status::Failed, _) => Self::Failed,
            (Status::Interrupted, None) => Self::NewerMessage,
            (Status::Interrupted, Some(_)) => Self::Restart,
        })
    }

    /// The mark of a request without any answer.
    const fn of_request(self) -> &'static str {
        match self {
            Self::Cancelled => {
                "[This request was cancelled by the user before it was answered. Do not act on it \
                 unless asked again.]"
            }
            Self::Failed => {
                "[This request failed before it was answered. Do not act on it unless asked again.]"
            }
            Self::Refused => {
                "[This request was refused by the provider before it was answered. Do not act on \
                 it unless asked again.]"
            }
            Self::OutputLimit => {
                "[This request reached the model's output limit before it was answered. Do not act \
                 on it unless asked again.]"
            }
            Self::NewerMessage => {
                "[This request was interrupted by a newer message of the user before it was \
                 answered. Do not act on it unless the newer message asks for it.]"
            }
            Self::Restart => {
                "[This request was interrupted by a restart before it was answered. Do not act on \
                 it unless asked again.]"
            }
        }
    }

    /// The mark of a partial answer.
    const fn of_answer(self) -> &'static str {
        match self {
            Self::Cancelled => "[This answer is incomplete: it was cancelled by the user.]",
            Self::Failed => "[This answer is incomplete: the provider failed.]",
            Self::Refused => "[This answer is incomplete: the provider refused to continue.]",
            Self::OutputLimit => {
                "[This answer is incomplete: it reached the model's output limit.]"
            }
            Self::NewerMessage => {
                "[This answer is incomplete: a newer message of the user interrupted it.]"
            }
            Self::Restart => "[This answer is incomplete: a restart interrupted it.]",
        }
    }

    /// The cause as a remark after a line of text.
    const fn remark(self) -> &'static str {
        match self {
            Self::Cancelled => " (cancelled before it was answered)",
            Self::Failed | Self::OutputLimit => " (failed before it was answered)",
            Self::Refused => " (refused before it was answered)",
            Self::NewerMessage => " (interrupted by a newer message)",
            Self::Restart => " (interrupted by a restart)",
        }
    }
}

/// The marks of one stored turn.
pub(super) struct TurnMarks {
    cause: Option<Cause>,
    by_ctx: bool,
}

impl TurnMarks {
    pub(super) fn of(status: Status, messages: &[Message]) -> Self {
        let notice = |message: &Message| {
            message.role == Role::System
                && message.content.iter().any(|part| matches!(part, Part::Text { .. }))
        };
        Self { cause: Cause::of(status, messages), by_ctx: messages.iter().any(notice) }
    }

    /// The mark of a message of the user that nothing follows in its turn.
    pub(super) const fn unanswered(&self) -> &'static str {
        match self.cause {
            Some(cause) => cause.of_request(),
            None if self.by_ctx => ANSWERED_BY_CTX,
            None => NOT_ANSWERED,
        }
    }

    /// The mark of the turn's answer, if it is partial.
    pub(super) fn partial(&self) -> Option<&'static str> {
        self.cause.map(Cause::of_answer)
    }
}

/// A mark as a message. It has the id of the message that it belongs to.
pub(super) fn mark(beside: &Message, text: &str) -> Message {
    Message {
        id: beside.id,
        role: Role::User,
        source: Some(Source::Event),
        content: vec![Part::Text { text: text.to_owned() }],
        created_at: beside.created_at,
    }
}

/// Whether a projected message is a mark of ctx and not a message of the user.
pub fn is_mark(message: &Message) -> bool {
    message.role == Role::User
        && message.source == Some(Source::Event)
        && matches!(message.content.as_slice(), [part] if is_mark_part(part))
}

/// Whether a mark states how a turn ended.
pub fn states_end_of_turn(message: &Message) -> bool {
    is_mark(message) && text(message) != NEXT_MESSAGE
}

/// A remark for a line about a message of the user, if the mark after it states that it was not
/// answered.
pub fn remark(mark: &Message) -> Option<&'static str> {
    let text = text(mark);
    let cause = Cause::ALL.into_iter().find(|cause| cause.of_request() == text);
    cause.filter(|_| is_mark(mark)).map(Cause::remark)
}

/// Whether a part of a message is the text of a mark.
pub(super) fn is_mark_part(part: &Part) -> bool {
    let Part::Text { text } = part else { return false };
    [NEXT_MESSAGE, ANSWERED_BY_CTX, NOT_ANSWERED].contains(&text.as_str())
        || Cause::ALL
            .into_iter()
            .any(|cause| [cause.of_request(), cause.of_answer()].contains(&text.as_str()))
}

fn text(message: &Message) -> &str {
    message.content.iter().find_map(Part::searchable_text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::MessageId;
    use crate::time::Timestamp;
    use ulid::Ulid;

    fn error(role: Role, code: &str) -> Message {
        let part =
            Part::Error { code: code.to_owned(), message: "x".to_owned(), provider_id: None };
        let (id, created_at) = (MessageId(Ulid(1)), Timestamp(1));
        Message { id, role, source: None, content: vec![part], created_at }
    }

    #[test]
    fn the_cause_follows_from_the_status_and_the_error_of_the_turn() {
        use Status::{Cancelled, Completed, Failed, Interrupted};
        let stopped = [error(Role::System, "interrupted")];
        for (status, messages, cause) in [
            (Completed, vec![], None),
            (Cancelled, vec![], Some(Cause::Cancelled)),
            (Failed, vec![error(Role::Assistant, "rate_limited")], Some(Cause::Failed)),
            (Failed, vec![error(Role::Assistant, "refused")], Some(Cause::Refused)),
            (Failed, vec![error(Role::Assistant, "max_tokens")], Some(Cause::OutputLimit)),
            (Interrupted, vec![], Some(Cause::NewerMessage)),
            (Interrupted, stopped.to_vec(), Some(Cause::Restart)),
        ] {
            assert_eq!(Cause::of(status, &messages), cause, "{status:?} {messages:?}");
        }
    }

    #[test]
    fn each_cause_has_its_own_texts_and_every_text_is_recognised() {
        let texts: Vec<&str> =
            Cause::ALL.into_iter().flat_map(|c| [c.of_request(), c.of_answer()]).collect();
        let different: std::collections::BTreeSet<&str> = texts.iter().copied().collect();
        assert_eq!(different.len(), texts.len());
        let beside = error(Role::User, "x");
        for text in texts.into_iter().chain([ANSWERED_BY_CTX, NOT_ANSWERED]) {
            let mark = mark(&beside, text);
            assert!(is_mark(&mark) && states_end_of_turn(&mark), "{text}");
            assert!(!is_mark(&Message { source: None, ..mark.clone() }), "the user wrote it");
            assert_eq!(remark(&mark).is_some(), text.starts_with("[This request"), "{text}");
        }
        let next = mark(&beside, NEXT_MESSAGE);
        assert!(is_mark(&next) && !states_end_of_turn(&next) && !is_mark(&beside));
    }
}

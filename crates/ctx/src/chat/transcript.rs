//! The part of a conversation that is loaded: finished turns, the open turn, and whether there is
//! more before and after them. Pure; the lines on the screen are made in `turn_lines`.

use std::collections::{HashMap, VecDeque};

use ctx_engine::core::id::{MessageId, TurnId};
use ctx_engine::core::message::{Message, Part, Role};
use ctx_engine::core::time::Timestamp;
use ctx_engine::core::turn::{Kind, Status};
use ctx_engine::{StoredTurn, TextDelta};

/// Turns and bytes of messages that are kept; more are read again when they are scrolled to.
pub(super) const TURNS_MAX: usize = 240;
const BYTES_MAX: usize = 1 << 20;

/// A finished turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Turn {
    pub(super) id: TurnId,
    pub(super) parent: Option<TurnId>,
    pub(super) status: Status,
    pub(super) is_compaction: bool,
    pub(super) messages: Vec<Message>,
    bytes: usize,
}

impl Turn {
    /// Fails if the body is damaged. A purged body gives a turn without messages.
    pub(super) fn of(turn: StoredTurn) -> Result<Self, ctx_engine::Error> {
        let messages = turn.messages()?.unwrap_or_default();
        let bytes = turn.body.map_or(0, |body| body.bytes.len());
        let header = turn.header;
        Ok(Self {
            id: turn.id,
            parent: header.parent,
            status: header.status,
            is_compaction: header.kind == Kind::Compaction,
            messages,
            bytes,
        })
    }

    /// The text of the first message of the user.
    pub(super) fn question(&self) -> Option<String> {
        self.messages.iter().find(|message| message.role == Role::User).map(text_of)
    }
}

/// The text parts of a message.
pub(super) fn text_of(message: &Message) -> String {
    ctx_engine::core::inbox::text_of(&message.content)
}

/// The direction from which turns are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Older,
    Newer,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Transcript {
    pub(super) turns: VecDeque<Turn>,
    /// The messages of the open turn.
    pub(super) open: Vec<Message>,
    /// Characters of each message of the open turn, by whether they are a thought.
    known_chars: HashMap<(MessageId, bool), usize>,
    /// Whether the newest turns are not loaded, because older ones were scrolled to.
    pub(super) newer_missing: bool,
    /// The read that is under way.
    pub(super) loading: Option<Side>,
}

impl Transcript {
    /// The newest turns of a session, newest first.
    pub(super) fn newest(turns: Vec<Turn>, open: Vec<Message>) -> Self {
        let mut transcript = Self { turns: turns.into_iter().rev().collect(), ..Self::default() };
        transcript.set_open(open);
        transcript
    }

    /// The turn at which the page before the loaded turns starts.
    pub(super) fn older_from(&self) -> Option<TurnId> {
        self.turns.front().and_then(|turn| turn.parent)
    }

    pub(super) fn last(&self) -> Option<TurnId> {
        self.turns.back().map(|turn| turn.id)
    }

    /// Adds a turn that was committed. Returns `false` if it does not follow the last one.
    pub(super) fn push(&mut self, turn: Turn) -> bool {
        if self.newer_missing {
            self.set_open(Vec::new());
            return true;
        }
        if self.turns.iter().any(|known| known.id == turn.id) {
            return true;
        }
        if turn.parent != self.last() {
            return false;
        }
        self.turns.push_back(turn);
        self.set_open(Vec::new());
        while self.is_too_large() && self.turns.len() > 1 {
            self.turns.pop_front();
        }
        true
    }

    /// Adds a page of turns, in the order of reading, and drops turns at the other end.
    pub(super) fn extend(&mut self, side: Side, turns: Vec<Turn>, reached_end: bool) {
        self.loading = None;
        for turn in turns {
            let neighbour = match side {
                Side::Older => self.turns.front().is_some_and(|at| at.parent == Some(turn.id)),
                Side::Newer => turn.parent == self.last(),
            };
            if !neighbour {
                continue;
            }
            match side {
                Side::Older => self.turns.push_front(turn),
                Side::Newer => self.turns.push_back(turn),
            }
            while self.is_too_large() && self.turns.len() > 1 {
                match side {
                    Side::Older => {
                        self.turns.pop_back();
                        self.newer_missing = true;
                    }
                    Side::Newer => drop(self.turns.pop_front()),
                }
            }
        }
        if side == Side::Newer && reached_end {
            self.newer_missing = false;
        }
    }

    fn is_too_large(&self) -> bool {
        self.turns.len() > TURNS_MAX
            || self.turns.iter().map(|turn| turn.bytes).sum::<usize>() > BYTES_MAX
    }

    /// Replaces the open turn by what the store has of it. Text that was streamed is stored before
    /// it is shown, so nothing that was shown is missing.
    pub(super) fn set_open(&mut self, open: Vec<Message>) {
        self.known_chars.clear();
        for message in open.iter().filter(|message| message.role == Role::Assistant) {
            for part in &message.content {
                if let Some((thought, text)) = streamed_text(part) {
                    let known = self.known_chars.entry((message.id, thought)).or_default();
                    *known += text.chars().count();
                }
            }
        }
        self.open = open;
    }

    /// Appends streamed text. Text that is known already is skipped; returns `false` if some text
    /// before it is missing, so that the open turn has to be read again.
    pub(super) fn append(&mut self, delta: &TextDelta, now: Timestamp) -> bool {
        let known = self.known_chars.entry((delta.message_id, delta.thought)).or_default();
        let Some(skipped) = known.checked_sub(delta.offset) else { return false };
        let new: String = delta.text.chars().skip(skipped).collect();
        if new.is_empty() {
            return true;
        }
        *known += new.chars().count();
        let at = self.open.iter().rposition(|message| message.id == delta.message_id);
        let message = match at {
            Some(at) => &mut self.open[at],
            None => {
                self.open.push(Message {
                    id: delta.message_id,
                    role: Role::Assistant,
                    source: None,
                    content: Vec::new(),
                    created_at: now,
                });
                let last = self.open.len() - 1;
                &mut self.open[last]
            }
        };
        match (message.content.last_mut(), delta.thought) {
            (Some(Part::Text { text }), false) | (Some(Part::Thought { text, .. }), true) => {
                text.push_str(&new);
            }
            (_, false) => message.content.push(Part::Text { text: new }),
            (_, true) => message.content.push(Part::Thought { text: new, raw: None }),
        }
        true
    }
}

fn streamed_text(part: &Part) -> Option<(bool, &str)> {
    match part {
        Part::Text { text } => Some((false, text)),
        Part::Thought { text, .. } => Some((true, text)),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use ctx_engine::core::id::{ObjectId, RunId};
    use ulid::Ulid;

    use super::*;

    pub(in crate::chat) fn message(id: u128, role: Role, text: &str) -> Message {
        let content = vec![Part::Text { text: text.to_owned() }];
        Message { id: MessageId(Ulid(id)), role, source: None, content, created_at: Timestamp(0) }
    }

    fn id(n: u16) -> TurnId {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&n.to_be_bytes());
        TurnId(ObjectId::from_bytes(bytes))
    }

    /// Turn `n`, whose parent is turn `n - 1`.
    pub(in crate::chat) fn turn(n: u16) -> Turn {
        Turn {
            id: id(n),
            parent: (n > 1).then(|| id(n - 1)),
            status: Status::Completed,
            is_compaction: false,
            messages: vec![
                message(u128::from(n) * 2, Role::User, &format!("question {n}")),
                message(u128::from(n) * 2 + 1, Role::Assistant, &format!("answer {n}")),
            ],
            bytes: 100,
        }
    }

    pub(in crate::chat) fn delta(message: u128, offset: usize, text: &str) -> TextDelta {
        TextDelta {
            run_id: RunId(Ulid(1)),
            message_id: MessageId(Ulid(message)),
            thought: false,
            offset,
            text: text.to_owned(),
            draft: false,
        }
    }

    fn open_text(transcript: &Transcript) -> String {
        transcript.open.iter().map(text_of).collect()
    }

    #[test]
    fn streamed_text_is_appended_once() {
        let mut transcript = Transcript::default();
        assert!(transcript.append(&delta(1, 0, "hé"), Timestamp(0)));
        assert!(transcript.append(&delta(1, 0, "héllo"), Timestamp(0)), "an overlap");
        assert!(transcript.append(&delta(1, 2, "ll"), Timestamp(0)), "known already");
        assert_eq!(open_text(&transcript), "héllo");
        assert!(!transcript.append(&delta(1, 9, "x"), Timestamp(0)), "a gap");
        transcript.set_open(vec![message(1, Role::Assistant, "héllo wor")]);
        assert!(transcript.append(&delta(1, 5, " world"), Timestamp(0)));
        assert_eq!(open_text(&transcript), "héllo world");
    }

    #[test]
    fn a_committed_turn_replaces_the_open_one() {
        let mut transcript = Transcript::newest(vec![turn(1)], Vec::new());
        transcript.append(&delta(9, 0, "answer"), Timestamp(0));
        assert!(transcript.push(turn(2)));
        assert!(transcript.open.is_empty() && transcript.turns.len() == 2);
        assert!(transcript.push(turn(2)), "a repetition changes nothing");
        assert!(!transcript.push(turn(5)), "another branch has to be read");
        assert_eq!(transcript.turns.len(), 2);
    }

    #[test]
    fn memory_is_bounded_at_both_ends() {
        let max = TURNS_MAX as u16;
        let mut transcript = Transcript::newest(vec![turn(1000)], Vec::new());
        for n in 1001..1000 + 2 * max {
            assert!(transcript.push(turn(n)));
        }
        assert_eq!(transcript.turns.len(), TURNS_MAX, "old turns are dropped");
        let first = transcript.turns[0].id;
        assert_eq!(transcript.older_from(), transcript.turns[0].parent);
        let from = 1000 + max - 1;
        transcript.extend(Side::Older, (from - 9..=from).rev().map(turn).collect(), false);
        assert!(transcript.newer_missing && transcript.turns.len() == TURNS_MAX);
        assert_ne!(transcript.turns[0].id, first);
        let last = 1000 + 2 * max - 10;
        transcript.extend(Side::Newer, (last..last + 10).map(turn).collect(), true);
        assert!(!transcript.newer_missing, "the end is loaded again");
        assert_eq!(transcript.last(), Some(turn(last + 9).id));
    }
}

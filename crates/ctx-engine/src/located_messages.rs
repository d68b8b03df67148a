//! Finds a message of a session by its id: in the inbox, in the open turn, or in a stored turn.

use ctx_core::client_history::PastExchange;
use ctx_core::decide::{Needs, item_message};
use ctx_core::draft::{Draft, Entry};
use ctx_core::id::{MessageId, SessionId};
use ctx_core::inbox::ItemState;
use ctx_core::message::Message;
use ctx_core::prompt::Prompt;
use ctx_core::refusal::Refusal;
use ctx_core::run::Run;
use ctx_core::session::Activity;
use ctx_core::suspension::Suspension;
use ctx_core::turn::Usage;
use ctx_store::{StoredTurn, Target, TurnQuery};

use crate::engine::Error;
use crate::messages::Messages;

/// Turns that one read returns.
const PAGE: usize = 64;
/// Most turns that are searched, newest first.
const TURNS_MAX: usize = 10_000;

/// Where a message is.
#[derive(Debug, Clone, PartialEq)]
pub enum Located {
    /// It waits in the inbox, for a run or for the answer to the question.
    Waiting(Option<Prompt>),
    /// It is in the open turn.
    Open(Box<OpenTurn>),
    /// It is in a turn of the history.
    Stored(Box<StoredMessage>),
    /// It is not in the history of the session, or no longer.
    Missing,
}

/// The open turn of a session.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct OpenTurn {
    pub messages: Vec<Message>,
    /// The run that is open or suspended.
    pub run: Option<Run>,
    pub state: Activity,
    /// What the turn waits for, oldest first.
    pub suspensions: Vec<Suspension>,
    /// Usage so far.
    pub usage: Option<Usage>,
}

/// A message in a stored turn.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredMessage {
    /// The turn.
    pub turn: StoredTurn,
    /// The messages of the turn.
    pub messages: Vec<Message>,
    /// Whether every later turn is a notice, a summary, or a request without an answer.
    pub is_newest: bool,
}

impl Messages<'_> {
    /// Finds a message of a session.
    ///
    /// Fails if the session does not exist, or a turn is damaged.
    pub async fn locate(self, session: SessionId, message: MessageId) -> Result<Located, Error> {
        let needs = Needs { to_seal: false, ..Needs::CLOSE };
        let view = self.engine.store().view(&Target::Id(session), needs).await?;
        let view = view.ok_or(Refusal::NoSession)?;
        let draft = Draft::of(view.drafts.iter().cloned());
        let is_given = |entry: &Entry| matches!(entry, Entry::Message { id, .. } if *id == message);
        let item = view
            .inbox
            .iter()
            .find(|item| item.message_id == message || item.overrides.given.iter().any(is_given));
        match item.map(|item| item.state) {
            Some(ItemState::Waiting | ItemState::Held | ItemState::Steering) => {
                return Ok(Located::Waiting(view.prompt));
            }
            Some(ItemState::Dropped) => return Ok(Located::Missing),
            Some(ItemState::Taken) => {}
            None if draft.messages.iter().any(|one| one.id == message) => {}
            None => return self.locate_stored(view.session.head, message).await,
        }
        let taken = view.inbox.iter().filter(|item| item.state == ItemState::Taken);
        Ok(Located::Open(Box::new(OpenTurn {
            messages: taken.map(item_message).chain(draft.messages).collect(),
            run: view.run,
            state: view.session.state,
            suspensions: view.suspensions,
            usage: draft.usage,
        })))
    }

    async fn locate_stored(
        self,
        head: Option<ctx_core::id::TurnId>,
        message: MessageId,
    ) -> Result<Located, Error> {
        let (mut at, mut seen, mut is_newest) = (head, 0, true);
        while let Some(from) = at.filter(|_| seen < TURNS_MAX) {
            // Most often it is in the newest turn.
            let limit = if seen == 0 { 1 } else { PAGE };
            let turns = self.engine.store().turns(TurnQuery::newest(from, limit)).await?;
            seen += turns.len();
            at = turns.last().and_then(|turn| turn.header.parent);
            for turn in turns {
                let found = turn.header.messages.iter().any(|head| head.id == message);
                if !found && !is_newest {
                    continue;
                }
                let messages = turn.messages()?.unwrap_or_default();
                if found {
                    let stored = StoredMessage { turn, messages, is_newest };
                    return Ok(Located::Stored(Box::new(stored)));
                }
                is_newest &= past_exchange(&turn, &messages).is_optional;
            }
        }
        Ok(Located::Missing)
    }
}

/// A stored turn in the form in which it is compared with a client's history.
pub(crate) fn past_exchange(turn: &StoredTurn, messages: &[Message]) -> PastExchange {
    let header = &turn.header;
    PastExchange::new(turn.id, header.kind, header.status, header.provider_id.as_deref(), messages)
}

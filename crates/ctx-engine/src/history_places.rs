//! Finds where the request of a client continues: in a session that it names, or by the history
//! that it sends.

use ctx_core::client_history::{
    Agreement, GivenTurn, PastExchange, after_message, agreement, is_answer, keys,
};
use ctx_core::decide::Needs;
use ctx_core::id::{MessageId, SessionId, TurnId};
use ctx_core::refusal::Refusal;
use ctx_core::session::{Activity, Session};
use ctx_core::suspension::Kind;
use ctx_store::{Error as StoreError, FoundHistory, Target, TurnQuery};

use crate::client_histories::{ClientHistories, ClientRequest, ClientSession};
use crate::context::HISTORY_MAX_BYTES;
use crate::engine::Error;
use crate::located_messages::{Located, past_exchange};
use crate::sessions::Info;

/// Most turns of a named session that are compared with the client's history.
const PATH_MAX: usize = 5000;
/// Keys of a history that one query looks for, those of the newest turns first.
const KEYS_MAX: usize = 64;
/// Most messages that one query returns.
const FOUND_MAX: usize = 256;
/// Where a request continues.
pub(crate) struct Place {
    /// The session that is continued or forked; none for a new one.
    pub(crate) session: Option<Session>,
    /// The turn that the client's history ends with, as far as it is stored.
    pub(crate) turn: Option<TurnId>,
    /// Number of given turns that are stored.
    pub(crate) given: usize,
    /// Whether the session is continued; else it is forked at the turn.
    pub(crate) continues: bool,
    /// Whether the session has to be idle and at this turn.
    pub(crate) exact: bool,
    /// Whether the client has sent the whole history, so that its keys are known.
    pub(crate) whole: bool,
    /// The session that the client named.
    pub(crate) root: Option<SessionId>,
}

impl Place {
    const fn start() -> Self {
        Self {
            session: None,
            turn: None,
            given: 0,
            continues: false,
            exact: false,
            whole: true,
            root: None,
        }
    }
}

impl ClientHistories<'_> {
    /// The sessions in which the last turn of a request is open.
    pub(crate) async fn sessions_of(
        self,
        scope: &str,
        request: &ClientRequest,
    ) -> Result<Vec<SessionId>, Error> {
        let Some(key) = keys(&request.turns).pop() else { return Ok(Vec::new()) };
        let found = self.engine.store().histories(scope, &[key], FOUND_MAX).await?;
        Ok(found.into_iter().map(|found| found.session).collect())
    }

    /// A session by its id, label or alias. Other than in `/api`, the beginning of an id names no
    /// session: a label that is not in use yet must not be mistaken for one.
    ///
    /// Fails if the store fails.
    pub async fn find(self, name: &str) -> Result<Option<Info>, Error> {
        let label = || Target::Label(name.to_owned());
        let target = name.parse().map_or_else(|_| label(), Target::Id);
        match self.engine.store().view(&target, Needs::RUN).await? {
            Some(view) => Ok(Some(self.engine.info_of(view).await?)),
            None => Ok(None),
        }
    }

    /// Finds where a request continues.
    pub(crate) async fn place(
        self,
        request: &ClientRequest,
        history: &[GivenTurn],
    ) -> Result<Place, Error> {
        match &request.session {
            ClientSession::Named(label) => match self.find(label).await? {
                Some(info) => self.place_in(info.session, history).await,
                None => Ok(Place::start()),
            },
            ClientSession::Existing(name) => {
                let info = self.find(name).await?.ok_or(Refusal::NoSession)?;
                self.place_in(info.session, history).await
            }
            ClientSession::After { session, message } => self.place_after(*session, *message).await,
            ClientSession::ByHistory => {
                let found = self.by_keys(&request.scope, history).await?;
                Ok(found.map_or_else(Place::start, |found| Place { exact: true, ..found }))
            }
        }
    }

    /// In a session that the client named, or in a fork of it that the client made before.
    async fn place_in(self, session: Session, history: &[GivenTurn]) -> Result<Place, Error> {
        let root = Some(session.id);
        let whole = !history.is_empty() || session.head.is_none();
        if history.is_empty() {
            let turn = session.head;
            let place = Place { turn, continues: true, whole, root, ..Place::start() };
            return Ok(Place { session: Some(session), ..place });
        }
        let found = self.by_keys(&session_scope(session.id), history).await?;
        if let Some(found) = found.as_ref().filter(|found| found.given == history.len())
            && found.continues
        {
            let session = found.session.clone();
            return Ok(Place { session, root, exact: false, ..*found });
        }
        let path = self.path(&session).await?;
        let Agreement { given, turn, is_head } = agreement(&path, history);
        let deeper = found.filter(|found| found.given > given);
        if let Some(found) = deeper {
            return Ok(Place { root, ..found });
        }
        let continues = is_head && (given == history.len() || session.state == Activity::Idle);
        // Turns are added only to a session that did not change meanwhile.
        let exact = continues && given < history.len();
        Ok(Place { session: Some(session), turn, given, continues, exact, whole, root })
    }

    /// After the answer to a message.
    async fn place_after(self, session: SessionId, message: MessageId) -> Result<Place, Error> {
        let info = self.engine.sessions().get(&session.to_string()).await?;
        let (turn, continues) = match self.engine.messages().locate(session, message).await? {
            Located::Missing => return Err(Refusal::NoSession.into()),
            Located::Waiting(_) | Located::Open(_) => (info.session.head, true),
            Located::Stored(stored) => (Some(stored.turn.id), stored.is_newest),
        };
        let session = Some(info.session);
        Ok(Place { session, turn, continues, whole: false, ..Place::start() })
    }

    /// The stored history of a session, oldest first.
    async fn path(self, session: &Session) -> Result<Vec<PastExchange>, Error> {
        let Some(head) = session.head else { return Ok(Vec::new()) };
        let query = TurnQuery { max_bytes: HISTORY_MAX_BYTES, ..TurnQuery::newest(head, PATH_MAX) };
        let exchange = |turn: ctx_store::StoredTurn| {
            let messages = turn.messages()?.unwrap_or_default();
            Ok::<_, StoreError>(past_exchange(&turn, &messages))
        };
        let mut path = self.engine.store().map_turns(query, exchange).await?;
        path.reverse();
        Ok(path)
    }

    /// The stored turn that most of a history leads to, by the keys of earlier requests.
    async fn by_keys(self, scope: &str, history: &[GivenTurn]) -> Result<Option<Place>, Error> {
        let all = keys(history);
        let mut end = all.len();
        while end > 0 {
            let begin = end.saturating_sub(KEYS_MAX);
            let store = self.engine.store();
            let found = store.histories(scope, &all[begin..end], FOUND_MAX).await?;
            for at in (begin..end).rev() {
                let same = found.iter().filter(|found| found.key == all[at]);
                let mut forked = None;
                for candidate in same {
                    let Some(place) = self.verified(candidate, &history[at], at + 1).await? else {
                        continue;
                    };
                    if place.continues {
                        return Ok(Some(place));
                    }
                    forked = forked.or(Some(place));
                }
                if forked.is_some() {
                    return Ok(forked);
                }
            }
            end = begin;
        }
        Ok(None)
    }

    /// Whether the answer to a message is the one that the client sent.
    async fn verified(
        self,
        found: &FoundHistory,
        turn: &GivenTurn,
        given: usize,
    ) -> Result<Option<Place>, Error> {
        let Some(info) = self.find(&found.session.to_string()).await? else { return Ok(None) };
        let place = Place { given, ..Place::start() };
        Ok(match self.engine.messages().locate(found.session, found.message).await? {
            Located::Stored(stored) => {
                let answer = after_message(&stored.messages, found.message);
                let idle = info.session.state == Activity::Idle && info.inbox.is_empty();
                is_answer(answer, turn).then_some(Place {
                    turn: Some(stored.turn.id),
                    continues: stored.is_newest && idle,
                    session: Some(info.session),
                    ..place
                })
            }
            // The client has seen a question, and answers it.
            Located::Open(open)
                if open.state == Activity::Suspended
                    && open.suspensions.iter().any(|one| one.awaited.kind != Kind::ToolResult) =>
            {
                let turn = info.session.head;
                let session = Some(info.session);
                Some(Place { turn, continues: true, session, ..place })
            }
            Located::Open(_) | Located::Waiting(_) | Located::Missing => None,
        })
    }
}

/// The scope of the keys of a session that clients name, and of its forks.
pub(crate) fn session_scope(session: SessionId) -> String {
    format!("session {session}")
}

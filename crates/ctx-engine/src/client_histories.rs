//! Messages of clients that keep the history themselves and send it with each request, as chat
//! clients do.
//!
//! The session is named by the client, or found by its history. Of the history only what follows
//! the stored one is taken. Where the two part, the session is forked; a history that is not known
//! starts a session. Fork, imported turns and message are one transaction.

use ctx_core::client_history::{GivenTurn, is_unanswered_request, keys};
use ctx_core::decide::{
    self, HistoryKey, HistoryTarget, Needs, RunPolicy, SessionView, SubmittedHistory,
};
use ctx_core::id::{IdGenerator, MessageId, SessionId};
use ctx_core::inbox::{Mode, Overrides, text_of};
use ctx_core::message::{Part, Role};
use ctx_core::object::Named;
use ctx_core::refusal::Refusal;
use ctx_core::session::{self, Activity, Origin, Session};
use ctx_core::suspension::{Answer, CallResult, Kind, Suspension};
use ctx_core::time::Span;
use ctx_core::turn::{About, Ready, Status};
use ctx_store::{Once, OnceKey, Target, Write};

use crate::engine::{Engine, Error};
use crate::history_places::{Place, session_scope};
use crate::located_messages::{Located, past_exchange};
use crate::submit::{NewMessage, NewSession, Submitted, remembered, replayed, to_completion};

/// How often a request is decided again because the session changed meanwhile.
const TRIES_MAX: usize = 5;

/// How a client names the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientSession {
    /// By its label; the session is created if it does not exist.
    Named(String),
    /// By its id, label or alias; it must exist.
    Existing(String),
    /// By a message: the request continues the conversation after the answer to it.
    After {
        /// The session of the message.
        session: SessionId,
        /// The message.
        message: MessageId,
    },
    /// Not at all: the history finds it.
    ByHistory,
}

/// A request of a client.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct ClientRequest {
    pub session: ClientSession,
    /// The history, oldest first. The last turn is to be answered: it has a message of the user,
    /// or results of the client's tools.
    pub turns: Vec<GivenTurn>,
    /// The bytes of the images in `turns`.
    pub blobs: Vec<Named>,
    pub overrides: Overrides,
    /// Preferences of a session that is created.
    pub new: NewSession,
    /// The client's token: a history is found among the requests of the same one.
    pub scope: String,
    /// Under which key a repeated request gets the first answer.
    pub once: Option<OnceKey>,
}

/// Messages of clients that send their history.
#[derive(Clone, Copy)]
pub struct ClientHistories<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// Messages of clients that send their history.
    pub const fn client_histories(&self) -> ClientHistories<'_> {
        ClientHistories { engine: self }
    }
}

impl ClientHistories<'_> {
    /// Accepts a request.
    ///
    /// Fails if the session does not exist or does not accept the message.
    pub async fn submit(self, request: ClientRequest) -> Result<Submitted, Error> {
        let mut request = request;
        if let Some(key) = &request.once
            && let Some(answer) = self.engine.store().answer_of(key, self.engine.now()).await?
        {
            let first = Submitted { replayed: true, ..replayed(answer)? };
            match self.repeat(&first, &request).await? {
                Repeat::Replay => return Ok(first),
                Repeat::Again(submitted) => return Ok(*submitted),
                // The message is not in the history any more.
                Repeat::New => {
                    request.once =
                        request.once.map(|key| OnceKey { max_age: Some(Span(0)), ..key });
                }
            }
        }
        let mut tries = 0;
        loop {
            tries += 1;
            match self.try_submit(&request).await {
                Err(error)
                    if tries < TRIES_MAX
                        && matches!(
                            error.refusal(),
                            Some(Refusal::StaleWriter | Refusal::LabelInUse { .. })
                        ) => {}
                done => return done,
            }
        }
    }

    /// Creates a session that starts with a history, without a message.
    ///
    /// Fails if the label is in use.
    pub async fn create(
        self,
        new: NewSession,
        turns: Vec<GivenTurn>,
        blobs: Vec<Named>,
        scope: &str,
    ) -> Result<SessionId, Error> {
        let new = self.engine.new_session(new)?;
        let (id, label, now) = (new.id, new.label.clone(), self.engine.now());
        let mut ids = IdGenerator::new(self.engine.new_id());
        let scopes = [scope.to_owned(), session_scope(id)];
        let (mut ready, mut history_keys, mut objects) = (Vec::new(), Vec::new(), blobs);
        for (key, turn) in keys(&turns).into_iter().zip(&turns) {
            let (messages, blobs) = turn.messages(&mut ids, now);
            let user = messages.first().filter(|message| message.role == Role::User);
            history_keys.extend(user.into_iter().flat_map(|user| {
                let (key, message) = (&key, user.id);
                let of = move |scope: &String| HistoryKey {
                    scope: scope.clone(),
                    key: key.clone(),
                    message,
                };
                scopes.iter().map(of)
            }));
            let (turn, body) = Ready::new(About::at(now), messages);
            ready.push(turn);
            objects.extend(blobs.into_iter().chain([body]));
        }
        let rule = move |found: Option<&SessionView>| {
            decide::create_with_history(found, &new, &ready, &history_keys)
        };
        let write = Write { target: Target::Label(label), needs: Needs::NOTHING, objects, now };
        self.engine.execute(write, rule).await?;
        Ok(id)
    }

    /// What a repeated request gets. A run that a crash cut off is run again if its provider's
    /// requests have no effects: the client asks for the answer, not for the part of it.
    async fn repeat(self, first: &Submitted, request: &ClientRequest) -> Result<Repeat, Error> {
        let located = match self.engine.messages().locate(first.session, first.message_id).await {
            Err(error) if matches!(error.refusal(), Some(Refusal::NoSession)) => Located::Missing,
            located => located?,
        };
        let stored = match located {
            Located::Missing => return Ok(Repeat::New),
            Located::Stored(stored) => stored,
            Located::Waiting(_) | Located::Open(_) => return Ok(Repeat::Replay),
        };
        let provider = stored.turn.header.provider_id.as_deref().unwrap_or_default();
        let provider = self.engine.shared().provider(provider);
        let repeatable = provider.is_some_and(|provider| provider.about().repeatable);
        if stored.turn.header.status != Status::Interrupted || !stored.is_newest || !repeatable {
            return Ok(Repeat::Replay);
        }
        let once = request.once.clone().map(|key| OnceKey { max_age: Some(Span(0)), ..key });
        let pairs = own_key(request, None);
        let overrides = request.overrides.clone();
        let name = first.session.to_string();
        match self.engine.runs().retry_once(&name, overrides, pairs, once).await {
            Ok(submitted) => Ok(Repeat::Again(Box::new(submitted))),
            // Another request has continued the session meanwhile.
            Err(error) if error.refusal().is_some() => Ok(Repeat::Replay),
            Err(error) => Err(error),
        }
    }

    async fn try_submit(self, request: &ClientRequest) -> Result<Submitted, Error> {
        let Some((open, history)) = request.turns.split_last() else {
            return Err(Refusal::BadAnswer { why: "the request has no message".to_owned() }.into());
        };
        if !open.answer.is_empty()
            && let Some(submitted) = self.resume(request, open).await?
        {
            return Ok(submitted);
        }
        let mut place = self.place(request, history).await?;
        if !open.answer.is_empty() {
            if open.user.is_empty() {
                return Err(Refusal::NoSuspension.into());
            }
            // The results are not awaited: the turn is opened again with them.
            let idle = |session: &Session| session.state == Activity::Idle;
            place.continues &= place.session.as_ref().is_some_and(idle);
            place.exact = true;
        }
        self.accept(request, place, open, history).await
    }

    /// Gives the results of the client's tools to the run that waits for them.
    async fn resume(
        self,
        request: &ClientRequest,
        open: &GivenTurn,
    ) -> Result<Option<Submitted>, Error> {
        let results = open.results();
        let mut waiting = Vec::new();
        match &request.session {
            ClientSession::Named(name) | ClientSession::Existing(name) => {
                if let Some(info) = self.find(name).await? {
                    let scope = session_scope(info.session.id);
                    waiting.push(info.session.id);
                    waiting.extend(self.sessions_of(&scope, request).await?);
                }
            }
            ClientSession::After { session, .. } => waiting.push(*session),
            ClientSession::ByHistory => {
                waiting.extend(self.sessions_of(&request.scope, request).await?);
            }
        }
        for session in waiting {
            let Some(info) = self.find(&session.to_string()).await? else { continue };
            let is_given = |suspension: &&Suspension| {
                let mut calls = suspension.awaited.tool_calls.iter();
                calls.any(|call| results.iter().any(|(id, _)| *id == call.id))
            };
            let Some(suspension) = info.suspensions.iter().find(is_given) else { continue };
            let is_awaited =
                |id: &str| suspension.awaited.tool_calls.iter().any(|call| call.id == id);
            let given = results.iter().filter(|(id, _)| is_awaited(id));
            let results = given.map(|(id, content)| CallResult {
                tool_call_id: (*id).to_owned(),
                content: (*content).to_owned(),
                is_error: false,
            });
            let answer = Answer { results: results.collect(), ..Answer::default() };
            let (target, id) = (Target::Id(info.session.id), suspension.id);
            let started =
                self.engine.runs().resume_once(target, id, answer, request.once.clone()).await?;
            return Ok(started.map(|started| started.submitted));
        }
        Ok(None)
    }

    async fn accept(
        self,
        request: &ClientRequest,
        place: Place,
        open: &GivenTurn,
        history: &[GivenTurn],
    ) -> Result<Submitted, Error> {
        let missing = &history[place.given..];
        if let Some(session) = place.session.as_ref().filter(|_| place.continues) {
            if missing.is_empty() && self.is_unanswered(session, &open.user).await? {
                let pairs = if place.whole { own_key(request, place.root) } else { Vec::new() };
                let name = session.id.to_string();
                let (overrides, once) = (request.overrides.clone(), request.once.clone());
                return self.engine.runs().retry_once(&name, overrides, pairs, once).await;
            }
            self.check_suspension(session, request, &open.user).await?;
        }
        let (target, to) = self.target(request, &place).await?;
        let root = match (&to, place.root, &request.session) {
            (_, Some(root), _) => Some(root),
            (HistoryTarget::New(new), None, ClientSession::Named(_)) => Some(new.id),
            _ => None,
        };
        let now = self.engine.now();
        let mut ids = IdGenerator::new(self.engine.new_id());
        let given = open.entries(&mut ids, now);
        let mode = match &place.session {
            Some(session) if session.state == Activity::Suspended && place.continues => {
                Mode::Interrupt
            }
            _ => Mode::Queue,
        };
        let message = NewMessage {
            content: open.user.clone(),
            mode: Some(mode),
            overrides: Overrides { given, ..request.overrides.clone() },
            blobs: request.blobs.clone(),
            ..NewMessage::default()
        };
        let (submit, mut objects) = self.engine.submission(message, RunPolicy::StartRun);
        let all_keys = keys(&request.turns);
        let mut submitted = SubmittedHistory { to, turns: Vec::new(), keys: Vec::new() };
        let scopes: Vec<String> =
            std::iter::once(request.scope.clone()).chain(root.map(session_scope)).collect();
        let mut add_key = |at: usize, message: MessageId| {
            let key = |scope: &String| HistoryKey {
                scope: scope.clone(),
                key: all_keys[at].clone(),
                message,
            };
            submitted.keys.extend(scopes.iter().filter(|_| place.whole).map(key));
        };
        for (at, turn) in missing.iter().enumerate() {
            let (messages, blobs) = turn.messages(&mut ids, now);
            let user = messages.first().filter(|message| message.role == Role::User);
            user.into_iter().for_each(|user| add_key(place.given + at, user.id));
            let (ready, body) = Ready::new(About::at(now), messages);
            submitted.turns.push(ready);
            objects.extend(blobs.into_iter().chain([body]));
        }
        add_key(history.len(), submit.message_id);
        self.store(target, submitted, submit, objects, request.once.clone()).await
    }

    /// Executes the rule in one transaction, and hands the message over.
    async fn store(
        self,
        target: Target,
        history: SubmittedHistory,
        submit: decide::Submit,
        objects: Vec<Named>,
        once: Option<OnceKey>,
    ) -> Result<Submitted, Error> {
        self.engine.ensure_lease().await?;
        let slot = self.engine.shared().slots.take();
        let policy = if slot.is_none() { RunPolicy::NoRoom } else { RunPolicy::StartRun };
        let submit = decide::Submit { run_policy: policy, ..submit };
        let (run_host, settings, invocation) = (
            self.engine.shared().run_host(),
            self.engine.settings().clone(),
            self.engine.invocation(),
        );
        let write = Write { target, needs: Needs::MESSAGE, objects, now: invocation.now };
        let rule = move |view: Option<&SessionView>| {
            decide::submit_history(view, &history, &submit, &run_host, &settings, &invocation)
        };
        let once = once.map(|key| Once { key, answer: remembered });
        let engine = self.engine.clone();
        to_completion(async move { engine.accept(write, once, policy, slot, rule).await }).await
    }

    /// Whether the newest turn of an idle session is this request, and was not answered.
    async fn is_unanswered(self, session: &Session, user: &[Part]) -> Result<bool, Error> {
        let Some(head) = session.head.filter(|_| session.state == Activity::Idle) else {
            return Ok(false);
        };
        let Some(turn) = self.engine.last_exchange(head).await? else { return Ok(false) };
        let messages = turn.messages()?.unwrap_or_default();
        Ok(is_unanswered_request(&past_exchange(&turn, &messages), user))
    }

    /// A decision that the session waits for must be made before it can continue.
    async fn check_suspension(
        self,
        session: &Session,
        request: &ClientRequest,
        user: &[Part],
    ) -> Result<(), Error> {
        if session.state != Activity::Suspended {
            return Ok(());
        }
        let info = self.engine.sessions().get(&session.id.to_string()).await?;
        let mut calls = info.suspensions.iter().flat_map(|one| one.awaited.tool_calls.iter());
        // A request that names the call's response has to answer the call.
        if matches!(request.session, ClientSession::After { .. })
            && let Some(call) = calls.next()
        {
            let why = format!("the result of tool call `{}` is missing", call.id);
            return Err(Refusal::BadAnswer { why }.into());
        }
        let text = text_of(user);
        let decisions =
            || info.suspensions.iter().filter(|one| one.awaited.kind != Kind::ToolResult);
        if decisions().next().is_none() || decisions().any(|one| one.is_answered_by(&text)) {
            return Ok(());
        }
        let asked: Vec<String> = decisions().map(Suspension::question).collect();
        let offers = decisions().flat_map(|one| one.awaited.options.iter().map(|offer| &*offer.id));
        let offers: Vec<&str> = offers.collect();
        let why = format!(
            "the session waits for a decision: {}; the answers are {}",
            asked.join("; "),
            offers.join(", ")
        );
        Err(Refusal::BadAnswer { why }.into())
    }

    /// The session that receives the message.
    async fn target(
        self,
        request: &ClientRequest,
        place: &Place,
    ) -> Result<(Target, HistoryTarget), Error> {
        let Some(from) = &place.session else {
            let label = match &request.session {
                ClientSession::Named(label) => Some(label.clone()),
                _ => None,
            };
            let new = self.engine.new_session(NewSession { label, ..request.new.clone() })?;
            return Ok((Target::Label(new.label.clone()), HistoryTarget::New(Box::new(new))));
        };
        if place.continues {
            // The turn may be followed by turns that the client's history lacks.
            let expected = place.exact.then_some(from.head);
            return Ok((Target::Id(from.id), HistoryTarget::Existing { expected }));
        }
        let depth = match place.turn {
            Some(turn) => self.engine.messages().turn(turn).await?.depth,
            None => 0,
        };
        let id = SessionId(self.engine.new_id());
        let new = session::New {
            title: from.title.clone(),
            working_dir: from.working_dir.clone(),
            persona: from.persona.clone(),
            provider_id: from.provider_id.clone(),
            model: from.model.clone(),
            track_tasks: Some(from.track_tasks),
            head: place.turn,
            turn_count: depth,
            ..session::New::idle(
                id,
                decide::default_label(Origin::Fork, id),
                from.project.clone(),
                Origin::Fork,
                self.engine.now(),
            )
        };
        Ok((Target::Id(from.id), HistoryTarget::Fork(Box::new(new))))
    }
}

/// What a request gets whose first attempt was accepted.
enum Repeat {
    /// The answer of the first attempt.
    Replay,
    /// The answer of another run of the same message.
    Again(Box<Submitted>),
    /// What any other request gets.
    New,
}

/// The key of a request's last turn, in each scope.
fn own_key(request: &ClientRequest, root: Option<SessionId>) -> Vec<(String, String)> {
    let Some(key) = keys(&request.turns).pop() else { return Vec::new() };
    let scopes = std::iter::once(request.scope.clone()).chain(root.map(session_scope));
    scopes.map(|scope| (scope, key.clone())).collect()
}

//! Requests of users about the context: compact it, pin turns, inspect the next request.

use std::sync::Arc;

use ctx_core::compaction::{Command, Compaction};
use ctx_core::decide::{self, CompactSupport, Invocation, Needs, OpenedRun, SessionView, TurnNeed};
use ctx_core::draft::Draft;
use ctx_core::id::{RunId, TurnId};
use ctx_core::inbox::Mode;
use ctx_core::message::{Message, Part};
use ctx_core::outbox::RunReplies;
use ctx_core::pin::Pin;
use ctx_core::refusal::Refusal;
use ctx_core::run::{Phase, Run, TaskEffect};
use ctx_core::session::Session;
use ctx_store::StoredTurn;

use super::request_size::window;
use super::token_count;
use crate::context::{HISTORY_MAX_BYTES, History, assemble, messages_of};
use crate::engine::{Engine, Error};
use crate::provider::About;
use crate::submit::{NewMessage, Submitted};

fn compact_support(about: &About) -> CompactSupport {
    let commands = about.agent.as_ref().and_then(|agent| agent.commands.as_ref());
    let names = commands.map(|commands| {
        commands.iter().filter_map(|command| command["name"].as_str()).collect::<Vec<_>>()
    });
    CompactSupport::of(about.agent.is_some(), about.can.compact, names)
}

/// The next request of a session, without the next message.
#[derive(Debug, Clone, PartialEq)]
pub struct Context {
    /// The system prompt, if there is one.
    pub system: Option<String>,
    /// The history as the provider would receive it.
    pub messages: Vec<Message>,
    /// Its size in tokens.
    pub tokens: u64,
    /// The context window of the provider in tokens.
    pub window: u64,
    /// Number of turns that were read to build it.
    pub turns_read: usize,
}

/// The content of the next request to a model, and ways to shorten it.
///
/// ```
/// # async fn example() -> Result<(), ctx_engine::Error> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// # ctx_engine::Engine::init(dir.path(), "demo")?;
/// # let engine = ctx_engine::Engine::open(dir.path(), ctx_engine::Options::default())?;
/// use ctx_engine::core::session::Origin;
///
/// engine.sessions().create_idle("notes", Origin::Api).await?;
/// let context = engine.contexts().next_request("notes").await?;
/// assert!(context.messages.is_empty() && context.tokens < context.window);
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
/// # runtime.expect("a runtime").block_on(example()).expect("it works");
/// ```
#[derive(Clone, Copy)]
pub struct Contexts<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// The content of the next request to a model, and ways to shorten it.
    pub const fn contexts(&self) -> Contexts<'_> {
        Contexts { engine: self }
    }
}

impl Contexts<'_> {
    /// Builds the next request of a session, without the next message.
    ///
    /// Fails if the session does not exist, or a turn is damaged.
    pub async fn next_request(self, session: &str) -> Result<Context, Error> {
        let session = self.engine.sessions().get(session).await?.session;
        let about = self.engine.about(&session, None);
        let now = self.engine.now();
        let run = Run {
            id: RunId(self.engine.new_id()),
            fence: session.fence,
            phase: Phase::Processing,
            provider_id: session
                .provider_id
                .clone()
                .unwrap_or_else(|| self.engine.shared().providers().default.clone()),
            model: session.model.clone(),
            can_steer: false,
            cancel: None,
            tools: Vec::new(),
            tool_rights: Vec::new(),
            task_effect: TaskEffect::Keep,
            deferred: Vec::new(),
            replies: RunReplies::default(),
            recoveries: 0,
            turn_started_at: now,
            started_at: now,
            ended_at: None,
            outcome: None,
        };
        let opened_run = OpenedRun {
            run,
            session: session.clone(),
            entity_sessions: None,
            items: Vec::new(),
            head: session.head,
            drafts: Vec::new(),
            resumes: Vec::new(),
        };
        let history = Arc::new(History::read(self.engine, session.id, session.head).await?);
        let draft = Draft::default();
        let assembled =
            assemble(self.engine, &session, &opened_run, history, &draft, &about).await?;
        let (tokens, turns_read) = (
            assembled.measure().total(),
            assembled.history.turns.len() + assembled.history.pinned.len(),
        );
        let request = assembled.request;
        Ok(Context {
            system: request.system,
            messages: request.messages,
            tokens,
            window: window(&about),
            turns_read,
        })
    }

    /// Requests a compaction, which runs now or after the open run. The request is a message of the
    /// inbox, so it survives a crash.
    ///
    /// Fails if the session does not exist or has no turn, or its agent cannot compact.
    pub async fn compact(self, session: &str, focus: Option<&str>) -> Result<Submitted, Error> {
        let info = self.engine.sessions().get(session).await?;
        let support = compact_support(&self.engine.about(&info.session, None));
        decide::request_compaction(
            &info.session,
            info.run.is_some(),
            info.inbox.is_empty(),
            support,
            focus,
        )?;
        let message =
            NewMessage { mode: Some(Mode::Queue), ..NewMessage::text(Command::text(focus)) };
        self.engine.messages().submit(session, message, None).await
    }

    /// The newest compaction of a session, and its turn.
    ///
    /// Fails if the session does not exist, or was never compacted.
    pub async fn newest_compaction(self, session: &str) -> Result<(StoredTurn, Compaction), Error> {
        let session = self.engine.sessions().get(session).await?.session;
        let head = session.head.ok_or(Refusal::NoCompaction)?;
        let found = self.engine.store().context(session.id, head, HISTORY_MAX_BYTES).await?;
        let newest = found.compaction.and_then(|at| found.turns.into_iter().nth(at));
        let newest = newest.and_then(|turn| turn.compaction.clone().map(|row| (turn, row)));
        Ok(newest.ok_or(Refusal::NoCompaction)?)
    }

    /// The pinned turns of a session, oldest first.
    ///
    /// Fails if the session does not exist.
    pub async fn pins(self, session: &str) -> Result<Vec<Pin>, Error> {
        Ok(self
            .engine
            .store()
            .view(&self.engine.target(session).await?, Needs::PINS)
            .await?
            .ok_or(Refusal::NoSession)?
            .pins)
    }

    /// Pins a turn: later requests contain it unabridged.
    ///
    /// Fails if the turn is not an ancestor of the session's head, or the pinned turns would be too
    /// large.
    pub async fn pin(self, session: &str, turn: TurnId) -> Result<Vec<Pin>, Error> {
        let info = self.engine.sessions().get(session).await?;
        let about = self.engine.about(&info.session, None);
        let counter =
            token_count::counter(info.session.model.as_deref().or(about.model.as_deref()));
        let tokens = token_count::messages(
            counter.as_ref(),
            &messages_of(self.engine.messages().turn(turn).await?)?,
        );
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::pin(view, turn, tokens, window(&about), invocation)
        };
        let needs = Needs { turn: Some(TurnNeed::Ancestor(turn)), ..Needs::PINS };
        self.engine.decide(self.engine.target(session).await?, needs, Vec::new(), rule).await?;
        self.engine.contexts().pins(session).await
    }

    /// Unpins a turn.
    ///
    /// Fails if it is not pinned.
    pub async fn unpin(self, session: &str, turn: TurnId) -> Result<Vec<Pin>, Error> {
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::unpin(view, turn, invocation)
        };
        self.engine
            .decide(self.engine.target(session).await?, Needs::PINS, Vec::new(), rule)
            .await?;
        self.engine.contexts().pins(session).await
    }
}

impl Engine {
    fn about(&self, session: &Session, provider: Option<&str>) -> About {
        let default = self.shared().providers().default.clone();
        let name = provider.or(session.provider_id.as_deref()).unwrap_or(&default);
        self.shared().provider(name).map(|provider| provider.about()).unwrap_or_default()
    }

    /// Refuses a `/compact` message if the session's agent is known not to support it.
    pub(crate) async fn check_command(
        &self,
        session: &str,
        message: &NewMessage,
    ) -> Result<(), Error> {
        let text = message.content.iter().find_map(Part::searchable_text).unwrap_or_default();
        if Command::of(text).is_none() {
            return Ok(());
        }
        let info = self.sessions().get(session).await?;
        let about = self.about(&info.session, message.overrides.provider_id.as_deref());
        Ok(decide::check_compact_command(compact_support(&about))?)
    }
}

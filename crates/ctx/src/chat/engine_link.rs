//! Carries the effects of the reducer out with the engine, in the background, and reports their
//! results as events.

use std::path::PathBuf;
use std::sync::mpsc::Sender;

use ctx_engine::core::decide::Patch;
use ctx_engine::core::id::{MessageId, SessionId, TurnId};
use ctx_engine::core::inbox::{Mode, Overrides};
use ctx_engine::core::object::Kind;
use ctx_engine::core::session::Origin;
use ctx_engine::core::suspension::Answer;
use ctx_engine::core::text_limits::one_line;
use ctx_engine::{Branch, Engine, Error, NewMessage, NewSession, Order};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::draft_file::{self, DraftWriter};
use super::event::{Effect, Event, Failure, Feed};
use super::follower::{Follower, TURNS_PER_PAGE, failure, open_turn};
use super::lists;
use super::picker::PickerKind;
use super::transcript::{Side, Turn};

/// Characters of the title of a new conversation.
const TITLE_CHARS: usize = 80;
/// The name of this client where an answer is recorded.
const CLIENT: &str = "ctx chat";

pub(super) struct EngineLink {
    pub(super) engine: Engine,
    runtime: Handle,
    events: Sender<Event>,
    data: PathBuf,
    dir: String,
    session: Option<SessionId>,
    epoch: u64,
    follower: Option<AbortHandle>,
    drafts: DraftWriter,
}

impl EngineLink {
    pub(super) fn new(
        engine: Engine,
        runtime: Handle,
        events: Sender<Event>,
        data: PathBuf,
        dir: String,
    ) -> Self {
        let drafts = DraftWriter::start();
        Self { engine, runtime, events, data, dir, session: None, epoch: 0, follower: None, drafts }
    }

    /// The file of the current draft.
    pub(super) fn draft_path(&self) -> PathBuf {
        let session = self.session.map(|session| session.to_string());
        draft_file::path(&self.data, session.as_deref(), &self.dir)
    }

    /// Waits until the draft is on disk.
    pub(super) fn finish_drafts(&mut self) {
        self.drafts.finish();
    }

    pub(super) fn run(&mut self, effect: Effect) {
        match effect {
            Effect::Open { epoch, session, at } => {
                self.leave(epoch, Some(session));
                self.follow(session, at, Some(self.draft_path()));
            }
            Effect::Reload { epoch, session } => {
                self.leave(epoch, Some(session));
                self.follow(session, None, None);
            }
            Effect::OpenNew { epoch } => self.leave(epoch, None),
            Effect::SaveDraft(draft) => self.drafts.save(self.draft_path(), draft),
            Effect::Create { ticket, text, provider, model } => {
                self.create(ticket, text, provider, model);
            }
            Effect::Send { ticket, text, mode } => self.send(ticket, text, mode),
            Effect::ListSessions => {
                let current = self.session;
                self.rows(PickerKind::Sessions, move |engine| async move {
                    lists::sessions(&engine, current).await
                });
            }
            Effect::ListModels => {
                self.rows(
                    PickerKind::Models,
                    |engine| async move { Ok((lists::models(&engine), 0)) },
                );
            }
            Effect::Search(words) => {
                self.rows(PickerKind::Search, move |engine| async move {
                    Ok((lists::search(&engine, &words).await?, 0))
                });
            }
            Effect::ListTree => {
                let Some(session) = self.session else { return };
                self.rows(PickerKind::Tree, move |engine| async move {
                    lists::tree(&engine, &session.to_string()).await
                });
            }
            Effect::ListFiles(dir) => {
                let events = self.events.clone();
                self.runtime.spawn(async move {
                    let _ = events.send(Event::Files(lists::files(&dir).await));
                });
            }
            effect => self.change(effect),
        }
    }

    /// Leaves the current session for another one; none for a new conversation.
    fn leave(&mut self, epoch: u64, session: Option<SessionId>) {
        if let Some(follower) = self.follower.take() {
            follower.abort();
        }
        (self.session, self.epoch) = (session, epoch);
    }

    fn follow(&mut self, session: SessionId, at: Option<TurnId>, draft: Option<PathBuf>) {
        let follower = Follower {
            engine: self.engine.clone(),
            events: self.events.clone(),
            epoch: self.epoch,
            session,
            at,
            draft,
        };
        self.follower = Some(self.runtime.spawn(follower.run()).abort_handle());
    }

    fn create(&self, ticket: u64, text: String, provider: Option<String>, model: Option<String>) {
        let new = NewSession {
            title: Some(one_line(&text, TITLE_CHARS)),
            working_dir: Some(self.dir.clone()),
            provider_id: provider,
            model,
            track_tasks: Some(true),
            origin: Some(Origin::Cli),
            ..NewSession::default()
        };
        self.sent(ticket, move |engine| async move {
            let created = engine.sessions().create(new, Some(NewMessage::text(text)), None).await?;
            let message = created.1.map(|sent| sent.message_id);
            Ok((created.0, message.unwrap_or(MessageId(ulid::Ulid::nil()))))
        });
    }

    fn send(&self, ticket: u64, text: String, mode: Option<Mode>) {
        let Some(session) = self.session else { return };
        let message = NewMessage { mode, ..NewMessage::text(text) };
        self.sent(ticket, move |engine| async move {
            let sent = engine.messages().submit(&session.to_string(), message, None).await?;
            Ok((session, sent.message_id))
        });
    }

    fn sent<F>(&self, ticket: u64, work: impl FnOnce(Engine) -> F + Send + 'static)
    where
        F: Future<Output = Result<(SessionId, MessageId), Error>> + Send,
    {
        let (engine, events) = (self.engine.clone(), self.events.clone());
        self.runtime.spawn(async move {
            let result = work(engine).await.map_err(failure);
            let _ = events.send(Event::Sent { ticket, result });
        });
    }

    fn rows<F>(&self, kind: PickerKind, work: impl FnOnce(Engine) -> F + Send + 'static)
    where
        F: Future<Output = Result<(Vec<super::picker::Row>, usize), Error>> + Send,
    {
        let (engine, events) = (self.engine.clone(), self.events.clone());
        self.runtime.spawn(async move {
            let event = match work(engine).await {
                Ok((rows, selected)) => Event::Rows { kind, rows, selected },
                Err(error) => Event::Failed(failure(error)),
            };
            let _ = events.send(event);
        });
    }

    /// Changes the session, or reads more of it.
    fn change(&self, effect: Effect) {
        let Some(session) = self.session else { return };
        let change = Change {
            engine: self.engine.clone(),
            session: session.to_string(),
            events: self.events.clone(),
            epoch: self.epoch,
        };
        self.runtime.spawn(change.run(effect));
    }
}

/// A change of the open session.
struct Change {
    engine: Engine,
    session: String,
    events: Sender<Event>,
    epoch: u64,
}

impl Change {
    async fn run(self, effect: Effect) {
        let event = match self.apply(effect).await {
            Ok(event) => event,
            // Another client was faster; the feed shows its answer.
            Err(error)
                if matches!(
                    error.code(),
                    "suspension_consumed" | "no_suspension" | "no_prompt"
                ) =>
            {
                None
            }
            Err(error) => Some(Event::Failed(failure(error))),
        };
        if let Some(event) = event {
            let _ = self.events.send(event);
        }
    }

    async fn apply(&self, effect: Effect) -> Result<Option<Event>, Error> {
        let (engine, session) = (&self.engine, self.session.as_str());
        let (sessions, messages, runs) = (engine.sessions(), engine.messages(), engine.runs());
        match effect {
            Effect::Cancel => drop(runs.cancel_with_workers(session).await?),
            Effect::Answer { suspension, choice } => {
                let by = Some(CLIENT.to_owned());
                let answer = Answer { choice: Some(choice), by, ..Answer::default() };
                drop(runs.resume(session, suspension, answer).await?);
            }
            Effect::AnswerPrompt(choice) => drop(runs.answer_prompt(session, choice).await?),
            Effect::EditQueued { id, text } => messages.edit(session, id, &text).await?,
            Effect::Withdraw(id) => messages.withdraw(session, id).await?,
            Effect::MoveQueued { id, to } => messages.reorder(session, id, to).await?,
            Effect::Compact(focus) => {
                drop(engine.contexts().compact(session, focus.as_deref()).await?);
            }
            Effect::Retry => drop(runs.retry(session, Overrides::default()).await?),
            Effect::Rename(title) => {
                let patch = Patch { title: Some(Some(title)), ..Patch::default() };
                drop(sessions.update(session, patch).await?);
            }
            Effect::SetModel { provider, model } => {
                let provider_id = provider.map(Some);
                let patch = Patch { provider_id, model: Some(model), ..Patch::default() };
                drop(sessions.update(session, patch).await?);
                return Ok(Some(Event::Done("The next message uses this model.".to_owned())));
            }
            Effect::Fork { turn, title } => {
                let branch = Branch { turn, title, ..Branch::default() };
                return Ok(Some(Event::Switched(sessions.branch(session, branch).await?)));
            }
            Effect::OpenLabel(label) => {
                return Ok(Some(Event::Switched(sessions.get(&label).await?.session.id)));
            }
            Effect::Rewind(turn) => drop(sessions.rewind(session, turn).await?),
            Effect::RewindTo(digits) => return self.rewind_to(&digits).await,
            Effect::ReadOpen => {
                let open = open_turn(engine, session).await?;
                return Ok(Some(self.feed(Feed::Open(open))));
            }
            Effect::LoadTurns { side, from } => {
                return Ok(Some(match self.load(side, from).await {
                    Ok(feed) => self.feed(feed),
                    Err(error) => self.feed(Feed::Failed(failure(error))),
                }));
            }
            _ => {}
        }
        Ok(None)
    }

    fn feed(&self, feed: Feed) -> Event {
        Event::Feed { epoch: self.epoch, feed }
    }

    async fn rewind_to(&self, digits: &str) -> Result<Option<Event>, Error> {
        let digits = digits.to_lowercase();
        let is_id = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let found = match is_id {
            true => self.engine.records().resolve(&digits, 8).await?,
            false => Vec::new(),
        };
        let mut turns = found.into_iter().filter(|found| found.kind == Kind::Turn);
        let turn = turns.next().filter(|_| turns.next().is_none());
        let Some(turn) = turn else {
            let message = format!("no single turn has the id `{digits}`");
            let hint = Some("/rewind without an id shows the messages".to_owned());
            return Ok(Some(Event::Failed(Failure { message, hint })));
        };
        drop(self.engine.sessions().rewind(&self.session, TurnId(turn.id)).await?);
        Ok(None)
    }

    async fn load(&self, side: Side, from: TurnId) -> Result<Feed, Error> {
        let order = match side {
            Side::Older => Order::Desc,
            Side::Newer => Order::Asc,
        };
        let read =
            self.engine.messages().turns(&self.session, order, Some(from), TURNS_PER_PAGE).await?;
        let reached_end = match (side, read.last()) {
            (Side::Older, Some(last)) => last.header.parent.is_none(),
            (Side::Newer, Some(last)) => {
                self.engine.messages().next_page(&self.session, order, last).await?.is_none()
            }
            (_, None) => true,
        };
        let turns = read.into_iter().map(Turn::of).collect::<Result<Vec<_>, _>>()?;
        Ok(Feed::Page { side, turns, reached_end })
    }
}

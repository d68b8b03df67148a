//! Follows one session and reports changes to the chat: streamed text as it comes, and after each
//! stored event the session, the open turn and committed turns as the store has them. Another
//! process may run the session; if it dies, its run is ended here.

use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::Duration;

use ctx_engine::core::decide::{Event as StoredEvent, Patch};
use ctx_engine::core::id::{SessionId, TurnId};
use ctx_engine::core::message::Message;
use ctx_engine::core::session::Activity;
use ctx_engine::{Engine, Error, FeedItem, Follow, Info, Order, StoredTurn};

use super::draft_file::{self, Draft};
use super::event::{Event, Failure, Feed, Opened};
use super::transcript::Turn;
use crate::problem::Problem;

/// Turns per read.
pub(super) const TURNS_PER_PAGE: usize = 30;
/// Messages of the open turn per read.
const OPEN_MESSAGES: usize = 200;
/// Reads of the open turn, at most.
const OPEN_PAGES: usize = 20;
/// Items of the feed that are handled together.
const ITEMS_MAX: usize = 512;
/// After this time without an event, a busy session is looked at again.
const QUIET: Duration = Duration::from_secs(1);
/// Pause after the store failed.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

pub(super) struct Follower {
    pub(super) engine: Engine,
    pub(super) events: Sender<Event>,
    pub(super) epoch: u64,
    pub(super) session: SessionId,
    /// The turn to open at; none for the end. Taken when the session was opened.
    pub(super) at: Option<TurnId>,
    /// The draft to restore; none when a session is read again.
    pub(super) draft: Option<PathBuf>,
}

impl Follower {
    /// Follows until the session is deleted or the task is aborted.
    pub(super) async fn run(mut self) {
        loop {
            match self.follow().await {
                Ok(()) => {
                    self.send(Feed::Deleted);
                    return;
                }
                Err(error) if error.code() == "no_session" => {
                    self.send(Feed::Failed(failure(error)));
                    return;
                }
                Err(error) => {
                    // The store may answer again later; nothing is lost meanwhile.
                    self.send(Feed::Failed(failure(error)));
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    fn send(&self, feed: Feed) {
        let _ = self.events.send(Event::Feed { epoch: self.epoch, feed });
    }

    fn name(&self) -> String {
        self.session.to_string()
    }

    /// Returns when the session was deleted.
    async fn follow(&mut self) -> Result<(), Error> {
        // A process that was killed may have left a run.
        self.engine.runs().end_orphaned(self.session).await?;
        let mut info = self.engine.sessions().get(&self.name()).await?;
        let mut follow = self.engine.events().follow(&self.name(), Some(info.session.seq)).await?;
        self.open(&info).await?;
        loop {
            let item = tokio::select! {
                item = follow.next() => item?,
                () = tokio::time::sleep(QUIET) => {
                    self.look_again(&mut info).await?;
                    continue;
                }
            };
            let Some(item) = item else { return Ok(()) };
            self.handle(item, &mut follow, &mut info).await?;
        }
    }

    async fn open(&mut self, info: &Info) -> Result<(), Error> {
        let name = self.name();
        let at = self.at.take();
        let around = match at {
            Some(at) => self.turns_around(at).await?,
            None => None,
        };
        // A turn that was rewound is not on the path: the session opens at its end.
        let at = at.filter(|_| around.is_some());
        let (turns, newer_missing) = match around {
            Some(around) => around,
            None => {
                let messages = self.engine.messages();
                (messages.turns(&name, Order::Desc, None, TURNS_PER_PAGE).await?, false)
            }
        };
        let turns = turns.into_iter().map(Turn::of).collect::<Result<Vec<_>, _>>()?;
        let draft = self.draft.take().map_or_else(Draft::default, |path| draft_file::read(&path));
        let open = open_turn(&self.engine, &name).await?;
        let commands = agent_commands(&self.engine, info);
        let info = info.clone();
        let opened = Opened { info, turns, at, newer_missing, open, draft, commands };
        self.send(Feed::Opened(Box::new(opened)));
        Ok(())
    }

    /// Turns before and after a turn, newest first, and whether there are more after them; none if
    /// the turn is not on the path of the session.
    async fn turns_around(&self, at: TurnId) -> Result<Option<(Vec<StoredTurn>, bool)>, Error> {
        let (name, messages) = (self.name(), self.engine.messages());
        let half = TURNS_PER_PAGE / 2;
        let newer = match messages.turns(&name, Order::Asc, Some(at), half).await {
            Err(error) if error.code() == "not_found" => return Ok(None),
            newer => newer?,
        };
        let Some(last) = newer.last() else { return Ok(None) };
        let newer_missing = messages.next_page(&name, Order::Asc, last).await?.is_some();
        let older = messages.turns(&name, Order::Desc, Some(at), half).await?;
        let turns = newer.into_iter().skip(1).rev().chain(older).collect();
        Ok(Some((turns, newer_missing)))
    }

    /// Handles an item and those that are ready behind it.
    async fn handle(
        &self,
        first: FeedItem,
        follow: &mut Follow,
        info: &mut Info,
    ) -> Result<(), Error> {
        let mut committed: Vec<TurnId> = Vec::new();
        let (mut reads_open, mut reads_info) = (false, false);
        let mut next = Some(first);
        for _ in 0..ITEMS_MAX {
            let Some(item) = next.take() else { break };
            match item {
                FeedItem::Delta(delta) => self.send(Feed::Delta((**delta).clone())),
                FeedItem::Event(event) => {
                    let is_usage = matches!(event.event, StoredEvent::UsageUpdated { .. });
                    reads_info |= !is_usage;
                    reads_open |= changes_open_turn(&event.event);
                    if let StoredEvent::TurnCommitted { turn: Some(turn) } = event.event {
                        committed.push(turn);
                    }
                }
            }
            next = follow.next_ready();
        }
        for turn in committed {
            let turn = Turn::of(self.engine.messages().turn(turn).await?)?;
            self.send(Feed::Turn(Box::new(turn)));
        }
        if reads_open {
            self.send(Feed::Open(open_turn(&self.engine, &self.name()).await?));
        }
        if reads_info {
            let before = std::mem::replace(info, self.engine.sessions().get(&self.name()).await?);
            self.send(Feed::Info(Box::new(info.clone())));
            if before.session.state != info.session.state {
                // An agent reports its commands after it was started.
                self.send(Feed::Commands(agent_commands(&self.engine, info)));
            }
        }
        // An item that was taken and not handled is the first one of the next call.
        match next {
            Some(item) => Box::pin(self.handle(item, follow, info)).await,
            None => Ok(()),
        }
    }

    /// No event came: the process that runs the session may be dead, or may have ended before it
    /// ran a waiting message.
    async fn look_again(&self, info: &mut Info) -> Result<(), Error> {
        if info.session.state == Activity::Idle && !info.is_busy() {
            return Ok(());
        }
        match info.session.state {
            Activity::Running => self.engine.runs().end_orphaned(self.session).await?,
            Activity::Idle => {
                drop(self.engine.sessions().update(&self.name(), Patch::default()).await?);
            }
            Activity::Suspended => {}
        }
        let now = self.engine.sessions().get(&self.name()).await?;
        if now != *info {
            *info = now;
            self.send(Feed::Info(Box::new(info.clone())));
        }
        Ok(())
    }
}

const fn changes_open_turn(event: &StoredEvent) -> bool {
    !matches!(
        event,
        StoredEvent::UsageUpdated { .. }
            | StoredEvent::RunPhase { .. }
            | StoredEvent::MessageCompleted { .. }
            | StoredEvent::OptionsUpdated
            | StoredEvent::TaskUpdated { .. }
    )
}

/// The messages of the open turn, oldest first.
pub(super) async fn open_turn(engine: &Engine, session: &str) -> Result<Vec<Message>, Error> {
    let (mut open, mut from) = (Vec::new(), None);
    for _ in 0..OPEN_PAGES {
        let page = engine.messages().page(session, Order::Desc, from, OPEN_MESSAGES).await?;
        let read = page.messages.len();
        let before = open.len();
        let of_turn = page.messages.into_iter().take_while(|listed| listed.turn.is_none());
        open.extend(of_turn.map(|listed| listed.message));
        from = page.next;
        if from.is_none() || open.len() - before < read {
            break;
        }
    }
    open.reverse();
    Ok(open)
}

/// Slash commands that the agent has reported.
fn agent_commands(engine: &Engine, info: &Info) -> Vec<(String, String)> {
    let providers = engine.providers();
    let name = info.session.provider_id.as_ref().unwrap_or(&providers.default);
    let agent = providers.all.get(name).and_then(|provider| provider.about().agent);
    let commands = agent.and_then(|agent| agent.commands).unwrap_or_default();
    let command = |command: &serde_json::Value| {
        let name = command["name"].as_str()?.trim_start_matches('/');
        let about = command["description"].as_str().unwrap_or_default();
        Some((format!("/{name}"), about.to_owned()))
    };
    commands.iter().filter_map(command).collect()
}

pub(super) fn failure(error: Error) -> Failure {
    let problem = Problem::from(error);
    Failure { message: problem.message, hint: problem.hint }
}

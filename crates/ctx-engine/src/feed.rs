//! The feed as clients follow it: durable events from the store, words as they come, nothing twice and no gap.
//!
//! Whoever writes publishes here after the commit. A follower takes a receiver and the words so far under one lock, then
//! reads the store: what it missed before is there, what comes later is in the receiver, and numbers tell the two apart.

use ctx_store::FeedQuery;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ctx_core::decide::Needs;
use ctx_core::draft::Draft;
use ctx_core::id::{MessageId, RunId, SessionId};
use ctx_core::message::{Part, Role};
use ctx_core::session::Activity;
use ctx_store::{FeedEvent, Target};
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};

use crate::engine::{Engine, Error};

/// How many items a follower may be behind before it reads the store again.
const BEHIND_MAX: usize = 1024;
/// How many events one read takes.
const PAGE: usize = 500;
/// How often a session that another process runs is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(150);
/// How long the last event of a session that is gone is waited for: other processes' writes are seen by then.
const FAREWELL: Duration = Duration::from_millis(500);

/// So many looks may be left out in a process that hears of other processes' writes.
const REST_MAX: u32 = 20;

/// More words of the open turn; they are not stored as events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// In which run.
    pub run_id: RunId,
    /// In which message.
    pub message_id: MessageId,
    /// Whether they are reasoning.
    pub thought: bool,
    /// How many characters of the message came before them.
    pub offset: usize,
    /// The words.
    pub text: String,
    /// Whether they are all there was when the client came.
    pub draft: bool,
}

impl Words {
    /// The event's name.
    pub const fn name(&self) -> &'static str {
        if self.thought { "thought.delta" } else { "message.delta" }
    }

    /// The event's fields.
    pub fn json(&self) -> Value {
        let mut value = json!({"run_id": self.run_id, "message_id": self.message_id, "offset": self.offset, "text": self.text});
        if self.draft {
            value["draft"] = json!(true);
        }
        value
    }

    fn end(&self) -> usize {
        self.offset + self.text.chars().count()
    }
}

/// What a follower gets.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// Something that is stored.
    Event(Arc<FeedEvent>),
    /// Something that is only said.
    Words(Words),
}

/// The words of one message so far.
#[derive(Debug, Clone)]
struct Spoken {
    message_id: MessageId,
    thought: bool,
    text: String,
    chars: usize,
}

/// The run that this process carries out for a session.
#[derive(Debug, Clone)]
struct Live {
    run_id: RunId,
    spoken: Vec<Spoken>,
}

struct Channel {
    sender: broadcast::Sender<Item>,
    live: Option<Live>,
}

impl Channel {
    fn new() -> Self {
        Self { sender: broadcast::channel(BEHIND_MAX).0, live: None }
    }
}

/// All channels of this process.
pub(crate) struct Feed {
    channels: Mutex<HashMap<SessionId, Channel>>,
    /// Told after every commit.
    changed: watch::Sender<()>,
    /// The rows of the feed that this process wrote and has not looked past yet.
    own_rows: Mutex<BTreeSet<i64>>,
}

impl Feed {
    pub(crate) fn new() -> Self {
        Self {
            channels: Mutex::default(),
            changed: watch::channel(()).0,
            own_rows: Mutex::default(),
        }
    }

    fn channels(&self) -> MutexGuard<'_, HashMap<SessionId, Channel>> {
        // Nothing that can panic is done under this lock.
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells followers what was committed.
    pub(crate) fn publish(&self, events: Vec<FeedEvent>) {
        if !events.is_empty() {
            let mut channels = self.channels();
            for event in events {
                if let Some(channel) = channels.get_mut(&event.session) {
                    let _ = channel.sender.send(Item::Event(Arc::new(event)));
                }
            }
        }
        self.changed.send_replace(());
    }

    /// Whether anybody would hear of a session's events.
    pub(crate) fn is_followed(&self, session: SessionId) -> bool {
        self.channels().get(&session).is_some_and(|channel| channel.sender.receiver_count() > 0)
    }

    /// A run begins; its words are kept for those who come later.
    pub(crate) fn begin(&self, session: SessionId, run_id: RunId, draft: &Draft) {
        let spoken = spoken(draft);
        self.channels().entry(session).or_insert_with(Channel::new).live =
            Some(Live { run_id, spoken });
    }

    /// More words.
    pub(crate) fn say(&self, session: SessionId, message_id: MessageId, thought: bool, text: &str) {
        let mut channels = self.channels();
        let Some(channel) = channels.get_mut(&session) else { return };
        let Some(live) = channel.live.as_mut() else { return };
        let known = live
            .spoken
            .iter()
            .rposition(|spoken| spoken.message_id == message_id && spoken.thought == thought);
        let at = known.unwrap_or_else(|| {
            live.spoken.push(Spoken { message_id, thought, text: String::new(), chars: 0 });
            live.spoken.len() - 1
        });
        let spoken = &mut live.spoken[at];
        let words = Words {
            run_id: live.run_id,
            message_id,
            thought,
            offset: spoken.chars,
            text: text.to_owned(),
            draft: false,
        };
        spoken.text.push_str(text);
        spoken.chars += text.chars().count();
        let _ = channel.sender.send(Item::Words(words));
    }

    /// The run has ended; a channel that nobody listens to goes.
    pub(crate) fn end(&self, session: SessionId) {
        let mut channels = self.channels();
        if let Some(channel) = channels.get_mut(&session) {
            channel.live = None;
            if channel.sender.receiver_count() == 0 {
                channels.remove(&session);
            }
        }
    }

    fn subscribe(&self, session: SessionId) -> (broadcast::Receiver<Item>, Option<Vec<Words>>) {
        let mut channels = self.channels();
        let channel = channels.entry(session).or_insert_with(Channel::new);
        let words = channel.live.as_ref().map(|live| {
            let word = |spoken: &Spoken| Words {
                run_id: live.run_id,
                message_id: spoken.message_id,
                thought: spoken.thought,
                offset: 0,
                text: spoken.text.clone(),
                draft: true,
            };
            live.spoken.iter().filter(|spoken| !spoken.text.is_empty()).map(word).collect()
        });
        (channel.sender.subscribe(), words)
    }

    fn unsubscribe(&self, session: SessionId) {
        let mut channels = self.channels();
        if channels
            .get(&session)
            .is_some_and(|channel| channel.live.is_none() && channel.sender.receiver_count() <= 1)
        {
            channels.remove(&session);
        }
    }

    /// How many channels are open.
    pub(crate) fn open_channels(&self) -> usize {
        self.channels().len()
    }

    /// This process wrote a row.
    pub(crate) fn wrote(&self, row: i64) {
        self.own_rows.lock().unwrap_or_else(PoisonError::into_inner).insert(row);
    }

    /// Our own rows among those after `from` up to `to`, if another process wrote one of them. A row of our own that
    /// nobody has told of yet counts as another's: it is then looked at once more, and no other is overlooked for it.
    pub(crate) fn beside_foreign(&self, from: i64, to: i64) -> Option<BTreeSet<i64>> {
        let mut own = self.own_rows.lock().unwrap_or_else(PoisonError::into_inner);
        let later = own.split_off(&(to + 1));
        let passed = std::mem::replace(&mut *own, later);
        ((passed.range(from + 1..=to).count() as i64) < to - from).then_some(passed)
    }
}

/// Follows one session.
pub struct Follow {
    engine: Engine,
    session: SessionId,
    last: u64,
    ready: VecDeque<Item>,
    receiver: broadcast::Receiver<Item>,
    /// How far each message has been told, where another process runs the session.
    told: HashMap<(MessageId, bool), usize>,
    looked: tokio::time::Interval,
    /// Looks that were left out since the last one.
    rested: u32,
    /// Something was told since the last look.
    stirred: bool,
    /// Another process runs the session.
    elsewhere: bool,
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.engine.hub().feed.unsubscribe(self.session);
    }
}

impl Follow {
    /// The next item; `None` when the session is gone.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn next(&mut self) -> Result<Option<Item>, Error> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                self.stirred = true;
                match &item {
                    Item::Event(event) if event.seq <= self.last => continue,
                    // Where nothing is stored of what came before, the session is gone, and this tells so.
                    Item::Event(event) if event.seq > self.last + 1 && self.catch_up().await? => {
                        continue;
                    }
                    Item::Event(event) => self.last = event.seq,
                    Item::Words(words) => {
                        let told = self.told.entry((words.message_id, words.thought)).or_default();
                        if words.end() <= *told || (words.offset > 0 && words.offset < *told) {
                            continue;
                        }
                        *told = words.end();
                    }
                }
                return Ok(Some(item));
            }
            tokio::select! {
                received = self.receiver.recv() => match received {
                    Ok(item) => self.ready.push_back(item),
                    Err(broadcast::error::RecvError::Lagged(_)) => self.restart().await?,
                    Err(broadcast::error::RecvError::Closed) => return Ok(None),
                },
                _ = self.looked.tick() => {
                    if !self.look().await? {
                        // Whoever deleted it says so after the commit that we have seen.
                        match tokio::time::timeout(FAREWELL, self.receiver.recv()).await {
                            Ok(Ok(item)) => self.ready.push_back(item),
                            _ => return Ok(None),
                        }
                    }
                }
            }
        }
    }

    /// Reads what is stored and was not told; `false` if there is no such thing.
    async fn catch_up(&mut self) -> Result<bool, Error> {
        let events = self
            .engine
            .store()
            .feed(FeedQuery::Session { id: self.session, after: self.last }, PAGE)
            .await?;
        let any = !events.is_empty();
        for event in events.into_iter().rev() {
            self.ready.push_front(Item::Event(Arc::new(event)));
        }
        Ok(any)
    }

    /// Too far behind: takes the words so far and the stored events anew.
    async fn restart(&mut self) -> Result<(), Error> {
        let (receiver, words) = self.engine.hub().feed.subscribe(self.session);
        self.receiver = receiver;
        self.ready.clear();
        self.catch_up().await?;
        // What was told in part is told again whole; the offset says so.
        self.told.clear();
        self.ready.extend(words.unwrap_or_default().into_iter().map(Item::Words));
        Ok(())
    }

    /// Another process may have written; `false` when the session is gone.
    async fn look(&mut self) -> Result<bool, Error> {
        // In a process that attends, what others wrote is published anyway.
        let attended = self.engine.hub().attends();
        if attended && !self.stirred && !self.elsewhere && self.rested < REST_MAX {
            self.rested += 1;
            return Ok(true);
        }
        (self.rested, self.stirred) = (0, false);
        let here = self.engine.hub().is_awake(self.session);
        let Some(view) =
            self.engine.store().view(&Target::Id(self.session), Needs::NOTHING).await?
        else {
            return Ok(false);
        };
        if view.session.seq > self.last {
            self.catch_up().await?;
        }
        self.elsewhere = view.session.state == Activity::Running && !here;
        if self.elsewhere {
            let words = stored_words(&self.engine, self.session).await?;
            for word in words {
                let told = self.told.get(&(word.message_id, word.thought)).copied().unwrap_or(0);
                if word.end() > told {
                    let text: String = word.text.chars().skip(told).collect();
                    self.ready.push_back(Item::Words(Words {
                        offset: told,
                        text,
                        draft: told == 0,
                        ..word
                    }));
                }
            }
        }
        Ok(true)
    }
}

/// The words of the open turn as they are stored.
async fn stored_words(engine: &Engine, session: SessionId) -> Result<Vec<Words>, Error> {
    let Some(view) = engine.store().view(&Target::Id(session), Needs::CLOSE).await? else {
        return Ok(Vec::new());
    };
    let Some(run) = &view.run else { return Ok(Vec::new()) };
    let spoken = spoken(&Draft::of(view.drafts.iter().cloned()));
    let word = |Spoken { message_id, thought, text, .. }| Words {
        run_id: run.id,
        message_id,
        thought,
        offset: 0,
        text,
        draft: true,
    };
    Ok(spoken.into_iter().map(word).collect())
}

/// What the agent has said in a turn. A message may have several stretches of words; offsets count all of them.
fn spoken(draft: &Draft) -> Vec<Spoken> {
    let mut all: Vec<Spoken> = Vec::new();
    for message in draft.messages.iter().filter(|message| message.role == Role::Assistant) {
        for part in &message.content {
            let (Part::Text { text } | Part::Thought { text, .. }) = part else { continue };
            let (message_id, thought, chars) =
                (message.id, matches!(part, Part::Thought { .. }), text.chars().count());
            match all
                .iter_mut()
                .find(|spoken| spoken.message_id == message_id && spoken.thought == thought)
            {
                Some(spoken) => {
                    spoken.text.push_str(text);
                    spoken.chars += chars;
                }
                None => all.push(Spoken { message_id, thought, text: text.clone(), chars }),
            }
        }
    }
    all
}

/// Follows all sessions: stored events only.
pub struct FollowAll {
    engine: Engine,
    last: i64,
    ready: VecDeque<FeedEvent>,
    changed: watch::Receiver<()>,
}

impl FollowAll {
    /// The next event.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn next(&mut self) -> Result<FeedEvent, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            self.changed.borrow_and_update();
            let events =
                self.engine.store().feed(FeedQuery::All { after: self.last }, PAGE).await?;
            if let Some(event) = events.last() {
                self.last = event.row;
                self.ready.extend(events);
                continue;
            }
            // Other processes do not tell; they are looked for now and then.
            let _ = tokio::time::timeout(LOOK_EVERY, self.changed.changed()).await;
        }
    }
}

impl Engine {
    /// Follows a session from after an event, or from now.
    ///
    /// # Errors
    /// If there is no such session.
    pub async fn follow(&self, session: &str, after: Option<u64>) -> Result<Follow, Error> {
        let found = self.info(session).await?.session;
        let (receiver, words) = self.hub().feed.subscribe(found.id);
        let mut looked = tokio::time::interval(LOOK_EVERY);
        looked.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let last = after.unwrap_or(found.seq);
        let mut follow = Follow {
            engine: self.clone(),
            session: found.id,
            last,
            ready: VecDeque::new(),
            receiver,
            told: HashMap::new(),
            looked,
            rested: 0,
            stirred: true,
            elsewhere: false,
        };
        if after.is_some_and(|after| after < found.seq) {
            loop {
                let from = follow.ready.back().map_or(last, |item| {
                    if let Item::Event(event) = item { event.seq } else { last }
                });
                let events = self
                    .store()
                    .feed(FeedQuery::Session { id: found.id, after: from }, PAGE)
                    .await?;
                let done = events.len() < PAGE;
                follow.ready.extend(events.into_iter().map(|event| Item::Event(Arc::new(event))));
                if done || follow.ready.len() >= PAGE {
                    break;
                }
            }
        }
        follow.ready.extend(words.unwrap_or_default().into_iter().map(Item::Words));
        Ok(follow)
    }

    /// Follows all sessions from after a row, or from now.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn follow_all(&self, after: Option<i64>) -> Result<FollowAll, Error> {
        let changed = self.hub().feed.changed.subscribe();
        let last = match after {
            Some(after) => after,
            None => self.store().newest_feed_row().await?,
        };
        Ok(FollowAll { engine: self.clone(), last, ready: VecDeque::new(), changed })
    }
}

//! Reads a session turn by turn for an export, so that its size does not matter.

use std::collections::{HashMap, HashSet};

use ctx_engine::core::id::TurnId;
use ctx_engine::core::redaction::Redactor;
use ctx_engine::core::session::Session;
use ctx_engine::core::turn;
use ctx_engine::{Engine, Error, Order, StoredTurn};

use super::transcript::{Blobs, CallIds, Turn};

/// Turns that one query returns.
const PAGE_TURNS: usize = 64;

/// The order of the turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnOrder {
    /// As they happened.
    Chronological,
    /// A compaction before the turns that it kept: everything after it is what a request contains.
    AsRequested,
}

/// Whether secrets are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secrets {
    Keep,
    Redact,
}

/// A session that is read turn by turn.
pub(crate) struct SessionReader {
    engine: Engine,
    session: Session,
    secrets: Secrets,
    redactor: Redactor,
    ids: CallIds,
    /// Compactions that are moved: by the turn that they precede.
    before: HashMap<TurnId, Vec<TurnId>>,
    moved: HashSet<TurnId>,
    /// The rest of the page, newest first.
    page: Vec<StoredTurn>,
    next: Next,
}

enum Next {
    Page(Option<TurnId>),
    End,
}

impl SessionReader {
    /// Opens a session.
    ///
    /// # Errors
    /// If the session does not exist, or the store fails.
    pub(crate) async fn open(
        engine: &Engine,
        name: &str,
        order: TurnOrder,
        secrets: Secrets,
    ) -> Result<Self, Error> {
        let session = engine.sessions().get(name).await?.session;
        let mut reader = Self {
            engine: engine.clone(),
            session,
            secrets,
            redactor: Redactor::default(),
            ids: CallIds::default(),
            before: HashMap::new(),
            moved: HashSet::new(),
            page: Vec::new(),
            next: Next::Page(None),
        };
        if order == TurnOrder::AsRequested {
            reader.place_compactions().await?;
        }
        if secrets == Secrets::Redact {
            let Session { title, working_dir, .. } = &mut reader.session;
            for text in [title, working_dir].into_iter().flatten() {
                reader.redactor.text_mut(text);
            }
        }
        Ok(reader)
    }

    /// The session. Its texts are redacted if that was requested.
    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }

    /// The secrets that were replaced so far.
    pub(crate) const fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// The next turns in order; none after the last. Usually one, and several if compactions
    /// precede it.
    ///
    /// # Errors
    /// If a turn is damaged, or the store fails.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Turn>>, Error> {
        while let Some(turn) = self.next_stored().await? {
            if self.moved.contains(&turn.id) {
                continue;
            }
            let mut turns = Vec::new();
            for id in self.before.remove(&turn.id).unwrap_or_default() {
                let compaction = self.engine.messages().turn(id).await?;
                turns.push(self.converted(&compaction).await?);
            }
            turns.push(self.converted(&turn).await?);
            return Ok(Some(turns));
        }
        Ok(None)
    }

    async fn next_stored(&mut self) -> Result<Option<StoredTurn>, Error> {
        if self.page.is_empty() {
            let Next::Page(from) = self.next else { return Ok(None) };
            let name = self.session.id.to_string();
            let messages = self.engine.messages();
            let mut page = messages.turns(&name, Order::Asc, from, PAGE_TURNS).await?;
            let next = match page.last() {
                Some(last) => messages.next_page(&name, Order::Asc, last).await?,
                None => None,
            };
            self.next = next.map_or(Next::End, |turn| Next::Page(Some(turn)));
            page.reverse();
            self.page = page;
        }
        Ok(self.page.pop())
    }

    /// Finds the compactions that kept turns before them.
    async fn place_compactions(&mut self) -> Result<(), Error> {
        while let Some(turn) = self.next_stored().await? {
            if let Some(kept) = turn.compaction.and_then(|compaction| compaction.first_kept) {
                self.before.entry(kept).or_default().push(turn.id);
                self.moved.insert(turn.id);
            }
        }
        self.next = Next::Page(None);
        Ok(())
    }

    async fn converted(&mut self, turn: &StoredTurn) -> Result<Turn, Error> {
        let messages = turn.messages()?;
        let mut blobs = Blobs::new();
        for blob in turn::blobs(messages.as_deref().unwrap_or_default()) {
            if let Some(object) = self.engine.records().object(blob.0).await? {
                blobs.insert(blob, object.bytes);
            }
        }
        let mut turn = Turn::of(turn, messages, &blobs, &mut self.ids);
        if self.secrets == Secrets::Redact {
            turn.redact(&mut self.redactor);
        }
        Ok(turn)
    }
}

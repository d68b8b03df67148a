//! Read access to commits, objects and notes, and search.

use std::collections::HashSet;

use ctx_core::commit::Commit;
use ctx_core::id::{CommitId, EntityId, ObjectId};
use ctx_core::object::Object;
use ctx_core::time::Timestamp;
use ctx_store::{CommitQuery, Found, Hit, NarrativeNote, PAGE_MAX, SearchPage, SearchPlace};

use crate::engine::{Engine, Error};

/// Most pages of matches that are read for one page of an entity's matches.
const ENTITY_PAGES_MAX: usize = 50;

/// Records: commits, objects by id, notes by day, and search.
///
/// ```
/// # async fn example() -> Result<(), ctx_engine::Error> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// # ctx_engine::Engine::init(dir.path(), "demo")?;
/// # let engine = ctx_engine::Engine::open(dir.path(), ctx_engine::Options::default())?;
/// let mut work = engine.tasks().recorder("main").await?;
/// work.start("Add retry logic").await?;
/// let sealed = work.seal(Some("Added retries")).await?;
/// let object = engine.records().object(sealed.id.0).await?;
/// assert!(object.is_some());
/// engine.maintenance().update_indexes().await?;
/// assert_eq!(engine.records().search("retries", 10).await?.len(), 1);
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
/// # runtime.expect("a runtime").block_on(example()).expect("it works");
/// ```
#[derive(Clone, Copy)]
pub struct Records<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// Records: commits, objects by id, notes by day, and search.
    pub const fn records(&self) -> Records<'_> {
        Records { engine: self }
    }
}

impl Records<'_> {
    /// Commits, newest first.
    ///
    /// Fails if the store fails.
    pub async fn commits(self, query: &CommitQuery) -> Result<Vec<(CommitId, Commit)>, Error> {
        Ok(self.engine.store().commits(query).await?)
    }

    /// An object by its complete id.
    ///
    /// Fails if the store fails or the object is damaged.
    pub async fn object(self, id: ObjectId) -> Result<Option<Object>, Error> {
        Ok(self.engine.store().object(id).await?)
    }

    /// The objects whose id starts with these hex digits.
    ///
    /// Fails if the store fails.
    pub async fn resolve(self, prefix: &str, limit: usize) -> Result<Vec<Found>, Error> {
        Ok(self.engine.store().resolve(prefix, limit).await?)
    }

    /// The notes of a period, oldest first.
    ///
    /// Fails if the store fails.
    pub async fn narrative(
        self,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> Result<Vec<NarrativeNote>, Error> {
        Ok(self.engine.store().narrative(from, to, limit).await?)
    }

    /// Searches turns, steps and commits; newest matches first.
    ///
    /// Fails if the store fails.
    pub async fn search(self, words: &str, limit: usize) -> Result<Vec<Hit>, Error> {
        Ok(self.engine.store().search_index().search(words, None, limit.min(PAGE_MAX)).await?.hits)
    }

    /// A page of the matches, from a cursor on.
    ///
    /// Fails if the store fails.
    pub async fn search_from(
        self,
        words: &str,
        from: Option<SearchPlace>,
        limit: usize,
    ) -> Result<SearchPage, Error> {
        Ok(self.engine.store().search_index().search(words, from, limit.min(PAGE_MAX)).await?)
    }

    /// A page of the matches in the sessions of an entity, from a cursor on. It is short if the
    /// next matches are far behind many others.
    ///
    /// Fails if the store fails.
    pub async fn search_entity(
        self,
        entity: EntityId,
        words: &str,
        from: Option<SearchPlace>,
        limit: usize,
    ) -> Result<SearchPage, Error> {
        let sessions = self.engine.entities().sessions(entity).await?;
        let ids: HashSet<String> =
            sessions.into_iter().map(|info| info.session.id.to_string()).collect();
        let mut page = SearchPage { hits: Vec::new(), next: from };
        for _ in 0..ENTITY_PAGES_MAX {
            let missing = limit.saturating_sub(page.hits.len());
            let found = self.search_from(words, page.next, missing.max(1)).await?;
            let is_own = |hit: &Hit| hit.session.as_ref().is_some_and(|id| ids.contains(id));
            page.hits.extend(found.hits.into_iter().filter(is_own));
            page.next = found.next;
            if page.next.is_none() || page.hits.len() >= limit {
                break;
            }
        }
        Ok(page)
    }
}

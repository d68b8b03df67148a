//! Read access to commits, objects and notes, and search.

use ctx_core::commit::Commit;
use ctx_core::id::{CommitId, EntityId, ObjectId};
use ctx_core::object::Object;
use ctx_core::search::Page;
use ctx_core::time::Timestamp;
use ctx_store::{CommitQuery, Found, NarrativeNote, SearchQuery};

use crate::engine::{Engine, Error};

/// What to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchRequest {
    /// Words and filters, as `docs/search.md` describes them.
    pub query: String,
    /// Only in the sessions of this entity.
    pub entity: Option<EntityId>,
    /// [`Page::next`] of the page before.
    pub cursor: Option<String>,
    /// Most hits of the page, at most [`ctx_store::PAGE_MAX`].
    pub limit: usize,
}

impl SearchRequest {
    /// The first page of a query.
    pub fn new(query: &str, limit: usize) -> Self {
        Self { query: query.to_owned(), entity: None, cursor: None, limit }
    }
}

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
/// let request = ctx_engine::SearchRequest::new("retries", 10);
/// assert_eq!(engine.records().search(&request).await?.hits.len(), 1);
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

    /// The number of commits that match a query, whatever its limit is.
    ///
    /// Fails if the store fails.
    pub async fn count_commits(self, query: &CommitQuery) -> Result<u64, Error> {
        Ok(self.engine.store().count_commits(query).await?)
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

    /// Searches the messages of all sessions and the records of tasks; best hits first.
    ///
    /// Fails if the query is malformed or the store fails.
    pub async fn search(self, request: &SearchRequest) -> Result<Page, Error> {
        let sessions = match request.entity {
            Some(entity) => {
                let sessions = self.engine.entities().sessions(entity).await?;
                Some(sessions.into_iter().map(|info| info.session.id).collect())
            }
            None => None,
        };
        let query = SearchQuery {
            text: request.query.clone(),
            sessions,
            cursor: request.cursor.clone(),
            limit: request.limit,
            now: self.engine.now(),
        };
        Ok(self.engine.store().search_index().search(&query).await?)
    }

    /// Number of rows that the search index has not read yet.
    ///
    /// Fails if the store fails.
    pub async fn search_lag(self) -> Result<u64, Error> {
        Ok(self.engine.store().search_index().lag().await?)
    }
}

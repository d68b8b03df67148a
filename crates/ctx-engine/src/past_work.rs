//! Search results as agents see them: each with its session, task and outcome.

use ctx_core::commit::Commit;
use ctx_core::id::{CommitId, ObjectId, SessionId, TurnId};
use ctx_core::object::Kind;
use ctx_core::search::Hit;
use ctx_core::step::Step;
use ctx_core::task::Task;
use ctx_core::time::Timestamp;

use crate::engine::{Engine, Error};
use crate::records::{Records, SearchRequest};

/// What to search for.
#[derive(Debug, Clone, Default)]
pub(crate) struct PastWorkQuery {
    /// Words and filters of the query language.
    pub(crate) words: String,
    /// The name of a commit type, or `open`.
    pub(crate) outcome: Option<String>,
    pub(crate) session: Option<SessionId>,
    pub(crate) project: Option<String>,
    pub(crate) cursor: Option<String>,
    pub(crate) limit: usize,
}

/// A turn that matches, or a task whose record matches.
#[derive(Debug, Clone)]
pub(crate) struct PastWork {
    pub(crate) session: Option<SessionId>,
    pub(crate) session_label: Option<String>,
    pub(crate) session_title: Option<String>,
    pub(crate) project: Option<String>,
    pub(crate) turn: Option<TurnId>,
    pub(crate) task: Option<Task>,
    /// How the task ended, or `open`; `None` for a turn outside of a task.
    pub(crate) outcome: Option<&'static str>,
    pub(crate) at: Timestamp,
    pub(crate) snippet: String,
}

/// Matches, and where the next page begins.
#[derive(Debug, Default)]
pub(crate) struct PastWorkPage {
    pub(crate) found: Vec<PastWork>,
    pub(crate) next: Option<String>,
    /// Queries with corrected words, if nothing was found.
    pub(crate) suggestions: Vec<String>,
}

impl Records<'_> {
    /// A page of past work, best first.
    pub(crate) async fn past_work(self, query: &PastWorkQuery) -> Result<PastWorkPage, Error> {
        let request = SearchRequest {
            query: query.text(),
            entity: None,
            cursor: query.cursor.clone(),
            limit: query.limit,
        };
        let page = self.search(&request).await?;
        let mut found = Vec::with_capacity(page.hits.len());
        for hit in page.hits {
            found.push(self.work_of(hit).await?);
        }
        Ok(PastWorkPage { found, next: page.next, suggestions: page.suggestions })
    }

    async fn work_of(self, hit: Hit) -> Result<PastWork, Error> {
        let task = match hit.task {
            Some(task) => self.engine.store().task(task).await?,
            None => None,
        };
        Ok(PastWork {
            snippet: hit.text(),
            session: hit.session,
            session_label: hit.session_label,
            session_title: hit.session_title,
            project: hit.project,
            turn: hit.turn,
            task,
            outcome: hit.outcome,
            at: hit.at,
        })
    }

    /// The task of a commit or a step.
    pub(crate) async fn task_of(self, kind: Kind, id: ObjectId) -> Result<Option<Task>, Error> {
        let task = match kind {
            Kind::Commit => self.commit(CommitId(id)).await?.map(|commit| commit.task),
            Kind::Step => {
                let step: Option<Step> = self.decoded(Kind::Step, id).await?;
                step.map(|step| step.task)
            }
            _ => None,
        };
        match task {
            Some(task) => Ok(self.engine.store().task(task).await?),
            None => Ok(None),
        }
    }

    /// A commit by its complete id.
    ///
    /// Fails if the store fails or the commit is damaged.
    pub async fn commit(self, id: CommitId) -> Result<Option<Commit>, Error> {
        self.decoded(Kind::Commit, id.0).await
    }

    async fn decoded<T: serde::de::DeserializeOwned>(
        self,
        kind: Kind,
        id: ObjectId,
    ) -> Result<Option<T>, Error> {
        let object = self.object(id).await?;
        let Some(object) = object.filter(|object| object.kind == kind) else { return Ok(None) };
        let damaged = |why: ctx_core::object::ObjectError| ctx_store::Error::DamagedObject {
            id,
            why: why.to_string(),
        };
        Ok(Some(object.decode().map_err(damaged)?))
    }
}

impl PastWorkQuery {
    /// The words with their filters, in the query language.
    fn text(&self) -> String {
        let session = self.session.map(|id| id.to_string());
        let filters = [
            ("outcome", self.outcome.as_ref()),
            ("session", session.as_ref()),
            ("project", self.project.as_ref()),
        ];
        let mut text = self.words.clone();
        for (name, value) in filters {
            if let Some(value) = value {
                text.push_str(&format!(" {name}:\"{}\"", value.replace('"', " ")));
            }
        }
        text
    }
}

impl Engine {
    /// Number of tokens of a text, counted as for the context window of a model whose vocabulary
    /// is not known.
    pub fn count_tokens(&self, text: &str) -> u64 {
        crate::compaction::count_tokens(text)
    }
}

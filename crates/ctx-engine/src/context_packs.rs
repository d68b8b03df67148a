//! Finds a task by its id or by words, and reads what its context pack is made of.

use ctx_core::commit::Commit;
use ctx_core::context_pack::{self, Input, Match, Pack, Relation, best_matches};
use ctx_core::decide::Needs;
use ctx_core::id::{CommitId, TaskId};
use ctx_core::message::Message;
use ctx_core::step::Entry;
use ctx_core::task::Task;
use ctx_store::{CommitQuery, PAGE_MAX, Target, TurnQuery};

use crate::compaction::count_tokens;
use crate::engine::Error;
use crate::ids::Record;
use crate::past_work::PastWorkQuery;
use crate::records::Records;

/// Most tasks that an ambiguous name lists.
const CANDIDATES_MAX: usize = 8;
/// Tasks whose descriptions are compared with words, the newest ones.
const TASKS_MAX: usize = PAGE_MAX;
/// Search results whose tasks are candidates.
const HITS_MAX: usize = 50;
/// Steps of the task that are read, the newest ones.
const STEPS_MAX: u64 = 5000;
/// Turns of the task that are read, the newest ones.
const TURNS_MAX: usize = 50;
/// Size of the turns that are read, in bytes.
const TURNS_MAX_BYTES: usize = 4 << 20;
/// Steps with relations that are read, the newest ones of the store.
const RELATION_STEPS_MAX: usize = 5000;
/// Commits of the project that are compared with the task, the newest ones.
const COMMITS_MAX: usize = 200;

/// The task that a name means.
#[derive(Debug, Clone, PartialEq)]
pub enum FoundTask {
    /// Exactly one task.
    One(Box<Task>),
    /// Tasks that fit equally well.
    Several(Vec<Task>),
    /// No task.
    None,
}

impl FoundTask {
    fn of(mut tasks: Vec<Task>) -> Self {
        match (tasks.len(), tasks.pop()) {
            (_, None) => Self::None,
            (1, Some(task)) => Self::One(Box::new(task)),
            (_, Some(last)) => {
                tasks.push(last);
                tasks.truncate(CANDIDATES_MAX);
                Self::Several(tasks)
            }
        }
    }
}

impl Records<'_> {
    /// The task with an id, with an id that begins so, or of the commit with such an id; otherwise
    /// the task that the words describe best.
    ///
    /// Fails if the store fails.
    pub async fn find_task(self, name: &str) -> Result<FoundTask, Error> {
        let (name, store) = (name.trim(), self.engine.store());
        match self.engine.ids().record(name).await {
            Ok(None) => {}
            Ok(Some(Record::Task(id))) => {
                return Ok(FoundTask::of(store.task(id).await?.into_iter().collect()));
            }
            Ok(Some(Record::Object(found))) => {
                return Ok(FoundTask::of(
                    self.task_of(found.kind, found.id).await?.into_iter().collect(),
                ));
            }
            // A word may look like the beginning of an id; an id has a digit.
            Err(error) if name.bytes().any(|byte| byte.is_ascii_digit()) => return Err(error),
            Err(_) => {}
        }
        let best = best_matches(name, self.candidates(name).await?);
        Ok(FoundTask::of(best.into_iter().map(|found| found.task).collect()))
    }

    /// The newest tasks, and those whose record contains the words.
    async fn candidates(self, words: &str) -> Result<Vec<Match>, Error> {
        let store = self.engine.store();
        let mut tasks = store.newest_tasks(TASKS_MAX).await?;
        let mut mentioned: Vec<TaskId> = Vec::new();
        // Only the words: marks of the query language have no meaning here.
        let words: Vec<&str> =
            words.split(|c: char| !c.is_alphanumeric()).filter(|it| !it.is_empty()).collect();
        if !words.is_empty() {
            let (words, limit) = (words.join(" "), HITS_MAX);
            let query = PastWorkQuery { words, limit, ..PastWorkQuery::default() };
            let found = self.past_work(&query).await?.found;
            mentioned.extend(found.iter().filter_map(|it| Some(it.task.as_ref()?.id)));
        }
        for task in &mentioned {
            if tasks.iter().all(|known| known.id != *task) {
                tasks.extend(store.task(*task).await?);
            }
        }
        let mut found = Vec::with_capacity(tasks.len());
        for task in tasks {
            let message = match task.commit {
                Some(commit) => self.commit(commit).await?.map(|commit| commit.message),
                None => None,
            };
            let mentioned = mentioned.contains(&task.id);
            found.push(Match { task, message, mentioned });
        }
        Ok(found)
    }

    /// The context pack of a task, within a budget in tokens. Tokens are counted as for the context
    /// window of a model whose vocabulary is not known.
    ///
    /// Fails if the store fails.
    pub async fn pack(self, task: Task, budget: u64) -> Result<Pack, Error> {
        let input = self.pack_input(task).await?;
        Ok(context_pack::pack(&input, budget, &|text| count_tokens(text)))
    }

    async fn pack_input(self, task: Task) -> Result<Input, Error> {
        let store = self.engine.store();
        let view = store.view(&Target::Id(task.session), Needs::WORK).await?;
        let is_open = task.ended_at.is_none();
        let prompt = view.as_ref().filter(|_| is_open).and_then(|view| view.prompt.clone());
        let session = view.map(|view| view.session);
        let commit = match task.commit {
            Some(id) => self.commit(id).await?.map(|commit| (id, commit)),
            None => None,
        };
        let steps_left_out = task.steps.saturating_sub(STEPS_MAX);
        let (mut steps, mut after) = (Vec::new(), steps_left_out);
        loop {
            let page = store.steps(task.id, after, PAGE_MAX).await?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            steps.extend(page.into_iter().map(|stored| (stored.id, stored.step)));
        }
        let turns = self.turns_of(&task, commit.as_ref(), session.as_ref()).await?;
        let project = session.as_ref().map(|session| session.project.clone());
        let project = project.or_else(|| commit.as_ref().map(|(_, it)| it.project.clone()));
        let query = CommitQuery { project, limit: COMMITS_MAX, ..CommitQuery::default() };
        let relations = store.relation_steps(RELATION_STEPS_MAX).await?;
        let relations = relations.into_iter().flat_map(|stored| {
            let (step, task) = (stored.id, stored.step.task);
            stored.step.payload.into_iter().rev().filter_map(move |entry| match entry {
                Entry::Relation(edge) => Some(Relation { step, task, edge }),
                _ => None,
            })
        });
        let of_commit = commit.as_ref().and_then(|(_, commit)| commit.turns);
        let turns_left_out =
            of_commit.map_or(0, |range| range.count.saturating_sub(turns.len() as u64));
        Ok(Input {
            session,
            prompt,
            commit,
            steps,
            steps_left_out,
            turns,
            turns_left_out,
            relations: relations.collect(),
            commits: self.commits(&query).await?,
            task,
        })
    }

    /// The turns that the session added while the task was open, oldest first. The turns of a
    /// deleted session are gone.
    async fn turns_of(
        self,
        task: &Task,
        commit: Option<&(CommitId, Commit)>,
        session: Option<&ctx_core::session::Session>,
    ) -> Result<Vec<(ctx_core::id::TurnId, Vec<Message>)>, Error> {
        let sealed = commit.map(|(_, commit)| commit.turns);
        let (last, count) = match sealed {
            Some(Some(range)) => (range.last, usize::try_from(range.count).unwrap_or(TURNS_MAX)),
            Some(None) => return Ok(Vec::new()),
            None => match session.and_then(|session| session.head) {
                Some(head) if task.ended_at.is_none() => (head, TURNS_MAX),
                _ => return Ok(Vec::new()),
            },
        };
        let newest = TurnQuery::newest(last, count.min(TURNS_MAX));
        let query = TurnQuery { max_bytes: TURNS_MAX_BYTES, ..newest };
        let stored = match self.engine.store().turns(query).await {
            Err(ctx_store::Error::NotFound { .. }) => return Ok(Vec::new()),
            stored => stored?,
        };
        let mut turns = Vec::with_capacity(stored.len());
        for turn in stored {
            if sealed.is_none() && Some(turn.id) == task.base_turn {
                break;
            }
            turns.push((turn.id, turn.messages()?.unwrap_or_default()));
        }
        turns.reverse();
        Ok(turns)
    }
}

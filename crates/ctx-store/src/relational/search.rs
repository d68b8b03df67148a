//! Search: the index selects documents, newest first; their text decides whether they match and how
//! well. Both databases run this code, so they give the same answers.
//!
//! Candidates are ranked in blocks of [`BLOCK_DOCUMENTS`], newest block first. A query that selects
//! fewer documents is ranked as a whole; for a common word the newest ones are ranked first, so
//! that the time does not grow with the number of matches.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use ctx_core::commit::CommitType;
use ctx_core::id::{CommitId, TaskId, TurnId};
use ctx_core::refusal::Refusal;
use ctx_core::search::{
    CORRECTED_CHARS_MIN, Document, FilterKey, Hit, HitKind, IndexQuery, IndexTerm, Match, OPEN,
    Page, Pattern, Query, beginnings, distance, errors_max, match_document, score, snippet,
};
use ctx_core::time::Timestamp;

use crate::driver::{Db, args};
use crate::{Error, PAGE_MAX, SearchQuery};

use super::search_cursor::Cursor;
use super::search_documents::{self, StepsText, TurnText, Unit};
use super::search_scope::{KeptTurns, Scope, SessionInfo};
use super::turn_rows;

/// Candidates that are ranked together.
const BLOCK_DOCUMENTS: usize = 1000;
/// Bytes of text after which a block gets no further candidate.
const BLOCK_BYTES: usize = 8 << 20;
/// Candidates whose text is read at a time.
const CHUNK: usize = 100;
/// How long one page searches blocks without enough matches. The next page continues.
const PAGE_TIME: Duration = Duration::from_millis(1500);
/// Most suggested queries.
const SUGGESTIONS_MAX: usize = 3;

/// The inverted index of a database.
pub(crate) trait Postings {
    /// The documents that an index query selects, with numbers below `before`, newest first.
    fn candidates(
        &self,
        query: &IndexQuery,
        before: i64,
        limit: usize,
    ) -> Result<Vec<(i64, Unit)>, Error>;

    /// Words of the index that begin with a text, of `chars` characters; at least those that a
    /// document has.
    fn words(
        &self,
        beginning: &str,
        chars: std::ops::RangeInclusive<usize>,
    ) -> Result<Vec<String>, Error>;
}

/// A page of hits, best first.
pub(crate) fn search(
    db: &dyn Db,
    postings: &dyn Postings,
    request: &SearchQuery,
) -> Result<Page, Error> {
    let mut cursor = match &request.cursor {
        Some(cursor) => Cursor::parse(cursor, &request.text).ok_or(Refusal::BadCursor)?,
        None => Cursor::first(&request.text, request.now),
    };
    let query = Query::parse(&request.text, cursor.now)?;
    let mut page = Page::default();
    let limit = request.limit.min(PAGE_MAX);
    if query.is_empty() || limit == 0 {
        return Ok(page);
    }
    let Some(scope) = Scope::resolve(db, &query, request.sessions.as_deref())? else {
        return Ok(page);
    };
    let index = IndexQuery::new(&query, scope.rows());
    let mut search = Search { db, postings, query, index, scope, now: cursor.now, kept: None };
    let until = Instant::now() + PAGE_TIME;
    loop {
        let block = search.block(cursor.before)?;
        let from = cursor;
        let mut ranked = block.hits.into_iter().filter(|ranked| from.is_behind(ranked.at()));
        while page.hits.len() < limit {
            let Some(ranked) = ranked.next() else { break };
            cursor.after = Some(ranked.at());
            page.hits.push(ranked.into_hit());
        }
        if ranked.next().is_some() {
            page.next = Some(cursor.to_string());
            break;
        }
        let Some(last) = block.last else { break };
        (cursor.before, cursor.after) = (last, None);
        if page.hits.len() >= limit || Instant::now() >= until {
            page.next = Some(cursor.to_string());
            break;
        }
    }
    if page.hits.is_empty() && page.next.is_none() && request.cursor.is_none() {
        page.suggestions = search.suggestions(&request.text)?;
    }
    Ok(page)
}

struct Search<'a> {
    db: &'a dyn Db,
    postings: &'a dyn Postings,
    query: Query,
    index: IndexQuery,
    scope: Scope,
    now: Timestamp,
    /// Read when the first turn of a deleted session is found.
    kept: Option<KeptTurns>,
}

/// Candidates that were ranked together.
struct Block {
    /// Best first.
    hits: Vec<Ranked>,
    /// The last candidate, if there may be more.
    last: Option<i64>,
}

/// A hit in the order of its block.
struct Ranked {
    hit: Hit,
    number: i64,
    document: Document,
    found: Match,
}

impl Ranked {
    const fn at(&self) -> (f64, i64) {
        (self.hit.score, self.number)
    }

    fn into_hit(self) -> Hit {
        let passage = self.document.passages.get(self.found.passage);
        Hit {
            message: passage.and_then(|passage| passage.message),
            role: passage.and_then(|passage| passage.role),
            snippet: snippet(&self.document, &self.found),
            ..self.hit
        }
    }
}

/// A document that matches.
struct Matched<T> {
    number: i64,
    text: T,
    found: Match,
}

impl Search<'_> {
    fn block(&mut self, before: i64) -> Result<Block, Error> {
        let candidates = self.postings.candidates(&self.index, before, BLOCK_DOCUMENTS)?;
        let (mut turns, mut steps) = (Vec::new(), Vec::new());
        let (mut bytes, mut last) = (0, None);
        for chunk in candidates.chunks(CHUNK) {
            let numbers: HashMap<Unit, i64> =
                chunk.iter().map(|(number, unit)| (*unit, *number)).collect();
            let units: Vec<Unit> = chunk.iter().map(|(_, unit)| *unit).collect();
            for text in search_documents::turns(self.db, &search_documents::turn_rows(&units))? {
                bytes += text.document.bytes();
                let number = numbers.get(&Unit::Turn(text.row)).copied().unwrap_or(0);
                if let Some(found) = self.match_text(&text.document, text.ended_at) {
                    turns.push(Matched { number, text, found });
                }
            }
            for text in search_documents::task_parts(self.db, &units)? {
                bytes += text.document.bytes();
                let number = numbers.get(&text.unit).copied().unwrap_or(0);
                if let Some(found) = self.match_text(&text.document, text.at) {
                    steps.push(Matched { number, text, found });
                }
            }
            last = chunk.last().map(|(number, _)| *number);
            if bytes >= BLOCK_BYTES {
                break;
            }
        }
        let is_last = candidates.len() < BLOCK_DOCUMENTS
            && last == candidates.last().map(|(number, _)| *number);
        let mut hits = self.hits(turns, steps)?;
        hits.sort_by(|a, b| {
            b.hit.score.total_cmp(&a.hit.score).then_with(|| b.number.cmp(&a.number))
        });
        Ok(Block { hits, last: last.filter(|_| !is_last) })
    }

    fn match_text(&self, document: &Document, at: Timestamp) -> Option<Match> {
        let in_time = self.query.filters.iter().all(|filter| {
            let holds = match (filter.key, filter.time) {
                (FilterKey::After, Some(limit)) => at >= limit,
                (FilterKey::Before, Some(limit)) => at < limit,
                _ => return true,
            };
            holds != filter.negated
        });
        if in_time { match_document(&self.query, document) } else { None }
    }

    /// The hits of the documents of a block: one for each turn and for each task without turns.
    fn hits(
        &mut self,
        turns: Vec<Matched<TurnText>>,
        steps: Vec<Matched<StepsText>>,
    ) -> Result<Vec<Ranked>, Error> {
        let mut rows: Vec<i64> = turns.iter().map(|turn| turn.text.session).collect();
        rows.extend(steps.iter().map(|steps| steps.text.session));
        rows.sort_unstable();
        rows.dedup();
        let sessions = SessionInfo::read(self.db, &rows)?;
        let tasks = TaskInfo::read(self.db, &rows)?;
        let mut hits: Vec<Ranked> = Vec::new();
        // Tasks of which a turn matches; what matches in their record is not shown beside it.
        let mut tasks_of_turns = HashSet::new();
        let mut by_id: HashMap<TurnId, i64> = HashMap::new();
        for turn in self.shown(turns, &sessions)? {
            // Of equal turns that several sessions stored, the newest is shown.
            let newest = by_id.entry(turn.text.id).or_insert(turn.text.row);
            if *newest > turn.text.row {
                continue;
            }
            *newest = turn.text.row;
            hits.retain(|ranked| ranked.hit.turn != Some(turn.text.id));
            let task = tasks.get(&turn.text.session).and_then(|tasks| task_of(tasks, &turn.text));
            tasks_of_turns.extend(task.map(|task| task.row));
            let hit = self.turn_hit(&turn, &sessions, task)?;
            self.add(&mut hits, hit, turn.number, turn.text.document, turn.found);
        }
        let mut best: HashMap<i64, Ranked> = HashMap::new();
        for steps in steps {
            let task = steps.text.task.row;
            let Some(hit) = self.task_hit(&steps, &sessions)? else { continue };
            if hit.turn.is_some() && tasks_of_turns.contains(&task) {
                continue;
            }
            let mut one = Vec::new();
            self.add(&mut one, hit, steps.number, steps.text.document, steps.found);
            for ranked in one {
                if best.get(&task).is_none_or(|known| known.hit.score < ranked.hit.score) {
                    best.insert(task, ranked);
                }
            }
        }
        hits.extend(best.into_values());
        Ok(hits)
    }

    /// The turns that a session has: the one that made them, or one that shares them.
    fn shown(
        &mut self,
        turns: Vec<Matched<TurnText>>,
        sessions: &HashMap<i64, SessionInfo>,
    ) -> Result<Vec<Matched<TurnText>>, Error> {
        let mut shown = Vec::new();
        for turn in turns {
            let (row, session) = (turn.text.row, turn.text.session);
            let is_kept = sessions.contains_key(&session) || {
                let kept = match self.kept.take() {
                    Some(kept) => kept,
                    None => KeptTurns::read(self.db)?,
                };
                self.kept.insert(kept).is_kept(self.db, row)?
            };
            if is_kept && self.scope.admits_turn(self.db, row, session)? {
                shown.push(turn);
            }
        }
        Ok(shown)
    }

    /// Adds a hit if the filters that depend on its session and its task hold.
    fn add(&self, hits: &mut Vec<Ranked>, hit: Hit, number: i64, document: Document, found: Match) {
        let holds = self.query.filters.iter().all(|filter| {
            let has = |value: Option<&str>| {
                value.is_some_and(|value| filter.values.iter().any(|known| known == value))
            };
            let holds = match filter.key {
                FilterKey::Outcome => has(hit.outcome),
                FilterKey::Kind => has(Some(hit.kind.name())),
                FilterKey::Project => hit.project.as_ref().is_some_and(|project| {
                    filter.values.iter().any(|v| v.to_lowercase() == project.to_lowercase())
                }),
                _ => return true,
            };
            holds != filter.negated
        });
        if holds {
            hits.push(Ranked { hit, number, document, found });
        }
    }

    fn turn_hit(
        &self,
        turn: &Matched<TurnText>,
        sessions: &HashMap<i64, SessionInfo>,
        task: Option<&TaskInfo>,
    ) -> Result<Hit, Error> {
        let sharing;
        let session = match sessions.get(&turn.text.session) {
            Some(session) => Some(session),
            None => {
                sharing = SessionInfo::sharing(self.db, turn.text.row)?;
                sharing.as_ref()
            }
        };
        let at = turn.text.ended_at;
        let mut hit = self.hit(HitKind::Turn, session, at, &turn.found);
        hit.turn = Some(turn.text.id);
        hit.task = task.map(|task| task.id);
        hit.commit = task.and_then(|task| task.commit);
        hit.outcome = task.map(|task| task.outcome);
        Ok(hit)
    }

    /// The hit of a task: its last turn, or the task itself if its session added none. `None` if
    /// the session was deleted and the task was not sealed.
    fn task_hit(
        &self,
        steps: &Matched<StepsText>,
        sessions: &HashMap<i64, SessionInfo>,
    ) -> Result<Option<Hit>, Error> {
        let StepsText { task, session, commit, at, .. } = &steps.text;
        let session = sessions.get(session);
        if (session.is_none() && commit.is_none()) || !self.scope.admits_task(steps.text.session) {
            return Ok(None);
        }
        let turn = match (session, commit) {
            (None, _) => None,
            (Some(_), Some((_, commit))) => commit.turns.map(|turns| turns.last),
            (Some(_), None) if task.ended_at.is_some() => None,
            (Some(session), None) => match session.head {
                Some(head) => {
                    turn_rows::id_at(self.db, head)?.filter(|head| Some(*head) != task.base_turn)
                }
                None => None,
            },
        };
        let kind = if turn.is_some() { HitKind::Turn } else { HitKind::Task };
        let mut hit = self.hit(kind, session, *at, &steps.found);
        hit.turn = turn;
        hit.task = Some(task.id);
        hit.commit = commit.as_ref().map(|(id, _)| *id);
        hit.outcome = match commit {
            Some((_, commit)) => Some(commit.commit_type.name()),
            None => task.ended_at.is_none().then_some(OPEN),
        };
        Ok(Some(hit))
    }

    fn hit(
        &self,
        kind: HitKind,
        session: Option<&SessionInfo>,
        at: Timestamp,
        found: &Match,
    ) -> Hit {
        Hit {
            kind,
            session: session.map(|session| session.id),
            session_label: session.map(|session| session.label.clone()),
            session_title: session.and_then(|session| session.title.clone()),
            project: session.map(|session| session.project.clone()),
            turn: None,
            message: None,
            role: None,
            task: None,
            commit: None,
            outcome: None,
            at,
            score: score(found.relevance, at, self.now),
            snippet: Vec::new(),
        }
    }

    /// Queries with words that the index has, in place of those that it does not have.
    fn suggestions(&self, text: &str) -> Result<Vec<String>, Error> {
        let mut corrected: Vec<String> = vec![text.to_owned()];
        // From the last word to the first: the ranges of those before stay valid.
        for clause in self.query.clauses.iter().rev().filter(|clause| !clause.negated) {
            let Pattern::Words(words) = &clause.pattern else { continue };
            let [word] = words.as_slice() else { continue };
            if word.prefix || self.is_indexed(&word.text)? {
                continue;
            }
            let nearest = self.nearest(&word.text)?;
            let replace = |query: &String| {
                let replaced = nearest.iter().map(|word| {
                    let mut query = query.clone();
                    query.replace_range(clause.range.clone(), word);
                    query
                });
                replaced.collect::<Vec<_>>()
            };
            corrected = corrected.iter().flat_map(replace).take(SUGGESTIONS_MAX).collect();
        }
        corrected.retain(|query| query != text);
        Ok(corrected)
    }

    fn is_indexed(&self, word: &str) -> Result<bool, Error> {
        let term = IndexTerm { text: word.to_owned(), prefix: false };
        let query = IndexQuery { all: vec![vec![term]], none: Vec::new() };
        Ok(!self.postings.candidates(&query, i64::MAX, 1)?.is_empty())
    }

    /// The words of the index that are spelt most like a word, nearest first.
    fn nearest(&self, word: &str) -> Result<Vec<String>, Error> {
        let (chars, errors) = (word.chars().count(), errors_max(word));
        if chars < CORRECTED_CHARS_MIN {
            return Ok(Vec::new());
        }
        let mut found: Vec<(usize, String)> = Vec::new();
        for beginning in beginnings(word) {
            for known in self.postings.words(&beginning, chars - errors..=chars + errors)? {
                if let Some(distance) = distance(word, &known, errors) {
                    found.push((distance, known));
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        let mut nearest = Vec::new();
        for (_, known) in found {
            // Words of deleted texts may still be in the index.
            if nearest.len() < SUGGESTIONS_MAX && self.is_indexed(&known)? {
                nearest.push(known);
            }
        }
        Ok(nearest)
    }
}

/// A task of a session, open or sealed.
struct TaskInfo {
    row: i64,
    id: TaskId,
    started_at: Timestamp,
    ended_at: Option<Timestamp>,
    commit: Option<CommitId>,
    outcome: &'static str,
}

impl TaskInfo {
    /// The tasks of sessions, oldest first.
    fn read(db: &dyn Db, sessions: &[i64]) -> Result<HashMap<i64, Vec<Self>>, Error> {
        let mut tasks: HashMap<i64, Vec<Self>> = HashMap::new();
        if sessions.is_empty() {
            return Ok(tasks);
        }
        db.query(
            "SELECT t.session, t.row, t.id, t.started_at, t.ended_at, c.hash, c.commit_type
             FROM tasks t LEFT JOIN commits c ON c.task = t.row
             WHERE t.session IN LIST(?1) AND (t.ended_at IS NULL OR c.hash IS NOT NULL)
             ORDER BY t.row",
            args![sessions],
            &mut |row| {
                let kind = row.get::<Option<&str>>(6)?;
                let known = |kind| CommitType::NAMES.into_iter().find(|known| *known == kind);
                let task = Self {
                    row: row.get(1)?,
                    id: super::from_id("a task's id", row.get(2)?)?,
                    started_at: row.get(3)?,
                    ended_at: row.get(4)?,
                    commit: row.get::<Option<_>>(5)?.map(CommitId),
                    outcome: kind.and_then(known).unwrap_or(OPEN),
                };
                tasks.entry(row.get(0)?).or_default().push(task);
                Ok(())
            },
        )?;
        Ok(tasks)
    }
}

/// The task that was open during a turn.
fn task_of<'t>(tasks: &'t [TaskInfo], turn: &TurnText) -> Option<&'t TaskInfo> {
    tasks.iter().rev().find(|task| {
        task.started_at <= turn.ended_at
            && task.ended_at.is_none_or(|ended| ended >= turn.started_at)
    })
}

//! Turns and commits of ctx as commits of a git branch, by a `git fast-import` stream.
//!
//! The same records give the same git commits: every byte depends only on the store. A branch that
//! was exported before is only extended, by the records that it does not have. Records are written
//! in the order of time, and each after its parent.

use std::collections::{HashMap, HashSet};

use ctx_engine::core::commit::Commit;
use ctx_engine::core::id::{CommitId, TurnId};
use ctx_engine::core::step::Entry;
use ctx_engine::core::stored_content::Content;
use ctx_engine::core::time::Timestamp;
use ctx_engine::{Engine, Info, Order, PAGE_MAX, SessionQuery, StoredTurn};

use crate::json::commit_json;
use crate::problem::Problem;

use super::repository::{GitInput, Repository, author, failed, tree_path};
use super::turn_files::{TreeFile, turn_files};

/// Turns per read.
const TURNS_PAGE: usize = 100;
/// Steps per read.
const STEPS_PAGE: usize = 500;
/// Directory of refs that exist only while a branch is written.
const TEMPORARY_REFS: &str = "refs/ctx/export";

/// What an export did.
#[derive(Debug)]
pub(crate) struct ExportedBranch {
    /// The newest commit of the branch; `None` if there is nothing to export.
    pub(crate) head: Option<String>,
    /// The newest commit before the export.
    pub(crate) previous: Option<String>,
    /// Number of turns that were added.
    pub(crate) turns: usize,
    /// Number of commits of ctx that were added.
    pub(crate) commits: usize,
}

/// A record to write.
struct Record {
    at: Timestamp,
    kind: RecordKind,
}

enum RecordKind {
    Turn { session: usize, turn: TurnId, depth: u64 },
    Commit(usize),
}

impl Record {
    /// The order of records: time, then turns before commits, then depth, then ids.
    fn order(&self, commits: &[(CommitId, Commit)]) -> (i64, u8, u64, String) {
        match &self.kind {
            RecordKind::Turn { turn, depth, .. } => (self.at.0, 0, *depth, turn.to_string()),
            RecordKind::Commit(at) => (self.at.0, 1, *at as u64, commits[*at].0.to_string()),
        }
    }
}

/// Writes a session, or all sessions of the project, to a branch.
///
/// # Errors
/// If the branch was not written by ctx or is checked out, or git or the store fails. The branch is
/// unchanged then.
pub(crate) async fn export_branch(
    engine: &Engine,
    repository: &Repository,
    branch: &str,
    session: Option<&str>,
) -> Result<ExportedBranch, Problem> {
    let name = branch_ref(repository, branch)?;
    let previous = repository.resolve(&name)?;
    let known = match &previous {
        Some(_) => exported_ids(repository, branch, &name)?,
        None => HashSet::new(),
    };
    let sessions = sessions(engine, session).await?;
    let only = session.and_then(|_| sessions.first()).map(|info| info.session.id);
    let commits = super::commits(engine, only).await?;
    let records = records(engine, &sessions, &commits, &known).await?;
    let count = |turn: bool| {
        records.iter().filter(|one| matches!(one.kind, RecordKind::Turn { .. }) == turn).count()
    };
    let (turns, sealed) = (count(true), count(false));
    if records.is_empty() {
        let head = previous.clone();
        return Ok(ExportedBranch { head, previous, turns, commits: sealed });
    }
    let temporary = format!("{TEMPORARY_REFS}/{branch}");
    // A killed export may have left it.
    repository.query(["update-ref", "-d", &temporary])?;
    let mut writer = BranchWriter {
        engine,
        input: repository.start(&["fast-import", "--quiet", "--done"])?,
        temporary: &temporary,
        parent: previous.clone(),
    };
    for record in &records {
        writer.add(record, &sessions, &commits).await?;
    }
    writer.input.write(b"done\n")?;
    writer.input.finish()?;
    let head = repository.take_over(&name, previous.as_deref(), &temporary)?;
    Ok(ExportedBranch { head: Some(head), previous, turns, commits: sealed })
}

/// The ref of a branch that may be written.
fn branch_ref(repository: &Repository, branch: &str) -> Result<String, Problem> {
    if repository.query(["check-ref-format", "--branch", branch])?.is_none() {
        let message = format!("invalid branch name `{branch}`");
        return Err(Problem::wrong_use("bad_branch", message).hint("use a name such as `ctx`"));
    }
    let name = format!("refs/heads/{branch}");
    let trees = repository.run(&["worktree", "list", "--porcelain"])?;
    let line = format!("branch {name}");
    if trees.lines().any(|found| found == line) {
        let message = format!("cannot write branch `{branch}`: it is checked out");
        return Err(Problem::failed("branch_checked_out", message)
            .hint("use another branch, or check out another one"));
    }
    Ok(name)
}

/// The ids of turns and commits that a branch contains. Every commit of it must be one of ctx.
fn exported_ids(
    repository: &Repository,
    branch: &str,
    name: &str,
) -> Result<HashSet<String>, Problem> {
    let trailer = |key: &str| format!("%(trailers:key={key},valueonly,separator=%x2C)");
    let format = format!("--format=%ce%x09{}%x09{}", trailer("Ctx-Turn"), trailer("Ctx-Commit"));
    let listed = repository.run(&["log", &format, name, "--"])?;
    let mut ids = HashSet::new();
    for line in listed.lines() {
        let mut fields = line.split('\t');
        let is_own = fields.next() == Some("ctx@ctx.invalid");
        match fields.find(|id| !id.is_empty()).filter(|_| is_own) {
            Some(id) => ids.insert(id.to_owned()),
            None => {
                let message =
                    format!("cannot write branch `{branch}`: it has commits that are not of ctx");
                return Err(Problem::failed("branch_not_exported", message)
                    .hint("use the name of a branch that does not exist"));
            }
        };
    }
    Ok(ids)
}

/// The sessions to export, oldest first.
async fn sessions(engine: &Engine, session: Option<&str>) -> Result<Vec<Info>, Problem> {
    if let Some(session) = session {
        return Ok(vec![engine.sessions().get(session).await?]);
    }
    let mut all: Vec<Info> = Vec::new();
    let project = Some(engine.project().to_owned());
    let mut query = SessionQuery { project, ..SessionQuery::newest(PAGE_MAX) };
    loop {
        let (page, _) = engine.sessions().list(&query).await?;
        let Some(last) = page.last() else { break };
        query.after = Some((last.session.last_activity_at, last.session.id));
        all.extend(page);
    }
    all.sort_by_key(|info| (info.session.created_at, info.session.id));
    Ok(all)
}

/// What the branch does not have, in the order in which it is written.
async fn records(
    engine: &Engine,
    sessions: &[Info],
    commits: &[(CommitId, Commit)],
    known: &HashSet<String>,
) -> Result<Vec<Record>, Problem> {
    let mut records = Vec::new();
    let mut times: HashMap<TurnId, Timestamp> = HashMap::new();
    for (number, info) in sessions.iter().enumerate() {
        // All ancestors of an exported turn are exported.
        let head = info.session.head.map(|head| head.to_string());
        if head.is_none_or(|head| known.contains(&head)) {
            continue;
        }
        let mut from = None;
        loop {
            let id = info.session.id.to_string();
            let page = engine.messages().turns(&id, Order::Asc, from, TURNS_PAGE).await?;
            for turn in &page {
                if times.contains_key(&turn.id) {
                    continue;
                }
                // A turn follows its parent, whatever the clocks of its source said.
                let parent = turn.header.parent.and_then(|parent| times.get(&parent).copied());
                let at = parent.map_or(turn.header.ended_at, |at| at.max(turn.header.ended_at));
                times.insert(turn.id, at);
                if !known.contains(&turn.id.to_string()) {
                    let kind =
                        RecordKind::Turn { session: number, turn: turn.id, depth: turn.depth };
                    records.push(Record { at, kind });
                }
            }
            let Some(last) = page.last() else { break };
            from = engine.messages().next_page(&id, Order::Asc, last).await?;
            if from.is_none() {
                break;
            }
        }
    }
    for (number, (id, commit)) in commits.iter().enumerate() {
        if !known.contains(&id.to_string()) {
            records.push(Record { at: commit.created_at, kind: RecordKind::Commit(number) });
        }
    }
    records.sort_by_cached_key(|record| record.order(commits));
    Ok(records)
}

struct BranchWriter<'a> {
    engine: &'a Engine,
    input: GitInput,
    temporary: &'a str,
    /// The commit that the first one follows.
    parent: Option<String>,
}

impl BranchWriter<'_> {
    async fn add(
        &mut self,
        record: &Record,
        sessions: &[Info],
        commits: &[(CommitId, Commit)],
    ) -> Result<(), Problem> {
        match record.kind {
            RecordKind::Turn { session, turn, .. } => {
                let turn = self.engine.messages().turn(turn).await?;
                self.turn(&sessions[session], &turn, record.at).await
            }
            RecordKind::Commit(number) => {
                let (id, commit) = &commits[number];
                self.commit(*id, commit).await
            }
        }
    }

    async fn turn(&mut self, info: &Info, turn: &StoredTurn, at: Timestamp) -> Result<(), Problem> {
        let session = info.session.id.to_string();
        let (subject, files) = turn_files(self.engine, &session, turn).await?;
        let message = format!("{subject}\n\nCtx-Session: {session}\nCtx-Turn: {}\n", turn.id);
        let header = &turn.header;
        let name = header.model.as_deref().or(header.provider_id.as_deref()).unwrap_or("ctx");
        self.write(name, at, &message, files)
    }

    async fn commit(&mut self, id: CommitId, commit: &Commit) -> Result<(), Problem> {
        let subject = one_line(&commit.message).or(one_line(&commit.description));
        let message = format!(
            "{}\n\nTask: {}\nType: {}\n\nCtx-Session: {}\nCtx-Task: {}\nCtx-Commit: {id}\n",
            subject.unwrap_or_else(|| "Sealed task".to_owned()),
            one_line(&commit.description).unwrap_or_default(),
            commit.commit_type.name(),
            commit.session,
            commit.task,
        );
        let mut document = serde_json::to_vec_pretty(&commit_json::commit(id, commit))
            .map_err(|error| failed(&error))?;
        document.push(b'\n');
        let mut files = vec![(format!("commits/{id}.json"), document)];
        files.extend(written_files(self.engine, commit).await?);
        self.write("ctx", commit.created_at, &message, files)
    }

    fn write(
        &mut self,
        name: &str,
        at: Timestamp,
        message: &str,
        files: Vec<TreeFile>,
    ) -> Result<(), Problem> {
        let seconds = at.0.div_euclid(1000).max(0);
        let input = &mut self.input;
        input.write(format!("commit {}\n", self.temporary).as_bytes())?;
        input.write(format!("author {} {seconds} +0000\n", author(name)).as_bytes())?;
        input.write(format!("committer {} {seconds} +0000\n", author("ctx")).as_bytes())?;
        input.data(message.as_bytes())?;
        if let Some(parent) = self.parent.take() {
            input.write(format!("from {parent}\n").as_bytes())?;
        }
        for (path, bytes) in files {
            let Some(path) = tree_path(&path) else { continue };
            input.write(format!("M 100644 inline {path}\n").as_bytes())?;
            input.data(&bytes)?;
        }
        input.write(b"\n")
    }
}

fn one_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(200).collect())
}

/// The last recorded versions of the files that a task wrote.
async fn written_files(engine: &Engine, commit: &Commit) -> Result<Vec<TreeFile>, Problem> {
    let mut contents: std::collections::BTreeMap<String, Option<Content>> = Default::default();
    let mut after = 0;
    loop {
        let steps = engine.tasks().steps(commit.task, after, STEPS_PAGE).await?;
        let Some(last) = steps.last() else { break };
        after = last.seq;
        for entry in steps.iter().flat_map(|stored| &stored.step.payload) {
            if let Entry::FileWrite { path, content } = entry {
                contents.insert(path.clone(), content.clone());
            }
        }
    }
    let mut files = Vec::new();
    for (path, content) in contents {
        let bytes = match content {
            Some(Content::Text(text)) => Some(text.into_bytes()),
            Some(Content::Blob { blob, .. }) => {
                engine.records().object(blob.0).await?.map(|object| object.bytes)
            }
            Some(Content::Omitted { .. }) | None => None,
        };
        files.extend(bytes.map(|bytes| (format!("files/{path}"), bytes)));
    }
    Ok(files)
}

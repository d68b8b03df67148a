//! Every verb that writes, killed at every system call that changes a file: it happened completely
//! or not at all, and after a second run it has happened once.

use std::collections::BTreeSet;

use rusqlite::Connection;
use serde_json::Value;

use super::store_state as state;
use crate::harness::repo::Repo;
use crate::harness::seed::{report, seed};
use crate::harness::strace::{OUTPUT, ObjectError, Point, record_calls, run_with_fault};

/// What a second run of a verb does.
#[derive(Clone, Copy)]
pub(crate) enum Repeat {
    /// It is refused with this code and changes nothing.
    Refused(&'static str),
    /// It succeeds and changes nothing.
    ChangesNothing,
    /// It writes a second time, since two runs are two notes, files or messages.
    WritesAgain,
}

/// A verb that writes.
pub(crate) struct Verb {
    pub(crate) name: &'static str,
    pub(crate) before: &'static [&'static [&'static str]],
    pub(crate) arguments: &'static [&'static str],
    pub(crate) env: &'static [(&'static str, &'static str)],
    pub(crate) repeat: Repeat,
    /// Number of commits after it.
    pub(crate) commits: usize,
}

const START: &[&str] = &["stage", "start", "fix the parser"];
const NOTE: &[&str] = &["stage", "note", "the parser drops the last line"];
const WROTE: &[&str] = &["stage", "observe", "file-write", "small.txt"];
const WROTE_TEN: &[&str] = &["stage", "observe", "file-write", "ten.bin"];
const ASK: &[&str] = &["stage", "ask", "keep the old name?"];
const INTERRUPT: &[&str] = &["stage", "interrupt", "also add a log line"];
const FINISHED: &[&str] = &["stage", "done", "the parser keeps the last line"];
const NEW_TASK: &[&str] = &["stage", "message", "new task: build a web page"];
const EXPORT: &[&str] = &["stage", "export", "-o", "task.bundle"];
const SEAL_NOW: &[(&str, &str)] =
    &[("CTX_CLOCKS_TASK_ASK", "1ms"), ("CTX_CLOCKS_TASK_SEAL", "1ms")];

#[rustfmt::skip]
pub(crate) const VERBS: [Verb; 17] = [
    Verb { name: "start", before: &[], arguments: START, env: &[],
        repeat: Repeat::Refused("task_open"), commits: 0 },
    Verb { name: "note", before: &[START], arguments: NOTE, env: &[],
        repeat: Repeat::WritesAgain, commits: 0 },
    Verb { name: "file-write", before: &[START], arguments: WROTE_TEN, env: &[],
        repeat: Repeat::WritesAgain, commits: 0 },
    Verb { name: "ask", before: &[START, NOTE], arguments: ASK, env: &[],
        repeat: Repeat::Refused("invalid_transition"), commits: 0 },
    Verb { name: "answer", before: &[START, ASK], arguments: &["stage", "answer", "yes"],
        env: &[], repeat: Repeat::Refused("invalid_transition"), commits: 0 },
    Verb { name: "interrupt", before: &[START], arguments: INTERRUPT, env: &[],
        repeat: Repeat::WritesAgain, commits: 0 },
    Verb { name: "incorporate", before: &[START, INTERRUPT], arguments: &["stage",
        "incorporate"], env: &[], repeat: Repeat::Refused("invalid_transition"), commits: 0 },
    Verb { name: "done", before: &[START, WROTE], arguments: FINISHED, env: &[],
        repeat: Repeat::Refused("invalid_transition"), commits: 0 },
    Verb { name: "confirm", before: &[START, WROTE_TEN, FINISHED], arguments: &["stage",
        "confirm"], env: &[], repeat: Repeat::Refused("no_task"), commits: 1 },
    Verb { name: "compact", before: &[START, NOTE, WROTE_TEN], arguments: &["stage", "compact",
        "-m", "the parser is right"], env: &[], repeat: Repeat::Refused("no_task"), commits: 1 },
    Verb { name: "abort", before: &[START, NOTE], arguments: &["stage", "abort", "--reason", "not \
        worth it"], env: &[], repeat: Repeat::Refused("no_task"), commits: 1 },
    Verb { name: "confirming message", before: &[START, NOTE, FINISHED], arguments: &["stage",
        "message", "yes, looks good"], env: &[], repeat: Repeat::WritesAgain, commits: 1 },
    Verb { name: "new task that seals the old", before: &[START, WROTE], arguments: NEW_TASK,
        env: &[("CTX_DEFAULTS_ON_NEW_TASK", "auto")], repeat: Repeat::WritesAgain, commits: 1 },
    Verb { name: "new task that asks", before: &[START, WROTE], arguments: NEW_TASK, env: &[],
        repeat: Repeat::Refused("prompt_open"), commits: 0 },
    Verb { name: "choose start_fresh", before: &[START, WROTE, NEW_TASK], arguments: &["stage",
        "choose", "start_fresh"], env: &[], repeat: Repeat::Refused("no_prompt"), commits: 1 },
    Verb { name: "import", before: &[], arguments: &["stage", "import", "task.bundle"], env: &[],
        repeat: Repeat::ChangesNothing, commits: 0 },
    Verb { name: "recover that seals", before: &[START, NOTE], arguments: &["stage", "recover"],
        env: SEAL_NOW, repeat: Repeat::Refused("no_task"), commits: 1 },
];

impl Verb {
    /// A store in which the verb can run.
    pub(crate) fn stage(&self) -> Repo {
        let repo = super::repo_with_files();
        self.before.iter().for_each(|verb| drop(repo.ok(*verb)));
        if self.name == "import" {
            let other = super::repo_with_files();
            [START, NOTE, WROTE_TEN, EXPORT].iter().for_each(|verb| drop(other.ok(*verb)));
            std::fs::copy(other.dir().join("task.bundle"), repo.dir().join("task.bundle"))
                .expect("the bundle");
        }
        repo
    }
}

/// A store in which a verb can run, and its state before and after the verb.
pub(crate) struct Scenario {
    pub(crate) verb: &'static Verb,
    pub(crate) stage: Repo,
    before: Value,
    after: Value,
    known: BTreeSet<String>,
    /// Verbs that run first in every copy, while the other process has the store open.
    prelude: &'static [&'static [&'static str]],
}

/// The state in which an interrupted verb left the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    Before,
    After,
}

impl Scenario {
    pub(crate) fn set(verb: &'static Verb) -> Self {
        Self::on(verb.stage(), verb, &[])
    }

    pub(crate) fn on(
        stage: Repo,
        verb: &'static Verb,
        prelude: &'static [&'static [&'static str]],
    ) -> Self {
        let looked_at = stage.copy();
        let known = state::ids(&state::read(&looked_at, None));
        prelude.iter().for_each(|verb| drop(looked_at.ok(*verb)));
        let before = state::read(&looked_at, None);
        let done = looked_at.outcome_with(verb.arguments, verb.env);
        assert!(done.ok(), "seed {}: {} failed without a fault: {done:?}", seed(), verb.name);
        let after = state::normalize(&state::read(&looked_at, None), &known);
        let before = state::normalize(&before, &known);
        assert_ne!(before, after, "seed {}: {} changes nothing", seed(), verb.name);
        Self { verb, stage, before, after, known, prelude }
    }

    /// Asserts that the store verifies and is in the state before or after the verb.
    pub(crate) fn left(&self, repo: &Repo, beside: Option<&Connection>, here: &str) -> Left {
        repo.verify(here);
        let now = state::normalize(&state::read(repo, beside), &self.known);
        if now == self.before {
            return Left::Before;
        }
        assert!(
            now == self.after,
            "{here}: neither the state before nor the state after.\nbefore {}\nafter {}\nnow {now}",
            self.before,
            self.after
        );
        Left::After
    }

    /// Asserts that after a second run the verb has happened exactly once.
    pub(crate) fn finish(&self, repo: &Repo, beside: Option<&Connection>, left: Left, here: &str) {
        let done = match (left, self.verb.repeat) {
            (Left::After, Repeat::WritesAgain) => None,
            _ => Some(repo.outcome_with(self.verb.arguments, self.verb.env)),
        };
        match (left, self.verb.repeat, done) {
            (Left::Before, _, Some(done)) | (Left::After, Repeat::ChangesNothing, Some(done)) => {
                assert!(done.ok(), "{here}: the second run failed: {done:?}");
            }
            (Left::After, Repeat::Refused(code), Some(done)) => {
                assert_eq!(done.code(), code, "{here}: second run");
            }
            _ => {}
        }
        assert_eq!(
            self.left(repo, beside, here),
            Left::After,
            "{here}: it did not happen in the second run"
        );
        let own = beside.is_none().then(|| state::open(&repo.data()));
        let connection = beside.or(own.as_ref()).expect("one of the two");
        state::assert_consistent(connection, here);
        let commits = state::rows(connection, "SELECT task FROM commits");
        assert_eq!(commits.len(), self.verb.commits, "{here}: commits of tasks {commits:?}");
    }

    /// A copy of the store, ready for the verb.
    pub(crate) fn enter(&self, readers: Readers) -> (Repo, Option<Connection>) {
        let repo = self.stage.copy();
        let reader = readers.join(&repo);
        self.prelude.iter().for_each(|verb| drop(repo.ok(*verb)));
        (repo, reader)
    }

    pub(crate) fn points(&self, readers: Readers) -> Vec<Point> {
        let (repo, _reader) = self.enter(readers);
        record_calls(&repo, self.verb.arguments, self.verb.env)
    }

    /// Kills the verb at each of these system calls and counts the results.
    pub(crate) fn kill_at(&self, points: &[Point], readers: Readers) -> Tally {
        let mut tally = Tally::default();
        for point in points {
            let here =
                format!("seed {}: {} ({readers:?}) killed at {point}", seed(), self.verb.name);
            let (repo, reader) = self.enter(readers);
            let done =
                run_with_fault(&repo, self.verb.arguments, self.verb.env, point, ObjectError::Kill);
            assert!(done.killed() || done.ok(), "{here}: {done:?}");
            let left = self.left(&repo, reader.as_ref(), &here);
            assert!(done.killed() || left == Left::After, "{here}: acknowledged and not there");
            self.finish(&repo, reader.as_ref(), left, &here);
            tally.kills += usize::from(done.killed());
            tally.undone += usize::from(left == Left::Before);
            tally.missed += usize::from(done.ok());
        }
        tally
    }
}

/// Whether another process has the store open; if so, the index of the log outlives the killed
/// process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    None,
    One,
}

impl Readers {
    fn join(self, repo: &Repo) -> Option<Connection> {
        (self == Readers::One).then(|| {
            let connection = state::open(&repo.data());
            state::rows(&connection, "SELECT COUNT(*) FROM meta");
            connection
        })
    }
}

/// Results of the kills.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) kills: usize,
    /// Kills that left the store in the state before the verb.
    pub(crate) undone: usize,
    /// System calls that the verb did not reach in that run.
    missed: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, more: Self) {
        self.kills += more.kills;
        self.undone += more.undone;
        self.missed += more.missed;
    }

    /// Asserts that there were kills before and after the end of the transaction.
    pub(crate) fn check(&self, section: &str, kills_min: usize) {
        report(section, self.kills, &format!(", {} undone, {} missed", self.undone, self.missed));
        assert!(self.kills >= kills_min, "seed {}: {section}: too few kills: {self:?}", seed());
        assert!(
            self.missed * 20 <= self.kills,
            "seed {}: {section}: too many missed: {self:?}",
            seed()
        );
        assert!(
            self.undone > 0 && self.undone < self.kills,
            "seed {}: {section}: all on one side of the commit: {self:?}",
            seed()
        );
    }
}

/// A kill does not lose data that is in the kernel, but a power cut does: the sync itself must be
/// seen.
fn synced_before_answered(points: &[Point]) -> bool {
    let last = |file: &str, is: fn(&Point) -> bool| {
        points.iter().rposition(|point| is(point) && point.on(file))
    };
    let written = last("/ctx.db-wal", |point| point.call == "pwrite64");
    let synced = last("/ctx.db-wal", Point::is_sync);
    let answered = last(OUTPUT, |point| point.call == "write");
    written.is_some() && written < synced && synced < answered
}

fn every_boundary(readers: Readers) {
    let mut tally = Tally::default();
    for verb in &VERBS {
        let scenario = Scenario::set(verb);
        let points = scenario.points(readers);
        assert!(
            synced_before_answered(&points),
            "seed {}: {} answers before the log is on the disk: {points:?}",
            seed(),
            verb.name
        );
        tally.add(scenario.kill_at(&points, readers));
    }
    tally.check(&format!("every boundary, {readers:?}"), 300);
}

#[test]
fn a_verb_killed_at_any_call_happened_completely_or_not_at_all() {
    every_boundary(Readers::None);
}

#[test]
fn a_verb_killed_next_to_a_reader_happened_completely_or_not_at_all() {
    every_boundary(Readers::One);
}

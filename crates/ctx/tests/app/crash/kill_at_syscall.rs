//! Every verb that writes, killed at every call that changes a file: it happened wholly or not at all, and
//! once it is told again it has happened once.

use std::collections::BTreeSet;

use rusqlite::Connection;
use serde_json::Value;

use super::store_state as state;
use crate::harness::repo::Repo;
use crate::harness::seed::{report, seed};
use crate::harness::strace::{ANSWER, Fate, Point, learn, meet};

/// What a verb does that is told again after it happened.
#[derive(Clone, Copy)]
pub(crate) enum Again {
    /// It is refused with this code, and nothing changes.
    Refused(&'static str),
    /// It works and changes nothing.
    Nothing,
    /// It is another thing said or done: whoever tells it twice means it twice.
    Anew,
}

/// A verb that writes.
pub(crate) struct Verb {
    pub(crate) name: &'static str,
    pub(crate) before: &'static [&'static [&'static str]],
    pub(crate) told: &'static [&'static str],
    pub(crate) env: &'static [(&'static str, &'static str)],
    pub(crate) again: Again,
    /// How many commits there are when it is done.
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
    Verb { name: "start", before: &[], told: START, env: &[], again: Again::Refused("task_open"), commits: 0 },
    Verb { name: "note", before: &[START], told: NOTE, env: &[], again: Again::Anew, commits: 0 },
    Verb { name: "file-write", before: &[START], told: WROTE_TEN, env: &[], again: Again::Anew, commits: 0 },
    Verb { name: "ask", before: &[START, NOTE], told: ASK, env: &[], again: Again::Refused("invalid_transition"), commits: 0 },
    Verb { name: "answer", before: &[START, ASK], told: &["stage", "answer", "yes"], env: &[], again: Again::Refused("invalid_transition"), commits: 0 },
    Verb { name: "interrupt", before: &[START], told: INTERRUPT, env: &[], again: Again::Anew, commits: 0 },
    Verb { name: "incorporate", before: &[START, INTERRUPT], told: &["stage", "incorporate"], env: &[], again: Again::Refused("invalid_transition"), commits: 0 },
    Verb { name: "done", before: &[START, WROTE], told: FINISHED, env: &[], again: Again::Refused("invalid_transition"), commits: 0 },
    Verb { name: "confirm", before: &[START, WROTE_TEN, FINISHED], told: &["stage", "confirm"], env: &[], again: Again::Refused("no_task"), commits: 1 },
    Verb { name: "compact", before: &[START, NOTE, WROTE_TEN], told: &["stage", "compact", "-m", "the parser is right"], env: &[], again: Again::Refused("no_task"), commits: 1 },
    Verb { name: "abort", before: &[START, NOTE], told: &["stage", "abort", "--reason", "not worth it"], env: &[], again: Again::Refused("no_task"), commits: 1 },
    Verb { name: "confirming message", before: &[START, NOTE, FINISHED], told: &["stage", "message", "yes, looks good"], env: &[], again: Again::Anew, commits: 1 },
    Verb { name: "new task that seals the old", before: &[START, WROTE], told: NEW_TASK, env: &[("CTX_DEFAULTS_ON_NEW_TASK", "auto")], again: Again::Anew, commits: 1 },
    Verb { name: "new task that asks", before: &[START, WROTE], told: NEW_TASK, env: &[], again: Again::Refused("prompt_open"), commits: 0 },
    Verb { name: "choose start_fresh", before: &[START, WROTE, NEW_TASK], told: &["stage", "choose", "start_fresh"], env: &[], again: Again::Refused("no_prompt"), commits: 1 },
    Verb { name: "import", before: &[], told: &["stage", "import", "task.bundle"], env: &[], again: Again::Nothing, commits: 0 },
    Verb { name: "recover that seals", before: &[START, NOTE], told: &["stage", "recover"], env: SEAL_NOW, again: Again::Refused("no_task"), commits: 1 },
];

impl Verb {
    /// A store in which it can be told.
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

/// A verb's stage, and what it looks like before and after.
pub(crate) struct Scene {
    pub(crate) verb: &'static Verb,
    pub(crate) stage: Repo,
    before: Value,
    after: Value,
    known: BTreeSet<String>,
    /// Told first in every copy, where it has to be with the same company.
    prelude: &'static [&'static [&'static str]],
}

/// Where an interrupted verb left the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    Before,
    After,
}

impl Scene {
    pub(crate) fn set(verb: &'static Verb) -> Self {
        Self::on(verb.stage(), verb, &[])
    }

    pub(crate) fn on(
        stage: Repo,
        verb: &'static Verb,
        prelude: &'static [&'static [&'static str]],
    ) -> Self {
        let looked_at = stage.copy();
        let known = state::ids(&state::of(&looked_at, None));
        prelude.iter().for_each(|verb| drop(looked_at.ok(*verb)));
        let before = state::of(&looked_at, None);
        let done = looked_at.outcome_with(verb.told, verb.env);
        assert!(
            done.ok(),
            "seed {}: {} failed with nobody in its way: {done:?}",
            seed(),
            verb.name
        );
        let after = state::plain(&state::of(&looked_at, None), &known);
        let before = state::plain(&before, &known);
        assert_ne!(before, after, "seed {}: {} changes nothing", seed(), verb.name);
        Self { verb, stage, before, after, known, prelude }
    }

    /// The store verifies and is as before or as after.
    pub(crate) fn left(&self, repo: &Repo, beside: Option<&Connection>, here: &str) -> Left {
        repo.verify(here);
        let now = state::plain(&state::of(repo, beside), &self.known);
        if now == self.before {
            return Left::Before;
        }
        assert!(
            now == self.after,
            "{here}: neither before nor after.\nbefore {}\nafter {}\nnow {now}",
            self.before,
            self.after
        );
        Left::After
    }

    /// Told again, it has happened exactly once.
    pub(crate) fn finish(&self, repo: &Repo, beside: Option<&Connection>, left: Left, here: &str) {
        let done = match (left, self.verb.again) {
            (Left::After, Again::Anew) => None,
            _ => Some(repo.outcome_with(self.verb.told, self.verb.env)),
        };
        match (left, self.verb.again, done) {
            (Left::Before, _, Some(done)) | (Left::After, Again::Nothing, Some(done)) => {
                assert!(done.ok(), "{here}: told again it failed: {done:?}");
            }
            (Left::After, Again::Refused(code), Some(done)) => {
                assert_eq!(done.code(), code, "{here}: told twice")
            }
            _ => {}
        }
        assert_eq!(
            self.left(repo, beside, here),
            Left::After,
            "{here}: told again it did not happen"
        );
        let own = beside.is_none().then(|| state::open(&repo.data()));
        let connection = beside.or(own.as_ref()).expect("one of the two");
        state::sound(connection, here);
        let commits = state::rows(connection, "SELECT task FROM commits");
        assert_eq!(commits.len(), self.verb.commits, "{here}: commits of tasks {commits:?}");
    }

    /// A copy of the stage, ready for the verb.
    pub(crate) fn enter(&self, company: Company) -> (Repo, Option<Connection>) {
        let repo = self.stage.copy();
        let reader = company.join(&repo);
        self.prelude.iter().for_each(|verb| drop(repo.ok(*verb)));
        (repo, reader)
    }

    pub(crate) fn points(&self, company: Company) -> Vec<Point> {
        let (repo, _reader) = self.enter(company);
        learn(&repo, self.verb.told, self.verb.env)
    }

    /// Kills the verb at each of these points; what came of it.
    pub(crate) fn kill_at(&self, points: &[Point], company: Company) -> Tally {
        let mut tally = Tally::default();
        for point in points {
            let here =
                format!("seed {}: {} ({company:?}) killed at {point}", seed(), self.verb.name);
            let (repo, reader) = self.enter(company);
            let done = meet(&repo, self.verb.told, self.verb.env, point, Fate::Kill);
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

/// Whether another process has the store open: the log's index then outlives the one that dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Company {
    Alone,
    BesideAReader,
}

impl Company {
    fn join(self, repo: &Repo) -> Option<Connection> {
        (self == Company::BesideAReader).then(|| {
            let connection = state::open(&repo.data());
            state::rows(&connection, "SELECT COUNT(*) FROM meta");
            connection
        })
    }
}

/// What came of the kills.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) kills: usize,
    /// Those that left the store as before.
    pub(crate) undone: usize,
    /// Points that the verb did not come to in that run.
    missed: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, more: Self) {
        self.kills += more.kills;
        self.undone += more.undone;
        self.missed += more.missed;
    }

    /// The kills hit, and on both sides of the commit.
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

/// A kill does not lose what the kernel holds; a power cut does. So the sync has to be seen.
fn synced_before_answered(points: &[Point]) -> bool {
    let last = |file: &str, is: fn(&Point) -> bool| {
        points.iter().rposition(|point| is(point) && point.on(file))
    };
    let written = last("/ctx.db-wal", |point| point.call == "pwrite64");
    let synced = last("/ctx.db-wal", Point::is_sync);
    let answered = last(ANSWER, |point| point.call == "write");
    written.is_some() && written < synced && synced < answered
}

fn every_boundary(company: Company) {
    let mut tally = Tally::default();
    for verb in &VERBS {
        let scene = Scene::set(verb);
        let points = scene.points(company);
        assert!(
            synced_before_answered(&points),
            "seed {}: {} answers before the log is on the disk: {points:?}",
            seed(),
            verb.name
        );
        tally.add(scene.kill_at(&points, company));
    }
    tally.check(&format!("every boundary, {company:?}"), 300);
}

#[test]
fn a_verb_killed_at_any_call_happened_wholly_or_not_at_all() {
    every_boundary(Company::Alone);
}

#[test]
fn a_verb_killed_beside_a_reader_happened_wholly_or_not_at_all() {
    every_boundary(Company::BesideAReader);
}

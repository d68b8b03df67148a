//! Random verbs killed at random moments, by one driver and by three on one store: acknowledged
//! work is there once, and the store is consistent after every kill.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::store_state as state;
use crate::harness::kill_after;
use crate::harness::repo::Repo;
use crate::harness::seed::{Random, report, seed};

/// Upper bound of the first delays before a kill; it then adapts, so that half of the verbs finish.
const DELAY_FIRST: Duration = Duration::from_millis(8);
const DELAY_MAX: Duration = Duration::from_secs(2);
const DRIVERS: u64 = 3;
/// Prefix of every driver's name, and so of all text that it writes.
const DRIVER: &str = "driver";
/// Verbs that a driver runs between two checks.
const BATCH: usize = 10;
const BATCHES_MAX: usize = 60;
const ALONE_KILLS: usize = 200;
const ALONE_VERBS_MAX: usize = 1500;
const TOGETHER_KILLS: usize = 200;

/// What the store was asked to write, and what it acknowledged.
#[derive(Default)]
struct Ledger {
    asked: BTreeSet<String>,
    notes: BTreeSet<String>,
    files: BTreeSet<String>,
    tasks: BTreeSet<String>,
    commits: BTreeSet<String>,
}

/// Runs verbs on the store, one after the other.
struct Driver<'a> {
    repo: &'a Repo,
    ledger: &'a Mutex<Ledger>,
    kills: &'a AtomicUsize,
    random: Random,
    name: String,
    within: Duration,
    verbs: usize,
    idle: bool,
}

/// Refusals that are expected, since a driver does not read the state of the task first.
const EXPECTED: [&str; 6] =
    ["no_task", "task_open", "invalid_transition", "prompt_open", "no_prompt", "stale_writer"];

impl Driver<'_> {
    /// Runs one verb and kills it unless it ends before; returns whether it was killed.
    fn work(&mut self) -> bool {
        self.verbs += 1;
        let mark = format!("{}x{}", self.name, self.verbs);
        let verb = self.verb(&mark);
        let verb: Vec<&str> = verb.iter().map(String::as_str).collect();
        let delay = Duration::from_micros(self.random.below(self.within.as_micros() as u64));
        let done = kill_after(self.repo.json_command(&verb).spawn().expect("ctx starts"), delay);
        let here = format!("seed {}: {mark}: `{}` after {delay:?}", seed(), verb.join(" "));
        self.within = if done.killed() {
            DELAY_MAX.min(self.within * 20 / 19)
        } else {
            self.within * 19 / 20
        };
        if done.killed() {
            self.kills.fetch_add(1, Ordering::Relaxed);
        } else if done.ok() {
            self.acknowledged(&verb, &mark, &done.json());
        } else {
            let code = done.code();
            self.idle = code == "no_task";
            assert!(EXPECTED.contains(&code.as_str()), "{here}: {done:?}");
        }
        done.killed()
    }

    fn verb(&mut self, mark: &str) -> Vec<String> {
        let pick = if std::mem::take(&mut self.idle) { 50 } else { self.random.below(100) };
        let words: Vec<&str> = match pick {
            0..=37 => {
                self.ledger.lock().expect("the ledger").asked.insert(mark.to_owned());
                vec!["stage", "note", mark]
            }
            38..=49 => {
                let length = 100 + self.random.below(30_000) as usize;
                self.repo.write(mark, self.random.bytes(length));
                vec!["stage", "observe", "file-write", mark]
            }
            50..=62 => vec!["stage", "start", mark],
            63..=67 => vec!["stage", "ask", "shall I?"],
            68..=71 => vec!["stage", "answer", "do"],
            72..=74 => vec!["stage", "interrupt", "wait"],
            75..=77 => vec!["stage", "incorporate"],
            78..=81 => vec!["stage", "done", "all of it"],
            82..=84 => vec!["stage", "message", "yes, looks good"],
            85..=86 => vec!["stage", "confirm"],
            87..=91 => vec!["stage", "compact", "-m", mark],
            92..=93 => vec!["stage", "abort"],
            94..=95 => vec!["search", mark],
            96 => vec!["gc", "--grace", "0s"],
            97 => vec!["verify", "--repair"],
            _ => vec!["verify"],
        };
        words.into_iter().map(str::to_owned).collect()
    }

    fn acknowledged(&self, verb: &[&str], mark: &str, answer: &Value) {
        let mut ledger = self.ledger.lock().expect("the ledger");
        match verb {
            ["stage", "note", ..] => drop(ledger.notes.insert(mark.to_owned())),
            ["stage", "observe", ..] => drop(ledger.files.insert(mark.to_owned())),
            ["verify", ..] => assert_eq!(answer["ok"], true, "seed {}: {mark}: {answer}", seed()),
            _ => {}
        }
        let id = |of: &str| answer[of]["id"].as_str().map(str::to_owned);
        ledger.tasks.extend(id("task"));
        ledger.commits.extend(id("commit"));
    }
}

/// Checks that nothing acknowledged is lost and nothing was written twice.
fn check(repo: &Repo, ledger: &Mutex<Ledger>, days: &BTreeSet<String>, here: &str) {
    repo.verify(here);
    let connection = state::open(&repo.data());
    state::assert_consistent(&connection, here);
    let ledger = ledger.lock().expect("the ledger");
    let mut notes: BTreeMap<String, usize> = BTreeMap::new();
    for day in days {
        for note in repo.ok(["narrative", "--day", day])["notes"].as_array().expect("notes") {
            // ctx writes notes of its own as well.
            let text = note["text"].as_str().expect("a text");
            if text.starts_with(DRIVER) {
                *notes.entry(text.to_owned()).or_default() += 1;
            }
        }
    }
    let twice: Vec<_> = notes.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{here}: notes written twice: {twice:?}");
    let there: BTreeSet<String> = notes.into_keys().collect();
    assert!(there.is_subset(&ledger.asked), "{here}: notes that were never written: {there:?}");
    let column = |sql: &str| -> BTreeSet<String> {
        state::rows(&connection, sql).into_iter().flatten().collect()
    };
    let files = column("SELECT value ->> 'path' FROM steps, json_each(steps.files)");
    let tasks = column("SELECT id FROM tasks");
    let commits = column("SELECT lower(hex(hash)) FROM commits");
    let acknowledged = [
        ("note", &ledger.notes, &there),
        ("file", &ledger.files, &files),
        ("task", &ledger.tasks, &tasks),
        ("commit", &ledger.commits, &commits),
    ];
    for (what, said, there) in acknowledged {
        let lost: Vec<_> = said.difference(there).collect();
        assert!(lost.is_empty(), "{here}: acknowledged and lost, {what}: {lost:?}");
    }
}

/// A run that passes midnight checks the notes of both days.
fn today(repo: &Repo, days: &mut BTreeSet<String>) {
    days.insert(repo.ok(["narrative"])["day"].as_str().expect("a day").to_owned());
}

impl<'a> Driver<'a> {
    fn new(repo: &'a Repo, ledger: &'a Mutex<Ledger>, kills: &'a AtomicUsize, n: u64) -> Self {
        Self {
            repo,
            ledger,
            kills,
            random: Random::new(100 + n),
            name: format!("{DRIVER}{n}"),
            within: DELAY_FIRST,
            verbs: 0,
            idle: n == 0,
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_verbs_are_killed_at_random() {
    let (repo, ledger, kills) = (super::repo_with_files(), Mutex::default(), AtomicUsize::new(0));
    let mut driver = Driver::new(&repo, &ledger, &kills, 0);
    let mut days = BTreeSet::new();
    while (kills.load(Ordering::Relaxed) < ALONE_KILLS || !enough(&ledger))
        && driver.verbs < ALONE_VERBS_MAX
    {
        today(&repo, &mut days);
        if driver.work() {
            check(&repo, &ledger, &days, &format!("seed {}: after verb {}", seed(), driver.verbs));
        }
    }
    finish(&repo, &ledger, &days, &kills, ALONE_KILLS, "one driver");
}

#[test]
fn nothing_acknowledged_is_lost_when_three_drivers_are_killed_at_random() {
    let (repo, ledger, kills) = (super::repo_with_files(), Mutex::default(), AtomicUsize::new(0));
    let mut drivers: Vec<_> =
        (1..=DRIVERS).map(|n| Driver::new(&repo, &ledger, &kills, n)).collect();
    let mut days = BTreeSet::new();
    for batch in 0..BATCHES_MAX {
        if kills.load(Ordering::Relaxed) >= TOGETHER_KILLS && enough(&ledger) {
            break;
        }
        today(&repo, &mut days);
        std::thread::scope(|scope| {
            for driver in &mut drivers {
                scope.spawn(|| (0..BATCH).filter(|_| driver.work()).count());
            }
        });
        check(&repo, &ledger, &days, &format!("seed {}: after batch {batch}", seed()));
    }
    finish(&repo, &ledger, &days, &kills, TOGETHER_KILLS, "three drivers");
}

/// Whether enough work was acknowledged for a loss to be seen.
fn enough(ledger: &Mutex<Ledger>) -> bool {
    let ledger = ledger.lock().expect("the ledger");
    ledger.notes.len() > 10 && !ledger.commits.is_empty()
}

fn finish(
    repo: &Repo,
    ledger: &Mutex<Ledger>,
    days: &BTreeSet<String>,
    kills: &AtomicUsize,
    wanted: usize,
    section: &str,
) {
    check(repo, ledger, days, &format!("seed {}: at the end", seed()));
    let enough = enough(ledger);
    let ledger = ledger.lock().expect("the ledger");
    for note in ledger.notes.iter().step_by(1 + ledger.notes.len() / 10) {
        let hits = repo.ok(["search", note])["hits"].as_array().map(Vec::len);
        assert_eq!(
            hits,
            Some(1),
            "seed {}: the index does not find the acknowledged note {note} once",
            seed()
        );
    }
    let kills = kills.load(Ordering::Relaxed);
    let (notes, commits) = (ledger.notes.len(), ledger.commits.len());
    report(section, kills, &format!(", {notes} notes and {commits} commits acknowledged"));
    assert!(kills >= wanted, "seed {}: only {kills} kills", seed());
    assert!(enough, "seed {}: hardly anything was done: {notes} notes, {commits} commits", seed());
}

//! Where a verb changes files, learnt from a run of it, and the same run stopped or failed right there.
//!
//! strace counts calls for each thread and each kind of call alone. A point is therefore a kind of call on
//! one file; only where the file's name holds a process id, or the call names no file, it is the n-th call
//! of its kind in its thread.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::process::Command;

use crate::harness::PROGRAM;
use crate::harness::repo::{Outcome, Repo};
use crate::harness::seed::seed;

/// The calls by which a file or a directory changes, locks between processes, and the answer's way out.
const CALLS: &str = "pwrite64,pwritev,fsync,fdatasync,ftruncate,fallocate,unlink,unlinkat,rename,renameat,renameat2,\
                     link,linkat,mkdir,mkdirat,openat,flock,write";

/// What stands for the project's directory in a point, which holds in every copy of it.
const HERE: &str = "{here}";

/// A call of a verb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) call: String,
    /// The file, in any copy of the project; none where the call is found by its number alone.
    pub(crate) path: Option<String>,
    pub(crate) nth: usize,
}

impl Point {
    /// Whether it works on the file that ends so.
    pub(crate) fn on(&self, end: &str) -> bool {
        self.path.as_ref().is_some_and(|path| path.ends_with(end))
    }

    pub(crate) fn is_sync(&self) -> bool {
        matches!(self.call.as_str(), "fsync" | "fdatasync")
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} number {} on {}",
            self.call,
            self.nth,
            self.path.as_deref().unwrap_or("any file")
        )
    }
}

/// What is done to the call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fate {
    /// The process dies before it.
    Kill,
    /// It fails once.
    Fail(&'static str),
    /// It fails, and so does every later one.
    FailFrom(&'static str),
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Kill => f.write_str("killed at"),
            Fate::Fail(error) => write!(f, "{error} once at"),
            Fate::FailFrom(error) => write!(f, "{error} from"),
        }
    }
}

/// The answer goes to a file, so that its way out is a point with a name, too.
pub(crate) const ANSWER: &str = "answer.json";

fn traced(repo: &Repo) -> Command {
    let mut command = repo.foreign("strace");
    command.stdout(fs::File::create(repo.dir().join(ANSWER)).expect("a file for the answer"));
    command
}

fn outcome(repo: &Repo, command: &mut Command) -> Outcome {
    let done: Outcome = command.output().unwrap_or_else(|e| unusable(&e.to_string())).into();
    Outcome { stdout: fs::read_to_string(repo.dir().join(ANSWER)).expect("the answer"), ..done }
}

/// Runs a verb to its end and lists its calls, in order. The repo is spent.
pub(crate) fn learn(repo: &Repo, verb: &[&str], env: &[(&str, &str)]) -> Vec<Point> {
    let log = repo.dir().with_extension("log");
    let mut command = traced(repo);
    command
        .args(["-f", "-qq", "-y", "-e", &format!("trace={CALLS}"), "-o"])
        .arg(&log)
        .args([PROGRAM, "--json"])
        .args(verb);
    let done = outcome(repo, command.envs(env.iter().copied()));
    if done.stderr.contains("ptrace") || done.stderr.contains("PTRACE") {
        unusable(&done.stderr);
    }
    assert!(done.ok(), "seed {}: `ctx {}` failed under strace: {done:?}", seed(), verb.join(" "));
    let text = fs::read(&log)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .expect("strace's log");
    let points = points(&text, &repo.dir().to_string_lossy());
    assert!(
        points.iter().any(|point| point.call == "write" && point.on(ANSWER)),
        "seed {}: strace saw no answer of `ctx {}`:\n{text}",
        seed(),
        verb.join(" ")
    );
    points
}

fn unusable(why: &str) -> ! {
    panic!(
        "seed {}: these tests place their kills with strace, and it cannot be used here: {}\n\
         Install it (Debian: apt-get install strace) and allow ptrace (containers: --cap-add SYS_PTRACE).",
        seed(),
        why.trim()
    )
}

/// Runs the verb again in a copy, and does to that call what is its fate.
pub(crate) fn meet(
    repo: &Repo,
    verb: &[&str],
    env: &[(&str, &str)],
    point: &Point,
    fate: Fate,
) -> Outcome {
    let Point { call, path, nth } = point;
    let inject = match fate {
        Fate::Kill => format!("inject={call}:signal=KILL:when={nth}"),
        Fate::Fail(error) => format!("inject={call}:error={error}:when={nth}"),
        Fate::FailFrom(error) => format!("inject={call}:error={error}:when={nth}+"),
    };
    let mut command = traced(repo);
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject]);
    if let Some(path) = path {
        command.arg("-P").arg(path.replace(HERE, &repo.dir().to_string_lossy()));
    }
    command.args([PROGRAM, "--json"]).args(verb);
    let done = outcome(repo, command.envs(env.iter().copied()));
    // A file that is not there yet is a name to strace all the same.
    let stderr = done
        .stderr
        .lines()
        .filter(|line| !line.starts_with("strace: Requested path"))
        .collect::<Vec<_>>()
        .join("\n");
    Outcome { stderr, ..done }
}

fn points(log: &str, here: &str) -> Vec<Point> {
    let (mut of_thread, mut of_file) = (HashMap::new(), HashMap::new());
    let mut points = Vec::new();
    for line in log.lines() {
        let Some((thread, rest)) = line.split_once(char::is_whitespace) else { continue };
        let Some((call, arguments)) = rest.trim_start().split_once('(') else { continue };
        if call.starts_with(['<', '+', '-']) {
            continue;
        }
        let path = path_of(call, arguments).map(|path| path.replace(here, HERE));
        let nth = |counts: &mut HashMap<_, usize>, key| {
            let count = counts.entry(key).or_insert(0);
            *count += 1;
            *count
        };
        let by_thread = nth(&mut of_thread, (thread.to_owned(), call.to_owned(), String::new()));
        let by_file = nth(
            &mut of_file,
            (thread.to_owned(), call.to_owned(), path.clone().unwrap_or_default()),
        );
        // Opening changes a directory only where it makes a file; waking a thread changes none.
        if (call == "openat" && !arguments.contains("O_CREAT")) || arguments.contains("eventfd") {
            continue;
        }
        let named = path.filter(|path| {
            path.starts_with(HERE) && !path.contains(".new") && !path.contains(".part")
        });
        let nth = if named.is_some() { by_file } else { by_thread };
        points.push(Point { call: call.to_owned(), path: named, nth });
    }
    points
}

/// The file that a call works on, as strace prints it: `9</a/file>` for an open one, else a quoted name.
fn path_of(call: &str, arguments: &str) -> Option<String> {
    let quoted = |text: &str| text.split('"').nth(1).map(str::to_owned);
    match call {
        "openat" | "unlink" | "unlinkat" | "mkdir" | "mkdirat" => quoted(arguments),
        // Both names count; the second is the one that comes to be.
        "rename" | "renameat" | "renameat2" | "link" | "linkat" => {
            arguments.split('"').nth(3).map(str::to_owned)
        }
        _ => arguments
            .split_once('<')
            .and_then(|(_, rest)| rest.split_once('>'))
            .map(|(path, _)| path.to_owned()),
    }
}

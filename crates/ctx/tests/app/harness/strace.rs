//! Records the system calls by which a verb changes files, and repeats the verb with a fault at one
//! of them.
//!
//! strace counts calls for each thread and each kind of call separately. A point is therefore the
//! n-th call of a kind on one file. Where the name of the file has a process id in it, or the call
//! names no file, a point is the n-th call of its kind in its thread.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::process::Command;

use crate::harness::PROGRAM;
use crate::harness::repo::{Outcome, Repo};
use crate::harness::seed::seed;

/// Calls that change a file or a directory, take a lock between processes, or write the output.
const CALLS: &str = "pwrite64,pwritev,fsync,fdatasync,ftruncate,fallocate,unlink,unlinkat,\
                     rename,renameat,renameat2,\
                     link,linkat,mkdir,mkdirat,openat,flock,write";

/// Placeholder for the project's directory, so that a point is valid in every copy.
const HERE: &str = "{here}";

/// A system call of a verb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) call: String,
    /// The file, with a placeholder for the project; `None` if the call is identified by its
    /// number.
    pub(crate) path: Option<String>,
    pub(crate) nth: usize,
}

impl Point {
    /// Whether the path of its file ends with this.
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

/// What happens at the call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ObjectError {
    /// The process is killed before the call.
    Kill,
    /// The call fails once.
    Fail(&'static str),
    /// The call and all later ones fail.
    FailFrom(&'static str),
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectError::Kill => f.write_str("killed at"),
            ObjectError::Fail(error) => write!(f, "{error} once at"),
            ObjectError::FailFrom(error) => write!(f, "{error} from"),
        }
    }
}

/// The output goes to a file, so that writing it is a point with a path.
pub(crate) const OUTPUT: &str = "output.json";

fn traced(repo: &Repo) -> Command {
    let mut command = repo.foreign("strace");
    command.stdout(fs::File::create(repo.dir().join(OUTPUT)).expect("a file for the answer"));
    command
}

fn outcome(repo: &Repo, command: &mut Command) -> Outcome {
    let done: Outcome = command.output().unwrap_or_else(|e| unusable(&e.to_string())).into();
    Outcome { stdout: fs::read_to_string(repo.dir().join(OUTPUT)).expect("the answer"), ..done }
}

/// Runs a verb to its end and lists its calls, in order. Use a copy: the verb changes the store.
pub(crate) fn record_calls(repo: &Repo, verb: &[&str], env: &[(&str, &str)]) -> Vec<Point> {
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
        points.iter().any(|point| point.call == "write" && point.on(OUTPUT)),
        "seed {}: strace saw no answer of `ctx {}`:\n{text}",
        seed(),
        verb.join(" ")
    );
    points
}

fn unusable(why: &str) -> ! {
    panic!(
        "seed {}: these tests place their kills with strace, and it cannot be used here: {}\n\
         Install it (Debian: apt-get install strace) and allow ptrace (containers: --cap-add \
         SYS_PTRACE).",
        seed(),
        why.trim()
    )
}

/// Runs the verb in a copy with a fault at one call.
pub(crate) fn run_with_fault(
    repo: &Repo,
    verb: &[&str],
    env: &[(&str, &str)],
    point: &Point,
    fault: ObjectError,
) -> Outcome {
    let Point { call, path, nth } = point;
    let inject = match fault {
        ObjectError::Kill => format!("inject={call}:signal=KILL:when={nth}"),
        ObjectError::Fail(error) => format!("inject={call}:error={error}:when={nth}"),
        ObjectError::FailFrom(error) => format!("inject={call}:error={error}:when={nth}+"),
    };
    let mut command = traced(repo);
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject]);
    if let Some(path) = path {
        command.arg("-P").arg(path.replace(HERE, &repo.dir().to_string_lossy()));
    }
    command.args([PROGRAM, "--json"]).args(verb);
    let done = outcome(repo, command.envs(env.iter().copied()));
    // strace warns about a path that does not exist yet.
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
        // Opening changes a directory only where it creates a file; waking a thread changes no
        // file.
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

/// The file of a call, as strace prints it: `9</a/file>` for an open file, else a quoted name.
fn path_of(call: &str, arguments: &str) -> Option<String> {
    let quoted = |text: &str| text.split('"').nth(1).map(str::to_owned);
    match call {
        "openat" | "unlink" | "unlinkat" | "mkdir" | "mkdirat" => quoted(arguments),
        // The second name is the file that is created.
        "rename" | "renameat" | "renameat2" | "link" | "linkat" => {
            arguments.split('"').nth(3).map(str::to_owned)
        }
        _ => arguments
            .split_once('<')
            .and_then(|(_, rest)| rest.split_once('>'))
            .map(|(path, _)| path.to_owned()),
    }
}

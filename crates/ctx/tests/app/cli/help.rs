//! `--help`, `completions`, `--json` and output to pipes, the same for every verb.

use crate::harness::repo::Repo;
use crate::harness::test_store::on_postgres;

/// Every verb, with arguments that let it succeed on a project whose task awaits an answer.
const VERBS: [&[&str]; 22] = [
    &["init"],
    &["status"],
    &["log"],
    &["search", "retry"],
    &["narrative"],
    &["classify", "yes"],
    &["verify"],
    &["gc"],
    &["doctor"],
    &["provider", "list"],
    &["schedule", "list"],
    &["usage"],
    &["usage", "statusline"],
    &["completions", "bash"],
    &["session", "list"],
    &["session", "show", "main"],
    &["stage", "status"],
    &["stage", "flush"],
    &["stage", "recover"],
    &["stage", "note", "x"],
    &["stage", "observe", "plan", "x"],
    &["stage", "relate", "file:a", "calls", "file:b"],
];

/// Verbs and a word that their help must contain.
const HELP: [(&[&str], &str); 84] = [
    (&[], "Every command accepts --json"),
    (&["init"], "store"),
    (&["status"], "task"),
    (&["log"], "sealed"),
    (&["show"], "object"),
    (&["search"], "word"),
    (&["narrative"], "notes"),
    (&["classify"], "message"),
    (&["verify"], "hash"),
    (&["gc"], "Delete"),
    (&["backup"], "copy"),
    (&["store"], "Copy"),
    (&["store", "copy"], "postgres://"),
    (&["doctor"], "problems"),
    (&["provider"], "List and test"),
    (&["provider", "list"], "new session uses"),
    (&["provider", "test"], "timings"),
    (&["usage"], "cost"),
    (&["usage", "statusline"], "one line"),
    (&["completions"], "shell"),
    (&["stage"], "task"),
    (&["stage", "start"], "Open a task"),
    (&["stage", "status"], "without changing anything"),
    (&["stage", "flush"], "disk"),
    (&["stage", "seal"], "one commit"),
    (&["stage", "abort"], "abandoned"),
    (&["stage", "recover"], "crash"),
    (&["stage", "note"], "narrative"),
    (&["stage", "observe"], "Record"),
    (&["stage", "observe", "file-read"], "read"),
    (&["stage", "observe", "file-write"], "written"),
    (&["stage", "observe", "command"], "without running it"),
    (&["stage", "observe", "plan"], "plan"),
    (&["stage", "relate"], "kind:id"),
    (&["stage", "choose"], "start_fresh"),
    (&["stage", "ask"], "question"),
    (&["stage", "answer"], "user's answer"),
    (&["stage", "interrupt"], "while the agent works"),
    (&["stage", "incorporate"], "running again"),
    (&["stage", "done"], "finished"),
    (&["stage", "more"], "more"),
    (&["stage", "confirm"], "seal it"),
    (&["stage", "export"], "another agent"),
    (&["stage", "import"], "continue it"),
    (&["remote"], "exchanged"),
    (&["remote", "add"], "ssh://"),
    (&["remote", "list"], "List"),
    (&["remote", "remove"], "Remove"),
    (&["push"], "lacks"),
    (&["pull"], "lacks"),
    (&["sync"], "then push"),
    (&["run"], "stream the answer"),
    (&["session"], "conversations"),
    (&["session", "list"], "last activity"),
    (&["session", "new"], "idle"),
    (&["session", "show"], "messages"),
    (&["session", "send"], "stream the answer"),
    (&["session", "tail"], "Follow"),
    (&["session", "resume"], "continue the conversation"),
    (&["session", "answer"], "waits for"),
    (&["session", "fork"], "shares"),
    (&["session", "compact"], "summarize"),
    (&["session", "pin"], "every request"),
    (&["session", "rewind"], "head"),
    (&["session", "retry"], "again"),
    (&["session", "tree"], "tree"),
    (&["session", "archive"], "Archive"),
    (&["session", "unarchive"], "Restore"),
    (&["session", "cancel"], "Cancel the run"),
    (&["session", "delete"], "permanently"),
    (&["session", "inbox"], "waiting"),
    (&["session", "diff"], "side by side"),
    (&["export"], "Export a conversation"),
    (&["import"], "Import conversations"),
    (&["schedule"], "schedules"),
    (&["schedule", "list"], "ticks"),
    (&["outbox"], "deliveries to channels"),
    (&["outbox", "list"], "newest first"),
    (&["outbox", "show"], "last error"),
    (&["outbox", "retry"], "again"),
    (&["token"], "API tokens"),
    (&["token", "create"], "cannot be shown again"),
    (&["token", "list"], "oldest first"),
    (&["token", "revoke"], "permanently"),
];

#[test]
fn every_verb_has_a_help_text() {
    let repo = Repo::bare();
    for (verb, word) in HELP {
        for flag in ["-h", "--help"] {
            let text = repo.says([verb, &[flag]].concat());
            assert!(text.contains(word) && text.contains("Usage: ctx"), "{verb:?} {flag}: {text}");
        }
    }
    assert!(!repo.says(["--help"]).contains("bench"), "what is for us is not shown");
    assert!(repo.says(["--version"]).starts_with("ctx "));
    assert!(!repo.data().exists());
}

#[test]
fn no_verb_that_the_design_names_is_missing_from_the_help() {
    let repo = Repo::bare();
    let (all, stage) = (repo.says(["--help"]), repo.says(["stage", "--help"]));
    let session = repo.says(["session", "--help"]);
    let listed = |text: &str, verb: &str| {
        text.lines().any(|line| line.trim_start().split(' ').next() == Some(verb))
    };
    for (verb, _) in HELP {
        match verb {
            [one] => assert!(listed(&all, one), "{one}"),
            ["stage", one] => assert!(listed(&stage, one), "stage {one}"),
            ["session", one] => assert!(listed(&session, one), "session {one}"),
            _ => {}
        }
    }
    assert!(listed(&stage, "message"));
}

#[test]
fn every_verb_prints_one_document_with_json() {
    let repo = Repo::working_on("Add retry logic");
    repo.ok(["stage", "ask", "Which?"]);
    for verb in VERBS {
        assert!(repo.ok(verb).is_object(), "{verb:?}");
    }
    let head = repo.task()["head"].as_str().expect("an id").to_owned();
    let (copy, bundle) = (repo.beside("copy.db"), repo.beside("bundle"));
    let (copy, bundle) = (copy.to_str().expect("a path"), bundle.to_str().expect("a path"));
    let rest: [&[&str]; 12] = [
        &["show", &head],
        &["backup", copy],
        &["stage", "export", "-o", bundle],
        &["stage", "import", bundle],
        &["stage", "answer", "that one"],
        &["stage", "interrupt", "wait"],
        &["stage", "incorporate"],
        &["stage", "done", "x"],
        &["stage", "more", "y"],
        &["stage", "message", "Different topic: z"],
        &["stage", "choose", "continue"],
        &["stage", "compact"],
    ];
    for verb in rest {
        if verb[0] == "backup" && on_postgres() {
            assert_eq!(repo.fails(verb).1["code"], "unsupported");
            continue;
        }
        assert!(repo.ok(verb).is_object(), "{verb:?}");
    }
}

#[test]
fn a_pipe_gets_no_colours_and_no_progress() {
    let repo = Repo::working_on("Add retry logic");
    repo.ok(["stage", "note", "The client has one call site"]);
    repo.ok(["stage", "compact"]);
    repo.ok(["stage", "start", "Next"]);
    for verb in VERBS {
        let text = repo.says(verb);
        assert!(!text.contains('\u{1b}'), "{verb:?}: {text:?}");
        assert!(!text.is_empty(), "{verb:?} prints text without --json");
    }
    let output = repo.run(["stage", "confirm"]);
    assert!(!String::from_utf8_lossy(&output.stderr).contains('\u{1b}'));
}

#[test]
fn a_closed_output_pipe_is_not_a_failure() {
    let repo = Repo::working_on("Add retry logic");
    let mut command = repo.command(["completions", "bash"]);
    let mut child = command.spawn().expect("the program runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn completions_of_every_shell_contain_the_verbs() {
    let repo = Repo::bare();
    for shell in ["bash", "zsh", "fish"] {
        let script = repo.says(["completions", shell]);
        for verb in ["narrative", "incorporate", "file-write", "--json"] {
            let word = verb.trim_start_matches("--");
            assert!(script.contains(word), "{shell} does not know {verb}");
        }
        let told = repo.ok(["completions", shell]);
        assert_eq!(
            (told["shell"].as_str(), told["script"].as_str().map(str::trim_end)),
            (Some(shell), Some(script.trim_end()))
        );
    }
    // In a file: the script is longer than one argument may be.
    let script = repo.write("completions.bash", repo.says(["completions", "bash"]));
    let syntax = std::process::Command::new("bash").arg("-n").arg(script).output();
    assert!(syntax.is_ok_and(|output| output.status.success()), "bash can read it");
}

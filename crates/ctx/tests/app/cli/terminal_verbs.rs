//! Verbs on a terminal: Ctrl-C, the pager, Markdown, and questions that are left for later.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use crate::harness::repo::Repo;
use crate::harness::terminal::{CTRL_C, ENTER, TerminalProgram};
use crate::harness::test_store::skipped_on_postgres;
use crate::harness::wait_until;

fn on_terminal(repo: &Repo, arguments: &[&str], columns: u16) -> TerminalProgram {
    let mut command = repo.command(arguments);
    command.env("PAGER", "cat");
    TerminalProgram::start(&command, columns, 24)
}

fn state(repo: &Repo, session: &str) -> String {
    let shown = repo.ok(["session", "show", session]);
    shown["session"]["state"].as_str().expect("a state").to_owned()
}

#[test]
fn ctrl_c_cancels_and_exits_with_130_and_no_error() {
    let repo = Repo::new();
    repo.ok(["session", "new", "--label", "s"]);
    let mut sending = on_terminal(&repo, &["session", "send", "s", "hang"], 80);
    wait_until("it runs", || state(&repo, "s") == "running");
    sending.send(CTRL_C);
    assert_eq!(sending.exit().code(), Some(130));
    sending.wait_for("Cancelled. The output so far is stored.");
    assert!(!sending.screen().contains("error"), "{}", sending.screen());
    assert_eq!(state(&repo, "s"), "idle");
}

#[test]
fn ctrl_c_in_a_second_terminal_detaches() {
    if skipped_on_postgres("a verb that follows another process is told of its words by a server") {
        return;
    }
    let repo = Repo::new();
    repo.ok(["session", "new", "--label", "s"]);
    let mut first = on_terminal(&repo, &["session", "send", "s", "hang"], 80);
    wait_until("it runs", || state(&repo, "s") == "running");
    let mut second = on_terminal(&repo, &["session", "send", "s", "later", "--mode", "queue"], 80);
    wait_until("the message waits", || {
        repo.ok(["session", "inbox", "s"])["items"].as_array().is_some_and(|it| it.len() == 1)
    });
    second.send(CTRL_C);
    assert_eq!(second.exit().code(), Some(130));
    second.wait_for("Detached.");
    assert_eq!(state(&repo, "s"), "running", "the run of the first terminal goes on");
    first.send(CTRL_C);
    first.exit();
}

#[test]
fn a_permission_can_be_left_for_later() {
    let repo = Repo::new();
    let mut running = on_terminal(&repo, &["run", "permission please", "--label", "s"], 80);
    running.wait_for("Enter to decide later");
    running.send(ENTER);
    assert_eq!(running.exit().code(), Some(0));
    running.wait_for("ctx session answer s");
    assert_eq!(state(&repo, "s"), "suspended", "nothing was cancelled");
    repo.ok(["session", "answer", "s", "allow_once"]);
    assert_eq!(state(&repo, "s"), "idle");
}

#[test]
fn quit_leaves_a_conversation_and_is_no_message() {
    let repo = Repo::new();
    repo.ok(["session", "new", "--label", "s"]);
    let messages = || repo.ok(["session", "show", "s"])["messages"].as_array().map(Vec::len);
    repo.ok(["session", "send", "s", "permission please"]);
    let before = messages();
    for prompts in [1, 2] {
        let mut resumed = on_terminal(&repo, &["session", "resume", "s"], 80);
        resumed.wait_for("Enter to decide later");
        if prompts == 2 {
            resumed.send(ENTER);
            resumed.wait_for("(/quit leaves)>");
        }
        resumed.send("/quit\r");
        assert_eq!(resumed.exit().code(), Some(0));
    }
    assert_eq!((messages(), state(&repo, "s")), (before, "suspended".to_owned()));
}

#[test]
fn markdown_is_rendered_in_the_width_of_the_terminal() {
    let repo = Repo::new();
    repo.ok(["session", "new", "--label", "s"]);
    let text = "# A title\n\nSome **bold** words and `code` that are long enough to be wrapped.";
    repo.ok(["session", "send", "s", text]);
    for columns in [60, 100, 160] {
        let mut shown = on_terminal(&repo, &["session", "show", "s"], columns);
        assert_eq!(shown.exit().code(), Some(0));
        shown.wait_for("A title");
        assert!(!shown.screen().contains("**bold**"), "{}", shown.screen());
        let raw = String::from_utf8(shown.raw()).expect("text");
        assert!(raw.contains("\u{1b}[1m"), "styles: {raw:?}");
    }
}

#[test]
fn streamed_text_is_wrapped_between_words_on_a_terminal_and_unchanged_in_a_pipe() {
    let repo = Repo::new();
    let words = "A sentence of seventeen characters and extraordinarily long words, again.";
    repo.ok(["session", "new", "--label", "s"]);
    let piped = repo.says(["session", "send", "s", words]);
    let answer = repo.ok(["session", "show", "s"])["messages"][1]["content"][0]["text"].clone();
    assert_eq!(piped, format!("{}\n", answer.as_str().expect("a text")), "byte for byte");
    let mut running = on_terminal(&repo, &["run", words], 40);
    assert_eq!(running.exit().code(), Some(0));
    running.wait_for("continue with");
    let raw = String::from_utf8(running.raw()).expect("text").replace("\r\n", "\n");
    let (text, _) = raw.split_once("\u{1b}").unwrap_or((&raw, ""));
    assert!(text.lines().count() > 1 && text.lines().all(|line| line.len() <= 40), "{text}");
    let joined = text.trim_end().replace('\n', " ");
    assert!(joined.contains(words), "no word is broken: {text}");
}

#[test]
fn a_prompt_names_the_message_that_waits() {
    let repo = Repo::new();
    repo.configure("[clocks]\ntask_ask = \"1ms\"\n");
    repo.ok(["run", "hello", "--label", "s"]);
    repo.ok(["--session", "s", "stage", "start", "Add retry logic"]);
    repo.ok(["--session", "s", "stage", "ask", "Which backoff?"]);
    repo.ok(["session", "send", "s", "Exponential, with jitter"]);
    let shown = repo.says(["session", "show", "s"]);
    let waiting = "Welcome back! You were working on: Add retry logic\nThe agent asked: Which \
                   backoff?\nYour message waits: Exponential, with jitter\nA) Continue that work";
    assert!(shown.contains(waiting), "{shown}");
    let mut resumed = on_terminal(&repo, &["session", "resume", "s"], 80);
    resumed.wait_for("Enter to decide later");
    assert!(resumed.screen().contains("Your message waits: Exponential"), "{}", resumed.screen());
    resumed.send("/quit\r");
    resumed.exit();
    let chat = on_terminal(&repo, &["chat", "s"], 80);
    chat.wait_for("Your message waits: Exponential, with jitter");
    chat.wait_for("The agent asked: Which backoff?");
}

#[test]
fn long_output_goes_through_the_pager() {
    let repo = Repo::new();
    repo.ok(["session", "new", "--label", "s", "--title", "A title"]);
    let paged = |arguments: &[&str]| {
        let mut command = repo.command(arguments);
        command.env("PAGER", "sed s/^/PAGED:/");
        let mut program = TerminalProgram::start(&command, 100, 24);
        assert_eq!(program.exit().code(), Some(0));
        program.wait_for("A title");
        program.screen().contains("PAGED:")
    };
    assert!(paged(&["session", "list"]));
    assert!(!paged(&["session", "list", "--no-pager"]));
    assert!(!paged(&["session", "list", "--json"]));
}

#[test]
fn output_is_printed_if_the_pager_cannot_be_run() {
    let repo = Repo::new();
    repo.ok(["session", "new", "--label", "s", "--title", "A title"]);
    let shown = |pager: &str| {
        let mut command = repo.command(["session", "list"]);
        command.env("PAGER", pager);
        let mut program = TerminalProgram::start(&command, 100, 24);
        assert_eq!(program.exit().code(), Some(0), "{pager}");
        program.wait_for("A title");
        program.screen()
    };
    let plain = repo.write("plain", "#!/bin/sh\n");
    for pager in ["/nonexistent", "/nonexistent -R", "/", plain.to_str().expect("a path")] {
        let screen = shown(pager);
        assert!(!screen.contains("sh:"), "the shell was not asked for {pager}: {screen}");
    }
    // Only the shell finds out that these cannot be run.
    let broken = repo.write("broken", "#!/nonexistent\n");
    std::fs::set_permissions(&broken, Permissions::from_mode(0o755)).expect("executable");
    for pager in [broken.to_str().expect("a path"), "$HOME/nonexistent"] {
        shown(pager);
    }
}

#[test]
fn lists_take_the_width_of_the_terminal() {
    let repo = Repo::new();
    let title = "A title that is longer than sixty columns can show beside the other columns";
    repo.ok(["session", "new", "--title", title]);
    for (columns, is_whole) in [(60, false), (160, true)] {
        let mut listed = on_terminal(&repo, &["session", "list"], columns);
        assert_eq!(listed.exit().code(), Some(0));
        listed.wait_for("just now");
        assert_eq!(listed.screen().contains(title), is_whole, "{columns}");
    }
}

#[test]
fn init_asks_whether_to_move_conversations() {
    if skipped_on_postgres("it moves conversations between directories") {
        return;
    }
    let repo = Repo::bare();
    repo.ok(["run", "first", "--label", "first"]);
    let mut init = on_terminal(&repo, &["init"], 100);
    init.wait_for("Move it here? [y/N]");
    init.send("y");
    init.send(ENTER);
    assert_eq!(init.exit().code(), Some(0));
    init.wait_for("Moved 1 conversation here.");
    let shown = repo.ok(["session", "show", "first"]);
    assert_eq!(shown["messages"][0]["content"][0]["text"], "first");
}

#[test]
fn ctrl_c_leaves_a_conversation_with_130() {
    let repo = Repo::new();
    repo.ok(["run", "hello", "--label", "s"]);
    for (arguments, ready) in
        [(&["session", "resume", "s"][..], "> "), (&["session", "tail", "s"], "")]
    {
        let mut program = on_terminal(&repo, arguments, 80);
        program.wait_for(ready);
        if ready.is_empty() {
            // It follows the session once it prints what is said there.
            repo.ok(["session", "send", "s", "another word"]);
            program.wait_for("another word");
        }
        program.send(CTRL_C);
        assert_eq!(program.exit().code(), Some(130), "{arguments:?}: {}", program.screen());
        assert!(!program.screen().contains("error"), "{}", program.screen());
    }
}

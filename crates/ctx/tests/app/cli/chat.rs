//! `ctx chat` on a pseudo terminal: a conversation from its first message on, with everything that
//! the screen offers. The demo agent and scripted model servers answer.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::model_server::ModelServer;
use crate::harness::repo::Repo;
use crate::harness::terminal::{
    CTRL_C, DELETE, DOWN, ENTER, ESC, F2, F3, F4, PAGE_UP, TerminalProgram,
};
use crate::harness::wait_until;

/// The chat in the size of an old terminal, once it reads keys.
pub(super) fn chat(repo: &Repo, arguments: &[&str]) -> TerminalProgram {
    let all = Some("chat").into_iter().chain(arguments.iter().copied());
    let program = TerminalProgram::start(&repo.command(all), 80, 24);
    program.wait_for("F1 help");
    program
}

/// Sessions with at least one turn or message.
fn sessions(repo: &Repo) -> Vec<Value> {
    let listed = repo.ok(["session", "list", "--all"]);
    let all = listed["sessions"].as_array().cloned().unwrap_or_default();
    all.into_iter().filter(|session| session["label"] != "main").collect()
}

fn texts(repo: &Repo, label: &str) -> Vec<String> {
    let shown = repo.ok(["session", "show", label]);
    let messages = shown["messages"].as_array().cloned().unwrap_or_default();
    let text =
        |message: &Value| message["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    messages.iter().map(text).collect()
}

/// Ctrl-C twice.
pub(super) fn leave(mut program: TerminalProgram) {
    program.send(CTRL_C);
    program.wait_for("Ctrl-C again leaves");
    program.send(CTRL_C);
    assert_eq!(program.exit().code(), Some(0));
    program.assert_restored();
}

#[test]
fn a_new_conversation_is_stored_with_its_first_message() {
    let repo = Repo::new();
    let program = chat(&repo, &[]);
    program.wait_for("A new conversation in");
    program.wait_for("Enter sends");
    assert!(sessions(&repo).is_empty(), "nothing is stored yet");
    program.enter("hello there");
    program.wait_for("demo agent");
    program.wait_for("❯ hello there");
    let stored = sessions(&repo);
    assert_eq!(stored.len(), 1);
    let here = repo.dir().canonicalize().expect("a directory");
    assert_eq!(
        (&stored[0]["title"], &stored[0]["working_dir"], &stored[0]["track_tasks"]),
        (&json!("hello there"), &json!(here), &json!(true))
    );
    leave(program);
    // `-c` takes the newest one of this directory, a name takes that one.
    let label = stored[0]["label"].as_str().expect("a label");
    for arguments in [&["-c"][..], &[label]] {
        let again = chat(&repo, arguments);
        again.wait_for("❯ hello there");
        leave(again);
    }
    repo.assert_whole();
}

#[test]
fn thoughts_and_tool_calls_are_folded_and_markdown_is_rendered() {
    let server = ModelServer::in_pieces(Duration::from_millis(1), |_| {
        let text =
            "# Title\n\nSome **bold** words.\n\n```rust\nfn main() {}\n```\n\n- one\n- two\n";
        text.split_inclusive(' ').map(str::to_owned).collect()
    });
    let repo = Repo::new();
    repo.configure(server.config(""));
    let program = chat(&repo, &[]);
    program.enter("write code");
    program.wait_for("• two");
    let screen = program.screen();
    assert!(screen.contains("Some bold words.") && !screen.contains("**"), "{screen}");
    assert!(screen.contains("fn main() {}") && !screen.contains("```"), "{screen}");
    assert!(program.has_coloured("fn"), "`fn` has the colour of a keyword");
    leave(program);

    let repo = Repo::new();
    let program = chat(&repo, &[]);
    program.enter("think about it");
    program.wait_for("Ctrl-T shows");
    program.wait_for("· task");
    let folded = program.screen();
    program.send("\u{14}");
    program.wait_gone("Ctrl-T shows");
    assert_ne!(folded, program.screen());
    program.enter("now use a tool");
    program.wait_for("● ");
    program.send("\u{f}");
    program.wait_until("the call in full", |screen| !screen.contains("Ctrl-O"));
    leave(program);
}

#[test]
fn a_permission_is_answered_in_place_or_left_for_later() {
    let repo = Repo::new();
    let program = chat(&repo, &[]);
    program.enter("permission please");
    program.wait_for("waiting for you");
    program.wait_for("A digit answers");
    leave(program);
    let label = sessions(&repo)[0]["label"].as_str().expect("a label").to_owned();
    assert_eq!(sessions(&repo)[0]["state"], "suspended", "leaving answers nothing");
    let program = chat(&repo, &["-c"]);
    program.wait_for("A digit answers");
    program.send("1");
    program.wait_gone("A digit answers");
    program.wait_gone("waiting for you");
    wait_until("the turn ends", || sessions(&repo)[0]["turn_count"] == 1);
    assert_eq!(repo.ok(["session", "show", &label])["session"]["state"], "idle");
    leave(program);
}

#[test]
fn messages_wait_are_withdrawn_and_edited_and_the_run_is_stopped() {
    let server = ModelServer::in_pieces(Duration::from_millis(20), |_| {
        (0..2000).map(|n| format!("w{n} ")).collect()
    });
    let repo = Repo::new();
    repo.configure(server.config(""));
    let program = chat(&repo, &[]);
    program.enter("talk");
    program.wait_for("w3 ");
    program.wait_for("Enter queues");
    program.wait_for("running");
    for text in ["first one", "second one"] {
        program.send(text);
        program.wait_for(text);
        program.send("\t");
        program.wait_for(&format!("waits: {text}"));
    }
    program.send(F4);
    program.wait_for("Waiting messages");
    program.send(DELETE);
    program.wait_until("one is left", |screen| !screen.contains("first one"));
    program.send(ENTER);
    program.wait_for("Enter saves the waiting message");
    program.send(", changed");
    program.send(ENTER);
    program.wait_for("waits: second one, changed");
    let label = sessions(&repo)[0]["label"].as_str().expect("a label").to_owned();
    let inbox = repo.ok(["session", "inbox", &label]);
    assert_eq!(inbox["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(inbox["items"][0]["text"], "second one, changed");
    program.send("\u{1b}[1;3A");
    program.wait_gone("waits:");
    program.wait_for("❯ second one, changed");
    program.send(ESC);
    program.wait_for("(stopped)");
    program.wait_for("Enter sends");
    assert!(repo.ok(["session", "inbox", &label])["items"].as_array().is_some_and(Vec::is_empty));
    leave(program);
    repo.assert_whole();
}

#[test]
fn slash_commands_and_lists_work() {
    let repo = Repo::new();
    let program = chat(&repo, &[]);
    program.enter("/help");
    program.wait_for("any key closes");
    program.send(" ");
    program.enter("alpha question");
    program.wait_for("demo agent");
    program.wait_for("Enter sends");
    program.enter("/rename The first");
    program.wait_until("the title", |screen| screen.starts_with("The first"));
    program.enter("beta question");
    wait_until("two turns", || sessions(&repo)[0]["turn_count"] == 2);
    program.wait_for("Enter sends");
    // A fork is another session with the same turns.
    program.enter("/fork The copy");
    program.wait_until("the fork", |screen| screen.starts_with("The copy"));
    program.wait_for("❯ beta question");
    assert_eq!(sessions(&repo).len(), 2);
    // Back to before the second message, whose text comes back.
    program.enter("/rewind");
    program.wait_for("Go back to before");
    program.send(ENTER);
    wait_until("the head moved", || {
        sessions(&repo).iter().any(|it| it["title"] == "The copy" && it["turn_count"] == 1)
    });
    program.wait_for("❯ beta question");
    program.send("\u{15}");
    program.enter("gamma question");
    program.wait_for("Enter sends");
    wait_until("another branch", || {
        sessions(&repo).iter().any(|it| it["title"] == "The copy" && it["turn_count"] == 2)
    });
    program.wait_for("Enter sends");
    program.send(F3);
    program.wait_for("Branches");
    program.wait_for("├─");
    program.wait_for("head of");
    program.send(ESC);
    program.wait_gone("Branches");
    program.send(F2);
    program.wait_for("Conversations");
    program.send("first");
    program.wait_until("one row", |screen| !screen.contains("New conversation"));
    program.send(ENTER);
    program.wait_until("the other session", |screen| screen.starts_with("The first"));
    program.wait_for("❯ beta question");
    program.enter("/search gamma");
    program.wait_for("Search results");
    program.wait_for("gamma question");
    program.send(ENTER);
    program.wait_until("the session of the hit", |screen| screen.starts_with("The copy"));
    program.enter("/model");
    program.wait_for("type to filter");
    program.send(ESC);
    program.wait_gone("type to filter");
    program.enter("/new");
    program.wait_for("A new conversation in");
    program.enter("/fork");
    program.wait_for("not stored yet");
    leave(program);
    repo.assert_whole();
}

#[test]
fn pasted_text_is_one_message_and_no_escape_sequence_reaches_the_terminal() {
    let repo = Repo::new();
    repo.write("src/needle.rs", "fn x() {}");
    let program = chat(&repo, &[]);
    program.wait_for("A new conversation in");
    let text = "line one\nline two \u{1b}]52;c;aGFja2Vk\u{7} end";
    program.paste(text);
    program.wait_for("line two ␛]52;c;aGFja2Vk␇ end");
    assert!(sessions(&repo).is_empty(), "a line break of a paste sends nothing");
    program.send(" @needl");
    program.wait_for("@src/needle.rs");
    program.send("\t");
    program.wait_for("end @src/needle.rs");
    program.send(ENTER);
    program.wait_for("demo agent");
    let label = sessions(&repo)[0]["label"].as_str().expect("a label").to_owned();
    assert_eq!(texts(&repo, &label)[0], format!("{text} @src/needle.rs"));
    program.wait_for("␛]52;c;");
    leave(program);
    let again = chat(&repo, &["-c"]);
    again.wait_for("␛]52;c;");
    let raw = String::from_utf8_lossy(&again.raw()).into_owned();
    assert!(!raw.contains("\u{1b}]52"), "the clipboard is not touched");
    leave(again);
}

#[test]
fn the_screen_follows_the_size_of_the_terminal() {
    let repo = Repo::new();
    let program = chat(&repo, &[]);
    let words = "several words that do not fit into a narrow terminal of forty columns";
    program.enter(words);
    program.wait_for(&format!("❯ {words}"));
    for (columns, rows) in [(40, 12), (160, 50), (20, 6), (80, 24)] {
        program.resize(columns, rows);
        let wide = columns > 75;
        program.wait_until(&format!("{columns}×{rows}"), |screen| {
            let lines: Vec<&str> = screen.lines().collect();
            let footer = lines.iter().rposition(|line| line.contains("Enter sends"));
            footer == Some(usize::from(rows) - 1) && (!wide || screen.contains(words))
        });
    }
    leave(program);
}

#[test]
fn a_question_about_a_new_task_is_answered_in_place() {
    let repo = Repo::new();
    let program = chat(&repo, &[]);
    program.enter("Add retry logic to the client");
    wait_until("it is stored", || !sessions(&repo).is_empty());
    let label = sessions(&repo)[0]["label"].as_str().expect("a label").to_owned();
    wait_until("the first turn", || sessions(&repo)[0]["turn_count"] == 1);
    // Meaningful work makes the next task a question.
    repo.ok(["--session", &label, "stage", "note", "Found the client"]);
    repo.ok(["--session", &label, "stage", "observe", "command", "--exit", "0", "--", "true"]);
    program.enter("New task: write a parser");
    program.wait_for("waiting for you");
    program.wait_for("Save it and start fresh");
    let prompt = repo.ok(["session", "show", &label])["session"]["pending_prompt"].clone();
    assert_eq!(prompt["kind"], "new_task");
    program.send("1");
    program.wait_gone("Save it and start fresh");
    wait_until("the message runs", || sessions(&repo)[0]["turn_count"].as_u64() >= Some(2));
    leave(program);
}

#[test]
fn a_long_session_opens_at_its_end() {
    let repo = Repo::new();
    super::chat_leaving::long_session(&repo, 2500);
    let program = chat(&repo, &["long"]);
    program.wait_for("question 2499");
    assert!(!program.screen().contains("question 2400"));
    for _ in 0..40 {
        program.send(PAGE_UP);
    }
    program.wait_for("more lines below");
    program.send("\u{1b}[1;5H");
    program.wait_until("older turns", |screen| !screen.contains("question 249"));
    program.send("\u{1b}[1;5F");
    program.wait_for("question 2499");
    leave(program);
}

#[test]
fn a_search_hit_opens_at_its_turn() {
    let repo = Repo::new();
    super::chat_leaving::long_session(&repo, 300);
    let program = chat(&repo, &[]);
    // A turn in the middle, one near the beginning and one near the end.
    for n in [150, 3, 298] {
        program.enter(&format!("/search \"question {n}\""));
        program.wait_for("Search results");
        program.wait_for(&format!("question {n}"));
        program.send(ENTER);
        program.wait_gone("Search results");
        let (question, answer) = (format!("❯ question {n}"), format!("answer {n}"));
        program.wait_until("the turn of the hit", |screen| {
            let has = |wanted: &str| screen.lines().any(|line| line.trim() == wanted);
            has(&question) && has(&answer)
        });
    }
    // The turns after a hit are read when they are scrolled to.
    program.enter("/search \"question 150\"");
    program.wait_for("Search results");
    program.wait_for("question 150");
    program.send(ENTER);
    program.wait_for("❯ question 150");
    assert!(!program.screen().contains("question 299"), "{}", program.screen());
    program.send("\u{1b}[1;5F");
    program.wait_for("question 299");
    leave(program);
}

#[test]
fn without_a_terminal_the_chat_names_the_alternative() {
    let repo = Repo::new();
    let (exit, error) = repo.fails(["chat"]);
    assert_eq!((exit, &error["code"]), (2, &json!("no_terminal")));
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("ctx run")), "{error}");
    let help = repo.run::<&str>([]);
    assert_eq!(help.status.code(), Some(2), "as without the chat");
    assert!(String::from_utf8_lossy(&help.stderr).contains("Usage: ctx"));
    assert!(repo.says(["chat", "--help"]).contains("Alt-Enter, Ctrl-J"));
}

#[test]
fn ctx_alone_on_a_terminal_is_the_chat() {
    let repo = Repo::new();
    let program = TerminalProgram::start(&repo.command::<&str>([]), 80, 24);
    program.wait_for("A new conversation in");
    program.send(DOWN);
    leave(program);
}

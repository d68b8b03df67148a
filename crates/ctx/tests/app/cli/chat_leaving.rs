//! How `ctx chat` ends, and what the next start finds: every way of leaving restores the terminal,
//! and nothing that was said, streamed or typed is lost.

use std::time::Duration;

use ctx_engine::core::id::MessageId;
use ctx_engine::core::message::{Message, Part, Role};
use ctx_engine::core::session::Origin;
use ctx_engine::core::turn::About;
use ctx_engine::{Engine, NewTurn, Options};
use rustix::process::Signal;
use ulid::Ulid;

use super::chat::chat;
use crate::harness::model_server::{ModelServer, begun_completion, completion};
use crate::harness::repo::Repo;
use crate::harness::terminal::{CTRL_C, TerminalProgram};
use crate::harness::{wait_for, wait_until};

/// A session `long` with this many turns of two messages.
pub(super) fn long_session(repo: &Repo, turns: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let engine = Engine::open(repo.location(), Options::default()).expect("an engine");
        engine.sessions().create_idle("long", Origin::Cli).await.expect("a session");
        let mut head = None;
        for n in 0..turns {
            let message = |role, text: String| Message {
                id: MessageId(Ulid::new()),
                role,
                source: None,
                content: vec![Part::Text { text }],
                created_at: engine.now(),
            };
            let messages = vec![
                message(Role::User, format!("question {n}")),
                message(Role::Assistant, format!("answer {n}")),
            ];
            let turn = NewTurn { about: About::at(engine.now()), messages, blobs: Vec::new() };
            let appended = engine.messages().append_turn("long", head, turn).await;
            head = Some(appended.expect("a turn"));
        }
        engine.background().shutdown().await;
    });
}

fn answered() -> (Repo, TerminalProgram) {
    let repo = Repo::new().with("CTX_CHAT_TEST_PANIC", "1");
    let program = chat(&repo, &[]);
    program.enter("hello");
    program.wait_for("demo agent");
    program.wait_for("Enter sends");
    (repo, program)
}

/// Makes the program leave.
type Leave = Box<dyn Fn(&TerminalProgram)>;

#[test]
fn every_way_of_leaving_restores_the_terminal() {
    let by_keys = |keys: &'static str| move |program: &TerminalProgram| program.send(keys);
    let by_signal = |signal: Signal| move |program: &TerminalProgram| program.signal(signal);
    let ways: [(&str, Leave, Option<i32>); 7] = [
        ("Ctrl-C twice", Box::new(by_keys("\u{3}\u{3}")), Some(0)),
        ("Ctrl-D", Box::new(by_keys("\u{4}")), Some(0)),
        ("/quit", Box::new(by_keys("/quit\r")), Some(0)),
        ("SIGTERM", Box::new(by_signal(Signal::TERM)), Some(0)),
        ("SIGHUP", Box::new(by_signal(Signal::HUP)), Some(0)),
        ("SIGINT", Box::new(by_signal(Signal::INT)), Some(0)),
        ("panic", Box::new(by_keys("\u{1b}[24~")), Some(101)),
    ];
    for (name, leave, code) in ways {
        let (repo, mut program) = answered();
        leave(&program);
        assert_eq!(program.exit().code(), code, "{name}");
        program.assert_restored();
        repo.verify(name);
        if code == Some(0) {
            program.wait_for("Continue with `ctx chat");
            assert_eq!(repo.sql().number("SELECT count(*) FROM nodes"), 0, "{name}");
        }
    }
}

#[test]
fn a_terminal_that_is_gone_ends_the_chat() {
    let (repo, mut program) = answered();
    program.send("a draft");
    program.wait_for("a draft");
    program.hang_up();
    program.exit();
    repo.verify("the terminal is gone");
    let program = chat(&repo, &["-c"]);
    program.wait_for("❯ a draft");
}

#[test]
fn leaving_while_a_run_is_active_keeps_its_words() {
    let server = ModelServer::hanging_once(begun_completion("half an answer"), |_| {
        completion("a whole answer")
    });
    let repo = Repo::new();
    repo.configure(server.config(""));
    let mut program = chat(&repo, &[]);
    program.enter("hello");
    program.wait_for("half an answer");
    program.send(CTRL_C);
    program.wait_for("is interrupted; its text is kept");
    program.send(CTRL_C);
    assert_eq!(program.exit().code(), Some(0));
    program.assert_restored();
    let program = chat(&repo, &["-c"]);
    program.wait_for("half an answer");
    program.wait_for("(interrupted)");
    program.wait_for("/retry runs its message again");
    program.enter("/retry");
    program.wait_for("a whole answer");
    program.wait_gone("(interrupted)");
    repo.assert_whole();
}

#[test]
fn after_kill_9_the_next_start_continues_where_it_was() {
    let server =
        ModelServer::hanging_once(begun_completion("streamed words that were read"), |_| {
            completion("a whole answer")
        });
    let repo = Repo::new();
    repo.configure(server.config(""));
    let mut program = chat(&repo, &[]);
    program.enter("hello");
    program.wait_for("streamed words that were read");
    program.send("typed but not sent");
    program.wait_for("typed but not sent");
    wait_until("the draft is written", || {
        let drafts = std::fs::read_dir(repo.data().join("chat")).into_iter().flatten().flatten();
        drafts.into_iter().any(|file| {
            let text = std::fs::read_to_string(file.path()).unwrap_or_default();
            text.contains("typed but not sent")
        })
    });
    program.signal(Signal::KILL);
    program.exit();
    let program = chat(&repo, &["-c"]);
    program.wait_for("❯ hello");
    program.wait_for("streamed words that were read");
    program.wait_for("(interrupted)");
    program.wait_for("❯ typed but not sent");
    program.send("\u{15}");
    program.enter("/retry");
    program.wait_for("a whole answer");
    assert_eq!(server.requests().len(), 2, "the message ran once before and once after");
    repo.assert_whole();
}

#[test]
fn a_draft_of_a_new_conversation_survives_kill_9() {
    let repo = Repo::new();
    let mut program = chat(&repo, &[]);
    program.wait_for("A new conversation in");
    program.send("first line\u{a}second line");
    program.wait_for("second line");
    wait_until("the draft is written", || repo.data().join("chat").exists());
    let written = || {
        let files = std::fs::read_dir(repo.data().join("chat")).expect("drafts").flatten();
        let mut texts = files.map(|it| std::fs::read_to_string(it.path()).unwrap_or_default());
        texts.any(|text| text.contains("second line")).then_some(())
    };
    wait_for("the draft is written", written);
    program.signal(Signal::KILL);
    program.exit();
    let program = chat(&repo, &[]);
    program.wait_for("❯ first line");
    program.wait_for("second line");
}

#[test]
fn a_session_that_a_server_runs_is_followed_and_gets_messages() {
    let server = ModelServer::in_pieces(Duration::from_millis(15), |request| {
        let last = request.body["messages"].as_array().and_then(|all| all.last()).cloned();
        let text = last.map(|it| it["content"].to_string()).unwrap_or_default();
        if text.contains("second") {
            return vec!["the second answer".to_owned()];
        }
        (0..80).map(|n| format!("w{n} ")).collect()
    });
    let repo = Repo::new();
    repo.configure(server.config(""));
    // Another process holds the session.
    let mut other = repo.command(["run", "first message", "--label", "shared"]);
    let mut other = other.spawn().expect("it runs");
    wait_until("the session exists", || {
        repo.run(["session", "show", "shared", "--json"]).status.success()
    });
    let program = chat(&repo, &["shared"]);
    program.wait_for("❯ first message");
    program.wait_for("running");
    program.wait_for("w5 ");
    program.enter("the second message");
    program.wait_for("waits: the second message");
    program.wait_for("w79");
    program.wait_for("the second answer");
    assert!(other.wait().expect("it ends").success());
    repo.assert_whole();
}

#[test]
fn the_screen_is_drawn_again_without_an_answer_of_the_terminal() {
    let repo = Repo::new();
    let program = chat(&repo, &[]);
    program.enter("hello there");
    program.wait_for("demo agent");
    // Ctrl-L, and Ctrl-Z in a process group that cannot be stopped: nobody would continue it.
    for key in ["\u{c}", "\u{1a}"] {
        let before = program.raw().len();
        program.send(key);
        wait_until("the screen is cleared and drawn", || {
            let raw = program.raw();
            let drawn = String::from_utf8_lossy(&raw[before..]).into_owned();
            drawn.contains("\u{1b}[2J") && drawn.contains("hello there")
        });
        let raw = String::from_utf8_lossy(&program.raw()[before..]).into_owned();
        assert!(!raw.contains("\u{1b}[6n"), "the position of the cursor is not asked for");
    }
    super::chat::leave(program);
}

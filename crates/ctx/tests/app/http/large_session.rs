//! A session that is larger than the memory that reading it may take.

use std::io::Read;
use std::process::Stdio;

use ctx_engine::core::id::MessageId;
use ctx_engine::core::message::{Message, Part, Role};
use ctx_engine::core::session::Origin;
use ctx_engine::core::turn::About;
use ctx_engine::{Engine, NewTurn, Options};
use ulid::Ulid;

use crate::harness::ctx;
use crate::harness::server::{Home, Server, home};

const TURNS: usize = 160;
const TURN_BYTES: usize = 1 << 20;
/// Peak memory of a process that reads the session. The session has 160 MB.
const PEAK_MAX_KB: u64 = 128 << 10;
/// More than fits into a pipe.
const UNREAD_BYTES: u64 = 1 << 20;

/// A store with the session `large`.
fn large() -> Home {
    let home = home();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        Engine::init(home.location(), "demo").expect("a store");
        let engine = Engine::open(home.location(), Options::default()).expect("an engine");
        engine.sessions().create_idle("large", Origin::Api).await.expect("a session");
        let text = "word ".repeat(TURN_BYTES / 5);
        let mut head = None;
        for _ in 0..TURNS {
            let message = Message {
                id: MessageId(Ulid::new()),
                role: Role::User,
                source: None,
                content: vec![Part::Text { text: text.clone() }],
                created_at: engine.now(),
            };
            let about = About::at(engine.now());
            let turn = NewTurn { about, messages: vec![message], blobs: Vec::new() };
            let appended = engine.messages().append_turn("large", head, turn).await;
            head = Some(appended.expect("a turn"));
        }
    });
    home
}

/// Peak resident memory of a process so far.
fn peak_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Runs a verb that writes more than the session to a pipe, and checks its peak before it ends.
fn is_bounded(home: &Home, arguments: &[&str]) {
    let mut child = ctx(home.path())
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut output = child.stdout.take().expect("piped");
    let content = (TURNS * TURN_BYTES) as u64 - UNREAD_BYTES;
    let read = std::io::copy(&mut output.by_ref().take(content), &mut std::io::sink());
    assert_eq!(read.expect("output"), content, "{arguments:?}");
    let peak = peak_kb(child.id());
    assert!(peak < PEAK_MAX_KB, "{arguments:?} used {peak} KB");
    std::io::copy(&mut output, &mut std::io::sink()).expect("output");
    assert!(child.wait().expect("its end").success(), "{arguments:?}");
}

#[test]
fn a_large_session_is_read_in_bounded_memory() {
    let home = large();
    is_bounded(&home, &["session", "show", "large", "--full", "--json"]);
    is_bounded(&home, &["export", "large"]);
    let server = Server::in_dir(home);
    for path in ["messages?limit=1000", "turns?limit=1000", "turns?limit=1000&order=asc"] {
        let page = server.get(&format!("/api/sessions/large/{path}")).is(200);
        assert!(page["next_cursor"].is_string(), "{path}: the page ended early");
    }
    let bundle = server.get("/api/sessions/large/export");
    assert_eq!(bundle.status, 200);
    let length = bundle.header("content-length").expect("a length").parse();
    assert_eq!(length, Ok(bundle.bytes.len()));
    ctx_engine::core::bundle::read(&bundle.bytes).expect("a valid bundle");
    let peak = peak_kb(server.pid());
    assert!(peak < PEAK_MAX_KB, "the server used {peak} KB");
}

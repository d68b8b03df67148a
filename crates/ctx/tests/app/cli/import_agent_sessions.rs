//! `ctx import --from agent-sessions FILE`: the database of an older session server.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::kill_after;
use crate::harness::repo::Repo;

const TABLES: &str = "
    CREATE TABLE Repository (id TEXT PRIMARY KEY, name TEXT, path TEXT);
    CREATE TABLE AgentSession (id TEXT PRIMARY KEY, repoId TEXT, status TEXT, agentType TEXT,
        agentVersion TEXT, supportsResume BOOLEAN, resumeData TEXT, lastActiveAt DATETIME,
        createdAt DATETIME, updatedAt DATETIME);
    CREATE TABLE AgentMessage (id TEXT PRIMARY KEY, sessionId TEXT, role TEXT, content TEXT,
        timestamp DATETIME);
    INSERT INTO Repository VALUES ('r1', 'demo', '/srv/demo');";
const START: i64 = 1_760_000_000_000;

fn database(path: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(path).expect("a database")
}

fn add_session(database: &rusqlite::Connection, id: &str, status: &str) {
    let row = "INSERT INTO AgentSession VALUES
               (?1, 'r1', ?2, 'claude-code', '2.0', 1, '{\"id\":\"x\"}', ?3, ?4, ?3)";
    database.execute(row, (id, status, START + 9_000, START)).expect("a session");
}

fn add_message(database: &rusqlite::Connection, session: &str, n: i64, role: &str, content: Value) {
    let row = "INSERT INTO AgentMessage VALUES (?1, ?2, ?3, ?4, ?5)";
    let id = format!("{session}-{n}");
    let content = content.to_string();
    database.execute(row, (id, session, role, content, START + n * 1000)).expect("a message");
}

/// A server with a session of each status, each with one exchange.
fn server(repo: &Repo) -> PathBuf {
    let path = repo.beside("server.db");
    let database = database(&path);
    database.execute_batch(TABLES).expect("tables");
    for status in ["active", "suspended", "cancelled", "completed", "error", "strange"] {
        let id = format!("s-{status}");
        add_session(&database, &id, status);
        let text = |text: &str| json!({"type": "text", "text": text});
        add_message(&database, &id, 1, "user", text("Fix the parser"));
        let plan = json!({"type": "plan", "entries": [{"content": "read", "status": "pending"}]});
        add_message(&database, &id, 2, "agent", plan);
        let tool = json!({"type": "tool", "toolCallId": "t1", "name": "read", "status": "completed",
                          "rawInput": {"path": "a.rs"}, "rawOutput": "fn a() {}"});
        add_message(&database, &id, 3, "agent", tool);
        add_message(&database, &id, 4, "system", text("The agent was restarted"));
        add_message(&database, &id, 5, "agent", text("Fixed"));
    }
    path
}

fn import(repo: &Repo, path: &Path, more: &[&str]) -> Value {
    let mut arguments = vec!["import", "--from", "agent-sessions", path.to_str().expect("a path")];
    arguments.extend(more);
    repo.ok(arguments)
}

fn status(repo: &Repo, id: &str) -> String {
    let shown = repo.ok(["session", "show", &format!("agent-sessions:{id}")]);
    shown["session"]["status"].as_str().expect("a status").to_owned()
}

#[test]
fn sessions_of_an_older_server_keep_their_messages_and_their_status() {
    // R211, R212, R213
    let repo = Repo::new();
    let path = server(&repo);
    let imported = import(&repo, &path, &[]);
    let sessions = imported["imported"].as_array().expect("sessions");
    assert_eq!(sessions.len(), 6, "{imported}");
    assert!(sessions.iter().all(|one| one["effect"] == "created" && one["turns"] == 1));
    for (id, expected) in [
        ("s-active", "active"),
        ("s-suspended", "suspended"),
        ("s-cancelled", "archived"),
        ("s-completed", "active"),
        ("s-error", "error"),
        ("s-strange", "active"),
    ] {
        assert_eq!(status(&repo, id), expected, "{id}");
    }
    let shown = repo.ok(["session", "show", "agent-sessions:s-active", "--full"]);
    assert_eq!(shown["session"]["working_dir"], "/srv/demo");
    let roles: Vec<&str> = shown["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .map(|message| message["role"].as_str().expect("a role"))
        .collect();
    assert!(
        ["user", "assistant", "tool", "system"].iter().all(|role| roles.contains(role)),
        "{shown}"
    );
    for kept in ["Fix the parser", "pending", "fn a() {}", "The agent was restarted", "Fixed"] {
        assert!(shown.to_string().contains(kept), "{kept}: {shown}");
    }
    let again = import(&repo, &path, &[]);
    let sessions = again["imported"].as_array().expect("sessions");
    assert!(sessions.iter().all(|one| one["effect"] == "unchanged"), "{again}");
    repo.ok(["verify"]);

    let other = Repo::new();
    import(&other, &path, &["--completed", "archived"]);
    assert_eq!(status(&other, "s-completed"), "archived");
}

#[test]
fn an_imported_error_stays_until_it_is_unarchived_or_a_message_comes() {
    let repo = Repo::new();
    let path = server(&repo);
    add_session(&database(&path), "s-empty", "error");
    import(&repo, &path, &[]);
    assert_eq!(
        (status(&repo, "s-error"), status(&repo, "s-empty")),
        ("error".into(), "error".into())
    );
    let listed = repo.ok(["session", "list"]).to_string();
    assert!(!listed.contains("s-error"), "R201, R216: {listed}");
    import(&repo, &path, &[]);
    assert_eq!(status(&repo, "s-error"), "error");
    repo.ok(["session", "unarchive", "agent-sessions:s-empty"]);
    assert_eq!(status(&repo, "s-empty"), "active");
    repo.ok(["session", "send", "agent-sessions:s-error", "help", "--provider", "demo"]);
    assert_eq!(status(&repo, "s-error"), "active");
    import(&repo, &path, &[]);
    assert_eq!(
        (status(&repo, "s-error"), status(&repo, "s-empty")),
        ("active".into(), "active".into())
    );
}

#[test]
fn a_server_that_has_grown_adds_its_new_turns_also_beside_turns_of_ctx() {
    let repo = Repo::new();
    let path = server(&repo);
    import(&repo, &path, &[]);
    let label = "agent-sessions:s-active";
    let grow = |session: &str, n: i64, text: &str| {
        let text = json!({"type": "text", "text": text});
        add_message(&database(&path), session, n, "user", text.clone());
        add_message(&database(&path), session, n + 1, "agent", text);
    };
    grow("s-active", 10, "second");
    grow("s-active", 12, "third");
    import(&repo, &path, &[]);
    assert_eq!(repo.ok(["session", "show", label])["session"]["turn_count"], 3);
    repo.ok(["session", "send", label, "help", "--provider", "demo"]);
    grow("s-active", 14, "elsewhere");
    let imported = import(&repo, &path, &[]);
    let grown = imported["imported"].as_array().expect("sessions").iter();
    let branches: Vec<&str> = grown.filter_map(|one| one["continued_in"].as_str()).collect();
    assert_eq!(branches.len(), 1, "{imported}");
    assert!(repo.ok(["session", "show", branches[0], "--full"]).to_string().contains("elsewhere"));
    assert_eq!(repo.ok(["session", "show", label])["session"]["turn_count"], 4);
    // The branch grows too, and nothing is imported twice.
    grow("s-active", 16, "fifth");
    import(&repo, &path, &[]);
    let last = import(&repo, &path, &[]);
    let sessions = last["imported"].as_array().expect("sessions");
    assert!(sessions.iter().all(|one| one["effect"] == "unchanged"), "{last}");
    assert!(repo.ok(["session", "show", branches[0], "--full"]).to_string().contains("fifth"));
    repo.ok(["verify"]);
}

#[test]
fn a_killed_import_leaves_all_or_nothing() {
    // R211
    const SESSIONS: usize = 120;
    let repo = Repo::new();
    let path = repo.beside("server.db");
    let source = database(&path);
    source.execute_batch(TABLES).expect("tables");
    source.execute_batch("BEGIN").expect("a transaction");
    for n in 0..SESSIONS {
        let id = format!("s{n}");
        add_session(&source, &id, "completed");
        for m in 0..6 {
            let role = if m % 2 == 0 { "user" } else { "agent" };
            let text = format!("{n} {m} ").repeat(500);
            add_message(&source, &id, m, role, json!({"type": "text", "text": text}));
        }
    }
    source.execute_batch("COMMIT").expect("it commits");
    let count = |repo: &Repo| {
        let listed = repo.ok(["session", "list", "--all", "--limit", "1000"]).to_string();
        listed.matches("\"agent-sessions:").count()
    };
    let whole = repo.copy();
    let began = Instant::now();
    import(&whole, &path, &[]);
    let took = began.elapsed();
    assert_eq!(count(&whole), SESSIONS);
    let arguments = ["import", "--from", "agent-sessions", path.to_str().expect("a path")];
    let mut seen = (0, 0);
    for part in 1..8_u32 {
        let killed = repo.copy();
        let child = killed.command(arguments).spawn().expect("it runs");
        kill_after(child, took * part / 8 + Duration::from_millis(1));
        let found = count(&killed);
        assert!(found == 0 || found == SESSIONS, "{found} sessions after {part}/8 of {took:?}");
        if found == 0 {
            seen.0 += 1;
        } else {
            seen.1 += 1;
        }
        import(&killed, &path, &[]);
        assert_eq!(count(&killed), SESSIONS);
        killed.ok(["verify"]);
    }
    assert!(seen.0 > 0, "at least one was killed before its end");
}

#[test]
fn a_wrong_database_and_wrong_flags_change_nothing() {
    let repo = Repo::new();
    let before = repo.ok(["session", "list", "--all"]);
    let other = repo.beside("other.db");
    database(&other).execute_batch("CREATE TABLE t (a)").expect("a table");
    let text = repo.write("notes.txt", "not a database");
    let missing = repo.beside("missing.db");
    for path in [&other, &text, &missing] {
        let path = path.to_str().expect("a path");
        let (exit, error) = repo.refuses(["import", "--from", "agent-sessions", path]);
        assert_eq!((exit, &error["code"]), (1, &json!("source_unreadable")), "{error}");
        assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("AgentSession")));
    }
    for arguments in [
        &["import", "--from", "agent-sessions"][..],
        &["import", "--from", "codex", "x", "--completed", "active"],
        &["import", "--from", "agent-sessions", "x", "--completed", "gone"],
        &["import", "--completed", "active", "x"],
        &["import", "--watch", "x"],
    ] {
        assert_eq!(repo.refuses(arguments).0, 2, "{arguments:?}");
    }
    assert_eq!(repo.ok(["session", "list", "--all"]), before);
}

//! Rows changed by another program: verify finds them and repairs what follows from other rows.

use ctx_core::decide::SessionView;
use ctx_store::{Finding, VerifyReport};

use crate::StoreDir;
use crate::harness::{SessionWriter, create, label, new_session, text_of, verify};

/// Two sealed tasks, one open, three turns, blobs, a fork, and a task in a session of its own.
async fn populated() -> StoreDir {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let writer = SessionWriter::create(&store, "main", 0).await;
    for n in 0..2 {
        writer.start("a task", 1).await;
        writer.write("a.rs", text_of(n, 5000), 2).await;
        writer.seal("done", 3).await.expect("sealed");
    }
    writer.start("an open task", 4).await;
    writer.note("noted", 5).await;
    writer.write("b.rs", text_of(9, 5000), 6).await;
    for n in 0..3 {
        writer.say("hello", 7 + n).await;
    }
    let head = writer.view().await.session.head;
    create(&store, ctx_core::session::New { head, turn_count: 3, ..new_session("fork", 11) })
        .await
        .expect("forked");
    assert_eq!(verify(&store).await.findings, []);
    store_dir
}

const OPEN: &str = "(SELECT task FROM sessions WHERE label = 'main')";

async fn with_change(store_dir: &StoreDir, sql: &str) -> (StoreDir, VerifyReport) {
    let copy = store_dir.copy();
    let sql = sql.replace("{OPEN}", OPEN);
    assert!(
        copy.sql().execute(&sql, []).unwrap_or_else(|e| panic!("{sql}: {e}")) > 0,
        "{sql} changes a row"
    );
    let report = verify(&copy.open()).await;
    (copy, report)
}

fn names(findings: &[Finding], what: &str) -> bool {
    findings.iter().any(|found| found.what.starts_with(what))
}

/// Asserts that every change is found; reports all missed ones in one failure.
async fn assert_all_found(changes: &[(&str, &str)]) {
    let store_dir = populated().await;
    let mut missed = Vec::new();
    for (what, sql) in changes {
        let (_, report) = with_change(&store_dir, sql).await;
        if !names(&report.findings, what) {
            missed.push(format!("{sql}\n    should name a {what}, found {:?}", report.findings));
        }
    }
    assert!(missed.is_empty(), "not found:\n{}", missed.join("\n"));
}

#[tokio::test]
async fn missing_rows_are_found() {
    assert_all_found(&[
        ("step ", "DELETE FROM blobs WHERE id = 2"),
        ("step ", "DELETE FROM steps WHERE task = {OPEN} AND seq = 2"),
        ("step ", "DELETE FROM steps WHERE task = 1 AND seq = 1"),
        ("task ", "DELETE FROM steps WHERE task = {OPEN}"),
        ("commit ", "DELETE FROM tasks WHERE row = 1"),
        ("session ", "DELETE FROM tasks WHERE row = {OPEN}"),
        ("turn ", "DELETE FROM turns WHERE depth = 1"),
        ("session ", "DELETE FROM turns WHERE depth = 3"),
        ("task ", "DELETE FROM sessions WHERE label = 'main'"),
        ("ref HEAD:demo", "DELETE FROM commits WHERE id = 2"),
        ("commit ", "DELETE FROM commits WHERE id = 1"),
        ("session ", "DELETE FROM events WHERE id = (SELECT MAX(prev) FROM events)"),
        ("session ", "UPDATE session_history SET turn = 999 WHERE id = 1"),
        ("session ", "DELETE FROM session_history WHERE id = 1"),
        ("session ", "UPDATE sessions SET last_move = 999 WHERE label = 'main'"),
        ("session ", "UPDATE sessions SET base = 999 WHERE label = 'main'"),
        ("turn row ", "UPDATE turns SET skip = NULL WHERE depth = 2"),
        ("turn ", "DELETE FROM bodies WHERE id = (SELECT off / 4056 FROM turns WHERE depth = 2)"),
    ])
    .await;
}

#[tokio::test]
async fn a_missing_first_commit_is_found() {
    assert_all_found(&[("task ", "DELETE FROM commits WHERE id = 1")]).await;
}

#[tokio::test]
async fn a_missing_head_is_found() {
    assert_all_found(&[("ref HEAD:demo", "DELETE FROM refs WHERE name = 'HEAD:demo'")]).await;
}

#[tokio::test]
async fn a_stage_ref_without_a_session_is_found() {
    let insert = "INSERT INTO refs(name, target, moved_at)
         SELECT 'STAGE:unknown', target, 0 FROM refs LIMIT 1";
    assert_all_found(&[("ref STAGE:unknown", insert)]).await;
}

#[tokio::test]
async fn aliases_and_identities_that_name_nothing_are_found() {
    let alias = "INSERT INTO session_aliases(alias, session_label, created_at, reason)
         VALUES ('a', 'nobody', 0, 'manual')";
    let identity = "INSERT INTO identities(key, channel, sender_id, entity, verified, linked_at)
         VALUES ('irc:m', 'irc', 'm', 'nobody', 1, 0)";
    assert_all_found(&[("alias a", alias), ("identity irc:m", identity)]).await;
}

#[tokio::test]
async fn changed_pointers_are_found() {
    assert_all_found(&[
        ("turn ", "UPDATE turns SET parent = NULL WHERE depth = 3"),
        ("turn ", "UPDATE turns SET depth = 9 WHERE depth = 2"),
        ("turn ", "UPDATE turns SET hash = zeroblob(32) WHERE depth = 2"),
        ("step ", "UPDATE steps SET parent = parent - 1 WHERE task = {OPEN} AND seq = 3"),
        ("step ", "UPDATE steps SET hash = zeroblob(32) WHERE task = {OPEN} AND seq = 2"),
        ("step ", "UPDATE steps SET len = len - 1 WHERE task = {OPEN} AND seq = 2"),
        ("step ", "UPDATE steps SET off = off + 1 WHERE task = {OPEN} AND seq = 3"),
        ("step ", "UPDATE steps SET packing = 7 WHERE task = {OPEN} AND seq = 3"),
        ("step ", "UPDATE steps SET version = 2 WHERE task = {OPEN} AND seq = 3"),
        ("blob ", "UPDATE blobs SET size = 1 WHERE id = 1"),
        ("commit ", "UPDATE commits SET commit_type = 'abandoned' WHERE id = 1"),
        ("commit ", "UPDATE commits SET project = 'other' WHERE id = 1"),
        ("commit ", "UPDATE tasks SET \"commit\" = NULL WHERE row = 1"),
        ("task ", "UPDATE tasks SET ended_at = NULL WHERE row = 1"),
        ("task ", "UPDATE tasks SET description = 'something else' WHERE row = 1"),
        ("step ", "UPDATE steps SET kind = 'plan' WHERE kind = 'note'"),
        ("step ", "UPDATE steps SET notes = 0 WHERE notes > 0"),
        ("step ", "UPDATE steps SET at = at + 1 WHERE notes > 0"),
        ("ref OTHER", "INSERT INTO refs(name, target, moved_at) VALUES ('OTHER', 'x', 0)"),
    ])
    .await;
}

#[tokio::test]
async fn columns_derived_from_a_body_are_compared_with_it() {
    assert_all_found(&[
        ("step ", "UPDATE steps SET blobs = NULL WHERE blobs IS NOT NULL"),
        ("step ", "UPDATE steps SET blobs = '[1]' WHERE task = {OPEN} AND blobs IS NOT NULL"),
        ("step ", "UPDATE steps SET files = NULL WHERE files IS NOT NULL"),
        ("step ", "UPDATE steps SET task = 1, seq = 99 WHERE task = {OPEN} AND seq = 3"),
    ])
    .await;
}

async fn main_of(store_dir: &StoreDir) -> SessionView {
    SessionWriter { store: store_dir.open(), target: label("main") }.view().await
}

/// Asserts that the change is found and repaired, and that the session is then as before.
async fn assert_repaired(what: &str, sql: &str) {
    let store_dir = populated().await;
    let before = main_of(&store_dir).await;
    let (copy, report) = with_change(&store_dir, sql).await;
    assert!(names(&report.findings, what), "{sql}: {:?}", report.findings);
    let store = copy.open();
    let repaired = store.verify(true, &|_, _| {}).await.expect("repaired");
    assert_eq!(repaired.findings, [], "{sql}");
    assert!(!repaired.repaired.is_empty(), "the report lists the repair");
    assert_eq!(verify(&store).await.findings, [], "{sql}");
    assert_eq!(main_of(&copy).await, before, "{sql}");
}

#[tokio::test]
async fn refs_and_counters_are_repaired() {
    for (what, sql) in [
        ("session ", "UPDATE sessions SET turn_count = 99 WHERE label = 'main'"),
        ("session ", "UPDATE refs SET target = lower(hex(zeroblob(32))) WHERE name LIKE 'STAGE:%'"),
        ("session ", "DELETE FROM refs WHERE name LIKE 'STAGE:%'"),
        (
            "ref HEAD:demo",
            "UPDATE refs SET target = (SELECT lower(hex(hash)) FROM commits WHERE id = 1)
             WHERE name = 'HEAD:demo'",
        ),
        ("task ", "UPDATE tasks SET steps = steps + 5 WHERE row = {OPEN}"),
        ("task ", "UPDATE tasks SET head = head - 1 WHERE row = {OPEN}"),
        ("task ", "UPDATE tasks SET head = 999 WHERE row = {OPEN}"),
        (
            "task ",
            "UPDATE tasks SET state = '{\"name\":\"aborted\",\"reason\":\"no\"}' WHERE row = \
                {OPEN}",
        ),
        ("task ", "UPDATE tasks SET state = 'nonsense' WHERE row = {OPEN}"),
    ] {
        assert_repaired(what, sql).await;
    }
}

#[tokio::test]
async fn links_of_turns_and_head_moves_are_repaired() {
    assert_repaired("turn row ", "UPDATE turns SET skip = id WHERE depth = 2").await;
    let last_move = "UPDATE sessions SET last_move = NULL WHERE label = 'main'";
    assert_repaired("session ", last_move).await;
}

#[tokio::test]
async fn a_missing_head_is_repaired() {
    assert_repaired("ref HEAD:demo", "DELETE FROM refs WHERE name = 'HEAD:demo'").await;
}

#[tokio::test]
async fn the_number_of_the_newest_event_is_repaired() {
    assert_repaired("session ", "UPDATE sessions SET seq = 1 WHERE label = 'main'").await;
}

#[tokio::test]
async fn a_head_that_was_moved_back_is_repaired_and_loses_no_turn() {
    assert_repaired(
        "session ",
        "UPDATE sessions SET head = (SELECT id FROM turns WHERE depth = 2) WHERE label = 'main'",
    )
    .await;
}

#[tokio::test]
async fn a_task_that_its_session_lost_is_repaired() {
    assert_repaired("task ", "UPDATE sessions SET task = NULL WHERE label = 'main'").await;
}

//! The SQL views have every column, also those that a header omits because of their default.

use ctx_core::decide;
use ctx_core::message::{Message, Part, Role, ToolStatus};
use ctx_core::stored_content::Content;
use ctx_core::turn::{About, Ready};
use serde_json::{Value, json};

use crate::StoreDir;
use crate::harness::{SessionWriter, at, message};

const WORKER: &str = "worker:01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// The rows of a query that returns one JSON array per row.
fn rows(store_dir: &StoreDir, sql: &str) -> Vec<Value> {
    let connection = store_dir.sql();
    let mut statement = connection.prepare(sql).expect("a query");
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).expect("rows");
    rows.map(|row| serde_json::from_str(&row.expect("a row")).expect("JSON")).collect()
}

#[tokio::test]
async fn messages_and_tool_calls_have_every_column() {
    // R147, R191
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let writer = SessionWriter::create(&store, "main", 0).await;
    let call = |id: &str, name: &str, status| Part::ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        params: json!({}),
        status,
    };
    let calls = vec![
        call("a", "ls", ToolStatus::Completed),
        call("b", "ls", ToolStatus::Failed),
        call("c", "dispatch_to_agent", ToolStatus::Completed),
    ];
    let started = Part::ToolResult {
        tool_call_id: "c".to_owned(),
        content: Content::Text(WORKER.to_owned()),
        is_error: false,
    };
    let said = |role, content| Message { role, source: None, content, ..message("", 1) };
    let messages =
        vec![message("go", 1), said(Role::Assistant, calls), said(Role::Tool, vec![started])];
    let ids: Vec<String> = messages.iter().map(|message| message.id.to_string()).collect();
    let (ready, body) =
        Ready::new(About { provider_id: Some("local".to_owned()), ..About::at(at(1)) }, messages);
    let turn = ready.with_parent(None).id.to_string();
    writer
        .decide(1, vec![body], move |view, _| decide::append_turn(view, None, &ready))
        .await
        .expect("appended");
    writer.say("nothing is called here", 2).await;

    let of_turn = format!("FROM messages WHERE turn = '{turn}' ORDER BY sequence");
    let found = rows(
        &store_dir,
        &format!("SELECT json_array(id, role, source, sequence, provider_id, model) {of_turn}"),
    );
    let expected = [
        json!([ids[0], "user", "human", 0, "local", null]),
        json!([ids[1], "assistant", null, 1, "local", null]),
        json!([ids[2], "tool", null, 2, "local", null]),
    ];
    assert_eq!(found, expected);
    let columns = "json_array(id, turn, message, name, status, spawned_session_label, sequence)";
    let expected = [
        json!(["a", turn, ids[1], "ls", "completed", null, 0]),
        json!(["b", turn, ids[1], "ls", "failed", null, 1]),
        json!(["c", turn, ids[1], "dispatch_to_agent", "completed", WORKER, 2]),
    ];
    assert_eq!(
        rows(&store_dir, &format!("SELECT {columns} FROM tool_calls ORDER BY sequence")),
        expected
    );
}

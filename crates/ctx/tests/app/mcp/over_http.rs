//! MCP over streamable HTTP at `/mcp`.

use serde_json::{Value, json};

use crate::harness::ctx;
use crate::harness::mcp_client::{HttpMcp, Mcp, initialize_params};
use crate::harness::server::{Home, Server, configure, home};

fn token(home: &Home, scope: &str) -> String {
    let output = ctx(home.path())
        .args(["token", "create", "--scope", scope, "--json"])
        .output()
        .expect("ctx token");
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    document["token"].as_str().expect("a token").to_owned()
}

#[test]
fn the_server_of_the_page_serves_agents_too() {
    let server = Server::start();
    server.session("talk");
    let mut mcp = HttpMcp::open(server.client(), None);
    let started = mcp.data("start_task", json!({"task": "Paint", "session": "talk"}));
    assert_eq!(started["task"]["state"]["name"], "running");
    mcp.call("note", json!({"text": "Decision: green", "session": "talk"}));
    let shown = server.read("/api/sessions/talk/task");
    assert_eq!(shown["task"]["description"], "Paint", "the API shows the same task: {shown}");
    // There is no working directory that the client could mean.
    let refused = mcp.fails("note", json!({"text": "x"}));
    assert!(refused.contains("`session` is missing"), "{refused}");
    let params = json!({"name": "context_pack", "arguments": {"task": "paint"},
        "_meta": {"progressToken": 7}});
    let packed = mcp.result("tools/call", params);
    assert!(packed["content"][0]["text"].as_str().is_some_and(|it| it.contains("green")));
    assert_eq!(mcp.notifications[0]["method"], "notifications/progress");
    assert_eq!(mcp.result("resources/list", json!({}))["resources"][0]["name"], "talk");
    // A session of the protocol that does not exist is 404, so that its client opens another.
    let mut stranger = HttpMcp::unopened(server.client(), None);
    stranger.header("mcp-session-id", "8d8f1b34-0000-4000-8000-000000000000");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(stranger.post(&ping).status, 404);
}

#[test]
fn requests_of_the_newest_version_need_no_session() {
    let server = Server::start();
    let mut mcp = HttpMcp::unopened(server.client(), None);
    mcp.header("mcp-protocol-version", "2026-07-28");
    mcp.header("mcp-method", "tools/list");
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let listed = mcp.result("tools/list", json!({"_meta": meta}));
    assert!(!listed["tools"].as_array().expect("tools").is_empty(), "{listed}");
}

#[test]
fn a_read_token_searches_and_reads_and_starts_nothing() {
    let dir = home();
    let [read, write] = ["read", "write"].map(|scope| token(&dir, scope));
    let server = Server::in_dir(dir);
    server.session("talk");
    let mut reader = HttpMcp::open(server.client(), Some(&read));
    let tools = reader.tools();
    assert!(tools.contains(&"search".to_owned()), "{tools:?}");
    assert!(!tools.contains(&"start_task".to_owned()), "{tools:?}");
    reader.call("search", json!({"query": "anything"}));
    reader.call("read_session", json!({"session": "talk"}));
    for (tool, arguments) in [
        ("start_task", json!({"task": "x", "session": "talk"})),
        ("note", json!({"text": "x", "session": "talk"})),
        ("dispatch_to_agent", json!({"task": "x", "session": "talk"})),
        ("send_message_to_agent", json!({"to": "talk", "content": "x", "session": "talk"})),
    ] {
        let refused = reader.fails(tool, arguments);
        assert!(refused.contains("needs the scope `write`"), "{tool}: {refused}");
    }
    assert_eq!(server.read("/api/sessions/talk/task")["task"], Value::Null);
    let mut writer = HttpMcp::open(server.client(), Some(&write));
    writer.call("start_task", json!({"task": "x", "session": "talk"}));
    // A wrong token is refused, on loopback too.
    let wrong = HttpMcp::unopened(server.client(), Some("ctx_wrong"));
    let open = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": initialize_params("2025-11-25")});
    wrong.post(&open).refuses(401, "unauthorized");
}

#[test]
fn foreign_pages_and_hosts_are_refused() {
    let server = Server::start();
    let open = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": initialize_params("2025-11-25")});
    for (name, value, status, code) in [
        ("origin", "http://evil.example", 403, "foreign_origin"),
        ("host", "evil.example", 421, "wrong_host"),
    ] {
        let mut page = HttpMcp::unopened(server.client(), None);
        page.header(name, value);
        page.post(&open).refuses(status, code);
    }
    let own = format!("http://{}", server.client().address);
    let mut page = HttpMcp::unopened(server.client(), None);
    page.header("origin", &own);
    assert_eq!(page.post(&open).status, 200, "the page of the server itself");
}

#[test]
fn a_setting_turns_it_on_and_off() {
    let open = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": initialize_params("2025-11-25")});
    let off = Server::configured("[mcp]\nhttp = false\n");
    HttpMcp::unopened(off.client(), None).post(&open).refuses(404, "mcp_off");
    // Beyond loopback it is off unless it is turned on, and needs a token.
    for (setting, status) in [("", 404), ("[mcp]\nhttp = true\n", 200)] {
        let (dir, logs) = (home(), tempfile::tempdir().expect("a directory"));
        let token = token(&dir, "read");
        configure(dir.path(), &format!("{setting}[server]\nroots = [{:?}]\n", dir.path()));
        let server = Server::on_all_interfaces(dir, &logs.path().join("log"));
        HttpMcp::unopened(server.client(), None).post(&open).refuses(401, "unauthorized");
        let answered = HttpMcp::unopened(server.client(), Some(&token)).post(&open);
        assert_eq!(answered.status, status, "{setting}: {}", answered.text());
    }
}

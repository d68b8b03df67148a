//! What the protocol demands of the server, on standard input and output.

use serde_json::{Value, json};

use crate::harness::mcp_client::{Mcp, StdioMcp, initialize_params};
use crate::harness::model_server::ModelServer;
use crate::harness::repo::Repo;

#[test]
fn the_version_is_negotiated() {
    let repo = Repo::new();
    for (asked, answered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut mcp = StdioMcp::unopened(&repo, &[]);
        let opened = mcp.result("initialize", initialize_params(asked));
        assert_eq!(opened["protocolVersion"], answered, "{asked}");
        assert_eq!(opened["serverInfo"]["name"], "ctx");
        for capability in ["tools", "resources", "prompts", "completions", "logging"] {
            assert!(opened["capabilities"][capability].is_object(), "{capability}: {opened}");
        }
        mcp.notify("notifications/initialized", Value::Null);
        mcp.result("ping", json!({}));
        assert!(mcp.close(), "it ends when its input ends");
    }
    // The newest version has no handshake.
    let mut mcp = StdioMcp::unopened(&repo, &[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let found = mcp.result("server/discover", json!({"_meta": meta}));
    let versions = found["supportedVersions"].as_array().expect("versions").clone();
    assert!(versions.contains(&json!("2026-07-28")), "{found}");
    let listed = mcp.result("tools/list", json!({"_meta": meta}));
    assert!(!listed["tools"].as_array().expect("tools").is_empty());
}

#[test]
fn every_tool_is_described() {
    let repo = Repo::new();
    let mut mcp = StdioMcp::start(&repo, &[]);
    let listed = mcp.result("tools/list", json!({}));
    let mut found = String::new();
    for tool in listed["tools"].as_array().expect("tools") {
        let name = tool["name"].as_str().expect("a name");
        for text in ["title", "description"] {
            assert!(tool[text].as_str().is_some_and(|it| !it.is_empty()), "{name} {text}");
        }
        let schema = &tool["inputSchema"];
        assert_eq!(
            (&schema["type"], &schema["additionalProperties"]),
            (&json!("object"), &json!(false))
        );
        let properties = schema["properties"].as_object().expect("properties");
        for (parameter, property) in properties {
            assert!(property["description"].is_string(), "{name}.{parameter}");
        }
        let read_only = tool["annotations"]["readOnlyHint"].as_bool().expect("an annotation");
        let mut names: Vec<&str> = properties.keys().map(String::as_str).collect();
        names.sort_unstable();
        found.push_str(&format!(
            "{name}{}({}){}\n",
            if read_only { " reads" } else { "" },
            names.join(", "),
            if tool["outputSchema"].is_object() { " -> structured" } else { "" }
        ));
    }
    let expected = "\
ask_user(question, session)
finish_task(outcome, session, summary)
dispatch_to_agent(model, session, task, to, wait, working_dir) -> structured
send_message_to_agent(content, session, to)
get_agent_status reads(label, session) -> structured
note(session, text)
start_task(session, task) -> structured
update_task(answer, commands, files_read, files_written, incorporate, plan, relations, session) \
-> structured
get_task reads(session) -> structured
search reads(cursor, limit, outcome, project, query, session) -> structured
list_sessions reads(archived, cursor, limit, project, query) -> structured
read_session reads(before, budget, session) -> structured
read_turn reads(budget, offset, turn) -> structured
read_commit reads(budget, commit, offset) -> structured
context_pack reads(budget, task) -> structured
";
    assert_eq!(found, expected);
}

#[test]
fn wrong_calls_are_answered_with_what_is_wrong() {
    let repo = Repo::new();
    let mut mcp = StdioMcp::start(&repo, &[]);
    for (tool, arguments, expected) in [
        ("note", json!({}), "parameter `text` is missing"),
        ("note", json!({"text": "x", "colour": "red"}), "unknown parameter `colour`"),
        ("note", json!({"text": "x"}), "no task is open"),
        ("read_session", json!({"session": "nobody"}), "session not found"),
        ("read_turn", json!({"turn": "abcd1234"}), "no turn has the id"),
        ("read_commit", json!({"commit": "zz"}), "no commit has the id"),
        ("read_turn", json!({"turn": "abcd1234", "budget": 1}), "invalid parameter `budget`"),
        ("search", json!({"query": "x", "outcome": "lost"}), "it must be one of normal, abandoned"),
        ("start_task", json!({"task": "x", "session": "nobody"}), "there is no session `nobody`"),
    ] {
        let text = mcp.fails(tool, arguments.clone());
        assert!(text.contains(expected), "{tool} {arguments}: {text}");
    }
    let unknown = mcp.request("tools/call", json!({"name": "fly", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    let unknown = mcp.request("no/such/method", json!({}));
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    // The client that asked for warnings gets one for a failed call.
    assert!(mcp.notifications.is_empty(), "{:?}", mcp.notifications);
    mcp.result("logging/setLevel", json!({"level": "warning"}));
    mcp.fails("note", json!({"text": "x"}));
    let logged = mcp.notifications.pop().expect("a message");
    assert_eq!(logged["method"], "notifications/message", "{logged}");
    assert_eq!(logged["params"]["data"]["tool"], "note");
}

#[test]
fn a_read_only_server_reads_and_starts_nothing() {
    let repo = Repo::new();
    let mut mcp = StdioMcp::start(&repo, &["--read-only"]);
    let tools = mcp.tools();
    assert!(
        tools.contains(&"search".to_owned()) && !tools.contains(&"note".to_owned()),
        "{tools:?}"
    );
    let refused = mcp.fails("start_task", json!({"task": "x"}));
    assert!(refused.contains("needs the scope `write`"), "{refused}");
}

#[test]
fn sessions_and_commits_are_resources() {
    let repo = Repo::working_on("Choose a colour");
    repo.ok(["stage", "note", "Decision: the colour is green"]);
    let commit = repo.ok(["stage", "compact", "-m", "It is green"])["commit"]["id"].clone();
    let commit = commit.as_str().expect("an id");
    for n in 0..60 {
        repo.ok(["session", "new", "--label", &format!("talk-{n:02}")]);
    }
    repo.ok(["session", "send", "talk-07", "hello there"]);
    let mut mcp = StdioMcp::start(&repo, &[]);
    let (mut uris, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        let page = mcp.result("resources/list", params);
        for resource in page["resources"].as_array().expect("resources") {
            uris.push(resource["uri"].as_str().expect("a uri").to_owned());
        }
        pages += 1;
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!((uris.len(), pages), (62, 3), "61 sessions and a commit: {uris:?}");
    assert_eq!(uris.last(), Some(&format!("ctx://commit/{commit}")));
    let templates = mcp.result("resources/templates/list", json!({}));
    let found: Vec<&str> = templates["resourceTemplates"]
        .as_array()
        .expect("templates")
        .iter()
        .filter_map(|it| it["uriTemplate"].as_str())
        .collect();
    assert_eq!(found, ["ctx://session/{id}", "ctx://turn/{id}", "ctx://commit/{id}"]);
    let read = |mcp: &mut StdioMcp, uri: &str| {
        let read = mcp.result("resources/read", json!({"uri": uri}));
        assert_eq!(read["contents"][0]["uri"], uri);
        read["contents"][0]["text"].as_str().expect("a text").to_owned()
    };
    let text = read(&mut mcp, &format!("ctx://commit/{commit}"));
    assert!(text.contains("Outcome: normal") && text.contains("the colour is green"), "{text}");
    let text = read(&mut mcp, "ctx://session/talk-07");
    assert!(text.contains("User: hello there"), "{text}");
    let turn = repo.ok(["session", "tree", "talk-07"])["turns"][0]["id"].clone();
    let turn = turn.as_str().expect("an id");
    let text = read(&mut mcp, &format!("ctx://turn/{turn}"));
    assert!(text.contains("User: hello there"), "{text}");
    for uri in ["ctx://session/nobody", "ctx://planet/mars", "file:///etc/passwd"] {
        let missing = mcp.request("resources/read", json!({"uri": uri}));
        assert_eq!(missing["error"]["code"], -32002, "{missing}");
    }
    let bad = mcp.request("resources/list", json!({"cursor": "x"}));
    assert_eq!(bad["error"]["code"], -32602, "{bad}");
    let complete = |mcp: &mut StdioMcp, uri: &str, value: &str| {
        let argument = json!({"name": "id", "value": value});
        let params = json!({"ref": {"type": "ref/resource", "uri": uri}, "argument": argument});
        mcp.result("completion/complete", params)["completion"]["values"].clone()
    };
    assert_eq!(complete(&mut mcp, "ctx://session/{id}", "talk-07"), json!(["talk-07"]));
    assert_eq!(complete(&mut mcp, "ctx://commit/{id}", &commit[..6]), json!([commit]));
    assert_eq!(complete(&mut mcp, "ctx://turn/{id}", &turn[..8]), json!([turn]));
    assert_eq!(complete(&mut mcp, "ctx://commit/{id}", "zz"), json!([]));
}

#[test]
fn prompts_continue_where_the_work_was_left_off() {
    let repo = Repo::working_on("Paint the shed");
    repo.ok(["stage", "note", "Decision: two coats of green"]);
    let mut mcp = StdioMcp::start(&repo, &[]);
    let listed = mcp.result("prompts/list", json!({}));
    let names: Vec<&str> = listed["prompts"]
        .as_array()
        .expect("prompts")
        .iter()
        .filter_map(|prompt| prompt["name"].as_str())
        .collect();
    assert_eq!(names, ["continue_where_we_left_off", "what_was_decided"]);
    for arguments in [json!({}), json!({"session": "main"}), json!({"task": "shed"})] {
        let params = json!({"name": names[0], "arguments": arguments});
        let prompt = mcp.result("prompts/get", params);
        let text = prompt["messages"][0]["content"]["text"].as_str().expect("a text");
        assert!(text.contains("Paint the shed") && text.contains("two coats"), "{text}");
    }
    for (name, arguments, expected) in [
        ("no_such_prompt", json!({}), "there is no prompt called"),
        (names[0], json!({"colour": "red"}), "unknown argument `colour`"),
        (names[0], json!({"budget": "9"}), "invalid argument `budget`"),
        (names[0], json!({"session": "nobody"}), "nobody"),
        (names[1], json!({}), "argument `subject` is missing"),
    ] {
        let wrong = mcp.request("prompts/get", json!({"name": name, "arguments": arguments}));
        assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
        let text = wrong["error"]["message"].as_str().expect("a text");
        assert!(text.contains(expected), "{text}");
    }
    let reference = json!({"type": "ref/prompt", "name": names[0]});
    let params = json!({"ref": reference, "argument": {"name": "session", "value": "ma"}});
    let completed = mcp.result("completion/complete", params);
    assert_eq!(completed["completion"]["values"], json!(["main"]));
}

#[test]
fn a_long_call_reports_progress_and_can_be_cancelled() {
    let repo = Repo::new();
    let model = ModelServer::hanging_once(String::new(), |_| String::new());
    repo.configure(model.config(""));
    let mut mcp = StdioMcp::start(&repo, &[]);
    mcp.call("start_task", json!({"task": "Manage"}));
    let params = json!({
        "name": "dispatch_to_agent",
        "arguments": {"task": "Think for ever", "wait": true},
        "_meta": {"progressToken": "p1"},
    });
    let id = mcp.begin("tools/call", params);
    let first = mcp.next();
    assert_eq!(first["method"], "notifications/progress", "{first}");
    assert_eq!(first["params"]["progressToken"], "p1");
    let second = mcp.next();
    assert!(
        second["params"]["progress"].as_f64() > first["params"]["progress"].as_f64(),
        "{first} {second}"
    );
    mcp.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"}));
    // Other requests are answered; nothing about the cancelled one need be.
    let pinged = mcp.begin("ping", json!({}));
    loop {
        let message = mcp.next();
        if message["id"] == pinged {
            break;
        }
        assert!(message["method"].is_string() || message["id"] == id, "{message}");
    }
    let status = mcp.data("get_agent_status", json!({}));
    assert_eq!(status["workers"][0]["state"], "running", "the worker itself goes on: {status}");
}

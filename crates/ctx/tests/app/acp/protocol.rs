//! Messages, versions and errors of the protocol; the configuration of editors.

use serde_json::{Value, json};

use crate::harness::ctx;
use crate::harness::editor::{Editor, work};
use crate::harness::server::home;

#[test]
fn initialize_reports_version_and_capabilities() {
    // R215
    let home = home();
    let mut editor = Editor::silent(&home);
    let early = editor.error_code("session/new", json!({"cwd": work(&home), "mcpServers": []}));
    assert_eq!(early, -32600, "`initialize` comes first");
    assert_eq!(editor.error_code("initialize", json!({})), -32602);
    let answer = editor.ok("initialize", json!({"protocolVersion": 7}));
    assert_eq!(answer["protocolVersion"], 1, "the newest version that ctx has");
    assert_eq!(answer["authMethods"], json!([]));
    assert_eq!(answer["agentInfo"]["name"], "ctx");
    let can = &answer["agentCapabilities"];
    assert_eq!(can["loadSession"], true);
    assert_eq!(
        can["promptCapabilities"],
        json!({"image": true, "audio": false, "embeddedContext": true})
    );
    for name in ["list", "resume", "close", "delete", "additionalDirectories", "fork"] {
        assert!(can["sessionCapabilities"][name].is_object(), "{name}: {can}");
    }
    assert_eq!(can["sessionCapabilities"]["fork"]["_meta"]["unstable"], true);
    assert_eq!(editor.error_code("initialize", json!({"protocolVersion": 1})), -32600);
    assert_eq!(editor.error_code("authenticate", json!({"methodId": "x"})), -32602);
}

#[test]
fn wrong_messages_get_an_error_and_the_connection_goes_on() {
    let home = home();
    let mut editor = Editor::start(&home, &json!({}));
    let code = |editor: &mut Editor, line: &str| {
        editor.mark();
        editor.write(line);
        editor.find(line, |message| message.get("error").is_some())["error"]["code"].clone()
    };
    assert_eq!(code(&mut editor, "{\"half\": "), -32700);
    assert_eq!(code(&mut editor, "[1, 2]"), -32600);
    assert_eq!(code(&mut editor, "{\"jsonrpc\": \"2.0\", \"method\": 5}"), -32600);
    editor.notify("session/never_heard_of", &json!({}));
    editor.notify("session/cancel", &json!({"sessionId": "unknown"}));
    editor.notify("$/cancel_request", &json!({"requestId": 4711}));
    let dir = work(&home);
    let wrong: [(&str, Value, i64); 12] = [
        ("foo/bar", json!({}), -32601),
        ("session/new", json!({"mcpServers": []}), -32602),
        ("session/new", json!({"cwd": "relative", "mcpServers": []}), -32602),
        ("session/new", json!({"cwd": dir.join("missing"), "mcpServers": []}), -32602),
        ("session/new", json!({"cwd": dir, "mcpServers": "all"}), -32602),
        ("session/load", json!({"sessionId": "unknown", "cwd": dir, "mcpServers": []}), -32002),
        ("session/resume", json!({"sessionId": "unknown", "cwd": dir}), -32002),
        ("session/fork", json!({"sessionId": "unknown", "cwd": dir}), -32002),
        ("session/close", json!({"sessionId": "unknown"}), -32002),
        ("session/delete", json!({"sessionId": "unknown"}), -32002),
        ("session/list", json!({"cursor": "nonsense"}), -32602),
        (
            "session/prompt",
            json!({"sessionId": "unknown", "prompt": [{"type": "text",
            "text": "hi"}]}),
            -32002,
        ),
    ];
    for (method, params, expected) in wrong {
        assert_eq!(editor.error_code(method, params.clone()), expected, "{method} {params}");
    }
    let session = editor.new_session(&dir);
    for prompt in
        [json!([]), json!("text"), json!([{"type": "audio", "data": "", "mimeType": "x"}])]
    {
        let params = json!({"sessionId": session, "prompt": prompt});
        assert_eq!(editor.error_code("session/prompt", params), -32602, "{prompt}");
    }
    let option = json!({"sessionId": session, "configId": "colour", "value": "red"});
    assert_eq!(editor.error_code("session/set_config_option", option), -32602);
    let mode = json!({"sessionId": session, "modeId": "plan"});
    assert_eq!(editor.error_code("session/set_mode", mode), -32602, "the demo agent has no modes");
    assert_eq!(editor.prompt(&session, "Hello"), "end_turn", "and the connection works");
    let (code, took) = editor.close();
    assert_eq!(code, Some(0));
    assert!(took.as_secs() < 5, "{took:?}");
}

#[test]
fn requests_before_the_end_of_the_input_are_answered() {
    let home = home();
    let input = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":\
                 {\"protocolVersion\":1}}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\
                 \"session/list\",\"params\":{}}";
    let mut command = ctx(home.path());
    command.arg("acp").stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().expect("ctx starts");
    std::io::Write::write_all(&mut child.stdin.take().expect("piped"), input.as_bytes())
        .expect("written");
    let output = child.wait_with_output().expect("its end");
    assert!(output.status.success());
    let lines = String::from_utf8(output.stdout).expect("text");
    let ids: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["id"].clone())
        .collect();
    assert_eq!(ids, [1, 2]);
}

#[test]
fn setup_prints_what_to_paste() {
    let home = home();
    let setup = |editor: &str, json: &[&str]| {
        let output = ctx(home.path()).args(["acp", "--setup", editor]).args(json).output();
        let output = output.expect("ctx runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    for editor in ["zed", "jetbrains"] {
        let config: Value = serde_json::from_str(&setup(editor, &[])).expect("JSON to paste");
        let server = &config["agent_servers"]["ctx"];
        assert!(server["command"].as_str().expect("a path").ends_with("/ctx"), "{config}");
        assert_eq!(server["args"][0], "acp");
        let data = home.path().join("data");
        assert!(server["args"].as_array().expect("a list").contains(&json!(data)), "{config}");
    }
    assert!(setup("neovim", &[]).contains("codecompanion"));
    let document: Value = serde_json::from_str(&setup("zed", &["--json"])).expect("JSON");
    assert_eq!((&document["editor"], document["file"].is_string()), (&json!("zed"), true));
    let unknown = ctx(home.path()).args(["acp", "--setup", "ed"]).output().expect("ctx runs");
    assert_eq!(unknown.status.code(), Some(2));
}

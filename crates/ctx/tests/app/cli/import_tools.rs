//! `ctx import --from TOOL`, `ctx import --all` and `ctx continue`: sessions of other tools.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::repo::Repo;

/// One exchange in the format of a tool: a prompt, a thought, a tool call with its result, an
/// answer. All tools but two record the thought.
struct Sample {
    tool: &'static str,
    path: &'static str,
    text: String,
    thoughts: usize,
}

fn lines(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

const AT: &str = "2026-01-02T03:04:05.678Z";
const MS: i64 = 1_767_323_045_678;

fn claude_records(dir: &str) -> Vec<Value> {
    let record = |id: &str, parent: Option<&str>, kind: &str, message: Value| {
        json!({"type": kind, "uuid": id, "parentUuid": parent, "isSidechain": false,
               "sessionId": "s-claude", "timestamp": AT, "cwd": dir, "gitBranch": "main",
               "message": message})
    };
    let answer = |content: Value| {
        json!({"id": "m1", "role": "assistant", "model": "model-a", "content": content,
               "usage": {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 3}})
    };
    vec![
        json!({"type": "queue-operation", "sessionId": "s-claude", "timestamp": AT}),
        record("u1", None, "user", json!({"role": "user", "content": "List the files"})),
        record(
            "a1",
            Some("u1"),
            "assistant",
            answer(json!([
            {"type": "thinking", "thinking": "hm", "signature": "sig"}])),
        ),
        record(
            "a2",
            Some("a1"),
            "assistant",
            answer(json!([
            {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}])),
        ),
        record(
            "u2",
            Some("a2"),
            "user",
            json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "a.rs"}]}),
        ),
        record(
            "a3",
            Some("u2"),
            "assistant",
            answer(json!([{"type": "text", "text": "One file"}])),
        ),
    ]
}

fn samples(dir: &str) -> Vec<Sample> {
    let sample = |tool, path, records: &[Value], thoughts| Sample {
        tool,
        path,
        text: lines(records),
        thoughts,
    };
    let item = |ordinal: u64, payload: Value| {
        let kind = "response_item";
        json!({"timestamp": AT, "ordinal": ordinal, "type": kind, "payload": payload})
    };
    let pi = |id: &str, parent: Option<&str>, message: Value| {
        json!({"type": "message", "id": id, "parentId": parent, "timestamp": AT,
               "message": message})
    };
    let qwen = |id: &str, parent: Option<&str>, kind: &str, parts: Value| {
        json!({"uuid": id, "parentUuid": parent, "sessionId": "s-qwen", "timestamp": AT,
               "type": kind, "cwd": dir, "message": {"parts": parts}})
    };
    let event =
        |event: Value| json!({"type": "context.append_loop_event", "event": event, "time": MS});
    vec![
        sample("claude-code", "projects/x/s-claude.jsonl", &claude_records(dir), 1),
        sample(
            "codex",
            "2026/01/02/rollout-2026-s-codex.jsonl",
            &[
                json!({"timestamp": AT, "ordinal": 0, "type": "session_meta",
                   "payload": {"id": "s-codex", "cwd": dir, "git": {"branch": "main"}}}),
                item(
                    1,
                    json!({"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "List the files"}]}),
                ),
                item(2, json!({"type": "reasoning", "summary": [], "encrypted_content": "x"})),
                item(
                    3,
                    json!({"type": "function_call", "name": "shell", "call_id": "t1",
                           "arguments": "{\"cmd\":\"ls\"}"}),
                ),
                item(4, json!({"type": "function_call_output", "call_id": "t1", "output": "a.rs"})),
                item(
                    5,
                    json!({"type": "message", "role": "assistant", "id": "same", "content": [
                {"type": "output_text", "text": "One file"}]}),
                ),
            ],
            1,
        ),
        sample(
            "pi",
            "sessions/x/1_s-pi.jsonl",
            &[
                json!({"type": "session", "id": "s-pi", "timestamp": AT, "cwd": dir}),
                pi(
                    "1",
                    None,
                    json!({"role": "user", "content": [
                        {"type": "text", "text": "List the files"}]}),
                ),
                pi(
                    "2",
                    Some("1"),
                    json!({"role": "assistant", "model": "model-a", "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "toolCall", "id": "t1", "name": "bash", "arguments": {"command": "ls"}}]}),
                ),
                pi(
                    "3",
                    Some("2"),
                    json!({"role": "toolResult", "toolCallId": "t1", "isError": false,
                "content": [{"type": "text", "text": "a.rs"}]}),
                ),
                pi(
                    "4",
                    Some("3"),
                    json!({"role": "assistant", "content": [{"type": "text", "text": "One file"}]}),
                ),
            ],
            1,
        ),
        sample(
            "gemini-cli",
            "tmp/x/chats/session-1.jsonl",
            &[
                json!({"sessionId": "s-gemini", "startTime": AT}),
                json!({"id": "1", "timestamp": AT, "type": "user",
                    "content": [{"text": "List the files"}]}),
                json!({"id": "2", "timestamp": AT, "type": "gemini", "content": "",
                "thoughts": [{"subject": "hm", "description": "…"}],
                "toolCalls": [{"id": "t1", "name": "shell", "args": {"command": "ls"},
                    "status": "success", "result": [
                        {"functionResponse": {"id": "t1", "response": {"output": "a.rs"}}}]}]}),
                json!({"id": "3", "timestamp": AT, "type": "gemini", "content": "One file"}),
            ],
            1,
        ),
        sample(
            "qwen-code",
            "projects/x/chats/s-qwen.jsonl",
            &[
                qwen("1", None, "user", json!([{"text": "List the files"}])),
                qwen(
                    "2",
                    Some("1"),
                    "assistant",
                    json!([{"text": "hm", "thought": true},
                {"functionCall": {"id": "t1", "name": "shell", "args": {"command": "ls"}}}]),
                ),
                qwen(
                    "3",
                    Some("2"),
                    "tool_result",
                    json!([
                {"functionResponse": {"id": "t1", "response": {"output": "a.rs"}}}]),
                ),
                qwen("4", Some("3"), "assistant", json!([{"text": "One file"}])),
            ],
            1,
        ),
        sample(
            "kimi-code",
            "sessions/w/s-kimi/agents/main/wire.jsonl",
            &[
                json!({"type": "metadata", "created_at": MS}),
                json!({"type": "context.append_message", "time": MS, "message": {"id": "m1",
                    "role": "user", "origin": {"kind": "user"}, "content": [
                        {"type": "text", "text": "List the files"}]}}),
                event(json!({"type": "content.part", "uuid": "1",
                        "part": {"type": "think", "think": "hm"}})),
                event(
                    json!({"type": "tool.call", "uuid": "2", "toolCallId": "t1", "name": "Shell",
                "args": {"command": "ls"}}),
                ),
                event(json!({"type": "tool.result", "toolCallId": "t1",
                        "result": {"output": "a.rs"}})),
                event(json!({"type": "content.part", "uuid": "3",
                        "part": {"type": "text", "text": "One file"}})),
            ],
            1,
        ),
        sample(
            "jsonl",
            "talk.jsonl",
            &[
                json!({"type": "session", "id": "s-lines", "title": "Files", "working_dir": dir}),
                json!({"role": "user", "content": "List the files", "timestamp": AT}),
                json!({"role": "assistant", "reasoning": "hm", "content": "", "tool_calls": [
                {"id": "t1", "function": {"name": "shell", "arguments": "{\"command\":\"ls\"}"}}]}),
                json!({"role": "tool", "tool_call_id": "t1", "content": "a.rs"}),
                json!({"role": "assistant", "content": "One file"}),
            ],
            1,
        ),
    ]
}

/// The numbers of parts by type in the history of a session.
fn parts(repo: &Repo, session: &str) -> Vec<(String, usize)> {
    let shown = repo.ok(["session", "show", session, "--full"]);
    let mut counts = std::collections::BTreeMap::new();
    for message in shown["messages"].as_array().expect("messages") {
        for part in message["content"].as_array().expect("content") {
            let kind = part["type"].as_str().expect("a type").to_owned();
            *counts.entry(kind).or_insert(0) += 1;
        }
    }
    counts.remove("record");
    counts.into_iter().collect()
}

fn import(repo: &Repo, tool: &str, path: &Path) -> Value {
    let imported = repo.ok(["import", "--from", tool, path.to_str().expect("a path")]);
    imported["imported"][0].clone()
}

#[test]
fn every_tool_gives_the_same_exchange_and_a_second_import_adds_nothing() {
    let repo = Repo::new();
    let dir = repo.dir().to_str().expect("a path").to_owned();
    for sample in samples(&dir) {
        let root = repo.beside(sample.tool);
        let file = root.join(sample.path);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("directories");
        std::fs::write(&file, &sample.text).expect("a file");
        let imported = import(&repo, sample.tool, &root);
        assert_eq!(
            (&imported["effect"], &imported["turns"], &imported["problems"]),
            (&json!("created"), &json!(1), &json!([])),
            "{}: {imported}",
            sample.tool
        );
        let session = imported["session"].as_str().expect("a session");
        let expected =
            [("text", 2), ("thought", sample.thoughts), ("tool_call", 1), ("tool_result", 1)];
        let expected: Vec<(String, usize)> =
            expected.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect();
        assert_eq!(parts(&repo, session), expected, "{}", sample.tool);
        assert_eq!(import(&repo, sample.tool, &root)["effect"], "unchanged", "{}", sample.tool);
        // Without the list of read files the store recognises the turns.
        std::fs::remove_file(repo.data().join("imports.json")).expect("the list");
        let again = import(&repo, sample.tool, &root);
        assert_eq!((&again["turns"], &again["known_turns"]), (&json!(0), &json!(1)), "{again}");
        assert_eq!(std::fs::read_to_string(&file).expect("the source"), sample.text);
    }
    repo.ok(["verify"]);
}

/// A record of a prompt or an answer of Claude Code.
fn claude(id: &str, parent: Option<&str>, kind: &str, text: &str) -> Value {
    json!({"type": kind, "uuid": id, "parentUuid": parent, "sessionId": "s", "timestamp": AT,
           "message": {"role": kind, "content": [{"type": "text", "text": text}]}})
}

fn claude_file(repo: &Repo, text: impl AsRef<[u8]>) -> PathBuf {
    let file = repo.beside("s.jsonl");
    std::fs::write(&file, text).expect("a file");
    file
}

#[test]
fn a_source_that_has_grown_adds_its_new_turns_only() {
    let repo = Repo::new();
    let first = [claude("1", None, "user", "one"), claude("2", Some("1"), "assistant", "ONE")];
    let more = [
        claude("3", Some("2"), "user", "two"),
        claude("4", Some("3"), "assistant", "TWO"),
        claude("5", Some("4"), "user", "three"),
        claude("6", Some("5"), "assistant", "THREE"),
    ];
    // The tool is writing the last record.
    let file = claude_file(&repo, lines(&first) + &lines(&more)[..20]);
    assert_eq!(import(&repo, "claude-code", &file)["turns"], 1);
    claude_file(&repo, lines(&first) + &lines(&more));
    let grown = import(&repo, "claude-code", &file);
    assert_eq!((&grown["turns"], &grown["problems"]), (&json!(2), &json!([])), "{grown}");
    let session = repo.ok(["session", "show", "claude-code:s"]);
    assert_eq!(session["session"]["turn_count"], 3);
    // An edited record is reported, and what was imported stays.
    claude_file(&repo, lines(&first).replace("one", "ONE?") + &lines(&more));
    let edited = import(&repo, "claude-code", &file);
    assert!(edited["problems"][0]["message"].as_str().expect("a text").contains("was changed"));
    assert_eq!(repo.ok(["session", "show", "claude-code:s"])["session"]["turn_count"], 3);
}

#[test]
fn a_large_import_is_found_by_a_search_once_a_process_of_its_own_has_indexed_it() {
    let repo = Repo::new();
    let turns = 2100;
    let record = |n: usize| {
        let (user, agent) = (format!("u{n}"), format!("a{n}"));
        let parent = (n > 0).then(|| format!("a{}", n - 1));
        lines(&[
            claude(&user, parent.as_deref(), "user", &format!("question{n}")),
            claude(&agent, Some(&user), "assistant", &format!("answer{n}")),
        ])
    };
    let file = claude_file(&repo, (0..turns).map(record).collect::<String>());
    assert_eq!(import(&repo, "claude-code", &file)["turns"], turns);
    repo.ok(["store", "index"]);
    assert_eq!(repo.ok(["store", "index"]), json!({"indexed": 0}));
    for word in ["question0", "answer2099"] {
        let hits = repo.ok(["search", word]);
        assert_eq!(hits["hits"].as_array().expect("hits").len(), 1, "{hits}");
    }
    assert_eq!(import(&repo, "claude-code", &file)["effect"], "unchanged");
}

#[test]
fn an_unfinished_last_turn_is_replaced_by_the_whole_one() {
    let repo = Repo::new();
    let all = [
        claude("1", None, "user", "one"),
        claude("2", Some("1"), "assistant", "a part"),
        claude("3", Some("2"), "assistant", "the rest"),
    ];
    let file = claude_file(&repo, lines(&all[..2]));
    import(&repo, "claude-code", &file);
    claude_file(&repo, lines(&all) + &lines(&[claude("4", Some("3"), "user", "two")]));
    import(&repo, "claude-code", &file);
    let shown = repo.ok(["session", "show", "claude-code:s"]);
    assert_eq!(shown["session"]["turn_count"], 2);
    assert_eq!(parts(&repo, "claude-code:s"), [("text".to_owned(), 4)]);
}

#[test]
fn branches_become_sessions_and_the_newest_one_is_continued() {
    let repo = Repo::new();
    let file = claude_file(
        &repo,
        lines(&[
            claude("1", None, "user", "one"),
            claude("2", Some("1"), "assistant", "ONE"),
            claude("3", Some("2"), "user", "old way"),
            claude("4", Some("3"), "assistant", "OLD"),
            claude("5", Some("2"), "user", "new way"),
            claude("6", Some("5"), "assistant", "NEW"),
        ]),
    );
    let imported = import(&repo, "claude-code", &file);
    let branches = imported["branches"].as_array().expect("branches");
    assert_eq!((&imported["turns"], branches.len()), (&json!(3), 1), "{imported}");
    let text = |session: &str| repo.ok(["session", "show", session, "--full"]).to_string();
    let branch = text(branches[0].as_str().expect("a label"));
    let main = text("claude-code:s");
    assert!(main.contains("new way") && !main.contains("old way"), "{main}");
    assert!(branch.contains("old way") && !branch.contains("new way"), "{branch}");
    assert_eq!(import(&repo, "claude-code", &file)["effect"], "unchanged");
    repo.ok(["verify"]);
}

#[test]
fn bad_records_are_reported_and_the_others_are_imported() {
    let repo = Repo::new();
    let mut text = lines(&[claude("1", None, "user", "one")]).into_bytes();
    text.extend(b"{not json}\n\xff\xfe\n");
    text.extend(
        lines(&[
            // A missing parent, a record twice, a parent that comes later.
            claude("2", Some("missing"), "assistant", "ONE"),
            claude("2", Some("1"), "assistant", "ONE again"),
            claude("3", Some("4"), "user", "two"),
            claude("4", Some("3"), "assistant", "TWO"),
            json!({"type": "of-the-future", "uuid": "9", "parentUuid": "4", "wisdom": "kept"}),
        ])
        .into_bytes(),
    );
    let file = claude_file(&repo, text);
    let imported = import(&repo, "claude-code", &file);
    let problems = imported["problems"].as_array().expect("problems");
    assert_eq!((&problems[0]["line"], &problems[1]["line"]), (&json!(2), &json!(3)), "{imported}");
    assert_eq!(imported["turns"], 2, "{imported}");
    assert_eq!(parts(&repo, "claude-code:s"), [("text".to_owned(), 4)]);
    let shown = repo.ok(["session", "show", "claude-code:s", "--full"]).to_string();
    assert!(shown.contains("of-the-future") && shown.contains("wisdom"), "{shown}");
    let (exit, error) = repo.refuses(["import", "--from", "codex", "no-such-file"]);
    assert_eq!((exit, &error["code"]), (1, &json!("source_unreadable")));
}

#[test]
fn a_session_of_another_tool_is_listed_and_continued_without_an_import() {
    let repo = Repo::new();
    let home = repo.beside("claude");
    let dir = repo.dir().to_str().expect("a path").to_owned();
    let file = home.join("projects/x/s-claude.jsonl");
    std::fs::create_dir_all(file.parent().expect("a directory")).expect("directories");
    std::fs::write(&file, lines(&claude_records(&dir))).expect("a file");
    let repo = repo.with("CLAUDE_CONFIG_DIR", home.to_str().expect("a path"));
    let listed = repo.ok(["continue"]);
    let row = &listed["sessions"][0];
    assert_eq!(
        (&row["id"], &row["tool"], &row["title"], &row["imported"]),
        (&json!("s-claude"), &json!("claude-code"), &json!("List the files"), &json!(false)),
        "{listed}"
    );
    repo.ok(["continue", "s-cl", "help", "--with", "demo"]);
    let shown = repo.ok(["session", "show", "claude-code:s-claude"]);
    assert_eq!(shown["session"]["turn_count"], 2, "{shown}");
    assert_eq!(repo.ok(["continue"])["sessions"][0]["imported"], true);
    // The source has grown meanwhile: its turns are a branch, nothing is overwritten.
    let more =
        [claude("5", Some("a3"), "user", "elsewhere"), claude("6", Some("5"), "assistant", "E")];
    std::fs::write(&file, lines(&claude_records(&dir)) + &lines(&more)).expect("a file");
    let grown = import(&repo, "claude-code", &file);
    let branch = grown["continued_in"].as_str().expect("a branch");
    assert!(repo.ok(["session", "show", branch, "--full"]).to_string().contains("elsewhere"));
    assert_eq!(repo.ok(["session", "show", "claude-code:s-claude"])["session"]["turn_count"], 2);
    let (exit, error) = repo.refuses(["continue", "nobody", "hello"]);
    assert_eq!((exit, &error["code"]), (1, &json!("not_found")));
}

#[test]
fn a_session_of_another_machine_is_continued_in_this_directory() {
    let repo = Repo::new();
    let mut records =
        [claude("1", None, "user", "one"), claude("2", Some("1"), "assistant", "ONE")];
    records[0]["cwd"] = json!("/nowhere/project");
    let file = claude_file(&repo, lines(&records));
    import(&repo, "claude-code", &file);
    let dir = || repo.ok(["session", "show", "claude-code:s"])["session"]["working_dir"].clone();
    assert_eq!(dir(), "/nowhere/project");
    repo.ok(["continue", "claude-code:s", "help", "--with", "demo"]);
    let here = repo.dir().canonicalize().expect("a path");
    assert_eq!(dir(), here.to_str().expect("a path"));
}

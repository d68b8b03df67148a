//! `ctx session …` with a provider that cannot be started: every run fails and is part of the
//! history.

use serde_json::{Value, json};

use crate::harness::repo::{AGENTLESS, Repo};

/// A project whose only agent cannot be started.
fn agentless() -> Repo {
    let repo = Repo::new();
    repo.configure(AGENTLESS);
    repo
}

/// A project with a session that has a failed turn for each text.
fn talked(label: &str, texts: &[&str]) -> Repo {
    let repo = agentless();
    repo.ok(["session", "new", "--label", label]);
    say(&repo, label, texts);
    repo
}

fn say(repo: &Repo, label: &str, texts: &[&str]) {
    for text in texts {
        assert_eq!(repo.fails(["session", "send", label, text]).1["code"], "agent_missing");
    }
}

fn session(repo: &Repo, label: &str) -> Value {
    repo.ok(["session", "show", label])["session"].clone()
}

fn labels(list: &Value) -> Vec<&str> {
    list["sessions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|session| session["label"].as_str().expect("a label"))
        .collect()
}

fn turns(repo: &Repo, label: &str) -> Vec<Value> {
    repo.ok(["session", "tree", label])["turns"].as_array().expect("turns").clone()
}

fn id(turn: &Value) -> &str {
    turn["id"].as_str().expect("an id")
}

#[test]
fn a_new_session_is_idle_and_has_no_messages() {
    // R131, R195
    let repo = agentless();
    let made = repo.ok(["session", "new", "--label", "talk", "--title", "A talk", "--model", "m"])
        ["session"]
        .clone();
    assert_eq!(
        (&made["label"], &made["status"], &made["state"]),
        (&json!("talk"), &json!("active"), &json!("idle"))
    );
    assert_eq!(
        (&made["head"], &made["origin"], &made["track_tasks"]),
        (&Value::Null, &json!("cli"), &json!(false))
    );
    assert!(made["created_at"].is_string() && made["updated_at"].is_string());
    let works = repo.ok(["session", "new", "--dir", "."])["session"].clone();
    assert_eq!(works["track_tasks"], true, "a session that works somewhere tracks tasks");
    assert_eq!(
        repo.ok(["session", "new", "--dir", ".", "--chat"])["session"]["track_tasks"],
        false
    );
    assert_eq!(repo.fails(["session", "new", "--label", "talk"]).1["code"], "label_in_use");
    assert_eq!(
        repo.fails(["session", "new", "--provider", "nobody"]).1["code"],
        "unknown_provider"
    );
    assert_eq!(repo.fails(["session", "new", "--persona", "nobody"]).1["code"], "unknown_persona");
    assert!(
        repo.sql().try_execute("UPDATE sessions SET status = 'completed'").is_err(),
        "there are four values, nothing else"
    );
}

#[test]
fn after_an_error_the_session_takes_the_next_message() {
    // R14, R16, R228
    let repo = talked("talk", &["one", "two"]);
    let shown = repo.ok(["session", "show", "talk"]);
    let roles: Vec<_> = shown["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .map(|message| message["role"].clone())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
    assert_eq!(shown["messages"][1]["content"][0]["type"], "error");
    assert_eq!(
        (&shown["session"]["state"], &shown["session"]["status"]),
        (&json!("idle"), &json!("active"))
    );
    let told = repo.says(["session", "show", "talk"]);
    assert!(told.contains("one") && told.contains("agent_missing"), "{told}");
    repo.assert_whole();
}

#[test]
fn a_transcript_shows_the_newest_or_everything() {
    let texts = ["t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9", "t10", "t11"];
    let repo = talked("talk", &texts);
    let words = |shown: &Value| -> Vec<String> {
        let messages = shown["messages"].as_array().expect("messages").iter();
        messages
            .filter_map(|message| message["content"][0]["text"].as_str().map(str::to_owned))
            .collect()
    };
    let newest = repo.ok(["session", "show", "talk"]);
    assert_eq!(
        (words(&newest), &newest["more"]),
        (texts[1..].iter().map(|&t| t.to_owned()).collect(), &json!(true))
    );
    let two = repo.ok(["session", "show", "talk", "-n", "2"]);
    assert_eq!(words(&two), ["t11"]);
    assert_eq!(words(&repo.ok(["session", "show", "talk", "--full"])), texts);
    assert_eq!(
        repo.says(["session", "show", "talk", "--full"]).matches("[agent_missing]").count(),
        texts.len()
    );
    assert_eq!(words(&repo.ok(["session", "resume", "talk"])), ["t9", "t10", "t11"]);
}

#[test]
fn a_fork_shares_every_turn_and_then_diverges() {
    // R179, R180, R181, R182, R183
    let repo = talked("talk", &["one", "two"]);
    repo.sql().execute("UPDATE sessions SET persona = 'sage' WHERE label = 'talk'");
    let before = turns(&repo, "talk");
    let first = id(&before[0]);
    let fork =
        repo.ok(["session", "fork", "talk", "--turn", &first[..10], "--label", "side"])["session"]
            .clone();
    assert_eq!(
        (&fork["head"], &fork["origin"], &fork["status"]),
        (&json!(first), &json!("fork"), &json!("active"))
    );
    assert_eq!((&fork["persona"], &fork["turn_count"]), (&json!("sage"), &json!(1)));
    let count = |repo: &Repo| repo.sql().number("SELECT count(*) FROM turns");
    assert_eq!(count(&repo), 2, "nothing was copied");
    say(&repo, "side", &["three"]);
    assert_eq!(
        (session(&repo, "side")["turn_count"].clone(), session(&repo, "talk")["head"].clone()),
        (json!(2), before[1]["id"].clone())
    );
    let unnamed = repo.ok(["session", "fork", "talk"])["session"].clone();
    assert!(unnamed["label"].as_str().is_some_and(|label| label.starts_with("fork-")), "{unnamed}");
    let elsewhere =
        repo.ok(["session", "fork", "talk", "--dir", ".", "--label", "there"])["session"].clone();
    assert_eq!(elsewhere["working_dir"], json!(repo.dir().canonicalize().expect("a directory")));
    let drawn = repo.says(["session", "tree", "talk"]);
    assert!(drawn.contains("├─") && drawn.contains("└─") && drawn.contains("← side"), "{drawn}");
}

#[test]
fn a_fork_of_a_missing_session_or_to_a_taken_label_fails() {
    // R184
    let repo = talked("talk", &["one"]);
    repo.ok(["session", "new", "--label", "empty"]);
    let unknown = "f".repeat(64);
    let commit =
        { repo.ok(["stage", "start", "x"])["task"]["head"].as_str().expect("a step").to_owned() };
    for (arguments, code) in [
        (vec!["session", "fork", "talk", "--turn", &unknown], "not_found"),
        (vec!["session", "fork", "talk", "--turn", &commit], "not_found"),
        (vec!["session", "fork", "talk", "--label", "empty"], "label_in_use"),
        (vec!["session", "fork", "empty"], "nothing_to_fork"),
        (vec!["session", "fork", "nobody"], "no_session"),
    ] {
        assert_eq!(repo.refuses(arguments.clone()).1["code"], code, "{arguments:?}");
    }
    assert_eq!(labels(&repo.ok(["session", "list", "--all"])).len(), 3);
}

#[test]
fn rewind_leaves_the_later_turns_in_the_tree() {
    let repo = talked("talk", &["one", "two"]);
    let before = turns(&repo, "talk");
    let back = repo.ok(["session", "rewind", "talk", id(&before[0])])["session"].clone();
    assert_eq!((&back["head"], &back["turn_count"]), (&before[0]["id"], &json!(1)));
    assert_eq!(
        repo.fails(["session", "rewind", "talk", id(&before[1])]).1["code"],
        "not_an_ancestor"
    );
    say(&repo, "talk", &["three"]);
    assert_eq!(turns(&repo, "talk").len(), 3);
    assert_eq!(repo.fails(["session", "retry", "talk"]).1["code"], "agent_missing");
    assert_eq!((turns(&repo, "talk").len(), &session(&repo, "talk")["turn_count"]), (4, &json!(2)));
    repo.ok(["session", "new", "--label", "empty"]);
    assert_eq!(repo.fails(["session", "retry", "empty"]).1["code"], "nothing_to_retry");
}

#[test]
fn an_archived_session_is_readable_and_hidden_until_a_new_message() {
    // R16, R206, R207, R210, R216
    let repo = talked("talk", &["one"]);
    assert_eq!(repo.ok(["session", "archive", "talk"])["session"]["status"], "archived");
    let list = repo.ok(["session", "list"]);
    assert_eq!((labels(&list), &list["hidden"]["archived"]), (vec![], &json!(1)));
    assert!(labels(&repo.ok(["session", "list", "--archived"])).contains(&"talk"));
    assert_eq!(repo.ok(["session", "show", "talk"])["messages"][0]["content"][0]["text"], "one");
    assert_eq!(repo.ok(["session", "unarchive", "talk"])["session"]["status"], "active");
    repo.ok(["session", "archive", "talk"]);
    say(&repo, "talk", &["two"]);
    assert_eq!(session(&repo, "talk")["status"], "active");
    repo.sql().execute("UPDATE sessions SET status = 'error' WHERE label = 'talk'");
    let listed = repo.ok(["session", "list", "--archived"]);
    assert!(labels(&listed).is_empty(), "a damaged one is not shown: {listed}");
    assert!(labels(&repo.ok(["session", "list", "--all"])).contains(&"talk"));
    assert_eq!(repo.fails(["session", "send", "talk", "x"]).1["code"], "session_error");
}

#[test]
fn deleting_is_permanent_and_a_script_must_confirm_it() {
    // R210
    let repo = talked("talk", &["one"]);
    let (exit, error) = repo.refuses(["session", "delete", "talk"]);
    assert_eq!((exit, &error["code"]), (2, &json!("not_confirmed")));
    assert_eq!(repo.ok(["session", "delete", "talk", "--yes"])["label"], "talk");
    assert_eq!(repo.fails(["session", "show", "talk"]).1["code"], "no_session");
    repo.assert_whole();
}

#[test]
fn sessions_are_listed_by_text_and_by_waiting_messages() {
    let repo = talked("talk", &["one"]);
    repo.ok(["session", "new", "--label", "other", "--title", "Retry logic"]);
    assert_eq!(labels(&repo.ok(["session", "list", "retry"])), ["other"]);
    assert_eq!(labels(&repo.ok(["session", "list", "-n", "1"])).len(), 1);
    assert!(labels(&repo.ok(["session", "list", "--project", "elsewhere"])).is_empty());
    assert!(labels(&repo.ok(["session", "list", "--waiting"])).is_empty());
    repo.ok(["stage", "start", "x"]);
    repo.ok(["stage", "ask", "Which?"]);
    assert_eq!(labels(&repo.ok(["session", "list", "--waiting"])), ["main"]);
}

#[test]
fn the_default_session_is_listed_once_it_has_a_turn() {
    let repo = agentless();
    repo.ok(["stage", "start", "x"]);
    assert!(labels(&repo.ok(["session", "list"])).is_empty());
    assert_eq!(labels(&repo.ok(["session", "list", "--all"])), ["main"]);
    assert_eq!(repo.ok(["status"])["sessions"][0]["label"], "main");
    say(&repo, "main", &["hello"]);
    assert_eq!(labels(&repo.ok(["session", "list"])), ["main"]);
}

#[test]
fn waiting_messages_are_listed_edited_moved_and_withdrawn() {
    let repo = talked("talk", &["one"]);
    let sent: Vec<Value> = ["a", "b", "c"]
        .map(|text| repo.ok(["session", "send", "talk", text, "--no-wait"])["message"].clone())
        .to_vec();
    assert_eq!(sent.iter().map(|sent| sent["position"].clone()).collect::<Vec<_>>(), [1, 2, 3]);
    let ids: Vec<&str> =
        sent.iter().map(|sent| sent["message_id"].as_str().expect("an id")).collect();
    let texts = |inbox: Value| -> Vec<String> {
        inbox["items"]
            .as_array()
            .expect("items")
            .iter()
            .map(|item| item["text"].as_str().expect("a text").to_owned())
            .collect()
    };
    assert_eq!(
        texts(repo.ok(["session", "inbox", "talk", "--move", ids[2], "1"])),
        ["c", "a", "b"]
    );
    assert_eq!(
        texts(repo.ok(["session", "inbox", "talk", "--edit", ids[0], "A"])),
        ["c", "A", "b"]
    );
    assert_eq!(texts(repo.ok(["session", "inbox", "talk", "--withdraw", ids[1]])), ["c", "A"]);
    assert_eq!(repo.fails(["session", "inbox", "talk", "--withdraw", ids[1]]).1["code"], "no_item");
    assert_eq!(repo.fails(["session", "inbox", "talk", "--move", ids[0], "0"]).0, 2);
    assert_eq!(session(&repo, "talk")["turn_count"], 1, "nobody ran them");
    // The next process runs them all, in order.
    say(&repo, "talk", &["last"]);
    let shown = repo.ok(["session", "show", "talk", "--full"]);
    let asked = shown["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .filter(|message| message["role"] == "user");
    assert_eq!(
        asked.map(|message| message["content"][0]["text"].clone()).collect::<Vec<_>>(),
        ["one", "last", "c", "A"]
    );
    assert_eq!(texts(repo.ok(["session", "inbox", "talk"])), Vec::<String>::new());
}

#[test]
fn a_full_inbox_and_refused_delivery_are_reported() {
    let repo = talked("talk", &["one"]);
    for _ in 0..20 {
        repo.ok(["session", "send", "talk", "x", "--no-wait"]);
    }
    let (_, error) = repo.refuses(["session", "send", "talk", "x", "--no-wait"]);
    assert!(
        error["code"] == "inbox_full"
            && error["hint"].as_str().is_some_and(|hint| hint.contains("--withdraw")),
        "{error}"
    );
    repo.sql().execute("UPDATE sessions SET delivery = 'refuse'");
    assert_eq!(repo.fails(["session", "send", "talk", "x"]).1["code"], "delivery_refused");
    repo.sql().execute("UPDATE sessions SET delivery = 'hold'");
    repo.ok(["session", "new", "--label", "held"]);
    repo.sql().execute("UPDATE sessions SET delivery = 'hold'");
    let told = repo.says(["session", "send", "held", "x"]);
    assert!(
        told.contains("Messages waiting: 1"),
        "a session that holds its messages is not waited for: {told}"
    );
}

#[test]
fn a_prompt_is_shown_and_answered() {
    let repo = agentless();
    repo.ok(["session", "new", "--label", "work", "--dir", "."]);
    say(&repo, "work", &["Add retry logic to the client"]);
    repo.write("client.rs", "fn retry() {}");
    repo.ok(["--session", "work", "stage", "observe", "file-write", "client.rs"]);
    let asked =
        repo.ok(["session", "send", "work", "Different topic: write the docs for the parser"]);
    assert_eq!(asked["session"]["pending_prompt"]["kind"], "new_task", "{asked}");
    let told = repo.says(["session", "resume", "work"]);
    assert!(
        told.contains("unfinished work") && told.contains("ctx session answer work start_fresh"),
        "{told}"
    );
    let (exit, error) = repo.refuses(["session", "answer", "work", "perhaps"]);
    assert_eq!((exit, &error["code"]), (2, &json!("bad_answer")));
    assert_eq!(repo.fails(["session", "answer", "work"]).0, 2);
    assert_eq!(repo.fails(["session", "answer", "work", "start_fresh"]).1["code"], "agent_missing");
    let after = session(&repo, "work");
    assert_eq!((&after["pending_prompt"], &after["turn_count"]), (&Value::Null, &json!(3)));
    assert_eq!(repo.commits().len(), 1, "the task before was saved");
}

#[test]
fn an_answer_to_nothing_is_refused() {
    let repo = talked("talk", &["one"]);
    assert_eq!(repo.fails(["session", "answer", "talk", "yes"]).1["code"], "no_suspension");
    assert_eq!(
        repo.fails(["session", "answer", "talk", "--result", "a=b"]).1["code"],
        "no_suspension"
    );
    assert_eq!(repo.fails(["session", "answer", "talk", "--result", "nothing"]).0, 2);
    let unknown = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    assert_eq!(
        repo.fails(["session", "answer", "talk", "yes", "--suspension", unknown]).1["code"],
        "no_suspension"
    );
    assert_eq!(repo.ok(["session", "cancel", "talk"])["session"]["state"], "idle");
}

#[test]
fn following_from_the_start_prints_every_event_once() {
    let repo = talked("talk", &["one", "two"]);
    let told = repo.says(["session", "tail", "talk", "--from", "0", "--until-idle"]);
    let lines: Vec<&str> = told.lines().filter(|line| line.starts_with("> ")).collect();
    assert_eq!((lines, told.matches("agent_missing").count()), (vec!["> one", "> two"], 2));
    let output = repo.run(["--json", "session", "tail", "talk", "--from", "0", "--until-idle"]);
    let events: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("json"))
        .collect();
    let numbers: Vec<u64> =
        events.iter().map(|event| event["seq"].as_u64().expect("a number")).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(events[0]["type"], "session.created");
    assert_eq!(repo.says(["session", "tail", "talk", "--until-idle"]), "");
    repo.ok(["session", "send", "talk", "three", "--no-wait"]);
    assert_eq!(
        repo.says(["session", "tail", "talk", "--until-idle"]),
        "",
        "a session without a runner is not waited for"
    );
}
